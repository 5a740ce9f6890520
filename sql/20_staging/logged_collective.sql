-- Collectives logged by the communication library itself, in call order: by PyTorch's
-- flight recorder, which also has those that never ended, or by NCCL's inspector.
-- One row per call of a rank.
-- Key: event_id.
CREATE TABLE staging.logged_collective (
    -- The log's event.
    event_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `flight_recorder` or `nccl_inspector`.
    source,
    -- Name, as the library has it.
    name,
    -- Kind, as in `staging.collective`.
    kind,
    -- Name of the process group, or identifier of the communicator; its description and its
    -- ranks, as far as recorded.
    process_group,
    -- Whether the group contains all ranks of the job, by its name.
    is_of_all,
    -- Ranks of the group, as a JSON list; NULL if not recorded.
    group_ranks,
    -- Number of these, if recorded.
    group_size,
    -- Number of the call in its group, the same on all ranks. Collectives are counted
    -- separately from sends and receives; NCCL's inspector counts each kind separately.
    sequence,
    -- Whether it is a send or a receive, in which only two ranks take part.
    is_p2p,
    -- Input elements, if known.
    element_count,
    -- [B] The message: the larger of input and output; if known.
    message_bytes,
    -- [ns] Time of the rank's call, or of its kernel's start; from the time base of the
    -- trace.
    start_ns,
    -- [ns] Time when it ended, or when the watchdog noticed; NULL if not recorded.
    end_ns,
    -- [ns] Duration of its kernel; NULL if it was not timed.
    duration_ns,
    -- Whether it had ended when the log was written. Calls within a group of calls end with
    -- the group.
    is_over,
    -- The source line that called it, if the log has stacks.
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

log_field AS (
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
FROM log_field;
