"""Slack: how much longer a node could take without delaying a step."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import (
    CORPUS,
    SAMPLES,
    DatabaseOf,
    Ingested,
    needs_corpus,
    rows,
    write_generated,
)
from test_waits import Recording

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.synthetic import Delays, execute, training_job

NONE = 1 << 62
GPU = SAMPLES / "generated_gpu"


class Oracle:
    """All dependencies between nodes and times, followed to the ends of steps."""

    def __init__(self, database: tracedb.Database, trace_id: int) -> None:
        """Read the causes of a trace."""
        chosen = f"WHERE trace_id = {trace_id}"
        self.work: dict[int, dict[str, Any]] = {}
        query = f"""
            FROM graph.stream_position
            INNER JOIN graph.gpu_cause USING (run_id, trace_id, gpu_op_id)
            INNER JOIN graph.typical_start USING (run_id, trace_id, gpu_op_id) {chosen}
        """
        for row in database.sql(query).iter_rows(named=True):
            self.work[row["gpu_op_id"]] = row
        self.next = {
            row["previous_gpu_op_id"]: kernel for kernel, row in self.work.items()
        }
        self.launches = defaultdict(list)
        for kernel, row in self.work.items():
            if row["launch_start_ns"] is not None:
                submitted = row["launch_start_ns"] + max(row["submit_ns"] - 1, 0)
                self.launches[row["launch_thread_id"]].append((submitted, kernel))
        self.after = {
            (cause, kind): delay
            for cause, kind, delay in rows(
                database,
                f"SELECT cause, kind, median_ns FROM prediction.delay {chosen}",
            )
        }
        self.absorbed: dict[int, dict[int, int]] = defaultdict(dict)
        """How long a thread waited, by when it continued."""
        self._read_causes(database, chosen)
        self._read_calls(database, trace_id)
        self.waiters = defaultdict(list)
        for kernel, waiter, late in rows(
            database, WAITING + f"WHERE wait.trace_id = {trace_id}"
        ):
            self.waiters[kernel].append((waiter, late))
        self.ends = defaultdict(list)
        for thread, end in rows(
            database,
            f"SELECT thread_id, end_ns FROM critical_path.path {chosen} "
            "AND scope = 'step'",
        ):
            self.ends[thread].append(end)
        self.of_kernel = cache(self._of_kernel)
        self.of_stretch = cache(self.of_time)

    def _read_causes(self, database: tracedb.Database, chosen: str) -> None:
        """Read when threads continued after something."""
        self.causes = {}
        self.woken = defaultdict(list)
        waits = {
            (thread, end): end - start
            for thread, start, end in rows(
                database,
                f"SELECT thread_id, start_ns, end_ns FROM graph.thread_wait {chosen}",
            )
        }
        for thread, resume, call, kernel, waker in rows(
            database,
            "SELECT thread_id, resume_ns, call_id, cause_gpu_op_id, cause_thread_id "
            f"FROM graph.host_cause {chosen}",
        ):
            self.causes[call] = kernel
            if waker is not None:
                self.woken[waker].append((resume, thread, resume, 0))
            if call is None:
                self._absorb(thread, resume, waits.get((thread, resume), 0))
        for thread, resume, waker, ready, late in rows(database, READY + chosen):
            self.woken[waker].append((ready, thread, resume, late))
            self._absorb(thread, resume, 0)

    def _read_calls(self, database: tracedb.Database, trace_id: int) -> None:
        """Read what calls wait for, or would."""
        self.awaiting = defaultdict(list)
        self.of_call = {}
        blocking = rows(database, AWAITED + f"WHERE call.trace_id = {trace_id}")
        ended: dict[int, int] = {}
        for _, end, call, *_ in blocking:
            ended[call] = max(ended.get(call, 0), end)
        for kernel, end, call, thread, start, call_end, target, is_wait in blocking:
            usual = self.after.get(("return", target), 0)
            late = call_end - end - usual
            if self.causes.get(call) == kernel:
                late = 0
            self.of_call[call] = (thread, call_end)
            self.awaiting[kernel].append((thread, call_end, max(late, 0)))
            idle = self.after.get(("call", target), 0) if is_wait else 0
            is_held = call in self.causes or ended[call] + usual >= call_end
            waited = max(call_end - start - idle, 0) if is_held else 0
            self._absorb(thread, call_end, waited)

    def _absorb(self, thread: int, resume: int, waited: int) -> None:
        """A delay before a thread continues fits into the time that it waited."""
        known = self.absorbed[thread].get(resume, waited)
        self.absorbed[thread][resume] = min(known, waited)

    def _of_kernel(self, kernel: int) -> int:
        found = [NONE]
        following = self.next.get(kernel)
        if following is not None:
            found.append(
                self._gap(following, "after_stream_ns", "stream")
                + self.entered(following)
            )
        for thread, resume, late in self.awaiting[kernel]:
            found.append(late + self.of_stretch(thread, resume))
        for waiter, late in self.waiters[kernel]:
            is_cause = self.work[waiter]["cause_gpu_op_id"] == kernel
            gap = 0 if is_cause else max(late, 0)
            found.append(gap + self.entered(waiter))
        return min(found)

    def entered(self, kernel: int) -> int:
        """How much later it may begin: the same as for its end."""
        return int(self.of_kernel(kernel))

    def of_end(self, _thread: int, _end: int) -> int:
        """How much later a step may end on the thread: not at all."""
        return 0

    def _gap(self, kernel: int, usual: str, cause: str) -> int:
        row = self.work[kernel]
        if row["cause"] == cause or row[usual] is None:
            return 0
        return max(int(row["start_ns"] - row[usual]), 0)

    def of_time(self, thread: int, time: int) -> int:
        """Slack of a thread at a time, up to when it next continues, and after it."""
        until = min((at for at in self.absorbed[thread] if at > time), default=NONE)
        found = [NONE]
        for launched, kernel in self.launches[thread]:
            if time <= launched < until:
                gap = self._gap(kernel, "after_launch_ns", "launch")
                found.append(gap + self.entered(kernel))
        for at, other, resume, late in self.woken[thread]:
            if time <= at < until:
                found.append(late + self.of_stretch(other, resume))
        found += [
            self.of_end(thread, end) for end in self.ends[thread] if time <= end < until
        ]
        if until < NONE:
            found.append(self.absorbed[thread][until] + self.of_stretch(thread, until))
        return min(found)


WAITING = """
    SELECT awaited_gpu_op_id, gpu_op_id, work.start_ns - awaited.end_ns - delay_ns
    FROM prediction.gpu_awaited AS wait
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    INNER JOIN staging.gpu_op AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
"""
READY = """
    SELECT ready.thread_id, resume_ns, worker_thread_id, ready_ns,
        resume_ns - ready_ns - lag_ns
    FROM graph.ready_wait AS ready
    SEMI JOIN (SELECT thread_id, start_ns FROM graph.top_level_event WHERE is_op) AS op
        ON ready.thread_id = op.thread_id AND resume_ns = start_ns
"""
AWAITED = """
    SELECT gpu_op_id, gpu_op_end_ns, call_id, thread_id, wait_start_ns, call.end_ns,
        awaited.target, kind = 'wait'
    FROM graph.host_awaited AS awaited
    INNER JOIN graph.host_call AS call USING (call_id)
"""


def assert_equal_to_oracle(database: tracedb.Database, trace_id: int) -> int:
    """Compare the slack of all GPU work and of launches outside of waits."""
    oracle = Oracle(database, trace_id)
    found = dict(
        rows(
            database,
            "SELECT node_id, slack_ns FROM critical_path.slack "
            f"WHERE trace_id = {trace_id}",
        )
    )
    compared = 0
    for kernel in oracle.work:
        expected = oracle.of_kernel(kernel)
        assert found[kernel] == (None if expected >= NONE else expected), kernel
        compared += 1
    for call, thread, start in rows(
        database,
        "SELECT call_id, thread_id, start_ns FROM staging.call "
        f"WHERE trace_id = {trace_id}",
    ):
        expected = oracle.of_time(thread, start)
        if call in oracle.of_call:
            expected = min(expected, oracle.of_stretch(*oracle.of_call[call]))
        assert found[call] == (None if expected >= NONE else expected), call
        compared += 1
    return compared


@pytest.fixture(autouse=True)
def _deep() -> Iterator[None]:
    """The oracle is recursive."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(usual)


def test_generated_traces_equal_the_oracle(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Several threads and streams, with and without noise, and a training job.

    The job has an autograd thread, blocking copies, and streams that wait.
    """
    write_generated(tmp_path, range(12))
    execute(training_job(1), Delays(jitter=0.15), 1)[0].write(tmp_path / "job.json")
    database.ingest([tmp_path])
    traces = rows(database, "SELECT trace_id, parse_filename(path) FROM staging.trace")
    assert len(traces) == 12 + 1
    for trace_id, name in traces:
        least = 100 if name == "job.json" else 20
        assert assert_equal_to_oracle(database, trace_id) > least, name


@needs_corpus
def test_a_real_rank_equals_the_oracle(database_of: DatabaseOf) -> None:
    """One rank of DLRM training on eight GPUs."""
    database = database_of(CORPUS / "param/dlrm8/kineto/worker1.pt.trace.json.gz")
    assert assert_equal_to_oracle(database, 1) > 300


def test_slack_until_a_wait(tmp_path: Path, database: tracedb.Database) -> None:
    """Of two kernels before a device wait, the shorter one has the difference."""
    recording = Recording()
    recording.work(7, 5_000, begin=5_006, duration=3_000)
    recording.work(8, 5_100, begin=5_106, duration=1_000)
    recording.add("cuda_runtime", "cudaDeviceSynchronize", 1, 5_200, 2_810)
    recording.work(7, 9_000, begin=9_006, duration=10)
    recording.ingest(tmp_path, database)
    query = """
        SELECT name, slack_ns FROM critical_path.slack
        INNER JOIN staging.gpu_op ON node_id = gpu_op_id
        WHERE start_ns >= 5_000_000 ORDER BY start_ns
    """
    assert rows(database, query) == [
        ("kernel at 5006", 0),
        ("kernel at 5106", 1_900_000),  # ends at 6,106, when the awaited one
        ("kernel at 9006", None),
    ]
    query = """
        SELECT name, slack_ns FROM critical_path.slack
        INNER JOIN staging.call ON node_id = call_id
        WHERE start_ns >= 5_000_000 ORDER BY start_ns
    """
    assert rows(database, query) == [
        ("cudaLaunchKernel", 0),
        ("cudaLaunchKernel", 1_900_000),
        ("cudaDeviceSynchronize", 0),
        ("cudaLaunchKernel", 0),
    ]


def test_the_order_of_the_answer(tmp_path: Path, database: tracedb.Database) -> None:
    """Least slack first, then the longest; nodes that no step depends on come last."""
    recording = Recording()
    recording.work(7, 5_000, begin=5_006, duration=3_000)
    recording.work(8, 5_100, begin=5_106, duration=1_000)
    recording.add("cuda_runtime", "cudaDeviceSynchronize", 1, 5_200, 2_810)
    recording.work(7, 9_000, begin=9_006, duration=10)
    recording.ingest(tmp_path, database)
    query = """
        SELECT name, lane, slack_ns, duration_ns FROM question.slack
        WHERE duration_ns >= 10_000 AND kind IN ('kernel', 'wait')
    """
    assert rows(database, query) == [
        ("kernel at 5006", "device 0 stream 7", 0, 3_000_000),
        ("cudaDeviceSynchronize", "main thread 1", 0, 2_810_000),
        ("kernel at 5106", "device 0 stream 8", 1_900_000, 1_000_000),
        ("kernel at 9006", "device 0 stream 7", None, 10_000),
    ]


def test_slack_of_a_trace_and_of_the_run(ingested: Ingested) -> None:
    """With collectives between ranks there are both; otherwise only the trace's."""
    both, alone = GPU, GPU / "rank0.kineto.json.gz"
    for traces, is_said in ((both, True), (alone, False)):
        line = ["slack", str(ingested(traces)), "--step", "2", "--kind", "kernel"]
        done = CliRunner().invoke(command, line)
        assert done.exit_code == 0
        assert ("until this rank is delayed" in done.stderr) == is_said
        assert ("run_slack until the run is" in done.stderr) == is_said
        assert ("run_slack" in done.stdout) == is_said
        assert "until this rank" not in done.stdout


def test_nodes_belong_to_the_step_they_begin_in(database_of: DatabaseOf) -> None:
    """GPU work belongs to its launch's step; for each node, over all steps."""
    database = database_of(SAMPLES / "generated_gpu")
    steps = rows(
        database, "SELECT trace_id, start_ns, end_ns, step_id FROM staging.step"
    )
    found = dict(rows(database, "SELECT node_id, step_id FROM graph.node_step"))
    begun = """
        SELECT node_id, node.trace_id, coalesce(call.start_ns, node.start_ns)
        FROM graph.node AS node
        LEFT JOIN staging.gpu_op ON node_id = gpu_op_id
        LEFT JOIN staging.call AS call USING (call_id)
    """
    for node, trace, at in rows(database, begun):
        around = [
            (start, -step)
            for owner, start, end, step in steps
            if owner == trace and start <= at < end
        ]
        assert found.get(node) == (-max(around)[1] if around else None)
    assert found
