"""What a residual model learns from: sizes, work, the roofline's parts, waves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .families import Family, Floats, Shapes
    from .roofline import Roofline
    from .rows import Rows
    from .work import Work

UNKNOWN = -1.0
_SMALLEST = 1e-3


def features_of(
    rows: Rows, roofline: Roofline | None
) -> dict[str, NDArray[np.float32]]:
    """Every feature by its name; no value is missing or infinite.

    They are rounded to float32, in which trees compare: the same on any machine.
    """
    found = {**rows.logs}
    if roofline is not None:
        found |= _bounds(rows.work, roofline)
    rounded = {name: _rounded(values) for name, values in found.items()}
    return rounded | rows.own_features


def own_features(rows: Rows) -> dict[str, NDArray[np.float32]]:
    """Those of the rows' family."""
    found = rows.family.features(rows.shapes, rows.figures)
    return {name: _rounded(values) for name, values in found.items()}


def sizes_of(rows: Rows) -> dict[str, Floats]:
    """The features that say whether a row lies in the range of others."""
    found = _sizes(rows.family, rows.shapes) | _work(rows.work)
    return {name: _known(values) for name, values in found.items()}


def _sizes(family: Family, shapes: Shapes) -> dict[str, Floats]:
    return {f"log_{name}": _log(shapes[name]) for name in family.columns}


def _work(work: Work) -> dict[str, Floats]:
    return {
        "log_flops": _log(work.flops),
        "log_bytes": _log(work.bytes),
        "log_footprint_per_l2": _log(work.footprint / work.l2_bytes),
        "log_intensity": _log(work.flops / np.maximum(work.bytes, 1)),
    }


def _bounds(work: Work, roofline: Roofline) -> dict[str, Floats]:
    """How the roofline's parts compare: which bound holds, and how clearly."""
    compute, memory = roofline.compute_ns(work), roofline.memory_ns(work)
    larger = np.maximum(compute, memory)
    return {
        "log_compute_per_memory": _log(compute / np.maximum(memory, 1e-9)),
        "log_work_per_floor": _log(larger / roofline.floor_ns),
        "cached": roofline.cached(work),
    }


def _log(values: Floats) -> Floats:
    logs: Floats = np.log(np.maximum(values, _SMALLEST))
    return logs


def _rounded(values: Floats) -> NDArray[np.float32]:
    return _known(values).astype(np.float32)


def _known(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, UNKNOWN)
