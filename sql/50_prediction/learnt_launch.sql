-- Which kernels ops launched in the traces of this database: the most common list for each
-- op name. `tracedb estimate` uses it before `prediction.launch_rule`.
-- One row per op name that launched kernels itself.
-- Key: name.
CREATE VIEW prediction.learnt_launch (
    -- Name of the op.
    name,
    -- Names of its kernels, in order.
    kernels,
    -- Number of such ops that launched exactly these.
    occurrences,
    -- Number of such ops that launched kernels.
    all_count
) AS
WITH
launched AS (
    SELECT op_id, list(name ORDER BY start_ns, gpu_op_id) AS kernels
    FROM staging.gpu_op
    WHERE kind = 'kernel' AND op_id IS NOT NULL AND NOT is_collective
    GROUP BY op_id
),

counted AS (
    SELECT op.name, kernels, count(*) AS occurrences
    FROM launched
    INNER JOIN staging.op AS op USING (op_id)
    INNER JOIN staging.recording AS recording USING (trace_id)
    WHERE NOT recording.is_estimated
    GROUP BY op.name, kernels
)

SELECT
    name,
    arg_max(kernels, (occurrences, -len(kernels))),
    max(occurrences),
    sum(occurrences)::BIGINT
FROM counted
GROUP BY name;
