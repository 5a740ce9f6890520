"""Edits of what runs in Python functions, against the program with another function."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from selecting import Rows, differences, made
from support import SAMPLES, Ingested, rows

import tracedb
from tracedb.errors import TracedbError

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 4


@dataclass(frozen=True)
class Loop:
    """A loop that tokenizes, computes and logs; times in microseconds."""

    tokenize: int = 4_000
    """Before the first op of a step."""
    split: int = 1_000
    """Part of that in a function of its own."""
    compute: int = 2_000
    log: int = 800
    """Between ops, beside `item`."""
    item: int = 200
    """An op within `log`."""

    def write(self, path: Path) -> Path:
        """The recording."""
        events: list[dict[str, Any]] = []
        now = 1_000
        for step in range(STEPS):
            begin = now
            events.append(_slice("python_function", "run.py(9): tokenize", now))
            now += self.tokenize - self.split
            events.append(_slice("python_function", "text.py(3): split", now))
            now += self.split
            _end(events[-2:], now)
            events.append(_slice("cpu_op", "aten::mm", now))
            now += self.compute
            _end(events[-1:], now)
            events.append(_slice("python_function", "run.py(20): log", now))
            now += self.log // 2
            events.append(_slice("cpu_op", "aten::item", now))
            now += self.item
            _end(events[-1:], now)
            now += self.log - self.log // 2
            _end(events[-2:-1], now)
            events.append(_slice("cpu_op", "aten::add_", now))
            now += 300
            _end(events[-1:], now)
            events.append(_slice("user_annotation", f"ProfilerStep#{step}", begin))
            _end(events[-1:], now)
        main = _slice("python_function", "run.py(1): main", 500)
        first = _slice("python_function", "torch/profiler.py(1): start", 400) | {
            "dur": 9
        }
        _end([main], now + 100)
        path.write_text(json.dumps({"traceEvents": [first, main, *events]}))
        return path


def _slice(cat: str, name: str, ts: int) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts}


def _end(events: list[dict[str, Any]], now: int) -> None:
    for event in events:
        event["dur"] = now - event["ts"]


def predicted(database: tracedb.Database, edit: str, folder: Path) -> list[int]:
    """[ns] The time of each step with an edit."""
    file = folder / "edits.json"
    file.write_text(json.dumps({"edited": [edit]}))
    query = (
        "SELECT predicted_ns FROM critical_path.step_time "
        "WHERE scenario = 'edited' ORDER BY step"
    )
    with database.simulate(["replay"], file) as beside:
        return [ns for (ns,) in rows(beside, query)]


LOOP = Loop()
CASES = [
    ("host function=tokenize x0.5", replace(LOOP, tokenize=2_000, split=500)),
    ('host function="tokenize (run.py:9)" x0', replace(LOOP, tokenize=0, split=0)),
    ("host function=split* x0.1", replace(LOOP, tokenize=3_100, split=100)),
    ("host function=/log|split/ x0.5", Loop(3_500, 500, 2_000, 400, 100)),
    ("op:aten::item function=log x2", replace(LOOP, item=400)),
    ("host:T1 function=log x0", replace(LOOP, log=0)),
    ("host function=ma?n x2", Loop(8_000, 2_000, 4_000, 1_600, 400)),
]


@pytest.mark.parametrize(("edit", "changed"), CASES, ids=[edit for edit, _ in CASES])
def test_edits_of_a_function_are_the_program_with_another_one(
    edit: str, changed: Loop, tmp_path: Path
) -> None:
    """Whatever runs in it: Python before the first op and between ops, and ops."""
    with tracedb.open() as before, tracedb.open() as after:
        before.ingest([LOOP.write(tmp_path / "before.json")])
        after.ingest([changed.write(tmp_path / "after.json")])
        took = rows(after, "SELECT end_ns - start_ns FROM staging.step ORDER BY step")
        expected = [ns for (ns,) in took]
        if "ma?n" in edit:
            # The last op takes twice the time, too.
            expected = [ns + 300_000 for ns in expected]
        assert predicted(before, edit, tmp_path) == expected


def test_python_before_the_first_op_is_no_idle_time(tmp_path: Path) -> None:
    """The thread of a step is at work in functions there; edits still call it idle."""
    ns = STEPS * 1_000
    with tracedb.open() as database:
        database.ingest([LOOP.write(tmp_path / "a.json")])
        time = dict(rows(database, "SELECT type, time_ns FROM question.host_time"))
        assert (time["idle_python"], time.get("idle")) == (ns * LOOP.tokenize, None)
        query = "SELECT frame, time_ns, gap_count FROM question.host_gap"
        found = {frame: [*told] for frame, *told in rows(database, query)}
        whole = ns * (LOOP.tokenize - LOOP.split)
        assert found["tokenize (run.py:9)"] == [whole, STEPS]
        assert found["split (text.py:3)"] == [ns * LOOP.split, STEPS]
        ((idle,),) = rows(
            database,
            "SELECT sum(end_ns - start_ns) FROM overhead.interval WHERE type = 'idle'",
        )
        assert idle == ns * LOOP.tokenize


SELECTED: list[dict[str, Any]] = [
    {"target": "host", "function": "*"},
    {"target": "host", "function": "batches"},
    {"target": "host", "function": "/forward|record/", "phase": "forward"},
    {"target": "op", "function": "*", "name": "aten::*"},
    {"target": "host", "function": "*", "op": "aten::linear", "instance": 1},
    {"target": "delay", "function": "*"},
    {"target": "wait", "function": "*"},
]


def test_functions_select_like_a_loop(ingested: Ingested) -> None:
    """Of a recorded loop."""
    with tracedb.open(ingested(SAMPLES / "loop_cpu"), read_only=True) as database:
        plain = Rows(database)
        edits = [made(str(number), fields) for number, fields in enumerate(SELECTED)]
        assert differences(database, edits, plain) == []
        assert plain.chosen_spans(edits[0])


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("host function=toke x0", "1 contains it: tokenize (run.py:9)"),
        ("host:T1 annotation=log x0", "(for a Python function: function=log)"),
    ],
)
def test_a_function_that_is_not_there(edit: str, said: str, tmp_path: Path) -> None:
    """The message says which are, and a name in another field which field it is for."""
    with tracedb.open() as database:
        database.ingest([LOOP.write(tmp_path / "a.json")])
        with pytest.raises(TracedbError) as error:
            predicted(database, edit, tmp_path)
    assert said in str(error.value)


def test_without_stacks_there_are_none(tmp_path: Path) -> None:
    """The message says how they are recorded."""
    path = LOOP.write(tmp_path / "a.json")
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    document["traceEvents"] = [e for e in events if e["cat"] != "python_function"]
    path.write_text(json.dumps(document))
    with tracedb.open() as database:
        database.ingest([path])
        with pytest.raises(TracedbError, match="with_stack=True"):
            predicted(database, "host function=log x0", tmp_path)
