-- The time of a collective on each rank, or of a send and its receive: waiting for the last
-- rank to arrive, and moving data. Ranks that are not in the run may be last: time beyond the
-- shortest collective of the same kind and size counts as waiting for them. Small messages
-- are sent without waiting for the receiver: up to the largest size of which more sends are
-- seen to end before their receives start than to wait for them. Of a message on the CPU, only
-- the time counts in which its thread waits for it (`graph.message_wait`).
-- One row per collective of a rank that is matched with those of other ranks.
-- Key: node_id.
CREATE TABLE graph.collective (
    -- The kernel, the op of a process group on the CPU, or the range of a message there.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name of the process group.
    process_group,
    -- Number of the collective in its group, the same for all ranks.
    number,
    -- Kind of collective.
    kind,
    -- Input elements, if known.
    element_count,
    -- Whether it does not wait for the others: a small send; or, on the CPU, a part that ended
    -- before the last rank came, as in a gather: only the root waits for all.
    is_eager,
    -- Ranks of the group.
    group_size,
    -- Number of these in the run.
    present_count,
    -- The part of the rank that arrived last, among the ranks in the run.
    last_node_id,
    -- [ns] Start of that part, by the clock of this trace; of its own, for one that does not
    -- wait.
    last_arrival_ns,
    -- [ns] Time waiting for that rank.
    waiting_ns,
    -- [ns] Time waiting for ranks that are not in the run, at least.
    absent_waiting_ns,
    -- [ns] The remaining time, in which data moves.
    moving_ns
) AS
WITH
member AS (
    SELECT
        match.*,
        collective.kind,
        element_count,
        element_type,
        start_ns,
        end_ns,
        coalesce(awaited_ns, start_ns) AS awaited_ns,
        is_on_cpu,
        shift_ns,
        uncertainty_ns,
        rank,
        start_ns + shift_ns AS arrival_ns,
        end_ns + shift_ns AS over_ns,
        CASE
            WHEN sender IS NOT NULL OR collective.kind IN ('send', 'recv') THEN 'message'
            ELSE collective.kind
        END AS meeting_kind
    FROM graph.collective_match AS match
    INNER JOIN staging.collective AS collective USING (node_id)
    INNER JOIN graph.clock ON match.trace_id = graph.clock.trace_id
    INNER JOIN staging.trace ON match.trace_id = staging.trace.trace_id
    LEFT JOIN
        (
            SELECT annotation_id, start_ns AS awaited_ns FROM graph.message_wait
        ) AS wait
        ON node_id = annotation_id
),

meeting AS (
    SELECT
        run_id,
        process_group,
        number,
        meeting_kind,
        max(element_count) AS elements,
        count(*) AS present_count,
        arg_max(node_id, (arrival_ns, coalesce(rank, -1), node_id)) AS last_node_id,
        max(arrival_ns) AS last_arrival_ns,
        max(over_ns) - max(arrival_ns) AS together_ns
    FROM member
    GROUP BY run_id, process_group, number, meeting_kind
    -- Two groups with one name, or a rank that occurs twice, are ambiguous.
    HAVING count(*) BETWEEN 2 AND coalesce(max(group_size), count(*))
),

-- A larger collective takes no less time; each one of unknown size is treated separately.
compared AS (
    SELECT
        *,
        CASE
            WHEN elements IS NULL THEN together_ns
            ELSE min(together_ns) OVER (
                PARTITION BY run_id, process_group, meeting_kind, elements IS NULL
                ORDER BY elements DESC
            )
        END AS shortest_ns
    FROM meeting
),

-- A send that waits ends together with its receive, whichever began first.
sent AS (
    SELECT
        member.run_id,
        member.element_type,
        member.element_count,
        last_arrival_ns - over_ns > uncertainty_ns + 10_000 AS is_over,
        last_arrival_ns - arrival_ns > uncertainty_ns + 10_000
        AND together_ns + last_arrival_ns - over_ns < (last_arrival_ns - arrival_ns) / 2
        AS is_waiting
    FROM member
    INNER JOIN meeting USING (run_id, process_group, number, meeting_kind)
    WHERE member.kind = 'send'
),

eager AS (
    SELECT run_id, element_type, max(element_count) AS most_elements
    FROM (
        SELECT run_id, element_type, element_count
        FROM sent
        GROUP BY ALL
        HAVING count_if(is_over) > count_if(is_waiting)
    )
    GROUP BY run_id, element_type
),

split AS (
    SELECT
        member.*,
        present_count,
        last_node_id,
        coalesce(member.kind = 'send' AND element_count <= most_elements, false)
        OR is_on_cpu
        AND meeting_kind <> 'message'
        AND over_ns < last_arrival_ns
        - CASE
            WHEN staging.meets_all_ranks(member.kind) THEN uncertainty_ns + 10_000
            ELSE 0
        END AS is_eager,
        CASE
            WHEN is_eager THEN awaited_ns
            ELSE least(greatest(last_arrival_ns - shift_ns, awaited_ns), end_ns)
        END AS arrived_ns,
        CASE
            WHEN present_count < group_size THEN greatest(together_ns - shortest_ns, 0)
            ELSE 0
        END AS absent_ns
    FROM member
    INNER JOIN compared USING (run_id, process_group, number, meeting_kind)
    LEFT JOIN eager
        ON
            member.run_id = eager.run_id
            AND member.element_type IS NOT DISTINCT FROM eager.element_type
)

SELECT
    node_id,
    run_id,
    trace_id,
    process_group,
    number,
    kind,
    element_count,
    is_eager,
    group_size,
    present_count,
    last_node_id,
    arrived_ns,
    arrived_ns - awaited_ns,
    least(absent_ns, end_ns - arrived_ns),
    greatest(end_ns - arrived_ns - absent_ns, 0)
FROM split;
