"""Match an execution graph (ET) with the profiler trace of the same run.

A node's `rf_id` is the event's Record function id in new files, and its External id in
some older ones. Otherwise the nodes of a thread, in order of `rf_id`, are a window of a
thread's events in order of External id. Process and op names decide; the rank, which
may come from a file's name, decides only between traces that both match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracedb.duck import registered, scalar
from tracedb.errors import PairError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_NODES = """
SELECT tid, et_node_id, rf_id, name
FROM staging.et_op
WHERE trace_id = ? AND is_op
ORDER BY tid, rf_id
"""
_EVENTS = """
SELECT tid, event_id, {key}, name
FROM staging.host_event
WHERE trace_id = ? AND kind IN ('op', 'annotation') AND {key} > 0
ORDER BY tid, {key}
"""
_BY_RECORD_FUNCTION = _EVENTS.format(key="record_function_id")
_BY_EXTERNAL = _EVENTS.format(key="external_id")
_CANDIDATES = """
SELECT DISTINCT kineto.trace_id, kineto.rank = graph.rank, kineto.run_id = graph.run_id
FROM staging.trace AS graph
INNER JOIN raw.trace AS header USING (trace_id)
INNER JOIN staging.thread ON staging.thread.pid = header.header ->> '$.pid'
INNER JOIN staging.trace AS kineto ON staging.thread.trace_id = kineto.trace_id
WHERE graph.trace_id = ?
ORDER BY ALL
"""
_PARTNERS = """
SELECT paired_trace_id, trace_id FROM raw.trace WHERE paired_trace_id IS NOT NULL
"""

Lane = list[tuple[int, int, str]]
Match = tuple[int, int, int]


@dataclass(frozen=True)
class Pairing:
    """The trace of an execution graph, or the reason why it has none."""

    et_trace_id: int
    trace_id: int | None
    reason: str
    matches: list[Match]


def pair(connection: duckdb.DuckDBPyConnection, et_trace_id: int) -> Pairing:
    """Find the trace that an execution graph describes, and match their ops."""
    candidates = connection.execute(_CANDIDATES, [et_trace_id]).fetchall()
    if not candidates:
        return Pairing(et_trace_id, None, _no_process(connection, et_trace_id), [])
    taken = dict(connection.execute(_PARTNERS).fetchall())
    free = [candidate for candidate in candidates if candidate[0] not in taken]
    if not free:
        trace_id = candidates[0][0]
        reason = f"trace {trace_id} already has execution graph {taken[trace_id]}"
        return Pairing(et_trace_id, None, reason, [])
    found = [_match(connection, et_trace_id, trace_id) for trace_id, *_ in free]
    return _choose(et_trace_id, found, free)


def store(connection: duckdb.DuckDBPyConnection, pairing: Pairing) -> None:
    """Write a pairing to `raw.pairing` and `raw.trace`."""
    connection.execute(
        "UPDATE raw.trace SET paired_trace_id = ?, pairing = ? WHERE trace_id = ?",
        [pairing.trace_id, pairing.reason, pairing.et_trace_id],
    )
    if pairing.trace_id is None:
        return
    import polars as pl

    columns = dict.fromkeys(("event_id", "et_node_id", "occurrence"), pl.Int64)
    matches = pl.DataFrame(pairing.matches, schema=columns, orient="row")
    with registered(connection, "matches", matches):
        connection.execute(
            "INSERT INTO raw.pairing "
            "SELECT event_id, $trace_id, et_node_id, occurrence FROM matches",
            {"trace_id": pairing.trace_id},
        )


def verify(connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]) -> None:
    """Raise `PairError` unless each execution graph among these has a trace.

    There must be at least one execution graph.
    """
    graphs = connection.execute(
        """
        SELECT path, paired_trace_id, pairing FROM raw.trace
        WHERE format = 'et' AND trace_id IN (SELECT unnest($traces)) ORDER BY trace_id
        """,
        {"traces": list(trace_ids)},
    ).fetchall()
    if not graphs:
        raise PairError(
            "none of the files is an execution graph, so there is nothing to pair"
        )
    for path, trace_id, reason in graphs:
        if trace_id is None:
            raise PairError(
                f"{path}: not an execution graph of a given trace: {reason}"
            )


def _no_process(connection: duckdb.DuckDBPyConnection, et_trace_id: int) -> str:
    query = "SELECT header ->> '$.pid' FROM raw.trace WHERE trace_id = ?"
    pid = scalar(connection, query, [et_trace_id])
    if pid is None:
        return "it does not tell its process"
    return f"no trace in this database has ops of its process {pid}"


def _choose(
    et_trace_id: int,
    found: list[Pairing],
    candidates: list[tuple[int, bool | None, bool | None]],
) -> Pairing:
    matched = [p for p in found if p.trace_id is not None]
    if not matched:
        return found[0]
    same_rank = {trace_id for trace_id, rank_is_equal, _ in candidates if rank_is_equal}
    likely = [p for p in matched if p.trace_id in same_rank] or matched
    if len(likely) > 1:
        traces = ", ".join(str(p.trace_id) for p in likely)
        reason = f"several traces have the same ops and process: {traces}"
        return Pairing(et_trace_id, None, reason, [])
    return likely[0]


def _match(
    connection: duckdb.DuckDBPyConnection, et_trace_id: int, trace_id: int
) -> Pairing:
    nodes = _lanes(connection, _NODES, et_trace_id)
    if not nodes:
        return Pairing(et_trace_id, None, "the execution graph has no ops", [])
    for query, key in (
        (_BY_RECORD_FUNCTION, "Record function id"),
        (_BY_EXTERNAL, "External id"),
    ):
        events = _lanes(connection, query, trace_id)
        matches = _by_identifier(nodes, events)
        if matches:
            reason = f"{len(matches)} ops by {key}"
            return Pairing(et_trace_id, trace_id, reason, matches)
    return _by_order(et_trace_id, trace_id, nodes, events)


def _lanes(
    connection: duckdb.DuckDBPyConnection, query: str, trace_id: int
) -> dict[str, Lane]:
    lanes: dict[str, Lane] = {}
    for tid, *row in connection.execute(query, [trace_id]).fetchall():
        lanes.setdefault(tid, []).append((row[0], row[1], row[2]))
    return lanes


def _by_identifier(nodes: dict[str, Lane], events: dict[str, Lane]) -> list[Match]:
    known = {
        key: (event, name) for lane in events.values() for event, key, name in lane
    }
    wanted = [node for lane in nodes.values() for node in lane]
    found = [
        (*known[rf_id], node_id, name)
        for node_id, rf_id, name in wanted
        if rf_id in known
    ]
    agreed = all(event_name == name for _, event_name, _, name in found)
    # Some nodes have no event (## process_group:init ##), but most do in a real pair.
    if not agreed or len(found) * 2 < len(wanted):
        return []
    return [(event, node_id, 0) for event, _, node_id, _ in found]


def _by_order(
    et_trace_id: int, trace_id: int, nodes: dict[str, Lane], events: dict[str, Lane]
) -> Pairing:
    alphabet = _Alphabet()
    texts = {tid: alphabet.spell(lane) for tid, lane in events.items()}
    matches: list[Match] = []
    counts = []
    for tid, lane in nodes.items():
        windows = _windows(alphabet.spell(lane), texts)
        if not windows:
            reason = (
                f"no thread of trace {trace_id} runs the {len(lane)} ops of its "
                f"thread {tid} in this order"
            )
            return Pairing(et_trace_id, None, reason, [])
        counts.append(len(windows))
        for occurrence, (event_tid, start) in enumerate(windows):
            window = events[event_tid][start : start + len(lane)]
            pairs = zip(window, lane, strict=True)
            matches += [(event, node, occurrence) for (event, *_), (node, *_) in pairs]
    return Pairing(et_trace_id, trace_id, _reason(matches, counts), matches)


def _reason(matches: list[Match], counts: list[int]) -> str:
    if max(counts) == 1:
        return f"{len(matches)} ops by order on {len(counts)} threads"
    return (
        f"{len(matches)} ops by order; the iteration could be any of {max(counts)} "
        "equal ones, so shapes are known, and tensors only within each"
    )


def _windows(needle: str, texts: dict[str, str]) -> list[tuple[str, int]]:
    found = []
    for tid, text in texts.items():
        at = text.find(needle)
        while at >= 0:
            found.append((tid, at))
            at = text.find(needle, at + len(needle))
    return found


class _Alphabet:
    """Maps each name to a character, so that text search finds windows."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def spell(self, lane: Lane) -> str:
        return "".join(self._letter(name) for _, _, name in lane)

    def _letter(self, name: str) -> str:
        # Start in the private-use planes, which have no surrogates.
        return self._letters.setdefault(name, chr(0xF0000 + len(self._letters)))
