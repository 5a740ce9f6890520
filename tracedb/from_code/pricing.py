"""Predict the times of GPU work as for kernels of any trace, each shape once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tracedb import catalog, estimates
from tracedb.errors import EstimateError
from tracedb.from_code.events import (
    COLLECTIVES,
    MAIN,
    STREAM,
    Machine,
    on_gpu,
    on_host,
    shapes,
    trace_text,
)
from tracedb.near import alike, meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import duckdb

    from tracedb.from_code.launches import Work
    from tracedb.from_code.ops import Argument
    from tracedb.from_code.program import Node

_FLOORS = 1.5
"""What a kernel that no family models takes in any case, in floors."""
_DOUBT = 3
"""How many times as long as its bytes it may take: it may compute, or read twice."""
_INDICES = frozenset(("long int", "int", "long"))
"""Types that places in other tensors have."""
_EVENT_NS = 10
"""[ns] Duration of events in a trace that only lists the work."""


@dataclass(frozen=True)
class Device:
    """A GPU: its name in traces, hardware row, shortest kernel [ns] and memory [B]."""

    name: str
    hardware: str
    floor_ns: int
    capacity_bytes: int | None
    per_node: int = 8
    """GPUs per node."""
    bytes_per_ns: float = 1_000.0
    """[B/ns] What kernels of no known family reach of its memory's bandwidth."""

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, gpu: str) -> Device:
        """Look up a GPU by name; raises `EstimateError` if unknown."""
        found = connection.execute(_DEVICE, {"gpu": gpu}).fetchall()
        if not found:
            known = [name for (name,) in connection.execute(_KNOWN).fetchall()]
            near = meant(alike(gpu, known)) or f"; known: {', '.join(known)}"
            raise EstimateError(f"unknown GPU {gpu}{near}")
        return cls(gpu, *found[0])

    def machine(self, nodes: Iterable[Node]) -> Machine | None:
        """The node, if the collectives span several; else None."""
        called = [node.dispatched.called for node in nodes if node.dispatched]
        if not any(c and c.nodes(self.per_node) > 1 for c in called):
            return None
        # Groups without a list of members have all ranks.
        largest = (max((*c.members, (c.ranks or 1) - 1)) + 1 for c in called if c)
        return Machine(self.per_node, max(largest))


@dataclass(frozen=True)
class KernelTime:
    """[ns] The predicted time of GPU work, and its band.

    Without `is_modelled`, no kernel family covers it and the time is a guess.
    """

    expected: int
    low: int
    high: int
    is_modelled: bool = True


_DEVICE = """
SELECT
    hardware, floor_ns, memory_bytes, devices_per_node,
    dram_bytes_per_second * memory_share / 1e9
FROM prediction.hardware
INNER JOIN prediction.kernel_efficiency ON family = 'other'
LEFT JOIN prediction.memory_capacity USING (hardware)
WHERE kind = 'gpu' AND NOT is_generic AND regexp_matches($gpu, name_pattern, 'i')
ORDER BY ordinal
LIMIT 1
"""
_KNOWN = """
SELECT model.hardware
FROM prediction.hardware AS model
ANTI JOIN prediction.gpu_instance AS part ON model.hardware = part.instance
WHERE kind = 'gpu' AND NOT is_generic
ORDER BY ordinal
"""
_TIMES = """
SELECT
    correlation,
    predicted_ns,
    low_ns,
    -- All ranks call at the same time: no kernel waits for another rank.
    CASE
        WHEN family = 'collective' AND basis = 'roofline'
            THEN round(predicted_ns::DOUBLE * predicted_ns / low_ns)::BIGINT
        ELSE high_ns
    END
FROM prediction.kernel_time AS time
INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
WHERE time.trace_id = ?
"""

Key = tuple[str, str, tuple[str, ...], tuple[int, ...]]
"""What determines the time of an op's work: op, arguments, kernel names, bytes."""


def price(
    connection: duckdb.DuckDBPyConnection,
    asked: Mapping[Device, Iterable[Sequence[Node]]],
) -> dict[Device, list[list[KernelTime]]]:
    """Predict the GPU work of each program on each device, in order.

    A program is the list of nodes that launch something. The database must be empty.
    """
    programs = {device: list(nodes) for device, nodes in asked.items()}
    # Programs may share nodes; handle each once.
    nodes = {id(node): node for p in programs.values() for one in p for node in one}
    keys = {identity: key_of(node) for identity, node in nodes.items()}
    unique = {
        device: {keys[id(node)]: node for program in several for node in program}
        for device, several in programs.items()
    }
    known = _known(connection, unique)
    return {
        device: [
            [time for node in program for time in known[device][keys[id(node)]]]
            for program in several
        ]
        for device, several in programs.items()
    }


def key_of(node: Node) -> Key:
    """What determines the time of a node's work."""
    name, arguments, work = launched(node)
    return (
        name,
        repr((shapes(arguments), node.message)),
        tuple(one.name for one in work),
        tuple(one.moved_bytes for one in work),
    )


def launched(node: Node) -> tuple[str, Sequence[Argument], tuple[Work, ...]]:
    """The op that launches, as it would be recorded: its name, arguments and work."""
    if node.dispatched is None or node.launching is None:
        return node.name, (), ()
    if node.launching.name:
        return node.launching.name, node.launching.arguments, node.launching.work
    return node.name, node.dispatched.arguments, node.launching.work


def _known(
    connection: duckdb.DuckDBPyConnection, unique: Mapping[Device, dict[Key, Node]]
) -> dict[Device, dict[Key, list[KernelTime]]]:
    from tracedb.ingest import ingest

    found: dict[Device, dict[Key, list[KernelTime]]] = {}
    with TemporaryDirectory(prefix="tracedb-") as folder:
        files = []
        for number, (device, nodes) in enumerate(unique.items()):
            files.append(Path(folder, f"{number}.json"))
            each = list(nodes.values())
            files[-1].write_text(one_of_each(each, device.name, device.machine(each)))
        for file in files:
            ingest(
                connection, [file], run=file.stem, pair=False,
                progress=lambda _line: None, until="staging",
            )  # fmt: skip
    rows = connection.execute("SELECT trace_id FROM raw.trace ORDER BY 1").fetchall()
    traces = [trace for (trace,) in rows]
    stored = {
        name
        for name in catalog.sources("prediction.kernel_time")
        if name.startswith("prediction.")
    }
    # These kernels have no measured times to learn from.
    stored.discard("prediction.kernel_factor")
    for _ in catalog.compute(connection, traces, stored):
        pass
    estimates.apply_shipped(connection, traces)
    for trace, (device, nodes) in zip(traces, unique.items(), strict=True):
        times = connection.execute(_TIMES, [trace]).fetchall()
        modelled = {number: KernelTime(*given) for number, *given in times}
        found[device] = _by_key(nodes, modelled, device)
    return found


def one_of_each(
    nodes: Sequence[Node], device: str, machine: Machine | None = None
) -> str:
    """A trace of a device with each op once, and the work that it launches."""
    events: list[dict[str, Any]] = []
    number = now = 0
    for identifier, node in enumerate(nodes, 1):
        name, arguments, works = launched(node)
        begin = now
        for work in works:
            number += 1
            now += _EVENT_NS
            given = {"correlation": number, "External id": identifier}
            call = "cudaMemcpyAsync" if work.kind == "memcpy" else "cudaLaunchKernel"
            events.append(
                on_host("cuda_runtime", call, now, now + _EVENT_NS, MAIN, given)
            )
            now += _EVENT_NS
            given |= node.message
            stream = COLLECTIVES if work.kind == "collective" else STREAM
            events.append(on_gpu(work, now, now + _EVENT_NS, given, stream))
        now += _EVENT_NS
        given = {"External id": identifier, **shapes(arguments), **node.message}
        events.append(on_host("cpu_op", name, begin, now, MAIN, given))
    return trace_text(events, device, machine)


def _guess(node: Node, count: int, device: Device) -> KernelTime:
    """The time of each of so many kernels that no family models: that of its bytes."""
    least = int(_FLOORS * device.floor_ns)
    moved_ns = int(_moved_bytes(node) / max(count, 1) / device.bytes_per_ns)
    return KernelTime(
        least + moved_ns, least, least + _DOUBT * moved_ns, is_modelled=False
    )


def _moved_bytes(node: Node) -> int:
    """[B] What an op reads and writes if it uses each of its tensors once.

    With indices, it reads of each tensor as much as it writes. If it only changes its
    arguments, it writes as much as the first of them has.
    """
    op = node.dispatched
    if op is None:
        return 0
    read = [one.elements * one.element_bytes for one in op.tensors]
    written = sum(one.elements * one.element_bytes for one in op.results)
    written = written or (read[0] if read else 0)
    if any(one.dtype in _INDICES and one.dims for one in op.tensors):
        read = [min(size, written) for size in read]
    return sum(read) + written


def _by_key(
    nodes: dict[Key, Node], modelled: dict[int, KernelTime], device: Device
) -> dict[Key, list[KernelTime]]:
    found: dict[Key, list[KernelTime]] = {}
    number = 0
    for key, node in nodes.items():
        count = len(launched(node)[2])
        unknown = _guess(node, count, device)
        found[key] = [
            modelled.get(place, unknown)
            for place in range(number + 1, number + count + 1)
        ]
        number += count
    return found
