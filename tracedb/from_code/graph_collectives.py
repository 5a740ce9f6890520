"""Collectives as execution graphs have them: what is called, by how many ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracedb.from_code.collectives import NAME, WAIT, Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracedb.from_code.graph import GraphNode

_BEFORE = 2
"""Before the name come the group and the rank in it."""
_SPLITS = 2
"""After the name come how the input and the output are split over ranks."""


@dataclass(frozen=True)
class Groups:
    """How many ranks process groups have, by their names, and groups in general.

    Early versions record it with calls alone that tell how much goes to which rank.
    """

    sizes: dict[str, int]
    world: int | None

    @classmethod
    def of(cls, nodes: Iterable[GraphNode], world: int | None) -> Groups:
        """Learn it of all calls; `world` is what groups have that no call tells of."""
        sizes: dict[str, int] = {}
        for node in nodes:
            size = _size(node) if node.name == NAME else None
            if size is not None and _kind(node) != WAIT:
                sizes.setdefault(_group(node), size)
        return cls(sizes, world)

    def message(self, given: GraphNode) -> Message:
        """What a node calls."""
        known = _size(given) or self.sizes.get(_group(given)) or self.world
        return Message(_kind(given), known)


def _place(given: GraphNode) -> int | None:
    """Where among the arguments the name of what is called stands."""
    texts = [i for i, value in enumerate(given.inputs) if value.type == "String"]
    return texts[-1] if texts else None


def _kind(given: GraphNode) -> str:
    place = _place(given)
    recorded = given.attributes.get("collective_name")
    return str(recorded or ("" if place is None else given.inputs[place].value))


def _group(given: GraphNode) -> str:
    """The name of the group, or its number, as it stands before the rank."""
    place = _place(given)
    found = "" if place is None or place < _BEFORE else given.inputs[place - _BEFORE]
    return str(given.attributes.get("pg_name") or getattr(found, "value", ""))


def _size(given: GraphNode) -> int | None:
    """How many ranks take part, as far as the node tells."""
    place = _place(given)
    after = [] if place is None else [v.value for v in given.inputs[place + 1 :]]
    sizes = [given.attributes.get("pg_size")]
    sizes += after[-1:] if len(after) > _SPLITS else []
    sizes += [len(split) for split in after[:_SPLITS] if isinstance(split, list)]
    return next((s for s in sizes if isinstance(s, int) and s > 0), None)
