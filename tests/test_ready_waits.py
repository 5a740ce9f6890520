"""Waits that were over before they began: programs with loader threads, executed again.

A trace shows a wait only if a thread had to wait. The programs here are changed so that
other waits become long; what is predicted is compared with the changed program.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from composed import Place, rewritten
from executed import (
    CUDA,
    Case,
    Predicted,
    case,
    predict,
    rounded,
    times,
    warm_up,
)
from support import rows

import tracedb
from tracedb.edit_line import parse
from tracedb.scenario import of_scenario
from tracedb.simulation import beside
from tracedb.synthetic import (
    Crew,
    Delays,
    Gap,
    Op,
    Program,
    Rank,
    Truth,
    change,
    execute,
    step,
    taking_turns,
)
from tracedb.synthetic.program import Action

SEEDS = range(6)
LOADER = Crew(workers=0, loaders=1, loading=0.8)
WOKEN = Crew(workers=1, loaders=1, loading=0.3)
"""The loader is never late."""
FACTORS = (0.5, 2)


def loading(seed: int, crew: Crew) -> Case:
    """A program whose main thread takes batches from loader threads."""
    (rank,) = taking_turns(seed, crew, steps=8).ranks
    main, *others = rank.threads
    main = replace(main, body=(step(0, *warm_up((7,))), *main.body))
    program = rounded(Program((Rank((main, *others)),)), CUDA)
    return case(f"{crew.workers} {seed}", program, CUDA, recorded=True)


def main_ops(factor: float) -> change.Change:
    """Ops of the main thread take longer, or shorter."""

    def change_one(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
        is_inside = any(isinstance(scope, Op) for scope in place.scopes)
        if place.thread == "0" and is_inside and isinstance(action, Gap):
            return (replace(action, ns=round(action.ns * factor)),)
        return (action,)

    return rewritten(change_one)


def lasting(truth: Truth) -> int:
    """[ns] From the start of the second step to the end of the last one."""
    spans = [span for what, span in sorted(times(truth).items()) if what[0] == "step"]
    return spans[-1][1] - spans[2][0]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Programs whose main thread waits for its loader in some steps, not in others."""
    return [loading(seed, LOADER) for seed in SEEDS]


@pytest.fixture(scope="module")
def predicted(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Predictions for all of them."""
    edits = {
        f"x{factor:g}": [
            {"target": "host", "type": type_, "thread": "main", "factor": factor}
            for type_ in ("T2", "T3", "T5")
        ]
        for factor in FACTORS
    }
    edits["work x4"] = [{"target": "gpu", "factor": 4}]
    return predict(tmp_path_factory.mktemp("loaders"), cases, edits, drops_idle=True)


CHANGES = {f"x{factor:g}": main_ops(factor) for factor in FACTORS}
CHANGES |= {"work x4": change.kernels(4), "baseline": change.nothing}
LIMITS = {"baseline": 0, "work x4": 0.01, "x0.5": 0.07, "x2": 0.05}
"""[1] The largest error of a program."""


@pytest.mark.parametrize("name", CHANGES)
def test_waits_that_were_over_bound_changed_steps(
    name: str, cases: list[Case], predicted: Predicted
) -> None:
    """Neither thread gets further ahead of the other than it ever did."""
    for one in cases:
        program, delays = CHANGES[name](one.known, one.delays)
        happened = lasting(execute(program, delays)[0].truth)
        foretold = predicted.times[one.name, 0, name]
        steps = [span for what, span in sorted(foretold.items()) if what[0] == "step"]
        error = abs(steps[-1][1] - steps[2][0] - happened) / happened
        assert error <= LIMITS[name], one.name


def told(crew: Crew, folder: Path) -> list[str]:
    """What a scenario assumes about threads of a program."""
    one = loading(1, crew)
    (trace,) = execute(one.program, one.delays)
    with tracedb.open() as database:
        database.ingest([trace.write(folder / "rank0.json", one.form)])
        edits = [of_scenario("gpu x0.5", parse("gpu:* x0.5"))]
        with beside(database.connection, ["replay"], edits) as (cursor, _):
            query = "SELECT assumption FROM question.scenario_assumption"
            return [text for (text,) in cursor.execute(query).fetchall()]


def test_threads_that_no_one_waits_for_are_told(tmp_path: Path) -> None:
    """An answer says if waits for a thread are assumed, or if none are found."""
    (woken,) = told(WOKEN, tmp_path)
    assert woken.endswith("taken to be done when it is woken again")
    (alone,) = told(replace(LOADER, loaders=0, strangers=1), tmp_path)
    assert alone.endswith("taken to work by itself")
    assert told(replace(LOADER, loaders=0, workers=1), tmp_path) == []


def test_without_waits_for_threads_there_are_none_that_were_over(
    cases: list[Case], tmp_path: Path
) -> None:
    """An edit that removes waits for a thread also removes those that were over."""
    one = cases[0]
    (trace,) = execute(one.program, one.delays)
    with tracedb.open() as database:
        database.ingest([trace.write(tmp_path / "rank0.json", one.form)])
        ready = "SELECT count(*) FROM prediction.host_own WHERE is_ready"
        assert rows(database, ready) != [(0,)]
        alone = tracedb.Edit(scenario="alone", target="wait", type="thread")
        with database.simulate(["replay"], [alone]) as db:
            waits = """
                SELECT count(*) FROM prediction.host_time
                INNER JOIN prediction.variant USING (variant_id)
                WHERE scenario = 'alone' AND awaited_thread_id IS NOT NULL
            """
            assert rows(db, waits) == [(0,)]
