"""The interface of runners, which distribute files to workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.lake.worker import Outcome, Task


class Runner(Protocol):
    """Runs tasks in any order, each at least once."""

    @property
    def workers(self) -> int:
        """The number of tasks that run at once on a machine."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether workers may run on machines without this process's files."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run all tasks; yield each outcome when it is known.

        A task that repeatedly kills its worker has failed.
        """


MOST_TRIES = 3
"""How often a file is tried that kills its worker."""
