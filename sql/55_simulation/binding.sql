-- The dependency that determines the start of each segment of the simulation: the one that
-- ends last. For a collective that is another rank's arrival, in paths of runs; for paths
-- within a trace it is the rank's own part, which then waits for the others, or on the CPU
-- what its thread did before.
-- One row per variant and segment, for paths of runs and for those within a trace.
-- Key: variant_id, trace_id, lane, segment, is_run.
CREATE VIEW simulation.binding (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace of the segment.
    trace_id,
    -- Its lane: a thread, or minus the first work of a stream.
    lane,
    -- Segment of that lane.
    segment,
    -- Whether it is for paths of runs.
    is_run,
    -- `origin`, `host`, `stream`, `return`, `stream_wait` or `thread`, as in
    -- `simulation.segment_edge`.
    kind,
    -- GPU work whose end it depends on; NULL if that is host time.
    gpu_op_id,
    -- The trace of what it depends on.
    source_trace_id,
    -- The lane of what it depends on; 0 for the origin.
    source_lane,
    -- Segment of that lane.
    source_segment,
    -- [ns] Start of that segment, from the start of its trace.
    source_begin_ns
) AS
WITH
reached AS (
    SELECT
        edge.variant_id,
        edge.trace_id,
        target_lane,
        target_segment,
        kind,
        gpu_op_id,
        source_trace_id,
        source_lane,
        source_segment,
        source.begin_ns,
        source.begin_ns + weight_ns AS reached_ns,
        edge.trace_id = source_trace_id AS is_own
    FROM simulation.segment_edge AS edge
    INNER JOIN simulation.segment_time AS source
        ON
            edge.variant_id = source.variant_id
            AND edge.source_trace_id = source.trace_id
            AND edge.source_lane = source.lane
            AND edge.source_segment = source.segment
),

last AS (
    SELECT
        *,
        row_number() OVER latest AS ordinal,
        first_value(kind) OVER latest AS last_kind,
        first_value(gpu_op_id) OVER latest AS last_gpu_op_id,
        first_value(is_own) OVER latest AS is_last_own
    FROM reached
    WINDOW latest AS (
        PARTITION BY variant_id, trace_id, target_lane, target_segment
        ORDER BY reached_ns DESC, is_own DESC, kind, source_lane, source_segment, gpu_op_id
    )
)

SELECT
    variant_id, trace_id, target_lane, target_segment, true, kind, gpu_op_id,
    source_trace_id, source_lane, source_segment, begin_ns
FROM last
WHERE ordinal = 1
UNION ALL
SELECT
    variant_id, trace_id, target_lane, target_segment, false, kind, gpu_op_id,
    source_trace_id, source_lane, source_segment, begin_ns
FROM last
WHERE
    is_own
    AND (
        kind = last_kind AND gpu_op_id IS NOT DISTINCT FROM last_gpu_op_id
        OR last_gpu_op_id IS NULL AND NOT is_last_own
    )
QUALIFY row_number() OVER (
    PARTITION BY variant_id, trace_id, target_lane, target_segment ORDER BY ordinal
) = 1;
