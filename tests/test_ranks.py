"""Collectives are matched across ranks; clocks and waits follow from that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from support import needs_corpus, rows

import tracedb
from tracedb.synthetic import Delays, GeneratedTrace, Kernel, execute, training_job

RANKS = 4
Document = dict[str, Any]
Hop = tuple[int | None, int | None, int, str]


@cache
def job() -> list[GeneratedTrace]:
    """Four ranks that arrive at different times."""
    return execute(training_job(3, ranks=RANKS, steps=3), Delays(jitter=0.3), 3)


def collectives(trace: GeneratedTrace) -> list[Kernel]:
    """The collectives of a rank, in launch order."""
    found = [k for k in trace.truth.kernels if k.name.startswith("nccl")]
    return sorted(found, key=lambda kernel: kernel.launch)


def expected() -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """By rank and correlation: number, last rank, waiting time, moving time."""
    found = {}
    for number, together in enumerate(zip(*map(collectives, job()), strict=True), 1):
        last = max(range(RANKS), key=lambda rank: together[rank].start_ns)
        arrival = together[last].start_ns
        for rank, kernel in enumerate(together):
            waiting, moving = arrival - kernel.start_ns, kernel.end_ns - arrival
            found[rank, kernel.correlation] = (number, last, waiting, moving)
    return found


MATCHED = """
    SELECT own.rank, gpu_op.correlation, number, other.rank, waiting_ns, moving_ns,
        absent_waiting_ns
    FROM graph.collective
    INNER JOIN staging.gpu_op AS gpu_op ON collective.node_id = gpu_op.gpu_op_id
    INNER JOIN staging.trace AS own ON gpu_op.trace_id = own.trace_id
    INNER JOIN staging.gpu_op AS last ON last_node_id = last.gpu_op_id
    INNER JOIN staging.trace AS other ON last.trace_id = other.trace_id
"""


def matched(
    database: tracedb.Database,
) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """The same from the database; no rank is absent."""
    found = rows(database, MATCHED)
    assert {row[6] for row in found} == {0}
    return {(row[0], row[1]): tuple(row[2:6]) for row in found}


def ingest(
    folder: Path,
    database: tracedb.Database,
    change: Callable[[int, Document], None] = lambda _rank, _document: None,
) -> None:
    """Ingest the job's ranks, each after a change to its file."""
    for rank, trace in enumerate(job()):
        document = json.loads(trace.json_text())
        change(rank, document)
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([folder], run="job")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """The unchanged job."""
    with tracedb.open() as database:
        ingest(tmp_path_factory.mktemp("ranks"), database)
        yield database


@pytest.mark.parametrize("scope", ["period", "run"])
def test_answers_of_one_rank(ranks: tracedb.Database, scope: str) -> None:
    """Options select a rank's rows; of a run's path, the part on that rank."""
    for ask in (partial(ranks.critical_path, 2, scope=scope), ranks.slack):
        every = ask()
        of_each = [ask(rank=rank) for rank in range(RANKS)]
        assert sum(part.height for part in of_each) == every.height
        for rank, part in enumerate(of_each):
            assert set(part["trace_id"]) <= {rank + 1}


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """The job's ranks, each clock 7 ms ahead of the previous one."""

    def move(rank: int, document: Document) -> None:
        document["baseTimeNanoseconds"] += 7_000_000 * rank

    with tracedb.open() as database:
        ingest(tmp_path_factory.mktemp("ahead"), database, move)
        yield database


def test_each_rank_waits_for_the_last(ranks: tracedb.Database) -> None:
    """Numbers, last ranks and waits equal the truth."""
    assert len(expected()) >= 10 * RANKS
    assert len({last for _, last, _, _ in expected().values()}) > 1
    assert matched(ranks) == expected()


def test_clocks_that_differ_are_aligned(ahead: tracedb.Database) -> None:
    """A clock that is ahead changes neither waits nor last ranks."""
    query = "SELECT offset_ns, uncertainty_ns FROM graph.clock ORDER BY trace_id"
    assert rows(ahead, query) == [(7_000_000 * rank, 0) for rank in range(RANKS)]
    assert matched(ahead) == expected()


@pytest.mark.until("graph")
@pytest.mark.parametrize("is_numbered", [False, True])
def test_recordings_that_begin_later(
    tmp_path: Path, database: tracedb.Database, *, is_numbered: bool
) -> None:
    """A rank without the first collectives is still matched."""
    first = {kernel.correlation: n for n, kernel in enumerate(collectives(job()[2]))}
    numbers = [
        {k.correlation: number for number, k in enumerate(collectives(trace), 100)}
        for trace in job()
    ]

    def late(rank: int, document: Document) -> None:
        kept = []
        for event in document["traceEvents"]:
            number = event.get("args", {}).get("correlation")
            if is_numbered and event.get("cat") == "kernel" and number in numbers[rank]:
                event["args"]["Seq"] = numbers[rank][number]
            if rank != 2 or first.get(number, 3) >= 3:
                kept.append(event)
        document["traceEvents"] = kept

    ingest(tmp_path, database, late)
    skipped = 100 - 1 if is_numbered else 0
    wanted = {
        key: (number + skipped, last, waiting, moving)
        for key, (number, last, waiting, moving) in expected().items()
        if number > 3
    }
    found = matched_of_present(database)
    assert {key: found[key] for key in wanted} == wanted
    assert sum(rank == 2 for rank, _ in found) == len(first) - 3


def matched_of_present(
    database: tracedb.Database,
) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """The same from the database, if ranks may be absent."""
    return {(r[0], r[1]): tuple(r[2:6]) for r in rows(database, MATCHED)}


def collective(begin: float, end: float, **args: object) -> Document:
    """A kernel of a group of two ranks; sizes do not distinguish collectives."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    reported = {"Collective name": "allreduce", "In msg nelems": 64, "Group size": 2}
    lane = {"device": 0, "stream": 7, "Process Group Name": "0"}
    fields = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7}
    return fields | {"ts": begin, "dur": end - begin, "args": lane | reported | args}


def ingest_ranks(
    folder: Path, database: tracedb.Database, *ranks: list[Document]
) -> None:
    """Ingest hand-made ranks of one job."""
    for rank, events in enumerate(ranks):
        document = {"traceEvents": events}
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([folder], run="job")


def test_contradictory_orders_are_not_matched(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Two ranks run two collectives in opposite order; no loop is endless."""
    regular = [collective(begin, begin + 10) for begin in (0, 100, 200, 300)]
    one = [collective(1_000, 2_000, **{"Process Group Name": "a"})]
    one += [collective(2_000, 2_500, **{"Process Group Name": "b"})]
    other = [collective(1_000, 1_500, **{"Process Group Name": "b"})]
    other += [collective(1_500, 2_000, **{"Process Group Name": "a"})]
    ingest_ranks(tmp_path, database, regular + one, regular + other)
    assert rows(database, UNTILED) == []
    query = "SELECT count(*) FROM critical_path.hop WHERE scope = 'trace'"
    assert rows(database, query)[0][0] < 30


@pytest.mark.until("graph")
def test_repeated_sequence_numbers(tmp_path: Path, database: tracedb.Database) -> None:
    """Coalesced collectives share a sequence number and are matched by order."""
    ranks = [
        [
            collective(100 * n + rank, 100 * n + 10 + n % 3, Seq=n // 3)
            for n in range(12)
        ]
        for rank in range(2)
    ]
    ingest_ranks(tmp_path, database, *ranks)
    query = "SELECT count(*), count(DISTINCT node_id) FROM graph.collective"
    assert rows(database, query) == [(24, 24)]


@pytest.mark.until("graph")
def test_groups_with_the_same_name(tmp_path: Path, database: tracedb.Database) -> None:
    """Ranks 0 and 1, and 2 and 3, each have a group named 0."""
    ranks = []
    for rank in range(4):
        group = {"Process Group Ranks": "[0, 1]" if rank < 2 else "[2, 3]"}
        late = 5 * (rank % 2) + 31 * (rank // 2)
        ranks.append(
            [collective(100 * n + late, 100 * n + 60, **group) for n in range(8)]
        )
    ingest_ranks(tmp_path, database, *ranks)
    query = "SELECT DISTINCT present_count, group_size FROM graph.collective"
    assert rows(database, query) == [(2, 2)]
    query = "SELECT DISTINCT waiting_ns FROM graph.collective ORDER BY ALL"
    assert rows(database, query) == [(0,), (5_000,)]


@pytest.mark.until("graph")
def test_sends_meet_their_receives(tmp_path: Path, database: tracedb.Database) -> None:
    """Rank 1 sends to both others in turn; a kernel names only the other rank.

    The two ranks of a message number it differently. The last send names no rank.
    """

    def message(kind: str, begin: float, end: float, **args: object) -> Document:
        return collective(begin, end, **{"Collective name": kind}, **args)

    sent = [(60 + 100 * n + 7 * n * n, 2 * (n % 2)) for n in range(12)]
    sender = [
        message("send", begin, begin + 20, Seq=n, **{"Dst Rank": to})
        for n, (begin, to) in enumerate(sent)
    ]
    sender.append(message("send", 3_000, 3_020))
    receivers = [
        [
            message("recv", begin - 30 + n, begin + 20, Seq=n, **{"Src Rank": 1})
            for n, (begin, to) in enumerate(sent) if to == rank
        ]
        for rank in (0, 2)
    ]  # fmt: skip
    ingest_ranks(tmp_path, database, receivers[0], sender, receivers[1])
    query = """
        SELECT own.kind, count(*), min(present_count), sum(waiting_ns), sum(moving_ns)
        FROM graph.collective AS own INNER JOIN staging.collective USING (node_id)
        WHERE sender = 1 AND last_node_id IN (
            SELECT node_id FROM staging.collective AS last WHERE last.kind = 'send'
        )
        GROUP BY ALL ORDER BY ALL
    """
    assert rows(database, query) == [
        ("recv", 12, 2, sum(30_000 - 1_000 * n for n in range(12)), 12 * 20_000),
        ("send", 12, 2, 0, 12 * 20_000),
    ]
    query = "SELECT count(*) FROM graph.edge WHERE kind = 'collective'"
    assert rows(database, query) == [(12,)]


@pytest.mark.until("graph")
def test_ambiguous_matches_are_reported(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Regular, equal collectives: clocks could differ by a multiple of the period."""
    one = [collective(100 * n, 100 * n + 50) for n in range(40)]
    other = [collective(100 * n + 3, 100 * n + 50) for n in range(40)]
    ingest_ranks(tmp_path, database, one, other)
    query = "SELECT is_ambiguous, offset_ns FROM graph.clock ORDER BY trace_id"
    assert rows(database, query) == [(False, 0), (True, 0)]


@pytest.mark.until("graph")
def test_a_single_rank_has_no_waits(tmp_path: Path, database: tracedb.Database) -> None:
    """Without other ranks, nothing is matched."""
    job()[0].write(tmp_path / "rank0.json")
    database.ingest([tmp_path])
    assert rows(database, "SELECT count(*) FROM graph.collective") == [(0,)]
    assert rows(database, "SELECT count(*) > 5 FROM staging.collective") == [(True,)]


@pytest.fixture(scope="module")
def dlrm8(dlrm8_alone: Path) -> Iterator[tracedb.Database]:
    """Four of eight ranks."""
    with tracedb.open(dlrm8_alone, read_only=True) as database:
        yield database


@needs_corpus
def test_real_ranks_are_matched_completely(dlrm8: tracedb.Database) -> None:
    """Every collective is on all four ranks, and ends there within microseconds."""
    query = """
        SELECT number, any_value(collective.kind), count(DISTINCT collective.trace_id),
            max(present_count), max(end_ns) - min(end_ns),
            bool_or(waiting_ns = 0)
        FROM graph.collective AS collective
        INNER JOIN staging.gpu_op ON node_id = gpu_op_id
        GROUP BY number ORDER BY number
    """
    found = rows(dlrm8, query)
    kinds = ["all_to_all"] * 4 + ["all_reduce", "all_to_all"] + ["all_reduce"] * 2
    assert [row[:4] for row in found] == [
        (n, kind, 4, 4) for n, kind in enumerate(kinds, 1)
    ]
    assert max(row[4] for row in found) <= 10_000
    assert all(row[5] for row in found)
    query = """
        SELECT count(*) FROM graph.edge AS edge
        INNER JOIN staging.gpu_op AS last ON source_node_id = last.gpu_op_id
        INNER JOIN staging.gpu_op AS work ON target_node_id = work.gpu_op_id
        WHERE
            edge.kind = 'collective'
            AND last.trace_id <> work.trace_id AND last.start_ns < work.end_ns
    """
    assert rows(dlrm8, query) == [(8 * 3,)]


@needs_corpus
def test_waits_for_absent_ranks_are_recognised_by_size(
    dlrm8: tracedb.Database,
) -> None:
    """24 elements took 500 us, so that was a wait: 6144 elements took 10 us."""
    query = """
        SELECT element_count, min(absent_waiting_ns), max(moving_ns)
        FROM graph.collective WHERE kind = 'all_to_all' AND element_count = 24
        GROUP BY element_count
    """
    ((_, absent, moving),) = rows(dlrm8, query)
    assert absent > 400_000
    assert moving < 20_000


@needs_corpus
def test_the_path_of_the_run_goes_to_the_last_rank(dlrm8: tracedb.Database) -> None:
    """A path that leaves a rank continues at the collective's last arrival."""
    query = """
        WITH hop AS (
            SELECT *, lag(gpu_op_id) OVER (ORDER BY hop) AS left_gpu_op_id
            FROM critical_path.hop WHERE scope = 'run'
        )
        SELECT hop.gpu_op_id = last_node_id, waiting_ns > 0
        FROM hop INNER JOIN graph.collective AS collective
            ON left_gpu_op_id = node_id
        WHERE reason = 'arrival'
    """
    found = rows(dlrm8, query)
    assert found
    assert set(found) == {(True, True)}
    query = """
        SELECT count(DISTINCT trace_id) FROM critical_path.interval WHERE scope = 'run'
    """
    assert rows(dlrm8, query)[0][0] >= 2


# Paths, by a plain loop


def walked(database: tracedb.Database, path: tuple[Any, ...]) -> list[Hop]:
    """The hops of a path, followed backwards from its end."""
    scope, _, trace_id, begin, end, thread, kernel, shift = path
    causes = {
        (t, m): tuple(rest)
        for t, m, *rest in rows(
            database,
            """
            SELECT trace_id, resume_id, cause, cause_thread_id, cause_resume_id,
                cause_gpu_op_id, resume_ns FROM graph.host_cause
            """,
        )
    }
    resumptions: dict[int, list[tuple[int, int]]] = {}
    for t, thread_id, resume_id, resume in rows(
        database,
        "SELECT trace_id, thread_id, resume_id, resume_ns FROM graph.host_cause",
    ):
        resumptions.setdefault(thread_id, []).append((resume, resume_id))
        assert (t, resume_id) in causes

    def before(thread_id: int, time: int) -> int | None:
        """A thread's last resume_id up to a time."""
        earlier = [pair for pair in resumptions.get(thread_id, []) if pair[0] <= time]
        return max(earlier)[1] if earlier else None

    work = {
        row[0]: row[1:]
        for row in rows(
            database,
            """
            SELECT work.gpu_op_id, work.start_ns, cause, cause_gpu_op_id, cause_ns,
                launch_thread_id, launch_start_ns
            FROM graph.stream_position AS work
            INNER JOIN graph.gpu_cause USING (gpu_op_id)
            """,
        )
    }
    arrivals = {
        row[0]: row[1:]
        for row in rows(
            database,
            """
            SELECT node_id, last_node_id, last.trace_id, last.start_ns,
                shift_ns
            FROM graph.collective AS collective
            INNER JOIN staging.gpu_op AS last ON last_node_id = last.gpu_op_id
            INNER JOIN graph.clock AS clock ON last.trace_id = clock.trace_id
            WHERE waiting_ns > 0 AND last_node_id <> node_id
            """,
        )
    }
    until, reason = end - shift, "end"
    resume_id = None if thread is None else before(thread, until)
    hops: list[Hop] = []
    while until + shift > begin or not hops:
        hops.append((thread, kernel, until, reason))
        if kernel is None:
            if resume_id is None:
                break
            reason, thread, resume_id, kernel, resume = causes[trace_id, resume_id]
            until = min(until, resume)
        elif scope == "run" and kernel in arrivals and reason != "arrival":
            kernel, trace_id, arrived, other = arrivals[kernel]
            until, shift, reason = min(until + shift - other, arrived), other, "arrival"
        else:
            start, reason, cause_kernel, cause_ns, launcher, launched = work[kernel]
            if reason == "none":
                break
            is_launch = reason == "launch"
            until = min(until, cause_ns, start) if is_launch else min(until, start)
            kernel, thread = cause_kernel, launcher if is_launch else None
            resume_id = before(launcher, launched) if is_launch else None
    return hops


def assert_walked(database: tracedb.Database) -> None:
    """Every path of the database equals the plain loop's."""
    paths = rows(
        database,
        """
        SELECT scope, path_id, trace_id, start_ns, end_ns, thread_id, gpu_op_id,
            shift_ns
        FROM critical_path.path
        """,
    )
    assert paths
    for path in paths:
        query = f"""
            SELECT thread_id, gpu_op_id, until_ns, reason FROM critical_path.hop
            WHERE scope = '{path[0]}' AND path_id = {path[1]} ORDER BY hop
        """
        assert rows(database, query) == walked(database, path)


def test_paths_of_generated_ranks_equal_a_plain_loop(ranks: tracedb.Database) -> None:
    """For each step, each trace, and the run, whose path changes ranks."""
    assert_walked(ranks)
    query = "SELECT count(*) FROM critical_path.hop WHERE reason = 'arrival'"
    assert rows(ranks, query)[0][0] > 0


@needs_corpus
def test_paths_of_real_ranks_equal_a_plain_loop(dlrm8: tracedb.Database) -> None:
    """The same for recorded ranks."""
    assert_walked(dlrm8)


UNTILED = """
    WITH span AS (
        SELECT *, start_ns - lag(end_ns) OVER on_path AS gap_ns
        FROM critical_path.interval
        WINDOW on_path AS (PARTITION BY scope, path_id ORDER BY start_ns)
    ),

    tiled AS (
        SELECT scope, path_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
            count(*) FILTER (gap_ns <> 0) AS gaps, sum(end_ns - start_ns) AS total_ns
        FROM span GROUP BY ALL
    )

    SELECT path.scope, path.path_id, gaps
    FROM critical_path.path
    LEFT JOIN tiled USING (scope, path_id)
    WHERE
        path.end_ns > path.start_ns
        AND (
            gaps IS NULL OR gaps > 0
            OR tiled.start_ns <> path.start_ns OR tiled.end_ns <> path.end_ns
            OR total_ns <> path.end_ns - path.start_ns
        )
"""


def test_paths_of_generated_ranks_tile_their_time(ahead: tracedb.Database) -> None:
    """The same with clock offsets."""
    query = (
        "SELECT scope, count(*) FROM critical_path.path GROUP BY scope ORDER BY scope"
    )
    assert rows(ahead, query) == [
        ("period", 3 * RANKS),
        ("run", 3),
        ("step", 3 * RANKS),
        ("trace", RANKS),
    ]
    assert rows(ahead, UNTILED) == []


def test_paths_of_real_traces_tile_their_time(corpus: tracedb.Database) -> None:
    """For every step and trace of the corpus, to the nanosecond."""
    assert rows(corpus, UNTILED) == []
    query = """
        SELECT trace_id FROM staging.trace
        EXCEPT SELECT trace_id FROM critical_path.path WHERE end_ns > start_ns
    """
    assert rows(corpus, query) == []


def test_paths_of_real_ranks_tile_their_time(dlrm8: tracedb.Database) -> None:
    """For every step, trace and run of four ranks."""
    assert rows(dlrm8, UNTILED) == []
    query = "SELECT DISTINCT scope FROM critical_path.path WHERE end_ns > start_ns"
    assert {scope for (scope,) in rows(dlrm8, query)} == {
        "period",
        "step",
        "trace",
        "run",
    }


# With few nodes, none may be on a step's path.
OFF_PATH = """
    WITH on_path AS (
        SELECT interval.trace_id, slack_ns
        FROM critical_path.interval
        INNER JOIN critical_path.slack USING (node_id)
        WHERE
            scope = 'step'
            OR (
                scope = 'trace'
                AND path_id NOT IN (SELECT trace_id FROM staging.step)
            )
    )

    SELECT trace_id FROM on_path WHERE slack_ns IS DISTINCT FROM 0
    UNION ALL
    SELECT trace_id FROM graph.node ANTI JOIN on_path USING (trace_id)
    GROUP BY trace_id HAVING count(*) >= 100
"""
NEGATIVE = "SELECT count(*) FROM critical_path.slack WHERE slack_ns < 0"


def test_slack_is_zero_on_the_path_of_real_traces(corpus: tracedb.Database) -> None:
    """For every step, or the whole trace without steps; it is never negative."""
    assert rows(corpus, NEGATIVE) == [(0,)]
    assert rows(corpus, OFF_PATH) == []


def test_slack_is_zero_on_the_path_of_real_ranks(dlrm8: tracedb.Database) -> None:
    """The same for several ranks."""
    assert rows(dlrm8, NEGATIVE) == [(0,)]
    assert rows(dlrm8, OFF_PATH) == []


def test_kernels_without_a_duration_have_clocks(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Whole microseconds leave short ones none; they end all the same."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    for rank in range(2):
        kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7}
        args = {"stream": 7, "device": 0}
        events = [
            kernel | {"ts": 1_000 * n * n + 5_000 * rank, "dur": 0, "args": args}
            for n in range(1, 9)
        ]
        group = {"rank": rank, "world_size": 2, "backend": "nccl"}
        document = {"traceEvents": events, "distributedInfo": group}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    query = """
        SELECT rank, offset_ns FROM graph.clock
        INNER JOIN staging.trace USING (trace_id) ORDER BY rank
    """
    assert rows(database, query) == [(0, 0), (1, 5_000_000)]
