-- The piece of host time in which the launch of each piece of GPU work begins.
-- One row per piece of GPU work whose launch is in the trace.
-- Key: kernel_id.
CREATE VIEW critical_path.launch_piece (
    -- The GPU work.
    kernel_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position
) AS
SELECT kernel_id, thread_id, piece.position
FROM graph.stream_position AS work
ASOF INNER JOIN overhead.timeline AS piece
    ON
        work.launch_thread_id = piece.thread_id
        AND work.launch_start_ns >= piece.start_ns;
