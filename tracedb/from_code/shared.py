"""Known numbers of one rank that its code reads as those of all ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tracedb.from_code import place
from tracedb.from_code.fake_mesh import really

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.passed_on import Given


@dataclass
class Shared:
    """What the rank gives to collectives, and the lines that read what they make."""

    values: list[str] = field(default_factory=list)
    lines: dict[str, None] = field(default_factory=dict)

    def note(self, kind: str, given: Given) -> None:
        """Note what is given to a collective."""
        with really():
            each = [one.tolist() for one in given.values]
        self.values.append(f"{kind} {each} {given.sizes}")

    def reading(self) -> Callable[[], None]:
        """What to call if the code reads what the collective makes."""
        line = f"{place.of_caller()}: all ranks are assumed to have the same numbers"
        return partial(self._read, line)

    def _read(self, line: str) -> None:
        # PyTorch's own code (`Join`) reads numbers of ranks, not sizes.
        if not place.is_torch_calling():
            self.lines[line] = None

    @property
    def read(self) -> tuple[str, ...]:
        """What was given, if the code reads any results."""
        return tuple(self.values) if self.lines else ()
