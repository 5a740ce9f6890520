"""Overhead types tile every step, and each agrees with its definition."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from reference import partition
from support import CORPUS, DatabaseOf, needs_corpus, rows

import tracedb
from tracedb.synthetic import (
    Annotation,
    Delays,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    Thread,
    Truth,
    execute,
    random_program,
)
from tracedb.synthetic import step as mark

SEEDS = range(40)

# The truth knows when a thread began to wait for another one; a trace only knows since
# when that one worked for it. The truth knows a blocking copy's own launch cost, a
# trace only the typical one.
MERGED = {"wait_thread": "T1", "idle": "T1", "wait_copy": "T4", "wait_queue": "T4"}


def test_steps_are_tiled(corpus: tracedb.Database) -> None:
    """On each thread intervals follow each other from the step's begin to its end."""
    gaps = """
        SELECT count(*) FROM (
            SELECT
                interval.start_ns - coalesce(
                    lag(interval.end_ns) OVER lane, step.start_ns
                ) AS before_ns,
                coalesce(lead(interval.start_ns) OVER lane, step.end_ns)
                - interval.end_ns AS after_ns
            FROM overhead.interval
            INNER JOIN staging.step ON interval.step_id = step.step_id
            WINDOW lane AS (
                PARTITION BY interval.step_id, interval.thread_id
                ORDER BY interval.start_ns
            )
        ) WHERE before_ns <> 0 OR after_ns <> 0
    """
    assert rows(corpus, gaps) == [(0,)]


def test_each_active_thread_has_a_partition(corpus: tracedb.Database) -> None:
    """Each host thread with an op, a launch or a wait in a step has one."""
    missing = """
        SELECT DISTINCT step_id, active.thread_id
        FROM staging.step
        INNER JOIN (
            SELECT trace_id, thread_id, start_ns, end_ns FROM staging.op
            WHERE NOT is_annotation AND end_ns > start_ns
            UNION ALL
            SELECT trace_id, thread_id, start_ns, end_ns FROM staging.call
            WHERE kind <> 'other' AND end_ns > start_ns
        ) AS active
            ON step.trace_id = active.trace_id
            AND active.start_ns < step.end_ns AND active.end_ns > step.start_ns
        EXCEPT
        SELECT step_id, thread_id FROM overhead.interval
    """
    assert rows(corpus, missing) == []


def test_calls_are_split_into_launch_and_wait(corpus: tracedb.Database) -> None:
    """Launches are T4 without the time they wait; waits are as long as their calls."""
    query = """
        WITH clipped AS (
            SELECT
                step.step_id, call.thread_id, call.kind, call.start_ns,
                greatest(call.start_ns, step.start_ns) AS from_ns,
                least(call.end_ns, step.end_ns) AS until_ns,
                max(call.end_ns) OVER (
                    PARTITION BY step.step_id, call.thread_id
                    ORDER BY call.start_ns, call.end_ns DESC
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS covered_ns
            FROM staging.call AS call
            INNER JOIN staging.step
                ON call.trace_id = step.trace_id
                AND call.start_ns < step.end_ns AND call.end_ns > step.start_ns
            WHERE call.kind IN ('launch', 'wait')
        )
        SELECT step_id, thread_id, kind,
            sum(until_ns - greatest(from_ns, covered_ns))::BIGINT
        FROM clipped
        WHERE until_ns > greatest(from_ns, covered_ns)
        GROUP BY ALL ORDER BY ALL
    """
    partitioned = """
        SELECT step_id, thread_id,
            CASE
                WHEN type IN ('T4', 'wait_copy', 'wait_queue') THEN 'launch' ELSE 'wait'
            END AS kind,
            sum(end_ns - start_ns)::BIGINT
        FROM overhead.interval
        WHERE type = 'T4' OR (type LIKE 'wait_%' AND call_id IS NOT NULL)
        GROUP BY ALL ORDER BY ALL
    """
    assert rows(corpus, partitioned) == rows(corpus, query)


def threads_of_steps(database: tracedb.Database) -> list[tuple[int, int]]:
    """Step and thread of partitions: for each trace the three with fewest intervals."""
    query = """
        SELECT step_id, thread_id FROM overhead.interval
        GROUP BY trace_id, step_id, thread_id
        QUALIFY row_number() OVER (
            PARTITION BY trace_id ORDER BY count(*), step_id, thread_id
        ) <= 3
        ORDER BY step_id, thread_id
    """
    return [(step, thread) for step, thread in rows(database, query)]


def sums(database: tracedb.Database, step_id: int, thread_id: int) -> dict[str, int]:
    """Time by overhead type for a step and thread."""
    query = f"""
        SELECT type, sum(end_ns - start_ns)::BIGINT FROM overhead.interval
        WHERE step_id = {step_id} AND thread_id = {thread_id} GROUP BY type
    """
    return dict(rows(database, query))


def test_types_equal_a_plain_loop(corpus: tracedb.Database) -> None:
    """Each type's time equals that of a loop over all boundaries."""
    for step, thread in threads_of_steps(corpus):
        assert sums(corpus, step, thread) == partition(corpus, step, thread)


def merged(totals: dict[str, int]) -> dict[str, int]:
    """Totals by those types that traces and the truth can both distinguish."""
    found: dict[str, int] = defaultdict(int)
    for type_, time in totals.items():
        found[MERGED.get(type_, type_)] += time
    return {type_: time for type_, time in found.items() if time}


@pytest.mark.until("overhead")
def test_types_equal_the_truth_of_generated_traces(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Generated traces agree with the program that they were made from."""
    truths: dict[str, Truth] = {}
    for seed in SEEDS:
        program = random_program(seed, threads=1 + seed % 3, streams=1 + seed % 4)
        trace = execute(program, Delays(jitter=0.1 * (seed % 2)), seed)[0]
        trace.write(tmp_path / f"{seed}.json")
        truths[f"{seed}.json"] = trace.truth
    database.ingest([tmp_path])
    query = """
        SELECT DISTINCT parse_filename(path), step, interval.step_id, tid::BIGINT,
            interval.thread_id
        FROM overhead.interval
        INNER JOIN staging.step ON interval.step_id = step.step_id
        INNER JOIN staging.thread ON interval.thread_id = thread.thread_id
        INNER JOIN staging.trace ON interval.trace_id = trace.trace_id
    """
    found = rows(database, query)
    assert len({name for name, *_ in found}) == len(SEEDS)
    totals: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    query = """
        SELECT step_id, thread_id, type, sum(end_ns - start_ns)::BIGINT
        FROM overhead.interval GROUP BY ALL
    """
    for step_id, thread_id, type_, time in rows(database, query):
        totals[step_id, thread_id][type_] = time
    for name, step, step_id, tid, thread_id in found:
        expected = {str(k): v for k, v in truths[name].overheads[step, tid].items()}
        assert merged(totals[step_id, thread_id]) == merged(expected)


LOADERS = (
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "enumerate(DataPipe)#Shuffler",
    "ShufflerIterDataPipe(MapperIterDataPipe)",
    "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
    "TrainUnit.train.next(data_iter)",
    "IteratorGetNextOp::DoCompute",
    "data",
    "## load_batch ##",
    "Data Loading",
    "get_next_batch",
    "batch-generator",
)


def write_loaded(path: Path, loader: str) -> None:
    """Write the trace of a step within a data loader range."""
    fetch = Annotation(
        loader,
        (
            Gap(1_000),
            Annotation("MapperIterDataPipe", (Gap(500),)),
            Op("aten::stack", (Gap(4_000),)),
            Gap(2_000),
            Op("aten::to", (Gap(300), Launch(7, 900))),
            Gap(700),
        ),
    )
    main = Thread("main", (mark(1, fetch, Op("aten::mm", (Gap(8_000),))),))
    program = Program((Rank((main,)),))
    (trace,) = execute(program, Delays(jitter=0), 0)
    trace.write(path)


def test_host_time_within_a_loader_is_data_loading(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Ops and gaps are included, but not launches and what follows the range."""
    for number, loader in enumerate(LOADERS):
        write_loaded(tmp_path / f"{number}.json", loader)
    database.ingest([tmp_path])
    free = tracedb.Edit(scenario="s", target="host", type="wait_data", factor=0)
    effects = {row["step_id"]: row for row in database.scenarios([free]).to_dicts()}
    steps = rows(database, "SELECT step_id, thread_id FROM staging.step")
    assert len(steps) == len(effects) == len(LOADERS)
    for step_id, thread_id in steps:
        found = sums(database, step_id, thread_id)
        assert found["wait_data"] == 1_000 + 500 + 4_000 + 2_000 + 300 + 700
        assert found["T5"] == 8_000
        assert found.keys() - {"idle", "T1"} == {"wait_data", "T4", "T5"}
        effect = effects[step_id]
        assert (
            effect["baseline_host_ns"] - effect["predicted_host_ns"]
            == found["wait_data"]
        )


@needs_corpus
@pytest.mark.parametrize("name", ["resnet50_w0_2021a", "resnet50_w4_2020list"])
def test_a_real_loader_loads_all_the_time(name: str, database_of: DatabaseOf) -> None:
    """Data loading takes as long as the loader's ranges, with their ops."""
    database = database_of(CORPUS / "kineto" / f"{name}.json.gz")
    ((ranges_ns, loading_ns),) = rows(
        database,
        """
        SELECT
            (
                SELECT sum(loading.end_ns - loading.start_ns)
                FROM staging.data_loading AS loading
                INNER JOIN staging.step
                    ON
                        loading.thread_id = step.thread_id
                        AND loading.start_ns >= step.start_ns
                        AND loading.end_ns <= step.end_ns
            ),
            (
                SELECT sum(end_ns - start_ns) FROM overhead.interval
                WHERE type = 'wait_data'
            )
        """,
    )
    assert loading_ns == ranges_ns > 0
