"""Sweeps: scenarios that differ in one value, as many as asked for.

factor=0.1..1:10     ten values from 0.1 to 1, both counted
factor=0.25,0.5,2    these values
add_ns=SELECT ...    those that a query gives, in its first column
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tracedb.action import VALUES
from tracedb.errors import ScenarioError
from tracedb.scenario import FIELDS, Change, Edit, check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST = 10_000
_MOST_NS = 1e18
_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>.+):(?P<count>\d{1,6})")


def swept(
    edits: Sequence[Edit], sweep: str, query: Callable[[str], list[Any]]
) -> list[Edit]:
    """Each scenario of the edits once for each value of a sweep, with it in its name.

    The value is set in all edits of the action that it is for. `query` runs SQL.
    Raises `ScenarioError` for a sweep that is none, or changes no edit.
    """
    field, _, given = sweep.partition("=")
    if field not in VALUES or not given:
        raise ScenarioError(
            f"sweep {sweep}: a field and its values are due, as factor=0.1..1:10; the "
            f"field may be {', '.join(VALUES)}"
        )
    if not any(getattr(edit, field) is not None for edit in edits):
        raise ScenarioError(
            f"sweep {sweep}: no edit has {field}; give one to those that are swept"
        )
    found = [
        _with(edit, field, value)
        for value in _values(sweep, field, given, query)
        for edit in edits
    ]
    check(found)
    return found


def _with(edit: Edit, field: str, value: float) -> Edit:
    """An edit in the scenario of a value."""
    scenario = f"{edit.scenario} {field}={value:g}"
    if getattr(edit, field) is None:
        return structs.replace(edit, scenario=scenario)
    return structs.replace(edit, scenario=scenario, **{field: value})


def _values(
    sweep: str, field: str, given: str, query: Callable[[str], list[Any]]
) -> list[float]:
    """The values of a sweep, each as the field takes it."""
    if re.match(r"\s*(SELECT|FROM|WITH)\b", given, re.IGNORECASE):
        values = query(given)
    else:
        values = _written(sweep, given)
    if not values or len(values) > _MOST:
        raise ScenarioError(
            f"sweep {sweep}: {len(values):,} values; from 1 to {_MOST:,} are possible"
        )
    return [_checked(sweep, field, value) for value in values]


def _written(sweep: str, given: str) -> list[float]:
    """Values that are listed, or a range of some."""
    matched = _RANGE.fullmatch(given)
    try:
        if matched is None:
            return [float(value) for value in given.split(",")]
        low, high = float(matched["low"]), float(matched["high"])
    except ValueError:
        raise ScenarioError(
            f"sweep {sweep}: {given} is neither numbers (0.25,0.5,2) nor a range of so "
            "many (0.1..1:10)"
        ) from None
    count = int(matched["count"])
    apart = (high - low) / max(count - 1, 1)
    return [low + apart * number for number in range(min(count, _MOST + 1))]


def _checked(sweep: str, field: str, value: object) -> float:
    """A value of a sweep, if the field takes it."""
    number = value
    if field.endswith("_ns") and isinstance(value, float) and abs(value) < _MOST_NS:
        number = round(value)
    try:
        converted = msgspec.convert({"target": "gpu", field: number}, Change)
    except msgspec.ValidationError as error:
        raise ScenarioError(
            f"sweep {sweep}: {value} is no {field}; it has to be {FIELDS[field]}"
        ) from error
    found: float = getattr(converted, field)
    return found
