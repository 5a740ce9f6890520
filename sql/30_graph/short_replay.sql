-- Replays of graphs that lack GPU work which the other steps have in their place: the n-th
-- replay of a step is of the same graph as that of others with equally many replays.
-- One row per launch of a graph that lacks some of its work, but not all.
-- Key: call_id.
CREATE VIEW graph.short_replay (
    -- The launch.
    call_id,
    -- The trace.
    trace_id,
    -- GPU ops of it that are in the trace.
    gpu_op_count,
    -- GPU ops that are not.
    lost_count
) AS
WITH
launch AS (
    SELECT call_id, call.trace_id, call.start_ns, step_ids[1] AS step_id
    FROM staging.call AS call
    ASOF INNER JOIN staging.step_stretch AS stretch
        ON call.trace_id = stretch.trace_id AND call.start_ns >= stretch.start_ns
    WHERE kind = 'launch' AND target = 'graph' AND step_id IS NOT NULL
),

placed AS (
    SELECT
        call_id,
        {
            trace: trace_id,
            ordinal: row_number() OVER (PARTITION BY step_id ORDER BY start_ns, call_id),
            of_step: count(*) OVER (PARTITION BY step_id)
        } AS place
    FROM launch
),

part AS (
    SELECT placed.call_id, place, name, count(*) AS parts
    FROM placed
    INNER JOIN staging.gpu_op USING (call_id)
    GROUP BY placed.call_id, place, name
),

replay AS (
    SELECT
        call_id,
        place,
        sum(parts)::BIGINT AS parts,
        list({name: name, parts: parts} ORDER BY name) AS named
    FROM part
    GROUP BY call_id, place
),

-- The most common replay of a place: twice at least.
usual AS (
    SELECT
        place,
        any_value(call_id) AS usual_id,
        parts AS usual_parts
    FROM replay
    GROUP BY place, named, parts
    HAVING count(*) > 1
    QUALIFY row_number() OVER (PARTITION BY place ORDER BY count(*) DESC, parts DESC) = 1
)

SELECT replay.call_id, place.trace, any_value(replay.parts), any_value(usual_parts - replay.parts)
FROM replay
INNER JOIN usual USING (place)
INNER JOIN part USING (call_id, place)
LEFT JOIN part AS usual_part ON usual_id = usual_part.call_id AND part.name = usual_part.name
WHERE replay.parts < usual_parts
GROUP BY replay.call_id, place.trace
-- It has nothing that they do not have.
HAVING bool_and(coalesce(part.parts <= usual_part.parts, false));
