"""Count repairs and omissions while a file is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@dataclass
class Issues:
    """Repairs and omissions by kind: how often, and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first_bytes: dict[str, int | None] = field(default_factory=dict)
    first_events: dict[str, int] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    """Lines for people that say more than how often."""

    def add(self, kind: str, place: int | None, count: int = 1) -> None:
        """Count an issue, with its byte offset in the text, if any."""
        self.counts[kind] += count
        self.first_bytes.setdefault(kind, place)

    def add_told(self, kind: str, detail: str, count: int = 1) -> None:
        """Count an issue of which a line says more than how often."""
        self.add(kind, None, count)
        self.details[kind] = f"{kind}{detail}"

    def add_event(self, kind: str, event_id: int, count: int) -> None:
        """Count an issue of stored events, with the first of them."""
        self.add(kind, None, count)
        self.first_events.setdefault(kind, event_id)

    def detail(self, kind: str) -> str:
        """A line for people: what, how often, and where first."""
        if kind in self.details:
            return self.details[kind]
        count, byte = self.counts[kind], self.first_bytes[kind]
        times = "once" if count == 1 else f"{count:,} times"
        if byte is not None:
            return f"{kind} ({times}, first at byte {byte:,})"
        event_id = self.first_events.get(kind)
        first = "" if event_id is None else f", first event_id {event_id}"
        return f"{kind} ({times}{first})"

    def add_repaired(self, done: Counter[str], place: int) -> None:
        """Count the repairs of `repair.mend`."""
        for kind, times in (+done).items():
            self.add(f"repaired: {kind}", place, times)

    def store(self, connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
        """Store them as those of a trace."""
        for kind, count in sorted(self.counts.items()):
            connection.execute(
                "INSERT INTO raw.ingest_issue VALUES (?, ?, ?, ?, ?)",
                [trace_id, kind, count, self.first_bytes[kind], self.detail(kind)],
            )
