"""Collectives in execution graphs: their kinds and numbers of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracedb.from_code.collectives import NAME, WAIT, Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracedb.from_code.graph import GraphNode

_BEFORE = 2
"""Number of arguments before the name: the group and the rank in it."""
_SPLITS = 2
"""Number of arguments after the name: splits of input and output over ranks."""


@dataclass(frozen=True)
class Groups:
    """The number of ranks by process group; `world` for groups of unknown size.

    Early schema versions record it only with calls that list splits over ranks.
    """

    sizes: dict[str, int]
    world: int | None

    @classmethod
    def of(cls, nodes: Iterable[GraphNode], world: int | None) -> Groups:
        """Collect the sizes of groups from all calls."""
        sizes: dict[str, int] = {}
        for node in nodes:
            size = _size(node) if node.name == NAME else None
            if size is not None and _kind(node) != WAIT:
                sizes.setdefault(_group(node), size)
        return cls(sizes, world)

    def message(self, given: GraphNode) -> Message:
        """The collective that a node calls."""
        known = _size(given) or self.sizes.get(_group(given)) or self.world
        return Message(_kind(given), known)


def _place(given: GraphNode) -> int | None:
    """The position of the collective's name among the arguments."""
    texts = [i for i, value in enumerate(given.inputs) if value.type == "String"]
    return texts[-1] if texts else None


def _kind(given: GraphNode) -> str:
    place = _place(given)
    recorded = given.attributes.get("collective_name")
    return str(recorded or ("" if place is None else given.inputs[place].value))


def _group(given: GraphNode) -> str:
    """The name of the group, or else the argument before the rank."""
    place = _place(given)
    found = "" if place is None or place < _BEFORE else given.inputs[place - _BEFORE]
    return str(given.attributes.get("pg_name") or getattr(found, "value", ""))


def _size(given: GraphNode) -> int | None:
    """The number of ranks, if the node records it."""
    place = _place(given)
    after = [] if place is None else [v.value for v in given.inputs[place + 1 :]]
    sizes = [given.attributes.get("pg_size")]
    sizes += after[-1:] if len(after) > _SPLITS else []
    sizes += [len(split) for split in after[:_SPLITS] if isinstance(split, list)]
    return next((s for s in sizes if isinstance(s, int) and s > 0), None)
