"""Memory over time: the peak, what is allocated there, and what each step keeps."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, SAMPLES, DatabaseOf, rows

import tracedb

QWEN = CORPUS / "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
RESNET = CORPUS / "kineto/resnet50_w4_2021b.json.gz"
LOOP = SAMPLES / "loop_cpu/loop.kineto.json.gz"
RECORDED = [
    pytest.param(LOOP, id="loop"),
    pytest.param(QWEN, id="qwen"),
    pytest.param(RESNET, id="resnet"),
]


def memory_events(path: Path) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Allocator events in order, by type and number of the device."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in sorted(
        (event for event in events if event["name"] == "[memory]"),
        key=lambda event: float(event["ts"]),
    ):
        args = event["args"]
        device = (args["Device Type"], args["Device Id"])
        found.setdefault(device, []).append(args | {"ts": event["ts"]})
    return found


def peak_of(events: list[dict[str, Any]]) -> tuple[int, int, int]:
    """The peak, allocations, and blocks live at the peak, as far as they are known.

    A plain loop over blocks. Without totals, prior memory is what keeps the running sum
    from going below zero.
    """
    total = -min(0, *sums(events))
    blocks: Counter[int] = Counter()
    peak = live = made = 0
    for event in events:
        total = event.get("Total Allocated", total + event["Bytes"])
        if event["Bytes"] > 0:
            made += 1
            blocks[event.get("Addr", 0)] = event["Bytes"]
        else:
            blocks.pop(event.get("Addr", 0), None)
        if total > peak:
            peak, live = total, blocks.total()
    return peak, made, live


def sums(events: list[dict[str, Any]]) -> list[int]:
    """Allocated bytes after each event, relative to the start."""
    found, total = [], 0
    for event in events:
        total += event["Bytes"]
        found.append(total)
    return found


@pytest.mark.parametrize("path", RECORDED)
def test_peak_against_a_plain_loop(path: Path, database_of: DatabaseOf) -> None:
    """Peak, blocks, and live blocks agree for each device."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(path)
    expected = sorted(peak_of(events) for events in memory_events(path).values())
    found = rows(
        database,
        """
        SELECT
            peak_bytes,
            allocation_count,
            coalesce(live, 0)
        FROM question.memory AS memory
        LEFT JOIN (
            SELECT device_type, device, sum(live_bytes)::BIGINT AS live
            FROM question.memory_at_peak
            WHERE origin IN ('op', 'outside')
            GROUP BY device_type, device
        ) USING (device_type, device)
        ORDER BY ALL
        """,
    )
    if path == RESNET:  # without addresses, live blocks are unknown
        expected = [(peak, made, 0) for peak, made, _ in expected]
    assert found == expected


@pytest.mark.parametrize("path", RECORDED)
def test_laws_of_memory(path: Path, database_of: DatabaseOf) -> None:
    """Live blocks sum to the peak, which is at least any step's."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(path)
    live = """
        SELECT bool_and(live = peak_bytes AND share BETWEEN 1 - 1e-9 AND 1 + 1e-9)
        FROM question.memory AS memory
        INNER JOIN (
            SELECT
                device_type, device, sum(live_bytes) AS live, sum(live_share) AS share
            FROM question.memory_at_peak
            GROUP BY ALL
        ) USING (device_type, device)
    """
    assert rows(database, live) == [(True,)]
    steps = """
        SELECT bool_and(
            by_step.peak_bytes <= memory.peak_bytes
            AND kept_bytes = by_step.end_bytes - by_step.begin_bytes
            AND (by_step.step <> memory.step OR by_step.peak_bytes = memory.peak_bytes)
        )
        FROM question.memory_by_step AS by_step
        INNER JOIN question.memory AS memory USING (trace_id, device_type, device)
    """
    assert rows(database, steps) == [(True,)]


def happening(name: str, at: int, lasting: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """An event on the main thread; an op, unless given otherwise."""
    common = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "args": {}}
    return common | {"name": name, "ts": at, "dur": lasting} | fields


def memory(at: int, size: int, address: int, total: int) -> dict[str, Any]:
    """A block allocated or freed on the first GPU."""
    args = {"Device Type": 1, "Device Id": 0, "Bytes": size, "Addr": address}
    args |= {"Total Allocated": total, "Total Reserved": 4096}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t"}
    return event | {"pid": 1, "tid": 1, "ts": at, "args": args}


def test_which_op_allocated_live_blocks(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """The op that does more than allocate; freed and reused blocks do not count."""
    step = {"cat": "user_annotation"}
    module = {"cat": "python_function"}
    events = [
        happening("ProfilerStep#3", 0, 100, **step),
        happening("nn.Module: Linear_0", 5, 60, **module),
        happening("aten::linear", 10, 40),
        happening("aten::addmm", 12, 30),
        happening("aten::empty", 14, 4),
        memory(15, 512, 10, 1512),
        memory(20, 256, 20, 1768),
        memory(25, -256, 20, 1512),
        memory(28, 1024, 20, 2536),
        memory(70, 64, 30, 2600),
        memory(80, -512, 10, 2088),
        happening("ProfilerStep#4", 100, 50, **step),
        memory(120, -1024, 20, 1064),
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    live = "SELECT origin, op, module, live_bytes, block_count"
    assert rows(database, f"{live} FROM question.memory_at_peak") == [
        ("op", "aten::addmm", "Linear_0", 1536, 2),
        ("before", None, None, 1000, None),
        ("outside", None, None, 64, 1),
    ]
    peak = "SELECT peak_bytes, step, offset_ns, unused_bytes, begin_bytes, end_bytes"
    assert rows(database, f"{peak} FROM question.memory") == [
        (2600, 3, 70_000, 1496, 1000, 1064)
    ]
    kept = "SELECT step, peak_bytes, begin_bytes, end_bytes, kept_bytes"
    assert rows(database, f"{kept} FROM question.memory_by_step") == [
        (3, 2600, 1000, 2088, 1088),
        (4, 2088, 2088, 1064, -1024),
    ]


def test_of_equal_peaks_the_first_in_time_counts(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """It does not matter which one the file has first."""
    events = [
        happening("ProfilerStep#3", 0, 100, cat="user_annotation"),
        happening("aten::late", 60, 30),
        memory(70, 512, 20, 512),
        memory(80, -512, 20, 0),
        happening("aten::early", 10, 30),
        memory(20, 512, 10, 512),
        memory(30, -512, 10, 0),
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    peak = "SELECT peak_bytes, offset_ns FROM question.memory"
    assert rows(database, peak) == [(512, 20_000)]
    live = "SELECT op, live_bytes FROM question.memory_at_peak"
    assert rows(database, live) == [("aten::early", 512)]
