"""The tensors among what an op is given or returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


def tensors_of(value: object) -> Iterator[torch.Tensor]:
    """The tensors in a possibly nested argument or result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_of(one)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))
