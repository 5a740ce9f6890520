"""The way in which PyTorch computes attention: FlashAttention, efficient, or products.

The rules are those of PyTorch 2.13 (sdp_utils.cpp, sdp_utils_cpp.h), as far as sizes,
strides and types decide; the same for code and for graphs, so without PyTorch. cuDNN's
attention counts as the next way that is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FLASH, EFFICIENT, MATH = "flash", "efficient", "math"
ORDER = (FLASH, EFFICIENT, MATH)
"""PyTorch's order of preference."""
HALF = ("c10::Half", "c10::BFloat16")
"""Types of half precision, as the profiler names them."""
PADDED = 8
"""FlashAttention takes heads of a multiple of this size."""

_ON_CPU = ("double", "float", *HALF)
_FLASH_HEAD = 256
"""Largest head size that FlashAttention takes."""
_DIMENSIONS = 4
"""Number of dimensions of queries, keys and values that fused ways take."""
_TRAINED_HEAD, _WIDE_HEAD = 192, 224
"""Small GPUs train FlashAttention with heads up to the first, or above the second."""
_ROW_BYTES = 16
"""[B] Rows of tensor cores."""
_AMPERE, _VOLTA = (8, 0), (7, 0)
_SMALL = (((8, 6), (8, 9)), ((12, 0), (12, 1)))
"""GPUs that have less shared memory than the others of their generation."""


@dataclass(frozen=True)
class Operand:
    """Queries, keys, values or a mask: sizes, strides and type.

    Without strides, which old graphs do not record, its elements are in order.
    """

    dims: tuple[int, ...]
    dtype: str
    element_bytes: int
    strides: tuple[int, ...] = ()
    needs_gradient: bool = False

    @property
    def has_rows(self) -> bool:
        """Whether elements of the last dimension lie side by side."""
        return not self.strides or self.strides[-1] == 1


@dataclass(frozen=True)
class Question:
    """A call of `scaled_dot_product_attention`, as far as it decides the way.

    `gpu` is the GPU's compute capability (None: not known, taken for a recent one).
    """

    query: Operand
    key: Operand
    value: Operand
    mask: Operand | None = None
    has_dropout: bool = False
    is_causal: bool = False
    is_grouped: bool = False
    is_trained: bool = False
    gpu: tuple[int, int] | None = None

    def way(self, order: tuple[str, ...] = ORDER, *, on_gpu: bool = True) -> str | None:
        """The first possible way, of those that are enabled; None if there is none."""
        possible: dict[str, Callable[[], bool]] = {MATH: lambda: True}
        if on_gpu:
            possible |= {FLASH: self._is_flash, EFFICIENT: self._is_efficient}
        else:
            possible |= {FLASH: self._is_flash_on_cpu}
        return next((w for w in order if w in possible and possible[w]()), None)

    @property
    def _heads(self) -> tuple[Operand, Operand, Operand]:
        return self.query, self.key, self.value

    def _is_flash_on_cpu(self) -> bool:
        return (
            not self.has_dropout
            and self._is_dense(of_groups=True)
            and self._is_mask_broadcast
            and len({each.dims[-1] for each in self._heads}) == 1
            and all(each.has_rows for each in self._heads)
            and self._is_of(_ON_CPU)
        )

    def _is_flash(self) -> bool:
        gpu = self.gpu or _AMPERE
        head = self.query.dims[-1]
        return (
            gpu >= _AMPERE
            and self.mask is None
            and self._is_dense(of_groups=True)
            and {each.dims[-1] for each in self._heads} == {head}
            and head <= _FLASH_HEAD
            and not self._is_too_wide(gpu, head)
            and not (self.is_causal and self.query.dims[-2] != self.key.dims[-2])
            and (head == 1 or all(each.has_rows for each in self._heads))
            and self._is_of(HALF)
        )

    def _is_efficient(self) -> bool:
        gpu = self.gpu or _AMPERE
        types = ("float", *(HALF if gpu >= _AMPERE else HALF[:1]))
        is_tensor_core = gpu >= _AMPERE or (gpu >= _VOLTA and self.query.dtype in HALF)
        rows = _ROW_BYTES // self.query.element_bytes if is_tensor_core else 1
        last = [each.dims[-1] for each in self._heads]
        masks = () if self.mask is None else (self.mask,)
        return (
            self._is_dense(of_groups=False)
            and last[0] == last[1]
            and all(size and size % rows == 0 for size in last)
            and all(each.has_rows for each in (*self._heads, *masks))
            and self._is_of(types)
        )

    def _is_dense(self, *, of_groups: bool) -> bool:
        """Whether sizes fit without being broadcast; keys may be shared by a group."""
        if {len(each.dims) for each in self._heads} != {_DIMENSIONS}:
            return False
        if len({each.dims[0] for each in self._heads}) > 1:
            return False
        if not (self.query.dims[-2] and self.key.dims[-2]):
            return False
        count, shared, others = (each.dims[1] for each in self._heads)
        if self.is_grouped and of_groups:
            return shared == others and count % shared == 0
        return count == shared == others

    @property
    def _is_mask_broadcast(self) -> bool:
        mask = self.mask
        if mask is None:
            return True
        if mask.needs_gradient or len(mask.dims) not in {2, _DIMENSIONS}:
            return False
        batch, heads, queries, _ = self.query.dims
        wanted = (batch, heads, queries, self.key.dims[-2])[-len(mask.dims) :]
        return all(
            size in {1, full} for size, full in zip(mask.dims, wanted, strict=True)
        )

    def _is_of(self, types: tuple[str, ...]) -> bool:
        kinds = {each.dtype for each in self._heads}
        return len(kinds) == 1 and kinds <= set(types)

    def _is_too_wide(self, gpu: tuple[int, int], head: int) -> bool:
        if not self.is_trained or not any(a <= gpu <= b for a, b in _SMALL):
            return False
        return head > _TRAINED_HEAD and (head <= _WIDE_HEAD or self.has_dropout)
