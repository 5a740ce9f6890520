"""Elementwise ops in which an input is smaller than the output and read again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import elementwise

if TYPE_CHECKING:
    from .family import Family, Floats, Shapes


def read_bytes(shapes: Shapes) -> Floats:
    """[B] One input as large as the output; the others are small."""
    return shapes["elements"] * shapes.element_bytes


BROADCAST: Family = replace(
    elementwise.ELEMENTWISE, name="broadcast", read_bytes=read_bytes
)
