"""What lookups in embedding tables share: what caches keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .family import Figures, Floats


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
