-- Work of the ops that compute on the host (`prediction.computing_op`), as recorded and at
-- another batch size; filled in a side database, for one prediction.
-- One row per change and op of known work.
-- Key: change, op_id.
CREATE TABLE reference.op_estimate (
    -- The change, as in `prediction.op_change`; empty: none.
    change VARCHAR NOT NULL,
    -- The op.
    op_id BIGINT NOT NULL,
    -- The trace.
    trace_id BIGINT NOT NULL,
    -- Family, as in `prediction.op_work`.
    family VARCHAR NOT NULL,
    -- [FLOP] FLOPs.
    flops BIGINT NOT NULL,
    -- Bytes read and written.
    bytes BIGINT NOT NULL
);
