"""What edits are said to add to paths is what steps grow by, unless others take over.

An addition of nanoseconds makes no other path the longest. So for any single delay,
span of host time, GPU op or inserted op, the mean step grows by what is added on its
path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from executed import CUDA, choosing, rounded, warm_up

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Annotation,
    DeviceSync,
    EventRecord,
    Form,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    execute,
    random_program,
    step,
)
from tracedb.synthetic.program import seeded
from tracedb.synthetic.random_program import STREAMS

ADDED_NS = 20
COUNT = 10
"""Edits of each kind."""
NODES = {
    "launch": "SELECT gpu_op_id FROM staging.gpu_op "
    "WHERE top_op_id IN (SELECT op_id FROM staging.op WHERE name = 'aten::relu')",
    "stream": "SELECT gpu_op_id FROM graph.stream_position "
    "WHERE previous_gpu_op_id IS NOT NULL",
    "stream_wait": "SELECT gpu_op_id FROM graph.stream_wait",
    "return": "SELECT DISTINCT call_id FROM prediction.host_own "
    "INNER JOIN overhead.timeline USING (thread_id, position) "
    "WHERE awaited_gpu_op_id IS NOT NULL",
    "op": "SELECT op_id FROM staging.op WHERE is_top_level",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A thread that waits for its GPU, and for another thread."""
    program = random_program(1, threads=2, steps=2, ops=8)
    (rank,) = program.ranks
    main, *others = rank.threads
    first, last = STREAMS[:2]
    order = EventRecord("shown", first), StreamWait(last, "shown")
    awaited = Launch(first, 50_000), *order, Launch(last, 1_000), StreamSync(last)
    alone = Gap(90_000), Launch(first, 2_000), StreamSync(first)
    shown = Op("aten::mul", awaited), *(Op("aten::relu", alone) for _ in range(4))
    body = (step(0, *warm_up((first, last)), *shown), *main.body)
    # No work of a step runs in the next one: there, it bounds only part of a period.
    marks = tuple(
        replace(of, body=(*of.body, DeviceSync())) if isinstance(of, Annotation) else of
        for of in body
    )
    warmed = Rank((replace(main, body=marks), *others), rank.devices)
    (trace,) = execute(rounded(Program((warmed,)), CUDA), CUDA)
    path = tmp_path_factory.mktemp("gains") / "trace.json"
    with tracedb.open() as opened:
        opened.ingest([trace.write(path, Form(sync_events=True))])
        yield opened


def additions(database: tracedb.Database) -> Iterator[Edit]:
    """Edits that each add to a single thing."""
    for kind, query in NODES.items():
        nodes = sorted(node for (node,) in database.sql(query).rows())
        for node in seeded(kind).sample(nodes, min(COUNT, len(nodes))):
            name = f"{kind} {node}"
            if kind != "op":
                delay = Edit(
                    scenario=name, target="delay", type=kind, node=node, add_ns=ADDED_NS
                )
                yield delay
            if kind == "launch":
                yield Edit(
                    scenario=f"work {node}", target="gpu", node=node, add_ns=ADDED_NS
                )
            if kind == "op":
                yield Edit(
                    scenario=name, target="host", type="T2", node=node, add_ns=ADDED_NS
                )
                new = Edit(
                    scenario=f"new {node}",
                    target="op",
                    node=node,
                    action="insert",
                    place="before",
                    host_ns=ADDED_NS,
                )
                yield new


def test_what_is_added_on_a_path_is_what_steps_lose(database: tracedb.Database) -> None:
    """Of each kind, some additions lengthen steps, and others do not."""
    edits = choosing(database, [*additions(database)])
    with database.simulate(["replay"], edits) as beside:
        savings = beside.ask("scenario_saving").rows(named=True)
        hits = {row["scenario"]: row for row in beside.ask("scenario_hit").to_dicts()}
    effects: dict[str, set[bool]] = {}
    for row in savings:
        kind = row["scenario"].split()[0]
        assert abs(row["saved_ns"] - row["expected_ns"]) <= 1, row
        grows = row["saved_ns"] < 0
        assert (hits[row["scenario"]]["path_ns"] > 0) >= grows, row
        effects.setdefault(kind, set()).add(grows)
    assert effects.keys() == {*NODES, "work", "new"}
    assert all(True in grown for grown in effects.values()), effects
