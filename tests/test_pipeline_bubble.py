"""Bubbles of pipelines, compared with plain loops over the files."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import messages
import polars as pl
import pytest
from pipeline_job import Job, randomly
from pipeline_job import rows as job_rows
from support import CORPUS, needs_corpus, rows

import tracedb
from tracedb.synthetic import Delays, execute

if TYPE_CHECKING:
    from pathlib import Path

QUERY = """
SELECT
    rank, step, span_ns, compute_ns, bubble_ns, before_ns, between_ns, after_ns
FROM question.pipeline_bubble
"""
Bubbles = dict[tuple[int, int], tuple[int, ...]]
"""[ns] By rank and step, as in `QUERY`."""


def plain(found: dict[tuple[int, int, int], list[tuple[int, int]]]) -> Bubbles:
    """Bubbles of computations, given by pipeline, rank and step as starts and ends."""
    bubbles: Bubbles = {}
    for (pipeline, rank, step), own in found.items():
        all_of = [
            time
            for key, times in found.items()
            if (key[0], key[2]) == (pipeline, step)
            for time in times
        ]
        begin, end = min(start for start, _ in all_of), max(end for _, end in all_of)
        computing = gaps = 0
        until = begin
        for start, stop in sorted(own):
            gaps += max(start - until, 0)
            computing += max(stop - max(start, until), 0)
            until = max(until, stop)
        before = min(start for start, _ in own) - begin
        bubbles[rank, step] = (
            *(end - begin, computing, end - begin - computing),
            *(before, gaps - before, end - until),
        )
    return bubbles


def found_in(database: tracedb.Database) -> Bubbles:
    """The answer."""
    return {(rank, step): tuple(times) for rank, step, *times in rows(database, QUERY)}


@pytest.mark.parametrize(
    "job",
    [
        Job(stages=4, dp_ranks=2, microbatches=6),
        Job(stages=3, dp_ranks=1, microbatches=6, chunks=2, unrun=True),
    ],
    ids=str,
)
def test_a_table_of_operations(job: Job, tmp_path: Path) -> None:
    """Each data-parallel rank is a pipeline of its own."""
    log = job_rows(job, randomly(7))
    pl.DataFrame(log).write_parquet(tmp_path / "job.parquet")
    computed = defaultdict(list)
    for row in log:
        if row["optype"].endswith("compute"):
            rank = row["dp_rank"] * job.stages + row["stage"]
            end = row["start_ns"] + row["duration_ns"]
            computed[row["dp_rank"], rank, row["step"]].append((row["start_ns"], end))
    with tracedb.open() as database:
        database.ingest([tmp_path / "job.parquet"])
        assert found_in(database) == plain(computed)


def computed_in(rank: int, trace: dict[str, Any]) -> dict[Any, list[tuple[int, int]]]:
    """Kernels of a trace that compute, by the step that launches them."""
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    marks = [e for e in events if e["name"].startswith("ProfilerStep#")]
    called = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e["cat"] == "cuda_runtime" and "correlation" in e["args"]
    }
    found = defaultdict(list)
    for event in events:
        if event["cat"] != "kernel" or event["name"].startswith("nccl"):
            continue
        at = called[event["args"]["correlation"]]
        for mark in marks:
            if mark["ts"] <= at < mark["ts"] + mark["dur"]:
                step = int(mark["name"].partition("#")[2])
                end = event["ts"] + event["dur"]
                found[0, rank, step].append(
                    (round(1000 * event["ts"]), round(1000 * end))
                )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_ranks_that_send_to_each_other(seed: int, tmp_path: Path) -> None:
    """Their kernels compute, but for those that send and receive."""
    program = messages._Pipeline(Random(seed)).program()  # noqa: S311, SLF001
    computed: dict[Any, list[tuple[int, int]]] = {}
    for rank, trace in enumerate(execute(program, Delays())):
        path = trace.write(tmp_path / f"rank{rank}.json")
        computed |= computed_in(rank, json.loads(path.read_text()))
    with tracedb.open() as database:
        database.ingest(sorted(tmp_path.iterdir()), run="pipeline")
        found = found_in(database)
        clocks = rows(database, "SELECT max(abs(offset_ns)) FROM graph.clock")
    assert clocks == [(0,)]
    expected = plain(computed)
    assert {key for key in expected if key[1] > 0} <= found.keys()
    for key, times in found.items():
        assert times == pytest.approx(expected[key], abs=2)


def test_ranks_that_only_reduce_are_no_pipeline(tmp_path: Path) -> None:
    """Nor is a single stage."""
    job = Job(stages=1, dp_ranks=2, microbatches=2)
    pl.DataFrame(job_rows(job, randomly(7))).write_parquet(tmp_path / "job.parquet")
    with tracedb.open() as database:
        database.ingest([tmp_path / "job.parquet"])
        assert found_in(database) == {}


@needs_corpus
def test_a_real_pipeline_has_the_bubble_of_its_schedule() -> None:
    """Of 8 stages and 16 microbatches, 7 of 23 slots are empty; transfers add to it."""
    with tracedb.open() as database:
        database.ingest([CORPUS / "pipeline"])
        query = """
            SELECT count(*), median(bubble_share), min(bubble_share)
            FROM question.pipeline_bubble
            WHERE step > (SELECT min(step) FROM staging.operation)
        """
        ((count, usual, least),) = rows(database, query)
    assert count == 8 * 19
    assert 7 / 23 < usual < 7 / 23 + 0.1
    assert least > 0.2
