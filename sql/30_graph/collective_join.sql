-- Where a thread waited for collectives on the CPU that it had called: its rest lasts until
-- one ends, and it continues about as soon after that as elsewhere. If several end in a
-- rest, the last one counts. Collectives that end by chance, while the thread does
-- something else that is not recorded, end far from the end of the rest.
-- One row per rest that ends after a collective has ended.
-- Key: thread_id, start_ns.
CREATE VIEW graph.collective_join (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The waiting thread.
    thread_id,
    -- Thread that executes the collective.
    worker_thread_id,
    -- [ns] The rest starts.
    start_ns,
    -- [ns] The collective ends.
    end_ns
) AS
WITH
last AS (
    SELECT
        rest.run_id,
        rest.trace_id,
        rest.thread_id,
        call.thread_id AS worker_thread_id,
        rest.start_ns,
        event.end_ns,
        rest.end_ns - event.end_ns AS delay_ns,
        rest.end_ns - rest.start_ns AS rest_ns
    FROM graph.collective_call AS call
    INNER JOIN graph.top_level_event AS event ON call.op_id = event.node_id
    ASOF INNER JOIN graph.thread_rest AS rest
        ON call.calling_thread_id = rest.thread_id AND event.end_ns > rest.start_ns
    WHERE event.end_ns <= rest.end_ns AND rest.goes_on
    QUALIFY row_number() OVER (
        PARTITION BY rest.thread_id, rest.start_ns
        ORDER BY event.end_ns DESC, call.thread_id
    ) = 1
),

typical AS (
    SELECT trace_id, quantile_disc(delay_ns, 0.5) AS delay_ns
    FROM last
    WHERE 10 * delay_ns <= rest_ns
    GROUP BY trace_id
)

SELECT
    last.run_id,
    trace_id,
    last.thread_id,
    last.worker_thread_id,
    last.start_ns,
    last.end_ns
FROM last
INNER JOIN typical USING (trace_id)
WHERE last.delay_ns <= 4 * typical.delay_ns AND 2 * last.delay_ns <= last.rest_ns;
