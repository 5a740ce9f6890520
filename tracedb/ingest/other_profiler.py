"""Traces of other profilers, whose events get the categories and names of PyTorch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracedb.duck import scalar

if TYPE_CHECKING:
    import duckdb

__all__ = ["OtherProfiler"]


@dataclass(frozen=True)
class OtherProfiler:
    """A profiler that is not PyTorch's."""

    name: str
    any_event: str
    """A query that has a row if it wrote the trace `$trace_id`."""
    update: str
    """Gives the events of that trace their categories."""

    def categorise(self, connection: duckdb.DuckDBPyConnection, trace_id: int) -> bool:
        """Name the categories of a trace's events, if this profiler wrote them."""
        values = {"trace_id": trace_id}
        is_of_it = bool(scalar(connection, self.any_event, values))
        if is_of_it:
            connection.execute(self.update, values)
        return is_of_it
