"""Memory set to one value."""

from __future__ import annotations

from .family import Family
from .memcpy import features

MEMSET = Family(
    name="memset",
    columns=("bytes",),
    relation="prediction.gpu_copy",
    features=features,
    is_typed=False,
)
