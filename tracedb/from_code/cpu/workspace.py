"""The memory that some ops of a CPU need beside their results.

oneDNN copies inputs, weights and results to layouts of its own, which depend on the CPU
and the shape. So each convolution runs for real, as do the ops of `aten` that allocate
within their kernels. If examples are many, few of them run, twice, and the sizes of
what is allocated in turn are lines through these. A recurrent layer keeps its workspace
for the backward pass; it runs for real, too. So do pools and the like where tensors are
not contiguous (`channels_last`): they copy some of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tracedb.from_code import place
from tracedb.from_code.casting import HALF
from tracedb.from_code.fake_mesh import really
from tracedb.from_code.memory import workspace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tracedb.from_code.memory import Holding

_ATEN: Any = torch.ops.aten
_RECURRENT = _ATEN.mkldnn_rnn_layer.default
"""A layer of an LSTM, which only CPUs have."""
_EXPONENTIAL = _ATEN.linalg_matrix_exp.default
"""Its series is as long as its matrices are large: for ones, it has all terms."""
_PARAMETRIZED = f"{Path('nn', 'utils', 'parametrizations.py')}"
_NEAR = 0.3
"""The norm of such a matrix of an orthogonal weight that is near its initial one."""
_FIRST, _BOTH = (0,), (0, 1)
_BATCHED: dict[Any, tuple[int, ...]] = {
    _ATEN.convolution.default: _FIRST,
    _ATEN.convolution_backward.default: _BOTH,
    _ATEN.native_batch_norm_backward.default: _BOTH,
    _ATEN.upsample_bilinear2d.default: _FIRST,
    _ATEN.upsample_bicubic2d.default: _FIRST,
    _ATEN.upsample_nearest2d.default: _FIRST,
    _ATEN.upsample_linear1d.default: _FIRST,
    _ATEN.upsample_nearest1d.default: _FIRST,
    _ATEN.upsample_trilinear3d.default: _FIRST,
    _ATEN.upsample_nearest3d.default: _FIRST,
    _ATEN.kthvalue.default: _FIRST,
    _ATEN.median.dim: _FIRST,
    _ATEN.nanmedian.dim: _FIRST,
    _ATEN.mode.default: _FIRST,
    _ATEN.roll.default: _FIRST,
    _ATEN.mm.default: _FIRST,
    _ATEN.bmm.default: _BOTH,
    _ATEN.im2col.default: _FIRST,
    _ATEN.col2im.default: _FIRST,
    _ATEN._ctc_loss_backward.default: (),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._ctc_loss_backward.Tensor: (),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default: (0, 1, 2),  # noqa: SLF001
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward.default: tuple(range(6)),  # noqa: SLF001
    _ATEN._trilinear.default: (),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._linalg_eigh.default: (),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._linalg_svd.default: (),  # noqa: SLF001 (as PyTorch names it)
    _ATEN.linalg_eig.default: (),
    _EXPONENTIAL: (),
    _RECURRENT: (),
    _ATEN.mkldnn_rnn_layer_backward.default: (),
}
"""Which arguments have the batch as their first dimension.

A recurrent layer, where it is not the first one, runs as it is.
"""
_COPYING: dict[Any, tuple[int, ...]] = {
    _ATEN.avg_pool2d.default: _FIRST,
    _ATEN.avg_pool2d_backward.default: _BOTH,
    _ATEN.max_pool2d_with_indices.default: _FIRST,
    _ATEN.max_pool2d_with_indices_backward.default: (0, 1, 7),
    _ATEN._adaptive_avg_pool2d.default: _FIRST,  # noqa: SLF001 (as PyTorch names it)
    _ATEN._adaptive_avg_pool2d_backward.default: _BOTH,  # noqa: SLF001
    _ATEN.adaptive_max_pool2d.default: _FIRST,
    _ATEN.adaptive_max_pool2d_backward.default: (0, 1, 2),
    _ATEN.avg_pool3d.default: _FIRST,
    _ATEN.avg_pool3d_backward.default: _BOTH,
    _ATEN.max_pool3d_with_indices.default: _FIRST,
    _ATEN.max_pool3d_with_indices_backward.default: (0, 1, 7),
    _ATEN.reflection_pad2d.default: _FIRST,
    _ATEN.reflection_pad2d_backward.default: _BOTH,
    _ATEN.replication_pad2d.default: _FIRST,
    _ATEN.replication_pad2d_backward.default: _BOTH,
    _ATEN.native_layer_norm.default: _FIRST,
    _ATEN.native_layer_norm_backward.default: (0, 1, 3, 4),
    _ATEN.pixel_shuffle.default: _FIRST,
    _ATEN.pixel_unshuffle.default: _FIRST,
    _ATEN.channel_shuffle.default: _FIRST,
    _ATEN.log_sigmoid_forward.default: _FIRST,
    _ATEN.glu_backward.default: _BOTH,
    _ATEN.rrelu_with_noise.default: _BOTH,
}
"""The same, of ops that copy tensors to the layout in which they compute."""
_PRODUCTS: dict[Any, tuple[Any, int]] = {
    _ATEN.mm.default: (_ATEN.mm.default, 0),
    _ATEN.addmm.default: (_ATEN.mm.default, 1),
    _ATEN.bmm.default: (_ATEN.bmm.default, 0),
    _ATEN.baddbmm.default: (_ATEN.bmm.default, 1),
}
"""The product of each op, and where its two factors begin.

oneDNN computes those in half precision, in blocks: more rows need no more memory.
"""
_MOST_ROWS = 1024
_MOST_BYTES = 16_000_000
"""[B] Inputs of this size run with all examples."""
_FEWEST = 4
"""Fewer examples may be computed by other code."""
_RANGE = "tracedb workspace "


@dataclass(frozen=True)
class _Tensor:
    """The size and the layout of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def made(self, batch: int | None, value: float = 0) -> torch.Tensor:
        """A real one of one value, with another batch size if one is given."""
        shape = self.shape if batch is None else (batch, *self.shape[1:])
        made = torch.empty_strided(shape, self.strides, dtype=self.dtype)
        return made.fill_(value)


@dataclass(frozen=True)
class Call:
    """A call of such an op."""

    func: Any
    arguments: tuple[object, ...]
    value: float = 0
    """That of all elements of what it is given."""

    @property
    def is_near(self) -> bool:
        """Whether it is the exponential of small matrices."""
        return self.func is _EXPONENTIAL and self.value < 1

    @property
    def size(self) -> int:
        """The last dimension of what it is given."""
        given = self.arguments[0]
        return given.shape[-1] if isinstance(given, _Tensor) else 1

    @property
    def batch(self) -> int:
        """Its number of examples."""
        given = self.arguments[0]
        return given.shape[0] if isinstance(given, _Tensor) else 1

    @property
    def sizes(self) -> tuple[int, int]:
        """The batch sizes with which it runs."""
        given = (self.arguments[position] for position in _places(self.func))
        example = sum(
            prod(one.shape[1:]) * one.dtype.itemsize
            for one in given
            if isinstance(one, _Tensor)
        )
        most = max(_MOST_BYTES // max(example, 1), _FEWEST)
        if self.func in _PRODUCTS:
            most = min(most, _MOST_ROWS)
        return (most // 2, most) if most < self.batch else (self.batch, self.batch)

    def run(self, batch: int) -> object:
        """Run it with so many examples."""
        batched = _places(self.func)
        given = [
            one.made(batch if position in batched else None, self.value)
            if isinstance(one, _Tensor)
            else one
            for position, one in enumerate(self.arguments)
        ]
        with record_function(f"{_RANGE}"):
            return self.func(*given)


def call(
    func: Any,  # noqa: ANN401 (an overload)
    args: Sequence[Any],
    before: Iterable[Call],
) -> Call | None:
    """The call of an op, if it is one that needs memory beside its results."""
    if func in _PRODUCTS:
        func, begin = _PRODUCTS[func]
        args = args[begin : begin + 2]
        if args[0].dtype not in HALF:
            return None
    is_known = func in _BATCHED or (func in _COPYING and _is_strided(args))
    if not is_known:
        return None
    value = _exponent(args[0].shape[-1], before) if func is _EXPONENTIAL else 0
    return Call(func, tuple(map(_argument, args)), value)


def _exponent(size: int, before: Iterable[Call]) -> float:
    """The elements of matrices whose exponential has the usual number of terms.

    The gradient of an exponential is one of matrices of twice the size.
    """
    is_near = place.of_torch().endswith(_PARAMETRIZED) or any(
        call.is_near and 2 * call.size == size for call in before
    )
    return _NEAR / size if is_near else 1


def _places(func: Any) -> tuple[int, ...]:  # noqa: ANN401 (an overload)
    """Which arguments of such an op have the batch as their first dimension."""
    found = _BATCHED.get(func)
    return _COPYING[func] if found is None else found


def _is_strided(args: Sequence[Any]) -> bool:
    """Whether a tensor is not contiguous in the usual order of its dimensions."""
    tensors = (one for one in args if isinstance(one, torch.Tensor))
    return not all(one.is_contiguous() for one in tensors)


def kept(func: Any, args: Sequence[object], result: Any) -> object:  # noqa: ANN401 (an overload, and what it returns)
    """An op's result: a recurrent layer's fake one has no workspace."""
    if func is not _RECURRENT:
        return result
    *found, empty = result
    return *found, empty.new_empty(_kept_bytes(Call(func, tuple(map(_argument, args)))))


@lru_cache(maxsize=256)
def _kept_bytes(layer: Call) -> int:
    """[B] The workspace that a recurrent layer keeps."""
    with really():
        given = [
            one.made(None) if isinstance(one, _Tensor) else one
            for one in layer.arguments
        ]
        workspace: torch.Tensor | None = layer.func(*given)[-1]
    return 0 if workspace is None else workspace.numel()


def _argument(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return _Tensor(tuple(value.shape), value.stride(), value.dtype)
    return tuple(value) if isinstance(value, list) else value


def holdings(calls: Mapping[int, Call], begin: int) -> Iterator[Holding]:
    """The workspace of each call, by the number of its op; times are from `begin`."""
    kinds = list(dict.fromkeys(calls.values()))
    changes = dict(zip(kinds, _measured(kinds), strict=True))
    for number, one in calls.items():
        name = one.func._schema.name  # noqa: SLF001 (it has no public name)
        size = _beside_results(changes[one], one.sizes, one.batch)
        yield workspace_of(name, size, number - begin)


_Changes = list[list[int]]
"""For each of two batch sizes, the changes of the memory in bytes."""


def _measured(calls: Sequence[Call]) -> list[_Changes]:
    """What each call allocates and frees, with each of its batch sizes."""
    if not calls:
        return []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for one in calls:
            for batch in one.sizes:
                one.run(batch)
    with TemporaryDirectory(prefix="tracedb-") as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    ranges = sorted(
        (e["ts"], e["ts"] + e["dur"])
        for e in events
        if e["name"] == _RANGE and e.get("cat") == "user_annotation"
    )
    changes = [
        (e["ts"], int(e["args"]["Bytes"])) for e in events if e["name"] == "[memory]"
    ]
    changes.sort(key=lambda change: change[0])
    found = [
        [size for at, size in changes if first <= at <= last] for first, last in ranges
    ]
    return [[*pair] for pair in zip(found[::2], found[1::2], strict=True)]


def _beside_results(changes: _Changes, sizes: tuple[int, int], batch: int) -> int:
    """[B] The most memory that is held at once, without what is kept.

    >>> _beside_results([[20, 9, -9], [40, 9, -9]], (2, 4), 8)
    9
    >>> _beside_results([[20, -20, 9], [40, -40, 9]], (2, 4), 8)
    71
    """
    few, more = changes
    if sizes[1] == batch:
        return _peak(more)
    if len(few) != len(more):
        return _peak(more) * batch // sizes[1]
    steps = (batch - sizes[0]) / (sizes[1] - sizes[0])
    return _peak([round(a + (b - a) * steps) for a, b in zip(few, more, strict=True)])


def _peak(changes: Sequence[int]) -> int:
    """[B] The most that is held at once, without what is kept in the end.

    >>> _peak([100, 50, -50, 20, -100]), _peak([])
    (130, 0)
    """
    return max(accumulate(changes), default=0) - sum(changes)
