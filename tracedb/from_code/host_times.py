"""Host times: of an op itself, between ops, and of a launch."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

_SHIPPED = "host_times.json"
_RECORDED = "recorded_host_times.json"
_AUTOGRAD = "autograd::engine::"
_FUNCTION = re.compile(r"Backward\d*$|^torch::autograd::")
_GRAPHS = """
SELECT host_ns, gap_ns
FROM prediction.graph_replay
INNER JOIN staging.recording AS recording USING (trace_id)
WHERE replay_count > 0 AND NOT recording.is_estimated
ORDER BY replay_count DESC, trace_id
LIMIT 1
"""


def op_kind(name: str, *, launches: bool) -> str:
    """The kind of an op, for ops whose name has no host time."""
    if name.startswith(_AUTOGRAD):
        return "autograd"
    if launches:
        return "launching"
    if _FUNCTION.search(name):
        return "function"
    return "op" if "::" in name else "other"


@dataclass(frozen=True)
class HostTimes:
    """The host times of a step, all in nanoseconds.

    `own` is an op's self time by name, without ops in it and launches. `gap` is the
    time before a top-level op, by its name. Unknown names use the key `op_kind`, or
    else "". `spans` are the times of a library of overheads, by type and top-level op;
    they take precedence.
    """

    own: dict[str, int]
    gap: dict[str, int]
    launch: int
    copy: int
    wait: int
    return_delay: int
    handover: int
    graph_launch: int
    graph_gap: int
    spans: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def shipped(cls, *, recorded: bool = False) -> HostTimes:
        """The host times that ship with tracedb: see `docs/estimate.md`.

        With `recorded`, those of traces of GPU hosts, which include the profiler's
        overhead.
        """
        file = _RECORDED if recorded else _SHIPPED
        text = files("tracedb.from_code").joinpath(file).read_text("utf-8")
        return cls(**json.loads(text)["times"])

    def with_library(self, path: str | Path) -> HostTimes:
        """Prefer the times of a library of overheads.

        Raises `LibraryError` if the file is not one.
        """
        from tracedb.overhead_library import medians

        spans = medians(path)
        calls = {name: ns for (kind, name), ns in spans.items() if kind == "T4"}
        return replace(
            self,
            spans=spans,
            launch=calls.get("cudaLaunchKernel", self.launch),
            copy=calls.get("cudaMemcpyAsync", self.copy),
        )

    def with_graphs_of(self, connection: duckdb.DuckDBPyConnection) -> HostTimes:
        """Use the times of CUDA graph launches in a database's traces."""
        found = connection.execute(_GRAPHS).fetchall()
        if not found:
            return self
        return replace(self, graph_launch=found[0][0], graph_gap=found[0][1])

    def own_ns(self, name: str, *, launches: bool = False) -> int:
        """[ns] The self time of an op of that name."""
        return _known(self.own, name, op_kind(name, launches=launches))

    def gap_ns(self, name: str) -> int:
        """[ns] The time before a top-level op of that name."""
        kind = op_kind(name, launches=False) if name else ""
        return self.spans.get(("T1", name), _known(self.gap, name, kind))

    def span_ns(self, kind: str, name: str) -> int | None:
        """[ns] The library's time for a type and a top-level op, if it has one."""
        return self.spans.get((kind, name))


def _known(times: dict[str, int], name: str, kind: str) -> int:
    return times.get(name, times.get(kind, times[""]))
