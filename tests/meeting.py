"""Edits that meet: of one node, of neighbors, and at the borders of steps.

Each scenario has two or three edits of nodes close to each other. The program is
changed alike (`tests/marked.py`) and executed again. `python tests/meeting.py 1..20`
compares all times for 20 seeds of each kind of program, and prints what is predicted
otherwise; kinds, the number of scenarios, and a file for their details may follow.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import get_args

from executed import units, warm_up
from marks import Case, Scenario, Site, Sites, Wait, Work
from remade import Outcome, Wrong, compare

from tracedb.synthetic import (
    Annotation,
    Collective,
    Copy,
    Form,
    Gap,
    GraphLaunch,
    Launch,
    Memset,
    Op,
    OtherCall,
    Program,
    Rank,
    change,
    random_program,
    step,
)
from tracedb.synthetic.program import DATA_PREFIX, Action, seeded
from tracedb.synthetic.random_program import STREAMS, Weights


def distinct(program: Program) -> Program:
    """The program with an object of its own for each action, and ops of own names."""
    program = copy.deepcopy(program)
    numbers = iter(range(1, 10**9))

    def of(action: Action) -> Action:
        if isinstance(action, Op):
            name = f"{action.name}.{next(numbers)}"
            return replace(action, name=name, body=tuple(map(of, action.body)))
        if isinstance(action, Annotation):
            return replace(action, body=tuple(map(of, action.body)))
        if isinstance(action, GraphLaunch):
            return replace(action, work=tuple(replace(a) for a in action.work))
        return replace(action)

    return Program(
        tuple(
            Rank(
                tuple(replace(t, body=tuple(map(of, t.body))) for t in rank.threads),
                rank.devices,
            )
            for rank in program.ranks
        )
    )


def sprinkled(program: Program, random: Random) -> Program:
    """Some times become 0, and some GPU work outlives its step."""

    def of(action: Action) -> Action:
        share = random.random()
        if isinstance(action, Gap) and share < 1 / 5:
            return Gap(0)
        if isinstance(action, Launch | Memset) and share < 1 / 12:
            return replace(action, kernel_ns=0)
        if isinstance(action, Launch) and share > 11 / 12:
            return replace(action, kernel_ns=units(150_000))
        if isinstance(action, Op) and share < 1 / 12:
            return replace(action, body=(Op("aten::empty"), *action.body))
        return action

    return change.each_action(program, of)


UNWAITED = Weights(
    operator=0.5, stream_sync=0, device_sync=0, event_sync=0, blocking_copy=0
)
WAITING = Weights(stream_sync=1.5, device_sync=0.6, event_sync=1, stream_wait=2)


def plain(seed: int) -> Case:
    """One thread, two streams."""
    return warmed("plain", seed, WAITING, None)


def ahead(seed: int) -> Case:
    """The host never waits."""
    return warmed("ahead", seed, UNWAITED, None)


def autograd(seed: int) -> Case:
    """A second thread launches, too."""
    return warmed("autograd", seed, Weights(), "threads", threads=2)


def ranks(seed: int) -> Case:
    """Two ranks with collectives."""
    return warmed("ranks", seed, Weights(collective=0.6), "ranks", ranks=2)


def captured(seed: int) -> Case:
    """Recorded graphs among the launches."""
    case = warmed("captured", seed, Weights(), "graphs")
    random = seeded("captured", seed)
    (rank,) = case.program.ranks
    (thread,) = rank.threads

    def of(body: Iterable[Action]) -> Iterator[Action]:
        for action in body:
            if isinstance(action, Op | Annotation):
                yield replace(action, body=tuple(of(action.body)))
            elif isinstance(action, Launch) and random.random() < 1 / 4:
                parts = tuple(replace(action) for _ in range(random.randint(1, 3)))
                yield GraphLaunch(parts, 8_000, 600)
            else:
                yield action

    body = tuple(of(thread.body))
    program = Program((replace(rank, threads=(replace(thread, body=body),)),))
    return Case(case.name, distinct(program), case.trait)


def unrecorded(seed: int) -> Case:
    """The trace does not record what waits are for."""
    case = plain(seed)
    name = f"unrecorded {seed}"
    return Case(name, case.program, case.trait, Form())


KINDS = {
    "plain": plain,
    "ahead": ahead,
    "autograd": autograd,
    "ranks": ranks,
    "captured": captured,
    "unrecorded": unrecorded,
}


def warmed(
    name: str, seed: int, weights: Weights, trait: str | None, **size: int
) -> Case:
    """A program whose first step shows all delays."""
    program = random_program(
        seed,
        **{"threads": 1, "streams": 2, "steps": 3, "ops": 6} | size,
        weights=weights,
    )
    program = sprinkled(program, seeded("meeting", name, seed))
    found = []
    for rank in program.ranks:
        main, *others = rank.threads
        body = (step(0, *warm_up(STREAMS[:2])), *main.body)
        found.append(Rank((replace(main, body=body), *others), rank.devices))
    whole = in_units(Program(tuple(found)))
    return Case(f"{name} {seed}", distinct(whole), trait)


def in_units(program: Program) -> Program:
    """Times rounded, but what takes no time still takes none; loading only loads."""

    def of(action: Action) -> Action:
        if isinstance(action, Gap | OtherCall) and action.ns:
            return replace(action, ns=units(action.ns))
        if isinstance(action, Work) and action.kernel_ns:
            return replace(action, kernel_ns=units(action.kernel_ns))
        if isinstance(action, Annotation) and action.name.startswith(DATA_PREFIX):
            loading = [inner for inner in action.body if isinstance(inner, Gap)]
            return replace(action, body=tuple(loading))
        return action

    return change.each_action(program, of)


def scenario(case: Case, random: Random) -> Scenario:
    """Two or three edits of nodes that are close to each other."""
    made = Scenario(case, random)
    count = random.choice((2, 2, 3))
    own = [of for of in case.sites if of.step != 0]
    anchors = edges(own, random)
    while len(made.kinds) < count:
        near = neighbors(own, random.choice(anchors), random)
        for _ in range(10):
            if len(made.kinds) < count:
                attempt(made, near, random)
    return made


def edges(own: Sites, random: Random) -> Sites:
    """Actions at edges, mostly: first and last of a step, next to waits, of time 0."""
    works = [of for of in own if isinstance(of.action, Work | Op | Wait)]
    found = []
    for here, following in pairwise(works):
        if here.step != following.step or here.thread != following.thread:
            found += [here, following]
        if isinstance(following.action, Wait) or isinstance(here.action, Wait):
            found += [here, following]
        if getattr(here.action, "kernel_ns", 1) == 0:
            found.append(here)
    return found + random.sample(works, min(len(works), 6))


def neighbors(own: Sites, anchor: Site, random: Random) -> Sites:
    """What is close to an action, on its thread or its stream."""
    same = [of for of in own if of.is_with(anchor)]
    at = next(n for n, of in enumerate(same) if of is anchor)
    reach = random.choice((3, 8))
    near = same[max(0, at - reach) : at + reach + 1]
    around = [of for of in same if any(of.action is op for op in anchor.ops)]
    unique = {id(of): of for of in [anchor, *near, *around]}
    return list(unique.values())


def attempt(made: Scenario, near: Sites, random: Random) -> None:
    """Add a random edit, if there is a target for it."""
    found = [*single(made, near, random), *rows_of(made, near, random)]
    if made.case.trait != "threads":
        found += elsewhere(made, near, random)
    targets, edit = random.choice(found)
    if targets:
        edit(targets)


Choice = tuple[Sites, Callable[[Sites], None]]
"""Possible targets, and an edit of them."""


def some(sites: Sites, random: Random) -> Sites:
    """One or two of them, none within another."""
    found = random.sample(sites, min(len(sites), random.choice((1, 1, 2))))
    return [
        of
        for of in found
        if not any(op is other.action for other in found for op in of.ops)
    ]


def works_of(near: Sites) -> Sites:
    """Launches, except of collectives: all ranks take part in these."""
    return [of for of in near if isinstance(of.action, Launch | Copy | Memset)]


def unwaited(near: Sites) -> Sites:
    """Launches that do not block."""
    return [
        of
        for of in works_of(near)
        if not (isinstance(of.action, Copy) and of.action.blocking)
    ]


def ops_of(made: Scenario, near: Sites, *without: type) -> Sites:
    """Ops in which nothing of a kind is."""
    return [
        of
        for of in near
        if isinstance(of.action, Op)
        and not any(isinstance(a.action, without) for a in made.case.within(of))
    ]


def calm_ops(made: Scenario, near: Sites) -> Sites:
    """Ops that neither wait nor launch graphs or collectives."""
    return [
        of
        for of in ops_of(made, near, Collective, *get_args(Wait), GraphLaunch)
        if unwaited(made.case.within(of)) == works_of(made.case.within(of))
    ]


def single(made: Scenario, near: Sites, random: Random) -> list[Choice]:
    """Edits of single nodes."""
    works, loose = works_of(near), unwaited(near)
    ops = ops_of(made, near, Collective)
    calm = calm_ops(made, near)
    blocking = [of for of in works if not any(of is other for other in loose)]
    waits = blocking + [of for of in near if isinstance(of.action, Wait)]
    waiting = [of for of in works if made.case.awaiting(of)]
    return [
        (some(works, random), made.gpu_time),
        (some(loose, random), made.gpu_gone),
        (some(works, random), made.gpu_new),
        (some(ops, random), made.op_gone),
        (some(ops, random), made.op_new),
        (some(ops, random), made.slower),
        (some(calm, random), made.op_time),
        (some(waits, random), made.unsynced),
        (some(waiting, random), made.unordered),
        (some(works, random), made.calls),
        (some(works, random), made.late),
        (some(waits, random), made.returned),
    ]


def rows_of(made: Scenario, near: Sites, random: Random) -> list[Choice]:
    """Edits of nodes in a row."""
    ops = in_a_row(calm_ops(made, near), made)
    found: list[Choice] = [(ops, made.op_gone)]
    joins = {"fuse", "graph", "op graph"} & set(made.kinds)
    if made.case.trait != "threads" and not joins:
        works = consecutive(made, near, random)
        found += [(ops, made.op_graph), (works[1:] and works, made.joined)]
    return found


def elsewhere(made: Scenario, near: Sites, random: Random) -> list[Choice]:
    """Edits that put work on other streams."""
    loose = unwaited(near)
    found: list[Choice] = [(some(loose, random), made.moved)]
    behind = ops_of(made, near[1:], Collective)
    if behind and "overlap" not in made.kinds and made.case.trait != "graphs":
        overlap = partial(made.overlapped, until=random.choice(behind))
        found.append((some(loose, random), overlap))
    return found


def in_a_row(ops: Sites, made: Scenario) -> Sites:
    """Top-level ops with nothing but gaps between them, and two launches or more."""
    top = [of for of in ops if not of.ops]
    found: Sites = []
    for here in top:
        if found and not follows(made, found[-1], here):
            break
        found.append(here)
    counts = [
        sum(isinstance(of.action, Work) for of in made.case.within(op)) for op in found
    ]
    while counts and not counts[-1]:
        counts.pop()
    first = next((n for n, count in enumerate(counts) if count), 0)
    return found[first : len(counts)] if sum(counts) > 1 else []


def follows(made: Scenario, here: Site, there: Site) -> bool:
    """Whether only gaps lie between two ops."""
    sites = made.case.sites
    first, last = (
        next(n for n, a in enumerate(sites) if a is of) for of in (here, there)
    )
    between = [
        of
        for of in sites[first + 1 : last]
        if not any(op is here.action for op in of.ops)
    ]
    gaps = all(isinstance(of.action, Gap) for of in between)
    return here.step == there.step and gaps


def consecutive(made: Scenario, near: Sites, random: Random) -> Sites:
    """Launches in a row."""
    first = near[0]
    row = [
        of
        for of in made.case.sites
        if of.is_with(first) and isinstance(of.action, Work) and of.step != 0
    ]
    close = [n for n, of in enumerate(row) if any(of is a for a in near)]
    if not close:
        return []
    at = random.choice(close)
    low = max(0, at - random.randint(0, 3))
    return row[low : at + random.randint(1, 3)]


Kinds = Mapping[str, Callable[[int], Case]]
Make = Callable[[Case, Random], Scenario]


def search(
    kinds: Kinds, make: Make, seeds: range, count: int, log: Path | None
) -> None:
    """Print what is predicted otherwise than it is executed."""
    totals: Counter[str] = Counter()
    for kind, case_of in kinds.items():
        for seed in seeds:
            case = case_of(seed)
            random = seeded("meeting scenarios", kind, seed)
            made = [make(case, random) for _ in range(count)]
            with TemporaryDirectory() as folder:
                outcome = compare(case, made, Path(folder))
            totals += counted(outcome)
            for wrong in outcome.wrong:
                tell(wrong, made, log)
            sys.stdout.write(f"{case.name}: {len(outcome.exact)} exact\n")
            sys.stdout.flush()
    for name, number in totals.most_common():
        sys.stdout.write(f"{number:5} {name}\n")


def counted(outcome: Outcome) -> Counter[str]:
    """How many scenarios became what."""
    found = Counter("exact, warned" if of.warnings else "exact" for of in outcome.exact)
    found.update(
        "wrong, warned" if of.scenario.warnings else "wrong without a word"
        for of in outcome.wrong
    )
    found.update(
        "exact, says: " + re.sub(r"[\d.]+", "N", text)[:90]
        for of in outcome.exact
        for text in of.warnings
    )
    found.update(
        "refused: " + re.sub(r"s?\d+", "N", why)[:90] for _, why in outcome.refused
    )
    return found


def tell(wrong: Wrong, made: list[Scenario], log: Path | None) -> None:
    """Print a wrong prediction, and append its details to a file."""
    of = wrong.scenario
    number = made.index(of) if of in made else None
    line = {
        "case": of.case.name,
        "number": number,
        "kinds": of.kinds,
        "share": wrong.share,
        "warnings": sorted(of.warnings),
        "edits": of.edits,
        "times": {str(key): span for key, span in wrong.times.items()},
    }
    if log is not None:
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
    word = "warned" if of.warnings else "without a word"
    sys.stdout.write(
        f"{of.case.name} #{number} {' + '.join(of.kinds) or 'baseline'}: wrong {word}, "
        f"{wrong.share:.2%}\n"
    )


def main(kinds: Kinds, make: Make) -> None:
    """Search as the command line says."""
    given = dict(enumerate(sys.argv))
    first, _, last = given[1].partition("..")
    named = given[2].split(",") if 2 in given else kinds
    search(
        {name: kinds[name] for name in named},
        make,
        range(int(first), int(last or first) + 1),
        int(given.get(3, 40)),
        Path(given[4]) if 4 in given else None,
    )


if __name__ == "__main__":
    main(KINDS, scenario)
