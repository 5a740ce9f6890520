-- Kind of the edge by which a call waits for GPU work: `copy`, `queue`, or the kind of
-- synchronization, such as `sync_stream`.
CREATE MACRO graph.wait_kind(
    -- What the call waits for, as in `graph.host_wait`.
    waits_for
) AS (
    CASE WHEN waits_for IN ('copy', 'queue') THEN waits_for ELSE 'sync_' || waits_for END
);
