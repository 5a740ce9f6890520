"""Random programs of threads, all of whose names are random.

    python tests/nameless.py 20
    python tests/nameless.py 20 forked

No name of a thread or an op is one of PyTorch's, and no number or flow links them, so
only times show that a thread waits for another one. Each program is executed again with
each of some random changes, as for `tests/loading.py`. Kinds of programs: `SHAPES`.
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
    OP_TYPES,
    Part,
    Place,
    Where,
    launches,
    new_work,
    no_ops,
    no_work,
    paced,
    part,
    rewritten,
    slower,
    timed,
)
from executed import CUDA, Case, Predicted, case, predict, rounded, times, warm_up
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
    tids: dict[str, str]
    """The number of each thread in the trace."""
    ops: tuple[str, ...]


def nameless(seed: int, shape: str = "handover") -> Nameless:
    """A random program of a kind, after a step that shows all delays."""
    random = seeded(seed, "nameless" if shape == "handover" else shape)
    return _named(f"{shape} {seed}", SHAPES[shape](seed, random), random)


def _handover(seed: int, random: Random) -> list[list[Action]]:
    """Two threads, or three; the main one idles or works while the second does."""
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
    return [main, second, *([third] if random.random() < 1 / 3 else [])]


def _forked(_: int, random: Random) -> list[list[Action]]:
    """The main thread wakes one thread, and another one soon after that has stopped.

    It waits for the second one only, or for both, and may work on before that.
    """
    main: list[Action] = []
    early: list[Action] = []
    late: list[Action] = []
    after_ns = random.choice((20_000, 50_000, 90_000))
    joins, is_busy = random.random() < 1 / 4, random.random() < 1 / 2
    usual_ns = random.choice((150_000, 300_000, 600_000))
    names = [_words(random) for _ in range(6)]
    for number in range(random.choice((3, 5, 8, 12))):
        own_ns = round(usual_ns * random.uniform(0.8, 1.3))
        early_ns = own_ns - round(random.uniform(0, after_ns))
        own = [_taking(of, own_ns, random) for of in names[:3]]
        goes, comes = f"early {number}", f"late {number}"
        both: list[Action] = (
            [Await(f"done {goes}", "join"), Gap(2_000)] if joins else []
        )
        more = _taking(names[5], usual_ns // 3, random) if is_busy else []
        body = [*own[0], Notify(goes), *own[1], Notify(comes), Gap(2_000), *more]
        body += [Await(f"done {comes}", "join"), *both, *own[2]]
        main += [step(number + 1, *body), Gap(2_000)]
        early += [Await(goes, "fork"), *_taking(names[3], early_ns, random)]
        early += [Notify(f"done {goes}")]
        late += [Await(comes, "fork"), *_taking(names[4], usual_ns, random)]
        late += [Notify(f"done {comes}")]
    return [main, early, late]


def _periodic(_: int, random: Random) -> list[list[Action]]:
    """Two threads that work for themselves, in equal periods or nearly so."""
    period_ns = random.choice((400_000, 1_000_000))
    after_ns = random.choice((5_000, 20_000, 60_000))
    vary_ns, drift_ns = random.choice((0, 2_000, 20_000)), random.choice((0, 0, 5_000))
    main_names, other_names = _words(random), _words(random)
    main: list[Action] = []
    other: list[Action] = []
    for number in range(random.choice((3, 5, 8, 12))):
        ns = [
            round(period_ns * 0.6 + vary_ns * random.uniform(-1, 1)) for _ in range(2)
        ]
        main += [step(number + 1, *_taking(main_names, ns[0], random))]
        main += [Gap(period_ns - ns[0])]
        other += [*_taking(other_names, ns[1], random)]
        drifted_ns = round(drift_ns * random.uniform(-1, 1))
        other += [Gap(period_ns - ns[1] + drifted_ns)]
    alone = Program((Rank((Thread("", (_warm_up(),)),)),))
    shown = times(execute(alone, CUDA)[0].truth)
    shown_ns = max(end_ns for _, end_ns in shown.values())
    first_ns = shown_ns - round(period_ns * 0.6) - after_ns
    return [main, [Gap(first_ns), *other]]


SHAPES: dict[str, Callable[[int, Random], list[list[Action]]]] = {
    "handover": _handover,
    "forked": _forked,
    "periodic": _periodic,
}
"""What the threads of a program do, the main one first."""


def _words(random: Random) -> list[str]:
    return [_word(random) for _ in range(random.randint(2, 5))]


def _taking(names: list[str], ns: int, random: Random) -> list[Action]:
    """Ops of these names that take a time in all, with the time between them."""
    cuts = sorted(random.uniform(0.1, 1) for _ in names)
    found: list[Action] = []
    for name, since, until in zip(names, [0, *cuts], cuts, strict=False):
        inside = round(ns * (until - since) / cuts[-1]) - 2_000
        found += [Op(name, (Gap(max(1_000, inside)),)), Gap(2_000)]
    return found[:-1]


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


def _named(name: str, bodies: list[list[Action]], random: Random) -> Nameless:
    """The program with random names of threads and ops."""
    names: dict[str, str] = {}

    def change_one(action: Action) -> Action:
        if not isinstance(action, Op):
            return action
        name = names.setdefault(action.name, _word(random))
        return replace(action, name=name, sequence=None, backward=False)

    threads = tuple(_word(random) for _ in bodies)
    main, *others = bodies
    warmed = [_warm_up(), *main]
    made = zip(threads, [warmed, *others], strict=True)
    rank = Rank(tuple(Thread(name, tuple(body)) for name, body in made))
    program = change.each_action(rounded(Program((rank,)), CUDA), change_one)
    names.pop("aten::warm_up")
    own = case(name, program, CUDA, recorded=True)
    traced = execute(own.known, own.delays)[0].truth.threads
    tids = {thread: str(tid) for tid, thread in traced.items()}
    return Nameless(own, threads, tids, tuple(names.values()))


def _warm_up() -> Action:
    """A step that shows all delays."""
    return step(0, *warm_up(STREAMS[:2]))


def _word(random: Random) -> str:
    """A name that nobody knows."""
    return "".join(random.choices(string.ascii_lowercase, k=8))


def edited(of: Nameless, random: Random) -> Part:
    """A random edit, of ops or GPU work chosen by type, name or thread."""
    op, thread = random.choice(of.ops), random.choice(of.threads)
    in_op = Where({"op": op}, lambda _, p: p.is_in(Op, f"^{op}$"))
    on = _on(of, thread)
    kind = random.choice(("kernel", "kernel", "memcpy", "memset"))
    gpu = random.choice((EVERYWHERE, in_op, on))
    host = random.choice((EVERYWHERE, in_op, on))
    found: list[Callable[[], Part]] = [
        lambda: timed(random, kind, gpu),
        lambda: slower(random, host) if host is not on else ops_paced(random, on),
        lambda: slower(random, host) if host is not on else ops_paced(random, on),
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


def paces(of: Nameless) -> dict[str, Part]:
    """Edits of whole threads, the same for all programs of a kind."""
    made = [
        paced(factor, _in_ops(_on(of, thread)), OP_TYPES)
        for number, thread in enumerate(of.threads)
        for factor in ((0.5, 1.3, 1.8) if number else (1.3,))
    ]
    return {part.name: part for part in made}


def _on(of: Nameless, thread: str) -> Where:
    """All that a thread does."""
    return Where({"thread": of.tids[thread]}, lambda _, place: place.thread == thread)


def _in_ops(on: Where) -> Where:
    """What a thread does within ops: waking it takes time outside."""

    def holds(action: Action, place: Place) -> bool:
        return on.holds(action, place) and place.is_in(Op, "")

    return Where(on.fields, holds)


def ops_paced(random: Random, on: Where) -> Part:
    """Make the ops of a thread slower."""
    return paced(random.choice((2, 3)), _in_ops(on), OP_TYPES)


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


def answers(made: list[tuple[Nameless, dict[str, Part]]]) -> Iterator[Answer]:
    """Predict edits of programs, the same for all, and execute these with each."""
    cases = [of.case for of, _ in made]
    edits = {name: part.edits for name, part in made[0][1].items()}
    with TemporaryDirectory() as folder:
        predicted = predict(Path(folder), cases, edits, GUESSES, drops_idle=True)
    for of, parts in made:
        told = {scenario for (scenario,) in predicted.answers[of.case.name, 0]}
        yield Answer(of.case.name, "nothing", off_by(of.case, predicted), is_told=False)
        for job, _, name in predicted.times:
            if job == of.case.name and name in parts:
                changed = parts[name].change(of.case.known, of.case.delays)
                lasted = lasting(times(execute(*changed)[0].truth))
                foretold = lasting(predicted.times[job, 0, name])
                yield Answer(job, name, (foretold - lasted) / lasted, name in told)


def off_by(of: Case, predicted: Predicted) -> float:
    """[1] The largest error of any time without a change."""
    happened = times(execute(of.known, of.delays)[0].truth)
    replayed = predicted.times[of.name, 0, "baseline"]
    off_ns = max(abs(span[1] - replayed[what][1]) for what, span in happened.items())
    return off_ns / lasting(happened)


def main(count: int, shape: str = "handover") -> None:
    """Show the answers about some programs of a kind."""
    found: list[Answer] = []
    programs = [(seed, nameless(seed, shape)) for seed in range(count)]
    if shape == "handover":
        for seed, of in programs:
            found += answers([(of, edits_of(seed, of))])
    else:
        found += answers([(of, paces(of)) for _, of in programs])
    off = [one for one in found if one.change == "nothing" and one.error]
    for one in off:
        sys.stdout.write(f"{one.job}: without a change, {one.error:.4%} off\n")
    show([one for one in found if one.change != "nothing"])


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:3])
