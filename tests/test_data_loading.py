"""Time in the data loader, and GPU activity meanwhile."""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, SAMPLES, DatabaseOf, rows

import tracedb

WORKER = CORPUS / "param/dlrm8/kineto/worker1.pt.trace.json.gz"
RESNET = CORPUS / "kineto/resnet50_w4_2021b.json.gz"
RECORDED = [
    pytest.param(SAMPLES / "loop_cpu/loop.kineto.json.gz", id="loop"),
    pytest.param(SAMPLES / "generated_gpu/rank0.kineto.json.gz", id="generated"),
    pytest.param(WORKER, id="dlrm8"),
    pytest.param(RESNET, id="resnet"),
]
GPU = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
Intervals = list[tuple[int, int]]


def bounds(event: dict[str, Any]) -> tuple[int, int]:
    """Begin and end in nanoseconds."""
    begin = int(1000 * event["ts"])
    return begin, begin + int(1000 * event["dur"])


def merged(intervals: Intervals) -> Intervals:
    """The same time without overlaps."""
    found: Intervals = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def common(some: Intervals, others: Intervals) -> Intervals:
    """The intersection of both."""
    found = [
        (max(a, c), min(b, d)) for a, b in some for c, d in others if a < d and c < b
    ]
    return [(begin, end) for begin, end in found if begin < end]


def length(intervals: Intervals) -> int:
    """The total length."""
    return sum(end - begin for begin, end in intervals)


def steps_of(path: Path) -> list[tuple[int, int, int]]:
    """Number, loader time, and loader time with an active GPU, by step."""
    with gzip.open(path) as file:
        loaded = json.load(file, parse_float=Decimal)
    events = loaded if isinstance(loaded, list) else loaded["traceEvents"]
    events = [event for event in events if event.get("ph") == "X"]
    busy = merged([bounds(event) for event in events if event.get("cat") in GPU])
    fetching = merged(
        [bounds(e) for e in events if e["name"].startswith("enumerate(DataLoader)#")]
    )
    found = []
    for event in events:
        number = re.fullmatch(r"ProfilerStep#(\d+)", event["name"])
        if number and event.get("cat") in ("user_annotation", "Operator", "cpu_op"):
            within = common([bounds(event)], fetching)
            time, working = length(within), length(common(within, busy))
            found.append((int(number[1]), time, working))
    return sorted(found)


@pytest.mark.parametrize("path", RECORDED)
def test_against_a_plain_loop(path: Path, database_of: DatabaseOf) -> None:
    """Each step's loader time, and the part with an active GPU, agree."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(path)
    found = rows(
        database,
        "SELECT step, time_ns, busy_ns FROM question.data_loading "
        "WHERE step IS NOT NULL ORDER BY step",
    )
    expected = [step for step in steps_of(path) if step[1]]
    assert found == expected != []
    laws = """
        SELECT bool_and(
            time_ns = busy_ns + idle_ns AND busy_ns >= 0
            AND time_share <= 1 AND coalesce(path_ns, 0) >= 0
        ), sum(batch_count)::BIGINT = (SELECT count(*) FROM staging.data_loading)
        FROM question.data_loading
    """
    assert rows(database, laws) == [(True, True)]


def test_workers_and_loading_outside_steps(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Ranges may nest, cross the end of a step, and follow all steps."""
    worker = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    common = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "args": {}}
    ranges = [
        ("ProfilerStep#1", 0, 100),
        (worker, 10, 20),
        ("ShufflerIterDataPipe", 12, 5),
        (worker, 90, 30),
        ("ProfilerStep#2", 100, 50),
        (worker, 160, 7),
    ]
    events = [common | {"name": n, "ts": ts, "dur": dur} for n, ts, dur in ranges]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    found = rows(database, "SELECT step, time_ns FROM question.data_loading")
    assert dict(found) == {1: 30_000, 2: 20_000, None: 7_000}
    assert rows(
        database,
        "SELECT DISTINCT fetched_by, sum(batch_count)::BIGINT "
        "FROM question.data_loading GROUP BY fetched_by",
    ) == [("workers", 4)]


def test_ranges_of_other_work_on_data_are_no_loading(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A name that has a word of loading, but says something else, is not taken."""
    lane = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "dur": 5}
    names = [
        "## wait_for_batch ##",
        "all2all_data:lengths",
        "metadata",
        "load",
        "data2",
    ]
    names += ["data_parallel", "batch", "get_batch_size", "next_data_batch_norm"]
    events = [{**lane, "name": name, "ts": 10 * at} for at, name in enumerate(names)]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    assert rows(database, "SELECT * FROM staging.data_loading") == []
