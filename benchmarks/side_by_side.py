"""Measure programs against each other on a machine that others use, too.

Each program is a process of its own, forked from one that has imported all. They take
turns on one core, before all else there (`isolate`), in blocks that read the same from
both ends (`TURNS`): what drifts evenly meets all programs alike. The first step of a
turn finds the caches of another program, and does not count; nor does a step in which
another process, or another machine on this host, had the core (`Sample.is_disturbed`),
nor one beside which the core was slow (`calm`), as it is while its twin works: two
hardware threads share one. The program before the change is there twice: by how much it
differs from itself is what differences mean nothing below. All these rules are fixed
here, before anything is measured.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import resource
import statistics
import time
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection

    Step = Callable[[], object]
    Task = Callable[[Step, "Watch"], "Turn"]
    """A process's task."""

BEFORE, AFTER, AGAIN = range(3)
"""The program before the change, after it, and before it again."""
TURNS = (BEFORE, AFTER, AGAIN, AGAIN, AFTER, BEFORE)
REPEATS = 2
"""Restarts of all processes: each has another memory layout."""
CALM_STEPS, MOST_BLOCKS = 24, 16
"""Calm steps per program until which blocks are added, and the most blocks."""
LEAST_STEPS, LEAST_NS = 3, 20_000_000
"""Least steps and least time of a turn, after its first step."""
WARM_TURNS = 4
"""Warm-up turns of each program."""
GAUGE, SLOW, QUICK = 4_000, 1.1, 0.05
"""Rounds of the loop that measures a core's speed; the largest slowdown relative to a
fast core; and the quantile of all that defines a fast core."""
LEAST_CALM = 3
"""With fewer calm steps, the ones with the fastest core count."""


class Sample(NamedTuple):
    """One step."""

    took_ns: int
    faults: int
    """Page faults of the process during the step."""
    is_disturbed: bool
    """Whether something else had the core during the step."""
    gauge_ns: int
    """The duration of a constant loop, right before or after: the longer one."""


Turn = list[Sample]


class Repeat(msgspec.Struct):
    """Measurements of one set of processes."""

    blocks: list[list[Turn]]
    """In the order of `TURNS`."""
    recorded: list[Turn]
    """In the order of the recordings."""

    def steps(self, program: int) -> Turn:
        """The unprofiled steps of a program."""
        return steps_of([turn for block in self.blocks for turn in block], program)


class Measured(msgspec.Struct):
    """Measurements of all repeats."""

    how: str
    """How far programs were isolated from other processes."""
    repeats: list[Repeat]


# Derived from steps.


def steps_of(turns: Sequence[Turn], program: int, order: Sequence[int] = TURNS) -> Turn:
    """All steps of a program; `order` says whose turn it was, repeatedly."""
    return [
        step
        for turn, who in zip(turns, cycle(order), strict=False)
        for step in turn
        if who == program
    ]


def quick(steps: Iterable[Sample]) -> float:
    """[ns] The gauge on a fast core."""
    gauges = sorted(step.gauge_ns for step in steps)
    return gauges[int(QUICK * len(gauges))]


def calm(steps: Sequence[Sample], quick_ns: float) -> Turn:
    """The steps that count."""
    alone = [step for step in steps if not step.is_disturbed]
    found = [step for step in alone if step.gauge_ns <= SLOW * quick_ns]
    if len(found) >= LEAST_CALM:
        return found
    return sorted(alone or steps, key=lambda step: step.gauge_ns)[:LEAST_CALM]


def typical(steps: Sequence[Sample], quick_ns: float) -> float:
    """[ns] The median of the steps that count."""
    return statistics.median(step.took_ns for step in calm(steps, quick_ns))


def ratios(repeat: Repeat) -> tuple[float, float]:
    """After over before, and before over itself, of unprofiled steps."""
    every = [repeat.steps(program) for program in (BEFORE, AFTER, AGAIN)]
    quick_ns = quick(step for steps in every for step in steps)
    before, after, again = (typical(steps, quick_ns) for steps in every)
    return after / math.sqrt(before * again), again / before


# Isolation on one core, as far as the system allows it.


def isolate() -> str:
    """Isolate this process from others; returns what was possible."""
    gc.collect()
    gc.freeze()
    gc.disable()
    return f"{_pinned()}, {_urgent()}"


def _pinned() -> str:
    core = max(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        return f"on any core ({error.strerror})"
    return "on one core"


def _urgent() -> str:
    """Raise the priority; children, such as data loading workers, do not inherit it."""
    alone = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    usual = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, alone, os.sched_param(1))
    except OSError as error:
        refused = error.strerror
    else:
        return "in real time (`SCHED_FIFO`)"
    try:
        os.sched_setscheduler(0, usual, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        return f"at ordinary priority ({refused})"
    return "at nice -20"


def gauge() -> int:
    """[ns] The duration of a loop that needs only the core."""
    began = time.perf_counter_ns()
    for _ in range(GAUGE):
        pass
    return time.perf_counter_ns() - began


class Watch:
    """Detects whether something else had this thread's core."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        """Watch the only core of this process, or all."""
        cores = os.sched_getaffinity(0)
        self._core = f"cpu{min(cores)}" if len(cores) == 1 else "cpu"
        self._stat = stat

    def sample(self, step: Step) -> Sample:
        """Run a step."""
        stolen, usage = self._stolen(), resource.getrusage(resource.RUSAGE_THREAD)
        speed = gauge()
        began = time.perf_counter_ns()
        step()
        took = time.perf_counter_ns() - began
        speed = max(speed, gauge())
        now = resource.getrusage(resource.RUSAGE_THREAD)
        return Sample(
            took,
            now.ru_minflt - usage.ru_minflt,
            now.ru_nivcsw > usage.ru_nivcsw or self._stolen() > stolen,
            speed,
        )

    def _stolen(self) -> int:
        """Ticks stolen by other virtual machines."""
        cores = (line.split() for line in self._stat.read_text().splitlines())
        return next(int(words[8]) for words in cores if words[0] == self._core)


# Processes that take turns.


def turn(
    step: Step,
    watch: Watch,
    warm: int = 1,
    least: int = LEAST_STEPS,
    least_ns: int = LEAST_NS,
) -> Turn:
    """The steps of a turn, without the first ones."""
    for _ in range(warm):
        step()
    until = time.perf_counter_ns() + least_ns
    found: Turn = []
    while len(found) < least or time.perf_counter_ns() < until:
        found.append(watch.sample(step))
    return found


class Runner:
    """A program in its own process, which runs tasks on request."""

    def __init__(self, make: Callable[[], Step], others: Iterable[Runner] = ()) -> None:
        """Start it: `make` is called there. `others` are those already started."""
        forking = multiprocessing.get_context("fork")
        self._here, there = forking.Pipe()
        ours = [self._here, *(other._here for other in others)]  # noqa: SLF001 (its own)
        self._process = forking.Process(target=_serve, args=(there, ours, make))
        self._process.start()
        there.close()
        self.how: str = self._here.recv()

    def ask(self, task: Task) -> Turn:
        """Run a task and wait for the result."""
        self._here.send(task)
        found: Turn = self._here.recv()
        return found

    def stop(self) -> None:
        """Stop the process."""
        if self._process.is_alive():
            self._here.send(None)
        self._process.join()


def _serve(
    asked: Connection, inherited: Iterable[Connection], make: Callable[[], Step]
) -> None:
    """Create a program, and run tasks until the pipe closes."""
    # With a copy of these pipes, it would not notice that the parent has gone.
    for connection in inherited:
        connection.close()
    step = make()
    asked.send(isolate())
    watch = Watch()
    try:
        while (task := asked.recv()) is not None:
            asked.send(task(step, watch))
    except EOFError:
        return


@contextmanager
def running(makes: Sequence[Callable[[], Step]]) -> Iterator[list[Runner]]:
    """Processes of some programs, in a `with` block."""
    runners: list[Runner] = []
    try:
        for make in makes:
            runners.append(Runner(make, runners))
        yield runners
    finally:
        for runner in runners:
            runner.stop()


def blocks(runners: Sequence[Runner]) -> list[list[Turn]]:
    """Blocks until each program has enough calm steps, or the maximum is reached."""
    for runner in runners:
        for _ in range(WARM_TURNS):
            runner.ask(turn)
    found: list[list[Turn]] = []
    while len(found) < MOST_BLOCKS and not _are_enough(found):
        found.append([runners[program].ask(turn) for program in TURNS])
    return found


def _are_enough(found: list[list[Turn]]) -> bool:
    repeat = Repeat(found, [])
    every = [repeat.steps(program) for program in {*TURNS}]
    if not found:
        return False
    quick_ns = quick(step for steps in every for step in steps)
    return all(len(calm(steps, quick_ns)) >= CALM_STEPS for steps in every)
