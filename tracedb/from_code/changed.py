"""Replace attributes of PyTorch's modules and classes temporarily."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def changed(place: object, attributes: Mapping[str, object]) -> Iterator[None]:
    """Replace attributes of a class or module, or add them, within the block."""
    before = {key: getattr(place, key) for key in attributes if hasattr(place, key)}
    for key, value in attributes.items():
        setattr(place, key, value)
    try:
        yield
    finally:
        for key in attributes:
            if key in before:
                setattr(place, key, before[key])
            else:
                delattr(place, key)
