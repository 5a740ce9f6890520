"""Waits that were over before they began: programs with loader threads, executed again.

A trace shows a wait only if a thread had to wait. The programs here are changed so that
other waits become long; what is predicted is compared with the changed program.
"""

from __future__ import annotations

import itertools
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
from loading import Answer, answers, counted, loading_job
from support import rows

import tracedb
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
from tracedb.whatif.edit_line import parse
from tracedb.whatif.scenario import of_scenario

SEEDS = range(6)
LOADER = Crew(workers=0, loaders=1, loading=0.8)
WOKEN = Crew(workers=0, loaders=1, loading=0.3)
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


def told(crew: Crew, folder: Path, line: str) -> list[str]:
    """What a scenario assumes about threads for which no wait is seen."""
    one = loading(1, crew)
    (trace,) = execute(one.program, one.delays)
    with tracedb.open() as database:
        database.ingest([trace.write(folder / "rank0.json", one.form)])
        with database.simulate(["replay"], [of_scenario(line, parse(line))]) as db:
            query = """
                SELECT assumption FROM question.scenario_assumption
                WHERE contains(assumption, 'no wait for such a thread is seen')
            """
            return [text for (text,) in rows(db, query)]


def test_threads_that_no_one_waits_for_are_told(tmp_path: Path) -> None:
    """An answer says that waits for a thread are assumed or missing, if it matters."""
    longer, shorter = "host:T2 thread=other x9", "host thread=main x0.1"
    (woken,) = told(WOKEN, tmp_path, shorter)
    assert "taken to be done when it is woken again, for which steps wait" in woken
    alone = replace(LOADER, loaders=0, strangers=1)
    (free,) = told(alone, tmp_path, longer)
    assert "taken to work by itself, and a step starts" in free
    assert told(WOKEN, tmp_path, "host thread=main x2") == []
    assert told(alone, tmp_path, "gpu x0.5") == []
    assert told(replace(LOADER, loaders=0, workers=1), tmp_path, longer) == []


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


JOBS = (*range(6), 22, 39)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """Scenarios of jobs with queues and workers of loaders."""
    return [*answers([*map(loading_job, JOBS)], tmp_path_factory.mktemp("queues"))]


def test_nothing_changes_if_nothing_does(answered: list[Answer]) -> None:
    """The baseline is what was executed, to the nanosecond."""
    assert {one.error for one in answered if one.change == "nothing"} == {0}


def test_answers_that_depend_on_guesses_say_so(answered: list[Answer]) -> None:
    """Few wrong answers do not say so, and few right ones say they may be wrong."""
    counts = counted(answered)
    assert counts["wrong"] <= 0.03 * counts.total()
    assert counts["exact, told"] <= 0.2 * (counts["exact"] + counts["exact, told"])
    assert counts["exact"] >= 0.5 * counts.total()
    silent = [abs(one.error) for one in answered if one.kind == "wrong"]
    assert max(silent, default=0) < 0.02


def test_rests_longer_than_usual_are_guesses(answered: list[Answer]) -> None:
    """In job 5 two short rests are waits for the loader; others take 2 us."""
    (one,) = (a for a in answered if (a.job, a.change) == ("5", "main x2"))
    assert one.kind == "wrong, told"
    assert one.error == pytest.approx(0.0033, abs=0.0001)


def longer(thread: str, name: str, ordinal: int, ns: int) -> change.Change:
    """One op of a thread takes longer, by its ordinal among those of its name."""
    count = itertools.count()

    def change_one(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
        if not isinstance(action, Op) or (place.thread, action.name) != (thread, name):
            return (action,)
        more = (Gap(ns),) if next(count) == ordinal else ()
        return (replace(action, body=(*action.body, *more)),)

    return rewritten(change_one)


SLACK = """
    SELECT parse_filename(path, true), tid::BIGINT, op.name, ordinal, slack_ns
    FROM critical_path.slack
    INNER JOIN (
        SELECT op_id, thread_id, name, row_number() OVER (
            PARTITION BY thread_id, name ORDER BY start_ns
        ) - 1 AS ordinal
        FROM staging.op
    ) AS op ON node_id = op_id
    INNER JOIN staging.thread AS thread ON op.thread_id = thread.thread_id
    INNER JOIN staging.trace AS trace ON slack.trace_id = trace.trace_id
    WHERE slack_ns > 0 AND ordinal > 0
    ORDER BY ALL
"""


def step_ends(truth: Truth) -> list[int]:
    """[ns] The ends of all steps."""
    return [mark.end_ns for mark in truth.steps]


def test_an_op_longer_by_its_slack_delays_no_step(tmp_path: Path) -> None:
    """Beside loader threads, slack ends where something would come to wait.

    A single wait, that for the first batch, is not known.
    """
    jobs = {one.name: one for one in map(loading_job, JOBS)}
    usual = {}
    for name, one in jobs.items():
        (trace,) = execute(one.program, one.delays)
        trace.write(tmp_path / f"{name}.json", one.form)
        usual[name] = trace.truth
    with tracedb.open() as database:
        database.ingest([tmp_path])
        found = rows(database, SLACK)
    tried = found[::7]
    assert len(tried) > 20
    for name, tid, op, ordinal, slack_ns in tried:
        truth, one = usual[name], jobs[name]
        later = longer(truth.threads[tid], op, ordinal, slack_ns)
        (trace,) = execute(*later(one.known, one.delays))
        assert step_ends(trace.truth) == step_ends(truth), (name, tid, op, ordinal)
