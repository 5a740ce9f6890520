"""One model of all measured GPUs of a vendor, for a GPU that was not measured.

The models of single GPUs know how long a shape takes on theirs. This one knows how far
kernels are from the roofline at the same tiles per multiprocessor, the same share of
the cache and the same balance of arithmetic and memory, on whichever GPU: figures that
the data sheet of an unmeasured GPU gives as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .bands import Band
from .dtypes import ALIKE
from .families import FAMILIES
from .model import Key
from .predictor import DISTANCES, Predictor, fit_core
from .residual import SMALL
from .roofline import USUAL
from .rows import joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .groups import Group
    from .rows import Rows

LEAST_HARDWARE = 3
"""Fewer GPUs do not tell what they have in common."""
SOURCE = "pooled"
"""Pooled models have no harness of their own."""
_MOST_ROWS = 1_500
"""Rows of each GPU, so that each has the same weight."""
_REACH = 1.0
"""How far beyond the range the forest is believed, as a logarithm."""


def kind_of(key: Key) -> tuple[str, str, str, str]:
    """What a pooled model covers: family, class of ops, type, and way to measure."""
    op = FAMILIES[key.family].op_class(key.op)
    return key.family, op, ALIKE.get(key.dtype, key.dtype), key.measured


def pooled_key(group: Group) -> Key:
    """The key of the pooled model that covers a group."""
    family, op, dtype, measured = kind_of(group.key)
    vendor = str(group.hardware.vendor)
    return Key(vendor, family, op, dtype, measured, SOURCE, "")


def is_pooled(group: Group) -> bool:
    """Whether a group belongs in a pool: kernels alone, of a known GPU.

    Collectives depend on links, of which each cluster has its own table.
    """
    is_kernel = group.key.measured == "kernel"
    has_links = bool(group.rows.family.bandwidths)
    return is_kernel and group.hardware.vendor is not None and not has_links


def pools_of(groups: Sequence[Group]) -> Mapping[Key, list[Group]]:
    """The groups of each pooled model; only those with enough GPUs."""
    found: dict[Key, list[Group]] = {}
    for group in filter(is_pooled, groups):
        found.setdefault(pooled_key(group), []).append(group)
    return {key: pool for key, pool in found.items() if _is_enough(pool)}


def fit_pooled(pool: Sequence[Group]) -> Predictor | None:
    """The pooled model of some groups; None if they are of too few GPUs.

    Its band has no width: held-out GPUs say how wide it has to be.
    """
    if not _is_enough(pool):
        return None
    core = fit_core(_rows(pool), (SMALL,), USUAL)
    none = Band(np.zeros(1), np.zeros(1), np.zeros(1))
    core = replace(core, known=core.known[:0])
    return Predictor(core, SMALL, _REACH, dict.fromkeys(DISTANCES, none))


def _is_enough(pool: Sequence[Group]) -> bool:
    return len({group.key.hardware for group in pool}) >= LEAST_HARDWARE


def _rows(pool: Sequence[Group]) -> Rows:
    """As many rows of each GPU, whatever harnesses measured it."""
    of_hardware: dict[str, list[Rows]] = {}
    for group in pool:
        of_hardware.setdefault(group.key.hardware, []).append(group.rows)
    found = []
    for parts in of_hardware.values():
        rows = joined(parts)
        chosen = np.random.default_rng(0).permutation(len(rows))[:_MOST_ROWS]
        found.append(rows.take(np.sort(chosen)))
    return joined(found)
