"""Estimate a step of code on a measured CPU: its time, its parts and a trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING

from tracedb.from_code.cpu.host import parts
from tracedb.from_code.cpu.op_times import op_times
from tracedb.from_code.cpu.timeline import CpuTimeline
from tracedb.from_code.cpu.work import computing, cpu_launches
from tracedb.from_code.error_sources import ErrorSource, band
from tracedb.from_code.events import trace_text

if TYPE_CHECKING:
    import duckdb

    from tracedb.from_code.cpu.measured import MeasuredCpu
    from tracedb.from_code.cpu.op_times import OpTime
    from tracedb.from_code.program import Node

STEPS = 2
"""Number of steps in the trace, all alike."""
HOST = "host time between ops"


@dataclass(frozen=True)
class CpuStep:
    """A step on a CPU: its ops with their times, and host time between them."""

    root: Node
    nodes: list[Node]
    """The ops that compute something."""
    times: dict[int, OpTime]
    cpu: MeasuredCpu

    @classmethod
    def of(
        cls, connection: duckdb.DuckDBPyConnection, root: Node, cpu: MeasuredCpu
    ) -> CpuStep:
        """Predict the ops of a step; the database must be empty."""
        nodes = computing(root, cpu_launches(connection))
        return cls(root, nodes, op_times(connection, nodes, cpu.models), cpu)

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
        return self.computing_ns + self.host_ns

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
        return [host, *(ErrorSource(kind, *off) for kind, off in by_kind.items())]

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
        timeline = CpuTimeline(self.cpu.host, self.times)
        for number in range(STEPS):
            timeline.step(self.root, number)
        return [trace_text(timeline.events, None)]
