"""Traces of Intel's unitrace: calls, work of devices, and flows between them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

if TYPE_CHECKING:
    from pathlib import Path

    import tracedb

Event = dict[str, Any]


def call(name: str, start: int, dur: int, *works: int) -> list[Event]:
    """An event of the host, with flows to the works that it submits."""
    lane = {"pid": 31, "tid": 31}
    flows = [
        lane
        | {"ph": "s", "name": "dep", "cat": f"Flow_H2D_{work}_0"}
        | {"ts": start + 1, "id": work}
        for work in works
    ]
    span = {"ph": "X", "cat": "cpu_op", "name": name, "ts": start, "dur": dur, "id": 0}
    return [lane | span, *flows]


def work(name: str, number: int, start: int, dur: int) -> list[Event]:
    """Work of the second of two devices."""
    lane = {"pid": 4_294_966_000, "tid": 4_294_965_000}
    span = {"ph": "X", "cat": "gpu_op", "name": name, "ts": start, "dur": dur}
    arrow = {"ph": "t", "name": "dep", "cat": f"Flow_H2D_{number}_0", "ts": start}
    return [lane | span | {"args": {"id": str(number)}}, lane | arrow | {"id": number}]


def events() -> list[Event]:
    """An op with two launches, a copy, and a list of commands that is run again."""
    other = [one | {"pid": 4_294_965_999} for one in work("warm_up", 9, 60, 5)]
    return [
        *call("aten::linear", 100, 100),
        *call("zeCommandListAppendLaunchKernel", 110, 10, 1),
        *work("gemm[SIMD16 {128; 1; 1} {16; 2; 8}]", 1, 130, 50),
        *call("zeCommandListAppendMemoryCopy", 150, 10, 2),
        *work("zeCommandListAppendMemoryCopy(M2D)[64 bytes]", 2, 185, 7),
        *call("zeCommandQueueExecuteCommandLists", 210, 20, 4, 3),
        *work("relu", 3, 240, 10),
        *work("gelu", 4, 250, 10),
        *work("zeCommandListAppendBarrier", 5, 260, 1),
        *call("zeCommandQueueSynchronize", 235, 40),
        *other,
    ]


@pytest.mark.until("graph")
def test_work_is_linked_to_its_calls(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """By the numbers of flows; a list of commands submits several works."""
    path = tmp_path / "app.4711.json"
    path.write_text(json.dumps({"traceEvents": events()}))
    database.ingest([path])
    query = """
        SELECT work.name[:9], work.kind, device, call.name, call.kind, op.name
        FROM staging.gpu_op AS work
        LEFT JOIN staging.call AS call USING (call_id)
        LEFT JOIN staging.op AS op ON work.op_id = op.op_id
        ORDER BY work.start_ns
    """
    listed = "zeCommandQueueExecuteCommandLists"
    launch, copy = "zeCommandListAppendLaunchKernel", "zeCommandListAppendMemoryCopy"
    assert rows(database, query) == [
        ("warm_up", "kernel", 0, None, None, None),
        ("gemm[SIMD", "kernel", 1, launch, "launch", "aten::linear"),
        ("zeCommand", "memcpy", 1, copy, "launch", "aten::linear"),
        ("relu", "kernel", 1, listed, "launch", None),
        ("gelu", "kernel", 1, listed, "launch", None),
    ]
    waits = "SELECT name, target FROM staging.call WHERE kind = 'wait'"
    assert rows(database, waits) == [("zeCommandQueueSynchronize", "stream")]
    assert rows(database, "SELECT name FROM staging.op") == [("aten::linear",)]
    assert rows(database, "SELECT profiler FROM staging.recording") == [("unitrace",)]
    assert rows(database, "FROM staging.ingest_issue") == []
