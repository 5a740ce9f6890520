"""Give events of ONNX Runtime's profiles the categories of PyTorch's.

A session writes a list of its phases (`Session`), of the nodes that it runs (`Node`)
and of GPU work (`Kernel`), which has the name of its node or of its own, and mostly no
device. Nodes become ops of their type, with a node's name as an argument.
"""

from __future__ import annotations

from tracedb.ingest.other_profiler import OtherProfiler

__all__ = ["ONNX_RUNTIME"]

_ANY = """
SELECT true FROM raw.event
WHERE
    trace_id = $trace_id AND ph = 'X'
    AND (
        cat = 'Session' AND name IN (
            'model_loading_uri', 'model_loading_array', 'session_initialization',
            'model_run', 'SequentialExecutor::Execute', 'ParallelExecutor::Execute'
        )
        OR cat = 'Node' AND suffix(name, '_kernel_time')
    )
LIMIT 1
"""
_CATEGORISE = """
UPDATE raw.event
SET
    cat = CASE
        WHEN cat IN ('Session', 'Api') THEN 'user_annotation'
        WHEN cat = 'Node' AND suffix(name, '_kernel_time') THEN 'cpu_op'
        WHEN cat = 'Node' THEN 'user_annotation'
        WHEN starts_with(name, 'Memcpy') THEN 'gpu_memcpy'
        WHEN starts_with(name, 'Memset') THEN 'gpu_memset'
        ELSE 'kernel'
    END,
    name = CASE
        WHEN cat = 'Node' AND suffix(name, '_kernel_time')
            THEN coalesce(
                args ->> '$.op_name', left(name, -length('_kernel_time'))
            )
        ELSE name
    END,
    args = CASE cat
        WHEN 'Node'
            THEN json_merge_patch(coalesce(args, '{}'), json_object('name', name))
        WHEN 'Kernel' THEN json_merge_patch(
            coalesce(args, '{}'),
            json_object('device', greatest(coalesce(try_cast(pid AS BIGINT), 0), 0))
        )
        ELSE args
    END
WHERE trace_id = $trace_id AND ph = 'X' AND cat IN ('Session', 'Node', 'Kernel', 'Api')
"""

ONNX_RUNTIME = OtherProfiler("ONNX Runtime", _ANY, _CATEGORISE)
