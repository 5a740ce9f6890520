"""The ranks of a job, and how they are placed on nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError

if TYPE_CHECKING:
    from tracedb.from_code.mailbox import Mailbox

_MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class Job:
    """Ranks are numbered node by node; `ranks` is None where none are given.

    The code runs as `rank`. With a `mailbox`, the other ranks run too.
    """

    ranks: int | None = None
    per_node: int = 8
    rank: int = 0
    mailbox: Mailbox | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, ranks: int | None, per_node: int | None, usual: int) -> Job:
        """Make a job; `per_node` defaults to `usual`.

        Raises `EstimateError` where the ranks do not fill whole nodes.
        """
        size = usual if per_node is None else per_node
        if ranks is not None and not 1 <= ranks <= _MOST_RANKS:
            raise EstimateError(f"{ranks} ranks; the limit is 1 to {_MOST_RANKS:,}")
        if size < 1 or (ranks is not None and ranks > size and ranks % size):
            raise EstimateError(
                f"{ranks} ranks do not fill whole nodes of {size}; give the ranks "
                "per node (--ranks-per-node)"
            )
        return cls(ranks, size)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return -(-(self.ranks or 1) // self.per_node)

    @property
    def on_this_node(self) -> int:
        """The number of ranks on the first node, which is that of every node."""
        return min(self.ranks or 1, self.per_node)

    @property
    def words(self) -> str:
        """The number of ranks, and of nodes if several, as text."""
        on = f" on {self.nodes:,} nodes" if self.nodes > 1 else ""
        return f"{self.ranks:,} ranks{on}"
