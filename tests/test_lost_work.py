"""GPU work that was dropped: in which steps, and of which replays of graphs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Event = dict[str, Any]

STEPS = 4
GRAPHS = (("norm", "gemm", "gemm"), ("norm", "gemm"))
LAUNCHES = 6


def event(cat: str, name: str, ts: int, dur: int, number: int) -> Event:
    """A complete event; GPU work is on a stream of its own."""
    lane = {"pid": 1, "tid": 1}
    args: dict[str, Any] = {"correlation": number}
    if cat == "kernel":
        lane, args = {"pid": 0, "tid": 7}, args | {"device": 0, "stream": 7}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur} | {
        "args": args,
        **lane,
    }


def program() -> Iterator[Event]:
    """Steps of two graphs, then of launches; step 3 replays another graph first."""
    for step in range(STEPS):
        at, number = 10_000 * step, 100 * step
        yield event("user_annotation", f"ProfilerStep#{step}", at, 9000, -1)
        graphs = (("cat", "gemm"), GRAPHS[1]) if step == STEPS - 1 else GRAPHS
        for graph, kernels in enumerate(graphs):
            start = at + 100 + 1000 * graph
            yield event("cuda_runtime", "cudaGraphLaunch", start, 50, number + graph)
            for n, name in enumerate(kernels):
                yield event(
                    "kernel", name, start + 200 + 200 * n, 150, number + graph
                ) | {"id": f"{step}.{graph}.{n}"}
        for n in range(LAUNCHES):
            start, own = at + 3000 + 500 * n, number + 10 + n
            yield event("cuda_runtime", "cudaLaunchKernel", start, 50, own)
            yield event("kernel", "copy", start + 100, 300, own) | {"id": f"{step}.{n}"}


LOST = {
    "whole": set(),
    "graph": {"1.0.2"},
    "both": {"0.0.1", "0.0.2", "0.1.0", "0.1.1"},
    "step": {f"2.{n}" for n in range(1, LAUNCHES)},
    "all": {f"{step}.{n}" for step in range(STEPS) for n in range(2, LAUNCHES)},
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A run of each loss."""
    folder: Path = tmp_path_factory.mktemp("lost")
    with tracedb.open() as opened:
        for name, lost in LOST.items():
            events = [one for one in program() if one.get("id") not in lost]
            (folder / name).write_text(json.dumps({"traceEvents": events}))
            opened.ingest([folder / name], run=name)
        yield opened


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("whole", []),
        # The shorter graph of the second place is not the one of the first.
        ("graph", [(2, 1)]),
        # Nothing is left of the second graph, so it is not short.
        ("both", [(1, 2)]),
    ],
)
def test_replays_are_compared_with_those_of_other_steps(
    database: tracedb.Database, name: str, lost: list[tuple[int, int]]
) -> None:
    """What one lacks is counted, unless it is of another graph."""
    assert (
        rows(
            database,
            "SELECT gpu_op_count, lost_count FROM graph.short_replay "
            "INNER JOIN raw.trace USING (trace_id) "
            "INNER JOIN staging.run USING (run_id) "
            f"WHERE staging.run.name = '{name}'",
        )
        == lost
    )


@pytest.mark.parametrize(
    ("name", "lost", "partial"),
    [
        ("whole", {}, []),
        ("graph", {1: 1}, [1]),
        ("both", {0: 2}, [0]),
        ("step", {2: LAUNCHES - 1}, [2]),
        ("all", dict.fromkeys(range(STEPS), LAUNCHES - 2), []),
    ],
)
def test_steps_that_lack_work_are_named(
    database: tracedb.Database, name: str, lost: dict[int, int], partial: list[int]
) -> None:
    """Those that lack more than the best; the summary says which."""
    run = f"run_id = (SELECT run_id FROM staging.run WHERE name = '{name}')"
    found = rows(
        database,
        "SELECT step, lost_launch_count, is_partial, launch_count "
        f"FROM question.lost_work WHERE {run} ORDER BY step",
    )
    assert {step: count for step, count, *_ in found if count} == lost
    assert [step for step, _, is_partial, _ in found if is_partial] == partial
    all_count = STEPS * (len(GRAPHS) + LAUNCHES)
    assert sum(count for *_, count in found) == all_count
    query = (
        f"SELECT occurrences FROM question.trust WHERE {run} AND aspect = 'lost_work'"
    )
    assert rows(database, query) == [(sum(lost.values()),)]
    ((run_id,),) = rows(database, f"SELECT run_id FROM staging.run WHERE {run}")
    said = " ".join(str(database.summary(run=run_id)).split())
    for step in range(STEPS):
        words = f"in step {step}, {lost.get(step)} of {len(GRAPHS) + LAUNCHES} do"
        assert (words in said) is (step in partial)


def test_work_without_a_launch_has_the_op_that_its_id_names(
    tmp_path: Path,
) -> None:
    """Not where the id is the correlation, or is that of two ops, or of a later one."""
    place = {"ph": "X", "pid": 1, "tid": 1, "cat": "cpu_op"}
    ops = [("linear", 100, 5), ("mm", 110, 6), ("add", 200, 7), ("mul", 300, 7)]
    events: list[dict[str, Any]] = [
        place | {"name": name, "ts": start, "dur": 50, "args": {"External id": number}}
        for name, start, number in ops
    ]
    works = [("a", 150, 5), ("b", 160, 6), ("c", 99, 5), ("d", 400, 7), ("e", 410, 8)]
    events += [
        {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "name": name, "ts": start}
        | {"dur": 1, "args": {"External id": number, "device": 0, "stream": 7}}
        for name, start, number in works
    ]
    args = {"External id": 5, "correlation": 5, "device": 0, "stream": 7}
    events.append(events[-1] | {"name": "f", "ts": 420, "args": args})
    path = tmp_path / "uncalled.json"
    path.write_text(json.dumps(events))
    query = """
        SELECT work.name, op.name, top.name
        FROM staging.gpu_op AS work
        LEFT JOIN staging.op AS op ON work.op_id = op.op_id
        LEFT JOIN staging.op AS top ON work.top_op_id = top.op_id
        ORDER BY work.name
    """
    named = {"a": ("linear", "linear"), "b": ("mm", "linear")}
    with tracedb.open() as opened:
        opened.ingest([path])
        assert rows(opened, query) == [
            (name, *named.get(name, (None, None))) for name in "abcdef"
        ]
