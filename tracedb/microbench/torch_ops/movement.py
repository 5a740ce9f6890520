"""Moving data: concatenation, copies, indexing, and copies between host and GPU."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..case import Case
from ..errors import UnsupportedError
from .tensors import Maker, op_of

_Work = Callable[[], object]

_CONCATS: dict[str, Callable[..., object]] = {
    "cat": torch.cat,
    "split": torch.ops.aten.split_with_sizes_copy,
}


def concat(case: Case, device: torch.device) -> _Work:
    """Concatenate tensors along the rows, or split the result."""
    make = Maker.of(case, device)
    s = case.shape
    op = op_of(case, _CONCATS)
    widths = [s["width"] // s["tensors"]] * s["tensors"]
    widths[-1] += s["width"] % s["tensors"]
    if case.op == "cat":
        return partial(op, [make.random(s["rows"], width) for width in widths], 1)
    return partial(op, make.random(s["rows"], s["width"]), widths, 1)


def _copy(target: Tensor, source: Tensor) -> Tensor:
    return target.copy_(source)


def _contiguous(source: Tensor) -> Tensor:
    """Copy into new memory; `contiguous` may return a matrix of one row unchanged."""
    return source.clone(memory_format=torch.contiguous_format)


_COPIES: dict[str, Callable[..., object]] = {
    "copy": _copy,
    "transpose": _contiguous,
    "contiguous": _contiguous,
}


def copy(case: Case, device: torch.device) -> _Work:
    """Copy a batch of matrices: contiguous, transposed, or a slice of a wider one."""
    make = Maker.of(case, device)
    s = case.shape
    op = op_of(case, _COPIES)
    if case.op == "transpose":
        return partial(op, make.random(s["batch"], s["width"], s["rows"]).mT)
    if case.op == "contiguous":
        wide = make.random(s["batch"], s["rows"], 2 * s["width"])
        return partial(op, wide[..., : s["width"]])
    source = make.random(s["batch"], s["rows"], s["width"])
    return partial(op, torch.empty_like(source), source)


def index(case: Case, device: torch.device) -> _Work:
    """Take, put or keep elements by index."""
    make = Maker.of(case, device)
    builders = {"tril": _tril, "gather": _gather, "index": _index, "scatter": _scatter}
    if case.op not in builders:
        raise UnsupportedError(
            f"index: no op {case.op}; available: {', '.join(builders)}"
        )
    return builders[case.op](make, case.shape["rows"], case.shape["width"])


def _tril(make: Maker, rows: int, width: int) -> _Work:
    return partial(torch.tril, make.random(rows, width))


def _gather(make: Maker, rows: int, width: int) -> _Work:
    source = make.random(rows, width)
    return partial(torch.gather, source, 1, make.indices(width, rows, width))


def _index(make: Maker, rows: int, width: int) -> _Work:
    """Take all rows in random order."""
    source, order = make.random(rows, width), make.indices(rows, rows)
    return lambda: source[order]


def _scatter(make: Maker, rows: int, width: int) -> _Work:
    source, places = make.random(rows, width), make.indices(width, rows, width)
    return partial(torch.zeros_like(source).scatter_, 1, places, source)


_DIRECTIONS: dict[str, tuple[bool, bool, bool]] = {
    # from the GPU, to the GPU, with pinned memory
    "h2d": (False, True, True),
    "d2h": (True, False, True),
    "h2d_pageable": (False, True, False),
    "d2h_pageable": (True, False, False),
    "d2d": (True, True, False),
}


def memcpy(case: Case, device: torch.device) -> _Work:
    """Copy bytes between host and GPU, or on one of them."""
    if case.op not in _DIRECTIONS:
        raise UnsupportedError(
            f"memcpy: no op {case.op}; available: {', '.join(_DIRECTIONS)}"
        )
    if device.type == "cpu" and case.op != "d2d":
        raise UnsupportedError(f"memcpy: {case.op} needs a GPU")
    from_gpu, to_gpu, pinned = _DIRECTIONS[case.op]
    source = _raw(case.shape["bytes"], device, on_gpu=from_gpu, pinned=pinned).fill_(1)
    target = _raw(case.shape["bytes"], device, on_gpu=to_gpu, pinned=pinned)
    return lambda: target.copy_(source, non_blocking=pinned)


def _raw(count: int, device: torch.device, *, on_gpu: bool, pinned: bool) -> Tensor:
    if on_gpu:
        return torch.empty(count, dtype=torch.uint8, device=device)
    return torch.empty(count, dtype=torch.uint8, pin_memory=pinned)


def memset(case: Case, device: torch.device) -> _Work:
    """Fill bytes with zeros."""
    if case.op != "memset":
        raise UnsupportedError(f"memset: no op {case.op}; available: memset")
    return torch.empty(case.shape["bytes"], dtype=torch.uint8, device=device).zero_
