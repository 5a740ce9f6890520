"""Profiler traces of deep-learning training as a graph that answers SQL.

    with tracedb.open("run.duckdb") as db:
        db.ingest(["traces/"])
        db.sql("FROM question.top_kernel LIMIT 10")

Names are imported on first use, so that `tracedb --help` and `tracedb.record` do
not wait for DuckDB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracedb.database import Database
    from tracedb.database import open_database as open  # noqa: A004 (as `io.open`)
    from tracedb.errors import (
        DatabaseError,
        EstimateError,
        FileAccessError,
        ForeignFileError,
        HardwareError,
        IngestError,
        KernelModelError,
        LakeError,
        LibraryError,
        MeasurementError,
        MissingPackageError,
        PairError,
        QueryError,
        RecordError,
        ReportError,
        ScenarioError,
        ShardingError,
        TracedbError,
    )
    from tracedb.from_code.estimation import Estimate, estimate
    from tracedb.from_code.sweep import estimate_sweep
    from tracedb.profiling import profile
    from tracedb.sharding.run import Sharding, shard
    from tracedb.whatif.scenario import Edit

__all__ = [
    "Database",
    "DatabaseError",
    "Edit",
    "Estimate",
    "EstimateError",
    "FileAccessError",
    "ForeignFileError",
    "HardwareError",
    "IngestError",
    "KernelModelError",
    "LakeError",
    "LibraryError",
    "MeasurementError",
    "MissingPackageError",
    "PairError",
    "QueryError",
    "RecordError",
    "ReportError",
    "ScenarioError",
    "Sharding",
    "ShardingError",
    "TracedbError",
    "estimate",
    "estimate_sweep",
    "open",
    "profile",
    "shard",
]
__version__ = "0.1.0"

METHODS = (
    *("replay", "statistics", "full"),
    *("other_steps", "other_ranks", "shared", "lin2022", "lin2022_as_profiled"),
    *("by_name", "library"),
)
"""The prediction methods; `prediction.method` documents them."""

SCOPES = ("period", "step", "trace", "run")
"""The scopes of a critical path: a step, a whole trace, or a step across all ranks."""

NODE_KINDS = (
    *("op", "annotation", "launch", "wait", "call"),
    *("kernel", "memcpy", "memset", "other"),
)
"""The kinds of nodes, on the host and on a device (`graph.node`)."""

_HOMES = {
    "Database": ("tracedb.database", "Database"),
    "Edit": ("tracedb.whatif.scenario", "Edit"),
    "Estimate": ("tracedb.from_code.estimation", "Estimate"),
    "estimate": ("tracedb.from_code.estimation", "estimate"),
    "estimate_sweep": ("tracedb.from_code.sweep", "estimate_sweep"),
    "open": ("tracedb.database", "open_database"),
    "profile": ("tracedb.profiling", "profile"),
    "Sharding": ("tracedb.sharding.run", "Sharding"),
    "shard": ("tracedb.sharding.run", "shard"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module attribute is anything)
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'tracedb' has no attribute '{name}'")
    module, attribute = _HOMES.get(name, ("tracedb.errors", name))
    return getattr(import_module(module), attribute)
