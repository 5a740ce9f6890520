"""Predict a GPU that was not measured from those that were.

Two predictions are mixed, by the weighted mean of their logarithms:

- the models of the nearest measured GPUs, each times the ratio of the two rooflines:
  with the shares of the peaks that the measured GPU reaches, with the usual ones
  (`usual.py`), or halfway between;
- one model of all GPUs of the vendor (`pooled.py`), evaluated with the target's own
  data sheet.

The weights are those with the least error on GPUs that were measured and held out in
turn (`held_out.py`), separately for GPUs with a twin among the measured ones. Where the
usual roofline has a smaller error than the best mix, it is used instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from .blend import NEARER
from .collective_table import CollectiveTable
from .dtypes import matrix_peak
from .usual import usual_ns
from .work import LINK, linked_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .families import Family, Floats
    from .hardware import HardwareRow
    from .predictor import Predicted
    from .roofline import Roofline
    from .rows import Rows

_FIGURES = ("dram_bytes_per_second", "l2_bytes", "sm_count", "clocks_per_second")
_OTHER_VENDOR = 1.0
_FARTHEST = 3.0
"""A CPU is farther from a GPU."""
NEAREST = 3
"""Pieces of hardware that are asked where one was not measured."""
_TWIN, _POWER = 0.02, 3.0
"""Weights fall with the third power of how far hardware is apart: what has nearly the
same figures has nearly all the weight."""
TWINS = 0.2
"""H100 and H200 are 0.1 apart, A100 of 40 and of 80 GB likewise, H100 and B200 0.5."""
_UNTRIED = float(np.log(2.0))
"""Log error of other hardware where none was held out."""
PARTS = (0.0, 0.5, 1.0)
"""Of the usual shares in a ratio of rooflines: held-out hardware chooses one."""
LEAST_HELD = 2
"""Fewer held-out GPUs do not show which prediction is closest."""


def apart(one: HardwareRow, other: HardwareRow, family: Family, dtype: str) -> float:
    """How far two pieces of hardware are apart: the mean log ratio of their figures."""
    logs = [np.log(one.figures[n] / other.figures[n]) for n in _FIGURES]
    if family.uses_matrix_units:
        peaks = (matrix_peak(hardware.figures, dtype) for hardware in (one, other))
        logs.append(np.log(next(peaks) / next(peaks)))
    if family.bandwidths:
        logs.append(np.log(one.figures[LINK] / other.figures[LINK]))
        logs.append(np.log(_linked_share(one) / _linked_share(other)))
    is_other = one.vendor != other.vendor
    return float(np.mean(np.abs(logs))) + _OTHER_VENDOR * is_other


def _linked_share(hardware: HardwareRow) -> float:
    """[1] Of the devices of a node, those that the link joins."""
    return min(
        linked_devices(hardware.figures) / hardware.figures["devices_per_node"], 1
    )


def are_twins(one: HardwareRow, other: HardwareRow, family: Family, dtype: str) -> bool:
    """Whether the figures of two pieces of hardware are nearly the same."""
    return apart(one, other, family, dtype) <= TWINS


def nearness(away: float) -> float:
    """The distance of an answer of hardware so far apart (`Answer`)."""
    return _POWER / NEARER * float(np.log1p(away / _TWIN))


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
        # The network between nodes is not the hardware's own.
        shapes = asked.shapes
        return np.where(shapes["ranks_per_node"] < shapes["ranks"], 1.0, other / one)
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
    rows: tuple[Rows, Rows],
    *,
    is_kernel: bool,
    usual_part: float = 0.0,
) -> Predicted:
    """A prediction of measured hardware as one of asked hardware.

    `rows` are the same on the measured and on the asked.
    """
    measured, asked = rows
    scale = ratio(base, measured, asked, is_kernel=is_kernel)
    if usual_part and not isinstance(base, CollectiveTable):
        usual = usual_ns(asked) / usual_ns(measured)
        scale = scale ** (1 - usual_part) * usual**usual_part
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


@dataclass(frozen=True)
class Mix:
    """How the prediction for an unmeasured GPU is made of that of measured ones."""

    usual_part: float = 0.0
    """[1] Weight of the usual shares in the ratio of rooflines (one of `PARTS`)."""
    pooled: float = 0.0
    """[1] Weight of the pooled model; the models of single GPUs have the rest."""

    def of(self, near: Predicted, pooled: Predicted | None, rows: Rows) -> Predicted:
        """The mixed prediction; without a pooled model, that of single GPUs."""
        if pooled is None or not self.pooled:
            return near
        ns = near.ns ** (1 - self.pooled) * pooled.ns**self.pooled
        return near.shifted(np.maximum(ns, rows.least_ns))


WEIGHTS = (0.0, 0.5)
"""Of the pooled model: few GPUs do not decide between more. With either alone, or the
roofline as a third part, held-out GPUs chose mixes that were worse on the next one."""
GRID = tuple(Mix(part, weight) for weight in WEIGHTS for part in PARTS)


@dataclass(frozen=True)
class Verdict:
    """What held-out GPUs show about predictions for an unmeasured GPU."""

    error: float = _UNTRIED
    """[1] Log error within which four of five kernels of a held-out GPU lie."""
    mean_error: float = 0.0
    """[1] Mean absolute log error, of the mix."""
    roofline_error: float = 0.0
    """[1] The same for the roofline that is used where no model is."""
    hardware: int = 0
    """How many GPUs were held out."""
    mix: Mix = field(default_factory=Mix)

    @property
    def is_better(self) -> bool:
        """Whether the mix is used in the roofline's place."""
        is_enough = self.hardware >= LEAST_HELD
        return is_enough and self.mean_error < self.roofline_error

    def banded(self, predicted: Predicted) -> Predicted:
        """A prediction with the band that held-out GPUs require.

        Beyond the range of the models, their own band counts where it is wider.
        """
        factor = float(np.exp(self.error))
        own = predicted.at_least(factor)
        inside = predicted.away == 0
        return replace(
            own,
            low_ns=np.where(inside, predicted.ns / factor, own.low_ns),
            high_ns=np.where(inside, predicted.ns * factor, own.high_ns),
        )


@dataclass(frozen=True)
class Transfer:
    """What a model is worth for other GPUs than its own."""

    far: Verdict = field(default_factory=Verdict)
    """For GPUs without a twin among the measured ones."""
    near: Verdict = field(default_factory=Verdict)
    """For GPUs with one."""

    @property
    def is_pooled(self) -> bool:
        """Whether the model of all GPUs of the vendor has a part in it."""
        return any(verdict.mix.pooled > 0 for verdict in (self.far, self.near))

    def of(self, *, is_near: bool) -> Verdict:
        """The verdict for a GPU, with a twin or without."""
        return self.near if is_near else self.far


def nearest_names(names: Iterable[str]) -> Iterator[str]:
    """The first different ones, as many as are asked."""
    yield from islice(dict.fromkeys(names), NEAREST)
