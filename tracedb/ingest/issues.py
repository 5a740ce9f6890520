"""Count what was mended or left out while a file is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Issues:
    """What was mended or left out, by kind: how often, and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first_bytes: dict[str, int | None] = field(default_factory=dict)

    def add(self, kind: str, place: int | None, count: int = 1) -> None:
        """Count an issue, with its byte in the text if it has one."""
        self.counts[kind] += count
        self.first_bytes.setdefault(kind, place)

    def add_mended(self, done: Counter[str], place: int) -> None:
        """Count what `repair.mend` says it has done."""
        for kind, times in (+done).items():
            self.add(f"mended: {kind}", place, times)
