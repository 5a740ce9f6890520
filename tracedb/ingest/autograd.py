"""Give events of PyTorch's first profiler the categories that it does not write.

`torch.autograd.profiler` up to PyTorch 1.8, lists of its ops (`FunctionEvent`) until
today, and LibTorch's `RecordProfile` export ops without a category, under a process
named for them. Up to 1.8, another process has the GPU's time of each op, on a thread
for each device. Such times of ops that call others enclose theirs: they are ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import scalar

if TYPE_CHECKING:
    import duckdb

__all__ = ["categorise"]

_IS_OF_IT = """
trace_id = $trace_id AND ph = 'X' AND cat IS NULL
AND lower(pid) IN ('cpu functions', 'cuda functions')
"""
_ANY = f"SELECT true FROM raw.event WHERE {_IS_OF_IT} LIMIT 1"
_CATEGORISE = f"""
UPDATE raw.event
SET
    cat = found.cat,
    args = CASE found.cat
        WHEN 'cpu_op' THEN args
        ELSE json_object('device', try_cast(tid AS BIGINT), 'stream', 0)
    END
FROM (
    SELECT
        event_id AS found_id,
        CASE
            WHEN lower(pid) = 'cpu functions' THEN 'cpu_op'
            WHEN lead(ts_ns + dur_ns) OVER on_thread <= ts_ns + dur_ns
                THEN 'gpu_user_annotation'
            ELSE 'kernel'
        END AS cat
    FROM raw.event
    WHERE {_IS_OF_IT}
    WINDOW on_thread AS (PARTITION BY pid, tid ORDER BY ts_ns, dur_ns DESC, event_id)
) AS found
WHERE event_id = found_id
"""


def categorise(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Name the categories of a trace's events, if that profiler wrote them."""
    values = {"trace_id": trace_id}
    if scalar(connection, _ANY, values):
        connection.execute(_CATEGORISE, values)
