"""Execute programs, with and without a change, and compare with predictions.

All times are multiples of 20 ns, so that nothing is rounded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shown import of_own_streams, shown
from support import rows

import tracedb
from tracedb import Edit
from tracedb.errors import ScenarioError
from tracedb.synthetic import (
    Annotation,
    Around,
    Collective,
    Copy,
    Delays,
    EventRecord,
    Form,
    Gap,
    Launch,
    Memset,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    Truth,
    change,
    execute,
    random_program,
    step,
)
from tracedb.synthetic.execution import START_NS
from tracedb.synthetic.program import DATA_PREFIX, Action, seeded
from tracedb.synthetic.random_program import STREAMS
from tracedb.whatif.scenario import check_matches
from tracedb.whatif.simulation import beside as simulated_beside

UNIT_NS = 20
WRONG = 0.001
"""[1] From this error of a step on, an answer is wrong."""
CUDA = Delays()
AMD = Delays(sync_return_ns=-8_000, copy_return_ns=-1_000)
"""Calls return before the recorded end of what they wait for."""


@dataclass(frozen=True)
class Case:
    """A program, how it is executed and written, and what is known about it."""

    name: str
    program: Program
    known: Program
    delays: Delays
    form: Form


def case(name: str, program: Program, delays: Delays, *, recorded: bool) -> Case:
    """A program; without recorded synchronization, reduced to what its trace shows."""
    form = Form(sync_events=recorded)
    if recorded:
        return Case(name, program, program, delays, form)
    program = of_own_streams(program)
    traces = execute(program, delays)
    known = shown(program, traces, delays)
    same = execute(known, delays)
    assert [times(t.truth) for t in same] == [times(t.truth) for t in traces]
    return Case(name, program, known, delays, form)


def one_thread(seed: int, *, recorded: bool) -> Case:
    """One thread and 1 to 4 streams; odd seeds have streams on a second GPU."""
    streams = STREAMS[: 1 + seed % 4]
    program = random_program(seed, threads=1, streams=len(streams), steps=2, ops=8)
    (rank,) = program.ranks
    (thread,) = rank.threads
    main = Thread(thread.name, (step(0, *warm_up(streams)), *thread.body))
    devices = {24: 1, 28: 1} if seed % 2 else {}
    delays = CUDA if seed % 5 else AMD
    changed = rounded(Program((Rank((main,), devices),)), delays)
    kind = "recorded" if recorded else "told by time"
    return case(f"{kind} {seed}", changed, delays, recorded=recorded)


def nested(seed: int, *, recorded: bool) -> Case:
    """One thread, some of whose launches are nested in other calls."""
    case_of = one_thread(seed, recorded=recorded)
    random = seeded("nested", seed)

    def change_one(action: Action) -> Action:
        if not isinstance(action, Launch) or random.random() < 1 / 2:
            return action
        around = Around(
            UNIT_NS * random.randint(0, 150),
            UNIT_NS * random.randint(0, 150),
            random.choice(("cudaLaunchKernel", "cudaLaunchKernelExC")),
            shares_correlation=random.random() < 1 / 2,
        )
        return replace(action, call="cuLaunchKernel", around=around)

    changed = change.each_action(case_of.program, change_one)
    name = f"nested {case_of.name}"
    return case(name, changed, case_of.delays, recorded=recorded)


def rounded(program: Program, delays: Delays) -> Program:
    """Times rounded to the unit; on AMD, blocking copies have another name."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Gap | OtherCall):
            return replace(action, ns=units(action.ns))
        if isinstance(action, Copy) and action.blocking and delays is AMD:
            action = replace(action, call="hipMemcpyWithStream")
        if isinstance(action, Launch | Copy | Memset | Collective):
            return replace(action, kernel_ns=units(action.kernel_ns))
        if isinstance(action, Annotation) and action.name.startswith(DATA_PREFIX):
            loading = [inner for inner in action.body if isinstance(inner, Gap)]
            return replace(action, body=tuple(loading))
        return action

    return change.each_action(program, change_one)


def units(ns: int) -> int:
    """The nearest multiple of the unit."""
    return max(UNIT_NS, round(ns / UNIT_NS) * UNIT_NS)


def warm_up(streams: tuple[int, ...]) -> tuple[Action, ...]:
    """Show every delay of the machine: one that no trace shows is unknown."""
    first, last = streams[0], streams[-1]
    alone = Gap(60_000)
    body: list[Action] = [Gap(2_000)]
    for number in range(3):
        body += [Launch(first, 1_000), alone, Copy(first, 1_000), alone]
        body += [Memset(first, 1_000), alone, Launch(first, 100_000), Gap(1_000)]
        body += [Launch(first, 1_000), Copy(first, 2_000), Memset(first, 1_000)]
        body += [Launch(first, 1_000), StreamSync(first), alone, StreamSync(first)]
        body += [Gap(2_000), Copy(first, 30_000, blocking=True), Gap(2_000)]
        if last != first:
            event = f"warm {number}"
            body += [Launch(first, 100_000), EventRecord(event, first)]
            body += [StreamWait(last, event), Launch(last, 1_000), Gap(400_000)]
    return (Op("aten::warm_up", tuple(body)),)


def fetched_ahead(
    workers: int, ahead: int, take_ns: int = 0, before: change.Change = change.nothing
) -> change.Change:
    """Prefetch batches, given the spare time of threads in the original program.

    The spare time is measured before other changes (`before`) are applied.
    """

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        truths = [trace.truth for trace in execute(program, delays)]
        spare = {k: v for truth in truths for k, v in spare_ns(truth).items()}
        fetched = change.prefetch(workers, ahead, take_ns, spare)
        return change.all_of(before, fetched)(program, delays)

    return change_program


def spare_ns(truth: Truth) -> dict[str, int]:
    """[ns] A thread's time outside a batch, less its time before the first one."""
    found = {}
    for thread, name in truth.threads.items():
        own = [event for event in truth.host_events if event.thread == thread]
        fetches = [event for event in own if event.name.startswith(DATA_PREFIX)]
        if not fetches:
            continue
        starts = [event.start_ns for event in fetches]
        lasting = sum(event.end_ns - event.start_ns for event in fetches)
        each_ns = max(event.end_ns for event in own) - starts[0]
        if len(starts) > 1:
            each_ns = (starts[-1] - starts[0]) // (len(starts) - 1)
        each_ns -= round(lasting / len(starts))
        found[name] = each_ns - (starts[0] - START_NS)
    return found


Times = dict[tuple[str, int, float], tuple[int, int]]
"""Begin and end of GPU ops (by thread and ordinal of their launch) and of steps.

GPU ops inserted before or after another have its ordinal plus or minus a quarter.
"""


def named(truth: Truth) -> dict[int, tuple[str, int, int]]:
    """Each GPU op by id: its thread, and its ordinal among the thread's launches."""
    threads = list(truth.threads)
    launching = {call.id: threads.index(call.thread) for call in truth.launches}
    counts: dict[int, int] = defaultdict(int)
    found = {}
    for kernel in sorted(truth.kernels, key=lambda kernel: kernel.id):
        thread = launching[kernel.launch]
        found[kernel.id] = ("work", thread, counts[thread])
        counts[thread] += 1
    return found


def works(truth: Truth) -> dict[int, tuple[str, int, int]]:
    """Each GPU op by id: the correlation of its launch."""
    names = named(truth)
    return {kernel.correlation: names[kernel.id] for kernel in truth.kernels}


def works_on_streams(
    truth: Truth,
) -> dict[tuple[int, int, int], tuple[str, int, int]]:
    """Each GPU op by correlation, stream, and ordinal among that launch's GPU ops."""
    names = named(truth)
    counts: dict[tuple[int, int], int] = defaultdict(int)
    found = {}
    for kernel in sorted(truth.kernels, key=lambda kernel: kernel.id):
        key = kernel.correlation, kernel.stream
        counts[key] += 1
        found[*key, counts[key]] = names[kernel.id]
    return found


def times(truth: Truth) -> Times:
    """All times, relative to the begin of the execution."""
    names = named(truth)
    found: Times = {
        names[work.id]: (work.start_ns - START_NS, work.end_ns - START_NS)
        for work in truth.kernels
    }
    for mark in truth.steps:
        span = mark.start_ns - START_NS, mark.end_ns - START_NS
        found["step", 0, mark.number] = span
    return found


Launched = dict[int, list[tuple[str, int, int]]]
"""The GPU ops launched in each step, by any thread."""


def launched(truth: Truth) -> Launched:
    """The GPU ops of each step, from the trace."""
    names = named(truth)
    started = {call.id: call.start_ns for call in truth.launches}
    return {
        mark.number: [
            names[kernel.id]
            for kernel in truth.kernels
            if mark.start_ns <= started[kernel.launch] < mark.end_ns
        ]
        for mark in truth.steps
    }


def periods(
    happened: Times, of_steps: Mapping[int, Sequence[tuple[str, int, float]]]
) -> Times:
    """Begin and end of each step's period, from the execution."""
    found: Times = {}
    done_ns = None
    for number, of_step in of_steps.items():
        start_ns, host_ns = happened["step", 0, number]
        gpu_ns = max((happened[work][1] for work in of_step), default=host_ns)
        begun_ns = start_ns if done_ns is None else done_ns
        done_ns = max(done_ns or 0, host_ns, gpu_ns)
        found["done", 0, number] = host_ns, gpu_ns
        found["period", 0, number] = begun_ns, done_ns
    return found


@dataclass(frozen=True)
class Predicted:
    """Predicted times by case, rank and change."""

    times: dict[tuple[str, int, str], Times]
    launched: dict[tuple[str, int], Launched]
    mistaken: set[str]
    """Cases in which an idle thread was taken to wait for another."""
    answers: dict[tuple[str, int], list[tuple[Any, ...]]]
    """Other queries of the simulation, by case and rank."""
    works: dict[tuple[str, int], dict[int, tuple[str, int, int]]]
    """The GPU ops of each case, by correlation."""


Edits = Mapping[str, list[dict[str, Any]]]
"""The edits of each scenario."""


def predict(  # noqa: PLR0913 (what is asked, and of what)
    folder: Path,
    cases: list[Case],
    scenarios: Edits,
    question: str | None = None,
    known_besides: str | None = None,
    *,
    drops_idle: bool = False,
) -> Predicted:
    """Predict the times of changed programs from the traces of the unchanged ones.

    `query` is asked of the simulation; its first column has the paths of traces. A
    statement can insert what no trace has. Edits that match nothing are an error, or
    dropped.
    """
    names: dict[str, tuple[str, int]] = {}
    jobs: dict[str, list[Path]] = defaultdict(list)
    known: dict[tuple[str, int], dict[int, tuple[str, int, int]]] = {}
    placed = {}
    of_steps: dict[tuple[str, int], Launched] = {}
    for number, one in enumerate(cases):
        for rank, trace in enumerate(execute(one.program, one.delays)):
            path = folder / f"{number:03}-{rank}.json"
            names[str(trace.write(path, one.form))] = (one.name, rank)
            jobs[one.name].append(path)
            known[one.name, rank] = works(trace.truth)
            placed[one.name, rank] = works_on_streams(trace.truth)
            of_steps[one.name, rank] = launched(trace.truth)
    edits = [
        Edit(scenario=name, **edit) for name, of in scenarios.items() for edit in of
    ]
    found: dict[tuple[str, int, str], Times] = defaultdict(dict)
    answers: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    with tracedb.open() as database:
        database.ingest([path for (path, *ranks) in jobs.values() if not ranks])
        for name, paths in jobs.items():
            if len(paths) > 1:
                database.ingest(paths, run=name)
        if known_besides is not None:
            database.connection.execute(known_besides)
        edits = choosing(database, edits) if drops_idle else edits
        with database.simulate(["replay"], edits) as simulated:
            for path, scenario, *key, beside, start_ns, end_ns in rows(simulated, WORK):
                what, thread, number = placed[names[path]][*key]
                work = what, thread, number + beside
                found[*names[path], scenario][work] = (start_ns, end_ns)
            for path, scenario, what, number, *span in rows(simulated, STEPS):
                found[*names[path], scenario][what, 0, number] = (span[0], span[1])
            for path, *row in rows(simulated, question) if question else ():
                answers[names[path]].append(tuple(row))
        mistaken = {names[path][0] for (path,) in rows(database, RESTS)}
    return Predicted(found, of_steps, mistaken, answers, known)


def choosing(database: tracedb.Database, edits: list[Edit]) -> list[Edit]:
    """The edits that match something in the database."""
    kept = list(edits)
    while True:
        try:
            with simulated_beside(database.connection, ["replay"], kept) as (cursor, _):
                check_matches(cursor, kept)
        except ScenarioError as error:
            idle = re.match(r"scenario (.*), edit (\d+): no ", str(error))
            if idle is None:
                raise
            of = [edit for edit in kept if edit.scenario == idle[1]]
            kept.remove(of[int(idle[2]) - 1])
        else:
            return kept


WORK = """
    SELECT path, scenario, correlation, stream, ordinal,
        CASE is_after WHEN true THEN 1 / 4 WHEN false THEN -1 / 4 ELSE 0 END,
        time.start_ns, time.end_ns
    FROM simulation.gpu_work_time AS time
    INNER JOIN prediction.variant USING (variant_id)
    LEFT JOIN prediction.inserted_work AS inserted
        ON time.gpu_op_id = inserted.gpu_op_id
    INNER JOIN (
        SELECT gpu_op_id, correlation, stream,
            row_number() OVER (
                PARTITION BY trace_id, correlation, stream ORDER BY start_ns, gpu_op_id
            ) AS ordinal
        FROM staging.gpu_op
    ) AS work
        ON coalesce(beside_gpu_op_id, time.gpu_op_id) = work.gpu_op_id
    INNER JOIN staging.trace ON time.trace_id = staging.trace.trace_id
"""
STEPS = """
    SELECT path, scenario, what, step, span.start_ns, span.end_ns
    FROM (
        SELECT scenario, step_id, 'step' AS what, host_start_ns AS start_ns,
            host_end_ns AS end_ns
        FROM critical_path.step_period
        INNER JOIN prediction.variant USING (variant_id)
        WHERE variant_id > 0
        UNION ALL
        SELECT scenario, step_id, 'done', host_end_ns, coalesce(gpu_end_ns, host_end_ns)
        FROM critical_path.step_period
        INNER JOIN prediction.variant USING (variant_id)
        WHERE variant_id > 0
        UNION ALL
        SELECT scenario, step_id, 'period', start_ns, end_ns
        FROM critical_path.step_period
        INNER JOIN prediction.variant USING (variant_id)
        WHERE variant_id > 0
    ) AS span
    INNER JOIN staging.step AS mark USING (step_id)
    INNER JOIN staging.trace ON mark.trace_id = staging.trace.trace_id
"""
RESTS = """
    SELECT DISTINCT path FROM graph.thread_wait
    INNER JOIN staging.trace USING (trace_id)
"""


def assert_foretold(
    one: Case, name: str, predicted: Predicted, program: Program, delays: Delays
) -> None:
    """Execute a changed program and compare all times with the predicted ones."""
    traces = execute(program, delays)
    for rank, trace in enumerate(traces):
        happened = times(trace.truth)
        foretold = predicted.times[one.name, rank, name]
        numbers = renumbered(foretold)
        launched = predicted.launched[one.name, rank]
        happened |= periods(happened, remaining(launched, numbers))
        foretold = {numbers.get(what, what): span for what, span in foretold.items()}
        assert wrong_times(happened, foretold) == {}, (one.name, rank, name)


def period_error(
    one: Case, name: str, predicted: Predicted, program: Program, delays: Delays
) -> float:
    """[1] Execute a changed program; the largest error of a step's period."""
    errors = [0.0]
    for rank, trace in enumerate(execute(program, delays)):
        foretold = predicted.times[one.name, rank, name]
        launched = predicted.launched[one.name, rank]
        of_steps = remaining(launched, renumbered(foretold))
        for key, (start_ns, end_ns) in periods(times(trace.truth), of_steps).items():
            if key[0] == "period":
                told = foretold[key]
                lasting_ns = max(end_ns - start_ns, 1)
                errors.append(abs((told[1] - told[0]) / lasting_ns - 1))
    return max(errors)


def remaining(launched: Launched, numbers: Mapping[Any, Any]) -> dict[int, list[Any]]:
    """The GPU ops of each step that remain, and those inserted beside, renumbered."""
    return {
        step: [
            numbers[what, thread, number + beside]
            for what, thread, number in works
            for beside in (-1 / 4, 0, 1 / 4)
            if (what, thread, number + beside) in numbers
        ]
        for step, works in launched.items()
    }


def renumbered(foretold: Times) -> dict[Any, Any]:
    """The remaining GPU ops, numbered as if the removed ones had not been launched."""
    counts: dict[int, int] = defaultdict(int)
    numbers = {}
    for what, thread, number in sorted(foretold):
        if what == "work":
            numbers[what, thread, number] = (what, thread, counts[thread])
            counts[thread] += 1
    return numbers


def wrong_times(happened: Times, foretold: Times) -> dict[Any, Any]:
    """The differences from the prediction, earliest first."""
    wrong = {
        what: (span, foretold.get(what))
        for what, span in happened.items()
        if span != foretold.get(what)
    }
    return dict(sorted(wrong.items(), key=lambda item: item[1][0])[:3])
