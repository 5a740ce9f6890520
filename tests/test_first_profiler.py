"""Traces of PyTorch's first profiler, whose events have no category."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

if TYPE_CHECKING:
    from pathlib import Path

    import tracedb

Event = dict[str, Any]


def event(name: str, ts: float, dur: float, pid: str, tid: object = 1) -> Event:
    """An event as it writes them: neither a category nor arguments."""
    span = {"name": name, "ph": "X", "ts": ts, "dur": dur}
    return span | {"tid": tid, "pid": pid, "args": {}}


def ingest(database: tracedb.Database, folder: Path, events: list[Event]) -> None:
    """Ingest a list of events, as the profiler writes it."""
    (folder / "trace.json").write_text(json.dumps(events))
    database.ingest([folder / "trace.json"])


@pytest.mark.until("staging")
@pytest.mark.parametrize("pid", ["CPU functions", "CPU Functions"])
def test_its_events_are_ops(
    tmp_path: Path, database: tracedb.Database, pid: str
) -> None:
    """Ops nest, and ranges are ranges, as in later traces."""
    events = [
        event("aten::linear", 10.5, 50, pid),
        event("aten::addmm", 20, 30.25, pid),
        event("Optimizer.step#SGD.step", 70, 20, pid),
        event("aten::mul", 5, 1, pid, " node_id:0, thread_id:2 "),
    ]
    ingest(database, tmp_path, events)
    assert rows(
        database,
        "SELECT name, start_ns, end_ns, is_annotation FROM staging.op ORDER BY name",
    ) == [
        ("Optimizer.step#SGD.step", 70_000, 90_000, True),
        ("aten::addmm", 20_000, 50_250, False),
        ("aten::linear", 10_500, 60_500, False),
        ("aten::mul", 5_000, 6_000, False),
    ]
    query = "SELECT count(DISTINCT thread_id) FROM staging.op"
    assert rows(database, query) == [(2,)]


def test_its_times_of_the_gpu(tmp_path: Path, database: tracedb.Database) -> None:
    """Each of an op's time counts once, for the innermost op; on each device."""
    gpu = "CUDA functions"
    events = [
        event("aten::linear", 10, 50, "CPU functions"),
        event("aten::addmm", 20, 30, "CPU functions"),
        event("aten::linear", 100, 40, gpu, 0),
        event("aten::addmm", 100, 30, gpu, 0),
        event("aten::relu", 150, 10, gpu, 0),
        event("aten::relu", 155, 5, gpu, 1),
    ]
    ingest(database, tmp_path, events)
    assert rows(
        database,
        "SELECT name, device, kind, end_ns - start_ns FROM staging.gpu_op ORDER BY ALL",
    ) == [
        ("aten::addmm", 0, "kernel", 30_000),
        ("aten::relu", 0, "kernel", 10_000),
        ("aten::relu", 1, "kernel", 5_000),
    ]
    query = """
        SELECT device, sum(time_ns)::BIGINT FROM question.device_time
        WHERE is_busy GROUP BY device ORDER BY device
    """
    assert rows(database, query) == [(0, 40_000), (1, 5_000)]


@pytest.mark.until("staging")
def test_other_events_without_a_category_stay(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Nothing is assumed about other processes, and that nothing was read is told."""
    ingest(database, tmp_path, [event("f", 1, 2, "CPU functions of mine")])
    assert rows(database, "SELECT cat FROM raw.event") == [(None,)]
    query = "SELECT kind, occurrences FROM staging.ingest_issue"
    told = [("read as none: slices without a category", 1)]
    assert rows(database, query) == told
    query = "SELECT profiler FROM staging.recording"
    assert rows(database, query) == [("unknown profiler",)]
