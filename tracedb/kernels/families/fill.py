"""Memory that is set to a value, as gradients are before they are added to."""

from __future__ import annotations

from dataclasses import replace

from .elementwise import ELEMENTWISE

FILL = replace(ELEMENTWISE, name="fill", op_classes={})
