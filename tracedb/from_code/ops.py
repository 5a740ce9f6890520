"""Ops as they are dispatched: names, shapes and types of their tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracedb.from_code.collectives import Message

MARK = "tracedb dispatched "
"""What the ranges begin with that say which op of ours a recorded op is."""
MODULE = "nn.Module: "
"""What ranges of modules begin with, as in recordings with the Python stack."""
SYNCHRONIZE = "tracedb synchronize"
"""The range that says that the code waits for the device."""


@dataclass(frozen=True)
class Shape:
    """A tensor among arguments or results."""

    dims: tuple[int, ...]
    dtype: str
    element_bytes: int

    @property
    def elements(self) -> int:
        """How many elements it has."""
        count = 1
        for size in self.dims:
            count *= size
        return count


Argument = Shape | list[Shape] | str
"""A tensor, tensors, or the value of anything else."""


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
    """What ranks do together in it."""
    awaits: int | None = None
    """Whether its work waits for a collective, and how many were called after that."""

    @property
    def message(self) -> dict[str, Any]:
        """What the profiler records with it, of a collective."""
        if self.called is None:
            return {}
        return self.called.recorded(self.tensors, self.results)

    @property
    def tensors(self) -> list[Shape]:
        """All tensors among the arguments, those of lists one by one."""
        found: list[Shape] = []
        for argument in self.arguments:
            if isinstance(argument, Shape):
                found.append(argument)
            elif isinstance(argument, list):
                found += argument
        return found
