"""Edits that set times to those of other steps, ranks and runs, against programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
from executed import (
    CUDA,
    UNIT_NS,
    Case,
    Predicted,
    assert_foretold,
    case,
    predict,
    warm_up,
)
from support import rows

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Annotation,
    Await,
    Collective,
    Copy,
    Gap,
    Launch,
    Memset,
    Notify,
    Op,
    OtherCall,
    Program,
    Rank,
    Thread,
    Weights,
    change,
    execute,
    random_program,
    step,
)
from tracedb.synthetic.change import is_loading
from tracedb.synthetic.program import Action, seeded
from tracedb.synthetic.random_program import STREAMS

WORK = Launch | Copy | Memset | Collective
TARGETS = ({"target": "gpu"}, {"target": "host"}, {"target": "host", "type": "idle"})
STATISTICS: dict[str, Callable[[tuple[int, ...]], float]] = {
    "step_median": median,
    "rank_median": median,
    "rank_min": min,
    "ideal": mean,
}
Body = tuple[Action, ...]
Times = list[int]
"""A step's host time factor, and the time of each of its GPU ops."""


def edits_of(name: str) -> list[dict[str, Any]]:
    """Edits that set all times."""
    how = {"action": "ideal"} if name == "ideal" else {"action": "set", "set_to": name}
    return [target | how for target in TARGETS]


def body_of(seed: int, ranks: int = 1) -> Body:
    """A random step's body on 1 or 2 streams, with collectives of several ranks."""
    program = random_program(
        seed,
        threads=1,
        streams=1 + seed % 2,
        steps=1,
        ops=6,
        ranks=ranks,
        weights=Weights(collective=0.4),
    )
    thread, *_ = program.ranks[0].threads
    (body,) = (a.body for a in thread.body if isinstance(a, Annotation))
    return tuple(action for action in body if not isinstance(action, Annotation))


def in_times(body: Body, times: Times) -> Body:
    """The body with a host time factor and other GPU times."""
    factor, *left = times

    def changed(action: Action) -> Action:
        if isinstance(action, Op | Annotation):
            return replace(action, body=tuple(map(changed, action.body)))
        if isinstance(action, Gap | OtherCall):
            return replace(action, ns=action.ns // UNIT_NS * UNIT_NS * factor)
        if isinstance(action, WORK):
            return replace(action, kernel_ns=left.pop(0))
        return action

    return tuple(map(changed, body))


def random_times(body: Body, *seed: int) -> Times:
    """Varying times: multiples of what a mean may divide them by."""
    random, of_all_ranks = seeded(*seed), seeded(seed[-1])
    marks = works_in(body)
    return [
        6 * random.randint(1, 5),
        *(
            120
            * (of_all_ranks if isinstance(of, Collective) else random).randint(1, 999)
            for of in marks
        ),
    ]


def works_in(body: Body) -> list[Action]:
    """GPU work launched by a body."""
    found = []
    for action in body:
        if isinstance(action, Op | Annotation):
            found += works_in(action.body)
        elif isinstance(action, WORK):
            found.append(action)
    return found


def rank_of(bodies: Sequence[Body], times: Sequence[Times]) -> Rank:
    """A rank that runs one step after another, each with its times."""
    steps = [
        step(number, *in_times(body, own))
        for number, (body, own) in enumerate(zip(bodies, times, strict=True), 1)
    ]
    return Rank((Thread("main", (*warm_up(STREAMS[:2]), *steps)),))


def typical(name: str, times: Sequence[Times]) -> Times:
    """The statistic over several times."""
    return [round(STATISTICS[name](of)) for of in zip(*times, strict=True)]


@pytest.fixture(scope="module")
def programs() -> list[tuple[Case, Body, list[Times]]]:
    """Twenty programs of three steps each, and the first one with other times."""
    made = []
    for number in range(21):
        body = body_of(number % 20)
        times = [random_times(body, number, of_step) for of_step in range(3)]
        program = Program((rank_of([body] * 3, times),))
        made.append((case(f"{number}", program, CUDA, recorded=True), body, times))
    return made


@pytest.fixture(scope="module")
def predicted(
    programs: list[tuple[Case, Body, list[Times]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Predicted:
    """Predictions with the medians of their steps, or with the last one's times."""
    scenarios = {
        "step_median": edits_of("step_median"),
        "run": [target | {"action": "set", "from_run": 21} for target in TARGETS],
    }
    folder = tmp_path_factory.mktemp("programs")
    return predict(folder, [one for one, *_ in programs], scenarios)


def test_medians_of_steps_equal_a_program_that_has_them(
    programs: list[tuple[Case, Body, list[Times]]], predicted: Predicted
) -> None:
    """All are predicted to the nanosecond."""
    for one, body, times in programs:
        changed = rank_of([body] * 3, [typical("step_median", times)] * 3)
        assert_foretold(one, "step_median", predicted, Program((changed,)), CUDA)


def test_times_of_another_run_are_its_medians(
    programs: list[tuple[Case, Body, list[Times]]], predicted: Predicted
) -> None:
    """The first program takes the times of the last, which does the same work."""
    (first, body, _), *_, (_, same, times) = programs
    assert body == same
    changed = rank_of([body] * 3, [typical("step_median", times)] * 3)
    assert_foretold(first, "run", predicted, Program((changed,)), CUDA)


def counting(*counts: int) -> Rank:
    """A rank whose steps run an addition, and multiplications in these numbers."""
    op = Op("aten::mul", (Gap(2_000), Launch(STREAMS[0], 9_000), Gap(2_000)))
    other = Op("aten::add", (Gap(2_000), Launch(STREAMS[0], 4_000), Gap(2_000)))
    steps = (step(n, other, *[op] * count) for n, count in enumerate(counts))
    return Rank((Thread("main", tuple(steps)),))


BY_ORDER = "it takes times by order in the step, where "


@pytest.mark.parametrize(
    ("runs", "how", "said"),
    [
        (
            [[(2, 2, 2)], [(3, 3, 3)]],
            {"action": "set", "from_run": 2},
            "run 2 has 3 and not 2 of aten::mul",
        ),
        (
            [[(2, 2, 2), (3, 3, 3)]],
            {"action": "set", "set_to": "rank_min"},
            "ranks have from 2 to 3 of aten::mul",
        ),
        (
            [[(1, 1), (0, 1)]],
            {"action": "ideal"},
            "ranks have from 0 to 1 of aten::mul",
        ),
        (
            [[(2, 3, 2)]],
            {"action": "set", "set_to": "step_median"},
            "steps have from 2 to 3 of aten::mul",
        ),
        ([[(2, 3), (2, 3)]], {"action": "set", "set_to": "rank_median"}, None),
        ([[(2, 0, 2)]], {"action": "set", "set_to": "step_median"}, None),
    ],
)
def test_other_numbers_of_an_op_are_told(
    runs: list[list[tuple[int, ...]]],
    how: dict[str, Any],
    said: str | None,
    tmp_path: Path,
) -> None:
    """Times come by order: with an op more, they may be those of another op."""
    with tracedb.open() as database:
        for name, ranks in enumerate(runs):
            job = Program(tuple(counting(*counts) for counts in ranks))
            paths = [
                trace.write(tmp_path / f"{name} {rank}.json")
                for rank, trace in enumerate(execute(job, CUDA))
            ]
            database.ingest(paths, run=str(name))
        edits = [
            Edit(scenario=name, target="gpu", op=name, **how)
            for name in ("aten::mul", "aten::add")
        ]
        with database.simulate(["replay"], edits) as beside:
            told = rows(
                beside,
                "SELECT scenario, assumption FROM question.scenario_assumption "
                f"WHERE starts_with(assumption, '{BY_ORDER}')",
            )
    assert told == ([("aten::mul", BY_ORDER + said)] if said else [])


def job_of(ranks: Sequence[Sequence[Times]], bodies: Sequence[Body]) -> Program:
    """A job whose ranks do the same in different times."""
    return Program(tuple(rank_of(bodies, times) for times in ranks))


def test_times_of_ranks_equal_a_job_that_has_them(tmp_path: Path) -> None:
    """Three ranks meet in collectives in twenty steps, with and without other waits."""
    bodies = [body_of(seed, ranks=3) for seed in range(20)]
    assert any(isinstance(of, Collective) for body in bodies for of in works_in(body))
    ranks = [
        [random_times(body, rank, seed) for seed, body in enumerate(bodies)]
        for rank in range(3)
    ]
    one = case("job", job_of(ranks, bodies), CUDA, recorded=True)
    names = ("rank_median", "rank_min", "ideal")
    waits = {of: [{"target": "wait", "type": of}] for of in ("host", "stream")}
    edits = waits | {name: edits_of(name) for name in names}
    predicted = predict(tmp_path, [one], edits)
    for name in names:
        times = [typical(name, of) for of in zip(*ranks, strict=True)]
        same = job_of([times] * 3, bodies)
        assert_foretold(one, name, predicted, same, CUDA)
    assert_foretold(one, "host", predicted, *change.no_host_waits(one.program, CUDA))
    assert_foretold(
        one, "stream", predicted, *change.no_stream_waits(one.program, CUDA)
    )


def threads_of(seed: int, ranks: int) -> list[Thread]:
    """A main thread and autograd's, without the gaps between steps and handovers."""
    program = random_program(
        seed,
        threads=2,
        streams=1 + seed % 2,
        steps=3,
        ops=6,
        ranks=ranks,
        weights=Weights(collective=0.4),
    )
    main, autograd = program.ranks[0].threads
    steps = tuple(of for of in main.body if isinstance(of, Annotation))
    return [
        replace(main, body=without_loading(steps)),
        replace(autograd, body=without_loading(autograd.body)),
    ]


def without_loading(body: Body) -> Body:
    """A body without loading, plain calls, and gaps beside handovers."""
    kept: list[Action] = []
    for action in body:
        if isinstance(action, Annotation) and not is_loading(action):
            kept.append(replace(action, body=without_loading(action.body)))
        elif not isinstance(action, OtherCall | Annotation):
            kept.append(action)
    handovers = {n for n, of in enumerate(kept) if isinstance(of, Notify | Await)}
    return tuple(
        of
        for n, of in enumerate(kept)
        if not (isinstance(of, Gap) and handovers & {n - 1, n, n + 1})
    )


def rank_of_threads(threads: Sequence[Thread], times: Sequence[Times]) -> Rank:
    """A rank whose threads have times of their own."""
    main, autograd = (
        replace(thread, body=in_times(thread.body, own))
        for thread, own in zip(threads, times, strict=True)
    )
    warmed = replace(main, body=(*warm_up(STREAMS[:2]), *main.body))
    return Rank((warmed, autograd))


@pytest.mark.parametrize("count", [2, 3])
def test_ranks_with_an_autograd_thread_equal_a_job_without_stragglers(
    count: int, tmp_path: Path
) -> None:
    """The time to wake threads is compared over ranks, too."""
    cases, jobs = [], []
    for seed in range(4):
        threads = threads_of(seed, count)
        factors = [6 * seeded(seed, rank).randint(1, 5) for rank in range(count)]
        ranks = [
            [
                [factor, *random_times(thread.body, rank, 10 * seed + number)[1:]]
                for number, thread in enumerate(threads)
            ]
            for rank, factor in enumerate(factors)
        ]
        job = Program(tuple(rank_of_threads(threads, times) for times in ranks))
        cases.append(case(f"job {seed}", job, CUDA, recorded=True))
        means = [typical("ideal", of) for of in zip(*ranks, strict=True)]
        jobs.append(Program((rank_of_threads(threads, means),) * count))
    predicted = predict(tmp_path, cases, {"ideal": edits_of("ideal")})
    for one, job in zip(cases, jobs, strict=True):
        assert_foretold(one, "baseline", predicted, one.known, CUDA)
        assert_foretold(one, "ideal", predicted, job, CUDA)
