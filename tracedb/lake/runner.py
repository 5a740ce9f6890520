"""What a runner is: who has files ingested by workers, on this machine or on many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.lake.worker import Outcome, Task


class Runner(Protocol):
    """Has tasks done, in any order, each at least once."""

    @property
    def workers(self) -> int:
        """How many tasks are done at once on a machine."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether workers may be where this process's own files are not."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Do all tasks; yield what became of each, as it is known.

        A task that ends its worker time and again has failed.
        """


MOST_TRIES = 3
"""How often a file is tried that ends the process of its worker."""
