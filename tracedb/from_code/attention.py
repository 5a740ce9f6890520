"""Attention as PyTorch computes it: which of its ways, and the ops of each.

The rules are those of PyTorch 2.13 (sdp_utils.cpp, sdp_utils_cpp.h), as far as sizes,
strides and types decide. cuDNN's attention counts as the next way that is possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.casting import HALF
from tracedb.from_code.on_gpu import FLASH_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable

FLASH, EFFICIENT, MATH = "flash", "efficient", "math"
_BACKENDS: Any = SDPBackend
"""PyTorch's numbers of the ways, which stubs do not know as such."""
_ORDERED = {
    int(_BACKENDS.FLASH_ATTENTION): FLASH,
    int(_BACKENDS.EFFICIENT_ATTENTION): EFFICIENT,
    int(_BACKENDS.MATH): MATH,
}
_DIMENSIONS = 4
"""Number of dimensions of queries, keys and values that fused ways take."""
_TRAINED_HEAD, _WIDE_HEAD = 192, 224
"""Small GPUs train FlashAttention with heads up to the first, or above the second."""
_ROW_BYTES, _PADDED, _MASK_ROW = 16, 8, 8
"""[B] Rows of tensor cores; elements to which heads and rows of masks are padded."""
_AMPERE, _VOLTA = (8, 0), (7, 0)
_SMALL = (((8, 6), (8, 9)), ((12, 0), (12, 1)))
"""GPUs that have less shared memory than the others of their generation."""
_ON_CPU = (torch.float64, torch.float32, *HALF)
_aten = torch.ops.aten


@dataclass(frozen=True)
class Attention:
    """The arguments of `scaled_dot_product_attention`.

    `gpu` is the GPU's compute capability (None: not known, taken for a recent one).
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    attn_mask: torch.Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False
    gpu: tuple[int, int] | None = None

    @property
    def heads(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values."""
        return self.query, self.key, self.value

    def cast(self) -> Attention:
        """The same in autocast's type, if it is active: masks of numbers are, too."""
        active = [d for d in ("cuda", "cpu") if torch.is_autocast_enabled(d)]
        if not active:
            return self
        kind = torch.get_autocast_dtype(active[0])
        cast: dict[str, Any] = {
            name: tensor.to(dtype=kind)
            for name, tensor in vars(self).items()
            if isinstance(tensor, torch.Tensor)
            and tensor.is_floating_point()
            and tensor.dtype is not torch.float64
        }
        return replace(self, **cast)

    def chosen(self, *, on_gpu: bool) -> str:
        """The first way, in PyTorch's order, that is enabled and possible."""
        cuda: Any = torch.backends.cuda
        enabled = {
            FLASH: cuda.flash_sdp_enabled(),
            EFFICIENT: cuda.mem_efficient_sdp_enabled(),
            MATH: cuda.math_sdp_enabled(),
        }
        possible: dict[str, Callable[[], bool]] = {MATH: lambda: True}
        if on_gpu:
            order = torch._C._get_sdp_priority_order()  # noqa: SLF001 (it has no public name)
            possible |= {FLASH: self._is_flash, EFFICIENT: self._is_efficient}
        else:
            order = list(_ORDERED)
            possible |= {FLASH: self._is_flash_on_cpu}
        for way in (_ORDERED[number] for number in order if number in _ORDERED):
            if enabled[way] and way in possible and possible[way]():
                return way
        raise EstimateError(
            f"{place.of_caller()}: none of the enabled ways computes this attention; "
            "let sdpa_kernel() allow SDPBackend.MATH"
        )

    def _is_flash_on_cpu(self) -> bool:
        return (
            not self.dropout_p
            and self._is_dense(of_groups=True)
            and self._is_mask_broadcast
            and len({tensor.shape[-1] for tensor in self.heads}) == 1
            and all(tensor.stride(-1) == 1 for tensor in self.heads)
            and self._is_of(_ON_CPU)
        )

    def _is_flash(self) -> bool:
        gpu = self.gpu or _AMPERE
        head = self.query.shape[-1]
        return (
            gpu >= _AMPERE
            and self.attn_mask is None
            and self._is_dense(of_groups=True)
            and {tensor.shape[-1] for tensor in self.heads} == {head}
            and head <= FLASH_HEAD
            and not self._is_too_wide(gpu, head)
            and not (self.is_causal and self.query.shape[-2] != self.key.shape[-2])
            and (head == 1 or all(tensor.stride(-1) == 1 for tensor in self.heads))
            and self._is_of(HALF)
        )

    def _is_efficient(self) -> bool:
        gpu = self.gpu or _AMPERE
        types = (torch.float32, *(HALF if gpu >= _AMPERE else HALF[:1]))
        is_tensor_core = gpu >= _AMPERE or (gpu >= _VOLTA and self.query.dtype in HALF)
        rows = _ROW_BYTES // self.query.element_size() if is_tensor_core else 1
        last = [tensor.shape[-1] for tensor in self.heads]
        masks = () if self.attn_mask is None else (self.attn_mask,)
        return (
            self._is_dense(of_groups=False)
            and last[0] == last[1]
            and all(size and size % rows == 0 for size in last)
            and all(tensor.stride(-1) == 1 for tensor in (*self.heads, *masks))
            and self._is_of(types)
        )

    def _is_dense(self, *, of_groups: bool) -> bool:
        """Whether sizes fit without being broadcast; keys may be shared by a group."""
        query, key, value = self.heads
        if not query.dim() == key.dim() == value.dim() == _DIMENSIONS:
            return False
        if len({tensor.shape[0] for tensor in self.heads}) > 1:
            return False
        if not (query.shape[-2] and key.shape[-2]):
            return False
        count, shared, others = (tensor.shape[1] for tensor in self.heads)
        if self.enable_gqa and of_groups:
            return shared == others and count % shared == 0
        return count == shared == others

    @property
    def _is_mask_broadcast(self) -> bool:
        mask = self.attn_mask
        if mask is None:
            return True
        if mask.requires_grad or mask.dim() not in {2, _DIMENSIONS}:
            return False
        batch, heads, queries, _ = self.query.shape
        wanted = (batch, heads, queries, self.key.shape[-2])[-mask.dim() :]
        return all(
            size in {1, full} for size, full in zip(mask.shape, wanted, strict=True)
        )

    def _is_of(self, types: tuple[torch.dtype, ...]) -> bool:
        kinds = {tensor.dtype for tensor in self.heads}
        return len(kinds) == 1 and kinds <= set(types)

    @property
    def _is_trained(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in self.heads)

    def _is_too_wide(self, gpu: tuple[int, int], head: int) -> bool:
        if not self._is_trained or not any(a <= gpu <= b for a, b in _SMALL):
            return False
        return head > _TRAINED_HEAD and (head <= _WIDE_HEAD or self.dropout_p > 0)

    def on_gpu(self, dropout: Callable[[torch.Tensor, float], torch.Tensor]) -> Any:  # noqa: ANN401
        """Dispatch CUDA's ops."""
        way = self.chosen(on_gpu=True)
        if way == MATH:
            with torch.autocast("cuda", enabled=False):
                return self._by_products(dropout)
        if way == FLASH:
            size = self.query.shape[-1]
            padding = (0, -size % _PADDED)
            heads = self.heads
            if padding[1]:
                heads = tuple(functional.pad(t, padding) for t in heads)  # type: ignore[assignment]
            made = _aten._scaled_dot_product_flash_attention(  # noqa: SLF001
                *heads, self.dropout_p, self.is_causal, scale=self.scale
            )[0]
            return made[..., :size] if padding[1] else made
        return _aten._scaled_dot_product_efficient_attention(  # noqa: SLF001
            *self.heads, self._expanded_mask(), self._is_trained, self.dropout_p,
            self.is_causal, scale=self.scale,
        )[0]  # fmt: skip

    def on_cpu(self) -> Any:  # noqa: ANN401
        """Dispatch the CPU's ops."""
        if self.chosen(on_gpu=False) == MATH:
            with torch.autocast("cpu", enabled=False):
                return self._by_products(functional.dropout)
        return _aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
            *self.heads, self.dropout_p, self.is_causal, attn_mask=self._added(),
            scale=self.scale,
        )[0]  # fmt: skip

    def _added(self) -> torch.Tensor | None:
        """What the mask adds to scores: nothing where it is true."""
        mask = self.attn_mask
        if mask is None or mask.dtype is not torch.bool:
            return mask
        return _as_numbers(mask, self.query.dtype)

    def _expanded_mask(self) -> torch.Tensor | None:
        """The mask for each head, in rows that the memory-efficient kernel can read."""
        mask = self._added()
        if mask is None:
            return None
        if any(mask.stride(i) % _MASK_ROW for i in range(mask.dim() - 1)):
            keys = mask.shape[-1]
            padded = functional.pad(mask, (0, _MASK_ROW - keys % _MASK_ROW))
            mask = padded[..., :keys]
        batch, heads, queries, _ = self.query.shape
        return mask.expand(batch, heads, queries, self.key.shape[-2])

    def _by_products(
        self, dropout: Callable[[torch.Tensor, float], torch.Tensor]
    ) -> torch.Tensor:
        """Two products and a softmax; scores of half precision are computed in fp32.

        Autocast has cast the heads before, and casts nothing within.
        """
        mask = self._added()
        query, key, value = self.heads
        kind = query.dtype
        cuda: Any = torch.backends.cuda
        reduces = cuda.fp16_bf16_reduction_math_sdp_allowed()
        if kind in HALF and not reduces:
            query, key, value = (t.to(dtype=torch.float32) for t in self.heads)
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        factor = abs(scale) ** 0.5
        scaled = query * (-factor if scale < 0 else factor)
        if self.is_causal:
            sizes = query.shape[-2], key.shape[-2]
            seen = torch.ones(sizes, dtype=torch.bool, device=query.device).tril()
            mask = _as_numbers(seen, query.dtype)
        if self.enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
        # Tensors are held as long as PyTorch's code holds them, and not longer.
        keys = key.transpose(-2, -1) * factor
        weights = torch.matmul(scaled, keys)
        if mask is not None:
            weights.add_(mask)
        weights = _aten._safe_softmax(weights, -1)  # noqa: SLF001
        if self.dropout_p:
            weights = dropout(weights, self.dropout_p)
        # PyTorch returns the weights, too, which nobody takes.
        returned = weights.to(dtype=kind)
        found = torch.matmul(weights, value).to(dtype=kind)
        del returned
        return found


def _as_numbers(mask: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """0 where a mask is true, and minus infinity elsewhere."""
    lowest = torch.full((), float("-inf"), dtype=kind, device=mask.device)
    return torch.where(mask, 0.0, lowest)
