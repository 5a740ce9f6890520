"""Masks of PyTorch's transformers that look causal, which are assumed to be.

`nn.Transformer` and its parts compare a square mask with the causal one, unless they
are told by `is_causal`. If both are the same, they let attention compute it, which
takes another kernel and half of the work.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch.nn.modules import transformer

from tracedb.from_code import place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from tracedb.from_code.unknown import Assumptions

_DETECTING = "_detect_is_causal_mask"


@contextmanager
def causal(assumptions: Assumptions) -> Iterator[None]:
    """Assume within the block that square masks are causal."""
    own = getattr(transformer, _DETECTING)

    def detect(
        mask: torch.Tensor | None,
        is_causal: bool | None = None,  # noqa: FBT001 (as PyTorch has it)
        size: int | None = None,
    ) -> bool:
        # The comparison is part of the step.
        is_told: bool = own(mask, is_causal, size)
        if is_causal is not None or mask is None:
            return is_told
        asked = mask.size(-2) if size is None else size
        if mask.size() != (asked, asked):
            return is_told
        assumptions.tell(
            f"{place.of_caller()}: the square mask of a transformer is assumed to be "
            "causal"
        )
        return True

    with changed(transformer, {_DETECTING: detect}):
        yield
