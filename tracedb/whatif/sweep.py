"""Sweeps: scenarios that differ in one value.

factor=0.1..1:10     ten values from 0.1 to 1, ends included
factor=0.25,0.5,2    a list
add_ns=SELECT ...    the first column of a query
ranks=8..64          a setting (`tracedb.whatif.edit_line`), doubling
gpu=A100,H100        a setting
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tracedb.errors import ScenarioError
from tracedb.whatif.action import VALUES, action_of
from tracedb.whatif.edit_line import SETTINGS, parse_setting
from tracedb.whatif.scenario import FIELDS, Change, Edit, check, of_scenario
from tracedb.whole_numbers import MOST, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_NS = 1e18
_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>.+):(?P<count>\d+)")


def swept(
    edits: Sequence[Edit], sweep: str, query: Callable[[str], list[Any]]
) -> list[Edit]:
    """Each scenario of the edits once for each value of a sweep, with it in its name.

    The value is set in all edits that have that field; if none has, in those without
    any action or value. A scenario without such an edit remains as it is, once. A sweep
    of a setting needs no such edit: each scenario gets that setting. `query` runs SQL.
    Raises `ScenarioError` for a malformed sweep, or one that changes no edit.
    """
    field, _, given = sweep.partition("=")
    if is_of_setting(sweep):
        return _settings(edits, sweep)
    if field not in VALUES or not given:
        raise ScenarioError(
            f"sweep {sweep}: expected a field and its values, such as "
            f"factor=0.1..1:10; the fields are {', '.join([*SETTINGS, *VALUES])}"
        )
    changed = [edit for edit in edits if getattr(edit, field) is not None]
    changed = changed or [edit for edit in edits if _is_bare(edit)]
    if not changed:
        raise ScenarioError(
            f"sweep {sweep}: no edit has {field}; add it to the edits to sweep"
        )
    values = _values(sweep, field, given, query)
    _check_distinct(sweep, values)
    scenarios = {edit.scenario for edit in changed}
    found = [edit for edit in edits if edit.scenario not in scenarios]
    found += [
        _with(edit, {field: value} if edit in changed else {}, f"{field}={shown}")
        for value, shown in zip(values, _shown(values), strict=True)
        for edit in edits
        if edit.scenario in scenarios
    ]
    check(found)
    return found


def is_of_setting(sweep: str) -> bool:
    """Whether a sweep is of a setting, such as `ranks=8..64`."""
    name, _, given = sweep.partition("=")
    return name in SETTINGS and bool(given)


def _settings(edits: Sequence[Edit], sweep: str) -> list[Edit]:
    """Each scenario of the edits, or one without others, with each setting."""
    name, _, given = sweep.partition("=")
    values = [text for part in given.split(",") for text in _texts(name, part.strip())]
    _check_distinct(sweep, values)
    _check_count(sweep, len(values))
    found = [e for value in values for e in _with_setting(edits, name, value)]
    check(found)
    return found


def _with_setting(edits: Sequence[Edit], name: str, value: str) -> list[Edit]:
    """The scenarios of the edits, each with a setting instead of its own, if any."""
    text = f"{name}={value}"
    setting, field = parse_setting(text), SETTINGS[name]
    if not edits:
        return [of_scenario(text, setting)]
    found = []
    for scenario in dict.fromkeys(edit.scenario for edit in edits):
        own = [edit for edit in edits if edit.scenario == scenario]
        changed = [edit for edit in own if getattr(edit, field) is not None]
        if changed and ":" in value:
            raise ScenarioError(
                f"sweep {text}: an edit of {scenario} has {field}, and selects what it "
                "is for; give values alone"
            )
        values = {field: getattr(setting, field), "scenario": _renamed(scenario, text)}
        found += [
            structs.replace(edit, **values)
            if edit in changed
            else structs.replace(edit, scenario=values["scenario"])
            for edit in own
        ]
        if not changed:
            found.append(of_scenario(values["scenario"], setting))
    return found


def _texts(name: str, text: str) -> list[str]:
    """The values of a part of a setting's sweep."""
    if FIELDS[SETTINGS[name]].startswith("a whole number"):
        try:
            return [str(number) for number in whole_numbers(text)]
        except ValueError as error:
            raise ScenarioError(f"sweep of {name}: {error}") from error
    return [text]


def _renamed(scenario: str, setting: str) -> str:
    """A scenario's name with a setting, in the place of the same with another value.

    >>> _renamed("ranks=8 network=25", "ranks=16"), _renamed("a", "ranks=16")
    ('ranks=16 network=25', 'a ranks=16')
    """
    name = setting.partition("=")[0]
    before = re.compile(rf"(?<![\w-]){name}=[^\s:;]+")
    if before.search(scenario):
        return before.sub(lambda _: setting, scenario)
    return f"{scenario} {setting}"


def _is_bare(edit: Edit) -> bool:
    """Whether an edit has only a selection, and no action or value."""
    given = [value for value in VALUES if getattr(edit, value) is not None]
    return action_of(edit) == "scale" and not given


def _with(edit: Edit, values: dict[str, float], name: str) -> Edit:
    """An edit with other values, in a scenario with that suffix."""
    return structs.replace(edit, scenario=f"{edit.scenario} {name}", **values)


def _shown(values: Sequence[float]) -> list[str]:
    """The values for names: short, or in full if short ones clash."""
    short = [f"{value:g}" for value in values]
    return short if len(set(short)) == len(values) else list(map(repr, values))


def _values(
    sweep: str, field: str, given: str, query: Callable[[str], list[Any]]
) -> list[float]:
    """The values of a sweep, checked and converted."""
    if re.match(r"\s*(SELECT|FROM|WITH)\b", given, re.IGNORECASE):
        values = query(given)
    else:
        values = _written(sweep, given)
    _check_count(sweep, len(values))
    return [_checked(sweep, field, value) for value in values]


def _written(sweep: str, given: str) -> list[float]:
    """The values of a list or a range."""
    matched = _RANGE.fullmatch(given)
    try:
        if matched is None:
            return [float(value) for value in given.split(",")]
        low, high = float(matched["low"]), float(matched["high"])
        count = int(matched["count"])
    except ValueError:
        raise ScenarioError(
            f"sweep {sweep}: {given} is neither a list (0.25,0.5,2) nor a range with a "
            "count (0.1..1:10)"
        ) from None
    _check_count(sweep, count)
    if not math.isfinite(high - low):
        raise ScenarioError(
            f"sweep {sweep}: both ends of a range must be finite, such as 0.1..1"
        )
    apart = (high - low) / max(count - 1, 1)
    return [low + apart * number for number in range(count)]


def _check_count(sweep: str, count: int) -> None:
    """Raise `ScenarioError` for no values, or too many."""
    if not 1 <= count <= MOST:
        raise ScenarioError(
            f"sweep {sweep}: {count:,} values; the limit is 1 to {MOST:,}"
        )


def _check_distinct(sweep: str, values: Sequence[object]) -> None:
    """Raise `ScenarioError` for a value that occurs twice."""
    if len(set(values)) < len(values):
        raise ScenarioError(f"sweep {sweep}: a value occurs twice; remove one")


def _checked(sweep: str, field: str, value: object) -> float:
    """A value of a sweep; raises `ScenarioError` if the field does not take it."""
    number = value
    if field.endswith("_ns") and isinstance(value, float) and abs(value) < _MOST_NS:
        number = round(value)
    try:
        converted = msgspec.convert({"target": "gpu", field: number}, Change)
    except msgspec.ValidationError as error:
        raise ScenarioError(
            f"sweep {sweep}: {value} is not a valid {field}; it must be {FIELDS[field]}"
        ) from error
    found: float = getattr(converted, field)
    return found
