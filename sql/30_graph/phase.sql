-- The phase of a training step for each top-level op, and each launch or wait outside ops
-- (`graph.event_phase`), including the gap before it. A long gap (`graph.is_long_gap`) between
-- two phases is in neither: it is the program's own, such as reading examples without a data
-- loader. It belongs to a phase if a module's call or the optimizer's range began in its
-- first half.
-- One row per top-level op, or launch or wait outside of ops.
-- Key: node_id.
CREATE VIEW graph.phase (
    -- The op or call.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- `data_loading`, `inference`, `forward`, `backward`, `gradients`, `optimizer` or `other`.
    phase,
    -- [ns] End of the previous event on the thread, or of the batch that was fetched since;
    -- its own start if it is the first, or if a long gap separates it from another phase.
    start_ns,
    -- [ns] Its own start.
    event_ns,
    -- [ns] End.
    end_ns
) AS
WITH
event AS (
    SELECT
        *,
        phase <> lag(phase) OVER (PARTITION BY thread_id ORDER BY start_ns, node_id)
        AND graph.is_long_gap(start_ns - previous_end_ns) AS is_behind_gap
    FROM graph.event_phase
),

-- Gaps within a phase's own code.
begun AS (
    SELECT DISTINCT node_id
    FROM event
    INNER JOIN (
        SELECT thread_id, start_ns, end_ns FROM staging.module_call
        UNION ALL
        SELECT thread_id, start_ns, end_ns FROM staging.annotation WHERE name LIKE 'Optimizer.%'
    ) AS code
        ON
            event.thread_id = code.thread_id
            AND code.start_ns
            BETWEEN previous_end_ns AND previous_end_ns + (event.start_ns - previous_end_ns) // 2
            AND code.end_ns > event.start_ns
    WHERE is_behind_gap
)

SELECT
    event.node_id,
    run_id,
    trace_id,
    thread_id,
    phase,
    CASE
        WHEN is_behind_gap AND begun.node_id IS NULL THEN start_ns
        ELSE coalesce(previous_end_ns, start_ns)
    END,
    start_ns,
    end_ns
FROM event
LEFT JOIN begun ON event.node_id = begun.node_id;
