"""Attention of code: the ops of the way in which PyTorch computes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.attention_way import (
    EFFICIENT,
    FLASH,
    MATH,
    PADDED,
    Operand,
    Question,
)
from tracedb.from_code.casting import HALF
from tracedb.from_code.recorder import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

_BACKENDS: Any = SDPBackend
"""PyTorch's numbers of the ways, which stubs do not know as such."""
_ORDERED = {
    int(_BACKENDS.FLASH_ATTENTION): FLASH,
    int(_BACKENDS.EFFICIENT_ATTENTION): EFFICIENT,
    int(_BACKENDS.MATH): MATH,
}
_MASK_ROW = 8
"""Elements to which rows of masks are padded."""
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
        order = tuple(_ORDERED)
        if on_gpu:
            order = tuple(torch._C._get_sdp_priority_order())  # noqa: SLF001 (it has no public name)
        ways = (_ORDERED[number] for number in order if number in _ORDERED)
        allowed = tuple(way for way in ways if enabled[way])
        found = self._question().way(allowed, on_gpu=on_gpu)
        if found is not None:
            return found
        raise EstimateError(
            f"{place.of_caller()}: none of the enabled ways computes this attention; "
            "let sdpa_kernel() allow SDPBackend.MATH"
        )

    @property
    def _is_trained(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in self.heads)

    def _question(self) -> Question:
        mask = self.attn_mask
        return Question(
            _operand(self.query),
            _operand(self.key),
            _operand(self.value),
            mask=None if mask is None else _operand(mask),
            has_dropout=self.dropout_p > 0,
            is_causal=self.is_causal,
            is_grouped=self.enable_gqa,
            is_trained=self._is_trained,
            gpu=self.gpu,
        )

    def on_gpu(self, dropout: Callable[[torch.Tensor, float], torch.Tensor]) -> Any:  # noqa: ANN401
        """Dispatch CUDA's ops."""
        way = self.chosen(on_gpu=True)
        if way == MATH:
            with torch.autocast("cuda", enabled=False):
                return self._by_products(dropout)
        if way == FLASH:
            size = self.query.shape[-1]
            padding = (0, -size % PADDED)
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
        weights = torch.matmul(scaled, key.transpose(-2, -1) * factor)
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


def _operand(tensor: torch.Tensor) -> Operand:
    shape = shape_of(tensor)
    return Operand(
        shape.dims,
        shape.dtype,
        shape.element_bytes,
        tuple(map(int, tensor.stride())),
        needs_gradient=tensor.requires_grad,
    )


def _as_numbers(mask: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """0 where a mask is true, and minus infinity elsewhere."""
    lowest = torch.full((), float("-inf"), dtype=kind, device=mask.device)
    return torch.where(mask, 0.0, lowest)
