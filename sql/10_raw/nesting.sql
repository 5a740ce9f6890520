-- Which op or call of a thread started inside which op, found by the loader: ops overlap by
-- rounding, and only a stack is both cheap and exact then.
-- One row per op or call that started inside an op.
-- Key: event_id.
CREATE TABLE raw.nesting (
    -- The op or call.
    event_id BIGINT NOT NULL,
    -- The file.
    trace_id BIGINT NOT NULL,
    -- Innermost op that was open on the thread when it started.
    parent_event_id BIGINT NOT NULL,
    -- Outermost enclosing op, including user ranges recorded as ops.
    outermost_event_id BIGINT NOT NULL,
    -- Outermost enclosing op that is not a user range.
    top_event_id BIGINT
);
