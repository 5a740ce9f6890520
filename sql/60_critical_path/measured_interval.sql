-- Measured critical paths as intervals that partition their time: what the step, the trace
-- or the run was waiting for at each time.
-- One row per interval of a path.
-- Key: scope, path_id, start_ns.
CREATE TABLE critical_path.measured_interval (
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.measured_path`.
    path_id,
    -- The run.
    run_id,
    -- The trace of the interval.
    trace_id,
    -- The step at whose end the path ends; NULL for a trace.
    step_id,
    -- [ns] Start; for a run's path by the run's clock, otherwise by the trace's.
    start_ns,
    -- [ns] End.
    end_ns,
    -- On the host: `host_op`, `launch`, `host_gap`, `data_loading`, `wait`. On a device:
    -- `kernel`, `memcpy`, `memset`, and for a collective `rank_wait` (until the last rank
    -- of the run arrived), `absent_rank_wait` (for ranks that are not in the run) and
    -- `communication` (the rest). Between them: `launch_delay`, `stream_gap`,
    -- `stream_wait`, `return`, `unexplained`, `before_trace`.
    kind,
    -- Op, call or GPU work that it belongs to.
    node_id,
    -- Host thread; NULL on a device.
    thread_id
) AS
WITH
-- Each hop with its times by the clock of its trace, and with its neighbours on the path.
hop AS NOT MATERIALIZED (
    SELECT
        hop.*,
        path.run_id,
        path.step_id,
        greatest(
            coalesce(next.until_ns + next.shift_ns, path.start_ns), path.start_ns
        ) - hop.shift_ns AS from_ns,
        next.reason AS next_reason,
        previous.gpu_op_id AS waiting_id
    FROM critical_path.measured_hop AS hop
    INNER JOIN critical_path.measured_path AS path USING (scope, path_id)
    LEFT JOIN critical_path.measured_hop AS next
        ON
            hop.scope = next.scope
            AND hop.path_id = next.path_id
            AND hop.hop + 1 = next.hop
    LEFT JOIN critical_path.measured_hop AS previous
        ON
            hop.scope = previous.scope
            AND hop.path_id = previous.path_id
            AND hop.hop - 1 = previous.hop
),

late AS (
    SELECT gpu_op_id, unexplained_ns FROM prediction.gpu_delay
),

-- A hop over GPU work: the delay after it, the work, the delay after its launch. For a
-- collective, the times at which the last rank of the run, and of all, arrived.
passed AS (
    SELECT
        hop.*,
        work.kind AS work_kind,
        is_collective,
        least(greatest(work.end_ns, from_ns), until_ns) AS work_end_ns,
        least(greatest(work.start_ns, from_ns), until_ns) AS work_start_ns,
        last_arrival_ns IS NOT NULL AS is_matched,
        least(greatest(coalesce(last_arrival_ns, work_end_ns), work_start_ns), work_end_ns)
        AS arrived_ns,
        least(arrived_ns + coalesce(absent_waiting_ns, 0), work_end_ns) AS all_arrived_ns,
        coalesce(next_reason, gpu_cause.cause) = 'launch' AS is_launched,
        greatest(
            work_start_ns - CASE WHEN is_launched THEN late.unexplained_ns ELSE 0 END,
            from_ns
        ) AS explained_ns,
        greatest(until_ns - coalesce(waiting.unexplained_ns, 0), work_end_ns)
        AS next_explained_ns
    FROM hop
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    LEFT JOIN graph.gpu_cause USING (gpu_op_id)
    LEFT JOIN graph.collective AS collective ON hop.gpu_op_id = collective.node_id
    LEFT JOIN late ON hop.gpu_op_id = late.gpu_op_id
    LEFT JOIN late AS waiting ON waiting_id = waiting.gpu_op_id
),

on_device AS (
    SELECT
        scope, path_id, run_id, trace_id, step_id, shift_ns, gpu_op_id,
        unnest([
            {
                'kind': CASE WHEN is_launched THEN 'launch_delay' ELSE 'before_trace' END,
                'start_ns': from_ns, 'end_ns': explained_ns
            },
            {'kind': 'unexplained', 'start_ns': explained_ns, 'end_ns': work_start_ns},
            {
                'kind': CASE
                    WHEN is_matched THEN 'rank_wait'
                    WHEN is_collective THEN 'communication'
                    ELSE work_kind
                END,
                'start_ns': work_start_ns, 'end_ns': arrived_ns
            },
            {
                'kind': 'absent_rank_wait',
                'start_ns': arrived_ns, 'end_ns': all_arrived_ns
            },
            {'kind': 'communication', 'start_ns': all_arrived_ns, 'end_ns': work_end_ns},
            {
                'kind': CASE reason WHEN 'stream' THEN 'stream_gap' ELSE reason END,
                'start_ns': work_end_ns, 'end_ns': next_explained_ns
            },
            {'kind': 'unexplained', 'start_ns': next_explained_ns, 'end_ns': until_ns}
        ]) AS part
    FROM passed
),

on_host AS (
    SELECT * FROM hop WHERE thread_id IS NOT NULL
),

-- A hop over a thread: the spans from the one in which it starts to the one in which it
-- ends.
stretch AS (
    SELECT
        hop.*,
        unnest(range(coalesce(first.position, 1), last.position + 1)) AS ordinal
    FROM on_host AS hop
    ASOF LEFT JOIN overhead.timeline AS first
        ON hop.thread_id = first.thread_id AND from_ns >= first.start_ns
    ASOF INNER JOIN overhead.timeline AS last
        ON hop.thread_id = last.thread_id AND until_ns > last.start_ns
),

found AS (
    SELECT
        scope, path_id, run_id, trace_id, step_id, shift_ns,
        part.start_ns, part.end_ns, part.kind AS kind,
        gpu_op_id AS node_id, NULL::BIGINT AS thread_id
    FROM on_device
    UNION ALL
    SELECT
        scope, path_id, stretch.run_id, stretch.trace_id, step_id, shift_ns,
        greatest(span.start_ns, from_ns),
        least(span.end_ns, until_ns),
        span.kind,
        node_id,
        stretch.thread_id
    FROM stretch
    INNER JOIN critical_path.span_kind AS span
        ON stretch.thread_id = span.thread_id AND ordinal = span.position
    UNION ALL
    SELECT
        scope, path_id, hop.run_id, hop.trace_id, step_id, shift_ns, from_ns,
        least(span.start_ns, until_ns), 'before_trace', NULL, hop.thread_id
    FROM on_host AS hop
    INNER JOIN overhead.timeline AS span
        ON hop.thread_id = span.thread_id AND span.position = 1
)

SELECT
    scope, path_id, run_id, trace_id, step_id,
    start_ns + shift_ns, end_ns + shift_ns, kind, node_id, thread_id
FROM found
WHERE end_ns > start_ns;
