"""Scenarios: named edits of what a prediction is made with.

A file of scenarios is a JSON object: each name has a list of edits, as

    {"fast GEMM": [{"target": "gpu", "name": "(?i).*gemm.*", "factor": 0.5}],
     "no copies": [{"target": "gpu", "type": "memcpy", "action": "remove"}],
     "no overheads": [{"target": "host", "factor": 0}]}

What an edit does is in `tracedb.action`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from tracedb.action import ACTIONS, Action, wrong_action
from tracedb.duck import scalar
from tracedb.errors import ScenarioError
from tracedb.json_file import decode, read_text
from tracedb.pattern import wrong_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

BASELINE = "baseline"
TYPES = {
    "host": ("T1", "T2", "T3", "T4", "T5", "idle", "wait_data"),
    "gpu": ("kernel", "memcpy", "memset", "collective", "other"),
    "profiler": (),
    "wait": ("host", "thread", "stream"),
}
"""What there is to edit, and which types of it."""


_EXAMPLE = '{"target": "gpu", "factor": 0.5}'
_FIELDS = {
    "target": f"one of {', '.join(TYPES)}",
    "type": "a text",
    "name": "a text, a regular expression",
    "action": f"one of {', '.join(ACTIONS)}",
    "factor": "a number from 0 to 1e9",
    "add_ns": "a whole number of nanoseconds, up to 1e15",
    "set_ns": "a whole number of nanoseconds, from 0 to 1e15",
}
"""The fields of an edit, and what they have to be."""


_NAMELESS = ("profiler", "wait", "T1", "idle")
"""Targets and types that a name would not choose among."""


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An edit as a file has it; see `prediction.scenario_edit` for its fields."""

    target: Literal["host", "gpu", "profiler", "wait"]
    type: str | None = None
    name: str | None = None
    action: Action | None = None
    factor: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    add_ns: Annotated[int, msgspec.Meta(ge=-(10**15), le=10**15)] | None = None
    set_ns: Annotated[int, msgspec.Meta(ge=0, le=10**15)] | None = None


class Edit(Change, frozen=True, kw_only=True):
    """A change and the scenario that it is of."""

    scenario: str


UNPROFILED = Edit(scenario="unprofiled", target="profiler", factor=0)
"""What a step takes without the profiler, by its estimated cost of each event."""


def read_scenarios(path: str | Path) -> list[Edit]:
    """Read a file of scenarios: their edits, in its order.

    Raises `ScenarioError` with the file, the place and what is wrong.
    """
    scenarios = decode(path, read_text(path, ScenarioError), ScenarioError)
    try:
        edits = list(_edits(scenarios))
        check(edits)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    return edits


def _edits(scenarios: object) -> Iterator[Edit]:
    """The edits of the object that a file is."""
    if not isinstance(scenarios, dict):
        raise ScenarioError(
            "no file of scenarios: that is an object with a list of edits for each "
            f'name, as {{"faster": [{_EXAMPLE}]}}'
        )
    for name, edits in scenarios.items():
        if not isinstance(edits, list) or not edits:
            raise ScenarioError(
                f"scenario {name}: no edits; it has a list of them, as [{_EXAMPLE}]"
            )
        for number, edit in enumerate(edits, 1):
            yield _edit(name, f"scenario {name}, edit {number}", edit)


def _edit(scenario: str, place: str, fields: object) -> Edit:
    """One edit, with each of its fields checked."""
    if not isinstance(fields, dict):
        raise ScenarioError(f"{place}: no edit; it is an object, as {_EXAMPLE}")
    for name, value in fields.items():
        if name not in _FIELDS:
            raise ScenarioError(
                f"{place}: no field {name}; there are {', '.join(_FIELDS)}"
            )
        try:
            msgspec.convert({"target": "gpu", name: value}, Change)
        except msgspec.ValidationError as error:
            raise ScenarioError(
                f"{place}: {name} is {json.dumps(value)}; it has to be {_FIELDS[name]}"
            ) from error
    if "target" not in fields:
        raise ScenarioError(f"{place}: target is missing: {_FIELDS['target']}")
    return Edit(scenario=scenario, **fields)


def check(edits: list[Edit]) -> None:
    """Raise `ScenarioError` for edits that cannot be carried out as they stand."""
    if not edits:
        raise ScenarioError("no edits; a scenario changes something")
    for edit in edits:
        wrong = _wrong(edit)
        if wrong:
            raise ScenarioError(f"scenario {edit.scenario}: {wrong}")


def _wrong(edit: Edit) -> str | None:
    """What is wrong with an edit, if anything."""
    known = TYPES[edit.target]
    if edit.scenario == BASELINE:
        return "that is the name of what nothing is edited in; give another"
    if edit.type is not None and edit.type not in known:
        listed = f"it may be {', '.join(known)}" if known else "leave it out"
        return f"no type {edit.type} of {edit.target}; {listed}"
    if edit.name is not None and (edit.target in _NAMELESS or edit.type in _NAMELESS):
        what = edit.type if edit.type in _NAMELESS else edit.target
        return f"{what} has no names; leave name out"
    return wrong_action(edit) or _wrong_name(edit.name)


def check_matches(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `ScenarioError` for the first edit that matches nothing in the database.

    The edits are those of `prediction.scenario_edit`; the message lists near misses.
    """
    idle = connection.execute(
        "SELECT scenario, edit, target, type, name FROM question.scenario_match "
        "WHERE match_count = 0"
    ).fetchall()
    if not idle:
        return
    scenario, edit, target, type_, name = idle[0]
    there = "" if name is None else _near_names(connection, target, name)
    raise ScenarioError(
        f"scenario {scenario}, edit {edit}: no {_selected(target, type_, name)} in "
        f"this database{there or _near_types(connection, target)}"
    )


_NOUNS = {
    "host": "host time",
    "gpu": "GPU work",
    "profiler": "event of the profiler",
    "wait": "wait",
}
_NAMES = {
    "host": "SELECT name FROM staging.op UNION SELECT name FROM staging.call",
    "gpu": "SELECT name FROM staging.gpu_op UNION SELECT name FROM staging.op "
    "WHERE op_id IN (SELECT op_id FROM staging.gpu_op)",
}
_TYPES = {
    "host": "SELECT DISTINCT type FROM overhead.interval WHERE type IN $types",
    "gpu": "SELECT DISTINCT CASE WHEN is_collective THEN 'collective' ELSE kind END "
    "FROM staging.gpu_op",
}
_MOST_NEAR = 3


def _selected(target: str, type_: str | None, name: str | None) -> str:
    """What an edit chooses, in words."""
    of_type = "" if type_ is None else f" of type {type_}"
    called = "" if name is None else f" with a name that {name} matches as a whole"
    return f"{_NOUNS[target]}{of_type}{called}"


def _near_names(
    connection: duckdb.DuckDBPyConnection, target: str, pattern: str
) -> str:
    """Names that an expression may have meant: they contain it, or are spelt so."""
    value = {"pattern": pattern}
    names = f"SELECT name FROM ({_NAMES[target]}) AS known (name)"
    within = f"{names} WHERE regexp_matches(name, '(?i)' || $pattern) ORDER BY name"
    count = scalar(connection, f"SELECT count(*) FROM ({within})", value)
    alike = "jaro_winkler_similarity(lower(name), lower($pattern))"
    query = within if count else f"{names} ORDER BY {alike} DESC, name"
    near = connection.execute(f"{query} LIMIT {_MOST_NEAR}", value).fetchall()
    listed = ", ".join(name for (name,) in near)
    reported = f"{count} name(s) contain it:" if count else "nearest are"
    return f"; {reported} {listed}" if listed else ""


def _near_types(connection: duckdb.DuckDBPyConnection, target: str) -> str:
    """The types that there are of a target."""
    if target not in _TYPES:
        return ""
    query = _TYPES[target].replace("$types", str(TYPES["host"]))
    listed = ", ".join(sorted(name for (name,) in connection.execute(query).fetchall()))
    return f"; there is {listed}" if listed else ""


def _wrong_name(name: str | None) -> str | None:
    wrong = wrong_pattern(name or "")
    return wrong and f"name {name} {wrong}"
