-- Work of the ops that compute on the host (`prediction.computing_op`), as they were recorded
-- and at another batch size; filled beside a database, for one prediction.
-- One row per change and op of known work.
-- Key: change, op_id.
CREATE TABLE reference.op_estimate (
    -- What is changed, as in `prediction.op_change`; empty: nothing.
    change VARCHAR NOT NULL,
    -- The op.
    op_id BIGINT NOT NULL,
    -- The trace it is from.
    trace_id BIGINT NOT NULL,
    -- Family, as in `prediction.op_work`.
    family VARCHAR NOT NULL,
    -- [FLOP] Arithmetic.
    flops BIGINT NOT NULL,
    -- Bytes read and written.
    bytes BIGINT NOT NULL
);
