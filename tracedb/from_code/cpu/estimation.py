"""Estimate a step of code on a measured CPU: its time, its parts and a trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING

from tracedb.from_code.cpu.host import parts
from tracedb.from_code.cpu.op_times import op_times
from tracedb.from_code.cpu.pages import new_pages
from tracedb.from_code.cpu.timeline import CpuTimeline
from tracedb.from_code.cpu.work import computing, cpu_launches
from tracedb.from_code.error_sources import ErrorSource, band
from tracedb.from_code.events import trace_text

if TYPE_CHECKING:
    import duckdb

    from tracedb.from_code.cpu.measured import MeasuredCpu
    from tracedb.from_code.cpu.op_times import OpTime
    from tracedb.from_code.cpu.pages import NewPages
    from tracedb.from_code.fake_run import FakeStep
    from tracedb.from_code.program import Node
    from tracedb.from_code.recordings import Recording

STEPS = 2
"""Number of steps in the trace, all alike."""
HOST = "host time between ops"
PAGES = "new pages of memory"
_HEAP_SHARE = 0.5
"""[1] The share of new pages of the heap that is expected: with small objects among
the tensors, of which nothing is known here, steps take none to all of them anew."""


@dataclass(frozen=True)
class CpuStep:
    """A step on a CPU: its ops with their times, new pages, and host time between."""

    root: Node
    nodes: list[Node]
    """The ops that compute something."""
    times: dict[int, OpTime]
    pages: dict[int, NewPages]
    """By `id(node)`."""
    cpu: MeasuredCpu

    @classmethod
    def of(
        cls,
        connection: duckdb.DuckDBPyConnection,
        recording: Recording,
        cpu: MeasuredCpu,
    ) -> CpuStep:
        """Predict the ops of a step; the database must be empty."""
        root = recording.root
        nodes = computing(root, cpu_launches(connection))
        times = op_times(connection, nodes, cpu.models)
        return cls(root, nodes, times, _pages(root, recording.fake), cpu)

    @cached_property
    def computing_ns(self) -> float:
        """[ns] The time in ops that compute."""
        return sum(self.times[id(node)].expected for node in self.nodes)

    @cached_property
    def host_ns(self) -> float:
        """[ns] All other time: Python, modules, autograd."""
        return self.cpu.host.total_ns(parts(self.root))

    @property
    def expected_ns(self) -> float:
        """[ns] The time of the step."""
        return self.computing_ns + sum(self.pages_ns.values()) + self.host_ns

    @cached_property
    def pages_ns(self) -> dict[int, float]:
        """[ns] The time for new pages, by `id(node)`."""
        return {
            identity: (new.mapped + _HEAP_SHARE * new.heap) * self.cpu.host.page_ns
            for identity, new in self.pages.items()
        }

    @cached_property
    def sources(self) -> list[ErrorSource]:
        """Its error sources: ops of one kind err alike, kinds independently."""
        by_kind: dict[str, tuple[float, float]] = {}
        for node in self.nodes:
            time = self.times[id(node)]
            shorter, longer = by_kind.get(time.kind, (0.0, 0.0))
            by_kind[time.kind] = (
                shorter + time.expected - time.low,
                longer + time.high - time.expected,
            )
        factor = exp(self.cpu.host.spread)
        host = ErrorSource(
            HOST, self.host_ns * (1 - 1 / factor), self.host_ns * (factor - 1)
        )
        heap_ns = sum(new.heap for new in self.pages.values()) * self.cpu.host.page_ns
        pages = ErrorSource(PAGES, heap_ns * _HEAP_SHARE, heap_ns * (1 - _HEAP_SHARE))
        kinds = (ErrorSource(kind, *off) for kind, off in by_kind.items())
        return [host, pages, *kinds]

    @property
    def bounds(self) -> tuple[int, int]:
        """[ns] The low and high bound of the step."""
        return band(self.expected_ns, self.sources)

    @property
    def unmodelled(self) -> dict[str, int]:
        """The number of ops timed by the roofline, by name."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if not self.times[id(node)].is_modelled:
                found[node.name] = found.get(node.name, 0) + 1
        return found

    @property
    def texts(self) -> list[str]:
        """The steps as a trace."""
        timeline = CpuTimeline(self.cpu.host, self.times, self.pages_ns)
        for number in range(STEPS):
            timeline.step(self.root, number)
        return [trace_text(timeline.events, None)]


def _pages(root: Node, fake: FakeStep) -> dict[int, NewPages]:
    """The new pages of each op, by `id(node)`."""
    found = new_pages(fake.held)
    numbers = {
        id(op): number for number, op in zip(fake.names, fake.ops.values(), strict=True)
    }
    return {
        id(node): found[numbers[id(node.dispatched)]]
        for node in root.walk()
        if node.dispatched and numbers[id(node.dispatched)] in found
    }
