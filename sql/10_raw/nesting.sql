-- Which op or call of a thread began inside which op, found by the loader: ops overlap
-- by rounding, and a stack is the only cheap method that stays exact then.
-- One row per op or call that began inside an op.
-- Key: event_id.
CREATE TABLE raw.nesting (
    -- The op or call.
    event_id BIGINT NOT NULL,
    -- The file it is from.
    trace_id BIGINT NOT NULL,
    -- Innermost op that was open on the thread when it began.
    parent_event_id BIGINT NOT NULL,
    -- Outermost op that was open then, user ranges counted where recorded as ops.
    outermost_event_id BIGINT NOT NULL,
    -- Outermost op that was open then and is no user range.
    top_event_id BIGINT
);
