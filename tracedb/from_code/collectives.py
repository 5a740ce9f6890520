"""Collectives of a step that never ran, and what the profiler records of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracedb.from_code.ops import Shape

NAME = "record_param_comms"
"""The op that the profiler records for a collective, in every version."""
WAIT = "wait"
POINT_TO_POINT = ("send", "recv")

_TYPES = {
    "float": "Float",
    "double": "Double",
    "c10::Half": "Half",
    "c10::BFloat16": "BFloat16",
    "long int": "Long",
    "int": "Int",
    "unsigned char": "Byte",
    "signed char": "Char",
    "bool": "Bool",
}
"""Types as the profiler writes those of collectives."""


@dataclass(frozen=True)
class Message:
    """A collective's kind and its ranks; `ranks` is None where their number is unknown.

    Without `members`, all ranks of the job take part. A send or a receive has a sender
    and a receiver, numbered in the job; those of a `batch` run together. Where only
    some ranks are simulated, `simulated` is how many of those that take part.
    """

    kind: str
    ranks: int | None
    group: str = ""
    members: tuple[int, ...] = ()
    sender: int | None = None
    receiver: int | None = None
    batch: int | None = None
    simulated: int | None = None

    @property
    def is_between_two(self) -> bool:
        """Whether it is a send or a receive."""
        return self.kind in POINT_TO_POINT

    def nodes(self, per_node: int) -> int:
        """How many nodes its ranks are on, at `per_node` ranks a node."""
        members = self.members or range(self.ranks or 1)
        if self.sender is not None and self.receiver is not None:
            members = (self.sender, self.receiver)
        return len({rank // per_node for rank in members})

    def recorded(
        self, inputs: Sequence[Shape], results: Sequence[Shape]
    ) -> dict[str, Any]:
        """The arguments that the profiler would record with the call."""
        if self.ranks is None or not inputs:
            return {"Collective name": self.kind}
        named: dict[str, Any] = {"Process Group Name": self.group} if self.group else {}
        if self.members:
            named["Process Group Ranks"] = str([*self.members])
        if self.sender is not None:
            named |= {"Src Rank": self.sender, "Dst Rank": self.receiver}
        return {
            "Collective name": self.kind,
            "Group size": self.ranks,
            **named,
            "In msg nelems": sum(shape.elements for shape in inputs),
            "Out msg nelems": sum(shape.elements for shape in results),
            "dtype": _TYPES.get(inputs[0].dtype, inputs[0].dtype),
        }
