"""Programs of several host threads, some of which work for each other.

Only their timing distinguishes the threads: names of threads and ops are neutral, and
sequence numbers link forward to backward ops only on request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .program import Await, Gap, Launch, Notify, Op, Program, Rank, Thread, seeded, step

if TYPE_CHECKING:
    from random import Random

    from .program import Action


@dataclass(frozen=True, slots=True)
class Crew:
    """The numbers of threads of each kind besides the main thread."""

    workers: int = 1
    """Threads that the main thread wakes in each step, and waits for."""
    loaders: int = 0
    """Threads that prepare the next step's data while the main thread works."""
    strangers: int = 0
    """Threads that work independently."""
    is_linked: bool = False
    """Whether ops of the main thread and of its workers share sequence numbers."""
    loading: float = 0.5
    """[1] Relative loading time: above about 1, the main thread waits for it."""
    is_pinned: bool = False
    """Whether a thread for each loader passes its data on, as to pin their memory."""


def taking_turns(seed: int, crew: Crew | None = None, *, steps: int = 6) -> Program:
    """Return a program of one rank; `seed` varies what its threads do, and how long."""
    return _Job(seeded(seed, "turns"), crew or Crew(), steps).program()


class _Job:
    def __init__(self, random: Random, crew: Crew, steps: int) -> None:
        self.random = random
        self.crew = crew
        self.steps = range(1, steps + 1)
        # A thread does the same in each step, with different times.
        self.parts = {
            part: [self._name() for _ in range(random.randint(*most))]
            for part, most in (
                ("forward", (8, 20)),
                ("update", (2, 8)),
                ("load", (3, 8)),
                ("worker", (8, 30)),
            )
        }

    def program(self) -> Program:
        """Return the program with the main thread first, the others in random order."""
        others = [self._worker(number) for number in range(self.crew.workers)]
        others += [self._loader(number) for number in range(self.crew.loaders)]
        pinned = self.crew.loaders if self.crew.is_pinned else 0
        others += [self._pinning(number) for number in range(pinned)]
        others += [self._stranger() for _ in range(self.crew.strangers)]
        self.random.shuffle(others)
        threads = [self._main(), *others]
        return Program(
            (
                Rank(
                    tuple(Thread(f"{n}", tuple(body)) for n, body in enumerate(threads))
                ),
            )
        )

    def _main(self) -> list[Action]:
        body: list[Action] = [Op("start", (Gap(1_000),)), self._gap(200_000)]
        workers = range(self.crew.workers)
        for number in self.steps:
            waking = [Notify(f"go {number} {worker}") for worker in workers]
            waiting = [Await(f"done {number} {worker}", "join") for worker in workers]
            body += [
                step(
                    number,
                    *self._taken(number),
                    *self._ops("forward", 100 * number),
                    *waking,
                    self._gap(3_000),
                    *waiting,
                    *self._ops("update"),
                ),
                self._gap(5_000),
            ]
        return body

    def _taken(self, number: int) -> list[Action]:
        """Take the loaded data, and start the next loading."""
        taken: list[Action] = []
        for loader in range(self.crew.loaders):
            taken += [Await(f"loaded {number} {loader}", "join"), self._gap(2_000)]
            taken += [Notify(f"room {number} {loader}")]
        return taken

    def _worker(self, worker: int) -> list[Action]:
        body: list[Action] = []
        for number in self.steps:
            body += [Await(f"go {number} {worker}", "fork"), self._gap(5_000)]
            body += self._ops("worker", 100 * number, backward=True)
            body += [Notify(f"done {number} {worker}")]
        return body

    def _loader(self, loader: int) -> list[Action]:
        body: list[Action] = [self._gap(100_000)]
        for number in self.steps:
            if number > 1:
                body += [Await(f"room {number - 1} {loader}", "fork"), self._gap(5_000)]
            body += self._ops("load", pace=8 * self.crew.loading)
            done = "read" if self.crew.is_pinned else "loaded"
            body += [Notify(f"{done} {number} {loader}")]
        return body

    def _pinning(self, loader: int) -> list[Action]:
        """Pass on what a loader has read."""
        body: list[Action] = []
        for number in self.steps:
            body += [Await(f"read {number} {loader}", "join"), self._gap(2_000)]
            body += [*self._ops("load", pace=0.3), Notify(f"loaded {number} {loader}")]
        return body

    def _stranger(self) -> list[Action]:
        """Work and rest for about as long as the others."""
        body: list[Action] = [self._gap(300_000)]
        for _ in range(len(self.steps) * self.random.randint(1, 3)):
            for _ in range(self.random.randint(1, 30)):
                body += [self._op(self._name()), self._gap(4_000)]
            body += [self._gap(400_000)]
        return body

    def _ops(
        self,
        part: str,
        sequence: int | None = None,
        *,
        backward: bool = False,
        pace: float = 1,
    ) -> list[Action]:
        body: list[Action] = []
        for place, name in enumerate(self.parts[part]):
            linked = sequence if self.crew.is_linked else None
            number = None if linked is None else linked + place
            body += [self._op(name, number, backward=backward, pace=pace)]
            body += [self._gap(4_000)]
        return body

    def _op(
        self,
        name: str,
        sequence: int | None = None,
        *,
        backward: bool = False,
        pace: float = 1,
    ) -> Op:
        inside = self._gap(20_000 * pace), Launch(7, 1_000), self._gap(3_000)
        return Op(name, inside, sequence=sequence, backward=backward)

    def _name(self) -> str:
        return f"op {self.random.randrange(1_000)}"

    def _gap(self, mean_ns: float) -> Gap:
        """Return a gap around a mean, rarely much longer."""
        return Gap(1 + round(self.random.gammavariate(2, mean_ns / 2)))
