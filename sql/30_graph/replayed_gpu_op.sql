-- GPU work of a graph launch, and the launch in the capture that it comes from, if the
-- capture was ingested too.
-- One row per GPU op that a graph launch put on a device.
-- Key: gpu_op_id.
CREATE VIEW graph.replayed_gpu_op (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The launch of the graph.
    call_id,
    -- Its ordinal in the replay by start time, from 1.
    ordinal,
    -- Innermost op around the launch of the graph: the one that replays.
    op_id,
    -- How the capture was found: by the `name` of nearly all of its parts (each occurs
    -- equally often in both), or by their `number`, if names are not recorded.
    matched_by,
    -- Number of captures that the replay could come from.
    candidates,
    -- The capture.
    capture_id,
    -- The launch in the capture.
    captured_call_id,
    -- Innermost op around the launch in the capture: the one the work belongs to.
    captured_op_id
) AS
WITH
replayed AS (
    SELECT
        gpu_op.gpu_op_id,
        gpu_op.run_id,
        gpu_op.trace_id,
        gpu_op.call_id,
        launch.op_id,
        launch.start_ns AS launch_start_ns,
        CASE gpu_op.kind WHEN 'kernel' THEN gpu_op.name ELSE gpu_op.kind END AS what,
        row_number() OVER (
            PARTITION BY gpu_op.call_id, what ORDER BY gpu_op.start_ns, gpu_op_id
        ) AS ordinal_in_name,
        count(*) OVER (PARTITION BY gpu_op.call_id, what) AS of_name,
        row_number() OVER (
            PARTITION BY gpu_op.call_id ORDER BY gpu_op.start_ns, gpu_op_id
        ) AS ordinal
    FROM staging.gpu_op AS gpu_op
    INNER JOIN staging.call AS launch
        ON gpu_op.call_id = launch.call_id AND launch.target = 'graph'
),

replay AS (
    SELECT
        call_id,
        any_value(run_id) AS run_id,
        any_value(trace_id) AS trace_id,
        any_value(launch_start_ns) AS start_ns,
        count(*) AS parts,
        md5(string_agg(what, '|' ORDER BY what)) AS names
    FROM replayed
    GROUP BY call_id
),

capture AS (
    SELECT
        capture_id,
        any_value(run_id) AS run_id,
        any_value(trace_id) AS trace_id,
        count(*) AS parts,
        count(launched_name) = count(*) AS has_names
    FROM graph.captured_launch
    GROUP BY capture_id
),

agreement AS (
    SELECT replayed.call_id, part.capture_id, count(*) AS agreeing
    FROM replayed
    INNER JOIN graph.captured_launch AS part
        ON
            replayed.what = part.launched_name
            AND replayed.of_name = part.of_name
            AND replayed.ordinal_in_name = part.ordinal_in_name
    GROUP BY replayed.call_id, part.capture_id
),

-- The best match; of several the nearest: from its trace, its run, any other.
candidate AS (
    SELECT
        replay.call_id,
        replay.trace_id,
        replay.start_ns,
        replay.names,
        capture.capture_id,
        capture.trace_id AS capture_trace_id,
        capture.has_names AS is_by_name,
        rank() OVER (
            PARTITION BY replay.call_id
            ORDER BY
                agreeing DESC NULLS LAST,
                capture.trace_id <> replay.trace_id,
                capture.run_id <> replay.run_id,
                capture.trace_id
        ) AS distance
    FROM replay
    CROSS JOIN capture
    LEFT JOIN agreement USING (call_id, capture_id)
    WHERE
        CASE
            WHEN has_names THEN agreeing >= 0.9 * greatest(replay.parts, capture.parts)
            ELSE replay.parts = capture.parts
        END
),

-- Captures that look alike are replayed in the order in which they were recorded.
numbered AS (
    SELECT
        *,
        count(*) OVER (PARTITION BY call_id) AS candidates,
        row_number() OVER (PARTITION BY call_id ORDER BY capture_id) AS capture_number,
        dense_rank() OVER (
            PARTITION BY trace_id, capture_trace_id, is_by_name, names
            ORDER BY start_ns, call_id
        ) AS replay_number
    FROM candidate
    WHERE distance = 1
),

matched AS (
    SELECT *
    FROM numbered
    WHERE capture_number = (replay_number - 1) % candidates + 1
)

SELECT
    replayed.gpu_op_id,
    replayed.run_id,
    replayed.trace_id,
    replayed.call_id,
    replayed.ordinal,
    replayed.op_id,
    CASE is_by_name WHEN true THEN 'name' WHEN false THEN 'number' END AS matched_by,
    candidates,
    matched.capture_id,
    coalesce(named.call_id, by_order.call_id),
    coalesce(named.op_id, by_order.op_id)
FROM replayed
LEFT JOIN matched ON replayed.call_id = matched.call_id
LEFT JOIN graph.captured_launch AS named
    ON
        is_by_name
        AND matched.capture_id = named.capture_id
        AND replayed.what = named.launched_name
        AND replayed.of_name = named.of_name
        AND replayed.ordinal_in_name = named.ordinal_in_name
LEFT JOIN graph.captured_launch AS by_order
    ON
        NOT is_by_name
        AND matched.capture_id = by_order.capture_id
        AND replayed.ordinal = by_order.ordinal;
