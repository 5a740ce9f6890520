"""What a model says of other hardware than it was trained on, and of kernels alone.

Hardware that was not measured has the model of the nearest that was, times the ratio of
the two rooflines: both with the shares of the peaks that the measured one reaches.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .collective_table import CollectiveTable
from .dtypes import matrix_peak

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .families import Family, Floats
    from .groups import Group
    from .hardware import HardwareRow
    from .model import Key
    from .predictor import Predicted, Predictor
    from .roofline import Roofline
    from .rows import Rows

_FIGURES = ("dram_bytes_per_second", "l2_bytes", "sm_count", "clocks_per_second")
_OTHER_VENDOR = 1.0
_FARTHEST = 3.0
"""A CPU is farther from a GPU."""
_AMD = "MI"
_HELD = 0.8
_MOST_ROWS = 2_000


def apart(one: HardwareRow, other: HardwareRow, family: Family, dtype: str) -> float:
    """How far two pieces of hardware are apart: the mean log ratio of their figures."""
    logs = [np.log(one.figures[n] / other.figures[n]) for n in _FIGURES]
    if family.uses_matrix_units:
        peaks = (matrix_peak(hardware.figures, dtype) for hardware in (one, other))
        logs.append(np.log(next(peaks) / next(peaks)))
    if family.bandwidths:
        link = "nvlink_bytes_per_second"
        logs.append(np.log(one.figures[link] / other.figures[link]))
    vendors = {hardware.name.startswith(_AMD) for hardware in (one, other)}
    return float(np.mean(np.abs(logs))) + _OTHER_VENDOR * (len(vendors) - 1)


def is_reachable(one: HardwareRow, other: HardwareRow, distance: float) -> bool:
    """Whether a model of one says something of the other."""
    return one.kind == other.kind and distance <= _FARTHEST


def ratio(
    base: Roofline | CollectiveTable, measured: Rows, asked: Rows, *, is_kernel: bool
) -> Floats:
    """The time on asked hardware over that on the measured, by the roofline.

    The floor is the hardware's share of it where kernels alone were measured; that of
    ops is the host's.
    """
    if isinstance(base, CollectiveTable):
        floor = float(np.exp(base.log_ns.min()))
        one, other = floor + measured.work.memory_ns, floor + asked.work.memory_ns
        return other / one
    if not len(asked):
        return np.ones(0)
    work = asked.work
    # A cache is no slower than the memory behind it, whatever the measured one reaches.
    least = base.memory_share * float(work.bandwidth[0] / work.l2_bandwidth[0])
    floors = float(work.floor_ns[0] / measured.work.floor_ns[0]) if is_kernel else 1.0
    there = replace(
        base,
        floor_ns=base.floor_ns * floors,
        cache_share=max(base.cache_share, least),
    )
    found: Floats = there.work_ns(work) / base.work_ns(measured.work)
    return found


def moved(
    predicted: Predicted,
    base: Roofline | CollectiveTable,
    measured: Rows,
    asked: Rows,
    *,
    is_kernel: bool,
) -> Predicted:
    """A prediction of measured hardware as one of asked hardware."""
    scale = ratio(base, measured, asked, is_kernel=is_kernel)
    return predicted.shifted(np.maximum(predicted.ns * scale, asked.least_ns))


def without_launch(
    predicted: Predicted, base: Roofline, rows: Rows, floor_ns: float
) -> Predicted:
    """Kernels alone, of a prediction of ops.

    The roofline with the hardware's floor in the place of the measured one; of what
    forests add, as much is believed as the op's time is work rather than launch.
    """
    alone = replace(base, floor_ns=min(floor_ns, base.floor_ns)).work_ns(rows.work)
    whole = base.work_ns(rows.work)
    share = np.clip((whole - base.floor_ns) / whole, 0, 1)
    ns = alone * (predicted.ns / whole) ** share
    return predicted.shifted(np.maximum(ns, rows.least_ns))


def transfer_errors(
    groups: Sequence[Group], predictors: Mapping[Key, Predictor]
) -> dict[str, float]:
    """The log error within which four of five kernels of other hardware lie.

    By family: that of the hardware whose nearest neighbour, of the same harness, says
    least of it. A family with no such pair has the largest error of all.
    """
    found: dict[str, list[float]] = {}
    for group, other in neighbours(groups):
        chosen = np.random.default_rng(0).permutation(len(group.rows))[:_MOST_ROWS]
        rows = group.rows.take(np.sort(chosen))
        predicted = moved_from(other, predictors[other.key], rows)
        errors = np.abs(np.log(rows.time_ns / predicted.ns))
        family = group.key.family
        found.setdefault(family, []).append(float(np.quantile(errors, _HELD)))
    most = max((max(errors) for errors in found.values()), default=np.log(2.0))
    return {
        group.key.family: max(found.get(group.key.family, [float(most)]))
        for group in groups
    }


def moved_from(other: Group, predictor: Predictor, rows: Rows) -> Predicted:
    """What the model of other hardware says of rows."""
    there = other.rows_of(rows)
    predicted = predictor.predict(there)
    is_kernel = other.key.measured == "kernel"
    return moved(predicted, predictor.core.base, there, rows, is_kernel=is_kernel)


def neighbours(groups: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Each group with the nearest of other hardware, by the same harness."""
    nearest: dict[Key, tuple[float, Group, Group]] = {}
    for group, other in permutations(groups, 2):
        if not group.is_alike_on_other_hardware(other):
            continue
        family = group.rows.family
        distance = apart(group.hardware, other.hardware, family, group.key.dtype)
        if group.key not in nearest or distance < nearest[group.key][0]:
            nearest[group.key] = (distance, group, other)
    return [(group, other) for _, group, other in nearest.values()]
