"""Give events of PaddlePaddle's profiles the categories and names of PyTorch's.

Its profiler writes a thread's Python ranges and its C++ events under two ids,
`901(Python)` and `901(C++)`; how long each event takes at the end of its name,
`relu[12.000 us]`; and the number that a launch shares with its GPU work as
`correlation id`. Steps, fetched batches, backward passes and optimizers are told by
their categories.
"""

from __future__ import annotations

from tracedb.ingest.other_profiler import OtherProfiler

__all__ = ["PADDLE"]

_TIME = r"\[\d+(\.\d+)? [mu]s\]$"
_ANY = rf"""
SELECT true FROM raw.event
WHERE
    trace_id = $trace_id AND ph = 'X' AND suffix(name, 's]')
    AND (
        cat IN (
            'ProfileStep', 'OperatorInner', 'PythonOp', 'PythonUserDefined', 'Kernel',
            'UserDefined', 'Dataloader', 'Optimization', 'Operator', 'Communication'
        )
        OR suffix(cat, 'Runtime')
    )
    AND regexp_matches(name, '{_TIME}')
    AND args ->> '$.start_time' IS NOT NULL
LIMIT 1
"""
# Shapes and types are listed by parameter, `{"X": [[8, 4]]}`.
_CATEGORISE = rf"""
UPDATE raw.event
SET
    tid = regexp_replace(tid, '\((Python|C\+\+)\)$', ''),
    cat = CASE
        WHEN ph IS DISTINCT FROM 'X' OR cat IN ('Kernel', 'Memcpy', 'Memset') THEN cat
        WHEN cat IN ('Operator', 'OperatorInner', 'Communication') THEN 'cpu_op'
        WHEN suffix(cat, 'Runtime') THEN lower(replace(cat, 'Runtime', '_runtime'))
        ELSE 'user_annotation'
    END,
    name = CASE
        WHEN ph IS DISTINCT FROM 'X' THEN name
        WHEN cat = 'ProfileStep' THEN replace(timeless, 'ProfileStep#', 'ProfilerStep#')
        WHEN cat = 'Dataloader' THEN 'enumerate(DataLoader)#' || timeless
        WHEN cat = 'Optimization' THEN 'Optimizer.step#' || timeless
        WHEN cat = 'Backward' AND NOT contains(lower(name), 'backward')
            THEN 'backward: ' || timeless
        WHEN cat = 'Memcpy' THEN replace(timeless, 'MEMCPY_', 'Memcpy ')
        ELSE timeless
    END,
    args = CASE
        WHEN args IS NULL OR json_type(args) <> 'OBJECT' THEN args
        WHEN ph = 'X' THEN json_merge_patch(
            args,
            json_object(
                'correlation', args -> '$."correlation id"',
                'Input Dims', CASE json_type(args, '$.input_shapes')
                    WHEN 'OBJECT'
                        THEN flatten(try_cast(args -> '$.input_shapes.*' AS JSON[][]))
                END,
                'Input type', CASE json_type(args, '$.input_dtypes')
                    WHEN 'OBJECT'
                        THEN flatten(try_cast(args -> '$.input_dtypes.*' AS JSON[][]))
                END
            )
        )
        WHEN name = '[memory]' THEN json_merge_patch(
            args,
            json_object(
                'Device Type', if(contains(args ->> '$.place', 'cpu'), 0, 1),
                'Device Id', coalesce(
                    try_cast(regexp_extract(args ->> '$.place', '\d+') AS BIGINT), -1
                ),
                'Addr', args -> '$.addr',
                'Bytes', args -> '$.increase_bytes',
                'Total Allocated', args -> '$.current_allocated',
                'Total Reserved', args -> '$.current_reserved'
            )
        )
        ELSE args
    END
FROM (
    SELECT event_id AS found_id, regexp_replace(name, ' *{_TIME}', '') AS timeless
    FROM raw.event
    WHERE trace_id = $trace_id
) AS found
WHERE event_id = found_id
"""

PADDLE = OtherProfiler("PaddlePaddle profiler", _ANY, _CATEGORISE)
