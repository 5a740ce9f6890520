"""Predictions of scenarios of marked actions, compared with programs changed alike."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from executed import (
    CUDA,
    STEPS,
    Times,
    launched,
    named,
    periods,
    times,
    works_on_streams,
    wrong_times,
)
from marked import changed
from marks import Case, Fields, Scenario
from support import rows

import tracedb
from tracedb import Edit
from tracedb.errors import ScenarioError
from tracedb.synthetic import execute
from tracedb.synthetic.execution import START_NS
from tracedb.whatif.simulation import beside as simulated_beside

BASELINE = "baseline"
WORK = """
    SELECT path, scenario, correlation, stream, ordinal,
        CASE WHEN is_after THEN 1 WHEN NOT is_after THEN -1 ELSE 0 END, edit,
        time.start_ns, time.end_ns
    FROM simulation.gpu_work_time AS time
    INNER JOIN prediction.variant USING (variant_id)
    LEFT JOIN prediction.inserted_work AS inserted USING (variant_id, gpu_op_id)
    INNER JOIN (
        SELECT gpu_op_id, correlation, stream,
            row_number() OVER (
                PARTITION BY trace_id, correlation, stream ORDER BY start_ns, gpu_op_id
            ) AS ordinal
        FROM staging.gpu_op
    ) AS work
        -- The work that an edit names: next to fused work, a part of it.
        ON work.gpu_op_id
        = coalesce(-inserted.gpu_op_id % 10_000_000_000, time.gpu_op_id)
    INNER JOIN staging.trace ON time.trace_id = staging.trace.trace_id
"""
WARNINGS = """
    SELECT scenario, assumption FROM question.scenario_assumption
    UNION
    SELECT scenario, 'guess: ' || kind FROM question.scenario_guess
"""
IDLE = """
    SELECT scenario, match.edit FROM question.scenario_match AS match
    INNER JOIN prediction.scenario_edit AS edit USING (scenario)
    WHERE match_count = 0 AND match.edit = edit.position AND edit.target = 'host'
"""
"""Edits of types of host time that the selected ops do not have."""


@dataclass
class Wrong:
    """A scenario that is predicted otherwise than the program is executed."""

    scenario: Scenario
    share: float = 0
    """[1] The largest error of a period."""
    times: Times = field(default_factory=dict)
    """What differs on some rank: both spans, by what it is."""


@dataclass
class Outcome:
    """What became of the scenarios of a case."""

    case: Case
    exact: list[Scenario] = field(default_factory=list)
    refused: list[tuple[Scenario, str]] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)


def compare(case: Case, scenarios: list[Scenario], folder: Path) -> Outcome:
    """Predict scenarios, and execute them."""
    outcome = Outcome(case)
    paths = [
        trace.write(folder / f"{rank}.json", case.form)
        for rank, trace in enumerate(case.traces)
    ]
    left = {f"s{number}": of for number, of in enumerate(scenarios)}
    with tracedb.open() as database:
        database.ingest(paths)
        drop_idle(database, left)
        while not judged(outcome, left, database):
            pass
    return outcome


def edits_of(left: dict[str, Scenario]) -> list[Edit]:
    """The edits of scenarios."""
    return [
        Edit(scenario=name, **fields_of(edit))
        for name, of in left.items()
        for edit in of.edits
    ]


def fields_of(edit: Fields) -> Fields:
    """The fields of an edit, without its ordinal."""
    return {name: value for name, value in edit.items() if name != "_"}


def drop_idle(database: tracedb.Database, left: dict[str, Scenario]) -> None:
    """Drop edits of host time that no selected op has."""
    with simulated_beside(database.connection, ["replay"], edits_of(left)) as (of, _):
        idle = set(of.execute(IDLE).fetchall())
    for name, scenario in left.items():
        scenario.edits = [
            edit
            for number, edit in enumerate(scenario.edits, 1)
            if (name, number) not in idle
        ]


def judged(
    outcome: Outcome, left: dict[str, Scenario], database: tracedb.Database
) -> bool:
    """Judge all scenarios, or take out the first that is refused."""
    try:
        with database.simulate(["replay"], edits_of(left)) as beside:
            foretold = predicted(outcome.case, left, beside)
            for name, text in rows(beside, WARNINGS):
                left[name].warnings.add(text)
    except ScenarioError as error:
        told = re.match(r"scenario (s\d+)", str(error))
        if told is None:
            raise
        outcome.refused.append((left.pop(told[1]), str(error)))
        return not left
    base = Scenario(outcome.case, Random(0))  # noqa: S311 (it draws nothing)
    for name, scenario in {BASELINE: base, **left}.items():
        found = differences(scenario, [of[name] for of in foretold])
        if found.times:
            outcome.wrong.append(found)
        elif name != BASELINE:
            outcome.exact.append(scenario)
    return True


def predicted(
    case: Case, left: dict[str, Scenario], beside: tracedb.Database
) -> list[dict[str, Times]]:
    """The predicted times of each scenario, by rank."""
    found: list[dict[str, Times]] = [defaultdict(dict) for _ in case.traces]
    places = [works_on_streams(trace.truth) for trace in case.traces]
    for path, name, *key, side, edit, start_ns, end_ns in rows(beside, WORK):
        rank = int(Path(path).stem)
        what, thread, number = places[rank][*key]
        if edit is not None:
            number += side * offset(left[name].edits[edit - 1]["_"])
        found[rank][name][what, thread, number] = (start_ns, end_ns)
    for path, name, what, number, *span in rows(beside, STEPS):
        found[int(Path(path).stem)][name][what, 0, number] = (span[0], span[1])
    return found


def offset(edit: int) -> float:
    """How far work inserted by an edit is from its neighbor's ordinal."""
    return 0.25 + edit / 1000


def differences(scenario: Scenario, foretold: list[Times]) -> Wrong:
    """What is predicted otherwise than it happens."""
    program, keys = changed(scenario)
    wrong = Wrong(scenario)
    for rank, trace in enumerate(execute(program, CUDA)):
        recorded = scenario.case.traces[rank].truth
        names = named(recorded)
        original = {id(kernel.action): names[kernel.id] for kernel in recorded.kernels}
        happened: Times = {}
        of_step = launched(recorded)
        of_steps: dict[int, list[tuple[str, int, float]]] = {
            step: [] for step in of_step
        }
        for kernel in trace.truth.kernels:
            source, edit = keys[id(kernel.action)]
            what, thread, number = original[source]
            side = (edit > 0) - (edit < 0)
            key = what, thread, number + side * offset(abs(edit)) * bool(edit)
            happened[key] = (kernel.start_ns - START_NS, kernel.end_ns - START_NS)
            for step, works in of_step.items():
                if original[source] in works:
                    of_steps[step].append(key)
        marks = times(trace.truth)
        happened |= {key: span for key, span in marks.items() if key[0] == "step"}
        happened |= periods(happened, of_steps)
        wrong.times |= compared(happened, foretold[rank])
        wrong.share = max(wrong.share, worst(happened, foretold[rank]))
    return wrong


def compared(happened: Times, foretold: Times) -> Times:
    """The first differences; what should not be there counts."""
    more = {key: span for key, span in foretold.items() if key not in happened}
    return wrong_times(happened, foretold) | more


def worst(happened: Times, foretold: Times) -> float:
    """[1] The largest error of a period."""
    return max(
        abs((told[1] - told[0]) / max(span[1] - span[0], 1) - 1)
        for key, span in happened.items()
        if key[0] == "period" and (told := foretold.get(key))
    )
