"""Edits of collectives on all ranks, or on some.

`python tests/collectives.py 1..20` executes random jobs with collectives of one process
group or several, changed alike, and prints what is predicted otherwise
(`tests/meeting.py`). Some jobs send messages from rank to rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

import messages
from executed import warm_up
from marks import Case, Scenario, Site, Sites, Wait, Work
from meeting import (
    Choice,
    distinct,
    in_units,
    main,
    ops_of,
    some,
    sprinkled,
    unwaited,
    works_of,
)

from tracedb.synthetic import (
    Collective,
    Op,
    Program,
    Rank,
    change,
    random_program,
    step,
)
from tracedb.synthetic.program import Action, seeded
from tracedb.synthetic.random_program import STREAMS, Weights

WEIGHTS = Weights(collective=0.8, stream_sync=0.8, event_sync=0.8, stream_wait=2)


def job(name: str, seed: int, ranks: int, ops: int = 8) -> Program:
    """A job whose first step shows all delays."""
    program = random_program(
        seed, threads=1, streams=2, steps=2, ops=ops, ranks=ranks, weights=WEIGHTS
    )
    program = sprinkled(program, seeded("collectives", name, seed))
    warm = step(0, *warm_up(STREAMS[:2]))
    found = [
        replace(
            rank, threads=tuple(replace(t, body=(warm, *t.body)) for t in rank.threads)
        )
        for rank in program.ranks
    ]
    return distinct(in_units(Program(tuple(found))))


def two(seed: int) -> Case:
    """Two ranks, one group."""
    return Case(f"two {seed}", job("two", seed, 2), "ranks")


def three(seed: int) -> Case:
    """Three ranks, one group."""
    return Case(f"three {seed}", job("three", seed, 3), "ranks")


PAIRS = ((0, 1), (1, 2), (0, 2))
GRID = {"rows": ((0, 1), (2, 3)), "columns": ((0, 2), (1, 3)), "all": ((0, 1, 2, 3),)}
"""The groups of four ranks."""


def groups(seed: int) -> Case:
    """Three ranks; some collectives are of two of them only, on another stream."""
    random = seeded("groups of", seed)
    members: dict[int, tuple[int, ...]] = defaultdict(
        lambda: random.choice(((), *PAIRS))
    )
    ranks: list[Rank] = []
    for number, rank in enumerate(job("groups", seed, 3).ranks):
        of = partial(of_pair, number, count(), members)
        ranks += change.each_action(Program((rank,)), of).ranks
    return Case(f"groups {seed}", distinct(Program(tuple(ranks))), "ranks")


def of_pair(
    rank: int, turns: Iterator[int], members: dict[int, tuple[int, ...]], action: Action
) -> Action:
    """A collective, perhaps of two ranks, or what another rank does instead."""
    if not isinstance(action, Collective):
        return action
    ranks = members[next(turns)]
    if not ranks:
        return action
    if rank not in ranks:
        return Op("aten::other")
    pair = 1 + PAIRS.index(ranks)
    return replace(action, group=str(pair), ranks=ranks, stream=STREAMS[pair])


def grid(seed: int) -> Case:
    """Four ranks; both pairs of a row or a column have a collective, or one of them."""
    random = seeded("grid", seed)
    chosen: dict[int, tuple[str, int | None]] = defaultdict(
        lambda: (random.choice([*GRID]), random.choice((None, None, 0, 1)))
    )
    ranks: list[Rank] = []
    for number, rank in enumerate(job("grid", seed, 4, ops=5).ranks):
        of = partial(of_line, number, count(), chosen)
        ranks += change.each_action(Program((rank,)), of).ranks
    return Case(f"grid {seed}", distinct(Program(tuple(ranks))), "ranks")


def of_line(
    rank: int,
    turns: Iterator[int],
    chosen: dict[int, tuple[str, int | None]],
    action: Action,
) -> Action:
    """A collective of a row, a column or all, or what the other pair does instead."""
    if not isinstance(action, Collective):
        return action
    axis, only = chosen[next(turns)]
    line = next(n for n, ranks in enumerate(GRID[axis]) if rank in ranks)
    if axis != "all" and only not in (None, line):
        return Op("aten::other")
    stream = STREAMS[1 if axis == "rows" else 0]
    group, ranks = f"{axis} {line}", GRID[axis][line]
    return replace(action, group=group, ranks=ranks, stream=stream)


def pipeline(seed: int) -> Case:
    """Ranks that send to one another, forward and back."""
    return Case(f"pipeline {seed}", distinct(messages.pipeline(seed).program), "ranks")


def queue(seed: int) -> Case:
    """A rank that sends far ahead of the one that receives."""
    return Case(f"queue {seed}", distinct(messages.queue(seed).program), "ranks")


KINDS = {
    "two": two,
    "three": three,
    "groups": groups,
    "grid": grid,
    "pipeline": pipeline,
    "queue": queue,
}


def meetings(case: Case) -> list[Sites]:
    """The parts of each collective, without those of the first step."""
    found: dict[tuple[str, int], Sites] = defaultdict(list)
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for of in case.sites:
        if isinstance(of.action, Collective):
            group = of.action.group
            found[group, counts[of.rank, group]].append(of)
            counts[of.rank, group] += 1
    return [parts for parts in found.values() if parts[0].step != 0]


def scenario(case: Case, random: Random) -> Scenario:
    """One to three edits, the first of which is of collectives."""
    made = Scenario(case, random)
    known = meetings(case)
    number = random.choice((1, 1, 2, 3))
    for _ in range(20):
        if len(made.kinds) >= number or not known:
            break
        parts = some_parts(known, random)
        choices = of_parts(made, parts, random)
        if made.kinds:
            choices += beside(made, parts[0], random)
        targets, edit = random.choice(choices)
        if targets:
            edit(targets)
    return made


def some_parts(known: list[Sites], random: Random) -> Sites:
    """Some collectives, on all of their ranks or on some."""
    chosen = random.sample(known, min(len(known), random.choice((1, 1, 2, 4))))
    is_whole = random.random() < 3 / 5
    return [
        of
        for parts in chosen
        for of in random.sample(
            parts, len(parts) if is_whole else random.randint(1, len(parts))
        )
    ]


def of_parts(made: Scenario, parts: Sites, random: Random) -> list[Choice]:
    """Edits of collectives."""
    case = made.case
    outer = {id(of.ops[0]) for of in parts if of.ops}
    around = [of for of in case.sites if id(of.action) in outer]
    waiting = [of for of in parts if case.awaiting(of)]
    found: list[Choice] = [
        (parts, made.gpu_time),
        (parts, made.gpu_time),
        (parts, made.gpu_gone),
        (parts, made.gpu_new),
        (parts, made.moved),
        (around, made.op_gone),
        (around, made.slower),
        (around, made.op_new),
        (around, made.op_time),
        (waiting, made.unordered),
        (parts, made.calls),
        (parts, made.late),
        (parts[:1], partial(whole_group, made, random)),
        (parts[:1], partial(whole_group, made, random)),
    ]
    if not {"fuse", "graph"} & set(made.kinds):
        found += [(parts, partial(captured, made, random))] * 2
    if "overlap" not in made.kinds:
        found += [(parts[:1], partial(overlapped, made, random))] * 2
    return found


def whole_group(made: Scenario, random: Random, targets: Sites) -> None:
    """Change all collectives of a process group, selected by its name."""
    (of,) = targets
    assert isinstance(of.action, Collective)
    group = of.action.group
    parts = [
        of
        for of in made.case.sites
        if isinstance(of.action, Collective) and of.action.group == group
    ]
    factor, add_ns, removed = random.choice(
        ((0, 0, False), (3, 0, False), (0.5, 30_000, False), (1, 0, True))
    )
    for part in parts:
        marks = made.of(part)
        marks.factor *= factor
        marks.add_ns += add_ns
        marks.removed |= removed
    how = {"action": "remove"} if removed else {"factor": factor, "add_ns": add_ns}
    made.add(
        "group",
        target="gpu",
        type="collective",
        process_group=f"{group} *",
        **how,
    )


def captured(made: Scenario, random: Random, targets: Sites) -> None:
    """Capture what is around collectives as graphs, one on each rank."""
    found: Sites = []
    for part in targets:
        own = [of for of in made.case.sites if of.is_with(part) and of.step != 0]
        row = [of for of in own if isinstance(of.action, Work)]
        at = row.index(part)
        near = row[max(0, at - random.randint(0, 3)) : at + random.randint(2, 4)]
        found += [of for of in near if not any(of is other for other in found)]
    if len(found) > 1:
        made.joined(found, "graph")


def overlapped(made: Scenario, random: Random, targets: Sites) -> None:
    """Overlap a collective until an op behind it on its rank."""
    (of,) = targets
    sites = made.case.sites
    at = sites.index(of)
    behind = [
        op
        for op in sites[at + 1 :]
        if op.is_with(of)
        and isinstance(op.action, Op)
        and op.step == of.step
        and unwaited(made.case.within(op))
    ]
    if behind:
        made.overlapped(targets, random.choice(behind[:6]))


def beside(made: Scenario, part: Site, random: Random) -> list[Choice]:
    """Edits of what is near on its rank, or anywhere on another one."""
    own = [of for of in made.case.sites if of.step != 0]
    near = [of for of in own if of.is_with(part)]
    at = near.index(part)
    near = near[max(0, at - 12) : at + 12] + random.sample(own, min(12, len(own)))
    ops = ops_of(made, near)
    waits = [of for of in near if isinstance(of.action, Wait)]
    works = works_of(near)
    return [
        (some(of, random), edit)
        for of, edit in (
            (works, made.gpu_time),
            (unwaited(works), made.gpu_gone),
            (ops, made.slower),
            (ops, made.op_gone),
            (waits, made.unsynced),
            (unwaited(works), made.moved),
        )
    ]


if __name__ == "__main__":
    main(KINDS, scenario)
