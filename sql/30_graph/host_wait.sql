-- What the host waited for in blocking calls: synchronization, copies that return when they
-- are done, and launches into a full queue. Of all work that a call waits for
-- (`graph.host_awaited`), the work that ended last.
-- One row per blocking call whose cause was found.
-- Key: call_id.
CREATE TABLE graph.host_wait (
    -- The blocking call.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `stream`, `device`, `event`, `copy` or `queue`.
    target,
    -- The GPU work it waited for.
    gpu_op_id,
    -- [ns] End of that work.
    gpu_op_end_ns,
    -- [ns] Start of the call.
    start_ns,
    -- [ns] End of the call.
    end_ns,
    -- Whether the work was still running when the call started.
    is_blocked,
    -- Whether the profiler recorded what the call waited for.
    recorded
) AS
SELECT
    call_id,
    run_id,
    trace_id,
    target,
    gpu_op_id,
    gpu_op_end_ns,
    start_ns,
    end_ns,
    gpu_op_end_ns > start_ns AS is_blocked,
    recorded
FROM graph.host_awaited
QUALIFY row_number() OVER (
    PARTITION BY call_id ORDER BY gpu_op_end_ns DESC, gpu_op_id
) = 1;
