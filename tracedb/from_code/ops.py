"""Dispatched ops: names, and shapes and types of their tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracedb.from_code.collectives import Message

MARK = "tracedb dispatched "
"""Prefix of profiler ranges that hold the number of a dispatched op."""
HIDDEN = "tracedb hidden"
"""The range that marks an op that only fake tensors need."""
MODULE = "nn.Module: "
"""Prefix of module ranges, as in traces recorded with the Python stack."""
SYNCHRONIZE = "tracedb synchronize"
"""The range that marks a wait for the device."""


@dataclass(frozen=True)
class Shape:
    """A tensor among arguments or results."""

    dims: tuple[int, ...]
    dtype: str
    element_bytes: int
    is_again: bool = field(default=False, compare=False, repr=False)
    """Whether it is the same memory as an earlier argument of its op."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.dims:
            count *= size
        return count


Argument = Shape | list[Shape] | str
"""A tensor, a list of tensors, or any other value as text."""


@dataclass(frozen=True)
class Ordering:
    """A call that orders streams: it records an event, or waits for one.

    `waiter` is "" for the record of an event, "stream" where the stream of the call
    waits for an event, "host" where the host does, and "host for stream" where it waits
    for all work of that stream. `back` counts the events recorded after the one that is
    awaited.
    """

    waiter: str
    back: int = 0


@dataclass
class Dispatched:
    """An op as PyTorch dispatched it; `line` is that of the user's code."""

    name: str
    arguments: list[Argument]
    results: list[Shape]
    is_on_gpu: bool
    is_view: bool
    transfer: str = ""
    writes: bool = False
    line: str = ""
    called: Message | None = None
    """The collective that it calls, if any."""
    awaits: tuple[int, ...] = ()
    """For each collective that it waits for: how many were called after that one."""
    stream: int = 0
    """The stream that it is launched on: 0 is the default one."""
    ordering: Ordering | None = None
    """How it orders streams, if that is all it does."""
    counted_as: tuple[str, tuple[Argument, ...]] | None = None
    """An op and arguments with as much work, if its own do not say how much it has."""
    sorts: tuple[int, int] | None = None
    """The number of keys that it sorts and their bits, if its arguments do not say."""
    is_made_by_parts: bool = False
    """Whether the ops below it do all its work, in a graph from a GPU."""

    @property
    def message(self) -> dict[str, Any]:
        """The arguments that the profiler records, for a collective."""
        if self.called is None:
            return {}
        return self.called.recorded(self.tensors, self.results)

    @property
    def tensors(self) -> list[Shape]:
        """All tensors among the arguments, lists flattened."""
        found: list[Shape] = []
        for argument in self.arguments:
            if isinstance(argument, Shape):
                found.append(argument)
            elif isinstance(argument, list):
                found += argument
        return found
