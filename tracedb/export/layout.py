"""Where the slices of an export lie: extra threads, pairs, and times of flows.

Chrome JSON has one stack of slices per thread: viewers drop what does not nest in it.
An export moves such slices, and the flows that start with them, to extra threads. The
recorded thread stays in `FIELD`, from which `tracedb ingest` restores it.

Viewers attach a flow to the innermost slice at its time. So the flow of a slice must be
at a time when no slice within it is open. Perfetto takes the slice that began last,
even if it is over, until it reads another begin or an end. Of one time, it reads ends
first, then whole slices (`X`), then begins, flows and slices without length in the
order of the file. So what begins with a slice of the critical path around it is written
as a begin and an end, in order with the flows of that time. The others stay whole,
because some readers know only these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tracedb.export.pftrace import ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

FIELD = "recordedTid"
"""The field of a moved event with the thread on which it was recorded."""
_FIRST = 800_000_000
"""Ids of extra threads start here, above any system's."""

Lane = tuple[int, str | None, str | None]
"""A trace, a process and a thread."""

# Of slices with the same begin and end, work is within its annotation.
_SLICES = """
SELECT event_id, event.trace_id, pid, tid, ts_ns, ts_ns + dur_ns
FROM export_event AS event
INNER JOIN export_trace USING (trace_id)
WHERE ph = 'X' AND ts_ns IS NOT NULL AND dur_ns >= 0
ORDER BY event.trace_id, pid, tid, ts_ns, dur_ns DESC, is_annotation(cat) DESC, event_id
"""
_ANNOTATION = """
CREATE OR REPLACE TEMP MACRO is_annotation(cat) AS
coalesce(cat IN {categories}, false)
"""
_NODES = "SELECT DISTINCT node_id FROM export_path WHERE node_id IS NOT NULL"
# Viewers order events by time, those of one time as in the file, slices by their end.
# So annotations have to be before the work that has their times, and starts of flows
# before ends at the same time.
_TABLE = "CREATE OR REPLACE TEMP TABLE export_order (event_id BIGINT, place DOUBLE)"
_ORDER = """
INSERT INTO export_order
WITH
alike AS (
    SELECT
        min(event_id) AS first_id,
        unnest(list(event_id) FILTER (is_annotation(cat))) AS event_id
    FROM export_event
    INNER JOIN export_trace USING (trace_id)
    WHERE ph = 'X'
    GROUP BY trace_id, pid, tid, ts_ns, dur_ns
    HAVING bool_or(is_annotation(cat)) AND NOT bool_and(is_annotation(cat))
)

SELECT event_id, first_id - 0.5 AS place
FROM alike
WHERE event_id > first_id
UNION ALL
SELECT target.event_id, max(source.event_id) + 0.5
FROM export_event AS source
INNER JOIN export_event AS target USING (trace_id, cat, name, id, ts_ns)
INNER JOIN export_trace USING (trace_id)
WHERE source.ph = 's' AND target.ph = 'f' AND source.event_id > target.event_id
GROUP BY target.event_id
"""


# A recorded end may close any begin, so threads that have some get no pairs.
_WITH_PAIRS = """
SELECT DISTINCT trace_id, pid, tid
FROM raw.event
INNER JOIN export_trace USING (trace_id)
WHERE ph IN ('B', 'E')
"""


class _Open(NamedTuple):
    """A slice that is open."""

    begin: int
    end: int
    event: int
    is_pair: bool = False


class Layout:
    """The extra threads and the pairs of an export, and the times of flows."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, *, is_chrome: bool
    ) -> None:
        """Place the slices of the traces in `export_trace`.

        Stores the places of events that are not written in their order, in
        `export_order`. Perfetto's own format needs neither that nor extra threads: its
        writer has the order in which it writes, and the slices that do not fit.
        """
        connection.execute(_ANNOTATION.format(categories=ANNOTATIONS))
        connection.execute(_TABLE)
        if is_chrome:
            connection.execute(_ORDER)
        self.is_chrome = is_chrome
        self._moved: dict[int, int] = {}
        self._begins: dict[tuple[Lane, int], int | None] = {}
        self._threads: dict[tuple[Lane, int], int] = {}
        self._pair_begins: set[tuple[Lane, int]] = set()
        self._pair_times: set[tuple[int, int]] = set()
        self._ranks: dict[int, int] = {}
        self._with_pairs = set(connection.execute(_WITH_PAIRS).fetchall())
        nodes = connection.execute(_NODES).fetchall()
        self._own: dict[int, int | None] = dict.fromkeys(node for (node,) in nodes)
        self.pairs: set[int] = set()
        """The slices that are written in order with flows, as a begin and an end."""
        found = connection.execute(_SLICES)
        lane: Lane | None = None
        stacks: list[list[_Open]] = []
        rank = 0
        while rows := found.fetchmany(20_000):
            for event, trace, pid, tid, begin, end in rows:
                if lane != (trace, pid, tid):
                    lane, stacks = (trace, pid, tid), []
                rank += 1
                self._put(lane, stacks, rank, _Open(begin, end, event))

    def _put(
        self, lane: Lane, stacks: list[list[_Open]], rank: int, new: _Open
    ) -> None:
        place = _place(stacks, new)
        stack = stacks[place]
        if stack and self._covers(stack[-1], new) and self._may_pair(lane):
            new = new._replace(is_pair=True)
            self.pairs.add(new.event)
            self._pair_begins.add((lane, new.begin))
            self._pair_times.add((lane[0], new.begin))
        stack.append(new)
        if new.event in self._own:
            self._own[new.event] = new.begin
        if new.is_pair or new.event in self._own:
            self._ranks[new.event] = rank
        thread = self._thread(lane, place) if place else None
        if thread is not None:
            self._moved[new.event] = thread
        # The outermost slice that begins at a time has the flows there.
        self._begins.setdefault((lane, new.begin), thread)

    def _may_pair(self, lane: Lane) -> bool:
        return self.is_chrome and lane not in self._with_pairs

    def _covers(self, outer: _Open, new: _Open) -> bool:
        """Whether a slice begins when the one around it would have its flows.

        Until its end, the outer one is not innermost. Viewers count the end itself to
        the slice. What has no length is written after the flows.
        """
        own = self._own.get(outer.event)
        if own is None or new.begin > own:
            return outer.is_pair and outer.begin == new.begin
        if new.begin < new.end or not self.is_chrome:
            later = new.end + 1
            self._own[outer.event] = later if later < outer.end else None
        return True

    def _thread(self, lane: Lane, place: int) -> int:
        new = _FIRST + len(self._threads)
        return self._threads.setdefault((lane, place), new)

    def of(self, event: int, ph: str | None, lane: Lane, ts: int | None) -> int | None:
        """The extra thread of an event, if it has one."""
        if not self.is_chrome:
            return None
        if ph in ("s", "t", "f") and ts is not None:
            return self._begins.get((lane, ts))
        return self._moved.get(event)

    def is_in_order(self, lane: Lane, ts: int) -> bool:
        """Whether pairs begin at a time on a thread: flows there are in order."""
        return (lane, ts) in self._pair_begins

    def has_order(self, trace: int, ts: int | None) -> bool:
        """Whether pairs begin at a time on any thread of a trace."""
        return ts is not None and (trace, ts) in self._pair_times

    def rank(self, event: int) -> int:
        """The place of a pair, or of a node of the path, in the order of begins."""
        return self._ranks[event]

    def begins(self, lane: Lane, ts: int | None) -> bool:
        """Whether a slice begins at a time."""
        return ts is not None and (lane, ts) in self._begins

    def own_ns(self, node: int) -> int | None:
        """[ns] The first time at which a node of the path has no slice within it.

        As recorded. None if slices within it last as long as it does.
        """
        return self._own.get(node)

    def threads(self) -> Iterator[tuple[Lane, int]]:
        """The extra threads, with the lane to which each belongs."""
        if self.is_chrome:
            for (lane, _), thread in self._threads.items():
                yield lane, thread


def _place(stacks: list[list[_Open]], new: _Open) -> int:
    """The first stack in which a slice nests, without those that are over."""
    for place, stack in enumerate(stacks):
        while stack and stack[-1].end <= new.begin:
            stack.pop()
        if not stack or new.end <= stack[-1].end:
            return place
    stacks.append([])
    return len(stacks) - 1
