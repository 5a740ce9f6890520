"""An answer says if it depends on what a wait was for, and that is not recorded.

`python tests/unrecorded.py 1..20` compares random programs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Delays,
    EventRecord,
    Form,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    execute,
    step,
)

MAIN, SIDE = 7, 20
RESUMED = Op("aten::item", (Launch(SIDE, 400_000), Gap(1_000), StreamSync(SIDE)))
HIDDEN = (
    Op("aten::side", (Launch(SIDE, 20_000, "side"),)),
    EventRecord("done", SIDE),
    Gap(200_000),
    StreamWait(MAIN, "done"),
    Op("aten::main", (Launch(MAIN, 20_000, "main"),)),
    Gap(100_000),
    StreamSync(SIDE),
    Gap(50_000),
)
"""Neither wait takes time: what they are for is over."""
PROGRAM = Program(
    (Rank((Thread("main", tuple(step(n, RESUMED, *HIDDEN) for n in range(3))),)),)
)
SCENARIOS: dict[str, dict[str, Any]] = {
    "the side kernel is a little slower": {
        "target": "gpu",
        "name": "side",
        "factor": 2,
    },
    "the side kernel is much slower": {"target": "gpu", "name": "side", "factor": 30},
    "the host is a little faster": {"target": "host", "factor": 0.9},
    "the host is much faster": {"target": "host", "factor": 0.01},
}
STREAM, HOST = "such waits are not recorded", "what short waits of the host are for"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, str], str]:
    """What each scenario says, with and without recorded synchronization."""
    folder = tmp_path_factory.mktemp("waits")
    (trace,) = execute(PROGRAM)
    found: dict[tuple[bool, str], str] = {}
    for recorded in (True, False):
        path = trace.write(folder / f"{recorded}.json", Form(sync_events=recorded))
        edits = [Edit(scenario=name, **of) for name, of in SCENARIOS.items()]
        with tracedb.open() as database:
            database.ingest([path])
            with database.simulate(["replay"], edits) as beside:
                rows = beside.sql(
                    "SELECT scenario, string_agg(assumption, '\n') "
                    "FROM question.scenario_assumption GROUP BY scenario"
                )
                texts = dict(rows.rows())
        found |= {(recorded, name): texts.get(name, "") for name in SCENARIOS}
    return found


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("the side kernel is a little slower", []),
        ("the side kernel is much slower", [STREAM, HOST]),
        ("the host is a little faster", []),
        ("the host is much faster", [STREAM, HOST]),
    ],
)
def test_a_wait_that_would_last_is_told(
    name: str, told: list[str], said: dict[tuple[bool, str], str]
) -> None:
    """Only then, and only if it is not recorded what the wait is for."""
    assert [text for text in (STREAM, HOST) if text in said[False, name]] == told
    assert STREAM not in said[True, name]
    assert HOST not in said[True, name]


def launching(own_ns: int, other_ns: int) -> Program:
    """A thread waits for its stream, on which another one launches on its own."""
    own = Op("aten::own", (Gap(own_ns), Launch(MAIN, 5_000), Gap(2_000)))
    other = Op("aten::other", (Gap(other_ns), Launch(MAIN, 400_000), Gap(2_000)))
    body = Gap(1_000_000), own, StreamSync(MAIN), Gap(3_000_000)
    threads = Thread("main", (step(0, *body),)), Thread("b", (Gap(500_000), other))
    return Program((Rank(threads),))


@pytest.mark.parametrize(
    ("name", "factor", "is_told"),
    [
        ("aten::own", 1.2, False),
        ("aten::own", 0.1, True),
        ("aten::other", 0.9, False),
        ("aten::other", 3, True),
    ],
)
def test_another_order_of_launches_is_told(
    name: str, factor: float, *, is_told: bool, tmp_path: Path
) -> None:
    """The call would not wait for the other thread's work, or no longer have to."""
    (trace,) = execute(launching(500_000, 800_000))
    edit = Edit(scenario="x", target="host", op=name, factor=factor)
    with tracedb.open() as database:
        database.ingest([trace.write(tmp_path / "a.json", Form(sync_events=True))])
        with database.simulate(["replay"], [edit]) as beside:
            said = beside.sql("SELECT assumption FROM question.scenario_assumption")
    assert any("work of other threads" in text for (text,) in said.rows()) == is_told


def test_a_stream_may_wait_that_is_launched_on_later(tmp_path: Path) -> None:
    """The next launch after the call may be on a stream that it does not mean."""
    side, other, main = (
        Op(f"aten::{name}", (Launch(stream, 20_000, name),))
        for name, stream in (("side", SIDE), ("other", SIDE), ("main", MAIN))
    )
    event = EventRecord("done", SIDE)
    body = side, event, Gap(200_000), StreamWait(MAIN, "done"), other, main
    steps = tuple(step(n, *body, Gap(900_000)) for n in range(3))
    (trace,) = execute(Program((Rank((Thread("main", steps),)),)))
    edit = Edit(scenario="x", target="gpu", name="side", factor=20)
    with tracedb.open() as database:
        database.ingest([trace.write(tmp_path / "a.json")])
        with database.simulate(["replay"], [edit]) as beside:
            said = beside.sql("SELECT assumption FROM question.scenario_assumption")
    assert any(STREAM in text for (text,) in said.rows())


def test_a_wait_that_takes_no_time_may_return_as_if_for_other_work(
    tmp_path: Path,
) -> None:
    """On AMD, calls return before the recorded end of what they wait for."""
    main = Op("aten::main", (Launch(MAIN, 19_800, "main"),))
    side = Op("aten::side", (Launch(SIDE, 1_000, "side"),))
    body = RESUMED, Gap(50_000), main, Gap(4_000), side, Gap(3_000), StreamSync(SIDE)
    steps = tuple(step(n, *body, Gap(100_000)) for n in range(3))
    delays = Delays(sync_return_ns=-8_000, copy_return_ns=-1_000)
    (trace,) = execute(Program((Rank((Thread("main", steps),)),)), delays)
    edit = Edit(scenario="x", target="gpu", name="main", factor=2)
    with tracedb.open() as database:
        database.ingest([trace.write(tmp_path / "a.json")])
        awaited = database.sql(
            "SELECT count(*) FROM graph.host_awaited "
            "INNER JOIN staging.gpu_op USING (gpu_op_id) WHERE name = 'main'"
        )
        with database.simulate(["replay"], [edit]) as beside:
            said = beside.sql("SELECT assumption FROM question.scenario_assumption")
    assert awaited.item() > 0
    assert any(HOST in text for (text,) in said.rows())
