"""Profiles of ONNX Runtime: its nodes are ops, its phases ranges."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

if TYPE_CHECKING:
    from pathlib import Path

    import tracedb

Event = dict[str, Any]
CUDA = "CUDAExecutionProvider"


def event(cat: str, name: str, ts: int, dur: int, **args: object) -> Event:
    """An event as it writes them; GPU work has neither a process nor a thread."""
    lane = -1 if cat == "Kernel" else 7
    times = {"ts": ts, "dur": dur, "ph": "X", "pid": lane, "tid": lane}
    return {"cat": cat, "name": name, "args": args, **times}


def profile(runs: int) -> list[Event]:
    """A profile of some runs of two nodes."""
    events = [event("Session", "session_initialization", 0, 900)]
    for start in range(1_000, 1_000 * (runs + 1), 1_000):
        matmul = {"op_name": "MatMul", "provider": CUDA, "node_index": "1"}
        events += [
            event("Node", "/a/MatMul_fence_before", start + 9, 0, op_name="MatMul"),
            event("Node", "/a/MatMul_kernel_time", start + 10, 40, **matmul),
            event("Kernel", "sgemm_32x32_nn", start + 30, 90, stream="7"),
            event("Node", "/a/Relu_kernel_time", start + 60, 30),
            event("Kernel", "MemcpyDeviceToHost", start + 130, 5, stream="7"),
            event("Session", "SequentialExecutor::Execute", start + 8, 500),
            event("Session", "model_run", start, 800),
        ]
    return events


@pytest.fixture
def recorded(tmp_path: Path, database: tracedb.Database) -> tracedb.Database:
    """A database of three runs, each of which is a step."""
    (tmp_path / "ort.json").write_text(json.dumps(profile(3)))
    database.ingest([tmp_path / "ort.json"], step_mark="model_run")
    return database


def test_nodes_are_ops(recorded: tracedb.Database) -> None:
    """An op has the type of its node; phases are ranges, and runs can be steps."""
    query = """
        SELECT name, count(*), sum(end_ns - start_ns)::BIGINT
        FROM staging.op WHERE NOT is_annotation GROUP BY name ORDER BY name
    """
    expected = [("/a/Relu", 3, 90_000), ("MatMul", 3, 120_000)]
    assert rows(recorded, query) == expected
    assert rows(recorded, "SELECT count(*) FROM staging.step") == [(3,)]
    told = "SELECT profiler FROM staging.recording"
    assert rows(recorded, told) == [("ONNX Runtime",)]
    assert rows(recorded, "FROM staging.ingest_issue") == []


def test_gpu_work_is_of_the_first_device(recorded: tracedb.Database) -> None:
    """Its events name no device; copies are known by their names."""
    query = """
        SELECT kind, device, stream, count(*), sum(end_ns - start_ns)::BIGINT
        FROM staging.gpu_op GROUP BY ALL ORDER BY ALL
    """
    assert rows(recorded, query) == [
        ("kernel", 0, 7, 3, 270_000),
        ("memcpy", 0, 7, 3, 15_000),
    ]
