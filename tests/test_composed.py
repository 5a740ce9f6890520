"""Random scenarios have the effect of the equivalent program change, to the ns.

Other seeds, or more of them, search further: see `PROGRAMS` and `amount`. The kinds
`threads` and `ranks` are also used in `tests/test_reexecution.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from composed import Scenario, scenario
from executed import (
    CUDA,
    Case,
    assert_foretold,
    case,
    nested,
    one_thread,
    predict,
    rounded,
    warm_up,
)
from support import Amount

from tracedb.synthetic import (
    Annotation,
    Copy,
    Gap,
    Launch,
    Memset,
    Op,
    Program,
    Rank,
    change,
    random_program,
    step,
)
from tracedb.synthetic.program import STEP_PREFIX, Action, seeded
from tracedb.synthetic.random_program import STREAMS, Weights

UNWAITED = Weights(
    operator=0.5, stream_sync=0, device_sync=0, event_sync=0, blocking_copy=0
)
"""The host never waits: the GPU is several steps behind."""
UNORDERED = Weights(stream_wait=0, event_record=0, event_sync=0)


def ahead(seed: int) -> Case:
    """A host that runs ahead of its GPU by several steps."""
    program = random_program(seed, threads=1, steps=3, ops=6, weights=UNWAITED)
    program, _ = change.kernels(8)(program, CUDA)
    return warm(f"ahead {seed}", program, recorded=seed % 2 == 0)


def outside(seed: int) -> Case:
    """Work before the first step, between steps, and after the last."""
    program = random_program(seed, threads=1, steps=6, ops=6)
    warmed = warm(f"outside {seed}", program, recorded=seed % 2 == 0)
    dropped = {0, 3, 6}
    return replace(
        warmed,
        program=without_steps(warmed.program, dropped),
        known=without_steps(warmed.known, dropped),
    )


def without_steps(program: Program, dropped: set[int]) -> Program:
    """The program without the marks of some steps, by position.

    The others are numbered anew: a number that is missing is a mark that was lost.
    """
    (rank,) = program.ranks
    (thread,) = rank.threads
    marks = [
        of
        for of in thread.body
        if isinstance(of, Annotation) and of.name.startswith(STEP_PREFIX)
    ]
    unmarked = [mark for place, mark in enumerate(marks) if place in dropped]

    numbers = count(1)

    def inside(of: Action) -> tuple[Action, ...]:
        if not isinstance(of, Annotation) or of not in marks:
            return (of,)
        if of in unmarked:
            return of.body
        return (replace(of, name=f"{STEP_PREFIX}{next(numbers)}"),)

    body = [inner for of in thread.body for inner in inside(of)]
    return Program((replace(rank, threads=(replace(thread, body=tuple(body)),)),))


def autograd(seed: int) -> Case:
    """A thread that waits for another one."""
    program = random_program(seed, threads=2, steps=2, ops=8)
    return warm(f"autograd {seed}", program, recorded=seed % 2 == 0)


def compiled(seed: int) -> Case:
    """Ops in compiled regions, and others."""
    random = seeded(seed)
    program = random_program(seed, threads=1, steps=2, ops=12)
    (rank,) = program.ranks
    (thread,) = rank.threads
    body = tuple(
        replace(of, body=tuple(regions(of.body, random)))
        if isinstance(of, Annotation) and of.name.startswith(STEP_PREFIX)
        else of
        for of in thread.body
    )
    program = Program((replace(rank, threads=(replace(thread, body=body),)),))
    return warm(f"compiled {seed}", program, recorded=seed % 2 == 0)


def regions(body: tuple[Action, ...], random: Random) -> list[Action]:
    """Some actions, within regions."""
    found: list[Action] = []
    while body:
        size = random.randint(2, 6)
        inside, body = body[:size], body[size:]
        name = f"Torch-Compiled Region: {random.randint(0, 1)}/0"
        call = Op("## Call CompiledFxGraph ##", inside)
        region = Annotation(name, (Gap(1_000), call, Gap(500)))
        found += [region] if random.randrange(2) else inside
    return found


def graphs(seed: int, gap_ns: int = CUDA.queue_gap_ns) -> Case:
    """Launches of recorded graphs, each on one stream, and others."""
    random = seeded(seed)
    made = random_program(seed, threads=1, steps=2, ops=12, weights=UNORDERED)
    program = rounded(made, CUDA)
    groups: list[list[int]] = [[]]
    numbers = 0
    stream = None

    def note(action: Action) -> Action:
        nonlocal numbers, stream
        if isinstance(action, Launch | Copy | Memset):
            waits = isinstance(action, Copy) and action.blocking
            if waits or action.stream != stream or random.random() < 1 / 3:
                groups.append([])
            stream = None if waits else action.stream
            if not waits:
                groups[-1].append(numbers)
            numbers += 1
        elif not isinstance(action, Op | Annotation | Gap):
            groups.append([])
        return action

    change.each_action(program, note)
    joined = [group for group in groups if len(group) > 1]
    program, _ = change.capture({0: joined}, 8_000, gap_ns)(program, CUDA)
    return warm(f"graphs {seed} {gap_ns}", program, recorded=seed % 2 == 0)


def fast_graphs(seed: int) -> Case:
    """Graphs whose work follows sooner than that of other launches."""
    return graphs(seed, CUDA.queue_gap_ns // 2)


def ranks(seed: int) -> Case:
    """Two ranks that wait for each other."""
    weights = Weights(collective=0.5)
    program = random_program(seed, threads=1, steps=2, ops=8, ranks=2, weights=weights)
    return warm(f"ranks {seed}", program, recorded=True)


def warm(name: str, program: Program, *, recorded: bool) -> Case:
    """The program on two streams, after a step that shows all delays."""
    warmed = []
    for rank in program.ranks:
        main, *others = rank.threads
        body = (step(0, *warm_up(STREAMS[:2])), *main.body)
        warmed.append(Rank((replace(main, body=body), *others), rank.devices))
    return case(name, rounded(Program(tuple(warmed)), CUDA), CUDA, recorded=recorded)


Kind = tuple[list[Callable[[int], Case]], list[int], set[str]]
PROGRAMS: dict[str, Kind] = {
    "one thread": (
        [
            lambda seed: one_thread(4 * seed + 2, recorded=True),
            ahead,
            compiled,
            outside,
        ],
        [3],
        {"streams", "compiled"},
    ),
    "two devices": (
        [lambda seed: one_thread(4 * seed + 3, recorded=seed % 2 == 0)],
        [1, 2, 3],
        {"streams", "devices"},
    ),
    "waits told by their delay": ([outside], [41, 135], {"streams", "compiled"}),
    "nested launches": (
        [lambda seed: nested(4 * seed + 2, recorded=seed % 2 == 0)],
        [1, 2, 4],
        {"streams"},
    ),
    "two threads": ([autograd], [1], {"streams", "threads"}),
    "graphs": ([graphs], [1], {"streams", "graphs"}),
    "fast graphs": ([fast_graphs], [1, 2], {"graphs", "gaps"}),
    "ranks": ([ranks], [1], {"streams", "ranks"}),
}
"""Kinds of programs: how they are created, their seeds, and their targets."""


@pytest.mark.parametrize("kind", PROGRAMS)
def test_random_scenarios_are_predicted_to_the_nanosecond(
    kind: str, tmp_path: Path, amount: Amount
) -> None:
    """All GPU ops, steps and periods agree in all programs of a kind."""
    makers, seeds, traits = PROGRAMS[kind]
    tried = seeds[: amount(1, len(seeds))]
    cases = [make(seed) for make in makers for seed in tried]
    random = seeded(kind)
    scenarios: dict[str, Scenario] = {}
    tries = amount(3, 6)
    for number in range(tries):
        made = scenario(random, random.choice((1, 2, 2, 3)), frozenset(traits))
        scenarios[f"{number}: {made.name}"] = made
    edits = {name: of.edits for name, of in scenarios.items()}
    predicted = predict(tmp_path, cases, edits, drops_idle=True)
    carried_out = {name for _, _, name in predicted.times}
    assert len(carried_out) > tries / 2
    for one in cases:
        assert_foretold(one, "baseline", predicted, one.known, one.delays)
        for name in carried_out & scenarios.keys():
            of = scenarios[name]
            assert_foretold(one, name, predicted, *of.change(one.known, one.delays))
