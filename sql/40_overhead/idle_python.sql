-- Where a step's own thread runs Python before its first op or launch in the step, or after
-- its last: the part of its `idle` time in which a Python function outside PyTorch is open,
-- if stacks were recorded. Edits select it as `idle`, or by its function.
-- One row per idle span of a step's thread with such a part.
-- Key: step_id, start_ns.
CREATE VIEW overhead.idle_python (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Host thread of the step.
    thread_id,
    -- [ns] Start of the span, as in `overhead.interval`.
    start_ns,
    -- [ns] End of the span.
    end_ns,
    -- [ns] Time in Python functions.
    time_ns
) AS
WITH
lasting AS (
    SELECT
        thread_id, at_ns, python_frame_id IS NOT NULL AS is_open,
        lead(at_ns, 1, at_ns) OVER (PARTITION BY thread_id ORDER BY at_ns) - at_ns AS lasts_ns
    FROM graph.open_frame
),

place AS (
    SELECT
        thread_id, at_ns, is_open::BIGINT AS is_open,
        coalesce(
            sum(lasts_ns) FILTER (is_open) OVER (
                PARTITION BY thread_id
                ORDER BY at_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        ) AS before_ns
    FROM lasting
)

SELECT
    idle.run_id,
    idle.trace_id,
    idle.step_id,
    idle.thread_id,
    idle.start_ns,
    idle.end_ns,
    (
        last.before_ns + last.is_open * (idle.end_ns - last.at_ns)
        - coalesce(first.before_ns + first.is_open * (idle.start_ns - first.at_ns), 0)
    )::BIGINT AS inside_ns
FROM overhead.step_idle AS idle
ASOF LEFT JOIN place AS first
    ON idle.thread_id = first.thread_id AND idle.start_ns >= first.at_ns
ASOF INNER JOIN place AS last
    ON idle.thread_id = last.thread_id AND idle.end_ns >= last.at_ns
WHERE inside_ns > 0;
