"""Collectives on the CPU: process-group threads that wait for other ranks.

Predictions of a changed job are compared with that job, executed (`gloo_job`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gloo_job import RANKS, STEPS, Rank, Recorded, execute, ingest, job_of
from support import rows, sampled, union_ns
from test_ranks import UNTILED
from test_simulation import assert_equal_to_reference

import tracedb
from tracedb import Edit

ENDS = """
    SELECT scenario, rank, host_end_ns
    FROM critical_path.step_period
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN staging.step USING (step_id)
    INNER JOIN staging.trace ON step.trace_id = trace.trace_id
    WHERE scenario <> 'baseline' AND scenario IS NOT NULL ORDER BY scenario, rank, step
"""


def computing(rank: Rank, factor: float) -> Rank:
    """The rank with compute times multiplied by a factor."""
    times = tuple(tuple(round(n * factor) for n in of) for of in rank.compute_ns)
    return replace(rank, compute_ns=times)


def moving(rank: Rank, less_ns: int) -> Rank:
    """The rank with faster collectives."""
    first, second = rank.moving_ns
    return replace(rank, moving_ns=(first - less_ns, second - less_ns))


STRAGGLER = "SELECT rank, waiting_ns FROM question.straggler ORDER BY rank"
_OP: dict[str, Any] = {"target": "host", "rank": 0, "name": "aten::mm"}
Change = Callable[[Rank], Rank]
faster, slowest = partial(computing, factor=0.5), partial(computing, factor=3)
waiting_for_none = partial(replace, waits=False)
CHANGES: dict[str, tuple[list[dict[str, Any]], dict[int, Change]]] = {
    "it computes faster": ([_OP | {"factor": 0.5}], {0: faster}),
    "it becomes the slowest": ([_OP | {"factor": 3}], {0: slowest}),
    "it moves data faster": (
        [_OP | {"name": "gloo:all_reduce", "add_ns": -300_000}],
        {0: partial(moving, less_ns=300_000)},
    ),
    "none waits, and another becomes the slowest": (
        [{"target": "wait", "type": "rank"}, _OP | {"rank": 1, "factor": 3}],
        {
            0: waiting_for_none,
            1: lambda rank: waiting_for_none(slowest(rank)),
            2: waiting_for_none,
        },
    ),
    "it waits for none, and becomes faster": (
        [{"target": "wait", "type": "rank", "rank": 0}, _OP | {"factor": 0.5}],
        {0: lambda rank: waiting_for_none(faster(rank))},
    ),
}
"""How each case changes ranks: as edits, and in the job."""


def assert_as_executed(
    database: tracedb.Database,
    edits: dict[str, list[dict[str, Any]]],
    ends_ns: dict[str, list[list[int]]],
) -> None:
    """The ends of all steps are predicted, by SQL and by arrays.

    `ends_ns` has them by scenario and rank, of the job in which that happened.
    """
    asked = [Edit(scenario=name, **edit) for name, of in edits.items() for edit in of]
    with database.simulate(["replay"], asked) as simulated:
        foretold = rows(simulated, ENDS)
    with database.simulate(["replay"], asked, only_steps=True) as by_arrays:
        assert rows(by_arrays, ENDS) == foretold
    assert foretold == [
        (name, rank, end)
        for name in sorted(edits)
        for rank, ends in enumerate(ends_ns[name])
        for end in ends
    ]


@pytest.fixture(
    scope="module",
    params=sampled(
        [(seed, inside) for seed in range(3) for inside in (False, True)], 3
    ),
)
def job(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[Rank], tracedb.Database]]:
    """A job, and its database."""
    seed, inside = request.param
    job = job_of(seed, inside=inside)
    with tracedb.open() as database:
        ingest(tmp_path_factory.mktemp("job"), database, job)
        yield job, database


def test_changed_jobs_are_predicted(
    job: tuple[list[Rank], tracedb.Database],
) -> None:
    """They agree to the nanosecond, whichever rank is last before and after."""
    ranks, database = job
    happened = {
        name: execute(
            [changed.get(number, replace)(of) for number, of in enumerate(ranks)]
        )
        for name, (_, changed) in CHANGES.items()
    }
    edits = {name: of for name, (of, _) in CHANGES.items()}
    assert_as_executed(
        database, edits, {n: [of.ends_ns for of in job] for n, job in happened.items()}
    )


def span(start_us: float, end_us: float) -> tuple[int, int]:
    """[ns] A time between two of a recording."""
    return round(1000 * start_us), round(1000 * end_us)


def test_each_rank_waits_for_the_last(
    job: tuple[list[Rank], tracedb.Database],
) -> None:
    """Duration and awaited rank are those of the job; `straggler` has the unions."""
    ranks, database = job
    spans = [
        [(e["ts"], e["dur"]) for e in of.events if e["name"].startswith("gloo")]
        for of in execute(ranks)
    ]
    last = [max(begin for begin, _ in of) for of in zip(*spans, strict=True)]
    waits, times = [], []
    for of in spans:
        ended = [begin + took for begin, took in of]
        waiting = [span(begin, came) for (begin, _), came in zip(of, last, strict=True)]
        moving = [span(came, end) for came, end in zip(last, ended, strict=True)]
        waits.append(sum(end - begin for begin, end in waiting))
        times.append((union_ns(waiting), union_ns(moving)))
    query = "SELECT waiting_ns, moving_ns FROM question.straggler ORDER BY rank"
    assert rows(database, query) == times
    query = """
        SELECT rank, sum(wait.end_ns - wait.start_ns) FROM graph.rank_wait AS wait
        INNER JOIN staging.trace USING (trace_id) GROUP BY rank ORDER BY rank
    """
    assert dict(rows(database, query)) == {r: ns for r, ns in enumerate(waits) if ns}


def test_spans_and_paths_obey_the_laws(
    job: tuple[list[Rank], tracedb.Database],
) -> None:
    """Methods equal the plain loop; measured paths have no gaps."""
    _, database = job
    assert rows(database, UNTILED) == []
    for method in ("replay", "statistics"):
        assert_equal_to_reference(database, method)


def test_the_path_of_the_run_changes_to_the_last_rank(
    job: tuple[list[Rank], tracedb.Database],
) -> None:
    """The run's path never waits for a rank; a single trace's path does."""
    _, database = job
    query = "SELECT DISTINCT kind FROM critical_path.interval WHERE scope = '{}'"
    of_run = {kind for (kind,) in rows(database, query.format("run"))}
    of_trace = {kind for (kind,) in rows(database, query.format("trace"))}
    assert "rank_wait" not in of_run
    assert {"communication", "host_op", "host_gap"} <= of_run
    assert {"communication", "rank_wait"} <= of_trace


def test_collectives_whose_calls_are_not_recorded(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Before PyTorch 2.0, ranks are still matched and replayed."""
    for rank, recorded in enumerate(execute(job_of(4))):
        events = [e for e in recorded.events if not e["name"].startswith("c10d")]
        group = {"rank": rank, "world_size": RANKS + 1, "backend": "gloo"}
        document = {"traceEvents": events, "distributedInfo": group}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    query = "SELECT DISTINCT present_count, group_size FROM graph.collective"
    assert rows(database, query) == [(RANKS, RANKS + 1)]
    query = "SELECT max(abs(error_share)) FROM critical_path.step_time"
    assert rows(database, f"{query} WHERE method = 'replay'")[0][0] < 0.01
    assert rows(database, UNTILED) == []


def _all_to_all(event: dict[str, Any], rank: int) -> None:
    """Each rank sends another amount."""
    size = 1024 + 16 * rank
    if event["name"] == "gloo:all_reduce":
        event |= {"name": "gloo:all_to_all", "args": {"Input Dims": [[size]]}}
    elif event["name"] == "c10d::allreduce_":
        sizes = {"Input Dims": [[2048], [size], [], []]}
        event |= {"name": "c10d::alltoall_base_", "args": sizes}


def _reduce_scatter(event: dict[str, Any], _: int) -> None:
    """Gloo executes it as an all_reduce of the input."""
    if event["name"] == "c10d::allreduce_":
        size = event["args"]["Input Dims"][0][0][0]
        sizes = {"Input Dims": [[size // 2], [size], [], []]}
        event |= {"name": "c10d::_reduce_scatter_base_", "args": sizes}


def _barrier(event: dict[str, Any], _: int) -> None:
    """The call has a tensor of one element, its execution none."""
    if event["name"] == "gloo:all_reduce":
        event |= {"name": "gloo:barrier", "args": {}}
    elif event["name"] == "c10d::allreduce_":
        event |= {"name": "c10d::barrier", "args": {"Input Dims": [[1], [], []]}}


def _without_shapes(event: dict[str, Any], _: int) -> None:
    event["args"] = {}


@pytest.mark.parametrize(
    "changed", [_all_to_all, _reduce_scatter, _barrier, _without_shapes]
)
def test_other_collectives_are_matched_and_awaited(
    changed: Callable[[dict[str, Any], int], None],
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """Whatever its kind, a collective has its call, its wait and its other ranks."""
    ranks = job_of(5)
    jobs = execute(ranks)
    for rank, recorded in enumerate(jobs):
        for event in recorded.events:
            changed(event, rank)
        group = {"rank": rank, "world_size": RANKS, "backend": "gloo"}
        document = {"traceEvents": recorded.events, "distributedInfo": group}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([*tmp_path.glob("*.json")], run="job")
    found = rows(database, "SELECT count(*) FROM graph.collective")
    assert found == [(2 * RANKS * STEPS,)]
    assert rows(database, "SELECT count(*) FROM graph.collective_call") == found
    query = "SELECT count(*) FROM graph.thread_wait WHERE kind = 'join'"
    with tracedb.open() as of_all_reduce:
        (tmp_path / "original").mkdir()
        ingest(tmp_path / "original", of_all_reduce, ranks)
        assert rows(database, query) == rows(of_all_reduce, query)
    query = "SELECT max(abs(error_share)) FROM critical_path.step_time"
    assert rows(database, f"{query} WHERE method = 'replay'") == [(0,)]


def test_ranks_on_busy_cores_end_late(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Collectives whose ends differ by more than they last are those of their steps."""
    chance = random.Random(3)  # noqa: S311
    for rank, recorded in enumerate(execute(job_of(6))):
        for event in recorded.events:
            if event["name"] == "gloo:all_reduce":
                event["dur"] = max(event["dur"], 500) + chance.choice([0, 0, 3_000])
        group = {"rank": rank, "world_size": RANKS, "backend": "gloo"}
        document = {"traceEvents": recorded.events, "distributedInfo": group}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    query = """
        SELECT count(*), count(DISTINCT number), max(abs(offset_ns))
        FROM graph.collective_match AS match
        INNER JOIN graph.clock AS clock ON match.trace_id = clock.trace_id
    """
    assert rows(database, query) == [(2 * RANKS * STEPS, 2 * STEPS, 0)]


GROUPS = [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
"""Two ways to pair four ranks: all reduce in one pair, then in the other."""
SAME_GROUPS = [[[0, 1, 2, 3]], [[0, 1, 2, 3]]]


def _grouped_jobs(
    chance: random.Random, spare: int, layout: list[list[list[int]]] = GROUPS
) -> Iterator[tuple[Any, int]]:
    """Recordings of four ranks in two groups each, and how long each rank waits.

    The group of all ranks and some more are made, too, and not used.
    """
    ranks = range(4)
    recorded = [Recorded() for _ in ranks]
    waiting, now = [0 for _ in ranks], [0 for _ in ranks]
    matrices = {"Input Dims": [[8, 8], [8, 8]]}
    called, executed = {"Input Dims": [[[64]]]}, {"Input Dims": [[64]]}
    for step in range(6):
        begun = list(now)
        for turn, pairs in enumerate(layout):
            for rank in ranks:
                ended = now[rank] + 1000 * chance.randint(500, 3_000)
                recorded[rank].add("aten::mm", 1, now[rank], ended, **matrices)
                recorded[rank].add(
                    "c10d::allreduce_", 1, ended, ended + 20_000, **called
                )
                now[rank] = ended + 50_000
            for pair in pairs:
                arrived = max(now[rank] for rank in pair)
                for rank in pair:
                    # A group has two threads, which take turns.
                    tid = 10 + 2 * turn + step % 2
                    ended = arrived + 300_000
                    recorded[rank].add(
                        "gloo:all_reduce", tid, now[rank], ended, **executed
                    )
                    waiting[rank] += arrived - now[rank]
                    now[rank] = ended + 30_000
        for rank in ranks:
            recorded[rank].add("aten::mm", 1, now[rank], now[rank] + 9_000, **matrices)
            now[rank] += 10_000
            recorded[rank].add(f"ProfilerStep#{step}", 1, begun[rank], now[rank])
    for rank in ranks:
        mine = [next(pair for pair in pairs if rank in pair) for pairs in layout]
        groups = [list(ranks), *mine, *([list(ranks)] * spare)]
        listed = [
            {"pg_name": str(place), "ranks": of, "pg_size": len(of)}
            for place, of in enumerate(groups)
        ]
        group = {"rank": rank, "world_size": 4, "pg_config": listed}
        document = {"traceEvents": recorded[rank].events, "distributedInfo": group}
        yield document, waiting[rank]


@pytest.mark.parametrize("spare", [0, 1])
def test_groups_are_told_by_their_threads(
    spare: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """Ranks wait for those of their group; if it is not known, for none."""
    jobs = list(_grouped_jobs(random.Random(4), spare))  # noqa: S311
    for rank, (document, _) in enumerate(jobs):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    expected = [] if spare else [(rank, ns) for rank, (_, ns) in enumerate(jobs)]
    assert rows(database, STRAGGLER) == expected
    query = "SELECT max(abs(error_share)) FROM critical_path.step_time"
    assert rows(database, f"{query} WHERE method = 'replay'") == [(0,)]


@pytest.mark.parametrize("layout", [GROUPS, SAME_GROUPS])
@pytest.mark.parametrize("seed", range(3))
def test_groups_that_are_not_listed_are_told_by_threads_and_times(
    seed: int,
    layout: list[list[list[int]]],
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """PyTorch before 2.3 lists no groups: each rank waits for those of its group."""
    jobs = list(_grouped_jobs(random.Random(seed), 0, layout))  # noqa: S311
    for rank, (document, _) in enumerate(jobs):
        del document["distributedInfo"]["pg_config"]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    assert rows(database, STRAGGLER) == [
        (rank, ns) for rank, (_, ns) in enumerate(jobs)
    ]
    found = rows(
        database, "SELECT DISTINCT process_group, group_size FROM graph.collective"
    )
    groups = [of for pairs in layout for of in pairs]
    assert sorted(size for _, size in found) == sorted(map(len, groups))


def test_threads_without_a_partner_tell_no_group(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """If a group used one of its two threads, pairs of threads are not known."""
    jobs = list(_grouped_jobs(random.Random(1), 0))  # noqa: S311
    for rank, (document, _) in enumerate(jobs):
        del document["distributedInfo"]["pg_config"]
        for event in document["traceEvents"]:
            event["tid"] = 12 if event["tid"] == 13 else event["tid"]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    assert rows(database, STRAGGLER) == []


@pytest.mark.parametrize(
    "around", ["DistributedDataParallel.forward", "Torch-Compiled Region: 0/0"]
)
@pytest.mark.parametrize("is_called_last", [True, False])
def test_threads_on_busy_cores_go_on_late(
    *, is_called_last: bool, around: str, tmp_path: Path, database: tracedb.Database
) -> None:
    """After a call, a thread waits, even if it is often late; not so elsewhere.

    A range around all that, recorded as an op, changes nothing.
    """
    chance = random.Random(5)  # noqa: S311
    recorded, now, late = Recorded(), 0, 0
    for step in range(8):
        begun = now
        for number in range(3):
            recorded.add("aten::mm", 1, now, now + 900_000)
            recorded.add("c10d::allreduce_", 1, now + 902_000, now + 920_000)
            now += 920_000
            if not is_called_last:
                recorded.add("aten::mm", 1, now + 100_000, now + 200_000)
            ended = now + 1000 * chance.randint(3_000, 4_000)
            recorded.add("gloo:all_reduce", 2 + number % 2, now + 50_000, ended)
            is_late = chance.random() < 0.3
            late += is_late
            now = ended + (1_200_000 if is_late else 45_000)
        recorded.add(f"ProfilerStep#{step}", 1, begun, now)
        recorded.add(around, 1, begun, now)
        recorded.events[-1]["cat"] = "cpu_op"
    (tmp_path / "job.json").write_text(json.dumps({"traceEvents": recorded.events}))
    database.ingest([tmp_path / "job.json"])
    found = rows(database, "SELECT count(*) FROM graph.thread_wait WHERE kind = 'join'")
    assert 3 <= late <= 12
    assert found == [(8 * 3 - (0 if is_called_last else late),)]
