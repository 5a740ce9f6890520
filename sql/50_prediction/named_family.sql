-- Names that read like a family of kernels, as `*gemm*` does, in edits that say nothing else:
-- what they select of the family, and beside it. Libraries compute convolutions with kernels
-- named after GEMMs, and GEMMs with kernels named otherwise (`nvjet_...`, `Cijk_...`).
-- One row per edit with such a name; a database at rest has no scenarios.
-- Key: scenario, edit.
CREATE VIEW prediction.named_family (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The family.
    family,
    -- In words: how many GPU ops of the family it leaves out, how many others it selects.
    note
) AS
WITH
named AS (
    SELECT scenario, position AS edit, lower(trim(name, '*/')) AS word
    FROM prediction.scenario_edit
    WHERE
        target = 'gpu'
        AND coalesce(
            type, op, annotation, function, shape, instance, module, part, phase, step,
            rank, stream, device, family, process_group, thread
        ) IS NULL
        AND nodes IS NULL
),

work AS (
    SELECT gpu_op_id, family, end_ns - start_ns AS work_ns
    FROM staging.gpu_op AS work
    LEFT JOIN prediction.kernel_roofline USING (gpu_op_id)
),

compared AS (
    SELECT
        scenario, edit, word, family IS NOT DISTINCT FROM word AS is_family,
        chosen.gpu_op_id IS NOT NULL AS is_selected, work.work_ns
    FROM named
    CROSS JOIN work
    LEFT JOIN prediction.chosen_work AS chosen USING (scenario, edit, gpu_op_id)
    WHERE word IN (SELECT family FROM work)
)

SELECT
    scenario,
    edit,
    word,
    format(
        'its name matches {} of {} GPU ops of family {} ({:.3f} ms are left out), and {} of other '
        || 'or unknown families ({:.3f} ms); `gpu family={}` matches the family',
        count(*) FILTER (is_family AND is_selected),
        count(*) FILTER (is_family),
        word,
        coalesce(sum(work_ns) FILTER (is_family AND NOT is_selected), 0) / 1e6,
        count(*) FILTER (is_selected AND NOT is_family),
        coalesce(sum(work_ns) FILTER (is_selected AND NOT is_family), 0) / 1e6,
        word
    )
FROM compared
GROUP BY scenario, edit, word
HAVING bool_or(is_family <> is_selected);
