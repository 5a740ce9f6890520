-- Time of launches of recorded graphs: on the host, and on the device between the work of a
-- graph. For a trace without any, the median of the others' medians; if no trace has any,
-- it is assumed: 10 us for the launch, 1 us between kernels.
-- One row per trace.
-- Key: trace_id.
CREATE VIEW prediction.graph_replay (
    -- The trace.
    trace_id,
    -- Number of graph launches it is learned from; 0 if it is from other traces, or
    -- assumed.
    replay_count,
    -- [ns] Median time of the call.
    host_ns,
    -- [ns] Median from the end of work to the start of the next on its stream.
    gap_ns
) AS
WITH
replay AS (
    SELECT trace_id, count(*) AS replay_count, median(end_ns - start_ns) AS host_ns
    FROM staging.call
    WHERE kind = 'launch' AND target = 'graph'
    GROUP BY trace_id
),

gap AS (
    SELECT work.trace_id, median(work.start_ns - previous_end_ns) AS gap_ns
    FROM graph.stream_position AS work
    INNER JOIN staging.call AS call USING (call_id)
    WHERE continues AND call.kind = 'launch' AND target = 'graph'
    GROUP BY work.trace_id
)

SELECT
    trace_id,
    coalesce(replay_count, 0),
    round(coalesce(host_ns, median(host_ns) OVER (), 10_000))::BIGINT,
    round(coalesce(gap_ns, median(gap_ns) OVER (), 1_000))::BIGINT
FROM staging.trace
LEFT JOIN replay USING (trace_id)
LEFT JOIN gap USING (trace_id);
