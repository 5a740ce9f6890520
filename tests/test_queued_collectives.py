"""Collectives on the CPU that are called one after another: two threads execute them.

Each is paired with its call, and with those of the other ranks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gloo_job import Recorded
from support import rows, union_ns

import tracedb

RANKS, STEPS = 3, 5
SIZES = (4096, 8, 4096, 8, 8)
"""Elements of the all_reduces that are called in each step."""
CALL_NS = 10_000


@dataclass
class Job:
    """A job whose ranks call the same collectives, and what is true of them."""

    sized_calls: bool = True
    """Whether calls record sizes, as since PyTorch 2.2."""
    turned: bool = True
    """Whether the first two collectives of a step often start in turned order."""
    recorded: list[Recorded] = field(default_factory=list)
    waiting: set[tuple[int, int, int]] = field(default_factory=set)
    """Rank, start of a collective, and how long it waits for the last rank."""
    calls: set[tuple[int, int, int]] = field(default_factory=set)
    """Rank, start of the call, and start of the collective."""

    def run(self, seed: int) -> None:
        """Execute it."""
        chance = random.Random(seed)  # noqa: S311
        self.recorded = [Recorded() for _ in range(RANKS)]
        now = [0] * RANKS
        for step in range(STEPS):
            begun, called, starts = list(now), [], []
            for rank in range(RANKS):
                computed = now[rank] + 1000 * chance.randint(500, 4_000)
                self.recorded[rank].add("aten::mm", 1, now[rank], computed)
                called.append([computed + n * CALL_NS for n in range(len(SIZES))])
                # The last one is called before the first one starts.
                first = called[-1][-1] + CALL_NS + 50_000
                own = [first + 5_000 * n for n in range(len(SIZES))]
                if chance.random() < 0.5 and self.turned:
                    own[:2] = own[1::-1]
                starts.append(own)
            ends = [
                max(of) + 200_000 + 1_000 * n
                for n, of in enumerate(zip(*starts, strict=True))
            ]
            for rank in range(RANKS):
                for number, times in enumerate(
                    zip(called[rank], starts[rank], ends, strict=True)
                ):
                    last = max(of[number] for of in starts)
                    self.waiting.add((rank, times[1], last - times[1]))
                    self._add(rank, number, times)
                now[rank] = max(ends) + 40_000
                self.recorded[rank].add(
                    f"ProfilerStep#{step}", 1, begun[rank], now[rank]
                )

    def _add(self, rank: int, number: int, times: tuple[int, int, int]) -> None:
        """Record a call and its collective, which starts and ends."""
        call, start, end = times
        size = [SIZES[number]]
        called = {"Input Dims": [[size] if self.sized_calls else [], []]}
        ended = call + CALL_NS - 1_000
        of = self.recorded[rank]
        of.add("c10d::allreduce_", 1, call, ended, **called)
        executed = {"Input Dims": [size]}
        of.add("gloo:all_reduce", 10 + number % 2, start, end, **executed)
        self.calls.add((rank, call, start))

    def events(self, rank: int, name: str) -> list[dict[str, Any]]:
        """The rank's events of a name, in order."""
        found = [e for e in self.recorded[rank].events if e["name"] == name]
        return sorted(found, key=lambda event: event["ts"])

    def write(self, folder: Path, **header: object) -> Path:
        """Write a recording per rank."""
        for rank, recorded in enumerate(self.recorded):
            group = {"rank": rank, "world_size": RANKS, "backend": "gloo"} | header
            document = {"traceEvents": recorded.events, "distributedInfo": group}
            (folder / f"rank{rank}.json").write_text(json.dumps(document))
        return folder


WAITING = """
    SELECT rank, start_ns, waiting_ns
    FROM graph.collective
    INNER JOIN staging.collective AS own USING (node_id)
    INNER JOIN staging.trace AS trace ON own.trace_id = trace.trace_id
"""
CALLS = """
    SELECT rank, op.start_ns, call.start_ns
    FROM graph.collective_call AS call
    INNER JOIN staging.op AS op ON calling_op_id = op.op_id
    INNER JOIN staging.trace AS trace ON call.trace_id = trace.trace_id
"""
STRAGGLER = "SELECT rank, waiting_ns, delayed_ns FROM question.straggler"
OFFSETS = "SELECT max(abs(offset_ns)) FROM graph.clock"
ERROR = """
    SELECT max(abs(error_share)) FROM critical_path.step_time WHERE method = 'replay'
"""


def job(seed: int, *, sized_calls: bool = True, turned: bool = True) -> Job:
    """An executed job."""
    executed = Job(sized_calls, turned)
    executed.run(seed)
    return executed


@pytest.mark.parametrize("sized_calls", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_starts_in_turned_order_change_nothing(
    seed: int, *, sized_calls: bool, tmp_path: Path, database: tracedb.Database
) -> None:
    """The order of calls counts; without their sizes, two may be exchanged."""
    executed = job(seed, sized_calls=sized_calls)
    database.ingest([executed.write(tmp_path)], run="job")
    assert set(rows(database, WAITING)) == executed.waiting
    assert rows(database, OFFSETS) == [(0,)]
    if sized_calls:
        assert set(rows(database, CALLS)) == executed.calls
    else:
        assert len(rows(database, CALLS)) == len(executed.calls)
    assert rows(database, ERROR) == [(0,)]


def _lose_first_calls(executed: Job) -> None:
    """The recording starts between the calls of a step."""
    for rank in range(RANKS):
        lost = executed.events(rank, "c10d::allreduce_")[:3]
        kept = [e for e in executed.recorded[rank].events if e not in lost]
        executed.recorded[rank].events = kept
        starts = {round(1000 * event["ts"]) for event in lost}
        executed.calls = {
            of for of in executed.calls if of[0] != rank or of[1] not in starts
        }


def _lose_executions(executed: Job) -> None:
    """Some collectives are not recorded, as those called by a thread of Gloo."""
    for rank in range(RANKS):
        lost = executed.events(rank, "gloo:all_reduce")[7:13:4]
        kept = [e for e in executed.recorded[rank].events if e not in lost]
        executed.recorded[rank].events = kept
        starts = {round(1000 * event["ts"]) for event in lost}
        executed.calls = {
            of for of in executed.calls if of[0] != rank or of[2] not in starts
        }


@pytest.mark.parametrize("change", [_lose_first_calls, _lose_executions])
@pytest.mark.parametrize("seed", range(2))
def test_collectives_have_their_own_calls(
    seed: int,
    change: Callable[[Job], None],
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """What is not recorded leaves the calls of other steps alone."""
    executed = job(seed)
    change(executed)
    database.ingest([executed.write(tmp_path)], run="job")
    found = set(rows(database, CALLS))
    # Which one of equal ones in a step is missing is not known.
    assert len(found) == len(executed.calls)
    per_step = {(rank, call): start for rank, call, start in executed.calls}
    late = [start - per_step.get((rank, call), start) for rank, call, start in found]
    assert max(map(abs, late)) <= 5_000 * len(SIZES)


def test_the_end_of_the_recording_ends_nothing(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A collective that had not ended has no size and no end: the others tell both."""
    executed = job(3)
    last = executed.events(0, "gloo:all_reduce")[-1]
    last |= {"dur": 0, "args": {}}
    database.ingest([executed.write(tmp_path)], run="job")
    query = "SELECT count(*), count(DISTINCT number) FROM graph.collective"
    assert rows(database, query) == [(RANKS * STEPS * len(SIZES), STEPS * len(SIZES))]
    assert rows(database, OFFSETS) == [(0,)]
    start = round(1000 * last["ts"])
    expected = {of for of in executed.waiting if of[:2] != (0, start)}
    assert {of for of in rows(database, WAITING) if of[:2] != (0, start)} == expected


def test_a_rank_in_one_group_meets_those_in_several(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The group has the same name on each rank."""
    executed = job(1)
    executed.write(tmp_path)
    everyone = {"pg_name": "0", "ranks": [0, 1, 2], "pg_size": 3}
    for rank in range(RANKS):
        path = tmp_path / f"rank{rank}.json"
        document = json.loads(path.read_text())
        groups = [everyone]
        if rank:
            groups.append({"pg_name": "1", "ranks": [1, 2], "pg_size": 2})
        document["distributedInfo"]["pg_config"] = groups
        path.write_text(json.dumps(document))
    database.ingest([tmp_path], run="job")
    assert set(rows(database, WAITING)) == executed.waiting


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_each_rank_of_a_gather_has_its_own_size(
    kind: str, tmp_path: Path, database: tracedb.Database
) -> None:
    """A rank that is done before another one comes does not wait for it."""
    executed = job(2, turned=False)
    early = set()
    for rank in range(RANKS):
        for event in executed.recorded[rank].events:
            name = event["name"]
            if name == "gloo:all_reduce" and rank:
                event["args"] = {}
                event["dur"] = 0.05
                start = round(1000 * event["ts"])
                waits = next(
                    of[2] for of in executed.waiting if of[:2] == (rank, start)
                )
                if waits > 50:
                    early.add((rank, start, waits))
            event["name"] = name.replace("all_reduce", kind).replace(
                "allreduce_", f"{kind}_"
            )
    database.ingest([executed.write(tmp_path)], run="job")
    done = {(rank, start, 0) for rank, start, _ in early}
    assert set(rows(database, WAITING)) == executed.waiting - early | done
    assert rows(database, ERROR) == [(0,)]


@pytest.mark.parametrize("seed", range(3))
def test_recordings_that_share_one_step_are_matched(
    seed: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """Ranks begin and end at other steps."""
    executed = job(seed)
    recorded_steps = {0: range(4), 1: range(STEPS), 2: range(3, STEPS)}
    for rank, kept in recorded_steps.items():
        steps = [executed.events(rank, f"ProfilerStep#{step}")[0] for step in kept]
        begin, end = steps[0]["ts"], steps[-1]["ts"] + steps[-1]["dur"]
        own = executed.recorded[rank]
        own.events = [e for e in own.events if begin <= e["ts"] < end]
    shared = executed.events(0, "ProfilerStep#3")[0]
    database.ingest([executed.write(tmp_path)], run="job")
    begin = 1000 * shared["ts"]
    end = begin + 1000 * shared["dur"]

    def of_step(found: set[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
        return {row for row in found if begin <= row[1] < end}

    assert of_step({*rows(database, WAITING)}) == of_step(executed.waiting)
    assert rows(database, OFFSETS) == [(0,)]


def test_waits_at_one_time_count_once(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Of collectives that overlap, `straggler` has the time in which a rank waits."""
    executed = job(2)
    database.ingest([executed.write(tmp_path)], run="job")
    last_of = {start: rank for rank, start, waited in executed.waiting if not waited}
    waits = [(r, start, start + waited) for r, start, waited in executed.waiting]
    found = {rank: counts for rank, *counts in rows(database, STRAGGLER)}
    for rank in range(RANKS):
        own = [(start, end) for other, start, end in waits if other == rank]
        caused = [(start, end) for _, start, end in waits if last_of[end] == rank]
        assert found[rank] == [union_ns(own), union_ns(caused)]
        assert union_ns(own) < sum(end - start for start, end in own)
