"""Run a plan: every case once per round, in random order, with reference cases.

Disturbances of a machine last for seconds, so a case is visited briefly in each round
rather than once for longer. A share of the cases is measured by as many visits again,
which gives the noise. Reference cases in between show whether the whole machine became
slower or faster.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from time import monotonic

from . import host
from .backend import Backend
from .case import Case
from .errors import UnsupportedError
from .journal import Journal, Line
from .timing import Effort
from .turns import in_turn, turns

Tell = Callable[[str], None]

_BETWEEN_REFERENCES_S = 30.0
_BETWEEN_LINES_S = 10.0
_SEED = 6

# Small enough for any device, of ops that every backend has.
REFERENCES = (
    Case("gemm", "mm", "float32", {"batch": 1, "m": 256, "n": 256, "k": 256}),
    Case(
        "elementwise",
        "add",
        "float32",
        {"elements": 2**20, "inputs": 2, "outputs": 1},
    ),
)


@dataclass(frozen=True)
class Plan:
    """Cases to measure under one name, and how often each is visited."""

    name: str
    cases: Sequence[Case]
    rounds: int = 1
    again_share: float = 0.1
    """[1] The share of cases that is measured a second time, as thoroughly."""
    is_cold: bool = False
    """Whether calls are timed after other work, with alternating tensors."""


@dataclass(frozen=True)
class Visit:
    """One measurement of a case; those beyond the rounds give the noise."""

    case: Case
    number: int


def visits(plan: Plan) -> Iterator[Visit]:
    """Yield all measurements of a plan in their order, which is always the same."""
    chance = random.Random(_SEED)  # noqa: S311 (no secret)
    count = round(len(plan.cases) * plan.again_share)
    again = chance.sample(list(plan.cases), count)
    for number in range(plan.rounds):
        of_round = [Visit(case, number) for case in plan.cases]
        of_round += [Visit(case, plan.rounds + number) for case in again]
        chance.shuffle(of_round)
        yield from of_round


class Run:
    """One plan on one backend, with its journal."""

    def __init__(
        self,
        backend: Backend,
        plan: Plan,
        journal: Journal,
        *,
        effort: Effort | None = None,
        tell: Tell = lambda _line: None,
    ) -> None:
        """Take the backend, the plan, and the journal."""
        self._backend, self._plan, self._journal = backend, plan, journal
        self._effort, self._tell = effort or Effort(), tell
        self._clock_mhz: int | None = None
        self._referred_s = self._reported_s = -_BETWEEN_REFERENCES_S

    def measure(self, until_s: float | None = None) -> bool:
        """Measure what the journal lacks; return whether it is complete.

        Ends cleanly when `time.monotonic` passes `until_s`.
        """
        wanted = list(visits(self._plan))
        done = {(line.get("case"), line.get("visit")) for line in self._journal.lines}
        failed = {line["case"] for line in self._journal.lines if "failure" in line}
        left = [visit for visit in wanted if (visit.case.key, visit.number) not in done]
        began_s = monotonic()
        for place, visit in enumerate(left):
            now_s = monotonic()
            if until_s is not None and now_s > until_s:
                self._tell(f"time is up; {len(left) - place} measurements are left")
                return False
            self._refer(now_s)
            self._progress(now_s, began_s, place, left)
            if visit.case.key not in failed and not self._visit(visit):
                failed.add(visit.case.key)
        self._refer(monotonic(), now=True)
        return True

    def _visit(self, visit: Visit) -> bool:
        """Measure once; return whether that succeeded."""
        line: Line = {"case": visit.case.key}
        try:
            samples = self._samples(visit.case)
        except Exception as error:
            reason = self._backend.failure(error)
            if reason is None:
                raise
            self._journal.append(line | {"failure": reason})
            self._backend.release()
            return False
        self._journal.append(
            line | {"visit": visit.number, "samples_ns": samples} | self._state()
        )
        return True

    def _samples(self, case: Case) -> list[float]:
        """Build a case and take its samples, rounded to 0.1 ns."""
        if case.memory_bytes > self._backend.memory_bytes:
            raise MemoryError
        sets = turns(case) if self._plan.is_cold else 1
        work = in_turn([self._backend.build(case) for _ in range(sets)])
        is_cold = self._plan.is_cold
        timer = self._backend.cold_timer if is_cold else self._backend.timer
        taken = timer.samples(work, self._effort)
        return [round(sample, 1) for sample in taken]

    def _state(self) -> Line:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return {"clock_mhz": self._clock_mhz, "measured_at": now}

    def _refer(self, now_s: float, *, now: bool = False) -> None:
        """Measure the references, if it is time."""
        if not now and now_s - self._referred_s < _BETWEEN_REFERENCES_S:
            return
        self._referred_s = now_s
        for case in REFERENCES:
            try:
                samples = self._samples(case)
            except (UnsupportedError, MemoryError):
                continue
            line = {"reference": case.key, "median_ns": median(samples)}
            self._clock_mhz = host.gpu_clock_mhz()
            self._journal.append(line | self._state())

    def _progress(
        self, now_s: float, began_s: float, place: int, left: Sequence[Visit]
    ) -> None:
        """Report progress from time to time."""
        if now_s - self._reported_s < _BETWEEN_LINES_S:
            return
        self._reported_s = now_s
        case = left[place].case
        rest_s = (now_s - began_s) / place * (len(left) - place) if place else 0
        self._tell(
            f"{place:,} of {len(left):,} measurements"
            f"{f', about {rest_s / 60:.1f} min left' if place else ''}: "
            f"{case.family} {case.op} {case.dtype}"
        )
