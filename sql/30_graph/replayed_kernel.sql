-- GPU work of a graph that was launched as a whole, and the launch of the capture that it
-- comes from, if the capture was ingested too.
-- One row per piece of GPU work that a graph launch put on a device.
-- Key: kernel_id.
CREATE VIEW graph.replayed_kernel (
    -- The GPU work.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The launch of the graph.
    launch_id,
    -- Its place in the replay by its begin, from 1.
    place,
    -- Innermost op around the launch of the graph: the one that replays.
    op_id,
    -- How the capture was found: by the `name` of nearly all of its parts (what occurs as
    -- often in both is the same), or by their `number`, where names are not recorded.
    matched_by,
    -- How many captures there are that the replay could be of.
    candidates,
    -- The capture.
    capture_id,
    -- The launch in the capture.
    captured_launch_id,
    -- Innermost op around the launch in the capture: the one whose work it is.
    captured_op_id
) AS
WITH
replayed AS (
    SELECT
        kernel.kernel_id,
        kernel.run_id,
        kernel.trace_id,
        kernel.launch_id,
        launch.op_id,
        launch.start_ns AS launch_start_ns,
        CASE kernel.kind WHEN 'kernel' THEN kernel.name ELSE kernel.kind END AS what,
        row_number() OVER (
            PARTITION BY kernel.launch_id, what ORDER BY kernel.start_ns, kernel_id
        ) AS place_in_name,
        count(*) OVER (PARTITION BY kernel.launch_id, what) AS of_name,
        row_number() OVER (
            PARTITION BY kernel.launch_id ORDER BY kernel.start_ns, kernel_id
        ) AS place
    FROM staging.kernel AS kernel
    INNER JOIN staging.launch AS launch
        ON kernel.launch_id = launch.launch_id AND launch.target = 'graph'
),

replay AS (
    SELECT
        launch_id,
        any_value(run_id) AS run_id,
        any_value(trace_id) AS trace_id,
        any_value(launch_start_ns) AS start_ns,
        count(*) AS parts,
        md5(string_agg(what, '|' ORDER BY what)) AS names
    FROM replayed
    GROUP BY launch_id
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
    SELECT replayed.launch_id, part.capture_id, count(*) AS agreeing
    FROM replayed
    INNER JOIN graph.captured_launch AS part
        ON
            replayed.what = part.launched_name
            AND replayed.of_name = part.of_name
            AND replayed.place_in_name = part.place_in_name
    GROUP BY replayed.launch_id, part.capture_id
),

-- The one that agrees most; of several the nearest: of its trace, its run, any other.
candidate AS (
    SELECT
        replay.launch_id,
        replay.trace_id,
        replay.start_ns,
        replay.names,
        capture.capture_id,
        capture.trace_id AS capture_trace_id,
        capture.has_names AS is_by_name,
        rank() OVER (
            PARTITION BY replay.launch_id
            ORDER BY
                agreeing DESC NULLS LAST,
                capture.trace_id <> replay.trace_id,
                capture.run_id <> replay.run_id,
                capture.trace_id
        ) AS distance
    FROM replay
    CROSS JOIN capture
    LEFT JOIN agreement USING (launch_id, capture_id)
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
        count(*) OVER (PARTITION BY launch_id) AS candidates,
        row_number() OVER (PARTITION BY launch_id ORDER BY capture_id) AS capture_number,
        dense_rank() OVER (
            PARTITION BY trace_id, capture_trace_id, is_by_name, names
            ORDER BY start_ns, launch_id
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
    replayed.kernel_id,
    replayed.run_id,
    replayed.trace_id,
    replayed.launch_id,
    replayed.place,
    replayed.op_id,
    CASE is_by_name WHEN true THEN 'name' WHEN false THEN 'number' END AS matched_by,
    candidates,
    matched.capture_id,
    coalesce(named.launch_id, placed.launch_id),
    coalesce(named.op_id, placed.op_id)
FROM replayed
LEFT JOIN matched ON replayed.launch_id = matched.launch_id
LEFT JOIN graph.captured_launch AS named
    ON
        is_by_name
        AND matched.capture_id = named.capture_id
        AND replayed.what = named.launched_name
        AND replayed.of_name = named.of_name
        AND replayed.place_in_name = named.place_in_name
LEFT JOIN graph.captured_launch AS placed
    ON
        NOT is_by_name
        AND matched.capture_id = placed.capture_id
        AND replayed.place = placed.place;
