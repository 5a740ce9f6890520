"""Scenarios: named edits of a prediction's inputs.

A file of scenarios is JSON or TOML: each name has a list of edits, as

    {"fast GEMM": [{"target": "gpu", "name": "*gemm*", "factor": 0.5}],
     "no copies": [{"target": "gpu", "type": "memcpy", "action": "remove"}],
     "no overheads": ["host x0"]}

An edit is an object, or a line (`edit_line`). `selection` says which fields select the
targets, `action` what is done to them.
"""

from __future__ import annotations

import json
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import duckdb
import msgspec
from msgspec import structs

from tracedb.duck import one_line, stoppable
from tracedb.errors import QueryError, ScenarioError
from tracedb.json_file import decode, read_text
from tracedb.whatif import selection
from tracedb.whatif.action import (
    ACTIONS,
    DTYPES,
    STATISTICS,
    Action,
    Dtype,
    Statistic,
    wrong_action,
)
from tracedb.whatif.selection import Selection, near_misses, selected, wrong_selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BASELINE = "baseline"

_EXAMPLE = '{"target": "gpu", "factor": 0.5}'
FIELDS = selection.WANTED | {
    "action": f"one of {', '.join(ACTIONS)}",
    "factor": "a number from 0 to 1e9",
    "add_ns": "a whole number of nanoseconds, up to 1e15",
    "set_ns": "a whole number of nanoseconds, from 0 to 1e15",
    "set_to": f"one of {', '.join(STATISTICS)}",
    "from_run": "a run number",
    "to_gpu": "the name of a GPU (`tracedb kernels hardware` lists them)",
    "to_dtype": f"one of {', '.join(DTYPES)}",
    "to_batch": "a whole number from 1 to 1e9",
    "from_batch": "a whole number from 1 to 1e9",
    "to_ranks": "a whole number from 2 to 1e6",
    "ranks_per_node": "a whole number from 1 to 1e6",
    "network": "a number of GB/s, above 0 and up to 1e6",
    "gaps": "longest or all",
    "place": "before or after",
    "host_ns": "a whole number of nanoseconds, from 0 to 1e15",
    "gpu_ns": "a whole number of nanoseconds, from 0 to 1e15",
    "gap_ns": "a whole number of nanoseconds, from 0 to 1e15",
    "to_stream": "a stream number",
    "until": selection.A_PATTERN,
    "workers": "a whole number from 1 to 1000",
    "ahead": "a whole number from 1 to 1000",
}
"""The fields of an edit, and what they must be."""


_Duration = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Batch = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
_Ranks = Annotated[int, msgspec.Meta(ge=2, le=10**6)]


class Change(Selection, frozen=True, kw_only=True):
    """An edit as written in a file; `prediction.scenario_edit` documents its fields."""

    action: Action | None = None
    factor: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    add_ns: Annotated[int, msgspec.Meta(ge=-(10**15), le=10**15)] | None = None
    set_ns: _Duration | None = None
    set_to: Statistic | None = None
    from_run: Annotated[int, msgspec.Meta(ge=0, le=10**9)] | None = None
    to_gpu: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    to_dtype: Dtype | None = None
    to_batch: _Batch | None = None
    from_batch: _Batch | None = None
    to_ranks: _Ranks | None = None
    ranks_per_node: Annotated[int, msgspec.Meta(ge=1, le=10**6)] | None = None
    network: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    gaps: Literal["longest", "all"] | None = None
    place: Literal["before", "after"] | None = None
    host_ns: _Duration | None = None
    gpu_ns: _Duration | None = None
    gap_ns: _Duration | None = None
    to_stream: Annotated[int, msgspec.Meta(ge=0, le=10**18 - 1)] | None = None
    until: str | None = None
    workers: _Count | None = None
    ahead: _Count | None = None


class Edit(Change, frozen=True, kw_only=True):
    """A change, with the name of its scenario."""

    scenario: str
    bound: str | None = None
    """The end of the band that a part of changed work takes, as in
    `prediction.scenario_end`; only simulations set it."""


UNPROFILED = Edit(scenario="unprofiled", target="profiler", factor=0)
"""The scenario without the profiler's estimated cost per event."""


def read_scenarios(path: str | Path) -> list[Edit]:
    """Read a file of scenarios: their edits, in the order of the file.

    Raises `ScenarioError` with the file, the place and what is wrong.
    """
    scenarios = _decoded(path, read_text(path, ScenarioError))
    try:
        edits = list(_edits(scenarios))
        check(edits)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    return edits


def _decoded(path: str | Path, text: str) -> object:
    """The value of a text, as TOML or JSON by the name of the file."""
    if Path(path).suffix != ".toml":
        return decode(path, text, ScenarioError)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: not TOML: {error}") from error


def _edits(scenarios: object) -> Iterator[Edit]:
    """The edits in the object of a file."""
    if not isinstance(scenarios, dict):
        raise ScenarioError(
            "not a file of scenarios: expected an object with a list of edits for "
            f'each name, such as {{"faster": [{_EXAMPLE}]}}'
        )
    for name, edits in scenarios.items():
        if not isinstance(edits, list) or not edits:
            raise ScenarioError(
                f"scenario {name}: no edits; expected a list of them, such as "
                f"[{_EXAMPLE}]"
            )
        for number, edit in enumerate(edits, 1):
            yield _edit(name, f"scenario {name}, edit {number}", edit)


def _edit(scenario: str, place: str, fields: object) -> Edit:
    """One edit, with each of its fields checked."""
    if isinstance(fields, str):
        from tracedb.whatif.edit_line import parse

        try:
            return of_scenario(scenario, parse(fields))
        except ScenarioError as error:
            raise ScenarioError(f"{place}: {error}") from error
    if not isinstance(fields, dict):
        raise ScenarioError(
            f"{place}: not an edit; expected an object, such as {_EXAMPLE}"
        )
    for name, value in fields.items():
        if name not in FIELDS:
            raise ScenarioError(
                f"{place}: no field {name}; the fields are {', '.join(FIELDS)}"
            )
        wrong = _wrong_value(name, value)
        if wrong:
            raise ScenarioError(f"{place}: {wrong}")
    if "target" not in fields:
        raise ScenarioError(
            f"{place}: target is missing; it must be {FIELDS['target']}"
        )
    return Edit(scenario=scenario, **fields)


def _wrong_value(name: str, value: object) -> str | None:
    """What is wrong with the value of a field, if anything."""
    plain = _plain(value)
    try:
        msgspec.convert({"target": "gpu", name: plain}, Change)
    except msgspec.ValidationError:
        shown = json.dumps(plain, default=str)
        return f"{name} is {shown}; it must be {FIELDS[name]}"
    return None


def _plain(value: Any) -> Any:  # noqa: ANN401 (of any field)
    """The value of a field as Python's own: a number may be NumPy's."""
    return value.item() if hasattr(value, "item") else value


def of_scenario(scenario: str, change: Change) -> Edit:
    """A change as an edit of a scenario."""
    return Edit(scenario=scenario, **structs.asdict(change))


def stored_edits(connection: duckdb.DuckDBPyConnection) -> list[Edit]:
    """The edits that users inserted into `reference.scenario`, in their order.

    Raises `ScenarioError` if there are none, or if a row is not an edit.
    """
    cursor = connection.execute(
        "SELECT * EXCLUDE (ordinal) FROM reference.scenario ORDER BY ordinal, rowid"
    )
    names = [column[0] for column in cursor.description or ()]
    edits = []
    for number, row in enumerate(cursor.fetchall(), 1):
        fields = {k: v for k, v in zip(names, row, strict=True) if v is not None}
        place = f"reference.scenario, row {number}"
        scenario = fields.pop("scenario", None)
        if scenario is None:
            raise ScenarioError(
                f"{place}: the name of the scenario is missing (scenario)"
            )
        edits.append(_edit(scenario, place, fields))
    if not edits:
        raise ScenarioError(
            "reference.scenario is empty; insert a row for each edit of a scenario"
        )
    check(edits)
    return edits


def file_schema() -> bytes:
    """The JSON Schema of a file of scenarios."""
    edit = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Change"}]}
    (_,), known = msgspec.json.schema_components(
        [Change], ref_template="#/$defs/{name}"
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tracedb scenarios: a list of edits for each name",
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1, "items": edit},
        "$defs": known,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2)


def check(edits: list[Edit]) -> None:
    """Raise `ScenarioError` for edits that cannot be carried out as they stand."""
    if not edits:
        raise ScenarioError("no edits; a scenario needs at least one")
    for edit in edits:
        wrong = _wrong(edit)
        if wrong:
            raise ScenarioError(f"scenario {edit.scenario}: {wrong}")


def _wrong(edit: Edit) -> str | None:
    """What is wrong with an edit, if anything."""
    if edit.scenario == BASELINE:
        return "this name is reserved for the unedited baseline; choose another"
    return _wrong_values(edit) or wrong_selection(edit) or wrong_action(edit)


def _wrong_values(edit: Edit) -> str | None:
    """What is wrong with the values of an edit: those made in Python may have any."""
    if not isinstance(edit.scenario, str):
        return "the name of a scenario must be a text"
    given = {
        name: value for name in FIELDS if (value := getattr(edit, name)) is not None
    }
    try:
        msgspec.convert(given, Change)
    except msgspec.ValidationError:
        every = {"target": edit.target} | given
        wrong = (_wrong_value(name, value) for name, value in every.items())
        return next(filter(None, wrong), None)
    return None


def set_edits(
    connection: duckdb.DuckDBPyConnection,
    edits: Sequence[Edit],
    chosen: dict[str, list[int]],
) -> None:
    """Make the edits the rows of `prediction.scenario_edit`, for one connection.

    `chosen` has the nodes that each of their queries selects (`chosen_nodes`).
    """
    rows = [_row(edit, chosen) for edit in edits]
    fields = {
        field for row in rows for field, value in row.items() if value is not None
    }
    connection.execute("SET VARIABLE edits = $edits", {"edits": rows})
    connection.execute("SET VARIABLE edit_fields = $fields", {"fields": [*fields]})


def _row(edit: Edit, chosen: dict[str, list[int]]) -> dict[str, Any]:
    """An edit as `prediction.scenario_edit` reads it, with numbers as text."""
    row = {name: _plain(value) for name, value in structs.asdict(edit).items()}
    sql, node = row.pop("sql"), row.pop("node")
    for field in selection.NUMBERS:
        if row.get(field) is not None:
            row[field] = str(row[field])
    row["nodes"] = chosen[sql] if sql is not None else _nodes(node)
    return row


def _nodes(node: int | str | None) -> list[int] | None:
    if node is None:
        return None
    return [n for low, high in selection.ranges(node) for n in range(low, high + 1)]


def chosen_nodes(
    connection: duckdb.DuckDBPyConnection, edits: Sequence[Edit], *, allow_files: bool
) -> dict[str, list[int]]:
    """The nodes that each query of the edits selects, run like any user query.

    Raises `ScenarioError` for a query that is refused, fails, or returns no integers.
    """
    from tracedb import sandbox

    found = {}
    for edit in edits:
        if edit.sql is None or edit.sql in found:
            continue
        query = edit.sql
        try:
            sandbox.check(connection, query, allow_files=allow_files)
            rows = stoppable(connection, partial(_fetched, connection, query))
        except (QueryError, duckdb.Error) as error:
            raise ScenarioError(
                f"scenario {edit.scenario}: sql: {one_line(error)}"
            ) from error
        numbers = [row[0] for row in rows if row[0] is not None]
        if not all(isinstance(number, int) for number in numbers):
            raise ScenarioError(
                f"scenario {edit.scenario}: sql gives {numbers[0]!r}; its first column "
                "must hold numbers of graph.node"
            )
        found[query] = numbers
    return found


def _fetched(connection: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return connection.execute(query).fetchall()


def check_matches(connection: duckdb.DuckDBPyConnection, edits: Sequence[Edit]) -> None:
    """Raise `ScenarioError` for the first edit that matches nothing in the database.

    The edits are those of `prediction.scenario_edit`; the message lists near misses.
    """
    idle = connection.execute(
        "SELECT scenario, edit FROM question.scenario_match "
        "WHERE match_count = 0 LIMIT 1"
    ).fetchone()
    if idle is None:
        return
    scenario, number = idle
    own = [edit for edit in edits if edit.scenario == scenario]
    edit = own[number - 1]
    raise ScenarioError(
        f"scenario {scenario}, edit {number}: no {selected(edit)} in this database"
        f"{near_misses(connection, (scenario, number), edit)}"
    )
