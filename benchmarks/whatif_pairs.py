"""Predict real changes of trainings on this machine's CPU: `docs/whatif-pairs.md`.

    python benchmarks/whatif_pairs.py --write docs/whatif-pairs.md

Each pair (`changes.py`) is measured side by side (`side_by_side.py`), without a
profiler and recorded. What was measured is kept, so that a run which was broken off
goes on, and can be predicted again; with `--anew` all is measured again. Measuring has
one core for itself, for some minutes, where the system allows that.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import side_by_side
from measure import cache, tell
from msgspec import structs
from pages import filled, machine, parser, publish, table
from side_by_side import AFTER, AGAIN, BEFORE, Measured, Repeat

import tracedb
from tracedb.whatif.edit_line import parse
from tracedb.whatif.scenario import UNPROFILED, of_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl
    from side_by_side import Turn, Watch

    from tracedb.whatif.scenario import Edit

WARMUP, RECORDED = 3, 12
"""Steps of a recording: warm-up, and recorded."""
RECORDINGS = (BEFORE, AFTER, AFTER, BEFORE)
"""The recordings of a repeat, in order."""
GOAL = 0.05
UNCHANGED = "unchanged"
"""The pair without a change, under the same rules as all others."""
SHOWN, LEAST_SHARE = 3, 0.01
"""Parts of an error: at most this many, and each at least this share of a step."""

MEASURED_BY = ("changes.py", "side_by_side.py")
SIDES = {BEFORE: "before", AFTER: "after"}
Times = list[list[int]]
"""[ns] Steps, by recording."""


class Part(NamedTuple):
    """Host time of one kind in a step: the median of recorded steps."""

    name: str
    before_ns: float
    predicted_ns: float
    """After the change, predicted from before."""
    after_ns: float

    @property
    def off_ns(self) -> float:
        """How much the prediction is too high."""
        return self.predicted_ns - self.after_ns

    @property
    def is_left_alone(self) -> bool:
        """Whether neither the edits nor the program change it."""
        change = abs(self.predicted_ns - self.before_ns)
        is_there = self.before_ns > 0 < self.after_ns
        return is_there and change <= LEAST_SHARE * self.before_ns


class Pair(NamedTuple):
    """Measurements and predictions of a change; ratios are after over before."""

    name: str
    measured: PairMeasured
    predicted: float
    """From the recorded steps."""
    plain_predicted: float
    """From the steps without profiler cost."""
    parts: list[Part]

    @property
    def ratio(self) -> float:
        """The measured effect on unprofiled steps."""
        return statistics.median(ratio for ratio, _ in self.ratios)

    @property
    def ratios(self) -> list[tuple[float, float]]:
        """By repeat: after over before, and before over itself."""
        return [side_by_side.ratios(repeat) for repeat in self.measured.repeats]

    @property
    def recorded(self) -> float:
        """The measured effect on recorded steps."""
        return statistics.median(map(recorded_ratio, self.measured.repeats))

    @property
    def floor(self) -> float:
        """The largest difference of a program from itself, as a share."""
        return max(abs(ratio - 1) for _, ratio in self.ratios)

    @property
    def spread(self) -> float:
        """The largest deviation of a repeat from the result, as a share."""
        return max(abs(ratio / self.ratio - 1) for ratio, _ in self.ratios)

    @property
    def noise(self) -> float:
        """Smaller errors are not significant."""
        return max(self.floor, self.spread)

    @property
    def error(self) -> float:
        """Predicted over measured, minus 1, for unprofiled steps."""
        return self.plain_predicted / self.ratio - 1

    @property
    def recorded_error(self) -> float:
        """The same for recorded steps."""
        return self.predicted / self.recorded - 1

    @property
    def is_noticed(self) -> bool:
        """Whether the change exceeds the noise."""
        return abs(self.ratio - 1) > self.noise

    @property
    def is_right(self) -> bool:
        """Whether the direction of the change is predicted."""
        return (self.ratio - 1) * (self.plain_predicted - 1) > 0

    def typical(self, program: int) -> float:
        """[ns] A step of a program."""
        steps = self.steps(program)
        return side_by_side.typical(steps, side_by_side.quick(steps))

    def faults(self, program: int) -> float:
        """Page faults of a step: the median."""
        return statistics.median(step.faults for step in self.steps(program))

    def steps(self, program: int) -> Turn:
        """The steps of a program in all repeats."""
        return [s for repeat in self.measured.repeats for s in repeat.steps(program)]


def recorded_ratio(repeat: Repeat) -> float:
    """After over before of recorded steps."""
    every = [
        side_by_side.steps_of(repeat.recorded, program, RECORDINGS) for program in SIDES
    ]
    quick_ns = side_by_side.quick(step for steps in every for step in steps)
    before, after = (side_by_side.typical(steps, quick_ns) for steps in every)
    return after / before


# A process that measures one pair.

MEMORY: dict[str, dict[str, str]] = {
    "kept": {
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    },
    "usual": {},
}
"""How the C library gives tensors memory, as the environment says it.

Usually a tensor takes memory that another has left, if that fits, else new pages, each
of which costs a page fault: ops become faster or slower with all else that a step does.
Kept: nothing is given back to the system, and what programs need was taken before, in
huge pages where the system has them. That is much, since the C library cannot use a
large tensor's memory again while the profiler keeps a small object at its end.
"""
NEEDED = 1 << 30
"""[B] The most that programs and the profiler need."""
DONE = "measured.json"
"""Written last."""
READY_S = 0.1
"""[s] The time in which workers have the next batch ready."""


class PairMeasured(Measured):
    """Measurements of a pair."""

    taken_ns: float | None = None
    """[ns] Taking a batch from a worker process, if an edit says it."""


def work(memory: str, folder: Path, names: Sequence[str]) -> None:
    """Measure the programs of pairs, and record them."""
    # Once, before forking: the first optimizer imports the second module.
    import torch._dynamo  # noqa: F401
    from changes import CHANGES, TAKEN

    for name in names:
        tell(f"measuring {name}, {memory} memory")
        taken_ns = taking_ns() if TAKEN in " ".join(CHANGES[name].edits) else None
        makes = [partial(program, name, memory, n) for n in (BEFORE, AFTER, AGAIN)]
        repeats, how = [], ""
        for number in range(side_by_side.REPEATS):
            with side_by_side.running(makes) as runners:
                how = runners[BEFORE].how
                blocks = side_by_side.blocks(runners)
                files = [
                    file_of(folder / name, program, number, at)
                    for at, program in enumerate(RECORDINGS)
                ]
                recorded = [
                    runners[program].ask(partial(record, file))
                    for program, file in zip(RECORDINGS, files, strict=True)
                ]
            repeats.append(Repeat(blocks, recorded))
        done = msgspec.json.encode(PairMeasured(how, repeats, taken_ns))
        (folder / name / DONE).write_bytes(done)


def program(name: str, memory: str, which: int) -> Callable[[], object]:
    """The step of a program, with the memory settings above."""
    import torch
    from changes import CHANGES

    torch.set_num_threads(1)
    step = CHANGES[name].step(after=which == AFTER)
    # Not before processes are forked that load data: each page would be copied when it
    # is written to.
    if memory == "kept":
        bytearray(NEEDED)
    return step


def taking_ns() -> float:
    """[ns] Taking a batch that worker processes have ready, beside nothing else."""
    from changes import taking

    with side_by_side.running([taking]) as (runner,):
        found = runner.ask(taken)
    return side_by_side.typical(found, side_by_side.quick(found))


def taken(step: Callable[[], object], watch: Watch) -> Turn:
    """Take batches, none before it is ready."""
    found = []
    for _ in range(RECORDED):
        time.sleep(READY_S)
        found.append(watch.sample(step))
    return found


def record(path: Path, step: Callable[[], object], watch: Watch) -> Turn:
    """Record steps with PyTorch's profiler.

    The marks enclose steps only: those of `profiler.step` reach to the next step and
    would include the gauges.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    def marked(number: int) -> None:
        with record_function(f"ProfilerStep#{number}"):
            step()

    path.parent.mkdir(parents=True, exist_ok=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(WARMUP):
            step()
        found = [watch.sample(partial(marked, n)) for n in range(RECORDED)]
    profiler.export_chrome_trace(str(path))
    return found


def file_of(folder: Path, which: int, repeat: int, at: int) -> Path:
    """The path of a recording."""
    return folder / SIDES[which] / f"{repeat}-{at}.json.gz"


# The parent process: predictions and page.


def pair_of(name: str, folder: Path) -> Pair:
    """Measurements of a pair, and its predictions."""
    from changes import CHANGES, TAKEN

    measured = msgspec.json.decode((folder / DONE).read_bytes(), type=PairMeasured)
    given = f"{measured.taken_ns or 0:.0f}"
    lines = [line.replace(TAKEN, given) for line in CHANGES[name].edits]
    edits = [of_scenario("after", parse(line)) for line in lines]
    with tracedb.open() as database:
        database.ingest(sorted((folder / SIDES[BEFORE]).iterdir()))
        ratios = predicted(database, edits, measured)
        calm = calm_ids(database, measured, BEFORE)
        before = parts(database, calm)
        with database.simulate(["replay"], edits) as beside:
            expected = parts(beside, calm, PREDICTED)
    with tracedb.open() as database:
        database.ingest(sorted((folder / SIDES[AFTER]).iterdir()))
        after = parts(database, calm_ids(database, measured, AFTER))
    kinds = sorted({*before, *expected, *after})
    times_of_kinds = [
        Part(kind, *(times.get(kind, 0) for times in (before, expected, after)))
        for kind in kinds
    ]
    return Pair(name, measured, *ratios, times_of_kinds)


def predicted(
    database: tracedb.Database, edits: Sequence[Edit], measured: Measured
) -> tuple[float, float]:
    """After over before: with the profiler, and without it.

    A step is its mark: time between marks belongs to the profiler.
    """
    both = [structs.replace(edit, scenario="both") for edit in [*edits, UNPROFILED]]
    steps = database.scenarios([*edits, UNPROFILED, *both])

    def times(scenario: str, column: str = "predicted_host_ns") -> Times:
        return rounds(steps.filter(steps["scenario"] == scenario), column)

    calm = [counts for each in measured.repeats for counts in calm_steps(each, BEFORE)]
    return (
        change(times("after", "baseline_host_ns"), times("after"), calm),
        change(times(UNPROFILED.scenario), times("both"), calm),
    )


def calm_steps(repeat: Repeat, program: int) -> list[list[bool]]:
    """The steps of each recording of a program that count."""
    quick_ns = side_by_side.quick(step for turn in repeat.recorded for step in turn)
    steps = side_by_side.steps_of(repeat.recorded, program, RECORDINGS)
    counted = side_by_side.calm(steps, quick_ns)
    return [
        [step in counted for step in turn]
        for turn, who in zip(repeat.recorded, RECORDINGS, strict=True)
        if who == program
    ]


def calm_ids(database: tracedb.Database, measured: Measured, program: int) -> list[int]:
    """The ids of the steps that count in a program's recordings."""
    ids = database.sql("SELECT step_id FROM staging.step ORDER BY trace_id, step")
    counts = (
        is_calm
        for repeat in measured.repeats
        for turn in calm_steps(repeat, program)
        for is_calm in turn
    )
    return [
        step for (step,), is_calm in zip(ids.rows(), counts, strict=True) if is_calm
    ]


def rounds(steps: pl.DataFrame, column: str) -> Times:
    """A column of a relation of steps, by trace."""
    found: dict[int, list[int]] = {}
    for trace, time_ns in steps.sort("trace_id", "step")["trace_id", column].rows():
        found.setdefault(trace, []).append(time_ns)
    return list(found.values())


def change(before: Times, after: Times, calm: Sequence[Sequence[bool]]) -> float:
    """After over before: the median of the recorded steps that count."""
    return statistics.median(
        new / old
        for olds, news, counts in zip(before, after, calm, strict=True)
        for old, new, is_calm in zip(olds, news, counts, strict=True)
        if is_calm
    )


RECORDED_PARTS = "SELECT step_id, type, name, sample_ns AS time_ns FROM overhead.sample"
PREDICTED = """
SELECT step_id, type, name, outcome.end_ns - outcome.start_ns AS time_ns
FROM overhead.sample
INNER JOIN critical_path.host_outcome AS outcome USING (thread_id, position)
INNER JOIN prediction.variant USING (variant_id)
WHERE scenario = 'after'
"""
BY_KIND = """
SELECT kind, median(time_ns)
FROM (
    SELECT
        step_id,
        CASE type
            WHEN 'T1' THEN 'between ops'
            WHEN 'wait_data' THEN 'loading'
            WHEN 'idle' THEN 'idle'
            ELSE name
        END AS kind,
        sum(time_ns) AS time_ns
    FROM ({spans})
    WHERE step_id IN {steps}
    GROUP BY ALL
)
GROUP BY kind
"""


def parts(
    database: tracedb.Database, steps: Sequence[int], spans: str = RECORDED_PARTS
) -> dict[str, float]:
    """[ns] Host time in a step: each top-level op, gaps, and data loading."""
    query = BY_KIND.format(spans=spans, steps=[*steps])
    return dict(database.sql(query).rows())


def hurry() -> None:
    """Measure as little as possible, to try out the rest."""
    side_by_side.REPEATS = side_by_side.MOST_BLOCKS = side_by_side.WARM_TURNS = 1


def measure(memory: str, names: Sequence[str], more: Sequence[str]) -> None:
    """Measure pairs that have not been measured yet."""
    folder = recordings() / memory
    missing = [name for name in names if not (folder / name / DONE).exists()]
    # Output of other libraries' threads and of Kineto.
    quiet = {"OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"}
    command = [sys.executable, __file__, *more]
    command += ["--work", memory, str(folder), *missing]
    environment = os.environ | quiet | MEMORY[memory]
    if missing:
        subprocess.run(command, check=True, env=environment)  # noqa: S603 (this program)


def predictions(memory: str, names: Sequence[str]) -> list[Pair]:
    """Predictions for measured pairs."""
    tell(f"predicting, {memory} memory")
    return [pair_of(name, recordings() / memory / name) for name in names]


def recordings() -> Path:
    """The folder of recordings, by what is measured and how."""
    programs = (Path(__file__).with_name(name) for name in MEASURED_BY)
    text = b"".join(program.read_bytes() for program in programs)
    sizes = WARMUP, RECORDED, side_by_side.REPEATS
    counts = (*sizes, RECORDINGS, MEMORY, NEEDED, READY_S)
    digest = hashlib.sha256(text + str(counts).encode()).hexdigest()
    return cache() / f"whatif-pairs-{digest[:12]}"


ABOUT = """# What if, against real changes

Written by `python benchmarks/whatif_pairs.py --anew --write docs/whatif-pairs.md` on
{machine}, torch {torch}, one thread.

Small trainings on the CPU (`benchmarks/changes.py`), each before and after one change.
From recordings before the change, `tracedb whatif` predicts how much steps change, with
edits that can be written before the change is made: nothing in them is fitted. Four of
them (`log`, `momentum`, `frozen`, `table`) were corrected after earlier recordings had
been compared op by op with the prediction. They now state what code and shapes show
before the change: which additions belong to the momentum, and that the number of
lookups stays the same. `unchanged` is a pair without a change, under the same rules;
medians exclude it.

## How it is measured

The rules are in `benchmarks/side_by_side.py`. They were chosen by how little a program
differs from itself, and by page faults, not by prediction errors.

- Each program is a separate process; they take turns, here {how}. Garbage collection is
  off meanwhile.
- A turn has at least {least} steps and {least_ms:g} ms, after a first step that does
  not count. A block has the turns *before, after, before again, before again, after,
  before*, so linear drift affects all alike. A repeat has as many blocks, in new
  processes, as are needed for {calm} calm steps of each program, and at most {most};
  there are {repeats} repeats.
- A step is calm if no other process, and no other virtual machine of the host, had the
  core meanwhile (involuntary context switches, steal time), and if a short loop right
  before and after it took at most {slow:g} % longer than when the core is quick: a core
  is slower while its hyperthread sibling works. Other steps do not count: here
  {disturbed:.1f} % were disturbed, and {slower:.1f} % slow.
- The true ratio is `after` divided by `before` for unrecorded steps: the ratio of
  medians in a repeat, then the median of the repeats. *Before again* is the same
  program once more. `A/A` is how much it differs from itself in the worst repeat;
  `repeats` is how much a repeat of the change differs from the true ratio. The larger
  of the two is the `noise`: no error below it is significant.
- After the blocks of a repeat, before, after, after and before are recorded, {recorded}
  steps each, with shapes. A mark encloses only a step, without the loops that measure
  the core's speed. The prediction is the median of the calm steps of the recordings
  before. `error` is the predicted ratio divided by the true one, minus 1, with the
  profiler's estimated overhead subtracted from both (`profiler x0`); the `recorded`
  columns include that overhead, and compare with recorded steps.
"""
KEPT = """## With memory kept by the process

An edit assumes that the time of all other ops does not change. That is nearly true if
memory costs nothing. `MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1099511627776` makes
the C library keep freed memory, as PyTorch does with GPU memory; the memory needed was
allocated beforehand, in huge pages (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`).
"""
MADE_OF = """### Breakdown of the errors

For recorded calm steps, in % of the step after the change: how much faster the ops that
the edits do not touch become (`alone`), which no edit made beforehand can know, and
`the rest`. Then the largest differences, in ms, as predicted and as recorded after the
change.
"""
REST = """No trace shows the following, as the answers say:

- `transformer`: without dropout PyTorch's attention uses other kernels, which no edit
  describes.
- `table`: as many lookups are added up in half as many rows, of which more stay in
  caches.
- `foreach`: lists need Python of their own, to sort tensors by device and type. The
  edit takes all Python from the optimizer, as the change was described.
- `workers`: a batch that is ready must still be taken from its process, in {taken},
  which is measured beforehand, without the training. And the workers have no cores of
  their own: they share them with all else on the machine, and caches with the training.
"""
USUAL = """## With the default allocator

By default a tensor takes memory that others have freed, if it fits there. Otherwise it
takes new pages, and each costs a page fault in the op that first writes to it: a
microsecond, or several on a virtual machine. So changing some ops makes other,
unchanged ops faster or slower. Recording with shapes does so too, presumably because
the profiler then keeps a small object for each tensor, often in the last bytes of what
its memory was cut from: the heap of `table` grew by 15 MB and 3,750 pages in each
recorded step, and in none without shapes. `profiler x0` does not cover that, and no
edit describes memory. To predict changes to a CPU training, record it with the setting
above, and with as much memory allocated beforehand as it needs.
"""
HEAD = (
    *("pair", "before, ms", "after, ms", "change, %", "predicted, %", "error, %"),
    *("A/A, %", "repeats, %"),
    *("recorded change, %", "recorded predicted, %", "recorded error, %"),
)
MADE_OF_HEAD = ("pair", "recorded error, %", "alone, %", "the rest, %", "most")
FAULTS = ("pair", "faults before, kept", "after", "faults before, usual", "after")


def percent(share: float) -> str:
    """A signed percentage."""
    return f"{100 * share:+.1f}"


def row(pair: Pair) -> list[str]:
    """The row of a pair."""
    return [
        pair.name,
        *(f"{pair.typical(program) / 1e6:.2f}" for program in SIDES),
        *map(percent, (pair.ratio - 1, pair.plain_predicted - 1, pair.error)),
        *(f"{100 * share:.1f}" for share in (pair.floor, pair.spread)),
        *map(percent, (pair.recorded - 1, pair.predicted - 1, pair.recorded_error)),
    ]


RESULT = (
    "Median error **{error:.1f} %** (goal {goal:g} %; of recorded steps "
    "{recorded:.1f} %), median noise {noise:.1f} % (A/A {floor:.1f} %). The direction "
    "is right in {right} of {all} pairs, and in {right_noticed} of the {noticed} whose "
    "change is larger than their noise. {above} errors are above their noise{named}."
)


def result(pairs: Sequence[Pair]) -> str:
    """Results against the goals, over pairs with a change."""
    pairs = [pair for pair in pairs if pair.name != UNCHANGED]

    def middle(of: Callable[[Pair], float]) -> float:
        return 100 * statistics.median(abs(of(pair)) for pair in pairs)

    above = [pair.name for pair in pairs if abs(pair.error) > pair.noise]
    if not pairs:
        return "No pair has a change."
    return filled(
        RESULT,
        error=middle(lambda pair: pair.error),
        goal=100 * GOAL,
        recorded=middle(lambda pair: pair.recorded_error),
        noise=middle(lambda pair: pair.noise),
        floor=middle(lambda pair: pair.floor),
        right=sum(pair.is_right for pair in pairs),
        all=len(pairs),
        right_noticed=sum(pair.is_right and pair.is_noticed for pair in pairs),
        noticed=sum(pair.is_noticed for pair in pairs),
        above=len(above),
        named=f": {', '.join(above)}" if above else "",
    )


def made_of(pair: Pair) -> list[str]:
    """The row with the parts of a pair's error."""
    step = sum(part.after_ns for part in pair.parts)
    alone = sum(part.off_ns for part in pair.parts if part.is_left_alone)
    rest = sum(part.off_ns for part in pair.parts if not part.is_left_alone)
    most = sorted(pair.parts, key=lambda part: -abs(part.off_ns))[:SHOWN]
    shown = [
        f"`{part.name}` {part.predicted_ns / 1e6:.2f} → {part.after_ns / 1e6:.2f}"
        for part in most
        if abs(part.off_ns) >= LEAST_SHARE * step
    ]
    shares = (pair.recorded_error, alone / step, rest / step)
    return [pair.name, *map(percent, shares), ", ".join(shown)]


def rest(pairs: Sequence[Pair]) -> str:
    """What the largest errors come from."""
    taken = [of.measured.taken_ns for of in pairs if of.measured.taken_ns is not None]
    return REST.format(taken=f"{taken[0] / 1e6:.1f} ms" if taken else "`{taken}`")


def faults(kept: Pair, usual: Pair) -> list[str]:
    """The row with a pair's page faults."""
    pairs = (kept, usual)
    return [kept.name, *(f"{p.faults(side):,.0f}" for p in pairs for side in SIDES)]


def about(pairs: Sequence[Pair]) -> str:
    """How it was measured."""
    from importlib.metadata import version

    every = [pair.steps(program) for pair in pairs for program in SIDES]
    steps = [(step, side_by_side.quick(each)) for each in every for step in each]
    return ABOUT.format(
        machine=machine(None),
        torch=version("torch"),
        how="; ".join(sorted({pair.measured.how for pair in pairs})),
        least=side_by_side.LEAST_STEPS,
        least_ms=side_by_side.LEAST_NS / 1e6,
        calm=side_by_side.CALM_STEPS,
        most=side_by_side.MOST_BLOCKS,
        repeats=side_by_side.REPEATS,
        slow=100 * side_by_side.SLOW - 100,
        disturbed=100 * statistics.mean(step.is_disturbed for step, _ in steps),
        slower=100
        * statistics.mean(s.gauge_ns > side_by_side.SLOW * quick for s, quick in steps),
        recorded=RECORDED,
    )


def page(pairs: Mapping[str, Sequence[Pair]]) -> str:
    """The whole page."""
    from changes import CHANGES

    kept, usual = (pairs[memory] for memory in MEMORY)
    changes = [
        [pair.name, CHANGES[pair.name].about, _code(CHANGES[pair.name].edits)]
        for pair in kept
    ]
    return "\n".join(
        [
            *(about([*kept, *usual]), KEPT, result(kept), ""),
            *(*table([*HEAD], map(row, kept)), "", MADE_OF),
            *(
                *table([*MADE_OF_HEAD], map(made_of, kept), texts={"most"}),
                "",
                rest(kept),
            ),
            *(USUAL, result(usual), ""),
            *(*table([*HEAD], map(row, usual)), ""),
            *("Page faults of a step that nothing records:", ""),
            *(*table([*FAULTS], map(faults, kept, usual)), ""),
            *("## The changes", ""),
            *(*table(["pair", "change", "edits"], changes, left=3), ""),
        ]
    )


def _code(edits: Sequence[str]) -> str:
    return ", ".join(f"`{edit}`" for edit in edits).replace("|", "\\|")


def main() -> None:
    """Measure what is missing and print the page, or measure as a child process."""
    asked = parser(__doc__)
    say = asked.add_argument
    say("pairs", nargs="*", help="which pairs; all where none is named")
    say("--anew", action="store_true", help="measure again what was measured before")
    say("--quick", action="store_true", help="try it: what it measures means nothing")
    say("--work", nargs="+", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.quick and given.write:
        asked.error("--quick measures nothing that is worth writing")
    if given.quick:
        hurry()
    if given.work:
        memory, folder, *missing = given.work
        work(memory, Path(folder), missing)
        return
    from changes import CHANGES

    if given.anew:
        shutil.rmtree(recordings(), ignore_errors=True)
    names = given.pairs or [*CHANGES]
    for memory in MEMORY:
        measure(memory, names, ["--quick"] if given.quick else [])
    publish(
        page({memory: predictions(memory, names) for memory in MEMORY}), given.write
    )


if __name__ == "__main__":
    main()
