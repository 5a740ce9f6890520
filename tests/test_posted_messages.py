"""Sends and receives on the CPU: threads post them, compute, and wait for them later.

Predictions of a changed job are compared with that job, executed (`posted_job`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from posted_job import (
    CALL_NS,
    FRAME_NS,
    MOVING_NS,
    STEPS,
    Job,
    Post,
    computing,
    execute,
    pipeline,
    ring,
    write,
)
from support import rows, sampled
from test_cpu_collectives import assert_as_executed
from test_ranks import UNTILED
from test_simulation import assert_equal_to_reference

import tracedb
from tracedb.cli.main import tracedb as command

RANKS = 3
_OP: dict[str, Any] = {"target": "host", "rank": 1, "name": "aten::linear"}
CHANGES: dict[str, tuple[list[dict[str, Any]], Callable[[Job], Job]]] = {
    "it computes faster": (
        [_OP | {"factor": 0.5}],
        lambda job: computing(job, 1, 0.5),
    ),
    "it becomes the slowest": ([_OP | {"factor": 3}], lambda job: computing(job, 1, 3)),
    "it waits for none": (
        [{"target": "wait", "type": "rank", "rank": 1}, _OP | {"factor": 3}],
        lambda job: replace(computing(job, 1, 3), careless=frozenset([1])),
    ),
    "none waits": (
        [{"target": "wait", "type": "rank"}, _OP | {"factor": 0.5}],
        lambda job: replace(computing(job, 1, 0.5), careless=frozenset(range(RANKS))),
    ),
}
"""How each case changes the job: as edits, and in its program."""
KINDS = {"ring": ring, "pipeline": pipeline}


@pytest.fixture(
    scope="module",
    params=sampled([(kind, seed) for seed in range(3) for kind in KINDS], 2),
    ids=str,
)
def job(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Job, tracedb.Database]]:
    """A job, and its database."""
    kind, seed = request.param
    job = KINDS[kind](random.Random(seed), RANKS)  # noqa: S311
    folder = tmp_path_factory.mktemp("job")
    write(folder, job)
    with tracedb.open() as database:
        database.ingest([folder], run="job")
        yield job, database


def test_changed_jobs_are_predicted(job: tuple[Job, tracedb.Database]) -> None:
    """They agree to the nanosecond, whichever rank is late before and after."""
    ranks, database = job
    happened = {name: execute(change(ranks)) for name, (_, change) in CHANGES.items()}
    edits = {name: of for name, (of, _) in CHANGES.items()}
    assert_as_executed(
        database, edits, {n: [of.ends_ns for of in job] for n, job in happened.items()}
    )


def test_waits_are_those_of_the_job(job: tuple[Job, tracedb.Database]) -> None:
    """Per rank; `straggler` has the sums, and messages while it computes are none."""
    ranks, database = job
    recorded = execute(ranks)
    query = """
        SELECT rank, sum(wait.end_ns - wait.start_ns) FROM graph.rank_wait AS wait
        INNER JOIN staging.trace USING (trace_id) GROUP BY rank ORDER BY rank
    """
    waiting = [of.waiting_ns for of in recorded]
    assert dict(rows(database, query)) == {r: ns for r, ns in enumerate(waiting) if ns}
    messages = [
        sum(isinstance(one, Post) for step in program for one in step)
        for program in ranks.programs
    ]
    query = """
        SELECT collective_count, waiting_ns, moving_ns
        FROM question.straggler ORDER BY rank
    """
    assert rows(database, query) == [
        (messages[rank], waiting[rank], messages[rank] * MOVING_NS)
        for rank in range(RANKS)
    ]


def test_computing_meanwhile_is_computing(job: tuple[Job, tracedb.Database]) -> None:
    """What a thread does before it waits is no part of the message."""
    ranks, database = job
    query = """
        SELECT rank, type, sum(span.end_ns - span.start_ns)
        FROM overhead.timeline AS span
        INNER JOIN staging.trace USING (trace_id)
        LEFT JOIN staging.op AS op USING (op_id)
        WHERE type = 'wait_rank'
            OR op.name IN ('aten::linear', 'c10d::send', 'c10d::recv_')
        GROUP BY ALL ORDER BY ALL
    """
    expected = {}
    for rank, of in enumerate(execute(ranks)):
        posts = sum(isinstance(i, Post) for step in ranks.programs[rank] for i in step)
        expected[rank, "T5"] = of.computing_ns + posts * CALL_NS
        if of.waiting_ns:
            expected[rank, "wait_rank"] = of.waiting_ns
    found = {(rank, kind): ns for rank, kind, ns in rows(database, query)}
    assert found == expected


def test_spans_and_paths_obey_the_laws(job: tuple[Job, tracedb.Database]) -> None:
    """Methods equal the plain loop; measured paths have no gaps; clocks agree."""
    _, database = job
    assert rows(database, UNTILED) == []
    for method in ("replay", "statistics"):
        assert_equal_to_reference(database, method)
    assert rows(database, "SELECT DISTINCT offset_ns FROM graph.clock") == [(0,)]


def test_paths_name_what_they_wait_for(job: tuple[Job, tracedb.Database]) -> None:
    """A trace's path waits for messages; the run's goes to the rank that is late."""
    _, database = job
    query = """
        SELECT kind, name, sum(end_ns - start_ns) FROM critical_path.interval_op
        WHERE variant_id = 0 AND scope = '{}' AND kind IN ('rank_wait', 'communication')
        GROUP BY ALL ORDER BY ALL
    """
    of_trace = {(kind, name) for kind, name, _ in rows(database, query.format("trace"))}
    assert of_trace >= {("communication", "gloo:recv"), ("rank_wait", "gloo:recv")}
    of_run = {kind for kind, _, _ in rows(database, query.format("run"))}
    assert of_run == {"communication"}


@pytest.mark.parametrize("kind", KINDS)
def test_without_stacks(kind: str, tmp_path: Path, database: tracedb.Database) -> None:
    """Replay is exact; of the waits, those that last longer than the data are known."""
    job = KINDS[kind](random.Random(7), RANKS)  # noqa: S311
    write(tmp_path, job, stacks=False)
    database.ingest([tmp_path], run="job")
    query = "SELECT max(abs(error_share)) FROM critical_path.step_time"
    assert rows(database, f"{query} WHERE method = 'replay'") == [(0,)]
    query = """
        SELECT rank, sum(wait.end_ns - wait.start_ns) FROM graph.rank_wait AS wait
        INNER JOIN staging.trace USING (trace_id) GROUP BY rank
    """
    found = dict(rows(database, query))
    for rank, of in enumerate(execute(job)):
        messages = sum(isinstance(i, Post) for step in job.programs[rank] for i in step)
        missed = of.waiting_ns - found.get(rank, 0)
        # Python before the wait counts, and a wait shorter than the data is not seen.
        assert abs(missed) <= messages * (MOVING_NS + FRAME_NS + 4_000)


def test_clocks_that_differ_are_found(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """By the run's clock, no message is received before it was sent."""
    job = ring(random.Random(1), RANKS)  # noqa: S311
    write(tmp_path, job, late_ns=(0, 50_000_000, -20_000_000))
    database.ingest([tmp_path], run="job")
    query = """
        SELECT count(*), max(abs(offset_ns - [0, 50_000_000, -20_000_000][rank + 1]))
        FROM graph.clock INNER JOIN staging.trace USING (trace_id)
    """
    traces, wrong_ns = rows(database, query)[0]
    assert traces == RANKS
    assert wrong_ns < 3_000_000
    query = """
        SELECT count(*) FROM graph.collective_match AS match
        INNER JOIN staging.collective AS own USING (node_id)
        INNER JOIN graph.clock AS clock ON own.trace_id = clock.trace_id
        INNER JOIN staging.collective AS other ON reference_node_id = other.node_id
        INNER JOIN graph.clock AS its ON other.trace_id = its.trace_id
        WHERE own.kind = 'recv' AND other.kind = 'send'
            AND own.end_ns + clock.shift_ns < other.start_ns + its.shift_ns
    """
    assert rows(database, query) == [(0,)]


@pytest.mark.parametrize("ranks", [2, 3])
def test_without_shapes_the_other_rank_is_known_only_of_two(
    ranks: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """Ops are those of the thread all the same, and replay is exact."""
    job = ring(random.Random(2), ranks)  # noqa: S311
    write(tmp_path, job, shapes=False)
    database.ingest([tmp_path], run="job")
    count = rows(database, "SELECT count(*) FROM graph.collective")[0][0]
    assert count == (2 * ranks * (ranks - 1) * STEPS if ranks == 2 else 0)
    query = """
        SELECT count(*) FROM staging.op WHERE name = 'aten::linear' AND is_top_level
    """
    assert rows(database, query) == [((ranks + 1) * ranks * STEPS,)]
    query = "SELECT max(abs(error_share)) FROM critical_path.step_time"
    assert rows(database, f"{query} WHERE method = 'replay'") == [(0,)]


@pytest.mark.parametrize(
    ("values", "dims", "group"),
    [
        (["", "", str(2**63 - 1), "0"], [[2**62, 2**62]], {}),
        (["", "", "-1"], [[], [64]], {"pg_config": [{"ranks": ["x"]}]}),
        ([2], "[64", {"world_size": 2**31 - 1, "pg_config": None}),
        ("1", [[[[64]]]], {"pg_config": [1, {"ranks": [0, 1, 2]}], "rank": 2**31 - 1}),
    ],
)
def test_odd_arguments_of_posts_match_nothing(
    values: object,
    dims: object,
    group: dict[str, Any],
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """They are kept, and no other rank is assumed."""
    job = ring(random.Random(3), RANKS)  # noqa: S311
    write(tmp_path, job)
    odd = tmp_path / "rank1.json"
    document = json.loads(odd.read_text())
    for event in document["traceEvents"]:
        if event["name"].startswith("c10d"):
            event["args"] = {"Concrete Inputs": values, "Input Dims": dims}
    document["distributedInfo"] |= group
    odd.write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    query = """
        SELECT count(sender) FROM staging.posted_message
        INNER JOIN staging.trace USING (trace_id) WHERE path LIKE '%rank1.json'
    """
    assert rows(database, query) == [(0,)]
    query = "SELECT max(abs(error_share)) FROM critical_path.step_time"
    assert rows(database, f"{query} WHERE method = 'replay'") == [(0,)]


Recording = dict[str, Any]


def _from_any_source(recording: Recording, rank: int) -> None:
    """Receives of one rank name no source."""
    for event in recording["traceEvents"]:
        if rank == 1 and event["name"] == "c10d::recv_":
            event["name"] = "c10d::recv_any_source_"
            event["args"]["Concrete Inputs"] = ["", "", "0"]
        elif rank == 1 and event["name"] == "gloo:recv":
            event["name"] = "gloo:recvAnySource"


def _in_several_groups(recording: Recording, rank: int) -> None:
    """Each rank is also in a group that sends nothing."""
    some = {"pg_name": "1", "ranks": [0, 1] if rank < 2 else [2]}
    recording["distributedInfo"]["pg_config"].append(some)


def _within_a_group(recording: Recording, _rank: int) -> None:
    """They communicate in a group that has the ranks of the job in another order."""
    group = [2, 0, 1]
    recording["distributedInfo"]["pg_config"].append({"pg_name": "1", "ranks": group})
    for event in recording["traceEvents"]:
        if event["name"].startswith("c10d::"):
            values = event["args"]["Concrete Inputs"]
            values[2] = str(group.index(int(values[2])))


@pytest.mark.parametrize(
    "change", [_from_any_source, _in_several_groups, _within_a_group]
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_other_rank_is_found(
    kind: str,
    change: Callable[[Recording, int], None],
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """Without a source, or in one of several groups: ranks wait as they do."""
    job = KINDS[kind](random.Random(2), RANKS)  # noqa: S311
    write(tmp_path, job)
    for rank in range(RANKS):
        path = tmp_path / f"rank{rank}.json"
        recording = json.loads(path.read_text())
        change(recording, rank)
        path.write_text(json.dumps(recording))
    database.ingest([tmp_path], run="job")
    query = "SELECT rank, waiting_ns FROM question.straggler ORDER BY rank"
    waiting = [(rank, of.waiting_ns) for rank, of in enumerate(execute(job))]
    assert rows(database, query) == waiting
    assert rows(database, UNTILED) == []


def test_tags_tell_messages_of_two_ranks_apart(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The second one sent is received first."""
    for rank, tags in enumerate([(7, 3), (3, 7)]):
        events = []
        name, verb = ("c10d::send", "send") if rank == 0 else ("c10d::recv_", "recv")
        for step in range(5):
            now = 20_000_000 * step + 1_000_000 * rank
            begun = now
            for tag in tags:
                size = [tag, 64]
                values = ["", "", str(1 - rank), str(tag)]
                args = {"Concrete Inputs": values, "Input Dims": [[size], [], [], []]}
                fields = {"ph": "X", "pid": 7, "tid": 1}
                times = {"ts": now / 1000, "dur": 30}
                events.append(
                    fields | times | {"cat": "cpu_op", "name": name, "args": args}
                )
                # Sends are over when the receives are: late in the step.
                times = {"ts": now / 1000 + 20, "dur": 5_000 + 100 * tag}
                args = {"Input Dims": [size], "Input type": ["float"]}
                kind = {"cat": "user_annotation", "name": f"gloo:{verb}", "args": args}
                events.append(fields | times | kind)
                now += 500_000
            mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}"}
            times = {"ts": begun / 1000 - 1, "dur": 19_000}
            events.append({"ph": "X", "pid": 7, "tid": 1} | times | mark)
        group = {"rank": rank, "world_size": 2, "backend": "gloo"}
        document = {"traceEvents": events, "distributedInfo": group}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    query = """
        SELECT process_group, count(*), count(DISTINCT number), min(element_count)
        FROM graph.collective GROUP BY ALL ORDER BY ALL
    """
    assert rows(database, query) == [
        ("gloo 0>1 tag 3", 10, 5, 3 * 64),
        ("gloo 0>1 tag 7", 10, 5, 7 * 64),
    ]


def two_stages(folder: Path) -> None:
    """Stage 0 posts its receive after the forward pass, and waits before the other."""
    first = [
        ("user_annotation", "ProfilerStep#1", 0, 1000),
        ("cpu_op", "aten::linear", 0, 100),
        ("cpu_op", "c10d::recv_", 100, 20),
        ("user_annotation", "gloo:recv", 110, 140),
        ("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 255, 745),
    ]
    second = [
        ("user_annotation", "ProfilerStep#1", 0, 1000),
        ("cpu_op", "aten::linear", 0, 200),
        ("cpu_op", "c10d::send", 200, 20),
        ("user_annotation", "gloo:send", 210, 30),
        ("cpu_op", "aten::mul", 250, 750),
    ]
    for rank, events in enumerate((first, second)):
        keys = ("cat", "name", "ts", "dur")
        header = {"rank": rank, "world_size": 2, "backend": "gloo"}
        text = json.dumps(
            {
                "distributedInfo": header,
                "traceEvents": [
                    dict(zip(keys, event, strict=True), ph="X", pid=7, tid=7)
                    for event in events
                ],
            }
        )
        (folder / f"rank{rank}.json").write_text(text)


def test_waits_are_in_the_phase_in_which_they_are(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A wait for gradients is backward on the host and on the path, wherever posted."""
    two_stages(tmp_path)
    database.ingest([tmp_path], run="job")
    query = "SELECT phase, host_ns, path_ns FROM question.phase WHERE rank = 0"
    assert rows(database, query) == [
        ("forward", 120_000, 120_000),
        ("backward", 880_000, 880_000),
    ]


def test_without_shapes_no_rank_is_known_to_be_late(tmp_path: Path) -> None:
    """Of three ranks or more; the answer says why."""
    two_stages(tmp_path)
    for path in list(tmp_path.glob("*.json")):
        document = json.loads(path.read_text())
        document["distributedInfo"]["world_size"] = 3
        path.write_text(json.dumps(document))
    file = tmp_path / "run.duckdb"
    with tracedb.open(file) as database:
        database.ingest([tmp_path], run="job")
    done = CliRunner().invoke(command, ["ask", str(file), "straggler"])
    assert done.exit_code == 0
    assert "PyTorch's profiler records it with shapes" in " ".join(done.stderr.split())
