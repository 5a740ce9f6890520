"""Scenarios: named edits of what a prediction is made with.

A file of scenarios is a JSON object: each name has a list of edits, as

    {"fast GEMM": [{"target": "gpu", "name": "(?i).*gemm.*", "factor": 0.5}],
     "no overheads": [{"target": "host", "factor": 0}]}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import duckdb
import msgspec

from tracedb.errors import ScenarioError

BASELINE = "baseline"
TYPES = {
    "host": ("T1", "T2", "T3", "T4", "T5", "idle", "wait_data"),
    "gpu": ("kernel", "memcpy", "memset", "collective", "other"),
    "profiler": (),
    "wait": ("host", "thread", "stream"),
}
"""What there is to edit, and which types of it."""


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An edit as a file has it; see `prediction.scenario_edit` for its fields."""

    target: Literal["host", "gpu", "profiler", "wait"]
    type: str | None = None
    name: str | None = None
    factor: Annotated[float, msgspec.Meta(ge=0)] | None = None
    add_ns: int | None = None


class Edit(Change, frozen=True, kw_only=True):
    """A change and the scenario that it is of."""

    scenario: str


UNPROFILED = Edit(scenario="unprofiled", target="profiler", factor=0)
"""What a step takes without the profiler, by its estimated cost of each event."""


def read_scenarios(path: str | Path) -> list[Edit]:
    """Read a file of scenarios: their edits, in its order.

    Raises `ScenarioError` with the file, the place and what is wrong.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    try:
        scenarios = msgspec.json.decode(text, type=dict[str, list[Change]])
    except msgspec.DecodeError as error:
        raise ScenarioError(f"{path}: no file of scenarios: {error}") from error
    edits = [
        Edit(scenario=name, **msgspec.structs.asdict(change))
        for name, changes in scenarios.items()
        for change in changes
    ]
    try:
        check(edits)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    return edits


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
    changes = edit.factor is not None or edit.add_ns is not None
    known = TYPES[edit.target]
    if edit.scenario == BASELINE:
        return "that is the name of what nothing is edited in; give another"
    if edit.type is not None and edit.type not in known:
        listed = f"it may be {', '.join(known)}" if known else "leave it out"
        return f"no type {edit.type} of {edit.target}; {listed}"
    if edit.target == "wait":
        return "waits are removed; leave factor and add_ns out" if changes else None
    if edit.name is not None and edit.target == "profiler":
        return "profiler has no names; leave name out"
    if not changes:
        return "an edit changes nothing; give it a factor or add_ns"
    return _wrong_name(edit.name)


def _wrong_name(name: str | None) -> str | None:
    with duckdb.connect() as connection:
        try:
            connection.execute("SELECT regexp_full_match('', ?)", [name or ""])
        except duckdb.Error:
            return f"name {name} is no regular expression"
    return None
