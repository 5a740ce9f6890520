-- Critical paths of the simulation, followed from their ends backwards: from a segment to
-- the dependency that determined its start (`simulation.binding`), up to the path's start.
-- One row per hop of a path, from its end backwards.
-- Key: variant_id, scope, path_id, hop.
CREATE VIEW critical_path.simulated_hop (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- Position on the path, from 1 at its end.
    hop,
    -- The trace of the hop.
    trace_id,
    -- Lane of the segment: a thread, minus the first work of a stream, or 0, the origin.
    lane,
    -- Segment of that lane.
    segment,
    -- [ns] Start of the segment, from the start of its trace.
    begin_ns,
    -- [ns] Offset to add to times from the trace's start to get times of the path.
    shift_ns,
    -- Why the previous hop started after it, as in `simulation.binding`; `end` at the
    -- path's end.
    reason,
    -- [ns] Offset to add to such times of the previous hop's trace; NULL at a path's end on
    -- the host.
    next_shift_ns,
    -- Span of host time after which nothing of the lane is on the path; NULL if all of the
    -- segment may be.
    last_position,
    -- GPU work after which the previous hop started; NULL if it was host time.
    awaited_id,
    -- That work or, for a collective, the part of it in this trace.
    last_id
) AS
WITH RECURSIVE
binding AS MATERIALIZED (
    SELECT binding.*, origin_ns, run_origin_ns
    FROM simulation.binding AS binding
    INNER JOIN simulation.origin AS origin ON source_trace_id = origin.trace_id
),

walk AS (
    SELECT
        variant_id,
        scope,
        path_id,
        path.start_ns AS path_start_ns,
        1::BIGINT AS hop,
        path.trace_id,
        lane,
        segment,
        begin_ns,
        origin_ns + path.shift_ns AS shift_ns,
        'end' AS reason,
        NULL::BIGINT AS next_lane,
        NULL::BIGINT AS next_segment,
        CASE WHEN gpu_op_id IS NOT NULL THEN origin_ns + path.shift_ns END AS next_shift_ns,
        last_position,
        gpu_op_id AS awaited_id
    FROM critical_path.path AS path
    INNER JOIN critical_path.simulated_end USING (variant_id, scope, path_id)
    INNER JOIN simulation.origin AS origin ON path.trace_id = origin.trace_id
    UNION ALL
    SELECT
        walk.variant_id,
        scope,
        path_id,
        path_start_ns,
        hop + 1,
        source_trace_id,
        source_lane,
        source_segment,
        source_begin_ns,
        CASE scope WHEN 'run' THEN run_origin_ns ELSE origin_ns END,
        kind,
        walk.lane,
        walk.segment,
        walk.shift_ns,
        NULL,
        gpu_op_id
    FROM walk
    INNER JOIN binding
        ON
            walk.variant_id = binding.variant_id
            AND walk.trace_id = binding.trace_id
            AND walk.lane = binding.lane
            AND walk.segment = binding.segment
            AND (scope = 'run') = is_run
    WHERE walk.begin_ns + walk.shift_ns > path_start_ns
),

-- A thread that waits for another's span continues from that span's end.
woken AS (
    SELECT
        variant_id,
        thread_id,
        segment + 1 AS next_segment,
        awaited_thread_id,
        awaited_position
    FROM simulation.host_offset
    INNER JOIN prediction.awaited_thread USING (variant_id, thread_id, position)
    WHERE waits
    UNION ALL
    SELECT
        variant_id, meeting.thread_id, segment + 1, arrival.thread_id, arrival_position
    FROM simulation.meeting_wait AS meeting
    INNER JOIN simulation.host_offset USING (variant_id, thread_id, position)
    INNER JOIN prediction.rank_meeting AS arrival
        ON meeting.last_op_id = arrival.last_op_id AND meeting.op_id <> arrival.op_id
)

SELECT
    walk.variant_id,
    scope,
    path_id,
    hop,
    walk.trace_id,
    lane,
    segment,
    begin_ns,
    shift_ns,
    reason,
    next_shift_ns,
    coalesce(last_position, awaited_position),
    awaited_id,
    coalesce(part.node_id, awaited_id)
FROM walk
LEFT JOIN woken
    ON
        reason IN ('thread', 'arrival')
        AND walk.variant_id = woken.variant_id
        AND next_lane = woken.thread_id
        AND walk.next_segment = woken.next_segment
        AND lane = awaited_thread_id
LEFT JOIN graph.collective AS collective ON awaited_id = collective.node_id
LEFT JOIN graph.collective AS part
    ON
        collective.last_node_id = part.last_node_id
        AND walk.trace_id = part.trace_id;
