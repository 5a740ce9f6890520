"""The module (`nn.Module`) of ops and of critical path intervals."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, DatabaseOf, needs_corpus, rows

import tracedb
from tracedb.whatif.scenario import Edit

WITH_STACKS = (
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens/mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "tracelens/normalization_layer_test.json.gz",
)
MODULES = """
    SELECT op.name, path, is_backward
    FROM graph.op_module
    INNER JOIN staging.op USING (op_id)
    INNER JOIN staging.module_call USING (module_call_id)
    ORDER BY op.start_ns, op.end_ns DESC
"""


def event(
    cat: str, name: str, tid: int, begin: int, end: int, **args: object
) -> dict[str, Any]:
    """An event from one microsecond to another."""
    fields = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid}
    return fields | {"ts": begin, "dur": end - begin, "args": args}


def module(name: str, begin: int, end: int) -> dict[str, Any]:
    """A module call on the main thread."""
    return event("python_function", f"nn.Module: {name}", 1, begin, end)


def op(name: str, begin: int, end: int, tid: int = 1, **args: int) -> dict[str, Any]:
    """An op."""
    named = {key.replace("_", " "): value for key, value in args.items()}
    return event("cpu_op", name, tid, begin, end, **named)


def ingest(
    database: tracedb.Database, folder: Path, events: list[dict[str, Any]]
) -> None:
    """Ingest a trace of these events."""
    file = folder / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])


@pytest.mark.until("graph")
def test_an_op_belongs_to_the_innermost_open_module(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Of modules that begin or end together, the enclosing one is the outer one."""
    events = [
        op("before", 0, 10),
        module("Net_0", 10, 100),
        module("Linear_0", 10, 30),
        op("linear", 10, 20),
        module("Linear_1", 30, 100),
        op("linear", 30, 40),
        module("ReLU_0", 40, 40),
        op("relu", 40, 50),
        op("after", 100, 110),
        event("python_function", "train.py(3): step", 1, 0, 200),
    ]
    ingest(database, tmp_path, events)
    assert rows(database, MODULES) == [
        ("linear", "Net_0/Linear_0", False),
        ("linear", "Net_0/Linear_1", False),
        ("relu", "Net_0/Linear_1", False),
    ]


@pytest.mark.until("graph")
def test_a_backward_op_belongs_to_the_module_of_its_forward_op(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """They are linked by sequence number; child ops follow, other ops do not."""
    events = [
        module("Net_0", 0, 100),
        module("Linear_0", 10, 30),
        op("aten::t", 10, 12, Sequence_number=5),
        op("aten::addmm", 12, 20, Sequence_number=5),
        op("aten::sum", 40, 50, Sequence_number=6),
        op("SumBackward0", 200, 210, tid=2, Sequence_number=6),
        op("AddmmBackward0", 210, 230, tid=2, Sequence_number=5),
        op("aten::mm", 212, 220, tid=2),
        op("AccumulateGrad", 230, 240, tid=2),
    ]
    ingest(database, tmp_path, events)
    assert rows(database, MODULES)[-3:] == [
        ("SumBackward0", "Net_0", True),
        ("AddmmBackward0", "Net_0/Linear_0", True),
        ("aten::mm", "Net_0/Linear_0", True),
    ]


def test_equal_modules_are_ranked_and_edited_together(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """The class of modules in an answer selects these alone, none further inside."""
    events = [
        event("user_annotation", "ProfilerStep#1", 1, 0, 100),
        module("Net_0", 0, 100),
        module("Linear_0", 10, 20),
        op("aten::linear", 10, 20),
        module("Linear_10", 20, 40),
        op("aten::linear", 20, 40),
        module("Block_0", 50, 90),
        op("aten::relu", 50, 53),
        module("Linear_2", 60, 90),
        op("aten::linear", 60, 90),
    ]
    ingest(database, tmp_path, events)
    ranked = database.ranking().filter(target="op")
    gains = dict(zip(ranked["name"], ranked["gain_ns"], strict=True))
    assert gains == {
        "Net_*": 63_000,
        "Net_*/Block_*": 33_000,
        "Net_*/Block_*/Linear_*": 30_000,
        "Net_*/Linear_*": 30_000,
    }
    patterns = (
        "Net_*/Linear_*",
        "Net_*Linear_*",
        "/^Net_./Linear_.$/",
        "Net_*/Linear_10",
    )
    edits = [Edit(scenario=p, target="op", module=p, factor=0) for p in patterns]
    done = database.scenarios(edits).to_dicts()
    saved = {row["scenario"]: row["baseline_ns"] - row["predicted_ns"] for row in done}
    assert list(map(saved.get, patterns)) == [30_000, 60_000, 10_000, 20_000]


def test_the_place_of_a_lever_is_a_class_of_modules_unless_one_leads(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Three equal layers are one place; of two, one with most of the time is named."""
    events = [event("user_annotation", "ProfilerStep#1", 1, 0, 400)]
    for number in range(3):
        events.append(module(f"Layer_{number}", 100 * number, 100 * number + 100))
        events.append(op("aten::mm", 100 * number, 100 * number + 90))
    ingest(database, tmp_path, events)
    place = "SELECT module, place_ns FROM question.lever WHERE lever = 'dispatch'"
    assert rows(database, place) == [("Layer_*", 270_000)]
    events[2]["dur"] = events[4]["dur"] = 10
    (tmp_path / "b.json").write_text(json.dumps({"traceEvents": events}))
    database.ingest([tmp_path / "b.json"])
    assert rows(database, f"{place} AND run_id = 2") == [("Layer_2", 110_000)]


def test_paths_name_op_and_module(database: tracedb.Database, tmp_path: Path) -> None:
    """GPU work has the op around its launch; a gap has the module that is open."""
    events = [
        event("user_annotation", "ProfilerStep#1", 1, 0, 100),
        module("Linear_0", 10, 30),
        op("aten::mm", 10, 18),
        event("cuda_runtime", "cudaLaunchKernel", 1, 12, 16, correlation=1),
        op("aten::add", 22, 24),
        event("cuda_runtime", "cudaDeviceSynchronize", 1, 30, 96),
        event("kernel", "gemm", 7, 20, 95, correlation=1, device=0, stream=7),
    ]
    ingest(database, tmp_path, events)
    found = rows(
        database,
        "SELECT kind, name, op, module FROM question.path_interval "
        "WHERE scope = 'step' ORDER BY offset_ns",
    )
    assert ("kernel", "gemm", "aten::mm", "Linear_0") in found
    assert ("launch_delay", "gemm", "aten::mm", "Linear_0") in found
    assert ("return", "gemm", "aten::mm", "Linear_0") in found
    assert ("host_gap", None, None, None) in found
    events[-1]["dur"], events[-2]["ts"], events[-2]["dur"] = 1, 30, 1
    file = tmp_path / "short.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    gaps = rows(
        database,
        "SELECT module FROM question.path_interval "
        "WHERE scope = 'step' AND trace_id = 2 AND kind = 'host_gap'",
    )
    assert ("Linear_0",) in gaps


def python_calls(path: str) -> list[dict[str, Any]]:
    """Python function events of a corpus file."""
    with gzip.open(CORPUS / path) as file:
        events = json.load(file)["traceEvents"]
    return [event for event in events if event.get("cat") == "python_function"]


@needs_corpus
@pytest.mark.parametrize("path", WITH_STACKS)
def test_module_paths_follow_recorded_parents(
    path: str, database_of: DatabaseOf
) -> None:
    """Recorded ids of frames and their parents give the same paths."""
    calls = {call["args"]["Python id"]: call for call in python_calls(path)}
    expected = []
    for call in calls.values():
        names: list[str] = []
        frame: dict[str, Any] | None = call
        while frame is not None:
            if frame["name"].startswith("nn.Module: "):
                names.append(frame["name"].removeprefix("nn.Module: "))
            frame = calls.get(frame["args"]["Python parent id"])
        if call["name"].startswith("nn.Module: "):
            expected.append("/".join(reversed(names)))
    database = database_of(CORPUS / path)
    found = rows(database, "SELECT path FROM staging.module_call")
    assert sorted(path for (path,) in found) == sorted(expected)
    assert len(expected) > 30


@needs_corpus
@pytest.mark.parametrize("path", WITH_STACKS)
def test_the_module_of_an_op_equals_a_plain_loop(
    path: str, database_of: DatabaseOf
) -> None:
    """A loop over all module calls finds the same innermost module for each op."""
    database = database_of(CORPUS / path)
    calls = rows(
        database,
        "SELECT thread_id, start_ns, end_ns, module_call_id FROM staging.module_call",
    )
    ops = rows(
        database,
        "SELECT thread_id, start_ns, module_call_id, is_backward FROM staging.op "
        "LEFT JOIN graph.op_module USING (op_id)",
    )
    for thread, at, found, is_backward in ops:
        around = [
            call for call in calls if call[0] == thread and call[1] <= at < call[2]
        ]
        innermost = max(around, key=lambda call: call[1], default=(0, 0, 0, None))
        assert is_backward or innermost[3] == found
    assert sum(not is_backward for *_, is_backward in ops) > 100
