"""Restrict answers to one step, rank, run, trace or device."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, SupportsIndex, TypedDict

from .errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from .catalog import Relation


class Within(TypedDict, total=False):
    """Numbers that restrict an answer; None does not restrict it."""

    rank: int | None
    run: int | None
    trace: int | None
    device: int | None


class Part(Within, total=False):
    """The same, with the step."""

    step: int | None


_THERE = {
    "step": "SELECT DISTINCT step FROM staging.step ORDER BY step",
    "rank": "SELECT DISTINCT rank FROM staging.trace WHERE rank >= 0 ORDER BY rank",
    "run": "SELECT run_id FROM raw.run ORDER BY run_id",
    "trace": "SELECT trace_id FROM raw.trace ORDER BY trace_id",
    "device": "SELECT DISTINCT device FROM staging.stream ORDER BY device",
}
"""Queries for the existing numbers."""
_CONDITIONS = {
    "step": {
        "step_id": "step_id IN (SELECT step_id FROM staging.step WHERE step = {0})",
        "step": "step = {0}",
    },
    "rank": {
        "rank": "rank = {0}",
        "trace_id": "trace_id IN (SELECT trace_id FROM staging.trace WHERE rank = {0})",
    },
    "run": {
        "run_id": "run_id = {0}",
        "trace_id": "trace_id IN (SELECT trace_id FROM raw.trace WHERE run_id = {0})",
    },
    "trace": {"trace_id": "trace_id = {0}"},
    "device": {"device": "device = {0}"},
}
"""The condition on rows, for the first of these columns that a relation has."""
_MOST = 12
NO_STEPS = (
    "the traces have no steps; staging.step_mark has what could mark them, for "
    "`tracedb ingest --step-mark`; `--one-step` takes each trace as one"
)


def where(
    relation: Relation,
    part: Mapping[str, object],
    rows: Callable[[str], pl.DataFrame],
) -> str:
    """The WHERE clause that selects a part of a relation; empty for all of it.

    `rows` runs queries. Raises `QueryError` if the relation has no such column, or if
    the number does not exist.
    """
    conditions = []
    for name, value in part.items():
        if value is not None:
            number = whole_number(value)
            found = _condition(relation, name)
            check(name, number, rows)
            conditions.append(found.format(number))
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def check(name: str, number: int, rows: Callable[[str], pl.DataFrame]) -> None:
    """Raise `QueryError`, listing the existing numbers, if a number does not exist."""
    there = rows(_THERE[name]).to_series().to_list()
    if number not in there:
        why = NO_STEPS if name == "step" else f"the database has no {name}s"
        raise no_such_number(f"{name} {number}", there, why)


def no_such_number(
    what: str, there: Sequence[int], why: str = "there are none"
) -> QueryError:
    """The error for an unknown number, which lists the known ones, or says why.

    >>> no_such_number("step 9", [1, 2])
    QueryError('no step 9; available: 1, 2')
    >>> no_such_number("step 9", [6])
    QueryError('no step 9; there is only step 6')
    """
    if not there:
        return QueryError(f"no {what}: {why}")
    noun = what.partition(" ")[0]
    if len(there) == 1:
        return QueryError(f"no {what}; there is only {noun} {there[0]}")
    listed = ", ".join(map(str, there[:_MOST]))
    more = f", ... up to {there[-1]}" if len(there) > _MOST else ""
    return QueryError(f"no {what}; available: {listed}{more}")


def whole_number(value: object) -> int:
    """Convert to an integer; raises `QueryError` for anything else."""
    if not isinstance(value, SupportsIndex):
        raise QueryError(f"{value!r} is not a whole number")
    return index(value)


def _condition(relation: Relation, name: str) -> str:
    if name not in _CONDITIONS:
        known = ", ".join(_CONDITIONS)
        raise QueryError(f"answers have no part '{name}'; available: {known}")
    for column, condition in _CONDITIONS[name].items():
        if column in relation.columns:
            return condition
    own = [part for part in _CONDITIONS if {*_CONDITIONS[part]} & {*relation.columns}]
    rest = f"; it has {', '.join(f'{part}s' for part in own)}" if own else ""
    raise QueryError(f"{relation.full_name} has no {name}s to choose from{rest}")
