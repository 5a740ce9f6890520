"""Lanes for slices that overlap another one of their thread without nesting.

Chrome JSON has one stack of slices per thread: viewers drop what does not nest in it.
An export moves such slices, and the flows that start with them, to extra threads. The
recorded thread stays in `FIELD`, from which `tracedb ingest` restores it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

FIELD = "recordedTid"
"""The field of a moved event with the thread on which it was recorded."""
_FIRST = 800_000_000
"""Ids of extra threads start here, above any system's."""

Lane = tuple[int, str | None, str | None]
"""A trace, a process and a thread."""

_SLICES = """
SELECT event_id, event.trace_id, pid, tid, ts_ns, ts_ns + dur_ns
FROM raw.event AS event
INNER JOIN export_trace USING (trace_id)
WHERE ph = 'X' AND ts_ns IS NOT NULL AND dur_ns > 0
ORDER BY event.trace_id, pid, tid, ts_ns, dur_ns DESC, event_id
"""


class ExtraLanes:
    """The extra threads of an export."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Find the slices that do not nest, for the traces in `export_trace`."""
        self._moved: dict[int, int] = {}
        self._begins: dict[tuple[Lane, int], int | None] = {}
        self._threads: dict[tuple[Lane, int], int] = {}
        found = connection.execute(_SLICES)
        lane: Lane | None = None
        stacks: list[list[int]] = []
        while rows := found.fetchmany(20_000):
            for event, trace, pid, tid, begin, end in rows:
                if lane != (trace, pid, tid):
                    lane, stacks = (trace, pid, tid), []
                place = _place(stacks, begin, end)
                thread = self._thread(lane, place) if place else None
                if thread is not None:
                    self._moved[event] = thread
                # The outermost slice that begins at a time has the flows there.
                self._begins.setdefault((lane, begin), thread)

    def _thread(self, lane: Lane, place: int) -> int:
        new = _FIRST + len(self._threads)
        return self._threads.setdefault((lane, place), new)

    def of(self, event: int, ph: str | None, lane: Lane, ts: int | None) -> int | None:
        """The extra thread of an event, if it has one."""
        if ph in ("s", "t", "f") and ts is not None:
            return self._begins.get((lane, ts))
        return self._moved.get(event)

    def threads(self) -> Iterator[tuple[Lane, int]]:
        """The extra threads, with the lane to which each belongs."""
        for (lane, _), thread in self._threads.items():
            yield lane, thread


def _place(stacks: list[list[int]], begin: int, end: int) -> int:
    """The first stack in which a slice nests; it is put there."""
    for place, stack in enumerate(stacks):
        while stack and stack[-1] <= begin:
            stack.pop()
        if not stack or end <= stack[-1]:
            stack.append(end)
            return place
    stacks.append([end])
    return len(stacks) - 1
