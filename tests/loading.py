"""Generated jobs whose main thread takes batches from loaders, and scenarios of them.

    python tests/loading.py 80

A batch passes through a queue that has room for a few. A worker, another thread, may
read it for the loader. The time of every op varies from batch to batch. Each job is
executed again with each change made in the program. Counted is how far off the
prediction from the unchanged job is, and whether it says that it depends on a guess.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from composed import Place, rewritten
from executed import CUDA, Case, Times, case, predict, rounded, times, warm_up

from tracedb.synthetic import (
    Await,
    Delays,
    Gap,
    Launch,
    Notify,
    Op,
    Program,
    Rank,
    StreamSync,
    Thread,
    change,
    execute,
    step,
)
from tracedb.synthetic.program import Action, seeded

EXACT = 0.001
"""[1] The largest error of the steps' time that counts as none."""


@dataclass(frozen=True)
class Shape:
    """What differs between jobs."""

    loaders: int
    has_worker: bool
    depth: int
    """Batches for which a queue has room."""
    batches: int
    loading: float
    """[1] Time to load a batch relative to that of a step."""
    jitter: float
    syncs: bool
    """Whether each step waits for its GPU work."""
    kernel_ns: int
    op_ns: int
    """[ns] Mean time of an op of a step."""
    blocks: bool
    """Whether a loader waits for room when it is done, not before it starts."""
    late_ns: int
    """[ns] When the first loader starts."""


def _shape(random: Random) -> Shape:
    return Shape(
        random.choice((1, 1, 2)),
        random.random() < 0.4,
        random.randint(1, 4),
        random.randint(8, 12),
        random.choice((0.3, 0.7, 0.9, 1, 1.1, 1.5)),
        random.choice((0.1, 0.3, 0.6)),
        random.random() < 0.5,
        random.choice((5_000, 20_000, 60_000)),
        random.choice((30_000, 100_000)),
        random.random() < 0.3,
        random.choice((100_000, 2_500_000)),
    )


class _Job:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.shape = _shape(random)
        self.main_ops = random.randint(6, 12)
        self.batches = range(1, self.shape.batches + 1)

    def program(self) -> Program:
        """Return the program; names of ops begin with m, l or w."""
        shape = self.shape
        main: list[Action] = [step(0, *warm_up((7,))), Gap(5_000)]
        for k in self.batches:
            body: list[Action] = []
            for at in range(shape.loaders):
                body += [Await(f"loaded {k} {at}", "join"), Gap(2_000)]
                body += [Notify(f"room {k} {at}")]
            body += self._ops("m", self.main_ops, shape.op_ns, launch=True)
            if shape.syncs:
                sync = Gap(1_000), StreamSync(7), Gap(1_000)
                body += [Gap(2_000), Op("m sync", sync)]
            main += [step(k, *body), Gap(5_000)]
        threads = [Thread("0", tuple(main))]
        for at in range(shape.loaders):
            threads += self._loader(at)
        return Program((Rank(tuple(threads)),))

    def _loader(self, at: int) -> list[Thread]:
        """A loader, and its worker."""
        count = self.random.randint(3, 6)
        ns = self.shape.op_ns * self.main_ops * self.shape.loading / count
        if not self.shape.has_worker:
            return [self._producer(f"l{at}", count, ns)]
        return [
            self._producer(f"l{at}", count, 0.3 * ns, behind=f"w{at}"),
            self._producer(f"w{at}", count, ns),
        ]

    def _producer(
        self, name: str, count: int, op_ns: float, behind: str = ""
    ) -> Thread:
        """A thread that passes batches on, its own or those of another thread."""
        at, depth = name[1:], self.shape.depth
        room, done = ("room", "loaded") if name[0] == "l" else ("taken", "read")
        body: list[Action] = [Gap(self.shape.late_ns + 1_000 * int(at))]
        for k in self.batches:
            wait = [Await(f"{room} {k - depth} {at}", "fork")] if k > depth else []
            body += [] if self.shape.blocks else wait
            body += [Await(f"read {k} {at}", "join")] if behind else []
            body += [Gap(4_000)]
            body += [Notify(f"taken {k} {at}")] if behind else []
            body += self._ops(name, count, op_ns, launch=False)
            body += wait if self.shape.blocks else []
            body += [Notify(f"{done} {k} {at}"), Gap(2_000)]
        return Thread(name, tuple(body))

    def _ops(self, name: str, count: int, ns: float, *, launch: bool) -> list[Action]:
        found: list[Action] = []
        pace = self._varied(1_000) / 1_000
        for number in range(count):
            body: tuple[Action, ...] = (Gap(self._varied(pace * ns - 2_000)),)
            if launch:
                kernel_ns = self._varied(self.shape.kernel_ns)
                body = (*body, Launch(7, kernel_ns), Gap(3_000))
            found += [Op(f"{name} {number}", body), Gap(2_000)]
        return found[:-1]

    def _varied(self, ns: float) -> int:
        share = self.shape.jitter * (2 * self.random.random() - 1)
        return max(20, round(ns * (1 + share)))


def loading_job(seed: int) -> Case:
    """A random job."""
    program = _Job(seeded("loading", seed)).program()
    return case(f"{seed}", rounded(program, CUDA), CUDA, recorded=True)


Edits = list[dict[str, Any]]


def own_time(prefix: str, change_ns: Callable[[int], int]) -> change.Change:
    """Change the own time of ops whose names begin so."""

    def change_one(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
        is_own = any(
            isinstance(scope, Op) and scope.name.startswith(prefix)
            for scope in place.scopes
        )
        if is_own and isinstance(action, Gap):
            return (replace(action, ns=change_ns(action.ns)),)
        return (action,)

    return rewritten(change_one)


def _host(prefix: str, **values: float | str) -> Edits:
    of = {"target": "host", "op": f"/^{prefix}/", **values}
    return [of | {"type": type_} for type_ in ("T2", "T3", "T5")]


def _scaled(prefix: str, factor: float) -> tuple[change.Change, Edits]:
    edits = _host(prefix, factor=factor)
    return own_time(prefix, lambda ns: round(ns * factor)), edits


def _removed(name: str) -> tuple[change.Change, Edits]:
    edit = {"target": "op", "name": name, "action": "remove", "gaps": "all"}
    return change.without_ops(f"^{name}$"), [edit]


ADDED = {"action": "insert", "place": "after", "host_ns": 300_000}
CHANGES: dict[str, tuple[change.Change, Edits]] = {
    "nothing": (change.nothing, []),
    "main x0.5": _scaled("m ", 0.5),
    "main x2": _scaled("m ", 2),
    "main x4": _scaled("m ", 4),
    "loader x0.25": _scaled("l", 0.25),
    "loader x2": _scaled("l", 2),
    "loader x4": _scaled("l", 4),
    "worker x0.5": _scaled("w", 0.5),
    "worker x2": _scaled("w", 2),
    "kernels x4": (
        change.kernels(4),
        [{"target": "gpu", "type": "kernel", "factor": 4}],
    ),
    "loader op +200 us": (
        own_time("l0 1", lambda ns: ns + 200_000),
        _host("l0 1", add_ns=200_000),
    ),
    "loader op 10 us": (
        own_time("l0 1", lambda _: 10_000),
        _host("l0 1", action="set", set_ns=10_000),
    ),
    "no main op": _removed("m 2"),
    "no loader op": _removed("l0 1"),
    "another main op": (
        change.insert_ops("after", "^m 2$", 300_000),
        [{"target": "op", "name": "m 2"} | ADDED],
    ),
}
GUESSES = """
    SELECT DISTINCT path, scenario
    FROM (
        SELECT variant_id, trace_id FROM simulation.thread_guess
        UNION ALL
        SELECT variant_id, trace_id FROM simulation.wait_guess
    ) AS guess
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN staging.trace AS trace ON guess.trace_id = trace.trace_id
"""


class Answer(NamedTuple):
    """How far off a scenario of a job is."""

    job: str
    change: str
    error: float
    """[1] Relative to the time of all steps."""
    is_told: bool
    """Whether the answer says that it depends on a guess."""

    @property
    def kind(self) -> str:
        """Whether it is wrong, and says so."""
        is_wrong = abs(self.error) > EXACT
        return ("wrong" if is_wrong else "exact") + (", told" if self.is_told else "")


def lasting(all_times: Times) -> int:
    """[ns] From the start of the second step to the end of the last one."""
    spans = [span for what, span in sorted(all_times.items()) if what[0] == "step"]
    return spans[-1][1] - spans[1][0]


def answers(cases: list[Case], folder: Path) -> Iterator[Answer]:
    """Predict all changes of jobs, and execute these."""
    edits = {name: of for name, (_, of) in CHANGES.items() if of}
    predicted = predict(folder, cases, edits, question=GUESSES, drops_idle=True)
    told = defaultdict(set)
    for (job, _), rows in predicted.answers.items():
        told[job] = {scenario for (scenario,) in rows}
    for one in cases:
        for name, (change_program, _) in CHANGES.items():
            program, delays = change_program(one.known, one.delays)
            scenario = name if CHANGES[name][1] else "baseline"
            if scenario != "baseline" and program == one.known:
                continue
            happened = lasting(times(execute(program, delays)[0].truth))
            foretold = lasting(predicted.times[one.name, 0, scenario])
            error = (foretold - happened) / happened
            yield Answer(one.name, name, error, name in told[one.name])


def counted(found: Iterable[Answer]) -> Counter[str]:
    """How many answers are exact, or wrong, and say that they may be."""
    return Counter(one.kind for one in found if one.change != "nothing")


def show(found: list[Answer]) -> None:
    """Count the answers about some jobs, and show the largest errors."""
    for kind, number in sorted(counted(found).items()):
        of_kind = [one for one in found if one.kind == kind]
        worst = max(of_kind, key=lambda one: abs(one.error))
        where = f"job {worst.job}, {worst.change}"
        sys.stdout.write(f"{kind}: {number}, at most {worst.error:.1%} ({where})\n")


def main(count: int) -> None:
    """Show the answers about some jobs."""
    with TemporaryDirectory() as folder:
        show(list(answers([*map(loading_job, range(count))], Path(folder))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
