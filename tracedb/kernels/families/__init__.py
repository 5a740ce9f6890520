"""The families of kernels: one file each, all of one contract (`family.py`).

A family is found by its name: `scan.py` holds `SCAN`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from .family import Family, Figures, Floats, Hardware, Shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["COLUMNS", "FAMILIES", "Family", "Figures", "Floats", "Hardware", "Shapes"]


def _families() -> Iterator[Family]:
    """Those of the modules beside this one, in the order of their names."""
    for module in iter_modules(__path__):
        found = import_module(f".{module.name}", __name__)
        family = getattr(found, module.name.upper(), None)
        if isinstance(family, Family):
            yield family


FAMILIES: Mapping[str, Family] = {family.name: family for family in _families()}

COLUMNS = tuple(
    dict.fromkeys(c for family in FAMILIES.values() for c in family.columns)
)
"""Every size that a row of any family may have."""
