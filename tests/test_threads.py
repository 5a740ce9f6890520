"""Threads that wait for each other are found, whatever their names."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from support import CORPUS, DatabaseOf, ingests_until, needs_corpus, rows

import tracedb
from tracedb.synthetic import Crew, Delays, execute, taking_turns
from tracedb.synthetic.program import seeded

SEEDS = range(6)
JITTER = Delays(jitter=0.3)
LONG_NS = 150_000


class Wait(NamedTuple):
    """A thread that waits for another one, and when."""

    thread: int
    worker: int
    start_ns: int
    end_ns: int


def true_waits(truth: tracedb.synthetic.Truth) -> list[Wait]:
    """Waits in which a thread was blocked until others raised their flags."""
    event_of = {event.id: event for event in truth.host_events}
    found = []
    for edge in truth.edges:
        if edge.kind in {"fork", "join"}:
            waiting, worker = event_of[edge.target], event_of[edge.source]
            ended = [
                event.end_ns
                for event in truth.host_events
                if event.thread == waiting.thread and event.end_ns <= waiting.start_ns
            ]
            before_ns = max(ended, default=0)
            starts = [
                wait.start_ns
                for wait in truth.thread_waits
                if wait.thread == waiting.thread
                and before_ns <= wait.start_ns < wait.end_ns
                and wait.start_ns <= edge.ready_ns <= wait.end_ns <= waiting.start_ns
            ]
            if starts:
                span = min(starts) - truth.base_ns, waiting.start_ns - truth.base_ns
                found.append(Wait(waiting.thread, worker.thread, *span))
    return found


def found_waits(folder: Path) -> dict[str, list[Wait]]:
    """Waits found in each trace of a folder."""
    query = """
        SELECT path, own.tid::BIGINT, worker.tid::BIGINT, start_ns, end_ns
        FROM graph.thread_wait AS wait
        INNER JOIN staging.thread AS own ON wait.thread_id = own.thread_id
        INNER JOIN staging.thread AS worker ON worker_thread_id = worker.thread_id
        INNER JOIN staging.trace ON wait.trace_id = trace.trace_id
    """
    found: dict[str, list[Wait]] = defaultdict(list)
    with tracedb.open() as database:
        database.ingest([folder])
        for path, *wait in rows(database, query):
            found[Path(path).stem].append(Wait(*wait))
    return found


def count_alike(waits: list[Wait], others: list[Wait]) -> int:
    """How many waits are also among others: same threads, same time."""
    return sum(
        any(
            wait[:2] == other[:2]
            and wait.start_ns < other.end_ns
            and other.start_ns < wait.end_ns
            for other in others
        )
        for wait in waits
    )


CREWS = {
    "1 worker": Crew(workers=1, strangers=1),
    "2 workers": Crew(workers=2, strangers=1),
    "4 workers": Crew(workers=4, strangers=1),
    "strangers": Crew(workers=0, strangers=4),
    "little to load": Crew(workers=1, loaders=1, strangers=1, loading=0.3),
    "much to load": Crew(workers=1, loaders=1, strangers=1, loading=3),
    "2 loaders": Crew(workers=1, loaders=2, strangers=1, loading=0.8),
    "pinned": Crew(workers=1, loaders=1, strangers=1, loading=1.5, is_pinned=True),
    "linked": Crew(workers=1, is_linked=True),
}
Judged = dict[str, Counter[str]]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Numbers of waits that exist, were found, and are right, by kind of program."""
    folder = tmp_path_factory.mktemp("crews")
    traces = {}
    for name, seed in product(CREWS, SEEDS):
        program = taking_turns(seed, CREWS[name], steps=1 if name == "linked" else 6)
        traces[name, seed] = execute(program, JITTER, seed)[0]
        traces[name, seed].write(folder / f"{name} {seed}.json")
    with ingests_until("graph"):
        all_found = found_waits(folder)
    judged: Judged = defaultdict(Counter)
    for (name, seed), trace in traces.items():
        true, found = true_waits(trace.truth), all_found[f"{name} {seed}"]
        long = [wait for wait in true if wait.end_ns - wait.start_ns > LONG_NS]
        counts = {
            "true": len(long),
            "hit": count_alike(long, found),
            "found": len(found),
            "right": count_alike(found, true),
        }
        judged[name].update(counts)
    return judged


@pytest.mark.parametrize("crew", ["1 worker", "2 workers", "4 workers"])
def test_workers_are_found_without_names(judged: Judged, crew: str) -> None:
    """Threads that are woken and awaited are found, however many there are."""
    counts = judged[crew]
    assert counts["true"] > 60
    assert counts["hit"] > 0.95 * counts["true"]
    assert counts["right"] > 0.93 * counts["found"]


def test_independent_threads_are_not_linked(judged: Judged) -> None:
    """Threads that work independently have no waits."""
    assert judged["strangers"] == {"true": 0, "hit": 0, "found": 0, "right": 0}


@pytest.mark.parametrize(("thread_count", "step_count"), [(16, 20), (12, 60)])
def test_threads_that_are_busy_together_are_not_linked(
    thread_count: int, step_count: int, tmp_path: Path
) -> None:
    """Each starts at any time of the first fifth of each step, and pauses once."""
    draw = seeded(thread_count, step_count)
    events = []
    for number, thread in product(range(step_count), range(thread_count)):
        start = 10_050 * number + 2_000 * draw.random()
        for place in range(10):
            took = 1 + 20 * draw.random()
            event = {"ph": "X", "cat": "cpu_op", "name": f"work{place}", "pid": 1}
            events.append({**event, "tid": thread, "ts": start, "dur": took})
            start += took + 10 * draw.random() + (1_000 if place == 4 else 0)
    (tmp_path / "together.json").write_text(json.dumps({"traceEvents": events}))
    assert found_waits(tmp_path) == {}


@pytest.mark.parametrize("crew", ["little to load", "much to load"])
def test_waits_of_data_loaders_are_found(judged: Judged, crew: str) -> None:
    """A loader waits for room, or the main thread for its data."""
    counts = judged[crew]
    assert counts["hit"] > 0.9 * counts["true"]
    assert counts["right"] > 0.95 * counts["found"]


@pytest.mark.parametrize("crew", ["2 loaders", "pinned"])
def test_threads_woken_at_the_same_time_are_not_linked(
    judged: Judged, crew: str
) -> None:
    """Loaders wait for the thread that takes their data, not for another loader."""
    counts = judged[crew]
    assert counts["hit"] > 0.8 * counts["true"]
    assert counts["right"] > 0.98 * counts["found"]


def test_linked_ops_show_a_single_wait(judged: Judged) -> None:
    """One step is enough if forward and backward ops share sequence numbers."""
    counts = judged["linked"]
    assert counts["hit"] == counts["true"] == 2 * len(SEEDS)
    assert counts["right"] == counts["found"]


@needs_corpus
@pytest.mark.parametrize("name", ["resnet50_w0_2021a", "resnet50_w4_2020list"])
def test_waits_for_the_backward_pass_in_old_traces(
    name: str, database_of: DatabaseOf
) -> None:
    """In traces of 2020 and 2021, without sequence numbers, each step has one."""
    database = database_of(CORPUS / "kineto" / f"{name}.json.gz")
    query = """
        SELECT count(*), sum(wait.end_ns - wait.start_ns) / any_value(step_ns)
        FROM graph.thread_wait AS wait
        CROSS JOIN (SELECT sum(end_ns - start_ns) AS step_ns FROM staging.step)
        WHERE kind = 'join'
    """
    ((count, share),) = rows(database, query)
    assert count == 6
    assert 0.15 < share < 0.8
