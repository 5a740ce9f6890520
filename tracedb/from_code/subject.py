"""What is estimated: a step of code or of an execution graph, as a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

if TYPE_CHECKING:
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node

_GRAPHS = (".json", ".json.gz", ".json.zst", ".et", ".et.gz")
"""How names of execution graphs end."""


class Subject(Protocol):
    """A step, what it holds, and which of PyTorch's switches it was run with.

    `source` says which step of a graph it is, `unsure` what is not known of it.
    """

    @property
    def root(self) -> Node:
        """Its ops as a tree."""

    @property
    def memory(self) -> Memory:
        """What it holds at its peak."""

    @property
    def batch(self) -> int | None:
        """The batch size that it has, if it is known."""

    @property
    def source(self) -> str:
        """Which step it is, if there is anything to say."""

    @property
    def unsure(self) -> tuple[str, ...]:
        """What is not known of it, a line each."""

    @property
    def tf32_products(self) -> bool:
        """Whether products may be of TF32."""

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may be of TF32."""


def is_graph(step: object) -> TypeGuard[str | Path]:
    """Whether a step is named by the file of an execution graph."""
    if not isinstance(step, (str, Path)):
        return False
    return str(step).endswith(_GRAPHS) or (
        Path(step).is_file() and Path(step).suffix != ".py"
    )
