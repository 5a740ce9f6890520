"""Jobs of several graphs: generated ranks, timed by a plain loop over all of them.

`python tests/test_estimate_jobs.py 100` compares 100 further jobs.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from support import CORPUS
from written_graphs import Graph, collective, product, written

import tracedb
from tracedb import Estimate
from tracedb.cli.estimate import lines
from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError
from tracedb.from_code.collectives import Message
from tracedb.from_code.graph import read_all
from tracedb.from_code.graph_job import job_of
from tracedb.from_code.job_layout import JobLayout, checked_starts

GAP = 1_000
"""[ns] Between works of a stream, as assumed by estimates."""


class Did(NamedTuple):
    """What a rank does: a product, a collective of a group, or the wait for the last.

    A group is its first rank, its stride and its size, as graphs record it.
    """

    kind: str
    group: tuple[int, int, int] = (0, 1, 1)
    rows: int = 1024

    @property
    def ranks(self) -> range:
        """The ranks of the group."""
        first, stride, size = self.group
        return range(first, first + size * stride, stride)


def drawn(draw: random.Random, ranks: int) -> list[list[Did]]:
    """Draw what each rank of a job does: the same collectives, other products."""
    groups = [(0, 1, ranks)]
    if ranks >= 4 and ranks % 2 == 0:
        groups += [(0, 2, ranks // 2), (1, 2, ranks // 2), (0, 1, 2)]
    done: list[list[Did]] = [[Did("product")] for _ in range(ranks)]
    for _ in range(draw.randint(3, 8)):
        called = Did("allreduce", draw.choice(groups), draw.choice([1, 4096, 65536]))
        is_awaited = draw.random() < 0.5
        for rank in called.ranks:
            done[rank] += [Did("product")] * draw.choice([0, 1, 1, 2, 30])
            done[rank] += [called, *[Did("wait")] * is_awaited]
    return [[*did, *[Did("product")] * draw.randint(0, 2)] for did in done]


def graph(did: Sequence[Did], rank: int, path: Path, *, named: bool = True) -> Path:
    """Write the graph of a rank; groups have other addresses on each rank."""
    nodes: list[Graph] = []
    for number, one in enumerate(did, 3):
        if one.kind == "product":
            nodes.append(product(number, 2, 10, 11, 12))
            continue
        if one.kind == "wait":
            nodes.append(collective(number, 2, one.kind))
            continue
        given: dict[str, Any] = {"rank": one.ranks.index(rank) if named else rank}
        if one.kind in {"send", "recv"}:
            given["rank"] = 1 - rank
        if named:
            given["ranks"] = one.group
        address = 1000 * (rank + 1) + 100 * one.group[0] + 10 * one.group[1]
        given |= {"group": address + one.group[2], "rows": one.rows}
        nodes.append(collective(number, 2, one.kind, 1000 + number, **given))
    return written(nodes, path)


def job(done: Sequence[Sequence[Did]], folder: Path, **more: Any) -> list[Path]:  # noqa: ANN401
    """Write the graphs of all ranks."""
    folder.mkdir()
    return [
        graph(did, rank, folder / f"rank{rank}.json", **more)
        for rank, did in enumerate(done)
    ]


class Launched(NamedTuple):
    """[ns] When a work is launched, and how long it runs; the call that it is, if any.

    `call` is None for a product; a wait has neither.
    """

    did: Did
    launch: int = 0
    duration: int = 0


def launches(events: Sequence[dict[str, Any]], did: Sequence[Did]) -> list[Launched]:
    """When a rank alone launches what; its host waits for nothing."""
    ends = {
        e["args"]["correlation"]: round(1e3 * (e["ts"] + e["dur"]))
        for e in events
        if e["name"] == "cudaLaunchKernel"
    }
    kernels = iter(e for e in events if e["cat"] == "kernel")
    found = []
    for one in did:
        if one.kind == "wait":
            found.append(Launched(one))
            continue
        event = next(kernels)
        assert ("Collective name" in event["args"]) == (one.kind != "product")
        launch = ends[event["args"]["correlation"]]
        found.append(Launched(one, launch, round(1e3 * event["dur"])))
    assert not list(kernels)
    return found


def ends_of(ranks: Sequence[Sequence[Launched]]) -> list[list[int]]:
    """[ns] When each work ends, on each rank: repeated until nothing changes."""
    starts: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    while True:
        before = {key: dict(of) for key, of in starts.items()}
        found = [_ends(rank, works, starts) for rank, works in enumerate(ranks)]
        if before == starts:
            return found


def _ends(
    rank: int,
    works: Sequence[Launched],
    starts: dict[tuple[Any, ...], dict[int, int]],
) -> list[int]:
    """[ns] The ends on one rank, given when the others start what they share."""
    computing, last = 0, 0
    free: dict[Any, int] = defaultdict(int)
    numbers: dict[Any, count[int]] = defaultdict(count)
    ends = []
    for did, launch, duration in works:
        if did.kind == "wait":
            computing = max(computing, last)
        elif did.kind == "product":
            computing = max(launch, computing + GAP) + duration
            ends.append(computing)
        else:
            met = starts[did.group, next(numbers[did.group])]
            met[rank] = max(launch, max(computing, free[did.group]) + GAP)
            free[did.group] = last = max(met.values()) + duration
            ends.append(last)
    return ends


def hosts(events: Sequence[dict[str, Any]]) -> list[int]:
    """[ns] When a rank's host ends its steps."""
    steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
    return [round(1e3 * (e["ts"] + e["dur"])) for e in steps]


def expected(laid: JobLayout, done: Sequence[Sequence[Did]]) -> tuple[int, list[int]]:
    """[ns] The job's step and that of each rank, by the plain loop."""
    steps = 1 if laid.starts else 2
    starts = laid.starts
    later = starts or [0] * len(done)
    works = [
        [one._replace(launch=one.launch + late) for one in launches(alone.events, did)]
        for alone, did, late in zip(
            laid.plain, [[*did] * steps for did in done], later, strict=True
        )
    ]
    own: list[list[int]] = []
    for alone, ends, late in zip(laid.plain, ends_of(works), later, strict=True):
        each = len(ends) // steps
        by_step = [max(ends[: each * n]) for n in range(1, steps + 1)]
        host = [end + late for end in hosts(alone.events)]
        begin = [1_000_000 + late] if starts else []
        own.append(begin + [max(pair) for pair in zip(by_step, host, strict=True)])
    before = (min if starts else max)(marks[-2] for marks in own)
    step = max(marks[-1] for marks in own) - before
    return step, [marks[-1] - marks[-2] for marks in own]


def check(ranks: int, seed: int, folder: Path) -> None:
    """Compare a generated job with the plain loop, with and without start times."""
    draw = random.Random(seed)  # noqa: S311 (no secret)
    done = drawn(draw, ranks)
    job(done, folder)
    found = tracedb.estimate(folder, gpu="A100")
    assert found.unsure == ()
    whole = found._layout  # noqa: SLF001 (it is laid out anew, without reading again)
    assert isinstance(whole, JobLayout)
    late = tuple(draw.randrange(3_000_000) for _ in done)
    for starts in ((), tuple(start - min(late) for start in late)):
        laid = replace(whole, starts=starts)
        step, own = expected(laid, done)
        low, usual, high = laid.bounds(0.5, 2.0)
        assert (usual, [stage.step_ns for stage in laid.stages]) == (step, own)
        assert low < step < high
    assert found.step_ns == whole.bounds(1, 1)[1]


@pytest.mark.parametrize("ranks", [3, 8])
def test_ranks_wait_for_one_another(ranks: int, tmp_path: Path) -> None:
    """Each step takes what a plain loop over all ranks says, to the nanosecond."""
    check(ranks, ranks, tmp_path / "job")


def uneven(ranks: int, late: int) -> list[list[Did]]:
    """A job whose last rank has `late` products before a collective."""
    called = [Did("allreduce", (0, 1, ranks)), Did("wait"), Did("product")]
    return [
        [Did("product")] * (late if rank == ranks - 1 else 1) + called
        for rank in range(ranks)
    ]


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Estimate]:
    """The graphs of three ranks, of which the last is late, and their estimate."""
    folder = tmp_path_factory.mktemp("late")
    files = job(uneven(3, 40), folder / "job")
    return files, tracedb.estimate(f"{folder}/job/*.json", gpu="A100")


def test_a_late_rank_delays_all(late: tuple[list[Path], Estimate]) -> None:
    """The database of the job says who waits for whom; each rank has its step."""
    _, found = late
    first, _, last = found.stages
    assert first.step_ns == pytest.approx(last.step_ns, rel=0.01)
    assert first.active_ns > 2 * first.computing_ns
    assert found.source.startswith("3 of 3 ranks, each from its graph")
    with found.database as database:
        kernels = database.ask("collective_kernel").select("rank", "waiting_ns")
    by_rank = dict(kernels.group_by("rank").sum().rows())
    assert by_rank[0] > by_rank[2] == 0
    (line,) = [line for line in lines(found) if "rank 1:" in line]
    assert re.match(r" +rank 1: .* us, GPU active .* computes .* of the step", line)


def test_missing_ranks_are_never_last(late: tuple[list[Path], Estimate]) -> None:
    """Without a late rank's graph, the others do not wait for it; that is said."""
    files, whole = late
    found = tracedb.estimate(*files[:2], gpu="A100")
    assert found.step_ns < whole.step_ns / 2
    (line,) = found.unsure
    assert line.startswith("no graph of ranks 2: they are assumed to call")
    texts = [json.loads(text)["distributedInfo"] for text in found._layout.texts]  # noqa: SLF001
    assert [one["world_size"] for one in texts] == [3, 3]


def test_graphs_without_members_of_groups(tmp_path: Path) -> None:
    """Early versions have addresses of groups alone; ranks say how many there are."""
    files = job(uneven(2, 2), tmp_path / "job", named=False)
    found = job_of(read_all([*reversed(files)]), 8, "A100")
    assert [rank.rank for rank in found.ranks] == [0, 1]
    called = [
        node.dispatched.called
        for rank in found.ranks
        for node in rank.root.walk()
        if node.dispatched and node.dispatched.called
    ]
    messages = [one for one in called if one.kind == "allreduce"]
    assert messages == [Message("allreduce", 8, "#0", simulated=2)] * 2


def test_messages_meet(tmp_path: Path) -> None:
    """A receive ends only after the send; the other end may be missing."""
    sent = [Did("send", (0, 1, 2)), Did("wait"), Did("product")]
    done = [[Did("product")] * 30 + sent, [sent[0]._replace(kind="recv"), *sent[1:]]]
    folder = tmp_path / "job"
    job(done, folder)
    found = tracedb.estimate(folder, gpu="A100")
    first, second = found.stages
    assert second.active_ns > 5 * second.computing_ns
    assert first.step_ns == pytest.approx(second.step_ns, rel=0.05)
    assert "do not record their ranks" in found.unsure[0]
    written([product(3, 2, 10, 11, 12)], folder / "rank1.json")
    assert "send from rank 0 to 1: the other rank never calls it" in said(folder)


def refused(files: Sequence[Path], ranks: int | None = None) -> str:
    """The line that says why graphs are no job."""
    with pytest.raises(EstimateError) as error:
        job_of(read_all(files), ranks, "A100")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_no_job_is_refused(tmp_path: Path) -> None:
    """Other jobs, other numbers of calls, a rank twice: one line that says why."""
    first = job(uneven(3, 2), tmp_path / "first")
    longer = [[*did, Did("allreduce", (0, 1, 3))] for did in uneven(3, 2)]
    second = job(longer, tmp_path / "second")
    assert "rank 0 calls it 1 times" in refused([first[0], second[1]])
    assert "both are of rank 0" in refused([first[0], second[0]])
    wider = [
        [one._replace(rows=7) if one.kind == "allreduce" else one for one in did]
        for did in uneven(3, 2)
    ]
    third = job(wider, tmp_path / "third")
    line = refused([first[0], third[1]])
    assert "1048576 elements) on rank 0" in line
    assert "7168 elements) on rank 1: not the same step of one job" in line
    silent = job([[Did("product")] * 3] * 2, tmp_path / "silent")
    assert "does not record its rank" in refused([first[0], silent[1]])
    assert "has the same contents" in refused(silent)
    halves = [[Did("product"), Did("allreduce", (0, 1, 2))]] * 4
    unnamed = job(halves, tmp_path / "halves", named=False)
    assert "estimate each rank alone" in refused(unnamed, ranks=2)
    groups = ((0, 1, 2), (1, 1, 1))
    others = [[Did("product"), Did("allreduce", group)] for group in groups]
    absent = refused(job(others, tmp_path / "absent"))
    assert "rank 0 calls it 1 times in its step, rank 1 0 times" in absent


def said(*given: object) -> str:
    """What the command says, which fails, in one line."""
    result = CliRunner().invoke(
        command, ["estimate", "--gpu", "A100", *map(str, given)]
    )
    assert result.exit_code != 0
    if result.exit_code == 2:
        return result.output
    assert isinstance(result.exception, EstimateError)
    return str(result.exception)


def test_what_the_command_refuses(tmp_path: Path) -> None:
    """Arguments that are no graphs, empty folders, and start times for too few."""
    files = job(uneven(2, 2), tmp_path / "job")
    assert "takes no arguments" in said(files[0], "--", "--hidden")
    assert "named twice" in said(files[0], tmp_path / "job")
    (tmp_path / "empty").mkdir()
    assert "no execution graphs there" in said(tmp_path / "empty")
    assert "no execution graphs there" in said(f"{tmp_path}/*.et")
    assert "no list of times" in said(*files, "--starts", "0,x")
    assert "with CUDA graphs" in said(*files, "--cuda-graph")
    assert "batch size is unknown" in said(*files, "--batch", "2")


@pytest.mark.parametrize(
    ("starts", "count", "why"),
    [
        ((0, 1, 2), 2, "3 start times for 2 ranks"),
        ((5,), 1, "one alone is estimated"),
        ((0, 10**16), 2, "at most an hour apart"),
    ],
)
def test_start_times_are_of_all_ranks(
    starts: tuple[int, ...], count: int, why: str
) -> None:
    """Too few, too many, or far apart."""
    with pytest.raises(EstimateError, match=why):
        checked_starts(starts, count)


@pytest.mark.skipif(not (CORPUS / "param").exists(), reason="needs the corpus")
def test_four_of_eight_ranks_of_a_recommender() -> None:
    """Start times of the ranks, and waiting for the last, give each rank its step."""
    begins = (5_469_000, 0, 6_887_000, 2_990_000)
    measured = (14.455e6, 19.901e6, 13.017e6, 17.797e6)
    found = tracedb.estimate(
        CORPUS / "param" / "dlrm8" / "et", gpu="V100", profiled=True, starts_ns=begins
    )
    assert [stage.rank for stage in found.stages] == [0, 1, 2, 5]
    for stage, true in zip(found.stages, measured, strict=True):
        assert stage.step_ns == pytest.approx(true, rel=0.14)


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        for number in range(int(sys.argv[1])):
            check(2 + number % 7, 100 + number, Path(scratch, str(number)))
            sys.stdout.write(f"job {number}: equal\n")
