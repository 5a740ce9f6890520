"""Logs of pipeline-parallel jobs, as training frameworks write them, by execution.

A job has stages, data-parallel ranks, model chunks and microbatches, and runs them in
the order of Megatron-LM: one forward, one backward, interleaved where stages have
several chunks. Whatever is random follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Place = tuple[str, int, int]
"""Direction, chunk and microbatch."""
Duration = Callable[[int, int, int, str], int]
"""[ns] Of data-parallel rank, stage, step and type."""

TAIL = (
    "gc",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "grads-reduce-scatter",
    "optimizer-clip-main-grad",
    "optimizer",
)


@dataclass(frozen=True)
class Job:
    """The shape of a job."""

    stages: int = 2
    dp_ranks: int = 2
    microbatches: int = 4
    chunks: int = 1
    steps: tuple[int, ...] = (3, 4, 9)
    unrun: bool = False
    """Whether the log has sends and receives that never ran, at the pipeline's ends."""


def order(job: Job, stage: int) -> list[Place]:
    """What a stage computes, in order."""
    forward, backward = (list(_passes(job, way)) for way in ("forward", "backward"))
    if job.chunks == 1:
        ahead = min(job.stages - stage - 1, job.microbatches)
    else:
        ahead = 2 * (job.stages - stage - 1) + (job.chunks - 1) * job.stages
        ahead = min(ahead, len(forward))
    result = forward[:ahead]
    for one, other in zip(forward[ahead:], backward, strict=False):
        result += [one, other]
    return result + backward[len(forward) - ahead :]


def _passes(job: Job, way: str) -> Iterator[Place]:
    """Microbatches in groups of as many as stages, each chunk after the other."""
    group = job.microbatches if job.chunks == 1 else job.stages
    chunks = range(job.chunks) if way == "forward" else reversed(range(job.chunks))
    numbers = list(chunks)
    for first in range(0, job.microbatches, group):
        for chunk in numbers:
            for microbatch in range(first, min(first + group, job.microbatches)):
                yield way, chunk, microbatch


class _Rank:
    """One data-parallel rank's pipeline in one step."""

    def __init__(
        self, job: Job, dp_rank: int, step: int, begin: int, duration: Duration
    ) -> None:
        self.job, self.dp_rank, self.step = job, dp_rank, step
        self.duration = duration
        self.rows: list[Row] = []
        self.free = [begin] * job.stages
        """When each stage is done with what it has computed so far."""
        self.sent: dict[tuple[int, Place], int] = {}
        """When a stage was done with what it has to send."""
        self.posted: dict[tuple[int, str], int] = {}
        """From when on a stage receives in a direction: its last computation in it."""
        self.sending: dict[tuple[int, str], int] = {}
        """Until when a stage sends in a direction."""
        self.ended: list[list[int]] = [[] for _ in range(job.stages)]

    def time(self, stage: int, type_: str) -> int:
        return self.duration(self.dp_rank, stage, self.step, type_)

    def log(self, stage: int, type_: str, begin: int, end: int, chunk: int = 0) -> None:
        self.rows.append(
            {
                "step": self.step,
                "dp_rank": self.dp_rank,
                "stage": stage,
                "optype": type_,
                "start_ns": begin,
                "duration_ns": end - begin,
                "mc": chunk,
            }
        )

    def source(self, stage: int, place: Place) -> tuple[int, Place] | None:
        """The stage and place that a computation has its input from."""
        way, chunk, microbatch = place
        number = chunk * self.job.stages + stage + (-1 if way == "forward" else 1)
        if 0 <= number < self.job.chunks * self.job.stages:
            chunk, stage = divmod(number, self.job.stages)
            return stage, (way, chunk, microbatch)
        return None

    def run(self) -> None:
        """Compute in the stages' orders, whichever can go on."""
        left = [order(self.job, stage) for stage in range(self.job.stages)]
        while any(left):
            before = sum(map(len, left))
            for stage, places in enumerate(left):
                while places and self.compute(stage, places[0]):
                    places.pop(0)
            if sum(map(len, left)) == before:
                raise AssertionError("the schedule does not go on")

    def compute(self, stage: int, place: Place) -> bool:
        """Compute if the input is there; log that with its receive and send."""
        way, chunk, _ = place
        source = self.source(stage, place)
        begin = self.free[stage]
        if source is not None:
            if source not in self.sent:
                return False
            received = self.receive(stage, way, source)
            begin = max(begin, received)
        elif self.job.unrun and self.job.chunks > 1:
            posted = self.first_posted(stage, way)
            self.log(stage, f"{way}-recv", posted, posted)
        end = begin + self.time(stage, f"{way}-compute")
        self.log(stage, f"{way}-compute", begin, end, chunk)
        self.free[stage] = self.sent[stage, place] = self.posted[stage, way] = end
        self.ended[stage].append(end)
        if self.job.unrun and self.job.chunks > 1:
            self.log_ends(stage, place)
        return True

    def log_ends(self, stage: int, place: Place) -> None:
        """Log the send of a computation that has nobody to send to."""
        way, chunk, _ = place
        number = chunk * self.job.stages + stage
        last = self.job.stages * self.job.chunks - 1
        if number == (last if way == "forward" else 0):
            begin = max(self.free[stage], self.sending.get((stage, way), 0))
            self.log(stage, f"{way}-send", begin, begin)

    def first_posted(self, stage: int, way: str) -> int:
        """From when on a stage receives in a direction."""
        if way == "backward" and (stage, way) not in self.posted:
            # The first one: after the second last computation, all forward ones.
            return self.ended[stage][-2] if len(self.ended[stage]) > 1 else 0
        return self.posted.get((stage, way), 0)

    def receive(self, stage: int, way: str, source: tuple[int, Place]) -> int:
        """Log a receive and its send, and return when they are over."""
        posted = self.first_posted(stage, way)
        sender = source[0]
        sent = max(self.sent[source], self.sending.get((sender, way), 0))
        end = max(sent, posted) + self.time(stage, f"{way}-send")
        self.log(sender, f"{way}-send", sent, end)
        self.log(stage, f"{way}-recv", posted, end)
        self.sending[sender, way] = end
        return end

    def log_unrun(self) -> None:
        """Log receives of the pipeline's ends, where nothing is to be moved."""
        last = self.job.stages - 1
        end = self.free[0] + self.free[last]
        self.log(last, "backward-recv", end, end + 5)
        self.log(0, "forward-recv", end, end + 5)


def rows(job: Job, duration: Duration, seed: int = 0) -> list[Row]:
    """The operations of a job, in any order."""
    found = [row for step in job.steps for row in _step(job, step, duration)]
    random.Random(seed).shuffle(found)  # noqa: S311 (repeatable, no secret)
    return found


def _step(job: Job, step: int, duration: Duration) -> Iterator[Row]:
    ranks = []
    gathered = max(
        duration(dp, stage, step, "params-all-gather")
        for dp in range(job.dp_ranks)
        for stage in range(job.stages)
    )
    for dp_rank in range(job.dp_ranks):
        rank = _Rank(job, dp_rank, step, gathered, duration)
        for stage in range(job.stages):
            rank.log(stage, "params-all-gather", 0, gathered)
        rank.run()
        if job.unrun:
            rank.log_unrun()
        ranks.append(rank)
    for type_ in TAIL:
        _finish(job, ranks, type_)
    for rank in ranks:
        yield from rank.rows


def _finish(job: Job, ranks: list[_Rank], type_: str) -> None:
    """What follows the last computation; collectives begin when all are there."""
    stages = list(range(job.stages))
    if type_ == "embedding-grads-all-reduce":
        stages = sorted({0, job.stages - 1})
    groups = [[(rank, stage)] for rank in ranks for stage in stages]
    if type_ == "optimizer-clip-main-grad":
        groups = [[(rank, stage) for rank in ranks for stage in stages]]
    elif type_ == "grads-reduce-scatter":
        groups = [[(rank, stage) for rank in ranks] for stage in stages]
    elif type_ == "embedding-grads-all-reduce":
        groups = [[(rank, stage) for stage in stages] for rank in ranks]
    for group in groups:
        ready = max(rank.free[stage] for rank, stage in group)
        for rank, stage in group:
            end = ready + rank.time(stage, type_)
            rank.log(stage, type_, rank.free[stage], end)
            rank.free[stage] = end


def randomly(seed: int) -> Duration:
    """Durations of 1 to 2 ms for computation, less for the rest, by chance."""

    def duration(dp_rank: int, stage: int, step: int, type_: str) -> int:
        key = f"{seed} {dp_rank} {stage} {step} {type_}"
        chance = random.Random(key)  # noqa: S311 (repeatable, no secret)
        most = 1_000_000 if type_.endswith("compute") else 100_000
        return most + chance.randrange(most)

    return duration
