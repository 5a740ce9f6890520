"""GPU work that edits fuse or capture as a graph, against programs that do so.

Which work goes together is what the simulation finds; that it is so in a program, too,
and what follows from it, is then told by executing that: to the nanosecond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from executed import Case, Predicted, assert_foretold, one_thread, predict, warm_up
from support import rows

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Delays,
    GraphLaunch,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    Thread,
    change,
    execute,
    step,
)

KERNELS = {"target": "gpu", "type": "kernel"}
SCENARIOS: dict[str, list[dict[str, Any]]] = {
    "fused": [KERNELS | {"action": "fuse"}],
    "fused into 10 us": [KERNELS | {"action": "fuse", "gpu_ns": 10_000}],
    "a graph": [{"target": "gpu", "action": "graph"}],
    "a fast graph": [
        {"target": "gpu", "action": "graph", "host_ns": 3_000, "gap_ns": 0}
    ],
}
GRAPHS = {"a graph": (10_000, 1_000), "a fast graph": (3_000, 0)}
"""What their launch takes, and the time between their kernels."""
JOINED = """
    SELECT path, scenario, work.correlation, first.correlation AS first, fused_ns
    FROM (
        SELECT scenario, gpu_op_id, first_gpu_op_id, fused_ns
        FROM prediction.fused_work
        INNER JOIN prediction.fused_time USING (scenario, edit, gpu_op_id)
        UNION ALL
        SELECT scenario, gpu_op_id, first_gpu_op_id, NULL
        FROM prediction.captured_work
    ) AS joined
    INNER JOIN staging.gpu_op AS work ON joined.gpu_op_id = work.gpu_op_id
    INNER JOIN staging.gpu_op AS first ON first_gpu_op_id = first.gpu_op_id
    INNER JOIN staging.trace ON work.trace_id = staging.trace.trace_id
    ORDER BY ALL
"""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Programs of one thread and one to four streams, half of them with waits told."""
    return [
        one_thread(seed, recorded=recorded)
        for seed in range(11)
        for recorded in (True, False)
    ]


@pytest.fixture(scope="module")
def predicted(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """What is predicted of all of them."""
    folder = tmp_path_factory.mktemp("programs")
    return predict(folder, cases, SCENARIOS, JOINED)


def joined(one: Case, scenario: str, predicted: Predicted) -> change.Change:
    """The change of a program in which the same work goes together."""
    names = predicted.works[one.name, 0]
    groups: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    fused = {}
    for of, correlation, first, fused_ns in predicted.answers[one.name, 0]:
        if of == scenario:
            _, thread, number = names[correlation]
            groups[thread][names[first][2]].append(number)
            if fused_ns is not None:
                fused[thread, number] = fused_ns
    assert groups, "nothing goes together"
    found = {
        thread: sorted(sorted(group) for group in of.values())
        for thread, of in groups.items()
    }
    if scenario in GRAPHS:
        return change.capture(found, *GRAPHS[scenario])
    return change.fuse(found, lambda thread, number: fused[thread, number])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_joined_work_is_as_in_a_program_that_joins_it(
    scenario: str, cases: list[Case], predicted: Predicted
) -> None:
    """All GPU work, steps and periods, to the nanosecond."""
    for one in cases:
        changed = joined(one, scenario, predicted)(one.known, one.delays)
        assert_foretold(one, scenario, predicted, *changed)


FLOATS = "float"
SIDE = 1024
BYTES = 4 * SIDE * SIDE
"""Of a tensor of the ops below."""


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Two ops of known bytes, whose kernels follow each other, and a recorded graph."""
    dims = ((SIDE, SIDE), (SIDE, SIDE))
    ops = (
        Op("aten::relu", (Launch(7, 30_000),), dims[:1], (FLOATS,)),
        Op("aten::mul", (Launch(7, 50_000),), dims, (FLOATS, FLOATS)),
    )
    graph = GraphLaunch(tuple(Launch(7, 2_000) for _ in range(4)), 5_000, 600)
    body = (*warm_up((7,)), *ops, StreamSync(7), graph, StreamSync(7))
    program = Program((Rank((Thread("main", (step(1, *body),)),)),))
    path = execute(program, Delays())[0].write(
        tmp_path_factory.mktemp("shaped") / "trace.json"
    )
    with tracedb.open() as database:
        database.ingest([path])
        yield database


FUSED = """
    SELECT op.name, saved_bytes, saved_ns, fused_ns,
        floor(
            (work.end_ns - work.start_ns) * traffic_ns / roofline_ns
            * (saved_bytes / traffic_bytes)
        )::BIGINT
    FROM prediction.fused_time
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    INNER JOIN staging.op AS op ON work.op_id = op.op_id
    INNER JOIN prediction.kernel_roofline USING (gpu_op_id)
    ORDER BY work.start_ns
"""
FUSE = [Edit(scenario="fused", op="/relu|mul/", action="fuse", target="gpu")]


def test_what_one_writes_for_the_next_is_saved(shaped: tracedb.Database) -> None:
    """Writing and reading one tensor; in time, that share of what traffic takes."""
    with shaped.simulate(["replay"], FUSE) as beside:
        first, second = rows(beside, FUSED)
    assert first[:2] == ("aten::relu", BYTES)
    assert second[:2] == ("aten::mul", BYTES)
    assert all(abs(saved - told) <= 1 for _, _, saved, _, told in (first, second))
    assert 0 < first[2] < 30_000 / 2
    assert first[3] == 30_000 + 50_000 - first[2] - second[2]
    assert second[3] is None


def test_what_others_take_is_still_written(shaped: tracedb.Database) -> None:
    """Known data edges tell: here one to the op that is fused, and one to another."""
    ops = dict(rows(shaped, "SELECT name, op_id FROM staging.op"))
    first, second = ops["aten::relu"], ops["aten::mul"]
    for target in (second, ops["aten::warm_up"]):
        shaped.connection.execute(
            "INSERT INTO graph.data_edge VALUES (1, 1, ?, ?, 1)", [first, target]
        )
    with shaped.simulate(["replay"], FUSE) as beside:
        found = [row[1] for row in rows(beside, FUSED)]
    shaped.connection.execute("DELETE FROM graph.data_edge")
    assert found == [0, BYTES]


def test_graphs_are_as_those_that_are_recorded(shaped: tracedb.Database) -> None:
    """Launch and gaps are learnt from the replays that there are."""
    edit = Edit(scenario="graph", target="op", name="/relu|mul/", action="graph")
    with shaped.simulate(["replay"], [edit]) as beside:
        found = rows(
            beside, "SELECT DISTINCT host_ns, gap_ns FROM prediction.captured_work"
        )
    assert found == [(5_000, 600)]
