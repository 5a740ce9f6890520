"""Hold measured GPUs out in turn, to see how far off predictions from the others are.

A GPU is predicted by models of other GPUs alone, mixed in every way of `GRID`. Each
held-out GPU has one vote on which mix is used for GPUs that nobody measured, and on how
wide its band is. To judge the choice itself, a second GPU can be left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .bands import held_by
from .blend import Answer, between, blended
from .collective_table import OTHER_KIND
from .dtypes import ALIKE
from .pooled import fit_pooled, is_pooled, kind_of
from .transfer import (
    GRID,
    LEAST_HELD,
    PARTS,
    TWINS,
    Mix,
    Transfer,
    Verdict,
    apart,
    moved,
    nearest_names,
    nearness,
)
from .usual import usual_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .families import Floats
    from .groups import Group
    from .model import Key
    from .predictor import Predicted, Predictor
    from .rows import Rows

_MOST_ROWS = 2_000
_LEAST_MIXED = 3
"""Fewer held-out GPUs choose no weights: two were seen to choose wrong ones."""


@dataclass(frozen=True)
class Held:
    """The errors of a key whose GPU was held out."""

    key: Key
    errors: Mapping[Mix, Floats]
    """[1] Logarithms of measured over predicted, for each mix that is possible."""
    roofline_errors: Floats
    """[1] The same for the usual roofline."""
    is_near: bool = False
    """Whether the nearest other GPU is a twin."""


class Answered(NamedTuple):
    """Rows of a key, predicted from other GPUs."""

    rows: Rows
    predicted: Predicted
    is_near: bool
    """Whether the nearest of these is a twin."""


class _Parts(NamedTuple):
    """What a prediction for a held-out GPU is mixed from."""

    rows: Rows
    near: Mapping[float, Predicted]
    """By the nearest GPUs, for each part of the usual shares."""
    pooled: Predicted | None
    is_near: bool


@dataclass(frozen=True)
class HeldOut:
    """Keys whose GPUs are held out in turn, and the models of all of them."""

    groups: Sequence[Group]
    predictors: Mapping[Key, Predictor]
    is_implementation_known: bool = False
    """Whether models of the same library of kernels are preferred."""
    _moved: dict[tuple[Key, Key, float], Predicted] = field(default_factory=dict)
    _pools: dict[tuple[object, ...], Predictor | None] = field(default_factory=dict)
    _held: dict[str, list[Held]] = field(default_factory=dict)

    def answered(
        self, group: Group, transfer: Transfer | None = None
    ) -> Answered | None:
        """A key's rows, predicted from other GPUs; None if these cannot.

        Rows that they say nothing about are left out: collectives over nodes, where
        those within one were measured.
        """
        parts = self._parts(group)
        if parts is None:
            return None
        mix = (transfer or Transfer()).of(is_near=parts.is_near).mix
        found = mix.of(parts.near[mix.usual_part], parts.pooled, parts.rows)
        return Answered(parts.rows, found, parts.is_near)

    def held(self, without: str = "") -> list[Held]:
        """The errors of each key, with its GPU held out and another one as well."""
        if without not in self._held:
            self._held[without] = [*self._errors(without)]
        return self._held[without]

    def _errors(self, without: str) -> Iterator[Held]:
        for group in self.groups:
            if group.key.hardware == without:
                continue
            parts = self._parts(group, without)
            if parts is not None:
                yield _errors(group.key, parts)

    def _parts(self, group: Group, without: str = "") -> _Parts | None:
        others = [other for other in self.groups if other.key.hardware != without]
        near = [*_nearest(group, others)]
        if not near:
            return None
        by_part = {part: self._near(group, near, part) for part in PARTS}
        is_kind = by_part[PARTS[0]].away < OTHER_KIND
        if not is_kind.any():
            return None
        pool = self._pool(group, without)
        pooled = pool.predict(group.rows).take(is_kind) if pool else None
        taken = {part: each.take(is_kind) for part, each in by_part.items()}
        return _Parts(group.rows.take(is_kind), taken, pooled, _is_twin(group, near))

    def _near(
        self, group: Group, near: Iterable[tuple[float, Group]], usual_part: float
    ) -> Predicted:
        """The blended prediction of the nearest GPUs."""
        return blended(
            [
                Answer(
                    self._by(group, other, usual_part),
                    nearness(away) + self._between(group.key, other.key),
                )
                for away, other in near
            ]
        )

    def _between(self, one: Key, other: Key) -> float:
        """How far the libraries of two keys are apart, as far as that is known."""
        if not self.is_implementation_known:
            return 0.0
        return between(one.implementation, other.implementation)

    def _by(self, group: Group, other: Group, usual_part: float) -> Predicted:
        """The prediction for a key by the model of another GPU."""
        pair = (group.key, other.key, usual_part)
        if pair not in self._moved:
            there = other.rows_of(group.rows)
            predictor = self.predictors[other.key]
            self._moved[pair] = moved(
                predictor.predict(there),
                predictor.core.base,
                (there, group.rows),
                is_kernel=other.key.measured == "kernel",
                usual_part=usual_part,
            )
        return self._moved[pair]

    def _pool(self, group: Group, without: str) -> Predictor | None:
        """The pooled model of all GPUs but the group's and another one."""
        if not is_pooled(group):
            return None
        kind, vendor = kind_of(group.key), group.hardware.vendor
        absent = frozenset({group.key.hardware, without})
        if (kind, vendor, absent) not in self._pools:
            self._pools[kind, vendor, absent] = fit_pooled(
                [
                    other
                    for other in self.groups
                    if kind_of(other.key) == kind
                    and other.hardware.vendor == vendor
                    and other.key.hardware not in absent
                ]
            )
        return self._pools[kind, vendor, absent]


def _errors(key: Key, parts: _Parts) -> Held:
    """The errors of every mix that is possible."""
    times = parts.rows.time_ns
    mixes = [mix for mix in GRID if parts.pooled is not None or not mix.pooled]
    by_mix = {
        mix: np.log(
            times / mix.of(parts.near[mix.usual_part], parts.pooled, parts.rows).ns
        )
        for mix in mixes
    }
    return Held(key, by_mix, np.log(times / usual_ns(parts.rows)), parts.is_near)


def fewer(groups: Iterable[Group]) -> list[Group]:
    """The same groups with fewer rows, chosen at random: enough to compare GPUs."""
    found = []
    for group in groups:
        chosen = np.random.default_rng(0).permutation(len(group.rows))[:_MOST_ROWS]
        found.append(replace(group, rows=group.rows.take(np.sort(chosen))))
    return found


def transfer_of(key: Key, held: Sequence[Held]) -> Transfer:
    """What held-out GPUs show about a family and type, each with one vote.

    If none of the kind was held out, the error is that of all.
    """
    alike = [each for each in held if _kind(each.key) == _kind(key)]
    if not alike:
        error = _error(held, Mix()) if held else Verdict().error
        return Transfer(Verdict(error), Verdict(error))
    return Transfer(_verdict(alike, is_near=False), _verdict(alike, is_near=True))


def _verdict(alike: Sequence[Held], *, is_near: bool) -> Verdict:
    """The best mix for GPUs with a twin or without, and its errors.

    Where too few such GPUs were held out, all decide.
    """
    own = [each for each in alike if each.is_near == is_near]
    judges = own if _count(own) >= _LEAST_MIXED else alike
    mixes = _mixes(judges)
    means = {mix: _mean([each.errors[mix] for each in judges], judges) for mix in mixes}
    best = min(mixes, key=lambda mix: means[mix])
    roofline = _mean([each.roofline_errors for each in judges], judges)
    error = _error([each for each in own if best in each.errors] or judges, best)
    return Verdict(error, means[best], roofline, _count(judges), best)


def _mixes(judges: Sequence[Held]) -> list[Mix]:
    """The mixes that are to be chosen from, which are fewer where few GPUs decide."""
    count = _count(judges)
    if count < LEAST_HELD:
        return [*GRID[:1]]
    mixes = [mix for mix in GRID if all(mix in each.errors for each in judges)]
    if count < _LEAST_MIXED:
        return [mix for mix in mixes if not mix.pooled]
    return mixes


def _count(held: Sequence[Held]) -> int:
    """Of how many GPUs."""
    return len({each.key.hardware for each in held})


def _mean(errors: Sequence[Floats], held: Sequence[Held]) -> float:
    """The mean absolute log error, each GPU with one vote."""
    means = [np.mean(np.abs(each)) for each in errors]
    return float(np.average(means, weights=_votes(held)))


def _error(held: Sequence[Held], mix: Mix) -> float:
    """The log error within which four of five rows lie."""
    return held_by([each.errors[mix] for each in held], _votes(held))


def _kind(key: Key) -> tuple[str, str, str]:
    return key.family, ALIKE.get(key.dtype, key.dtype), key.measured


def _votes(held: Sequence[Held]) -> list[float]:
    """The weight of each key: GPUs have one vote, shared by their keys."""
    keys = Counter(each.key.hardware for each in held)
    return [1 / keys[each.key.hardware] for each in held]


def _nearest(group: Group, others: Sequence[Group]) -> Iterator[tuple[float, Group]]:
    """The same op on the nearest GPUs of the vendor, with their distance."""
    family, dtype = group.rows.family, group.key.dtype
    found = [
        (apart(group.hardware, other.hardware, family, dtype), other)
        for other in _comparable(group, others)
    ]
    found.sort(key=lambda each: (each[0], each[1].key.name))
    near = set(nearest_names(other.key.hardware for _, other in found))
    yield from (each for each in found if each[1].key.hardware in near)


def _is_twin(group: Group, near: Sequence[tuple[float, Group]]) -> bool:
    """Whether the same harness measured a twin.

    Two harnesses differ by more than twins do.
    """
    away, nearest = near[0]
    return away <= TWINS and nearest.key.source == group.key.source


def _comparable(group: Group, others: Sequence[Group]) -> list[Group]:
    """The same op on other GPUs by the same harness, if it measured two or more.

    Else by any harness: models of all of them are used for a GPU nobody measured.
    """
    same = [other for other in others if group.is_alike_on_other_hardware(other)]
    if len({other.key.hardware for other in same}) >= LEAST_HELD:
        return same
    return [
        other
        for other in others
        if other.key.hardware != group.key.hardware
        and kind_of(other.key) == kind_of(group.key)
        and group.hardware.is_related(other.hardware)
    ]
