-- The best rates of a trace's host, from its own ops: the most FLOPs and the most bytes per
-- second of ops that take at least four times as long as ops with next to nothing to do
-- (`floor_ns`), after subtracting that time. Only ratios of it are used, so it cancels if
-- ops reach less than that at both sizes.
-- One row per trace whose ops compute on the host, in a prediction that needs it.
-- Key: trace_id.
CREATE VIEW prediction.host_peak (
    -- The trace.
    trace_id,
    -- [ns] Time of an op with next to nothing to do: the median over names; without any 5
    -- us.
    floor_ns,
    -- [ns] The lower quartile of the same; without any 1 us.
    least_floor_ns,
    -- [FLOP/s] FLOPs; NULL if no op has any.
    flops_per_second,
    -- [B/s] Bytes; NULL if no op has any.
    bytes_per_second
) AS
WITH
floor AS (
    SELECT
        trace_id,
        coalesce(round(median(own_ns)), 5_000)::BIGINT AS floor_ns,
        coalesce(round(quantile_cont(own_ns, 0.25)), 1_000)::BIGINT AS least_floor_ns
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
    any_value(least_floor_ns),
    1e9 * max(flops / nullif(own_ns - floor_ns, 0))
    FILTER (flops > 0 AND own_ns >= 4 * floor_ns),
    1e9 * max(bytes / nullif(own_ns - floor_ns, 0))
    FILTER (bytes > 0 AND own_ns >= 4 * floor_ns)
FROM prediction.op_time
INNER JOIN floor USING (trace_id)
GROUP BY trace_id;
