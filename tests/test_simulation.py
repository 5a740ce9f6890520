"""The simulation in SQL is exact, and replay reproduces real step times."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reference import simulate
from support import (
    CORPUS,
    SAMPLES,
    Amount,
    DatabaseOf,
    needs_corpus,
    rows,
    write_generated,
)

import tracedb
from tracedb import catalog
from tracedb.synthetic import Delays, execute, random_program

METHODS = ("replay", "statistics", "full")


@pytest.fixture(scope="module")
def generated(
    tmp_path_factory: pytest.TempPathFactory, amount: Amount
) -> Iterator[tracedb.Database]:
    """Generated traces of 1 to 3 threads and 1 to 4 streams."""
    folder = tmp_path_factory.mktemp("generated")
    write_generated(folder, range(amount(60, 200)))
    with tracedb.open() as opened:
        opened.ingest([folder])
        yield opened


def assert_equal_to_reference(database: tracedb.Database, method: str) -> None:
    """Compare begin and end of everything simulated with the plain loop."""
    reference = simulate(database, method)
    spans = rows(
        database,
        "SELECT thread_id, position, start_ns, end_ns "
        "FROM simulation.host_span_time "
        f"INNER JOIN prediction.variant USING (variant_id) WHERE method = '{method}'",
    )
    assert {(t, p): (start, end) for t, p, start, end in spans} == reference.spans
    work = rows(
        database,
        "SELECT gpu_op_id, start_ns, end_ns "
        "FROM simulation.gpu_work_time "
        f"INNER JOIN prediction.variant USING (variant_id) WHERE method = '{method}'",
    )
    assert {kernel: (start, end) for kernel, start, end in work} == reference.kernels
    assert len(spans) > 0


@pytest.mark.parametrize("method", METHODS)
def test_generated_graphs_equal_the_plain_loop(
    generated: tracedb.Database, method: str, amount: Amount
) -> None:
    """SQL and the plain loop agree to the nanosecond on generated graphs."""
    runs = rows(generated, "SELECT DISTINCT run_id FROM staging.trace")
    assert len(runs) == amount(60, 200)
    assert_equal_to_reference(generated, method)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_of_a_job_equal_the_plain_loop(
    method: str, database_of: DatabaseOf
) -> None:
    """Likewise with collectives between ranks."""
    database = database_of(SAMPLES / "generated_gpu")
    assert_equal_to_reference(database, method)
    assert rows(database, "SELECT count(*) > 10 FROM graph.collective") == [(True,)]


@pytest.mark.parametrize("method", METHODS)
def test_dlrm8_equals_the_plain_loop(dlrm8: tracedb.Database, method: str) -> None:
    """SQL and a plain loop agree to the nanosecond on four real ranks."""
    assert_equal_to_reference(dlrm8, method)


def test_generated_steps_are_replayed(generated: tracedb.Database) -> None:
    """Steps with known delays are replayed within 3 %, half of them within 0.3 %."""
    errors = sorted(
        abs(error)
        for (error,) in rows(
            generated,
            "SELECT error_share FROM critical_path.step_time WHERE method = 'replay'",
        )
    )
    assert errors[len(errors) // 2] < 0.003
    assert errors[-1] < 0.03


def worst_error(database: tracedb.Database) -> float:
    """Replay's largest error over all steps, without times kept as measured."""
    query = """
        SELECT max(abs((predicted_ns - kept_ns) / measured_ns - 1))
        FROM critical_path.step_time
        WHERE method = 'replay'
    """
    return float(rows(database, query)[0][0])


def test_dlrm8_is_replayed(dlrm8: tracedb.Database) -> None:
    """Each rank's step is replayed within 2 %, waits recomputed from their causes."""
    assert worst_error(dlrm8) < 0.02


def recompute_readers(database: tracedb.Database, relation: str) -> None:
    """Recompute what reads an edited relation."""
    traces = [
        trace for (trace,) in rows(database, "SELECT trace_id FROM staging.trace")
    ]
    list(catalog.compute(database.connection, traces, catalog.readers(relation)))


@pytest.fixture
def dlrm8_of_its_own(dlrm8_alone: Path, tmp_path: Path) -> Iterator[tracedb.Database]:
    """The four real ranks in a database that a test may edit."""
    with tracedb.open(shutil.copy(dlrm8_alone, tmp_path)) as opened:
        yield opened


@needs_corpus
@pytest.mark.parametrize("relation", ["graph.stream_wait", "graph.host_wait"])
def test_replay_needs_each_edge_kind(
    dlrm8_of_its_own: tracedb.Database, relation: str
) -> None:
    """Without one kind of wait, replay misses the step time."""
    whole = worst_error(dlrm8_of_its_own)
    dlrm8_of_its_own.connection.execute(f"DELETE FROM {relation}")
    recompute_readers(dlrm8_of_its_own, relation)
    assert whole < 0.02
    assert worst_error(dlrm8_of_its_own) > 0.1


@needs_corpus
def test_a_slower_backward_pass_delays_the_step(
    dlrm8_of_its_own: tracedb.Database,
) -> None:
    """The main thread waits for autograd: 50 ms more there delay it by 50 ms."""
    database = dlrm8_of_its_own
    query = """
        SELECT step_id, predicted_ns FROM critical_path.step_time
        WHERE method = 'replay'
    """
    before = dict(rows(database, query))
    database.connection.execute("""
        UPDATE prediction.host_time SET predicted_ns = predicted_ns + 50_000_000
        WHERE (thread_id, position) IN (
            SELECT interval.thread_id, min(position)
            FROM overhead.interval
            INNER JOIN staging.thread ON interval.thread_id = thread.thread_id
            WHERE type = 'T5' AND role = 'autograd'
            GROUP BY interval.thread_id
        )
    """)
    recompute_readers(database, "prediction.host_time")
    after = dict(rows(database, query))
    assert len(before) == 4
    for step_id, predicted in before.items():
        assert 40_000_000 < after[step_id] - predicted <= 50_000_000


def test_a_step_by_hand(tmp_path: Path, database: tracedb.Database) -> None:
    """A launch, its kernel, and a wait for it: the step ends with the kernel."""
    file = tmp_path / "hand.json"
    file.write_text(HAND_MADE)
    database.ingest([file])
    spans = """
        SELECT type, start_ns, end_ns FROM overhead.interval ORDER BY start_ns
    """
    assert rows(database, spans) == [
        ("idle", 0, 10_000),
        ("T2", 10_000, 12_000),
        ("T4", 12_000, 17_000),
        ("T3", 17_000, 20_000),
        ("T1", 20_000, 22_000),
        ("wait_device", 22_000, 75_000),
        ("idle", 75_000, 100_000),
    ]
    step = """
        SELECT measured_ns, predicted_ns FROM critical_path.step_time
        WHERE method = 'replay'
    """
    assert rows(database, step) == [(100_000, 100_000)]
    path = """
        SELECT kind, start_ns, end_ns FROM critical_path.interval
        WHERE scope = 'step' ORDER BY start_ns
    """
    assert rows(database, path) == [
        ("host_gap", 0, 10_000),
        ("host_op", 10_000, 12_000),
        ("launch", 12_000, 17_000),
        ("launch_delay", 17_000, 20_000),
        ("kernel", 20_000, 70_000),
        ("return", 70_000, 75_000),
        ("host_gap", 75_000, 100_000),
    ]


HAND_MADE = """{"schemaVersion": 1, "traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
 "ts": 0, "dur": 100},
{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 1, "tid": 1,
 "ts": 10, "dur": 10, "args": {"External id": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
 "ts": 12, "dur": 5, "args": {"External id": 1, "correlation": 7}},
{"ph": "X", "cat": "kernel", "name": "relu", "pid": 0, "tid": 7,
 "ts": 20, "dur": 50,
 "args": {"External id": 1, "correlation": 7, "device": 0, "stream": 7}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1,
 "ts": 22, "dur": 53, "args": {"correlation": 8}}
]}"""


def event(cat: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> Any:  # noqa: ANN401 (JSON)
    """An event of process 1."""
    fields = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid}
    return fields | {"ts": ts, "dur": dur, "args": args}


def write(path: Path, *events: Any) -> Path:  # noqa: ANN401 (events as JSON)
    """Write a trace of some events."""
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.until("graph")
def test_simultaneous_kernels_do_not_wait_for_each_other(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Two short, late kernels on two streams are independent."""
    events = [event("user_annotation", "ProfilerStep#1", 1, 0, 20_000)]
    for number in range(31):
        begin, late = (5000, 300) if number == 30 else (100 + 100 * number, 6)
        for stream in (7, 8):
            link = {"correlation": 10 * number + stream}
            call = event("cuda_runtime", "cudaLaunchKernel", stream, begin, 5, **link)
            lane = link | {"device": 0, "stream": stream}
            events += [call, event("kernel", "k", stream, begin + late, 0.4, **lane)]
    database.ingest([write(tmp_path / "a.json", *events)])
    assert rows(database, "SELECT count(*) FROM graph.stream_wait") == [(0,)]


@pytest.mark.until("graph")
def test_a_wait_for_earlier_gpu_work(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A call may wait for GPU work without a launch in the trace."""
    events = [event("user_annotation", "ProfilerStep#1", 1, 0, 20_000)]
    for number in range(100):
        lane = {"device": 0, "stream": 7, "correlation": number}
        events.append(event("kernel", "old", 7, 100 * number + 50, 95, **lane))
    events.append(event("cuda_runtime", "cudaDeviceSynchronize", 1, 100, 9_950))
    database.ingest([write(tmp_path / "a.json", *events)])
    query = "SELECT gpu_op_end_ns, is_blocked FROM graph.host_wait"
    assert rows(database, query) == [(10_045_000, True)]


def test_overlapping_steps_of_two_threads_are_each_predicted(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Host time within two steps is counted once."""
    events = []
    for thread, begin in ((1, 0), (2, 100)):
        name = f"ProfilerStep#{thread}"
        events.append(event("user_annotation", name, thread, begin, 1000))
        events += [
            event("cpu_op", "aten::relu", thread, begin + 50 + 100 * n, 40)
            for n in range(9)
        ]
    database.ingest([write(tmp_path / "a.json", *events)])
    query = """
        SELECT measured_ns, predicted_ns FROM critical_path.step_time
        WHERE method = 'replay'
    """
    assert rows(database, query) == [(1_000_000, 1_000_000)] * 2
    query = """
        SELECT count(*), count(DISTINCT (variant_id, thread_id, position))
        FROM prediction.host_time
    """
    ((found, keys),) = rows(database, query)
    assert found == keys


@needs_corpus
def test_the_order_of_ingest_does_not_matter(dlrm8_alone: Path) -> None:
    """Ranks ingested one by one are predicted like ranks ingested together."""
    query = """
        SELECT rank, method, predicted_ns FROM critical_path.step_time
        INNER JOIN staging.trace USING (trace_id) ORDER BY ALL
    """
    ranks = sorted((CORPUS / "param" / "dlrm8" / "kineto").iterdir())
    with (
        tracedb.open(dlrm8_alone, read_only=True) as together,
        tracedb.open() as one_by_one,
    ):
        for rank in reversed(ranks):
            one_by_one.ingest([rank])
        assert rows(one_by_one, query) == rows(together, query)


def test_the_order_of_stored_rows_does_not_matter(tmp_path: Path) -> None:
    """Window functions over unordered rows still follow the order of lanes."""
    names = ("host_offset", "gpu_offset", "segment_edge", "segment_time")
    relations = [f"critical_path.{name}" for name in names]
    for seed in range(3):
        program = random_program(seed, threads=2, streams=4, steps=2)
        execute(program, Delays(), seed)[0].write(tmp_path / f"{seed}.json")
    with tracedb.open() as database:
        database.ingest([tmp_path])
        query = "SELECT trace_id FROM staging.trace"
        traces = [trace for (trace,) in rows(database, query)]
        for name in (
            "prediction.host_time",
            "prediction.gpu_time",
            "simulation.gpu_placement",
        ):
            database.connection.execute(
                f"CREATE TEMP TABLE kept AS FROM {name} ORDER BY hash(COLUMNS(*));"
                f"DELETE FROM {name}; INSERT INTO {name} FROM kept; DROP TABLE kept"
            )
        for _ in catalog.compute(database.connection, traces, relations):
            pass
        assert_equal_to_reference(database, "replay")


def test_tables_of_users_can_be_read() -> None:
    """A user's own tables are readable in simulations."""
    with tracedb.open() as opened:
        opened.connection.execute('CREATE TABLE "my notes" AS SELECT 7 AS note')
        opened.connection.execute('CREATE VIEW notes AS FROM "my notes"')
        with opened.simulate(["replay"]) as beside:
            assert rows(beside, "FROM notes") == [(7,)]


def test_a_cycle_never_begins(tmp_path: Path, database: tracedb.Database) -> None:
    """Nodes in a cycle, and what waits for them, never begin; everything else does."""
    database.ingest([write(tmp_path / "trace.json", event("cpu_op", "a", 1, 0, 5))])
    edges = {
        ((0, 0), (1, 0)): 0,
        ((0, 0), (2, 0)): 0,
        ((1, 0), (1, 1)): 10,
        ((1, 1), (1, 2)): 10,
        ((2, 0), (1, 2)): 25,
        ((2, 0), (2, 1)): 5,
        ((2, 2), (2, 1)): 5,
        ((2, 1), (2, 2)): 5,
        ((2, 2), (2, 3)): 5,
    }
    connection = database.connection
    connection.execute("DELETE FROM simulation.segment_edge")
    connection.executemany(
        "INSERT INTO simulation.segment_edge "
        "VALUES (1, 1, 1, ?, ?, ?, ?, 'host', NULL, ?)",
        [[*source, *target, weight] for (source, target), weight in edges.items()],
    )
    for _ in catalog.compute(connection, [1], only={"simulation.segment_time"}):
        pass
    found = rows(
        database, "SELECT lane, segment, begin_ns FROM simulation.segment_time"
    )
    assert sorted(found) == [(0, 0, 0), (1, 0, 0), (1, 1, 10), (1, 2, 25), (2, 0, 0)]
