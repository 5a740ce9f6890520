"""Predict changes of programs whose times vary from run to run: `docs/jitter.md`.

    python benchmarks/jitter.py --write docs/jitter.md

Generated programs are executed several times as they are, and several times with each
change made in them. What a change does is predicted from one trace of the unchanged.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from measure import tell
from pages import filled, machine, parser, publish, table

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Annotation,
    Collective,
    Copy,
    Delays,
    Form,
    Gap,
    GeneratedTrace,
    Launch,
    Memset,
    Model,
    OtherCall,
    Program,
    Table,
    Thread,
    Truth,
    change,
    execute,
    random_program,
    step,
    training_job,
)
from tracedb.synthetic.program import seeded
from tracedb.whatif.edit_line import parse
from tracedb.whatif.scenario import of_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random

    from tracedb.synthetic.change import Change, Groups
    from tracedb.synthetic.program import Action

LOOPS, JOBS, STEPS = 8, 4, 6
TRACES, EXECUTIONS = 4, 12
"""Per program: traces to predict from, and executions of each kind to compare."""
SHARES = (0.1, 0.3)
"""Relative standard deviation of times; for delays the maximum, drawn uniformly."""
SMALL = Model(
    batch=512,
    tables=(Table(1_000, 64, 4), Table(2_000, 64, 10)),
    bottom=(64, 64),
    top=(64, 32, 1),
)
LINEAR = "^aten::(linear|matmul)$"
FREE = 99
FUSED_NS, GRAPH_NS, GRAPH_GAP_NS = 10_000, 10_000, 1_000
BASELINE = "nothing"


class Deed(NamedTuple):
    """A change, as edits and in the program."""

    lines: tuple[str, ...]
    change: Change | None
    """Without a change, it depends on which launches are joined, as predicted."""
    of: tuple[str, ...] = ("loop", "job")
    """The programs that it applies to."""


def _delays(*kinds: str) -> tuple[str, ...]:
    return tuple(f"delay:{kind} x0.5" for kind in kinds)


LOOP, JOB = ("loop",), ("job",)
DEEDS = {
    BASELINE: Deed((), change.nothing),
    "scale, kernels": Deed(("gpu:kernel x0.5",), change.kernels(0.5)),
    "scale, host": Deed(
        ("host x0.5", "host:wait_data x0.5", "host:idle x0.5"), change.host_time(0.5)
    ),
    "scale, launches": Deed(("host:T4 x0.5",), change.launch_calls(0.5)),
    "scale, collectives": Deed(
        ("gpu:collective x0.5",), change.collectives(0.5), of=JOB
    ),
    "scale, delays": Deed(
        _delays("launch", "stream", "stream_wait", "return"), change.device_delays(0.5)
    ),
    "set": Deed(("gpu:kernel =5us",), change.kernels(0, 5_000)),
    "remove, kernels": Deed(("gpu:kernel remove",), change.without_work(Launch)),
    "remove, ops": Deed(
        (f"op:/{LINEAR}/ remove gaps=all",), change.without_ops(LINEAR)
    ),
    "unsync, host": Deed(("wait:host",), change.no_host_waits),
    "unsync, streams": Deed(("wait:stream",), change.no_stream_waits),
    "insert, kernels": Deed(
        ("gpu:kernel insert place=after gpu_ns=6us",),
        change.insert_kernels("after", 6_000),
    ),
    "insert, ops": Deed(
        (f"op:/{LINEAR}/ insert place=before host_ns=20us",),
        change.insert_ops("before", LINEAR, 20_000),
    ),
    "move": Deed((f"gpu:memcpy move to_stream={FREE}",), change.move_copies(FREE)),
    "overlap": Deed(
        (f"gpu:memcpy overlap until=/{LINEAR}/",),
        change.overlap(Copy, LINEAR, FREE),
        of=LOOP,
    ),
    "fuse": Deed(("gpu:kernel fuse gpu_ns=10us",), None, of=LOOP),
    "graph": Deed(("gpu graph host_ns=10us gap_ns=1us",), None, of=LOOP),
}


# Programs with varying times.


class Subject(NamedTuple):
    """A program, and how much its times vary."""

    kind: str
    seed: int
    share: float

    @property
    def program(self) -> Program:
        """Identical steps of one thread, or training on two ranks."""
        return _loop(self.seed) if self.kind == "loop" else _job(self.seed)

    def execute(self, changed: Change, purpose: str) -> list[GeneratedTrace]:
        """Execute it with a change, with random times per purpose."""
        random = seeded(*self, purpose)
        varying = varied(self.program, self.share, random)
        program, delays = changed(varying, Delays(jitter=self.share))
        return execute(program, delays, random.randrange(10**9))


@cache
def _loop(seed: int) -> Program:
    (rank,) = random_program(seed, threads=1, steps=1, ops=16).ranks
    (thread,) = rank.threads
    (first, *rest) = thread.body
    if not isinstance(first, Annotation):
        raise TypeError("a program begins with a step")
    body = [of for number in range(STEPS) for of in (step(number, *first.body), *rest)]
    return Program((replace(rank, threads=(Thread(thread.name, tuple(body)),)),))


@cache
def _job(seed: int) -> Program:
    return training_job(seed, ranks=2, steps=STEPS, model=SMALL)


def varied(program: Program, share: float, random: Random) -> Program:
    """A program with each time multiplied by a random factor of mean 1."""
    sigma = math.sqrt(math.log(1 + share**2))

    def vary(ns: int) -> int:
        return round(ns * random.lognormvariate(-(sigma**2) / 2, sigma))

    def change_one(action: Action) -> Action:
        if isinstance(action, Gap | OtherCall):
            return replace(action, ns=vary(action.ns))
        if isinstance(action, Launch | Copy | Memset | Collective):
            return replace(action, kernel_ns=vary(action.kernel_ns))
        return action

    return change.each_action(program, change_one)


def mean_period(traces: Sequence[GeneratedTrace]) -> float:
    """The mean period over all steps and ranks."""
    return statistics.fmean(ns for trace in traces for ns in periods(trace.truth))


def periods(truth: Truth) -> Iterator[int]:
    """The time from host and GPU finishing a step to finishing the next."""
    started = {call.id: call.start_ns for call in truth.launches}
    done_ns = None
    for mark in truth.steps:
        of_step = [
            work.end_ns
            for work in truth.kernels
            if mark.start_ns <= started[work.launch] < mark.end_ns
        ]
        begun_ns = mark.start_ns if done_ns is None else done_ns
        done_ns = max([begun_ns, mark.end_ns, *of_step])
        yield done_ns - begun_ns


# Predictions.


class Prediction(NamedTuple):
    """From one trace of a program."""

    mean_ns: float
    low_ns: float
    high_ns: float


class Foretold(NamedTuple):
    """Predictions for all programs."""

    means: dict[tuple[Subject, str], list[Prediction]]
    """By trace."""
    groups: dict[tuple[Subject, str], list[list[int]]]
    """Which launches of the program's only thread are joined."""


JOINED = """
SELECT run_id, scenario, list(ordinal ORDER BY ordinal)
FROM (
    SELECT scenario, gpu_op_id, first_gpu_op_id FROM prediction.fused_work
    UNION ALL
    SELECT scenario, gpu_op_id, first_gpu_op_id FROM prediction.captured_work
)
INNER JOIN (
    SELECT run_id, gpu_op_id,
        row_number() OVER (PARTITION BY trace_id ORDER BY correlation) - 1 AS ordinal
    FROM staging.gpu_op
) USING (gpu_op_id)
GROUP BY run_id, scenario, first_gpu_op_id
ORDER BY ALL
"""
SUMMARY = """
SELECT run_id, scenario, predicted_ns, low_ns, high_ns
FROM question.scenario_summary
UNION ALL
SELECT run_id, scenario, avg(predicted_ns), NULL, NULL
FROM critical_path.step_time
WHERE scenario = 'baseline'
GROUP BY ALL
ORDER BY ALL
"""


def foretell(subjects: Sequence[Subject], kind: str) -> Foretold:
    """Predict every change of a kind's programs from traces of the unchanged ones."""
    edits = [
        of_scenario(name, parse(line))
        for name, deed in DEEDS.items()
        if kind in deed.of
        for line in deed.lines
    ]
    with TemporaryDirectory() as folder, tracedb.open() as database:
        files = dict(written(subjects, Path(folder)))
        for paths in together(list(files), kind):
            database.ingest(paths, run=paths[0].stem if kind == "job" else None)
        runs = {
            run: files[Path(path)]
            for run, path in database.sql("SELECT run_id, path FROM raw.trace").rows()
        }
        return _of_runs(database, edits, runs)


def written(
    subjects: Sequence[Subject], folder: Path
) -> Iterator[tuple[Path, Subject]]:
    """The traces of the unchanged programs: a file for each rank."""
    for place, subject in enumerate(subjects):
        for number in range(TRACES):
            traces = subject.execute(change.nothing, f"from {number}")
            for rank, trace in enumerate(traces):
                path = folder / f"{place}-{number}-{rank}.json"
                yield trace.write(path, Form(sync_events=True)), subject


def together(files: list[Path], kind: str) -> list[list[Path]]:
    """Files that are ingested together: the ranks of a job are one run."""
    if kind == "loop":
        return [files]
    return [[*pair] for pair in zip(files[::2], files[1::2], strict=True)]


def _of_runs(
    database: tracedb.Database, edits: Sequence[Edit], runs: Mapping[int, Subject]
) -> Foretold:
    means = defaultdict(list)
    groups: dict[tuple[Subject, str], dict[int, list[list[int]]]] = {}
    with database.simulate(["replay"], edits) as beside:
        for run, scenario, *times in beside.sql(SUMMARY).rows():
            name = BASELINE if scenario == "baseline" else scenario
            means[runs[run], name].append(Prediction(*times))
        for run, scenario, ordinals in beside.sql(JOINED).rows():
            of = groups.setdefault((runs[run], scenario), defaultdict(list))
            of[run].append(ordinals)
    return Foretold(means, {key: next(iter(of.values())) for key, of in groups.items()})


def carried_out(name: str, subject: Subject, foretold: Foretold) -> Change:
    """The change of a program."""
    done = DEEDS[name].change
    if done is not None:
        return done
    groups: Groups = {0: foretold.groups[subject, name]}
    if name == "graph":
        return change.capture(groups, GRAPH_NS, GRAPH_GAP_NS)
    return change.fuse(groups, lambda _thread, _number: FUSED_NS)


# Results.


class Outcome(NamedTuple):
    """The effect of a change on a program, and its predictions."""

    change: float
    """Relative change of the mean period, as executed."""
    unchanged: list[float]
    """Deviation of each execution of the unchanged program from the others' mean."""
    changed: list[float]
    """The same for the changed program."""
    errors: list[float]
    """Deviation of each prediction from the mean of the executions."""
    held: list[bool]
    """Whether executed steps are within the predicted bands."""


def outcomes(subjects: Sequence[Subject], kind: str) -> Iterator[tuple[str, Outcome]]:
    """Results for all changes of a kind's programs."""
    tell(f"predicting {kind}s")
    foretold = foretell(subjects, kind)
    for subject in subjects:
        tell(f"executing {subject.kind} {subject.seed}, {subject.share:.0%}")
        before = executed(subject, change.nothing, BASELINE)
        for name, deed in DEEDS.items():
            if kind in deed.of and foretold.means[subject, name]:
                changed = carried_out(name, subject, foretold)
                after = executed(subject, changed, f"again {name}")
                yield name, outcome(before, after, foretold.means[subject, name])


Times = list[list[float]]
"""[ns] Periods of steps, by execution."""


def executed(subject: Subject, changed: Change, purpose: str) -> Times:
    """Execute a program with a change repeatedly."""
    return [
        [
            float(ns)
            for trace in subject.execute(changed, f"{purpose} {number}")
            for ns in periods(trace.truth)
        ]
        for number in range(EXECUTIONS)
    ]


def outcome(before: Times, after: Times, predictions: Sequence[Prediction]) -> Outcome:
    """Compare predictions with executions."""
    first, second = (list(map(statistics.fmean, times)) for times in (before, after))
    mean_ns = statistics.fmean(second)
    return Outcome(
        mean_ns / statistics.fmean(first) - 1,
        list(apart(first)),
        list(apart(second)),
        [of.mean_ns / mean_ns - 1 for of in predictions],
        [
            of.low_ns <= ns <= of.high_ns
            for of in predictions
            if of.low_ns is not None and of.high_ns is not None
            for steps in after
            for ns in steps
        ],
    )


def apart(means: Sequence[float]) -> Iterator[float]:
    """The deviation of each value from the mean of the others."""
    for place, mean in enumerate(means):
        others = [*means[:place], *means[place + 1 :]]
        yield mean / statistics.fmean(others) - 1


def typical(shares: Sequence[float]) -> float:
    """The root mean square."""
    return math.sqrt(statistics.fmean(share**2 for share in shares))


# The page.

ABOUT = """# What if, with varying times

Written by `python benchmarks/jitter.py --write docs/jitter.md` on {machine}.
"""
HOW = """Without jitter, the prediction of a changed program equals its execution to the
nanosecond (`docs/scenario-semantics.md`). Here all times vary: each host time and each
GPU time by its own log-normal factor with mean 1, the machine's delays uniformly.
{loops} random programs with one thread and {steps} similar steps each, and {jobs} small
trainings on two ranks, are executed {executions} times unchanged, and {executions}
times with each change made in the program; {traces} more unchanged executions provide
the traces. From each of these alone, the mean period of the changed program is
predicted."""
COLUMNS = """`does` is the effect of the change, in the mean of the programs. `error` is
the root-mean-square deviation of the predictions from the mean of the changed
executions. `spread` is that of one execution from the mean of the others, unchanged and
with the change. If `error / spread` (of the changed) is 1, a trace without the change
predicts its effect as well as one execution of the changed program. `bias` is the mean
of the signed errors, which more traces would not reduce. `in band` is the share of
steps of the changed executions between `low_ns` and `high_ns` of the answer; the target
is 80 %."""
HEAD = (
    *("change", "programs", "does, %", "error, %", "bias, %"),
    *("spread as it is, %", "spread changed, %", "error / spread", "in band, %"),
)
RESULT = (
    "Over all changes the error is {error:.1f} %, in the median {ratio:.2f} times the "
    "spread of the changed executions ({worst:.2f} at worst, {name}); {held:.0f} % of "
    "the steps are in the bands."
)

Found = dict[str, list[Outcome]]


def section(share: float, found: Found) -> Iterator[str]:
    """Results for one amount of variation."""
    ratios = {name: ratio(of) for name, of in found.items() if name != BASELINE}
    worst = max(ratios, key=lambda name: ratios[name])
    changed = [one for name, of in found.items() if name != BASELINE for one in of]
    held = [hit for one in changed for hit in one.held]
    yield from (f"## Times vary by {100 * share:g} %", "")
    yield filled(
        RESULT,
        error=100 * typical([error for one in changed for error in one.errors]),
        ratio=statistics.median(ratios.values()),
        worst=ratios[worst],
        name=f"`{worst}`",
        held=100 * statistics.fmean(held),
    )
    yield from ("", *table([*HEAD], [row(name, of) for name, of in found.items()]), "")


def ratio(outcomes: Sequence[Outcome]) -> float:
    """The error over the spread of the changed executions."""
    errors = [error for one in outcomes for error in one.errors]
    return typical(errors) / typical(
        [apart for one in outcomes for apart in one.changed]
    )


def row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    """The row of a change."""
    errors = [error for one in outcomes for error in one.errors]
    spreads = (
        typical([of for one in outcomes for of in getattr(one, side)])
        for side in ("unchanged", "changed")
    )
    held = [hit for one in outcomes for hit in one.held]
    return [
        name,
        str(len(outcomes)),
        f"{100 * statistics.fmean(one.change for one in outcomes):+.1f}",
        f"{100 * typical(errors):.2f}",
        f"{100 * statistics.fmean(errors):+.2f}",
        *(f"{100 * spread:.2f}" for spread in spreads),
        f"{ratio(outcomes):.2f}",
        f"{100 * statistics.fmean(held):.0f}" if held else "",
    ]


def found_of(share: float) -> Found:
    """Each change's results for one amount of variation."""
    found: Found = {name: [] for name in DEEDS}
    for kind, count in (("loop", LOOPS), ("job", JOBS)):
        subjects = [Subject(kind, seed, share) for seed in range(count)]
        for name, one in outcomes(subjects, kind):
            found[name].append(one)
    return found


def edits() -> Iterator[list[str]]:
    """Each change as edits."""
    for name, deed in DEEDS.items():
        if deed.lines:
            lines = ", ".join(f"`{line}`" for line in deed.lines)
            yield [name, lines.replace("|", "\\|")]


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__).parse_args()
    how = filled(
        HOW.replace("\n", " "),
        loops=LOOPS,
        jobs=JOBS,
        steps=STEPS,
        traces=TRACES,
        executions=EXECUTIONS,
    )
    parts = [ABOUT.format(machine=machine(None)), how, "", COLUMNS, ""]
    for share in SHARES:
        parts += section(share, found_of(share))
    parts += ["## The changes", "", *table(["change", "edits"], edits(), left=2)]
    publish("\n".join(parts) + "\n", asked.write)


if __name__ == "__main__":
    main()
