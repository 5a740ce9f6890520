"""Builders of cases for NumPy and CuPy, one per family."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .case import ARITY, Case
from .errors import UnsupportedError

_Work = Callable[[], object]
_DTYPES = ("float64", "float32", "float16", "int8")
_PRODUCTS = ("mm", "bmm", "gemm")
_UFUNCS = {"add": "add", "mul": "multiply", "sub": "subtract", "div": "divide"} | {
    name: name for name in ("exp", "sqrt", "tanh")
}
_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "max"}


def _chance(arrays: Any) -> Any:  # noqa: ANN401
    """A random generator, whose interface NumPy and CuPy share."""
    return arrays.random.default_rng(0)


def _random(case: Case, arrays: Any, *shape: int) -> Any:  # noqa: ANN401
    """Make an array of random values of the case's dtype."""
    if case.dtype not in _DTYPES:
        raise UnsupportedError(f"{case.family}: no {case.dtype} in {arrays.__name__}")
    numbers = _chance(arrays).random(shape, dtype="float32")
    return (numbers * 99 if case.dtype == "int8" else numbers).astype(case.dtype)


def _named(case: Case, names: Mapping[str, str] | tuple[str, ...]) -> None:
    """Raise UnsupportedError for an op that is not in its family's table."""
    if case.op not in names:
        raise UnsupportedError(
            f"{case.family}: no op {case.op}; available: {', '.join(names)}"
        )


def _gemm(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Multiply matrices."""
    _named(case, _PRODUCTS)
    batch, m, n, k = (case.shape[name] for name in ("batch", "m", "n", "k"))
    front = (batch,) if batch > 1 or case.op == "bmm" else ()
    left = _random(case, arrays, *front, m, k)
    return partial(arrays.matmul, left, _random(case, arrays, *front, k, n))


def _elementwise(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Elementwise ops; a second operand that is not read is a number."""
    _named(case, _UFUNCS)
    inputs, _ = ARITY[case.op]
    given = case.shape["inputs"]
    operands = [_random(case, arrays, case.shape["elements"]) for _ in range(given)]
    two = arrays.asarray(2, dtype=case.dtype)
    return partial(
        getattr(arrays, _UFUNCS[case.op]), *operands, *[two] * (inputs - given)
    )


def _reduction(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Reduce every row to one number."""
    _named(case, _REDUCTIONS)
    x = _random(case, arrays, case.shape["rows"], case.shape["width"])
    return partial(getattr(arrays, _REDUCTIONS[case.op]), x, axis=1)


def _concat(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Concatenate arrays along the rows, or copy the parts of one."""
    _named(case, ("cat", "split"))
    s = case.shape
    x = _random(case, arrays, s["rows"], s["width"])
    parts = arrays.array_split(x, s["tensors"], axis=1)
    if case.op == "split":
        return lambda: [part.copy() for part in parts]
    return partial(arrays.concatenate, [part.copy() for part in parts], axis=1)


def _copy(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Copy a batch of matrices: contiguous, transposed, or a slice of a wider one."""
    _named(case, ("copy", "transpose", "contiguous"))
    batch, rows, width = (case.shape[name] for name in ("batch", "rows", "width"))
    if case.op == "transpose":
        wide = _random(case, arrays, batch, width, rows)
        return partial(arrays.copy, wide.swapaxes(-1, -2), "C")  # CuPy has no `mT`
    if case.op == "contiguous":
        wide = _random(case, arrays, batch, rows, 2 * width)
        return partial(arrays.copy, wide[..., :width], "C")
    source = _random(case, arrays, batch, rows, width)
    return partial(arrays.copyto, arrays.empty_like(source), source)


def _index(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Select or keep elements by index."""
    _named(case, ("tril", "gather", "index"))
    rows, width = case.shape["rows"], case.shape["width"]
    x = _random(case, arrays, rows, width)
    if case.op == "tril":
        return partial(arrays.tril, x)
    if case.op == "gather":
        places = _chance(arrays).integers(0, width, (rows, width))
        return partial(arrays.take_along_axis, x, places, axis=1)
    order = _chance(arrays).integers(0, rows, rows)
    return lambda: x[order]


def _lookup(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Look up single rows, drawn evenly from the table."""
    _named(case, ("embedding", "index_select"))
    s = case.shape
    table = _random(case, arrays, s["table_rows"], s["width"])
    rows = _chance(arrays).integers(0, s["table_rows"], s["rows"])
    return partial(arrays.take, table, rows, axis=0)


def _memcpy(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Copy bytes between host and GPU, or on one of them."""
    _named(case, ("d2d", "h2d", "d2h", "h2d_pageable", "d2h_pageable"))
    count = case.shape["bytes"]
    here = arrays.ones(count, dtype="uint8")
    if case.op == "d2d":
        return partial(arrays.copyto, arrays.empty_like(here), here)
    if not hasattr(arrays, "cuda"):
        raise UnsupportedError(f"memcpy: {case.op} needs a GPU")
    host = _host_bytes(count, arrays, pinned=not case.op.endswith("_pageable"))
    if case.op.startswith("h2d"):
        return lambda: here.set(host)
    return lambda: here.get(out=host, blocking=False)


def _host_bytes(count: int, arrays: Any, *, pinned: bool) -> Any:  # noqa: ANN401
    import numpy as np

    if not pinned:
        return np.ones(count, dtype=np.uint8)
    return np.frombuffer(arrays.cuda.alloc_pinned_memory(count), np.uint8, count)


def _memset(case: Case, arrays: Any) -> _Work:  # noqa: ANN401
    """Fill bytes with zeros."""
    _named(case, ("memset",))
    return partial(arrays.empty(case.shape["bytes"], dtype="uint8").fill, 0)


BUILDERS: Mapping[str, Callable[[Case, Any], _Work]] = {
    "gemm": _gemm,
    "elementwise": _elementwise,
    "reduction": _reduction,
    "concat": _concat,
    "copy": _copy,
    "index": _index,
    "embedding": _lookup,
    "memcpy": _memcpy,
    "memset": _memset,
}
