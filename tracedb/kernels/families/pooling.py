"""Windows of images that become a number each, and their gradients."""

from __future__ import annotations

from dataclasses import replace

from .elementwise import ELEMENTWISE

POOLING = replace(ELEMENTWISE, name="pooling", op_classes={})
