"""Gradients of pooled lookups, fused with the update of the rows."""

from __future__ import annotations

from dataclasses import replace

from .embedding_bag import EMBEDDING_BAG

EMBEDDING_BAG_BACKWARD = replace(EMBEDDING_BAG, name="embedding_bag_backward")
