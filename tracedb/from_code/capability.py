"""The compute capability of GPUs: which kernels run on them."""

from __future__ import annotations

import re

_CAPABILITIES = {
    "P100": (6, 0),
    "V100": (7, 0),
    "T4|RTX 20|2080": (7, 5),
    "A100|A800|A30": (8, 0),
    "A10|A40|A6000|RTX A|RTX 30": (8, 6),
    "L4|L20|RTX 40|Ada": (8, 9),
    "H[128]00|H20": (9, 0),
    "B200": (10, 0),
    "B300": (10, 3),
    "RTX ?50|RTX.PRO": (12, 0),
}
"""The compute capability of the GPUs whose names match."""


def known_capability(gpu: str) -> tuple[int, int] | None:
    """The compute capability of a GPU, if it is known."""
    return next((c for p, c in _CAPABILITIES.items() if re.search(p, gpu)), None)
