"""Edits that take time away make no step later, and their effects add up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from edits import (
    Change,
    Steps,
    changes_of,
    effect,
    op_types,
    simulated_steps,
    threads,
)
from support import CORPUS, SAMPLES, DatabaseOf, needs_corpus, rows

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Crew,
    Delays,
    Gap,
    Op,
    Program,
    Rank,
    Thread,
    execute,
    step,
    taking_turns,
    training_job,
)

ROUNDING_NS = 10_000
"""Half a nanosecond for each span of host time that is halved."""


def gain(steps: dict[str, Steps], change: Change) -> int:
    """[ns] How much earlier the last step ends with a change."""
    return effect(steps["baseline"], steps[change.scenario]).gain_ns


def check_laws(database: tracedb.Database) -> None:
    """No step ends later; halving gains at least half of removing, and all the most."""
    changes = changes_of(database)
    wholes = [change for change in changes if change.factor == 0]
    wholes += [Change("thread", 0, thread_id=thread) for thread in threads(database)]
    halves = [change._replace(factor=0.5) for change in wholes]
    steps = simulated_steps(database, wholes + halves)
    for scenario, after in steps.items():
        assert effect(steps["baseline"], after).latest_ns <= 0, scenario
    for whole, half in zip(wholes, halves, strict=True):
        most, found = gain(steps, whole), gain(steps, half)
        assert most / 2 - ROUNDING_NS <= found <= most + ROUNDING_NS, half
    every = gain(steps, Change("ops", 0))
    single = [gain(steps, change) for change in wholes if change.kind == "op"]
    assert every >= max(single)
    assert every > 0


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Jobs of several threads, each as its own run."""
    folder = tmp_path_factory.mktemp("edited")
    crews = (Crew(workers=2), Crew(workers=1, loaders=1, strangers=1, loading=3))
    for number, crew in enumerate(crews):
        (trace,) = execute(taking_turns(number, crew), Delays(jitter=0.2), number)
        trace.write(folder / f"{number}.json")
    (trace,) = execute(training_job(1, ranks=1, steps=3), Delays(), 1)
    trace.write(folder / "job.json")
    with tracedb.open() as opened:
        opened.ingest([folder])
        yield opened


def test_generated_steps_end_no_later(generated: tracedb.Database) -> None:
    """Anything may be removed or halved, with threads that wait for each other."""
    check_laws(generated)


ENDS = """
    SELECT scenario, list([host_end_ns, gpu_end_ns, end_ns] ORDER BY step_id)
    FROM critical_path.step_period INNER JOIN prediction.variant USING (variant_id)
    WHERE is_simulated
    GROUP BY scenario
"""


def test_removals_end_no_step_later(generated: tracedb.Database) -> None:
    """Ops, GPU work and waits: no mark, GPU work or period of a step ends later."""
    edits = [
        Edit(scenario=f"op {name}", target="op", name=name, action="remove")
        for name in op_types(generated)
    ]
    edits += [
        Edit(scenario=f"{kind}", target="gpu", type=kind, action="remove")
        for kind in ("kernel", "memcpy")
    ]
    edits += [
        Edit(scenario=f"wait {kind}", target="wait", type=kind)
        for kind in ("host", "stream")
    ]
    with generated.simulate(["replay"], edits) as beside:
        ends = dict(rows(beside, ENDS))
    base = ends.pop("baseline")
    assert len(ends) == len(edits)
    for scenario, after in ends.items():
        for found, usual in zip(after, base, strict=True):
            for ns, usual_ns in zip(found, usual, strict=True):
                assert ns is None or ns <= usual_ns, scenario
    assert sum(after != base for after in ends.values()) > len(edits) / 2


@pytest.mark.parametrize("name", ["generated_gpu", "dlrm_cpu"])
def test_steps_of_samples_end_no_later(name: str, database_of: DatabaseOf) -> None:
    """The same for the sample traces."""
    check_laws(database_of(SAMPLES / name))


@needs_corpus
def test_steps_of_an_old_trace_end_no_later(database_of: DatabaseOf) -> None:
    """In a recording of 2021, removed ops gain what the backward pass leaves over."""
    database = database_of(CORPUS / "kineto" / "resnet50_w0_2021a.json.gz")
    changes = [
        *(Change("op", 0, name) for name in op_types(database)[:6]),
        *(Change("thread", 0.5, thread_id=thread) for thread in threads(database)),
        Change("loading", 0.5),
    ]
    steps = simulated_steps(database, changes)
    for change in changes:
        found = effect(steps["baseline"], steps[change.scenario])
        assert found.latest_ns <= 0, change
        assert found.slowest_share < 0.001, change


def test_the_whole_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    """On one thread without waits, each op type gains exactly its time."""
    ops = [Op(f"op {n % 5}", (Gap(1_000 + 7 * n),)) for n in range(20)]
    marks = [step(number, *ops[:10], Gap(500), *ops[10:]) for number in range(3)]
    (trace,) = execute(Program((Rank((Thread("main", tuple(marks)),)),)))
    trace.write(tmp_path / "trace.json")
    with tracedb.open() as database:
        database.ingest([tmp_path / "trace.json"])
        types = [Change("op", 0, name) for name in op_types(database)]
        every = Change("ops", 0)
        steps = simulated_steps(database, [*types, every])
    assert len(types) == 5
    assert sum(gain(steps, change) for change in types) == gain(steps, every)
    assert gain(steps, every) == 3 * sum(1_000 + 7 * n for n in range(20))


def test_a_worker_starts_when_it_is_woken(tmp_path: Path) -> None:
    """A worker's time before that is no lower bound for the step."""
    (trace,) = execute(taking_turns(3, Crew(workers=1)), Delays(), 3)
    trace.write(tmp_path / "trace.json")
    with tracedb.open() as database:
        database.ingest([tmp_path / "trace.json"])
        removed = [Change("thread", 0, thread_id=n) for n in threads(database)]
        steps = simulated_steps(database, removed)
        whole = max(span.end_ns for span in steps["baseline"].values())
    # The two take turns: all time of one is time of the step.
    total = sum(gain(steps, change) for change in removed)
    assert 0.98 * whole < total <= whole


LASTING = """
    SELECT scenario, sum(predicted_ns)::BIGINT
    FROM prediction.host_time
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN overhead.timeline USING (thread_id, position)
    INNER JOIN staging.op AS op USING (op_id)
    WHERE name = 'long'
    GROUP BY scenario
"""


def test_an_op_that_steps_divide_changes_once(tmp_path: Path) -> None:
    """Its time is set, and added to, as a whole; each part has its share."""
    steps = tuple(step(n, Op(f"op {n}", (Gap(70_000),))) for n in range(4))
    beside = Gap(40_000), Op("long", (Gap(170_001),)), Op("short", (Gap(9_000),))
    (trace,) = execute(
        Program((Rank((Thread("main", steps), Thread("other", beside))),))
    )
    scenarios = [
        Edit(scenario="added", target="host", op="long", add_ns=1_000),
        Edit(scenario="set", target="host", op="long", action="set", set_ns=7_001),
    ]
    with tracedb.open() as database:
        database.ingest([trace.write(tmp_path / "rank0.json")])
        with database.simulate(["replay"], scenarios) as simulated:
            lasting = dict(rows(simulated, LASTING))
    assert lasting["baseline"] == 170_001
    assert (lasting["added"], lasting["set"]) == (171_001, 7_001)
