"""Numbers drawn by chance, as dropout does."""

from __future__ import annotations

from dataclasses import replace

from .elementwise import ELEMENTWISE

RANDOM = replace(ELEMENTWISE, name="random", op_classes={})
