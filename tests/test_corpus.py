"""Ingested corpus traces agree with their independent ground truth."""

from __future__ import annotations

from collections import Counter
from math import ulp
from typing import Any

import pytest
from support import CORPUS, corpus_files, rows, truth

import tracedb

GRAPH_CALL = "## Call CompiledFxGraph"
Opened = tuple[tracedb.Database, str, dict[str, Any]]


@pytest.fixture(params=corpus_files("kineto"))
def trace(request: pytest.FixtureRequest, corpus: tracedb.Database) -> Opened:
    """A database, a filter for one trace, and the truth for it."""
    query = f"SELECT trace_id FROM raw.trace WHERE path = '{CORPUS / request.param}'"
    ((trace_id,),) = rows(corpus, query)
    return corpus, f"trace_id = {trace_id}", truth()[request.param]


def test_every_event_is_kept(trace: Opened) -> None:
    """The number of raw events per category and phase equals the file's."""
    database, own, facts = trace
    events = f"FROM raw.event WHERE {own} GROUP BY ALL"
    cats = rows(database, f"SELECT coalesce(cat, ''), count(*) {events}")
    assert dict(cats) == facts["cats"]
    phases = rows(database, f"SELECT ph, count(*) {events}")
    assert dict(phases) == facts["ph"]


def test_ops_calls_and_gpu_work_are_counted(trace: Opened) -> None:
    """Staging has the ops, calls and GPU ops of the file."""
    database, own, facts = trace
    of_kinds = f"SELECT kind, count(*) FROM staging.gpu_op WHERE {own} GROUP BY ALL"
    kinds = Counter(dict(rows(database, of_kinds)))
    # Process-group ops on the CPU and calls of compiled graphs are recorded as ranges.
    of_ops = f"{own} AND name NOT LIKE 'gloo:%' AND name NOT LIKE '{GRAPH_CALL}%'"
    for name, fact, of in (("op", "n_ops", of_ops), ("call", "n_launches", own)):
        query = f"SELECT count(*) FROM staging.{name} WHERE {of}"
        assert rows(database, query) == [(facts[fact],)]
    expected = [facts["n_kernels"], facts["n_memcpy"], facts["n_memset"]]
    assert [kinds["kernel"], kinds["memcpy"], kinds["memset"]] == expected


@pytest.mark.parametrize(
    ("kinds", "fact"),
    [("'kernel'", "kernels_link"), ("'memcpy', 'memset'", "memcpy_memset_link")],
)
def test_gpu_work_is_linked(trace: Opened, kinds: str, fact: str) -> None:
    """GPU work is linked to its launch by correlation, and to the op around that."""
    database, own, facts = trace
    query = f"""
        SELECT count(call_id), count(op_id)
        FROM staging.gpu_op WHERE kind IN ({kinds}) AND {own}
    """
    expected = facts[fact]
    assert rows(database, query) == [
        (expected["linked_to_launch"], expected["time_link"])
    ]


def test_both_ways_to_link_ops_agree(trace: Opened) -> None:
    """Where External id is the op's, it names the op around the launch.

    Calls of compiled graphs are recorded as ranges, so their kernels name the next op.
    """
    database, own, facts = trace
    if facts["ext_is_correlation"]:
        pytest.skip("External id is the correlation in this file")
    query = f"""
        SELECT count(*), count(*) FILTER (
            gpu_op.op_id <> op.op_id AND around.name NOT LIKE '{GRAPH_CALL}%'
        )
        FROM staging.gpu_op INNER JOIN staging.op USING (trace_id, external_id)
        INNER JOIN staging.op AS around ON gpu_op.op_id = around.op_id
        WHERE gpu_op.op_id IS NOT NULL AND gpu_op.kind = 'kernel' AND gpu_op.{own}
    """
    assert rows(database, query) == [(facts["kernels_link"]["both_agree"], 0)]


def test_the_meaning_of_external_id_is_recognised(trace: Opened) -> None:
    """Files whose External id is the correlation are recognised."""
    database, own, facts = trace
    query = f"SELECT external_id_is_correlation FROM staging.trace WHERE {own}"
    assert rows(database, query) == [(facts["ext_is_correlation"],)]


def test_kernel_time_by_outermost_op(trace: Opened) -> None:
    """Kernel counts and times by the outermost op around the launch."""
    database, own, facts = trace
    query = f"""
        SELECT op.name, count(*), sum(gpu_op.end_ns - gpu_op.start_ns)::BIGINT
        FROM staging.gpu_op INNER JOIN staging.op ON outermost_op_id = op.op_id
        WHERE gpu_op.kind = 'kernel' AND gpu_op.{own}
        GROUP BY op.name
    """
    found = {name: [count, time] for name, count, time in rows(database, query)}
    expected = facts["kernels_by_outermost_op_top10"]
    assert {name: found.get(name) for name in expected} == expected


def test_busy_time_of_devices(trace: Opened) -> None:
    """The busy time of each device, with and without copies."""
    database, own, facts = trace
    query = f"""
        SELECT device, kernel_busy_ns, busy_ns
        FROM staging.device WHERE gpu_op_count > 0 AND {own}
    """
    found = {str(device): times for device, *times in rows(database, query)}
    assert found == {
        device: [busy["busy_kernels_ns"], busy["busy_all_ns"]]
        for device, busy in facts["devices"].items()
    }


def test_streams(trace: Opened) -> None:
    """The GPU ops and busy time of each stream."""
    database, own, facts = trace
    query = f"""
        SELECT device || '/' || stream, gpu_op_count, busy_ns
        FROM staging.stream WHERE {own}
    """
    found = {stream: times for stream, *times in rows(database, query)}
    assert found == facts["streams"]


def test_steps(trace: Opened) -> None:
    """Step marks in order, with begin and duration.

    The truth read begins as doubles, so the tolerance is half a unit in the last place:
    125 ns for absolute times with a fraction, 0 otherwise.
    """
    database, own, facts = trace
    query = f"""
        SELECT name, start_ns, end_ns - start_ns
        FROM staging.step WHERE {own} ORDER BY start_ns
    """
    found = rows(database, query)
    named = [(name, duration) for name, _, duration in found]
    assert named == [(step["name"], step["dur_ns"]) for step in facts["steps"]]
    for (_, start, _), step in zip(found, facts["steps"], strict=True):
        tolerance = 0 if start % 1000 == 0 else ulp(start / 1000) * 500
        assert abs(start - step["ts_ns"]) <= tolerance


def test_rank_and_world(trace: Opened) -> None:
    """The header's rank and world size are stored."""
    database, own, facts = trace
    query = f"""
        SELECT coalesce(rank, -1), coalesce(world_size, -1), backend
        FROM staging.trace WHERE {own}
    """
    ((rank, world, backend),) = rows(database, query)
    assert (world, backend) == (facts["world_size"] or -1, facts["backend"])
    assert facts["rank"] is None or rank == facts["rank"]
