-- What the host of a trace reaches at best, as its own ops show: the most arithmetic and the
-- most bytes a second of what takes at least four times as long as ops that have next to
-- nothing to do (`floor_ns`), and that time taken off. Ratios are made of it, so that what
-- ops reach less than that in two sizes cancels.
-- One row per trace whose ops compute on the host, in a prediction that asks for it.
-- Key: trace_id.
CREATE VIEW prediction.host_peak (
    -- The trace.
    trace_id,
    -- [ns] An op that has next to nothing to do: the median over names; without any 5 us.
    floor_ns,
    -- [FLOP/s] Arithmetic; NULL where no op has any.
    flops_per_second,
    -- [B/s] Bytes; NULL where no op has any.
    bytes_per_second
) AS
WITH
floor AS (
    SELECT trace_id, coalesce(round(median(own_ns)), 5_000)::BIGINT AS floor_ns
    FROM (
        SELECT trace_id, min(own_ns) FILTER (is_tiny) AS own_ns
        FROM prediction.op_time
        GROUP BY trace_id, name
    )
    GROUP BY trace_id
)

SELECT
    trace_id,
    any_value(floor_ns),
    1e9 * max(flops / nullif(own_ns - floor_ns, 0))
    FILTER (flops > 0 AND own_ns >= 4 * floor_ns),
    1e9 * max(bytes / nullif(own_ns - floor_ns, 0))
    FILTER (bytes > 0 AND own_ns >= 4 * floor_ns)
FROM prediction.op_time
INNER JOIN floor USING (trace_id)
GROUP BY trace_id;
