"""Edits of jobs whose ranks send to one another.

`python tests/messages.py 1..20` executes random pipelines of ranks that pass batches
forward and back, and ranks that send far ahead, with each change made in the program,
and prints what is predicted otherwise. Sends wait for their receives, as NCCL's of
large tensors, or do so only above a size. If no message shows which do, it counts the
answers that are wrong, and whether they say that they may be.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from composed import (
    EVERYWHERE,
    Part,
    Place,
    new_work,
    no_ops,
    no_work,
    paced,
    part,
    rewritten,
)
from composed import Where as Chosen
from executed import (
    CUDA,
    WRONG,
    Case,
    assert_foretold,
    case,
    period_error,
    predict,
    rounded,
    warm_up,
)

from tracedb.synthetic import (
    Collective,
    Delays,
    DeviceSync,
    EventRecord,
    Gap,
    Launch,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamWait,
    Thread,
    change,
    step,
)
from tracedb.synthetic.program import Action, seeded

MAIN, COMM = 7, 20
SIZES = 64, 128, 256, 512
"""Elements of messages."""


class _Pipeline:
    ways: tuple[int, ...] = (1, -1)
    steps = 1

    def __init__(self, random: Random) -> None:
        self.random = random
        self.ranks = random.randint(2, 4)
        self.batches = random.randint(1, 4)
        self.lasting: dict[tuple[str, int], tuple[int, int]] = {}
        self.limit = self.random.choice((0, 128, 512))

    def program(self) -> Program:
        """Return the program: all batches forward, then all back."""
        ranks = []
        for rank in range(self.ranks):
            body: list[Action] = [Gap(2_000)]
            for way in self.ways:
                for batch in range(self.batches):
                    body += self._stage(rank, way, batch)
            first = step(0, *warm_up((MAIN, COMM)), *self._first_messages(rank))
            later = (
                step(number, *body, DeviceSync(), Gap(3_000))
                for number in range(1, 1 + self.steps)
            )
            ranks.append(Rank((Thread("main", (first, *later)),)))
        return Program(tuple(ranks))

    def kernel_ns(self, _rank: int) -> int:
        """[ns] Time of a rank's kernel."""
        return self.random.randint(10_000, 100_000)

    def _stage(self, rank: int, way: int, batch: int) -> list[Action]:
        """Receive a batch, if it is not the first stage, compute, and send it."""
        key = f"{rank} {way} {batch}"
        body: list[Action] = []
        if 0 <= rank - way < self.ranks:
            body += [self._message("recv_", rank - way, rank, batch)]
            body += [EventRecord(f"in {key}", COMM), StreamWait(MAIN, f"in {key}")]
        work = Launch(MAIN, self.kernel_ns(rank))
        body += [Gap(2_000), Op("aten::mm", (Gap(2_000), work, Gap(2_000)))]
        if 0 <= rank + way < self.ranks:
            body += [EventRecord(f"out {key}", MAIN), StreamWait(COMM, f"out {key}")]
            body += [Gap(2_000), self._message("send", rank, rank + way, batch)]
        return body

    def _first_messages(self, rank: int) -> Iterator[Action]:
        """Show which sends wait for a late receiver, by their size."""
        for size in SIZES if rank < 2 else ():
            self.lasting["0>1", -size] = 5_000, size
            late = Gap(400_000 * rank + 20_000)
            yield from (late, self._message(("send", "recv_")[rank], 0, 1, -size))
        yield DeviceSync()

    def _message(self, name: str, sender: int, receiver: int, batch: int) -> Op:
        group = f"{sender}>{receiver}"
        own_ns = self.random.randint(4_000, 60_000)
        ns, elements = self.lasting.setdefault(
            (group, batch), (own_ns, self.random.choice(SIZES))
        )
        sent = Collective(
            COMM,
            ns,
            name="message",
            group=group,
            ranks=(sender, receiver),
            elements=elements,
            is_eager=elements <= self.limit,
        )
        return Op(f"c10d::{name}", (Gap(1_000), sent, Gap(1_000)))


class _Queue(_Pipeline):
    """The first rank sends all batches long before the second one takes them."""

    ways, steps = (1,), 2

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.ranks, self.batches, self.limit = 2, random.randint(4, 20), SIZES[-1]

    def kernel_ns(self, rank: int) -> int:
        """[ns] The second rank takes ten times as long."""
        return super().kernel_ns(rank) * (1, 10)[rank]


class _Unseen(_Pipeline):
    """The second rank is quick: nothing shows whether sends wait for late receives."""

    ways, steps = (1,), 2

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.ranks, self.limit = 2, random.choice(SIZES)

    def kernel_ns(self, rank: int) -> int:
        """[ns] The second rank takes a tenth of the time."""
        return super().kernel_ns(rank) // (1, 10)[rank]

    def _first_messages(self, _rank: int) -> Iterator[Action]:
        """No messages."""
        return iter(())


def pipeline(seed: int) -> Case:
    """A random pipeline."""
    return _case("pipeline", _Pipeline, seed)


def queue(seed: int) -> Case:
    """A rank that sends far ahead of the one that receives."""
    return _case("queue", _Queue, seed)


def unseen(seed: int) -> Case:
    """A random pipeline whose trace does not show which sends wait."""
    return _case("unseen", _Unseen, seed)


def _case(name: str, kind: type[_Pipeline], seed: int) -> Case:
    program = kind(seeded("messages", seed)).program()
    return case(f"{name} {seed}", rounded(program, CUDA), CUDA, recorded=True)


def work(
    kind: type[Launch | Collective], factor: float, rank: int | None = None
) -> Part:
    """Scale GPU work of a kind in the step, of a rank or of all."""

    def rewrite(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
        if (
            isinstance(action, kind)
            and rank in (None, place.rank)
            and not place.is_in(Op, "warm_up")
        ):
            return (replace(action, kernel_ns=round(action.kernel_ns * factor)),)
        return (action,)

    of = "kernel" if kind is Launch else "collective"
    edit: dict[str, Any] = {"target": "gpu", "type": of, "factor": factor}
    edit |= {"op": "aten::mm"} if kind is Launch else {}
    return part(
        1, rewritten(rewrite), [edit | ({} if rank is None else {"rank": rank})]
    )


def slow(rank: int, factor: float) -> Part:
    """The host of one rank is slower within ops."""
    chosen = Chosen(
        {"rank": rank, "op": "aten::mm"},
        lambda _, place: place.rank == rank and place.is_in(Op, "aten::mm"),
    )
    return paced(factor, chosen, ("T2", "T3"))


def late(name: str) -> Part:
    """A new op before each op of a name."""
    new = {"action": "insert", "place": "before", "host_ns": 300_000}
    edit = {"target": "op", "name": f"/{name}/", **new}
    return part(5, change.insert_ops("before", name, 300_000), [edit])


def in_op(name: str, rank: int | None = None) -> Chosen:
    """What lies in ops of a name, of a rank or of all, and these ops."""

    def holds(action: Action, place: Place) -> bool:
        is_one = isinstance(action, Op) and re.search(name, action.name)
        return rank in (None, place.rank) and bool(is_one or place.is_in(Op, name))

    own = {} if rank is None else {"rank": rank}
    return Chosen({"op": f"/{name}/"} | own, holds)


def of_rank(rank: int) -> Chosen:
    """What a rank does."""
    return Chosen({"rank": rank}, lambda _, place: place.rank == rank)


def unsent(rank: int) -> Part:
    """Nothing that a rank sends: others receive without waiting for it."""

    def rewrite(action: Action, place: Place, delays: Delays) -> tuple[Action, ...]:
        if not isinstance(action, Collective) or action.ranks[0] != rank:
            return (action,)
        if place.rank == rank:
            return (OtherCall(action.call, delays.launch_call_ns),)
        return (Launch(action.stream, action.kernel_ns),)

    edit = {"target": "gpu", "op": "c10d::send", "rank": rank, "action": "remove"}
    return part(5, rewritten(rewrite), [edit])


def inserted(seed: int, kind: str, at: Chosen) -> Part:
    """A kernel before or after each GPU op of a kind."""
    return new_work(seeded("inserted", seed), kind, at)


MM, MESSAGE = "^aten::mm$", "^c10d::(send|recv_)$"
CHANGES = {
    "all kernels x2": work(Launch, 2),
    "all kernels x0": work(Launch, 0),
    "kernels of rank 0 x3": work(Launch, 3, 0),
    "kernels of rank 1 x0.5": work(Launch, 0.5, 1),
    "messages x3": work(Collective, 3),
    "messages x0": work(Collective, 0),
    "host of rank 1 x20": slow(1, 20),
    "sends later": late("^c10d::send$"),
    "receives later": late("^c10d::recv_$"),
    "no kernels of rank 1": no_work("kernel", in_op(MM, 1)),
    "no messages": no_work("collective", EVERYWHERE),
    "nothing sent by rank 0": unsent(0),
    "no ops of rank 0": no_ops(MM, of_rank(0)),
    "no ops that send or receive": no_ops(MESSAGE, EVERYWHERE),
    "kernels beside those of rank 0": inserted(1, "kernel", in_op(MM, 0)),
    "kernels beside those of rank 1": inserted(2, "kernel", in_op(MM, 1)),
    "kernels beside messages of rank 1": inserted(3, "collective", in_op(MESSAGE, 1)),
    "kernels beside all messages": inserted(4, "collective", EVERYWHERE),
}
"""Each change, and its edits."""


TOLD = """
    SELECT path, scenario
    FROM simulation.wait_guess
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN staging.trace USING (trace_id)
    WHERE kind = 'send'
"""


def check(one: Case, folder: Path) -> None:
    """Compare all times with each change with the predicted ones."""
    edits = {name: of.edits for name, of in CHANGES.items()}
    predicted = predict(folder, [one], edits, TOLD)
    assert not predicted.answers, "all sizes are seen with late receivers"
    made = {"baseline": change.nothing} | {n: of.change for n, of in CHANGES.items()}
    for name, change_program in made.items():
        changed = change_program(one.known, one.delays)
        assert changed[0] != one.known or name == "baseline"
        assert_foretold(one, name, predicted, *changed)


def judged(one: Case, folder: Path) -> dict[str, tuple[bool, bool]]:
    """Whether each change is predicted wrongly, and says that it may be."""
    edits = {name: of.edits for name, of in CHANGES.items()}
    predicted = predict(folder, [one], edits, TOLD, drops_idle=True)
    told = {name for rows in predicted.answers.values() for (name,) in rows}
    return {
        name: (
            period_error(one, name, predicted, *of.change(one.known, one.delays))
            > WRONG,
            name in told,
        )
        for name, of in CHANGES.items()
        if (one.name, 0, name) in predicted.times
    }


def main(seeds: range) -> None:
    """Print what is predicted otherwise."""
    for one in (make(seed) for seed in seeds for make in (pipeline, queue)):
        try:
            with TemporaryDirectory() as folder:
                check(one, Path(folder))
        except AssertionError as error:
            sys.stdout.write(f"{str(error).splitlines()[0]}\n")
    counts: Counter[str] = Counter()
    for one in map(unseen, seeds):
        with TemporaryDirectory() as folder:
            for name, (is_wrong, is_told) in judged(one, Path(folder)).items():
                kind = ("exact", "wrong")[is_wrong] + (", not told", ", told")[is_told]
                counts[kind] += 1
                if kind == "wrong, not told":
                    sys.stdout.write(f"{one.name}, {name}: wrong without a word\n")
    for kind, count in sorted(counts.items()):
        sys.stdout.write(f"{count:5} {kind}\n")


if __name__ == "__main__":
    first, _, last = sys.argv[1].partition("..")
    main(range(int(first), int(last or first) + 1))
