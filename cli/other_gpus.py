"""Tells of traces from GPUs that a library of host times does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.words import counted

from .terminal import tell

if TYPE_CHECKING:
    import tracedb


def tell_other_gpus(db: tracedb.Database, library: str) -> None:
    """Report traces from a GPU that the library does not have."""
    from tracedb.overhead_library import gpus_of

    known = gpus_of(library)
    rows = db.sql(
        "SELECT gpu, count(*) FROM staging.trace LEFT JOIN staging.trace_gpu "
        "USING (trace_id) WHERE format = 'kineto' GROUP BY gpu ORDER BY gpu"
    ).rows()
    learned = ", ".join(_host(gpu) for gpu in known)
    for gpu, count in rows:
        if gpu not in known:
            tell(
                f"{counted(count, 'trace')} from a host with {_host(gpu)}, but "
                f"{library} is from hosts with {learned}; host times may be "
                "several times off"
            )


def _host(gpu: str | None) -> str:
    return gpu or "no GPU"
