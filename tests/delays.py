"""Edits of delays by every selector, and programs whose actions have such delays.

`python tests/delays.py N` executes the programs of `tests/test_composed.py` with N
seeds, and compares the predictions of random edits with them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeGuard

from composed import Edit, Part, Place, Where, Work, part, rewritten, where
from executed import Case, assert_foretold, predict

from tracedb.synthetic import (
    Await,
    Copy,
    Delayed,
    Delays,
    DeviceSync,
    EventSync,
    Program,
    StreamSync,
)
from tracedb.synthetic.program import Action, DelayName, seeded

Late = Work | StreamSync | DeviceSync | EventSync | Await
"""What may come late."""
KINDS = ("launch", "stream", "stream_wait", "return")


def names_of(action: Late, kind: str | None) -> list[DelayName]:
    """The delays of an action that an edit of a kind changes."""
    found: dict[str, DelayName] = {}
    if isinstance(action, Work):
        found = {
            "launch": "launch_latency_ns",
            "stream": "queue_gap_ns",
            "stream_wait": "stream_wait_ns",
        }
    elif isinstance(action, Await):
        found = {"thread": "thread_switch_ns"}
    else:
        found = {"return": "sync_return_ns"}
    if isinstance(action, Copy) and action.blocking:
        found["return"] = "copy_return_ns"
    return [name for of, name in found.items() if kind in (None, of)]


def is_late(action: Action) -> TypeGuard[Late]:
    """Whether an action has a delay."""
    return isinstance(action, Late)


def calls(random: Random) -> Where:
    """Waits by the name of their call."""
    kind = random.choice((StreamSync, DeviceSync, EventSync))
    return Where({"name": kind.call}, lambda a, _: isinstance(a, kind))


def chosen(random: Random, kind: str | None, traits: frozenset[str]) -> Where:
    """A random selection that a kind of delay can have."""
    of_gpu = kind in ("launch", "stream", "stream_wait")
    if kind == "return" and random.random() < 1 / 4:
        return calls(random)
    while True:
        found = where(random, of_gpu=of_gpu, traits=traits)
        if "phase" not in found.fields:
            return found


def delayed(random: Random, traits: frozenset[str]) -> Part:
    """Change the delays of some work and some waits."""
    kinds: tuple[str | None, ...] = (*KINDS, None)
    if "gaps" in traits:
        kinds = ("launch", "stream_wait", "return")
    if "threads" in traits:
        kinds = (*kinds, "thread")
    kind = random.choice(kinds)
    at = chosen(random, kind, traits)
    factor, add_ns = random.choice(((0, 0), (0.5, 0), (2, 0), (1, 5_000), (2, 3_000)))
    edit: Edit = {"target": "delay", "type": kind} | at.fields
    edit |= {"factor": factor, "add_ns": add_ns}
    is_plain = "threads" not in traits and not {"op", "shape"} & at.fields.keys()
    if kind in ("launch", "return") and is_plain and random.random() < 1 / 2:
        edit["instance"] = random.choice(("1", "2..3"))

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        counts: dict[tuple[int, int | None], int] = defaultdict(int)

        def rewrite(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
            if not is_late(action) or not at.holds(action, place):
                return (action,)
            names = names_of(action, kind)
            counts[place.rank, place.step] += len(names)
            number = counts[place.rank, place.step]
            if not names or not is_instance(edit.get("instance"), number):
                return (action,)
            # What passes from one thread to another counts as time of the second.
            of = 1 if isinstance(action, Await) else factor
            late = {n: later(getattr(delays, n), of, add_ns) for n in names}
            return (Delayed(action, late),)

        return rewritten(rewrite)(program, delays)

    return part(12, change, [edit])


def is_instance(ordinals: str | None, number: int) -> bool:
    """Whether the field `instance` selects a match."""
    if ordinals is None:
        return True
    first, _, last = ordinals.partition("..")
    return int(first) <= number <= int(last or first)


def later(ns: int, factor: float, add_ns: int) -> int:
    """[ns] A delay with an edit: what is early does not come later."""
    return max(round(ns * factor) + add_ns, 0) if ns > 0 else ns + add_ns


def compared(folder: Path, cases: list[Case], parts: list[Part]) -> int:
    """Compare the predictions of edits with executions; the number carried out."""
    named = {f"{number}: {of.name}": of for number, of in enumerate(parts)}
    edits = {name: of.edits for name, of in named.items()}
    predicted = predict(folder, cases, edits, drops_idle=True)
    done = {name for _, _, name in predicted.times} & named.keys()
    for one in cases:
        for name in done:
            program = named[name].change(one.known, one.delays)
            assert_foretold(one, name, predicted, *program)
    return len(done)


def search(seeds: int, count: int = 14) -> None:
    """Print what is predicted otherwise than it is executed."""
    from test_composed import PROGRAMS

    for kind, (makers, _, traits) in PROGRAMS.items():
        for seed in range(1, seeds + 1):
            random = seeded("delays", kind, seed)
            parts = [delayed(random, frozenset(traits)) for _ in range(count)]
            with TemporaryDirectory() as folder:
                cases = [make(seed) for make in makers]
                try:
                    done = compared(Path(folder), cases, parts)
                    found = f"{done} scenarios as executed"
                except AssertionError as error:
                    found = f"wrong: {error}"
            sys.stdout.write(f"{kind} {seed}: {found}\n")


if __name__ == "__main__":
    search(int(sys.argv[1]))
