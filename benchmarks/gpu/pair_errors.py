"""Errors of scenarios that predict real changes: pairs of recordings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from measure import tell
from msgspec import structs
from pages import goal, table
from recorded import percent

import tracedb
from tracedb.errors import TracedbError
from tracedb.whatif.edit_line import parse, parse_setting
from tracedb.whatif.scenario import UNPROFILED, of_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from recorded import Recorded

    from tracedb.whatif.scenario import Edit

GOAL = 5.0
"""[%] The median error."""
CHANGED, BOTH = "changed", "both"
METHOD = "replay"
ABOUT = """
## Pairs

Of each pair only the first side was given: its trace and its execution graph. `change`
is the time of the second side's steps that nobody profiled over that of the first's,
less 1; `predicted` is what the edits make of it, without the profiler's cost on both
sides; `error` is the predicted ratio over the true one, less 1. Rounds of steps differ
by so much at most from their median (`noise`, of the worse side): no error below it
means anything.
"""


@dataclass(frozen=True)
class Pair:
    """A pair: its real effect, and the prediction, or why there is none."""

    name: str
    facts: dict[str, Any]
    ratio: float
    noise: float
    predicted: float | None = None
    refused: str = ""

    @property
    def error(self) -> float | None:
        """Predicted ratio over the measured one, minus 1."""
        return None if self.predicted is None else self.predicted / self.ratio - 1


def of_folder(
    folder: Path, recorded: Mapping[str, Recorded], models: Path | None
) -> Iterator[Pair]:
    """The pairs of which both sides are there."""
    known = folder / "pairs.json"
    listed = json.loads(known.read_text()) if known.exists() else {}
    for name, facts in listed.items():
        if {facts["before"], facts["after"]} <= recorded.keys():
            tell(f"pair {name}")
            before, after = (recorded[facts[side]] for side in ("before", "after"))
            yield judged(name, facts, before, after, models)


def judged(
    name: str,
    facts: dict[str, Any],
    before: Recorded,
    after: Recorded,
    models: Path | None,
) -> Pair:
    """Predict the second side from the first, and compare with the recording."""
    ratio, noise = after.step_ns / before.step_ns, max(before.spread, after.spread)
    try:
        return Pair(name, facts, ratio, noise, predicted(facts, before, models))
    except TracedbError as error:
        return Pair(name, facts, ratio, noise, refused=str(error).partition("\n")[0])


def predicted(facts: dict[str, Any], before: Recorded, models: Path | None) -> float:
    """After over before: the median of typical steps."""
    edits = edits_of(facts)
    both = [structs.replace(edit, scenario=BOTH) for edit in [*edits, UNPROFILED]]
    with tracedb.open() as database:
        database.ingest(before.files)
        if models is not None:
            database.apply_models(models)
        steps = database.scenarios([UNPROFILED, *both], METHOD)
    usual = steps.filter(steps["step"] != before.graphed_step)

    def times(scenario: str) -> list[int]:
        rows = usual.filter(usual["scenario"] == scenario).sort("step")
        return rows["predicted_ns"].to_list()

    pairs = zip(times(BOTH), times(UNPROFILED.scenario), strict=True)
    return median(after / before for after, before in pairs)


def edits_of(facts: dict[str, Any]) -> list[Edit]:
    """The edits of the change."""
    changes = [parse(line) for line in facts["edits"]]
    changes += [parse_setting(line) for line in facts["settings"]]
    return [of_scenario(CHANGED, change) for change in changes]


def goals(pairs: list[Pair]) -> Iterator[list[str]]:
    """The median error, and whether any pair has no prediction."""
    errors = [abs(pair.error) for pair in pairs if pair.error is not None]
    if errors:
        yield goal("pairs: median error", 100 * median(errors), GOAL)
    if pairs:
        refused = sum(pair.error is None for pair in pairs)
        yield goal("pairs without a prediction", 100 * refused / len(pairs), 0)


def section(pairs: list[Pair]) -> Iterator[str]:
    """The table; empty without recorded pairs."""
    if not pairs:
        return
    yield ABOUT
    head = ["pair", "what differs", "edits", "change, %", "predicted, %", "error, %"]
    yield from table(
        [*head, "noise, %"],
        (
            [
                pair.name,
                pair.facts["about"],
                _code([*pair.facts["edits"], *pair.facts["settings"]]),
                percent(pair.ratio - 1),
                "" if pair.predicted is None else percent(pair.predicted - 1),
                percent(pair.error),
                f"{100 * pair.noise:.2f}",
            ]
            for pair in pairs
        ),
        left=3,
    )
    refused = [f"- {pair.name}: {pair.refused}" for pair in pairs if pair.refused]
    yield from ["", *refused] if refused else []


def _code(edits: list[str]) -> str:
    return ", ".join(f"`{edit}`" for edit in edits).replace("|", "\\|")
