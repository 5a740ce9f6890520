"""Take Python objects from rank to rank while the ranks run in processes."""

from __future__ import annotations

from collections import defaultdict, deque
from queue import Empty
from typing import TYPE_CHECKING, Any

from tracedb.errors import EstimateError
from tracedb.from_code import place

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

_PATIENCE_S = 600
"""How long a receive waits for its sender, which may be running a large model."""


class NeedsRanksError(EstimateError):
    """The step depends on what other ranks do, and they do not run."""


class Mailbox:
    """Receives what other ranks send to one rank, from each in order."""

    def __init__(self, rank: int, inboxes: list[Queue[Any]]) -> None:
        """Take the inboxes of all ranks."""
        self._rank = rank
        self._inboxes = inboxes
        self._arrived: dict[int, deque[object]] = defaultdict(deque)
        self._left: set[int] = set()

    def send(self, receiver: int, value: object) -> None:
        """Put a value into a rank's inbox."""
        self._inboxes[receiver].put((self._rank, False, value))

    def leave(self) -> None:
        """Tell all ranks that this one sends nothing more."""
        for inbox in self._inboxes:
            inbox.put((self._rank, True, None))
            inbox.close()
        for inbox in self._inboxes:
            inbox.join_thread()

    def receive(self, sender: int) -> Any:  # noqa: ANN401 (whatever was sent)
        """Wait for the next value of a rank.

        Raises `EstimateError` if the rank ends without sending one.
        """
        while not self._arrived[sender]:
            if sender in self._left:
                raise EstimateError(
                    f"{place.of_caller()}: rank {self._rank} waits for an object of "
                    f"rank {sender}, which sends none"
                )
            came, is_over, value = self._next(sender)
            if is_over:
                self._left.add(came)
            else:
                self._arrived[came].append(value)
        return self._arrived[sender].popleft()

    def _next(self, sender: int) -> tuple[int, bool, object]:
        """What arrives next from any rank, in the hope that it is from the sender."""
        try:
            found: tuple[int, bool, object] = self._inboxes[self._rank].get(
                timeout=_PATIENCE_S
            )
        except Empty:
            raise EstimateError(
                f"{place.of_caller()}: rank {self._rank} has waited {_PATIENCE_S} s "
                f"for an object of rank {sender}"
            ) from None
        return found
