"""What a model says of other hardware than it was trained on, and of kernels alone.

Hardware that was not measured has the models of the nearest that were, each times the
ratio of the two rooflines: both with the shares of the peaks that the measured one
reaches, or with the usual ones (`usual.py`), or between the two. One GPU alone hardly
tells compute from memory; the usual shares were fitted to many. Which it is, and
whether that is nearer than the usual roofline by itself, hardware says that was
measured and is held out in turn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .bands import held_by
from .blend import NEARER, Answer, blended
from .collective_table import OTHER_KIND, CollectiveTable
from .dtypes import ALIKE, matrix_peak
from .usual import usual_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
_MOST_ROWS = 2_000
NEAREST = 3
"""Pieces of hardware that are asked where one was not measured."""
_TWIN, _POWER = 0.02, 3.0
"""Weights fall with the third power of how far hardware is apart: what has nearly the
same figures has nearly all the weight."""
_TWINS = 0.2
"""H100 and H200 are 0.1 apart, A100 of 40 and of 80 GB likewise, H100 and B200 0.5."""
_UNTRIED = float(np.log(2.0))
"""Log error of other hardware where none was held out."""
PARTS = (0.0, 0.5, 1.0)
"""Of the usual shares in a ratio of rooflines: held-out hardware chooses one."""
_LEAST_HELD = 2
"""Less hardware held out does not tell whether models or the roofline are nearer."""


def apart(one: HardwareRow, other: HardwareRow, family: Family, dtype: str) -> float:
    """How far two pieces of hardware are apart: the mean log ratio of their figures."""
    logs = [np.log(one.figures[n] / other.figures[n]) for n in _FIGURES]
    if family.uses_matrix_units:
        peaks = (matrix_peak(hardware.figures, dtype) for hardware in (one, other))
        logs.append(np.log(next(peaks) / next(peaks)))
    if family.bandwidths:
        link = "nvlink_bytes_per_second"
        logs.append(np.log(one.figures[link] / other.figures[link]))
    is_other = one.vendor != other.vendor
    return float(np.mean(np.abs(logs))) + _OTHER_VENDOR * is_other


def are_twins(one: HardwareRow, other: HardwareRow, family: Family, dtype: str) -> bool:
    """Whether the figures of two pieces of hardware are nearly the same."""
    return apart(one, other, family, dtype) <= _TWINS


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
class Transfer:
    """What a model is worth on hardware that was not measured."""

    error: float = _UNTRIED
    """[1] Log error within which four of five kernels of held-out hardware lie."""
    near_error: float = _UNTRIED
    """[1] The same of hardware of which a twin was measured."""
    mean_error: float = 0.0
    """[1] Mean of their log errors, without signs."""
    roofline_error: float = 0.0
    """[1] The same by the roofline that serves where no model does."""
    hardware: int = 0
    """How many pieces of hardware were held out."""
    usual_part: float = 0.0
    """[1] Of the usual shares of the peaks in the ratio of rooflines (`PARTS`)."""

    def error_on(self, *, is_near: bool) -> float:
        """[1] The log error of hardware, with a twin or without."""
        return self.near_error if is_near else self.error

    @property
    def is_better(self) -> bool:
        """Whether it serves in the roofline's place."""
        is_enough = self.hardware >= _LEAST_HELD
        return is_enough and self.mean_error < self.roofline_error


@dataclass(frozen=True)
class Held:
    """A key whose hardware was held out."""

    key: Key
    errors: Mapping[float, Floats]
    """[1] Logarithms of measured over predicted, by the nearest other hardware, for
    each part of the usual shares."""
    roofline_errors: Floats
    """[1] The same by the usual roofline."""
    is_near: bool = False
    """Whether the nearest other hardware is a twin."""


class Answered(NamedTuple):
    """Rows of a key, by the models of other hardware."""

    rows: Rows
    predicted: Predicted
    is_near: bool
    """Whether the nearest of it is a twin."""


@dataclass(frozen=True)
class HeldOut:
    """Keys with their hardware held out in turn: each has the models of the others."""

    groups: Sequence[Group]
    predictors: Mapping[Key, Predictor]
    _said: dict[tuple[Key, Key, float], Predicted] = field(default_factory=dict)

    def answered(
        self, group: Group, without: str = "", usual_part: float = 0.0
    ) -> Answered | None:
        """A key's rows, and what the nearest hardware by the same harness says of them.

        Without those it says nothing of: over nodes, where it was measured within one.
        None where there is none. `without` names other hardware that has no say.
        """
        others = [other for other in self.groups if other.key.hardware != without]
        near = [*_nearest(group, others)]
        if not near:
            return None
        predicted = blended(
            [
                Answer(self._by(group, other, usual_part), nearness(away))
                for away, other in near
            ]
        )
        is_kind = predicted.away < OTHER_KIND
        if not is_kind.any():
            return None
        is_near = near[0][0] <= _TWINS
        return Answered(group.rows.take(is_kind), predicted.take(is_kind), is_near)

    def held(self, without: str = "") -> list[Held]:
        """What the others say of each key, but for those of some hardware."""
        found = []
        for group in self.groups:
            if group.key.hardware == without:
                continue
            answers = [self.answered(group, without, part) for part in PARTS]
            known = [answer for answer in answers if answer is not None]
            if known:
                rows = known[0].rows
                errors = [
                    np.log(rows.time_ns / answer.predicted.ns) for answer in known
                ]
                by_part = dict(zip(PARTS, errors, strict=True))
                usual = np.log(rows.time_ns / usual_ns(rows))
                found.append(Held(group.key, by_part, usual, known[0].is_near))
        return found

    def _by(self, group: Group, other: Group, usual_part: float) -> Predicted:
        """What the model of other hardware says of a key."""
        pair = (group.key, other.key, usual_part)
        if pair not in self._said:
            there = other.rows_of(group.rows)
            predictor = self.predictors[other.key]
            self._said[pair] = moved(
                predictor.predict(there),
                predictor.core.base,
                (there, group.rows),
                is_kernel=other.key.measured == "kernel",
                usual_part=usual_part,
            )
        return self._said[pair]


def fewer(groups: Iterable[Group]) -> list[Group]:
    """The same with as many rows, at random, as tell how far hardware is apart."""
    found = []
    for group in groups:
        chosen = np.random.default_rng(0).permutation(len(group.rows))[:_MOST_ROWS]
        found.append(replace(group, rows=group.rows.take(np.sort(chosen))))
    return found


def transfer_of(key: Key, held: Sequence[Held]) -> Transfer:
    """What held-out hardware says of a family and type, each with one vote.

    Where none of its kind was held out, the error is that of all.
    """
    alike = [each for each in held if _kind(each.key) == _kind(key)]
    if not alike:
        return Transfer(*_errors(held, PARTS[0])) if held else Transfer()
    held_out = {each.key.hardware for each in alike}
    parts = PARTS if len(held_out) >= _LEAST_HELD else PARTS[:1]
    models = {n: _mean([each.errors[n] for each in alike], alike) for n in parts}
    best = min(parts, key=lambda part: models[part])
    roofline = _mean([each.roofline_errors for each in alike], alike)
    errors = _errors(alike, best)
    return Transfer(*errors, models[best], roofline, len(held_out), best)


def _mean(errors: Sequence[Floats], held: Sequence[Held]) -> float:
    """The mean log error without sign, each piece of hardware with one vote."""
    means = [np.mean(np.abs(each)) for each in errors]
    return float(np.average(means, weights=_votes(held)))


def _kind(key: Key) -> tuple[str, str, str]:
    return key.family, ALIKE.get(key.dtype, key.dtype), key.measured


def _errors(held: Sequence[Held], usual_part: float) -> tuple[float, float]:
    """Log errors of hardware, and of that which has a twin.

    Each is that of the other where there is none.
    """
    far = [each for each in held if not each.is_near] or held
    near = [each for each in held if each.is_near] or held

    def error(some: Sequence[Held]) -> float:
        return held_by([each.errors[usual_part] for each in some], _votes(some))

    return error(far), error(near)


def _votes(held: Sequence[Held]) -> list[float]:
    """Each piece of hardware has one, shared by its keys."""
    keys = Counter(each.key.hardware for each in held)
    return [1 / keys[each.key.hardware] for each in held]


def _nearest(group: Group, others: Iterable[Group]) -> Iterator[tuple[float, Group]]:
    """The same op by the same harness on the nearest hardware of the vendor."""
    family, dtype = group.rows.family, group.key.dtype
    found = [
        (apart(group.hardware, other.hardware, family, dtype), other)
        for other in others
        if group.is_alike_on_other_hardware(other)
    ]
    found.sort(key=lambda each: (each[0], each[1].key.name))
    near = set(nearest_names(other.key.hardware for _, other in found))
    yield from (each for each in found if each[1].key.hardware in near)


def nearest_names(names: Iterable[str]) -> Iterator[str]:
    """The first different ones, as many as are asked."""
    yield from islice(dict.fromkeys(names), NEAREST)
