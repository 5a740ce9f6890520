"""The published algorithm in SQL equals the paper's loop over the ops of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import mean, quantiles
from typing import Any

import pytest
from support import SAMPLES, Ingested

import tracedb
from tracedb.whatif.simulation import simulated

METHODS = {"lin2022": (2_000, 4_000, 5_000), "lin2022_as_profiled": (0, None, 0)}
GAP_NS = 1_000
SPANS = """
SELECT sample.*, timeline.start_ns, timeline.op_id, timeline.call_id, (
    SELECT count(*)
    FROM staging.op AS nested
    WHERE
        nested.thread_id = sample.thread_id
        AND nested.start_ns >= timeline.start_ns
        AND nested.start_ns < timeline.end_ns
        AND nested.top_op_id <> nested.op_id
) AS nested_count
FROM overhead.sample AS sample
INNER JOIN overhead.timeline USING (thread_id, position)
ORDER BY start_ns, thread_id, position
"""
WORK = """
SELECT call_id, is_collective, end_ns - start_ns AS time_ns
FROM staging.gpu_op WHERE call_id IS NOT NULL ORDER BY start_ns, gpu_op_id
"""

Span = dict[str, Any]


@pytest.fixture(scope="module")
def database(ingested: Ingested) -> Iterator[tracedb.Database]:
    """Two ranks of a generated job."""
    path = ingested(SAMPLES / "generated_gpu")
    with tracedb.open(path, read_only=True) as opened:
        yield opened


def dictionaries(database: tracedb.Database, query: str) -> list[Span]:
    """The rows of a query as dictionaries."""
    return list(database.sql(query).iter_rows(named=True))


def clean(span: Span, event_ns: int, launch_ns: int | None) -> float:
    """A span's duration without the profiler's cost."""
    if span["type"] == "T4":
        return span["sample_ns"] if launch_ns is None else launch_ns
    if span["type"] == "T1":
        return float(span["sample_ns"] - event_ns)
    return float(max(span["sample_ns"] - event_ns * span["nested_count"], 0))


def without_outliers(times: list[float]) -> float:
    """The mean of values within 1.5 times the interquartile range."""
    if len(times) == 1:
        return times[0]
    first, _, third = quantiles(times, n=4, method="inclusive")
    reach = 1.5 * (third - first)
    return mean(time for time in times if first - reach <= time <= third + reach)


def step_time(
    spans: list[Span],
    means: dict[tuple[str, str], float],
    work: dict[int, list[Span]],
    kernel_ns: int,
) -> float:
    """Go over the spans of a step: one host thread and two streams."""
    cpu = 0.0
    free = {False: -GAP_NS, True: -GAP_NS}
    seen = set()
    for span in spans:
        if span["op_id"] is not None and span["op_id"] not in seen:
            cpu += means.get(("T1", ""), 0)
            seen.add(span["op_id"])
        cpu += means.get((span["type"], span["name"]), 0)
        for kernel in work.get(span["call_id"] or 0, ()):
            if span["type"] != "T4":
                continue
            stream = kernel["is_collective"]
            ready = max(cpu, free[False] + GAP_NS) if stream else cpu
            start = max(free[stream] + GAP_NS, ready)
            free[stream] = start + kernel["time_ns"] + kernel_ns
    return max(cpu, *free.values())


@pytest.mark.parametrize("method", METHODS)
def test_lin2022_equals_a_loop(method: str, database: tracedb.Database) -> None:
    """It is equal for each step, to the nanosecond."""
    event_ns, launch_ns, kernel_ns = METHODS[method]
    spans = [
        span | {"name": "" if span["type"] == "T1" else span["name"]}
        for span in dictionaries(database, SPANS)
        if span["type"].startswith("T")
        and (span["type"] != "T1" or 2_000 <= span["sample_ns"] <= 200_000)
    ]
    times = defaultdict(list)
    for span in spans:
        group = span["type"], span["name"]
        times[group].append(clean(span, event_ns, launch_ns))
    means = {group: without_outliers(found) for group, found in times.items()}
    work = defaultdict(list)
    for kernel in dictionaries(database, WORK):
        work[kernel["call_id"]].append(kernel)
    steps = defaultdict(list)
    for span in spans:
        if span["type"] != "T1":
            steps[span["step_id"]].append(span)
    with simulated(database.connection, [method]) as connection:
        found = connection.execute(
            "SELECT step_id, predicted_ns FROM critical_path.lin2022_time"
        ).fetchall()
    assert len(found) == len(steps) == 6
    for step_id, predicted in found:
        expected = step_time(steps[step_id], means, work, kernel_ns)
        assert predicted == pytest.approx(expected, abs=1)
