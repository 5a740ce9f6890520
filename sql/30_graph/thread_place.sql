-- Collectives on the CPU whose process groups are not recorded (PyTorch before 2.3). Gloo
-- starts two threads for each group, so that the threads of a rank, in order, are those of
-- its groups.
-- One row per such collective.
-- Key: node_id.
CREATE VIEW graph.thread_place (
    -- The op of the process group.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Place of its group among those of the rank, from 1; NULL if a group used one of its
    -- threads, which does not tell which ones belong together.
    place,
    -- The kind of backend, as in `staging.collective`.
    process_group,
    -- Kind of collective.
    kind,
    -- Input elements, if known.
    element_count,
    -- [ns] Start, since 1970.
    start_ns,
    -- [ns] End, likewise; NULL if it had not ended when the recording did.
    end_ns,
    -- Step in which it starts.
    step
) AS
WITH
executed AS (
    SELECT
        collective.node_id,
        collective.run_id,
        collective.trace_id,
        op.thread_id,
        try_cast(tid AS BIGINT) AS thread_number,
        collective.process_group,
        kind,
        element_count,
        collective.start_ns + base_ns AS start_ns,
        CASE WHEN has_ended THEN collective.end_ns + base_ns END AS end_ns,
        CASE WHEN collective.start_ns < step.end_ns THEN step END AS step
    FROM staging.collective AS collective
    INNER JOIN staging.op AS op ON collective.node_id = op.op_id
    INNER JOIN staging.thread AS thread ON op.thread_id = thread.thread_id
    INNER JOIN staging.trace AS trace ON collective.trace_id = trace.trace_id
    ASOF LEFT JOIN staging.step AS step
        ON collective.trace_id = step.trace_id AND collective.start_ns >= step.start_ns
    WHERE
        collective.kind NOT IN ('send', 'recv')
        AND collective.trace_id NOT IN (SELECT trace_id FROM staging.listed_group)
),

placed AS (
    SELECT
        trace_id,
        thread_id,
        CASE
            WHEN count(*) OVER (PARTITION BY trace_id) <= 2 THEN 1
            WHEN count(*) OVER (PARTITION BY trace_id) % 2 = 0
                THEN (row_number() OVER in_order + 1) // 2
        END AS place
    FROM (SELECT DISTINCT trace_id, thread_id, thread_number FROM executed)
    WINDOW in_order AS (PARTITION BY trace_id ORDER BY thread_number, thread_id)
)

SELECT
    node_id, run_id, trace_id, place, process_group, kind, element_count, start_ns, end_ns, step
FROM executed
INNER JOIN placed USING (trace_id, thread_id);
