"""Collectives in execution graphs: their kinds and numbers of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tracedb.from_code.collectives import NAME, WAIT, Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracedb.from_code.graph import GraphNode

_BEFORE = 2
"""Number of arguments before the name: the group and the rank in it."""
_SPLITS = 2
"""Number of arguments after the name: splits of input and output over ranks."""
_OF_ALL = ("allreduce", "allgather", "reducescatter", "alltoall", "barrier")
"""Kinds of collectives without a root."""


class Naming(Protocol):
    """Says what the nodes of a graph call."""

    def message(self, given: GraphNode) -> Message:
        """The collective that a node calls."""


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
            if size is not None and kind_of(node) != WAIT:
                sizes.setdefault(group_of(node), size)
        return cls(sizes, world)

    def ranks(self, given: GraphNode) -> int | None:
        """The number of ranks of a call."""
        return _size(given) or self.sizes.get(group_of(given)) or self.world

    def message(self, given: GraphNode) -> Message:
        """The collective that a node calls."""
        return Message(kind_of(given), self.ranks(given))


def is_call(given: GraphNode) -> bool:
    """Whether a node calls a collective, or sends or receives."""
    return given.name == NAME and kind_of(given) != WAIT and bool(given.inputs)


def members_of(given: GraphNode, size: int | None) -> tuple[int, ...]:
    """The ranks of a call's group, numbered in the job; empty where not recorded."""
    place = _place(given)
    after = [] if place is None else [v.value for v in given.inputs[place + 1 :]]
    if len(after) <= _SPLITS + 1 or size is None:
        return ()
    first, stride = after[_SPLITS : _SPLITS + 2]
    if not (isinstance(first, int) and isinstance(stride, int)):
        return ()
    is_regular = first >= 0 and stride > 0
    return tuple(range(first, first + size * stride, stride)) if is_regular else ()


def rank_of(given: GraphNode) -> int | None:
    """The rank argument of a call: its own rank, the root, or whom it sends to."""
    place = _place(given)
    value = given.inputs[place - 1].value if place else None
    return value if isinstance(value, int) else None


def says_own_rank(given: GraphNode) -> bool:
    """Whether the rank argument of a call is that of the caller in its group."""
    name = kind_of(given).replace("_", "").lower()
    return any(kind in name for kind in _OF_ALL)


def _place(given: GraphNode) -> int | None:
    """The position of the collective's name among the arguments."""
    texts = [i for i, value in enumerate(given.inputs) if value.type == "String"]
    return texts[-1] if texts else None


def kind_of(given: GraphNode) -> str:
    """The name of a collective."""
    place = _place(given)
    recorded = given.attributes.get("collective_name")
    return str(recorded or ("" if place is None else given.inputs[place].value))


def group_of(given: GraphNode) -> str:
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
