-- Recorded flows from forward ops to their backward ops.
-- One row per flow with both ends.
-- Key: flow_id.
CREATE VIEW staging.flow (
    -- Event of the flow's start.
    flow_id,
    -- The trace.
    trace_id,
    -- Process and thread of the forward op.
    source_pid,
    -- Thread of the forward op.
    source_tid,
    -- [ns] Start of the forward op.
    source_ns,
    -- Process of the backward op.
    target_pid,
    -- Thread of the backward op.
    target_tid,
    -- [ns] Start of the backward op.
    target_ns
) AS
WITH
-- Identifiers are reused: the n-th start with an identifier belongs to the n-th end with
-- it.
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
