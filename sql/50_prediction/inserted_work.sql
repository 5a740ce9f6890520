-- GPU work that scenarios insert before or after other work on its stream, with its own
-- launch before or after the call that launched that work.
-- Without edits it is empty.
-- One row per variant and inserted GPU op.
-- Key: variant_id, gpu_op_id.
CREATE TABLE prediction.inserted_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- A unique negative number: the trace has no such work.
    gpu_op_id,
    -- The GPU op next to which it is inserted; for one that is fused, the fused one.
    beside_gpu_op_id,
    -- Call that launched that GPU op; NULL if it is not in the trace.
    beside_call_id,
    -- Whether it comes after that GPU op; otherwise before.
    is_after,
    -- Ordinal of the edit in its scenario.
    edit,
    -- [ns] Its duration.
    predicted_ns,
    -- Host thread of its launch.
    launch_thread_id,
    -- Position of the span on that thread before which its launch is inserted; for a launch
    -- after everything the thread does, the last one, from which it is counted backwards.
    launch_position,
    -- [ns] From the start of its launch to that of the span.
    launch_back_ns,
    -- [ns] Time of its launch: that of the neighboring one in the scenario, if none is
    -- given; next to joined work, that of a launch of its own.
    host_ns,
    -- [ns] From the start of its launch until that submits it.
    submit_ns,
    -- [ns] Delay after the start of its launch, which submits it after the same share of its
    -- time as the neighboring one.
    launch_delay_ns,
    -- [ns] Delay after the end of the previous work on its stream.
    stream_delay_ns
) AS
WITH
wanted AS (
    SELECT
        variant.variant_id, edit.position AS edit, place = 'after' AS is_after,
        edit.gpu_ns, edit.host_ns AS given_ns,
        coalesce(first_gpu_op_id, edited.gpu_op_id) AS beside_gpu_op_id,
        work.*
    FROM prediction.edited_work AS edited
    INNER JOIN prediction.scenario_edit AS edit
        ON edited.scenario = edit.scenario AND edited.edit = edit.position
    INNER JOIN prediction.variant AS variant ON edited.scenario = variant.scenario
    INNER JOIN graph.stream_position AS work ON edited.gpu_op_id = work.gpu_op_id
    LEFT JOIN prediction.fused_work AS fused
        ON edited.scenario = fused.scenario AND edited.gpu_op_id = fused.gpu_op_id
    WHERE action = 'insert' AND edit.target = 'gpu'
),

-- The span that contains the launch.
launched AS (
    SELECT
        wanted.*,
        span.position AS first_position
    FROM wanted
    ASOF LEFT JOIN overhead.timeline AS span
        ON
            wanted.launch_thread_id = span.thread_id
            AND wanted.launch_start_ns >= span.start_ns
),

-- Launches of work that is fused, or captured as a graph.
relaunched AS (
    SELECT DISTINCT variant_id, thread_id, position
    FROM prediction.relaunched_span
    INNER JOIN prediction.variant USING (scenario)
),

-- The last spans of calls, whether the thread does nothing after them, and how long they
-- launch as edited: steps of other threads may divide that, too.
behind AS (
    SELECT
        variant_id,
        wanted.call_id,
        max(span.position) AS position,
        sum(
            CASE
                WHEN is_removed AND relaunched.position IS NULL THEN 0
                ELSE prediction.edited_ns(
                    span.end_ns - span.start_ns,
                    CASE WHEN relaunched.position IS NULL THEN set_ns END, factor, add_ns
                )
            END
        ) FILTER (span.type = 'T4') AS launch_ns,
        bool_and(following.position IS NULL) AS is_end
    FROM (SELECT DISTINCT variant_id, call_id FROM wanted) AS wanted
    LEFT JOIN graph.nested_launch AS nested ON wanted.call_id = nested.call_id
    INNER JOIN overhead.timeline AS span
        ON coalesce(outer_call_id, wanted.call_id) = span.call_id
    LEFT JOIN prediction.host_edit AS edit USING (variant_id, thread_id, position)
    LEFT JOIN relaunched USING (variant_id, thread_id, position)
    LEFT JOIN overhead.timeline AS following
        ON span.thread_id = following.thread_id AND span.position + 1 = following.position
    GROUP BY variant_id, wanted.call_id
),

placed AS (
    SELECT
        launched.*,
        coalesce(given_ns, launch_ns, 0)::BIGINT AS host_ns,
        launch_ns,
        is_after AND coalesce(behind.is_end, false) AS is_end,
        CASE
            WHEN is_after AND behind.is_end THEN coalesce(behind.position, first_position)
            WHEN is_after THEN 1 + coalesce(behind.position, first_position)
            ELSE first_position
        END AS launch_position
    FROM launched
    LEFT JOIN behind USING (variant_id, call_id)
)

SELECT
    placed.variant_id,
    placed.run_id,
    placed.trace_id,
    -(placed.variant_id * 10_000_000_000_000 + edit * 10_000_000_000 + placed.gpu_op_id),
    beside_gpu_op_id,
    placed.call_id,
    is_after,
    edit,
    gpu_ns,
    launch_thread_id,
    launch_position,
    CASE
        WHEN is_end THEN host_ns - launch_ns - sum(host_ns) OVER (
            PARTITION BY placed.variant_id, launch_thread_id, launch_position, is_end
            ORDER BY edit
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        )
        ELSE sum(host_ns) OVER (
            PARTITION BY placed.variant_id, launch_thread_id, launch_position, is_end
            ORDER BY is_after DESC, launch_start_ns, edit
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
    END::BIGINT,
    host_ns,
    prediction.submitted_later_ns(0, host_ns, coalesce(submit_share, 0)) AS submitted_ns,
    prediction.edited_delay_ns(launch_delay_ns, launch.factor, launch.add_ns) + submitted_ns,
    CASE
        WHEN following.factor IS NULL THEN coalesce(added.delay_ns, 0)
        ELSE prediction.edited_delay_ns(
            coalesce(typical.median_ns, 0), following.factor, following.add_ns
        )
    END
FROM placed
INNER JOIN prediction.gpu_delay AS delay ON placed.gpu_op_id = delay.gpu_op_id
LEFT JOIN graph.launch_submission AS submission ON placed.call_id = submission.call_id
LEFT JOIN graph.typical_delay AS typical
    ON
        placed.trace_id = typical.trace_id
        AND placed.kind = typical.kind
        AND typical.delay = 'stream'
LEFT JOIN prediction.added_delay AS added
    ON
        placed.variant_id = added.variant_id
        AND placed.trace_id = added.trace_id
        AND placed.kind = added.kind
        AND added.cause = 'stream'
-- Edits of the delays of its neighbor also apply to it.
LEFT JOIN prediction.delay_edit AS launch
    ON
        placed.variant_id = launch.variant_id
        AND placed.gpu_op_id = launch.waiting_id
        AND launch.kind = 'launch'
LEFT JOIN prediction.delay_edit AS following
    ON
        placed.variant_id = following.variant_id
        AND placed.gpu_op_id = following.waiting_id
        AND following.kind = 'stream';
