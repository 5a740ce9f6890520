-- Flows from forward ops to the backward ops that belong to them, as recorded.
-- One row per flow with both ends.
-- Key: flow_id.
CREATE VIEW staging.flow (
    -- Event of the flow's begin.
    flow_id,
    -- The trace it is from.
    trace_id,
    -- Process and thread of the forward op.
    source_pid,
    -- Thread of the forward op.
    source_tid,
    -- [ns] Begin of the forward op.
    source_ns,
    -- Process of the backward op.
    target_pid,
    -- Thread of the backward op.
    target_tid,
    -- [ns] Begin of the backward op.
    target_ns
) AS
WITH
-- Identifiers begin anew: the n-th begin with one belongs to the n-th end with it.
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id, id, ph ORDER BY ts_ns, event_id) AS round
    FROM raw.event
    WHERE cat = 'fwdbwd' AND ph IN ('s', 'f')
)

SELECT
    source.event_id,
    source.trace_id,
    source.pid,
    source.tid,
    source.ts_ns,
    target.pid,
    target.tid,
    target.ts_ns
FROM numbered AS source
INNER JOIN numbered AS target USING (trace_id, id, round)
WHERE source.ph = 's' AND target.ph = 'f';
