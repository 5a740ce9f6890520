-- Collectives that the communication library itself kept a log of, in the order of their
-- calls: PyTorch's flight recorder, which has those that never ended as well, or NCCL's
-- inspector.
-- One row per call of a rank.
-- Key: event_id.
CREATE TABLE staging.logged_collective (
    -- The log's event.
    event_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `flight_recorder` or `nccl_inspector`.
    source,
    -- Name, as the library has it.
    name,
    -- Kind, as in `staging.collective`.
    kind,
    -- Name of the process group, or identifier of the communicator; what describes it, and its
    -- ranks, as far as they are recorded.
    process_group,
    -- Whether all ranks of the job are in the group, by its name.
    is_of_all,
    -- Ranks of the group, as a JSON list; NULL where they are not recorded.
    group_ranks,
    -- Number of these, if recorded.
    group_size,
    -- Number of the call in its group, the same on all ranks: of collectives one count, and
    -- of sends and receives another. NCCL's inspector counts each kind of its own.
    sequence,
    -- Whether it is a send or a receive, which two ranks alone take part in.
    is_p2p,
    -- Elements that go in, if known.
    element_count,
    -- [B] The message: what goes in or comes out, whichever is more; if known.
    message_bytes,
    -- [ns] When the rank called it, or its kernel began; from the time base of the trace.
    start_ns,
    -- [ns] When it was over, or the watchdog noticed so; NULL where that is not recorded.
    end_ns,
    -- [ns] How long its kernel ran; NULL where it was not timed.
    duration_ns,
    -- Whether it was over when the log was written. Calls within a group of calls are over
    -- as that is.
    is_over,
    -- The line of the program that called it, where the log has stacks.
    place
) AS
WITH
event AS (
    SELECT
        *,
        args ->> [
            '$.process_group', '$.description', '$.ranks', '$.group_size', '$.sequence',
            '$.is_p2p', '$.element_count', '$.bytes', '$.duration_ns', '$.is_over',
            '$.place', '$.p2p_sequence'
        ] AS argument
    FROM raw.event
    WHERE cat IN ('flight_recorder', 'nccl_inspector')
),

told AS (
    SELECT
        event_id,
        raw.trace.run_id,
        event.trace_id,
        cat,
        event.name,
        coalesce(argument[1], '') AS group_name,
        argument[2] AS described,
        try_cast(argument[3] AS BIGINT []) AS ranks,
        try_cast(argument[4] AS BIGINT) AS given_size,
        coalesce(try_cast(argument[6] AS BOOLEAN), false) AS is_p2p,
        try_cast(CASE WHEN is_p2p AND argument[12] IS NOT NULL THEN argument[12]
            ELSE argument[5] END AS BIGINT) AS sequence,
        try_cast(argument[7] AS BIGINT) AS element_count,
        try_cast(argument[8] AS BIGINT) AS bytes,
        ts_ns,
        CASE WHEN ph = 'X' THEN ts_ns + dur_ns END AS end_ns,
        try_cast(argument[9] AS BIGINT) AS duration_ns,
        coalesce(try_cast(argument[10] AS BOOLEAN), false) AS is_over,
        argument[11] AS place
    FROM event
    INNER JOIN raw.trace ON event.trace_id = raw.trace.trace_id
)

SELECT
    event_id,
    run_id,
    trace_id,
    cat,
    name,
    staging.collective_kind(lower(name)),
    concat_ws(' ', group_name, described, ranks::VARCHAR),
    coalesce(described = 'default_pg', false),
    to_json(ranks),
    coalesce(len(ranks), CASE WHEN given_size > 0 THEN given_size END),
    sequence,
    is_p2p,
    element_count,
    CASE WHEN bytes BETWEEN 0 AND 1_125_899_906_842_624 THEN bytes END,
    ts_ns,
    end_ns,
    CASE WHEN duration_ns >= 0 THEN duration_ns END,
    is_over OR bool_or(is_over AND contains(name, 'coalesced')) OVER (
        PARTITION BY trace_id, group_name, ranks, is_p2p, sequence
    ),
    place
FROM told;
