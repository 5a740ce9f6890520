"""Programs measured side by side: drift and disturbance do not count."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import side_by_side
from side_by_side import (
    AFTER,
    AGAIN,
    BEFORE,
    CALM_STEPS,
    MOST_BLOCKS,
    TURNS,
    Repeat,
    Runner,
    Sample,
    Turn,
    Watch,
)
from support import ROOT
from whatif_pairs import (
    RECORDINGS,
    UNCHANGED,
    Pair,
    PairMeasured,
    Part,
    calm_steps,
    change,
    made_of,
    result,
)

TIMES = {BEFORE: 8_000, AFTER: 6_000, AGAIN: 8_000}
"""[ns] A step of each program."""


QUICK = 100
"""[ns] The gauge of a fast core."""


def steps(*times: int, disturbed: int = 0, gauge: int = QUICK) -> Turn:
    """A turn whose first steps were disturbed."""
    return [Sample(time, 0, at < disturbed, gauge) for at, time in enumerate(times)]


def block(of: Callable[[int, int], Turn]) -> list[Turn]:
    """A block, with its turns given by position and program."""
    return [of(at, program) for at, program in enumerate(TURNS)]


def quiet(_at: int, program: int) -> Turn:
    """Three undisturbed steps."""
    return steps(*[TIMES[program]] * 3)


def test_drift_affects_all_programs_alike() -> None:
    """A machine that slows down at a constant rate changes no ratio."""
    slower = block(lambda at, program: steps(*[TIMES[program] * (10 + at)] * 3))
    assert side_by_side.ratios(Repeat([slower], [])) == pytest.approx((0.75, 1))


def test_disturbed_steps_do_not_count() -> None:
    """Nor do those of a slow core, however many; the median of the others counts."""
    calm = steps(10, 12, 14)
    slow = steps(*[40] * 50, gauge=111)
    assert side_by_side.typical([*calm, *slow, *steps(9, disturbed=1)], QUICK) == 12
    assert side_by_side.quick([*calm, *slow]) == QUICK


def test_a_busy_machine() -> None:
    """Steps with the fastest core count, before any disturbed ones."""
    noisy = [steps(time, gauge=time)[0] for time in (300, 200, 150, 400)]
    assert side_by_side.typical([*noisy, *steps(9, disturbed=1)], QUICK) == 200
    assert side_by_side.typical(steps(9, 8, disturbed=2), QUICK) == 8.5


def test_a_slow_core_changes_no_ratio() -> None:
    """One program may run on it more often than another."""

    def often(_at: int, program: int) -> Turn:
        slow = steps(*[2 * TIMES[program]] * (6 if program == AFTER else 1), gauge=170)
        return [*quiet(0, program), *slow]

    assert side_by_side.ratios(Repeat([block(often)], [])) == pytest.approx((0.75, 1))


def test_a_program_beside_itself() -> None:
    """Its difference from itself is reported, and compared with the change."""
    again = block(lambda _, who: steps(*[TIMES[who] * (1 + 3 * (who == AGAIN))] * 3))
    assert side_by_side.ratios(Repeat([again], [])) == pytest.approx((0.375, 4))


@pytest.mark.parametrize("stolen", [0, 3])
@pytest.mark.parametrize("switches", [0, 2])
def test_watch(
    stolen: int, switches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step is disturbed if its thread or its machine lost the core meanwhile."""
    stat = tmp_path / "stat"
    usages = [SimpleNamespace(ru_minflt=n, ru_nivcsw=n * switches) for n in (5, 7)]
    monkeypatch.setattr(resource, "getrusage", lambda _who: usages.pop(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1})
    lines = "cpu  1 1 1 1 1 1 1 {other} 0 0\ncpu0 1 1 1 1 1 1 1 {other} 0 0\n"
    lines += "cpu1 1 1 1 1 1 1 1 {mine} 0 0\n"
    stat.write_text(lines.format(other=1, mine=1))

    def step() -> None:
        stat.write_text(lines.format(other=9, mine=1 + stolen))

    monkeypatch.setattr(side_by_side, "gauge", [150, 120].pop)
    sample = Watch(stat).sample(step)
    assert sample.gauge_ns == 150
    assert sample.is_disturbed == bool(stolen or switches)
    assert sample.faults == 2


REFUSED = "not allowed here"


def refuse(*_words: object) -> None:
    """A system that allows nothing."""
    raise PermissionError(1, REFUSED)


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ((), "on one core, in real time (`SCHED_FIFO`)"),
        (("setaffinity",), f"on any core ({REFUSED}), in real time (`SCHED_FIFO`)"),
        (("fifo",), "on one core, at nice -20"),
        (("fifo", "nice"), f"on one core, at ordinary priority ({REFUSED})"),
    ],
)
def test_isolate(
    refused: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system does not allow is reported and left out."""

    def schedule(_pid: int, policy: int, _priority: object) -> None:
        if "fifo" in refused and policy & os.SCHED_FIFO:
            refuse()

    pinned = refuse if "setaffinity" in refused else lambda *_: None
    monkeypatch.setattr(os, "sched_setaffinity", pinned)
    monkeypatch.setattr(os, "sched_setscheduler", schedule)
    raised = refuse if "nice" in refused else lambda *_: None
    monkeypatch.setattr(os, "setpriority", raised)
    for name in ("collect", "freeze", "disable"):
        monkeypatch.setattr(gc, name, lambda: None)
    assert side_by_side.isolate() == expected


class Told(Runner):
    """A program with predetermined turns."""

    def __init__(self, turns: Callable[[int], Turn]) -> None:
        """It starts no process."""
        self._turns, self._asked = turns, count()

    def ask(self, task: side_by_side.Task) -> Turn:
        """The next turn."""
        assert task is side_by_side.turn
        return self._turns(next(self._asked))


def test_blocks_run_until_enough_is_undisturbed() -> None:
    """Or until the maximum number of blocks."""

    def told(who: int, gauge: int = QUICK) -> Told:
        return Told(lambda at: steps(*[TIMES[who]] * 3, gauge=gauge if at else QUICK))

    # A block has two turns of each program, of three steps here.
    assert len(side_by_side.blocks([*map(told, TIMES)])) == CALM_STEPS / 6
    slow = [told(BEFORE), told(AFTER), told(AGAIN, 2 * QUICK)]
    assert len(side_by_side.blocks(slow)) == MOST_BLOCKS


PROCESSES = """
import os
from side_by_side import running

def make(number):
    return lambda: (number, os.getpid())

def ask(step, watch):
    return [step()]

with running([lambda: make(0), lambda: make(1)]) as runners:
    answers = [runner.ask(ask)[0] for runner in (*runners, *runners)]
    print([number for number, _ in answers], len({*answers, (2, os.getpid())}))
"""


def test_processes_take_turns() -> None:
    """Each program has its own process, which ends when it is no longer needed."""
    done = subprocess.run(  # noqa: S603 (this Python)
        [sys.executable, "-c", PROCESSES],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[0, 1, 0, 1] 3\n"


def test_processes_end_with_their_parent() -> None:
    """Also if it is killed: their output pipes close then."""
    begun = PROCESSES.partition("    answers")[0] + "    os.kill(os.getpid(), 9)\n"
    done = subprocess.run(  # noqa: S603 (this Python)
        [sys.executable, "-c", begun],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL


def pair(predicted: float, parts: list[Part], *, again: int = 8_000) -> Pair:
    """A pair of steps that take 8 us before and 6 after."""
    times = TIMES | {AGAIN: again}
    blocks = [block(lambda _at, program: steps(*[times[program]] * 3))]
    recorded = [steps(10_000 if who == BEFORE else 8_000) for who in RECORDINGS]
    measured = PairMeasured("alone", [Repeat(blocks, recorded)])
    return Pair("item", measured, 0.9, predicted, parts)


def test_errors_of_pair() -> None:
    """Ratios of unprofiled steps are compared with ratios of recorded ones."""
    found = pair(0.9, [])
    assert (found.ratio, found.recorded) == pytest.approx((0.75, 0.8))
    assert found.error == pytest.approx(0.2)
    assert found.recorded_error == pytest.approx(0.125)
    assert found.noise == pytest.approx(0)
    assert (found.is_noticed, found.is_right) == (True, True)
    assert not pair(1.1, []).is_right


def test_noise_of_pair() -> None:
    """The difference of a program from itself: smaller changes are not detected."""
    found = pair(0.9, [], again=11_520)
    assert found.noise == pytest.approx(0.44)
    assert found.ratio == pytest.approx(0.625)
    assert not found.is_noticed
    assert "0 of the 0" in " ".join(result([found]).split())


def test_a_pair_without_a_change_has_no_part_in_the_result() -> None:
    """Its error would improve the median of the others."""
    unchanged = pair(0.75, [])._replace(name=UNCHANGED)
    assert "in 1 of 1 pairs" in " ".join(result([unchanged, pair(0.9, [])]).split())
    assert "Median error **20.0 %**" in result([unchanged, pair(0.9, [])])
    assert result([unchanged]) == "No pair has a change."


def test_which_recorded_steps_count() -> None:
    """Steps on a slow core predict nothing."""
    slow = [steps(9, 9, gauge=200) for _ in RECORDINGS]
    slow[0], slow[-1] = steps(10, 10), [*steps(10), *steps(30, gauge=130)]
    assert calm_steps(Repeat([], slow), BEFORE) == [[True, True], [True, False]]


def test_calm_steps_are_found_over_both_programs() -> None:
    """All steps of one program on a slow core are not calm because they are equal."""
    turns = [steps(9, 9, gauge=200 if who == BEFORE else QUICK) for who in RECORDINGS]
    turns[0] = steps(*[9] * 4, gauge=150)
    assert calm_steps(Repeat([], turns), BEFORE) == [[True] * 4, [False] * 2]
    assert calm_steps(Repeat([], turns), AFTER) == [[True] * 2] * 2


def test_disturbed_steps_predict_nothing() -> None:
    """The median of the others counts, whichever recording they are in."""
    before, after = [[10, 10, 10], [20, 20]], [[9, 1, 8], [14, 2]]
    calm = [[True, False, True], [True, False]]
    assert change(before, after, calm) == pytest.approx(0.8)


def test_what_an_error_is_made_up_of() -> None:
    """Unchanged ops are separated from those that the edit or the change creates."""
    parts = [
        Part("stays", 5_000_000, 5_000_000, 4_000_000),
        Part("halved", 4_000_000, 2_000_000, 3_500_000),
        Part("new", 0, 0, 450_000),
        Part("removed", 1_000_000, 0, 0),
        Part("small", 50_000, 50_000, 50_000),
    ]
    assert made_of(pair(0.9, parts)) == [
        *("item", "+12.5", "+12.5", "-24.4"),
        "`halved` 2.00 → 3.50, `stays` 5.00 → 4.00, `new` 0.00 → 0.45",
    ]
