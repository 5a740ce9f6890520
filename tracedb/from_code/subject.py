"""The interface of a step to estimate, from code or from an execution graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

if TYPE_CHECKING:
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node

GRAPHS = (".json", ".json.gz", ".json.zst", ".et", ".et.gz")
"""File name suffixes of execution graphs."""


class Subject(Protocol):
    """A step: its ops, its memory and PyTorch's TF32 switches."""

    @property
    def root(self) -> Node:
        """Its ops as a tree."""

    @property
    def memory(self) -> Memory:
        """Its peak memory."""

    @property
    def batch(self) -> int | None:
        """Its batch size, if known."""

    @property
    def source(self) -> str:
        """Which step of a graph it is, or what its ranks do; may be empty."""

    @property
    def unsure(self) -> tuple[str, ...]:
        """What is unknown about it, a line each."""

    @property
    def tf32_products(self) -> bool:
        """Whether matrix products may use TF32."""

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may use TF32."""


def is_graph(step: object) -> TypeGuard[str | Path]:
    """Whether a step is named by files of execution graphs, or their folder."""
    if not isinstance(step, (str, Path)) or not str(step):
        return False
    is_there = Path(step).is_dir() or (
        Path(step).is_file() and Path(step).suffix != ".py"
    )
    return is_there or str(step).endswith(GRAPHS)
