-- What scenarios change of the time of pieces on host threads: the product of the factors
-- and the sum of what is added. Less profiling, as a factor of `profiler`, takes off its
-- share of the cost of all events that were recorded in a piece. Edits without a type are
-- of T1 to T5: not of waits, nor of idle time.
-- One row per variant and piece that it changes.
-- Key: variant_id, thread_id, position.
CREATE VIEW prediction.host_edit (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- What its time is multiplied by.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS
WITH
edited AS (
    SELECT
        variant_id,
        timeline.thread_id,
        timeline.position,
        edit.factor,
        edit.add_ns
    FROM overhead.timeline AS timeline
    LEFT JOIN staging.op AS op ON timeline.op_id = op.op_id
    LEFT JOIN staging.launch AS call ON timeline.launch_id = call.launch_id
    INNER JOIN prediction.scenario_edit AS edit
        ON
            edit.target = 'host'
            AND (edit.type = timeline.type OR edit.type IS NULL AND timeline.type LIKE 'T_')
            AND (
                edit.name IS NULL
                OR regexp_full_match(
                    CASE timeline.type WHEN 'T4' THEN call.name ELSE op.name END, edit.name
                )
            )
    INNER JOIN prediction.variant USING (scenario)
    UNION ALL
    SELECT
        variant_id,
        thread_id,
        recorded.position,
        1,
        (event_count * (event_ns * (edit.factor - 1) + edit.add_ns))::BIGINT
    FROM overhead.recorded_event AS recorded
    INNER JOIN overhead.profiler_cost USING (trace_id)
    INNER JOIN overhead.timeline AS timeline USING (thread_id, position)
    INNER JOIN prediction.scenario_edit AS edit ON edit.target = 'profiler'
    INNER JOIN prediction.variant USING (scenario)
    WHERE timeline.type LIKE 'T_'
)

SELECT variant_id, thread_id, position, product(factor), sum(add_ns)::BIGINT
FROM edited
GROUP BY variant_id, thread_id, position;
