"""Gradients of single-row lookups, added into the table's gradient, which is dense.

The whole op also clears that gradient, where the table's size is known.
"""

from __future__ import annotations

from dataclasses import replace

from .embedding import EMBEDDING

EMBEDDING_BACKWARD = replace(EMBEDDING, name="embedding_backward")
