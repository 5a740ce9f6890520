"""Export a run as MLCommons Chakra graphs, measured or predicted: a file per rank.

Nodes do not overlap the nodes that they depend on: host work is cut where something
else depends on it, and delays (launches, gaps, returns of waits) are nodes. So the
longest path through the files is the time of the step. Chakra counts whole
microseconds: begin and end of a node are both rounded down, so that no error adds up;
`duration_ns` has the nanoseconds.

Ranks meet in collectives: those of one `pg_name` with `ranks_meet` match in file order,
and begin when the last rank arrives.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tracedb.errors import QueryError, ReportError
from tracedb.export.perfetto import check_step
from tracedb.export.run_graph import RunGraph
from tracedb.export.timed_graph import nodes, timed
from tracedb.outputs import EXPORT, check_place, written
from tracedb.protobuf import encoded, message, number, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from tracedb.export.timed_graph import Node, Work

_METADATA, _LOAD, _STORE, _COMPUTE = 1, 2, 3, 4
_SEND, _RECEIVE, _COLLECTIVE = 5, 6, 7
"""Types of nodes, from Chakra's `et_def.proto`."""
_COLLECTIVES = {
    "all_reduce": 0,
    "reduce": 1,
    "all_gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
    "barrier": 9,
}
"""Chakra's numbers of collectives."""
_INT64, _UINT64, _BOOL, _STRING = 9, 13, 27, 29
"""Fields of an attribute that hold its value."""
_ENDING = ".et"

_TRACES = """
CREATE OR REPLACE TEMP TABLE export_trace AS
SELECT trace_id, rank
FROM graph.run_time
INNER JOIN staging.trace USING (run_id, trace_id)
WHERE run_id = $run AND trace_id IN (SELECT trace_id FROM simulation.origin)
"""
_VARIANTS = """
SELECT variant_id, scenario
FROM prediction.variant
WHERE is_asked AND is_simulated AND variant_id > 0
ORDER BY scenario = 'baseline', variant_id
"""
_PERIODS = """
SELECT period.trace_id, period.start_ns, period.end_ns, run_origin_ns IS NOT NULL
FROM critical_path.step_period AS period
INNER JOIN staging.step AS step USING (step_id)
INNER JOIN simulation.origin AS origin ON period.trace_id = origin.trace_id
WHERE
    variant_id = $variant
    AND step.step = $step
    AND period.trace_id IN (SELECT trace_id FROM export_trace)
"""
_NAMES = """
SELECT node.node_id, node.kind, node.name, op_name
FROM graph.node AS node
LEFT JOIN graph.node_op AS op ON node.node_id = op.node_id
WHERE trace_id IN (SELECT trace_id FROM export_trace)
"""
_AMOUNTS = """
SELECT work.gpu_op_id, staging.copy_direction(name), moved_bytes, flops, traffic_bytes
FROM staging.gpu_op AS work
LEFT JOIN prediction.kernel_work AS known ON work.gpu_op_id = known.gpu_op_id
WHERE work.trace_id IN (SELECT trace_id FROM export_trace) AND NOT is_collective
"""
_COMMUNICATION = """
SELECT made.node_id, made.kind, made.process_group, made.group_size, message_bytes
FROM staging.collective AS made
LEFT JOIN question.collective_kernel AS kernel ON node_id = gpu_op_id
WHERE made.trace_id IN (SELECT trace_id FROM export_trace)
"""


class _Name(NamedTuple):
    kind: str
    name: str
    op: str | None


class _Amount(NamedTuple):
    direction: str | None
    moved_bytes: int | None
    flops: float | None
    traffic_bytes: float | None


class _Collective(NamedTuple):
    kind: str
    group: str | None
    size: int | None
    message_bytes: float | None


def _attribute(name: str, field: int, value: Any) -> bytes:  # noqa: ANN401 (as the field)
    held = text(field, value) if field == _STRING else number(field, int(value))
    return message(10, text(1, name) + held)


HEAD = message(2, text(1, "exportedBy") + text(_STRING, "tracedb"))
HEAD = text(1, "0.0.4") + HEAD
HEAD = encoded(len(HEAD)) + HEAD
"""The first bytes of an export, which may be overwritten: its metadata."""


def write_chakra(
    connection: duckdb.DuckDBPyConnection,
    path: str | Path,
    run: int,
    step: int | None = None,
    rank: int | None = None,
) -> int:
    """Write a run or a step as a file per rank: `x.et` gives `x.0.et`, `x.1.et`.

    The variant is the simulated scenario, else the method, else the measurement.
    Returns the number of nodes. Raises `QueryError` for an unknown step, for a single
    rank, for several scenarios, and for a run without host threads; `ReportError` if a
    file cannot be written, or would replace something other than an export.
    """
    if rank is not None:
        raise QueryError(
            "Chakra's graphs of ranks belong together: leave out the rank, and use the "
            "file of that rank"
        )
    check_step(connection, run, step)
    variant = _variant(connection)
    try:
        connection.execute(_TRACES, {"run": run})
        places = _places(connection, Path(path))
        graph = RunGraph(connection, variant)
        works = timed(graph.works)
        window = _window(connection, graph, variant, step)
        described = [*nodes(works, window)]
        writer = _Writer(connection, works, described, window)
        _write(places, writer)
        return len(described)
    finally:
        connection.execute("DROP TABLE IF EXISTS temp.export_trace")


def _variant(connection: duckdb.DuckDBPyConnection) -> int:
    """The variant to write: the scenario, else the method, else the measurement."""
    found = connection.execute(_VARIANTS).fetchall()
    scenarios = [name for _, name in found if name != "baseline"]
    if len(scenarios) > 1:
        raise QueryError(
            f"a Chakra graph holds one scenario, but there are {', '.join(scenarios)}; "
            "give a file with one of them"
        )
    return int(found[0][0]) if found else 0


def _places(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[int, Path]:
    """The file of each trace, numbered by its rank, or in order without ranks."""
    query = "SELECT trace_id, rank FROM export_trace ORDER BY rank, trace_id"
    rows = connection.execute(query).fetchall()
    if not rows:
        raise QueryError("the run has no host threads, so there is no graph to write")
    ranks = [rank for _, rank in rows]
    are_ranks = None not in ranks and len({*ranks}) == len(ranks)
    stem = path.name.removesuffix(_ENDING)
    places = {
        trace: path.with_name(f"{stem}.{rank if are_ranks else place}{_ENDING}")
        for place, (trace, rank) in enumerate(rows)
    }
    for place in places.values():
        check_place(place, HEAD, EXPORT)
    return places


def _window(
    connection: duckdb.DuckDBPyConnection,
    graph: RunGraph,
    variant: int,
    step: int | None,
) -> dict[int, tuple[int, int]]:
    """[ns] The interval of each trace to write.

    For a step, it spans from the first rank's begin to the last rank's end, if the
    ranks share a clock.
    """
    if step is None:
        return dict.fromkeys(graph.origins, (0, 2**62))
    found = connection.execute(_PERIODS, {"variant": variant, "step": step}).fetchall()
    if not found:
        raise QueryError(f"step {step} has no times to write; see `tracedb predict`")
    spans = {
        trace: (start + graph.origins[trace].at_ns, end + graph.origins[trace].at_ns)
        for trace, start, end, _ in found
    }
    together = min(s for s, _ in spans.values()), max(e for _, e in spans.values())
    if all(is_clocked for *_, is_clocked in found):
        return dict.fromkeys(graph.origins, together)
    return {trace: spans.get(trace, (0, 0)) for trace in graph.origins}


def _write(places: dict[int, Path], writer: _Writer) -> None:
    """Write all files; they appear together at the end."""
    with ExitStack() as stack:
        files: dict[int, IO[bytes]] = {}
        for trace, place in places.items():
            beside = stack.enter_context(written(place, ReportError))
            files[trace] = stack.enter_context(beside.open("wb"))
            files[trace].write(HEAD)
        for trace, node in writer.nodes():
            files[trace].write(encoded(len(node)) + node)


class _Writer:
    """Encodes nodes for Chakra, with what the database knows about each."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        works: Sequence[Work],
        described: Sequence[Node],
        window: dict[int, tuple[int, int]],
    ) -> None:
        self._nodes = described
        self._window = window
        self._names = {
            node: _Name(*row) for node, *row in connection.execute(_NAMES).fetchall()
        }
        self._amounts = {
            node: _Amount(*row)
            for node, *row in connection.execute(_AMOUNTS).fetchall()
        }
        self._collectives = {
            node: _Collective(*row)
            for node, *row in connection.execute(_COMMUNICATION).fetchall()
        }
        self._lanes = {node.number: node.work.about.lane for node in described}
        self._whole = _whole_meetings(works, described)

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        """The trace of each node, and its bytes."""
        for node in self._nodes:
            low, _ = self._window[node.work.trace]
            begin, end = node.begin_ns - low, node.end_ns - low
            fields = [number(1, node.number), text(2, self._name(node))]
            fields.append(number(3, self._type(node)))
            if node.after:
                fields.append(message(5, b"".join(map(encoded, node.after))))
            # Both ends are rounded down, so adjacent nodes stay adjacent.
            fields.append(number(6, begin // 1000))
            fields.append(number(7, end // 1000 - begin // 1000))
            fields += self._attributes(node)
            fields.append(_attribute("start_ns", _UINT64, begin))
            fields.append(_attribute("duration_ns", _UINT64, end - begin))
            yield node.work.trace, b"".join(fields)

    def _name(self, node: Node) -> str:
        about = node.work.about
        known = self._names.get(about.node_id)
        name = str(about.kind)
        if known is not None and name != "T1" and about.lane[0] != "mark":
            name = known.name
        return f"{self._kind(node)} before {name}" if node.piece < 0 else name

    def _kind(self, node: Node) -> str:
        """The kind of a node's time; a delay's depends on the lanes around it."""
        lane, kind, node_id = node.work.about
        if node.piece >= 0:
            if node_id in self._collectives:
                return "communication"
            known = self._names.get(node_id)
            own = "step" if lane[0] == "mark" else str(kind)
            return known.kind if kind == "gpu" and known is not None else own
        before = next((self._lanes[n] for n in node.after), None)
        if before is None:
            return "given_begin"
        if lane[0] == "stream":
            gap = "stream_gap" if before == lane else "stream_wait"
            return gap if before[0] == "stream" else "launch_delay"
        return "return" if before[0] == "stream" else "thread_wait"

    def _type(self, node: Node) -> int:
        lane, _, node_id = node.work.about
        if lane[0] == "mark":
            return _METADATA
        collective = self._collectives.get(node_id)
        if self._communicates(node) and collective is not None:
            types = {"send": _SEND, "recv": _RECEIVE}
            return types.get(collective.kind, _COLLECTIVE)
        amount = self._amounts.get(node_id)
        if node.piece < 0 or amount is None:
            return _COMPUTE
        directions = {"h2d": _LOAD, "d2h": _STORE}
        return directions.get(str(amount.direction), _COMPUTE)

    def _communicates(self, node: Node) -> bool:
        """Whether it is the first piece of a collective."""
        return node.piece == 0 and node.work.about.kind in ("gpu", "meeting")

    def _attributes(self, node: Node) -> list[bytes]:
        lane, _, node_id = node.work.about
        is_gpu = lane[0] == "stream" and node.piece >= 0
        found = [
            _attribute("is_cpu_op", _BOOL, not is_gpu),
            _attribute("kind", _STRING, self._kind(node)),
            _attribute("lane", _STRING, f"{lane[0]} {abs(lane[1])}"),
        ]
        if node_id is not None:
            found.append(_attribute("tracedb_node", _INT64, node_id))
        known = self._names.get(node_id)
        if known is not None and known.op is not None and node.piece >= 0:
            found.append(_attribute("op", _STRING, known.op))
        if node.piece == 0 and node_id in self._amounts:
            found += _amounts(self._amounts[node_id])
        if self._communicates(node) and node_id in self._collectives:
            meets = node.work.meeting in self._whole
            found += _communication(self._collectives[node_id], meets=meets)
        return found


def _whole_meetings(works: Sequence[Work], described: Sequence[Node]) -> set[Any]:
    """The meetings of which all ranks' parts are written."""
    parts = Counter(work.meeting for work in works)
    written = Counter(node.work.meeting for node in described if node.piece == 0)
    return {meeting for meeting, count in written.items() if count == parts[meeting]}


def _amounts(amount: _Amount) -> list[bytes]:
    """The FLOPs and bytes of GPU work, where known."""
    moved = amount.traffic_bytes or amount.moved_bytes
    found = []
    if amount.flops is not None:
        found.append(_attribute("num_ops", _INT64, amount.flops))
    if moved is not None:
        found.append(_attribute("tensor_size", _UINT64, moved))
    return found


def _communication(collective: _Collective, *, meets: bool) -> list[bytes]:
    """The group, kind and size of a collective, where known."""
    found = [
        _attribute("pg_name", _STRING, collective.group or ""),
        _attribute("collective", _STRING, collective.kind),
        _attribute("ranks_meet", _BOOL, meets),
    ]
    if collective.kind in _COLLECTIVES:
        found.append(_attribute("comm_type", _INT64, _COLLECTIVES[collective.kind]))
    if collective.message_bytes is not None:
        found.append(_attribute("comm_size", _INT64, collective.message_bytes))
    if collective.size is not None:
        found.append(_attribute("pg_size", _INT64, collective.size))
    return found
