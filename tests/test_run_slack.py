"""Slack across ranks: how much later a node can end without delaying the run."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import test_composed
from executed import Case, case, named, one_thread, rounded, warm_up
from support import needs_corpus, rows
from test_slack import NONE, Oracle

import tracedb
from tracedb.synthetic import (
    Annotation,
    Collective,
    Copy,
    Delays,
    Gap,
    Launch,
    Memset,
    Model,
    Op,
    Program,
    Rank,
    Table,
    Thread,
    Truth,
    execute,
    step,
    training_job,
)
from tracedb.synthetic.program import Action
from tracedb.synthetic.training_job import COMPUTE, COPY

LAUNCHED = Launch | Copy | Memset | Collective
SMALL = Model(
    batch=512,
    tables=(Table(1_000, 64, 4), Table(2_000, 64, 10)),
    bottom=(64, 64),
    top=(64, 32, 1),
)


class OfRank(Oracle):
    """Dependencies of one rank in a run with collectives."""

    def __init__(self, run: Run, database: tracedb.Database, trace_id: int) -> None:
        """Read the causes of a trace, and the slack of its step ends."""
        super().__init__(database, trace_id)
        self.run = run
        self.spare: dict[tuple[int, int], int] = {}
        for thread, end, spare in rows(database, SPARE.format(trace_id)):
            known = self.spare.get((thread, end), NONE)
            self.spare[thread, end] = min(known, spare)

    def entered(self, kernel: int) -> int:
        """How much later it may begin: a collective, until the last rank arrives."""
        if kernel not in self.run.meeting:
            return super().entered(kernel)
        return self.run.of_begin(kernel)

    def of_end(self, thread: int, end: int) -> int:
        """How much later a step may end on this rank."""
        return self.spare[thread, end]


class Run:
    """Dependencies of all ranks of a run."""

    def __init__(self, database: tracedb.Database) -> None:
        """Read which ranks meet in which collectives."""
        self.meeting: dict[int, tuple[int, int]] = {}
        self.eager: dict[int, int] = {}
        self.members: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for node, last, waiting, trace, is_eager in rows(database, MEETINGS):
            self.meeting[node] = (last, waiting)
            if is_eager:
                self.eager[node] = trace
            else:
                self.members[last].append((node, trace))
        traces = rows(database, "SELECT trace_id FROM graph.clock")
        self.ranks = {trace: OfRank(self, database, trace) for (trace,) in traces}
        self.of_meeting = cache(self._of_meeting)

    def of_begin(self, kernel: int) -> int:
        """How much later a rank may arrive at a collective."""
        last, waiting = self.meeting[kernel]
        later = waiting + self.of_meeting(last)
        if kernel in self.eager:
            later = min(later, self.ranks[self.eager[kernel]].of_kernel(kernel))
        return int(later)

    def of_node(self, rank: OfRank, kernel: int) -> int:
        """How much longer a node may take; a collective takes longer on all ranks."""
        if kernel in self.meeting and kernel not in self.eager:
            return int(self.of_meeting(self.meeting[kernel][0]))
        return int(rank.of_kernel(kernel))

    def _of_meeting(self, last: int) -> int:
        return min(self.ranks[t].of_kernel(k) for k, t in self.members[last])


MEETINGS = """
    SELECT
        node_id, last_node_id,
        CASE WHEN is_eager
            THEN last.start_ns + later.shift_ns - work.start_ns - own.shift_ns
            ELSE waiting_ns
        END,
        collective.trace_id, is_eager
    FROM graph.collective AS collective
    INNER JOIN graph.clock AS own USING (trace_id)
    INNER JOIN staging.gpu_op AS work ON node_id = work.gpu_op_id
    INNER JOIN staging.gpu_op AS last ON last_node_id = last.gpu_op_id
    INNER JOIN graph.clock AS later ON last.trace_id = later.trace_id
"""
SPARE = """
    SELECT thread_id, end_ns, spare_ns
    FROM (
        SELECT
            path.trace_id, thread_id, end_ns,
            max(end_ns + clock.shift_ns) OVER (PARTITION BY path.run_id, step)
            - end_ns - clock.shift_ns AS spare_ns
        FROM critical_path.measured_path AS path
        INNER JOIN graph.clock AS clock USING (trace_id)
        WHERE scope = 'step'
    )
    WHERE trace_id = {}
"""
FOUND = "SELECT node_id, slack_ns FROM critical_path.run_slack"


@pytest.fixture(autouse=True)
def _deep() -> Iterator[None]:
    """The oracle is recursive."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    yield
    sys.setrecursionlimit(usual)


def assert_equal_to_oracle(database: tracedb.Database) -> int:
    """Compare the slack of all GPU work and of launches outside of waits."""
    run = Run(database)
    found = dict(rows(database, FOUND))
    compared = 0
    for trace_id, rank in run.ranks.items():
        for kernel in rank.work:
            expected = run.of_node(rank, kernel)
            assert found.pop(kernel) == (None if expected >= NONE else expected)
            compared += 1
        for call, thread, start in rows(
            database,
            "SELECT call_id, thread_id, start_ns FROM staging.call "
            f"WHERE trace_id = {trace_id}",
        ):
            expected = rank.of_time(thread, start)
            if call in rank.of_call:
                expected = min(expected, rank.of_stretch(*rank.of_call[call]))
            assert found.pop(call) == (None if expected >= NONE else expected)
            compared += 1
    assert len(found) == database.sql("SELECT count(*) FROM staging.op").item()
    return compared


def noisy(seed: int, ranks: int) -> list[Any]:
    """Ranks of a job that arrive at different times."""
    return execute(training_job(seed, ranks=ranks, steps=3), Delays(jitter=0.3), seed)


@pytest.mark.parametrize(("seed", "ranks"), [(3, 3), (4, 2)])
def test_generated_ranks_equal_the_oracle(
    seed: int, ranks: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """Ranks arrive at collectives at different times, with noise."""
    for rank, trace in enumerate(noisy(seed, ranks)):
        trace.write(tmp_path / f"rank{rank}.json")
    database.ingest([tmp_path], run="job")
    assert assert_equal_to_oracle(database) > 300 * ranks


@needs_corpus
def test_real_ranks_equal_the_oracle(dlrm8_alone: Path) -> None:
    """Four of eight GPUs of DLRM training."""
    with tracedb.open(dlrm8_alone, read_only=True) as database:
        assert assert_equal_to_oracle(database) > 1_000


# Programs executed again, with one node that takes longer.


def job(seed: int) -> Program:
    """Three ranks with collectives, one slow; backward has its own thread."""
    warm = step(0, *warm_up((COMPUTE, COPY)))
    ranks = []
    for number, rank in enumerate(
        training_job(seed, ranks=3, steps=2, model=SMALL).ranks
    ):
        main, *others = rank.threads
        late = Gap(20_000 * ((number + seed) % 3))
        body = tuple(
            replace(one, body=(late, *one.body)) if isinstance(one, Annotation) else one
            for one in main.body
        )
        ranks.append(Rank((replace(main, body=(warm, *body)), *others)))
    return rounded(Program(tuple(ranks)), Delays())


def later(program: Program, rank: int, thread: int, number: int, ns: int) -> Program:
    """The program with one GPU op of a thread longer."""
    seen = count()

    def change_one(action: Action) -> Action:
        if isinstance(action, Op | Annotation):
            return replace(action, body=tuple(map(change_one, action.body)))
        if isinstance(action, LAUNCHED) and next(seen) == number:
            return replace(action, kernel_ns=action.kernel_ns + ns)
        return action

    def longer(body: tuple[Action, ...]) -> tuple[Action, ...]:
        return tuple(map(change_one, body))

    return with_body(program, rank, thread, longer)


def delayed(program: Program, rank: int, thread: int, number: int, ns: int) -> Program:
    """The program with a pause before the launch of one GPU op."""
    seen = count()

    def change_all(body: tuple[Action, ...]) -> tuple[Action, ...]:
        changed: list[Action] = []
        for action in body:
            if isinstance(action, Op | Annotation):
                changed.append(replace(action, body=change_all(action.body)))
                continue
            if isinstance(action, LAUNCHED) and next(seen) == number:
                changed.append(Gap(ns))
            changed.append(action)
        return tuple(changed)

    return with_body(program, rank, thread, change_all)


def with_body(
    program: Program,
    rank: int,
    thread: int,
    change: Callable[[tuple[Action, ...]], tuple[Action, ...]],
) -> Program:
    """The program with another body for one thread of one rank."""
    threads = list(program.ranks[rank].threads)
    threads[thread] = Thread(threads[thread].name, change(threads[thread].body))
    ranks = list(program.ranks)
    ranks[rank] = replace(ranks[rank], threads=tuple(threads))
    return Program(tuple(ranks))


def ends(truths: list[Truth]) -> list[int]:
    """When each step of the run ends, on its last rank."""
    steps = zip(*(truth.steps for truth in truths), strict=True)
    return [max(one.end_ns for one in together) for together in steps]


def executed(program: Program) -> list[Truth]:
    """The execution, by rank."""
    return [trace.truth for trace in execute(program, Delays())]


NODES = """
    SELECT
        rank, correlation,
        CASE WHEN call_id NOT IN (
            SELECT call_id FROM graph.host_cause WHERE call_id IS NOT NULL
        ) THEN launch.slack_ns END,
        work.slack_ns
    FROM {slack} AS work
    INNER JOIN staging.gpu_op AS gpu_op ON work.node_id = gpu_op_id
    INNER JOIN {slack} AS launch ON call_id = launch.node_id
    INNER JOIN staging.trace AS trace ON work.trace_id = trace.trace_id
    ORDER BY rank, correlation
"""


def try_delays(
    one: Case, folder: Path, database: tracedb.Database, chosen: slice
) -> int:
    """Delay GPU work by its slack, and its launch; and by a nanosecond more.

    A blocking launch may take longer after its wait, so its slack is a lower bound.
    Returned is how often there was slack.
    """
    traces = execute(one.program, one.delays)
    for rank, trace in enumerate(traces):
        trace.write(folder / f"rank{rank}.json", one.form)
    database.ingest([folder], run="job")
    usual = ends(executed(one.known))
    works = [
        {
            kernel.correlation: named(trace.truth)[kernel.id]
            for kernel in trace.truth.kernels
        }
        for trace in traces
    ]
    slack = "run_slack" if len(traces) > 1 else "slack"
    nodes = rows(database, NODES.format(slack=f"critical_path.{slack}"))
    tried = 0
    for rank, correlation, of_launch, of_work in nodes[chosen]:
        _, thread, number = works[rank or 0][correlation]
        for change, slack_ns in ((later, of_work), (delayed, of_launch)):
            if slack_ns is None:
                continue
            place = (one.known, rank or 0, thread, number)
            said = (one.name, rank, thread, number, change.__name__, slack_ns)
            assert ends(executed(change(*place, slack_ns))) == usual, said
            assert ends(executed(change(*place, slack_ns + 1))) != usual, said
            tried += slack_ns > 0
    return tried


@pytest.mark.parametrize("seed", [1, 2])
def test_a_delay_beyond_the_slack_delays_a_step(
    seed: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """GPU work may be later by exactly its slack, or its launch's."""
    one = case("job", job(seed), Delays(), recorded=True)
    assert try_delays(one, tmp_path, database, slice(seed, None, 17)) > 10


@pytest.mark.parametrize(
    "one",
    [
        one_thread(1, recorded=True),
        one_thread(2, recorded=True),
        test_composed.autograd(2),
        test_composed.ranks(1),
        test_composed.ranks(3),
    ],
    ids=lambda one: one.name,
)
def test_waits_that_found_their_work_over_limit_the_slack(
    one: Case, tmp_path: Path, database: tracedb.Database
) -> None:
    """A delay that makes such a wait block, or a stream wait, goes on from there."""
    assert try_delays(one, tmp_path, database, slice(0, None, 2)) > 20


def test_clocks_of_ranks_do_not_matter(tmp_path: Path) -> None:
    """A rank whose clock is 37 us late has the same slack."""
    found = []
    for late_us in (0, 37):
        folder = tmp_path / f"{late_us}"
        folder.mkdir()
        for rank, trace in enumerate(execute(test_composed.ranks(1).program)):
            page = json.loads(trace.json_text())
            for event in page["traceEvents"]:
                event["ts"] += rank * late_us
            (folder / f"rank{rank}.json").write_text(json.dumps(page))
        with tracedb.open() as database:
            database.ingest([folder], run="job")
            query = NODES.format(slack="critical_path.run_slack")
            found.append(rows(database, query))
            shifts = rows(database, "SELECT DISTINCT shift_ns FROM graph.clock")
            assert len(shifts) == 1 + (late_us > 0)
    assert found[0] == found[1]
    assert len(found[0]) > 100
