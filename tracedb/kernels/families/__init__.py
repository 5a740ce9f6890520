"""The families of kernels: one file each, all of one contract (`family.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .attention import ATTENTION
from .broadcast import BROADCAST
from .collective import COLLECTIVE
from .concat import CONCAT
from .convolution import CONVOLUTION
from .copy import COPY
from .elementwise import ELEMENTWISE
from .embedding import EMBEDDING
from .embedding_backward import EMBEDDING_BACKWARD
from .embedding_bag import EMBEDDING_BAG
from .embedding_bag_backward import EMBEDDING_BAG_BACKWARD
from .family import Family, Figures, Floats, Hardware, Shapes
from .gemm import GEMM
from .index import INDEX
from .memcpy import MEMCPY
from .memset import MEMSET
from .normalisation import NORMALISATION
from .optimizer import OPTIMIZER
from .reduction import REDUCTION
from .softmax import SOFTMAX

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COLUMNS", "FAMILIES", "Family", "Figures", "Floats", "Hardware", "Shapes"]

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        *(GEMM, CONVOLUTION, ATTENTION),
        *(EMBEDDING, EMBEDDING_BACKWARD, EMBEDDING_BAG, EMBEDDING_BAG_BACKWARD),
        *(ELEMENTWISE, BROADCAST, REDUCTION, SOFTMAX, NORMALISATION),
        *(CONCAT, COPY, INDEX, MEMCPY, MEMSET, OPTIMIZER, COLLECTIVE),
    )
}

COLUMNS = tuple(
    dict.fromkeys(c for family in FAMILIES.values() for c in family.columns)
)
"""Every size that a row of any family may have."""
