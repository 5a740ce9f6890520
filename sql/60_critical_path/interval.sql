-- The critical path of each step as intervals that tile the step's time: what the step
-- was waiting for at each moment.
-- One row per interval of a step's path.
-- Key: step_id, start_ns.
CREATE TABLE critical_path.interval (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Step.
    step_id,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns,
    -- On the host: `host_op`, `launch`, `host_gap`, `data_loading`, `wait`. On a device:
    -- `kernel`, `communication`, `memcpy`, `memset`. Between them: `launch_delay`,
    -- `stream_gap`, `stream_wait`, `return`, `unexplained`, `before_trace`.
    kind,
    -- Op, call or GPU work that it belongs to.
    node_id,
    -- Host thread; NULL on a device.
    thread_id
) AS
WITH
hop AS (
    SELECT
        hop.*,
        step.run_id,
        step.start_ns AS step_start_ns,
        greatest(
            coalesce(
                lead(until_ns) OVER (PARTITION BY step_id ORDER BY hop), step.start_ns
            ),
            step.start_ns
        ) AS from_ns,
        lead(reason) OVER (PARTITION BY step_id ORDER BY hop) AS next_reason
    FROM critical_path.hop
    INNER JOIN staging.step USING (trace_id, step_id)
),

-- A hop over GPU work: the delay behind it, the work, the delay after its launch.
passed AS (
    SELECT
        hop.*,
        work.kind AS work_kind,
        is_collective,
        least(greatest(work.end_ns, from_ns), until_ns) AS work_end_ns,
        least(greatest(work.start_ns, from_ns), until_ns) AS work_start_ns,
        CASE
            WHEN coalesce(next_reason, gpu_cause.cause) = 'launch'
                THEN greatest(work.start_ns - launch_limit_ns, 0)
            ELSE 0
        END AS unexplained_ns,
        coalesce(next_reason, gpu_cause.cause) = 'launch' AS is_launched
    FROM hop
    INNER JOIN staging.kernel AS work USING (kernel_id)
    LEFT JOIN graph.gpu_cause USING (kernel_id)
    LEFT JOIN graph.usual_start USING (kernel_id)
),

on_device AS (
    SELECT
        run_id, trace_id, step_id, work_end_ns AS start_ns, until_ns AS end_ns,
        CASE reason WHEN 'stream' THEN 'stream_gap' ELSE reason END AS kind,
        kernel_id AS node_id
    FROM passed
    UNION ALL
    SELECT
        run_id, trace_id, step_id, work_start_ns, work_end_ns,
        CASE WHEN is_collective THEN 'communication' ELSE work_kind END, kernel_id
    FROM passed
    UNION ALL
    SELECT
        run_id, trace_id, step_id,
        greatest(work_start_ns - unexplained_ns, from_ns), work_start_ns,
        'unexplained', kernel_id
    FROM passed
    UNION ALL
    SELECT
        run_id, trace_id, step_id,
        from_ns, greatest(work_start_ns - unexplained_ns, from_ns),
        CASE WHEN is_launched THEN 'launch_delay' ELSE 'before_trace' END, kernel_id
    FROM passed
),

piece AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY thread_id ORDER BY start_ns, end_ns) AS position
    FROM overhead.timeline
),

-- A hop over a thread: the pieces from the one that it begins in to that it ends in.
stretch AS (
    SELECT
        hop.run_id,
        hop.trace_id,
        hop.step_id,
        hop.thread_id,
        from_ns,
        until_ns,
        unnest(range(coalesce(first.position, 1), last.position + 1)) AS position
    FROM hop
    ASOF LEFT JOIN piece AS first
        ON hop.thread_id = first.thread_id AND from_ns >= first.start_ns
    ASOF INNER JOIN piece AS last
        ON hop.thread_id = last.thread_id AND until_ns > last.start_ns
),

on_host AS (
    SELECT
        stretch.run_id,
        stretch.trace_id,
        stretch.step_id,
        greatest(piece.start_ns, from_ns) AS start_ns,
        least(piece.end_ns, until_ns) AS end_ns,
        CASE
            WHEN type IN ('T2', 'T3', 'T5') THEN 'host_op'
            WHEN type = 'T4' THEN 'launch'
            WHEN type = 'T1' THEN 'host_gap'
            WHEN type = 'wait_data' THEN 'data_loading'
            ELSE 'wait'
        END AS kind,
        coalesce(launch_id, op_id) AS node_id,
        thread_id
    FROM stretch
    INNER JOIN piece USING (thread_id, position)
)

SELECT run_id, trace_id, step_id, start_ns, end_ns, kind, node_id, thread_id
FROM (FROM on_device UNION ALL BY NAME FROM on_host)
WHERE end_ns > start_ns;
