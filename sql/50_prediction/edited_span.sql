-- Which spans of host time the edits of scenarios match (`prediction.chosen_span`).
-- One row per edit of host time or of ops, and span that it matches.
-- Key: scenario, edit, thread_id, position.
CREATE VIEW prediction.edited_span (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Its measured duration.
    span_ns,
    -- [ns] The part of it that matches.
    chosen_ns
) AS
SELECT scenario, edit, thread_id, position, span_ns, chosen_ns
FROM prediction.chosen_span
WHERE target IN ('host', 'op');
