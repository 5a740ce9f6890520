"""Predict real changes of trainings on this machine's CPU: `docs/whatif-pairs.md`.

    python benchmarks/whatif_pairs.py --write docs/whatif-pairs.md

Each pair (`changes.py`) is recorded before and after its change, in turns, in a process
of its own. Recordings are kept, so that a run which was broken off goes on, and can be
predicted again; with `--anew` all is recorded again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from measure import cache, tell, text_of
from msgspec import structs
from pages import filled, machine, parser, publish, table

import tracedb
from tracedb.edit_line import parse
from tracedb.scenario import UNPROFILED, of_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import polars as pl

ROUNDS, WARMUP, PLAIN, RECORDED = 3, 6, 12, 10
"""Of each program, in turns with the other; steps in each."""
GOAL = 0.05

SIDES = ("before", "after")
Times = list[list[int]]
"""[ns] Of each step, round by round."""


class Pair(NamedTuple):
    """What was measured and predicted of a change."""

    name: str
    faults: list[float]
    """Page faults of a step without a profiler, before and after: the median."""
    before: Times
    """Recorded steps."""
    after: Times
    plain_before: Times
    """Steps without a profiler."""
    plain_after: Times
    predicted: Times
    """The steps after, from the recording before."""
    unprofiled: Times
    """The steps before without the profiler, as predicted."""
    plain_predicted: Times
    """Those after likewise."""

    @property
    def is_noticed(self) -> bool:
        """Whether the change is larger than the repeats differ."""
        return abs(change(self.before, self.after)) > self.noise

    @property
    def noise(self) -> float:
        """By how much rounds of one program differ at most from their median."""
        return max(noise(self.before), noise(self.after))


def typical(times: Times) -> float:
    """The median step of all rounds."""
    return statistics.median(time for steps in times for time in steps)


def fastest(times: Times) -> float:
    """The fastest step of all rounds: what other programs disturb least."""
    return min(time for steps in times for time in steps)


def noise(times: Times) -> float:
    """By how much a round's median differs from that of all at most, as a share."""
    middle = typical(times)
    return max(abs(statistics.median(steps) / middle - 1) for steps in times)


def change(before: Times, after: Times) -> float:
    """By how much the median step changes, as a share."""
    return typical(after) / typical(before) - 1


# A process that records one pair.

MEMORY: dict[str, dict[str, str]] = {
    "steady": {"MALLOC_MMAP_THRESHOLD_": str(128 * 1024)},
    "usual": {},
}
"""How the C library gives tensors memory, as the environment says it.

Usually a tensor takes memory that another has left, if that fits, else new pages, each
of which costs a page fault: ops become faster or slower with all else that a step does.
Steady: each tensor of 128 KiB and more has pages of its own, whatever was there before.
"""
DONE = "plain.json"
"""What is written last: of the steps that nothing recorded times and page faults."""


def work(name: str, folder: Path) -> None:
    """Record the programs of a pair in turns."""
    import torch
    from changes import CHANGES

    torch.set_num_threads(1)
    steps = [CHANGES[name].step(after=after) for after in (False, True)]
    plain: list[Times] = [[], []]
    faults: Times = [[], []]
    for number in range(ROUNDS):
        for times, counts, step in zip(plain, faults, steps, strict=True):
            took, faulted = zip(*timed(step), strict=True)
            times.append([*took])
            counts.extend(faulted)
        for step, side in zip(steps, SIDES, strict=True):
            record(step, folder / side / f"{number}.json.gz")
    (folder / DONE).write_text(json.dumps({"times": plain, "faults": faults}))


def timed(step: Callable[[], object]) -> list[tuple[int, int]]:
    """Take the time, and count the page faults, of steps that have warmed up."""
    found = []
    for _ in range(WARMUP + PLAIN):
        faults, began = page_faults(), time.perf_counter_ns()
        step()
        took = time.perf_counter_ns() - began
        found.append((took, page_faults() - faults))
    return found[WARMUP:]


def page_faults() -> int:
    """How many pages this process was given so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def record(step: Callable[[], object], path: Path) -> None:
    """Let PyTorch's profiler record steps."""
    from torch.profiler import ProfilerActivity, profile, schedule

    path.parent.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=WARMUP, active=RECORDED, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
        record_shapes=True,
    ) as profiler:
        for _ in range(WARMUP + RECORDED):
            step()
            profiler.step()


# The process that is called: what it predicts, and its page.


def pair_of(name: str, folder: Path) -> Pair:
    """What was measured of a pair, and what is predicted from it."""
    from changes import CHANGES

    sides = [sorted((folder / side).iterdir()) for side in SIDES]
    before, after = ([recorded(file) for file in files] for files in sides)
    with tracedb.open() as database:
        database.ingest(sides[0])
        predicted = list(scenarios(database, CHANGES[name].edits))
    plain = json.loads((folder / DONE).read_text())
    faults = [statistics.median(counts) for counts in plain["faults"]]
    return Pair(name, faults, before, after, *plain["times"], *predicted)


def recorded(file: Path) -> list[int]:
    """The periods of a recording's steps: from mark's end to mark's end."""
    events = json.loads(text_of(file))["traceEvents"]
    marks = [e for e in events if e.get("cat") == "user_annotation"]
    spans = sorted(
        (mark["ts"], mark["ts"] + mark["dur"])
        for mark in marks
        if mark["name"].startswith("ProfilerStep#")
    )
    ends = [spans[0][0], *(end for _, end in spans)]
    return [round(1000 * (end - begin)) for begin, end in pairwise(ends)]


def scenarios(database: tracedb.Database, lines: Sequence[str]) -> Iterator[Times]:
    """The steps with some edits, without the profiler, and both."""
    edits = [of_scenario("after", parse(line)) for line in lines]
    both = [structs.replace(edit, scenario="both") for edit in [*edits, UNPROFILED]]
    found = database.scenarios([*edits, UNPROFILED, *both])
    for scenario in ("after", UNPROFILED.scenario, "both"):
        yield rounds(found.filter(found["scenario"] == scenario), "predicted_ns")


def rounds(steps: pl.DataFrame, column: str) -> Times:
    """A column of a relation of steps, trace by trace."""
    found: dict[int, list[int]] = {}
    for trace, time_ns in steps.select("trace_id", column).rows():
        found.setdefault(trace, []).append(time_ns)
    return list(found.values())


def measured(name: str, memory: str) -> Pair:
    """Record a pair, unless that was done before, and predict."""
    folder = recordings() / memory / name
    if not (folder / DONE).exists():
        tell(f"recording {name}, {memory} memory")
        # Threads of other libraries, and what Kineto tells.
        quiet = {"OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"}
        command = [sys.executable, __file__, "--work", name, str(folder)]
        environment = os.environ | quiet | MEMORY[memory]
        subprocess.run(command, check=True, env=environment)  # noqa: S603 (this program)
    tell(f"predicting {name}, {memory} memory")
    return pair_of(name, folder)


def recordings() -> Path:
    """Where recordings are kept: by the programs that are recorded."""
    text = Path(__file__).with_name("changes.py").read_bytes()
    counts = f"{ROUNDS} {WARMUP} {PLAIN} {RECORDED} {MEMORY}".encode()
    return cache() / f"whatif-pairs-{hashlib.sha256(text + counts).hexdigest()[:12]}"


ABOUT = """# What if, against real changes

Written by `python benchmarks/whatif_pairs.py --anew --write docs/whatif-pairs.md` on
{machine}, torch {torch}, one thread.

Small trainings on the CPU are recorded before and after one change each
(`benchmarks/changes.py`), in turns, {rounds} times {recorded} steps of each. From the
recordings before, `tracedb whatif` predicts the steps after, by edits that one can
write before the change is made: nothing in them is fitted. Times are medians of all
steps. `noise` is by how much the median of one round differs from that of all at most,
before or after: no error below it means anything. `error` is predicted over measured
after, less 1; `of fastest` is the same of the fastest steps, which others disturb
least. `plain` are steps that nothing recorded: what the change does to them, and by how
much the prediction is off, which is the plain time before times the predicted change,
the profiler's estimated cost taken off in both (`profiler x0`).
"""
STEADY = """## Each tensor in pages of its own

An edit leaves the time of all other ops as it was. So it nearly is where the C library
gives tensors of 128 KiB and more pages of their own (`MALLOC_MMAP_THRESHOLD_=131072`):
"""
REST = """Two of the largest errors were looked up op by op. `transformer`: without
dropout PyTorch's attention takes other kernels, which no edit says. `checkpoint` was
off by +20 % before edits could say that what `CheckpointFunctionBackward` does itself,
around the layers that it computes again, goes as well (`part=self`).
"""
USUAL = """## Memory as it is by default

By default a tensor takes memory that others have left, if it fits there. If not it
takes new pages, and each costs a page fault in the op that first writes to it: a
microsecond, on a virtual machine several. So a change of some ops makes others faster
or slower that it leaves alone: in a first recording of `frozen`, `aten::clamp_min` took
0.25 ms instead of 1.75, and `mkldnn_convolution` of the layers that stay 5.1 ms instead
of 8.7, in the same calls.

And so does recording, presumably since what the profiler keeps lies between
tensors, in what they have left: where nothing was given back to the system, steps of
`frozen` before its change had no page faults and took 28 ms, and had up to 4,900 and
took 45 while they were recorded with shapes. `profiler x0` does not know of that, and
no edit says what memory does: a training on a CPU that changes are to be
predicted of is best recorded with that setting, or with an allocator that keeps sizes
apart.
"""
FAULTS = (
    *("pair", "faults before, steady", "after", "faults before, usual", "after"),
    *("error, steady, %", "error, usual, %", "plain, steady, %", "plain, usual, %"),
)
HEAD = (
    *("pair", "before, ms", "after, ms", "change, %", "predicted, %", "noise, %"),
    *("error, %", "of fastest, %", "plain change, %", "plain error, %"),
)


def row(pair: Pair) -> list[str]:
    """The row of a pair."""
    return [
        pair.name,
        *(f"{typical(times) / 1e6:.2f}" for times in (pair.before, pair.after)),
        *(
            f"{100 * share:+.1f}"
            for share in (
                change(pair.before, pair.after),
                change(pair.before, pair.predicted),
            )
        ),
        f"{100 * pair.noise:.1f}",
        *(
            f"{100 * share:+.1f}"
            for share in (
                error(pair),
                fastest(pair.predicted) / fastest(pair.after) - 1,
                change(pair.plain_before, pair.plain_after),
                plain_error(pair),
            )
        ),
    ]


def error(pair: Pair) -> float:
    """Predicted over measured, less 1."""
    return change(pair.after, pair.predicted)


def plain_error(pair: Pair) -> float:
    """The same of steps without a profiler."""
    expected = typical(pair.plain_before) * (
        1 + change(pair.unprofiled, pair.plain_predicted)
    )
    return expected / typical(pair.plain_after) - 1


RESULT = (
    "Median error {error:.1f} % (goal {goal:g} %; without a profiler {plain:.1f} %), "
    "median noise {noise:.1f} %. The direction is right in {right} of the {noticed} "
    "pairs whose change is larger than their noise, of {all}."
)


def result(pairs: Sequence[Pair]) -> str:
    """What came out of it all, against the goals."""
    noticed = [pair for pair in pairs if pair.is_noticed]
    right = [
        pair
        for pair in noticed
        if change(pair.before, pair.after) * change(pair.before, pair.predicted) > 0
    ]
    return filled(
        RESULT,
        error=100 * statistics.median(abs(error(pair)) for pair in pairs),
        goal=100 * GOAL,
        plain=100 * statistics.median(abs(plain_error(pair)) for pair in pairs),
        noise=100 * statistics.median(pair.noise for pair in pairs),
        right=len(right),
        noticed=len(noticed),
        all=len(pairs),
    )


def beside(steady: Pair, usual: Pair) -> list[str]:
    """The row of a pair that tells what memory does."""
    return [
        steady.name,
        *(f"{count:,.0f}" for count in (*steady.faults, *usual.faults)),
        *(f"{100 * error(pair):+.1f}" for pair in (steady, usual)),
        *(f"{100 * plain_error(pair):+.1f}" for pair in (steady, usual)),
    ]


def page(pairs: Mapping[str, Sequence[Pair]]) -> str:
    """The whole page."""
    from importlib.metadata import version

    from changes import CHANGES

    about = ABOUT.format(
        machine=machine(None),
        torch=version("torch"),
        rounds=ROUNDS,
        recorded=RECORDED,
    )
    steady, usual = (pairs[memory] for memory in MEMORY)
    changes = [
        [pair.name, CHANGES[pair.name].about, _code(CHANGES[pair.name].edits)]
        for pair in steady
    ]
    return "\n".join(
        [
            *(about, STEADY, result(steady), ""),
            *(*table([*HEAD], map(row, steady)), "", REST),
            *(USUAL, result(usual), ""),
            *(*table([*FAULTS], map(beside, steady, usual)), ""),
            *("## The changes", ""),
            *(*table(["pair", "change", "edits"], changes, left=3), ""),
        ]
    )


def _code(edits: Sequence[str]) -> str:
    return ", ".join(f"`{edit}`" for edit in edits).replace("|", "\\|")


def main() -> None:
    """Measure what is not yet, and print the page; or be a process that records."""
    asked = parser(__doc__)
    say = asked.add_argument
    say("pairs", nargs="*", help="which pairs; all where none is named")
    say("--anew", action="store_true", help="record again what was recorded before")
    say("--work", nargs=2, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.work:
        name, folder = given.work
        work(name, Path(folder))
        return
    from changes import CHANGES

    if given.anew:
        shutil.rmtree(recordings(), ignore_errors=True)
    names = given.pairs or [*CHANGES]
    found = {memory: [measured(name, memory) for name in names] for memory in MEMORY}
    publish(page(found), given.write)


if __name__ == "__main__":
    main()
