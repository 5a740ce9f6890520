-- The hardware of a trace's devices: by their names; if those are not recorded, or not
-- names of hardware, by the architecture that names of kernels and calls show. Then it is
-- the usual GPU of the newest architecture, because kernels for older ones run on it as
-- well.
-- One row per device of a trace.
-- Key: trace_id, device.
CREATE VIEW prediction.kernel_device (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- Its row of `prediction.hardware`.
    hardware,
    -- Whether the trace names it and its model is listed.
    is_known
) AS
WITH
named AS (
    SELECT
        run_id,
        trace_id,
        device,
        coalesce(staging.device.name, device_name, '') AS name
    FROM staging.device
    INNER JOIN staging.trace USING (run_id, trace_id)
),

-- Once for each name: a job may list many devices of one model, and a pattern is read
-- again for every name.
known_name AS (
    SELECT
        name,
        arg_min(hardware, ordinal) AS hardware,
        arg_min(is_fallback, ordinal) AS is_fallback,
        NOT arg_min(is_generic, ordinal) AS is_known
    FROM (SELECT DISTINCT name FROM named)
    INNER JOIN prediction.hardware ON regexp_matches(name, name_pattern, 'i')
    GROUP BY name
),

listed AS (
    SELECT run_id, trace_id, device, hardware, is_fallback, is_known
    FROM named
    INNER JOIN known_name USING (name)
),

architecture_pattern AS (
    SELECT * FROM (VALUES
        (1, 'RTX PRO 6000', 'sm_?120'),
        (2, 'B300', 'sm_?103'),
        (3, 'B200', 'sm_?100|blackwell'),
        (4, 'H100', 'sm_?90|cutlass_90|nvjet|hopper'),
        (5, 'L40S', 'sm_?89'),
        (6, 'A100 40GB', 'sm_?80_|cutlass_80|ampere_'),
        (7, 'T4', 'turing_|sm_?75_'),
        (8, 'V100', 'volta_|cutlass_70|sm_?70_'),
        (9, 'P100', 'maxwell_|pascal_'),
        (10, 'MI250', 'ISA90a|gfx90a'),
        (11, 'MI355X', 'ISA95|gfx95'),
        (12, 'MI300X', 'ISA94|gfx94|^hip|Cijk_|rocprim|ck_tile')
    ) AS listed (rank, hardware, pattern)
),

seen_name AS (
    SELECT DISTINCT trace_id, name FROM staging.gpu_op
    WHERE trace_id IN (SELECT trace_id FROM listed WHERE is_fallback)
    UNION
    SELECT DISTINCT trace_id, name FROM staging.call
    WHERE name LIKE 'hip%' AND trace_id IN (SELECT trace_id FROM listed WHERE is_fallback)
),

guessed AS (
    SELECT trace_id, arg_min(hardware, rank) AS guess
    FROM seen_name
    INNER JOIN architecture_pattern ON regexp_matches(name, pattern)
    INNER JOIN prediction.hardware USING (hardware)
    GROUP BY trace_id
)

SELECT
    run_id,
    trace_id,
    device,
    CASE WHEN is_fallback AND guess IS NOT NULL THEN guess ELSE hardware END,
    is_known
FROM listed
LEFT JOIN guessed USING (trace_id);
