"""What lookups in embedding tables share: distinct rows, and what caches keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .family import Figures, Floats

INDEX_BYTES = 8


def distinct_rows(lookups: Floats, table_rows: Floats) -> Floats:
    """How many rows of a table are met by so many lookups, uniformly at random."""
    is_known = np.isfinite(table_rows)
    rows = np.where(is_known, np.maximum(table_rows, 1.000001), 1.000001)
    met = rows * -np.expm1(np.log1p(-1 / rows) * lookups)
    return np.where(is_known, met, lookups)


def cache_features(
    lookups: Floats, distinct: Floats, row_bytes: Floats, hardware: Figures
) -> dict[str, Floats]:
    """Reuse of rows, and the share of lookups that the level-2 cache can answer."""
    kept = np.minimum(hardware["l2_bytes"] / row_bytes, distinct)
    reuse = lookups / distinct
    return {
        "log_reuse": np.log(reuse),
        "hit_share": (1 - 1 / reuse) * kept / distinct,
        "log_row_bytes": np.log(row_bytes),
        "log_distinct_bytes_per_l2": np.log(
            distinct * row_bytes / hardware["l2_bytes"]
        ),
    }
