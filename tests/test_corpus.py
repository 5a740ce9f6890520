"""Every real trace of the corpus is ingested as its independent ground truth says."""

from __future__ import annotations

from collections import Counter
from math import ulp
from typing import Any

import pytest
from support import rows

import tracedb

Opened = tuple[tracedb.Database, dict[str, Any]]


@pytest.fixture
def trace(corpus_trace: Opened) -> Opened:
    """A corpus trace with its truth."""
    return corpus_trace


def test_every_event_is_kept(trace: Opened) -> None:
    """Raw events are as many as in the file, in each category and each phase."""
    database, facts = trace
    cats = rows(
        database, "SELECT coalesce(cat, ''), count(*) FROM raw.event GROUP BY ALL"
    )
    assert dict(cats) == facts["cats"]
    phases = rows(database, "SELECT ph, count(*) FROM raw.event GROUP BY ALL")
    assert dict(phases) == facts["ph"]


def test_ops_calls_and_gpu_work_are_counted(trace: Opened) -> None:
    """Staging has the ops, the calls and the GPU work that the file has."""
    database, facts = trace
    kinds = Counter(
        dict(rows(database, "SELECT kind, count(*) FROM staging.gpu_op GROUP BY ALL"))
    )
    assert rows(database, "SELECT count(*) FROM staging.op") == [(facts["n_ops"],)]
    assert rows(database, "SELECT count(*) FROM staging.call") == [
        (facts["n_launches"],)
    ]
    expected = [facts["n_kernels"], facts["n_memcpy"], facts["n_memset"]]
    assert [kinds["kernel"], kinds["memcpy"], kinds["memset"]] == expected


@pytest.mark.parametrize(
    ("kinds", "fact"),
    [("'kernel'", "kernels_link"), ("'memcpy', 'memset'", "memcpy_memset_link")],
)
def test_gpu_work_is_linked(trace: Opened, kinds: str, fact: str) -> None:
    """GPU work finds its launch by correlation, and its op around the launch."""
    database, facts = trace
    query = f"""
        SELECT count(call_id), count(op_id)
        FROM staging.gpu_op WHERE kind IN ({kinds})
    """
    expected = facts[fact]
    assert rows(database, query) == [
        (expected["linked_to_launch"], expected["time_link"])
    ]


def test_both_ways_of_linking_agree(trace: Opened) -> None:
    """Where External id is the op's, it names the op around the launch."""
    database, facts = trace
    if facts["ext_is_correlation"]:
        pytest.skip("External id is the correlation in this file")
    query = """
        SELECT count(*), count(*) FILTER (gpu_op.op_id <> op.op_id)
        FROM staging.gpu_op INNER JOIN staging.op USING (trace_id, external_id)
        WHERE gpu_op.op_id IS NOT NULL AND gpu_op.kind = 'kernel'
    """
    assert rows(database, query) == [(facts["kernels_link"]["both_agree"], 0)]


def test_external_id_is_understood(trace: Opened) -> None:
    """Files in which External id is the correlation are told apart."""
    database, facts = trace
    query = "SELECT external_id_is_correlation FROM staging.trace"
    assert rows(database, query) == [(facts["ext_is_correlation"],)]


def test_kernel_time_by_outermost_op(trace: Opened) -> None:
    """Kernel counts and times by the outermost op around the launch."""
    database, facts = trace
    query = """
        SELECT op.name, count(*), sum(gpu_op.end_ns - gpu_op.start_ns)::BIGINT
        FROM staging.gpu_op INNER JOIN staging.op ON outermost_op_id = op.op_id
        WHERE gpu_op.kind = 'kernel'
        GROUP BY op.name
    """
    found = {name: [count, time] for name, count, time in rows(database, query)}
    expected = facts["kernels_by_outermost_op_top10"]
    assert {name: found.get(name) for name in expected} == expected


def test_busy_time_of_devices(trace: Opened) -> None:
    """Busy time of each device, with and without copies."""
    database, facts = trace
    query = """
        SELECT device, kernel_busy_ns, busy_ns
        FROM staging.device WHERE gpu_op_count > 0
    """
    found = {str(device): times for device, *times in rows(database, query)}
    assert found == {
        device: [busy["busy_kernels_ns"], busy["busy_all_ns"]]
        for device, busy in facts["devices"].items()
    }


def test_streams(trace: Opened) -> None:
    """GPU work and the busy time of each stream."""
    database, facts = trace
    query = "SELECT device || '/' || stream, gpu_op_count, busy_ns FROM staging.stream"
    found = {stream: times for stream, *times in rows(database, query)}
    assert found == facts["streams"]


def test_steps(trace: Opened) -> None:
    """Step marks in order of time, with their begin and duration.

    The truth read the begins through doubles: half of a double's last place is its
    tolerance, 125 ns for absolute times with a fraction, and 0 for all others.
    """
    database, facts = trace
    query = (
        "SELECT name, start_ns, end_ns - start_ns FROM staging.step ORDER BY start_ns"
    )
    found = rows(database, query)
    named = [(name, duration) for name, _, duration in found]
    assert named == [(step["name"], step["dur_ns"]) for step in facts["steps"]]
    for (_, start, _), step in zip(found, facts["steps"], strict=True):
        tolerance = 0 if start % 1000 == 0 else ulp(start / 1000) * 500
        assert abs(start - step["ts_ns"]) <= tolerance


def test_rank_and_world(trace: Opened) -> None:
    """The header's rank and world size."""
    database, facts = trace
    query = """
        SELECT coalesce(rank, -1), coalesce(world_size, -1), backend FROM staging.trace
    """
    ((rank, world, backend),) = rows(database, query)
    assert (world, backend) == (facts["world_size"] or -1, facts["backend"])
    assert facts["rank"] is None or rank == facts["rank"]
