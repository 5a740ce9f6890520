"""Random programs of threads that work for each other, all of whose names are random.

    python tests/nameless.py 20

No name of a thread or an op is one of PyTorch's, and no number or flow links them, so
only times show that a thread waits for another one. Each program is executed again with
each of some random changes, as for `tests/loading.py`.
"""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from composed import (
    EVERYWHERE,
    Part,
    Place,
    Where,
    launches,
    new_work,
    no_ops,
    no_work,
    part,
    rewritten,
    slower,
    timed,
)
from executed import CUDA, Case, case, predict, rounded, times, warm_up
from loading import GUESSES, Answer, lasting, show

from tracedb.synthetic import (
    Annotation,
    Await,
    Delays,
    EventRecord,
    EventSync,
    Gap,
    Notify,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamWait,
    Thread,
    change,
    execute,
    random_program,
    step,
)
from tracedb.synthetic.program import Action, seeded
from tracedb.synthetic.random_program import STREAMS

EDITS = 5
"""Random edits for each program."""


@dataclass(frozen=True)
class Nameless:
    """A program, and the names of its threads and ops."""

    case: Case
    threads: tuple[str, ...]
    ops: tuple[str, ...]


def nameless(seed: int) -> Nameless:
    """Two threads, or three; the main one idles or works while the second does."""
    random = seeded(seed, "nameless")
    steps = random.choice((2, 3, 5))
    handovers = random.choice((1, 1, 2))
    bodies = [_steps(seed * 10 + number, steps, random) for number in range(3)]
    main: list[Action] = []
    second: list[Action] = []
    third: list[Action] = []
    busy = random.random() < 1 / 2
    for number in range(steps):
        own = _parts(bodies[0][number], 2 * handovers + 1)
        other = _parts(bodies[1][number], handovers)
        marked = [*own[0]]
        for turn in range(handovers):
            go, done = f"go {number} {turn}", f"done {number} {turn}"
            meanwhile = own[2 * turn + 1] if busy else []
            marked += [Notify(go), Gap(2_000), *meanwhile, Await(done, "join")]
            marked += [Gap(2_000), *own[2 * turn + 2]]
            second += [Await(go, "fork"), Gap(2_000), *other[turn], Notify(done)]
        main += [step(number + 1, *marked), Gap(2_000)]
        third += [*bodies[2][number], Gap(50_000)]
    threads = [main, second, *([third] if random.random() < 1 / 3 else [])]
    return _named(seed, threads, random)


def _steps(seed: int, steps: int, random: Random) -> list[list[Action]]:
    """What one thread does in each step: the same, in other times."""
    ops = random.choice((6, 12, 30))
    made = random_program(seed, threads=1, steps=1, ops=ops)
    (mark, *_) = made.ranks[0].threads[0].body
    assert isinstance(mark, Annotation)
    body = Program((Rank((Thread("", tuple(_plain(mark.body))),)),))

    def again(number: int) -> list[Action]:
        def change_one(action: Action) -> Action:
            if isinstance(action, Gap | OtherCall):
                return replace(action, ns=round(action.ns * random.uniform(0.7, 1.3)))
            if isinstance(action, EventRecord | EventSync | StreamWait):
                return replace(action, event=f"{action.event} {seed} {number}")
            return action

        return list(change.each_action(body, change_one).ranks[0].threads[0].body)

    return [again(number) for number in range(steps)]


def _plain(body: tuple[Action, ...]) -> list[Action]:
    """The actions of ranges, without the ranges."""
    found: list[Action] = []
    for action in body:
        found += _plain(action.body) if isinstance(action, Annotation) else [action]
    return found


def _parts(body: list[Action], count: int) -> list[list[Action]]:
    """The actions in order, in as many parts."""
    size = max(1, len(body) // count)
    cuts = [0, *(k * size for k in range(1, count)), len(body)]
    return [body[one:two] for one, two in pairwise(cuts)]


def _named(seed: int, bodies: list[list[Action]], random: Random) -> Nameless:
    """The program with random names, after a step that shows all delays."""
    names: dict[str, str] = {}

    def change_one(action: Action) -> Action:
        if not isinstance(action, Op):
            return action
        name = names.setdefault(action.name, _word(random))
        return replace(action, name=name, sequence=None, backward=False)

    threads = tuple(_word(random) for _ in bodies)
    main, *others = bodies
    warmed = [step(0, *warm_up(STREAMS[:2])), *main]
    made = zip(threads, [warmed, *others], strict=True)
    rank = Rank(tuple(Thread(name, tuple(body)) for name, body in made))
    program = change.each_action(rounded(Program((rank,)), CUDA), change_one)
    names.pop("aten::warm_up")
    own = case(f"nameless {seed}", program, CUDA, recorded=True)
    return Nameless(own, threads, tuple(names.values()))


def _word(random: Random) -> str:
    """A name that nobody knows."""
    return "".join(random.choices(string.ascii_lowercase, k=8))


def edited(of: Nameless, random: Random) -> Part:
    """A random edit, of ops or GPU work chosen by type, name or thread."""
    op, thread = random.choice(of.ops), random.choice(of.threads)
    in_op = Where({"op": op}, lambda _, p: p.is_in(Op, f"^{op}$"))
    on = Where({"thread": thread}, lambda _, p: p.thread == thread)
    kind = random.choice(("kernel", "kernel", "memcpy", "memset"))
    gpu = random.choice((EVERYWHERE, in_op, on))
    host = random.choice((EVERYWHERE, in_op, on))
    found: list[Callable[[], Part]] = [
        lambda: timed(random, kind, gpu),
        lambda: slower(random, host),
        lambda: slower(random, host),
        lambda: launches(random),
        lambda: no_ops(f"^{op}$", random.choice((EVERYWHERE, on))),
        lambda: new_ops(random, op),
        lambda: new_work(random, kind, gpu),
        lambda: no_work(kind, gpu),
    ]
    return random.choice(found)()


def edits_of(seed: int, of: Nameless) -> dict[str, Part]:
    """Some random edits of a program."""
    random = seeded(seed, "edits")
    made = [edited(of, random) for _ in range(EDITS)]
    return {f"{number}: {part.name}": part for number, part in enumerate(made)}


def new_ops(random: Random, op: str) -> Part:
    """Insert ops before or after others."""
    place, ns = random.choice(("before", "after")), random.choice((4_000, 100_000))
    names = f"^{op}$"

    def rewrite(action: Action, _: Place, __: Delays) -> tuple[Action, ...]:
        if not isinstance(action, Op) or not re.search(names, action.name):
            return (action,)
        new = Op("inserted", (Gap(ns),))
        return (new, action) if place == "before" else (action, new)

    edit = {"target": "op", "name": op, "action": "insert"}
    return part(5, rewritten(rewrite), [edit | {"place": place, "host_ns": ns}])


def answers(seed: int, folder: Path) -> Iterator[Answer]:
    """Predict the edits of a program, and execute it with each of them."""
    of = nameless(seed)
    known, delays = of.case.known, of.case.delays
    made = edits_of(seed, of)
    edits = {name: part.edits for name, part in made.items()}
    predicted = predict(folder, [of.case], edits, GUESSES, drops_idle=True)
    told = {scenario for (scenario,) in predicted.answers[of.case.name, 0]}
    for _, _, name in predicted.times:
        if name in made:
            program, changed = made[name].change(known, delays)
            happened = lasting(times(execute(program, changed)[0].truth))
            foretold = lasting(predicted.times[of.case.name, 0, name])
            error = (foretold - happened) / happened
            yield Answer(of.case.name, name, error, name in told)


def main(count: int) -> None:
    """Show the answers about some programs."""
    found: list[Answer] = []
    for seed in range(count):
        with TemporaryDirectory() as folder:
            found += answers(seed, Path(folder))
    show(found)


if __name__ == "__main__":
    main(int(sys.argv[1]))
