-- Work of the ops that compute on the host (`prediction.computing_op`), as recorded and at
-- another batch size; filled in a side database, for one prediction.
-- One row per change and op of known work or arguments.
-- Key: change, op_id.
CREATE TABLE reference.op_estimate (
    -- The change, as in `prediction.op_change`; empty: none.
    change VARCHAR NOT NULL,
    -- The op.
    op_id BIGINT NOT NULL,
    -- The trace.
    trace_id BIGINT NOT NULL,
    -- Family, as in `prediction.op_work`; `unknown` if the work is.
    family VARCHAR NOT NULL,
    -- [FLOP] FLOPs; NULL if the work is unknown.
    flops BIGINT,
    -- Bytes read and written; NULL if the work is unknown.
    bytes BIGINT,
    -- [B] All tensors among its arguments; NULL if their sizes were not recorded.
    argument_bytes BIGINT
);
