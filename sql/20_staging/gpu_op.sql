-- GPU work: kernels, copies, memsets.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE TABLE staging.gpu_op (
    -- The GPU op's event.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name.
    name,
    -- `kernel`, `memcpy`, `memset` or `other`.
    kind,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- [ns] Start, by the host's clock.
    start_ns,
    -- [ns] End, likewise; where the next launch of the stream starts, if work that starts
    -- later is recorded to end before.
    end_ns,
    -- Call that launched it; NULL if it is not in the trace.
    call_id,
    -- Innermost op around the launch on its thread, or without a launch the one that its
    -- External id names; NULL if there is none.
    op_id,
    -- Outermost op around the launch that is not a user range.
    top_op_id,
    -- Outermost op around the launch, including user ranges recorded as ops.
    outermost_op_id,
    -- Correlation number shared with its launch.
    correlation,
    -- External id as recorded: the op's, or in files of 2022-24 the correlation.
    external_id,
    -- [B] Bytes moved, for copies and memsets; NULL if below 0 or above 2^50.
    moved_bytes,
    -- Whether it is communication between ranks: as recorded, or by its name.
    is_collective,
    -- [ns] How long after that end it is recorded to end; otherwise 0.
    overrun_ns,
    -- [ns] By how much the clock of its device differs from the host's: it is recorded to
    -- start so much later.
    clock_ns
) AS
WITH
launched AS (
    SELECT *, 2 * start_ns >= max(start_ns) OVER of_trace + min(start_ns) OVER of_trace AS is_late
    FROM staging.gpu_launch
    WINDOW of_trace AS (PARTITION BY trace_id)
),

-- Waits that return when all earlier work of their thread has ended.
wait AS (
    SELECT trace_id, thread_id, target, start_ns, end_ns
    FROM staging.call
    INNER JOIN (
        SELECT trace_id, count(DISTINCT stream) AS stream_count
        FROM launched
        GROUP BY trace_id
        HAVING count(DISTINCT device) = 1
    ) USING (trace_id)
    WHERE staging.awaits_all_work(kind, target, stream_count)
),

-- By how much each returns after that, by the clocks as they are.
waited AS (
    SELECT
        work.trace_id,
        device,
        bool_or(target = 'device') AS is_of_device,
        min(wait.end_ns - work.end_ns) AS after_ns
    FROM launched AS work
    ASOF INNER JOIN wait
        ON
            work.trace_id = wait.trace_id
            AND calling_thread_id = wait.thread_id
            AND called_ns <= wait.start_ns
    WHERE kind <> 'other'
    GROUP BY work.trace_id, device, wait.thread_id, wait.start_ns
),

-- So much later work could be, and so much earlier it has to be: by a wait for the device, or
-- three that agree, as one for the only recorded stream may be for another one.
bound AS (
    SELECT
        trace_id,
        device,
        min(after_ns) AS most_ns,
        least(
            min(after_ns) FILTER (is_of_device),
            CASE WHEN min(after_ns, 3)[3] <= most_ns + 50_000 THEN most_ns END
        ) AS certain_ns
    FROM waited
    GROUP BY trace_id, device
),

-- By how much work starts before its launch, in either half of the trace, but for one in a
-- hundred. The numbers of a few may be those of other launches.
early AS (
    SELECT
        trace_id,
        device,
        quantile_disc(called_ns - start_ns, 0.99) FILTER (NOT is_late) AS first_ns,
        quantile_disc(called_ns - start_ns, 0.99) FILTER (is_late) AS last_ns,
        greatest(first_ns, last_ns) AS least_ns,
        2 * least(first_ns, last_ns) > least_ns AS agree
    FROM launched
    WHERE kind <> 'other' AND call_id IS NOT NULL
    GROUP BY trace_id, device
    HAVING count(*) >= 8
),

-- Clocks differ if no launch and no wait contradicts that. Work starts 5 us after its launch
-- at the earliest, and a wait returns no sooner after its end.
clock AS (
    SELECT
        trace_id,
        device,
        CASE
            WHEN least_ns > coalesce(most_ns, least_ns) THEN 0
            WHEN least_ns > 1_000 AND agree THEN -least(least_ns + 5_000, most_ns)
            WHEN certain_ns < -20_000 THEN -greatest(certain_ns - 5_000, least_ns)
            ELSE 0
        END AS clock_ns
    FROM early
    LEFT JOIN bound USING (trace_id, device)
),

-- Profilers and tools that leave out calls leave the External ids of work. In files of 2022-24
-- these are the correlations, which can be other ops' ids.
named AS (
    SELECT
        work.event_id,
        any_value(op.op_id) AS named_op_id,
        any_value(op.top_op_id) AS named_top_op_id
    FROM launched AS work
    INNER JOIN staging.op AS op
        ON work.trace_id = op.trace_id AND work.external_id = op.external_id
    WHERE
        work.call_id IS NULL
        AND work.external_id > 0
        AND work.external_id IS DISTINCT FROM work.correlation
        AND NOT op.is_annotation
    GROUP BY work.event_id
    HAVING count(*) = 1 AND bool_and(op.start_ns <= work.start_ns)
)

SELECT
    event_id AS gpu_op_id,
    raw.trace.run_id,
    work.trace_id,
    work.name,
    kind,
    device,
    stream,
    start_ns - coalesce(clock_ns, 0),
    end_ns - coalesce(clock_ns, 0),
    call_id,
    coalesce(op_id, named_op_id),
    coalesce(top_op_id, named_top_op_id),
    coalesce(outermost_op_id, named_top_op_id),
    correlation,
    external_id,
    moved_bytes,
    is_collective,
    overrun_ns,
    coalesce(clock_ns, 0)
FROM launched AS work
INNER JOIN raw.trace USING (trace_id)
LEFT JOIN clock USING (trace_id, device)
LEFT JOIN named USING (event_id);
