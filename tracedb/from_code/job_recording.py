"""The steps of several ranks that are simulated together, from code or from graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tracedb.from_code.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node


class RankSubject(Subject, Protocol):
    """The step of one rank."""

    @property
    def rank(self) -> int:
        """Its number in the job."""

    @property
    def takes_batch(self) -> bool:
        """Whether the step has a batch size parameter."""


@dataclass(frozen=True)
class JobRecording:
    """The steps of ranks, in order; as a subject, that with the largest memory.

    `world` is the number of ranks of the job, some of which may be missing.
    """

    ranks: Sequence[RankSubject]
    world: int
    source: str
    assumed: tuple[str, ...] = ()
    """What is assumed of the job, a line each."""

    @property
    def _largest(self) -> RankSubject:
        return max(self.ranks, key=lambda rank: rank.memory.peak_bytes)

    @property
    def batch(self) -> int | None:
        """The step's batch size, if known."""
        return self._largest.batch

    @property
    def takes_batch(self) -> bool:
        """Whether the step has a batch size parameter."""
        return self._largest.takes_batch

    @property
    def memory(self) -> Memory:
        """The memory of the rank with the highest peak."""
        return self._largest.memory

    @property
    def root(self) -> Node:
        """The ops of that rank as a tree."""
        return self._largest.root

    @property
    def unsure(self) -> tuple[str, ...]:
        """What is unknown about the job and its ranks, one line each."""
        lines = [line for rank in self.ranks for line in rank.unsure]
        return tuple(dict.fromkeys([*self.assumed, *lines]))

    @property
    def tf32_products(self) -> bool:
        """Whether matrix products may use TF32 (PyTorch's switch)."""
        return self._largest.tf32_products

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may use TF32."""
        return self._largest.tf32_convolutions
