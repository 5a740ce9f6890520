"""How many ranks a job has, and how they lie on nodes."""

from __future__ import annotations

from dataclasses import dataclass

from tracedb.errors import EstimateError

_MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class Job:
    """Ranks are numbered node by node; `ranks` is None where none are said."""

    ranks: int | None = None
    per_node: int = 8

    @classmethod
    def of(cls, ranks: int | None, per_node: int | None, usual: int) -> Job:
        """Take what was given, and else as many a node as usual.

        Raises `EstimateError` where that makes no whole nodes.
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
        """On how many nodes they are."""
        return -(-(self.ranks or 1) // self.per_node)

    @property
    def on_this_node(self) -> int:
        """How many ranks the first node has."""
        return min(self.ranks or 1, self.per_node)

    @property
    def words(self) -> str:
        """How many there are, and on how many nodes if on several."""
        on = f" on {self.nodes:,} nodes" if self.nodes > 1 else ""
        return f"{self.ranks:,} ranks{on}"
