-- Devices that ran work, or that the trace describes.
-- One row per device of a trace.
-- Key: trace_id, device.
CREATE VIEW staging.device (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- Name, if the trace has it, or its properties identify the model.
    name,
    -- Whether the model follows from the properties (`staging.gpu_signature`).
    is_assumed,
    -- GPU ops that ran on it.
    gpu_op_count,
    -- [ns] Time in which at least one of them was running.
    busy_ns,
    -- [ns] Time in which at least one kernel (no copy, no memset) was running.
    kernel_busy_ns,
    -- [B] Its memory, as recorded; NULL if unknown, or below 4 GiB, as older versions of
    -- PaddlePaddle write it with 32 bits.
    memory_bytes
) AS
WITH
described AS (
    SELECT
        run_id,
        trace_id,
        coalesce(try_cast(properties ->> '$.id' AS BIGINT), ordinal - 1) AS device,
        nullif(properties ->> '$.name', '') AS given_name,
        -- AMD's driver names what it does not know.
        given_name IS NULL OR given_name = 'AMD Radeon Graphics' AS is_nameless,
        concat(properties ->> '$.computeMajor', '.', properties ->> '$.computeMinor')
        AS capability,
        try_cast(properties ->> '$.numSms' AS BIGINT) AS sm_count,
        try_cast(properties ->> '$.warpSize' AS BIGINT) AS warp_size,
        try_cast(properties ->> '$.totalGlobalMem' AS BIGINT) AS memory_bytes
    FROM (
        SELECT
            run_id,
            trace_id,
            unnest(header -> '$.deviceProperties[*]') AS properties,
            generate_subscripts(header -> '$.deviceProperties[*]', 1) AS ordinal
        FROM raw.trace
    )
),

recognised AS (
    SELECT
        run_id,
        trace_id,
        device,
        coalesce(model, given_name) AS name,
        model IS NOT NULL AS is_assumed,
        CASE WHEN memory_bytes BETWEEN 4_294_967_296 AND 1_125_899_906_842_624
            THEN memory_bytes
        END AS memory_bytes
    FROM described
    LEFT JOIN staging.gpu_signature AS signature
        ON
            is_nameless
            AND described.capability = signature.capability
            AND described.sm_count = signature.sm_count
            AND described.warp_size = signature.warp_size
            AND memory_bytes BETWEEN least_memory_bytes AND most_memory_bytes
),

covered AS (
    SELECT
        *,
        CASE kind WHEN 'kernel' THEN end_ns END AS kernel_end_ns,
        staging.uncovered_ns(start_ns, end_ns, trace_id, device, NULL) AS uncovered_ns,
        staging.uncovered_ns(start_ns, kernel_end_ns, trace_id, device, NULL)
        AS uncovered_by_kernels_ns
    FROM staging.gpu_op
    WHERE kind <> 'other'
),

busy AS (
    SELECT
        run_id,
        trace_id,
        device,
        count(*) AS gpu_op_count,
        sum(uncovered_ns) AS busy_ns,
        sum(uncovered_by_kernels_ns) AS kernel_busy_ns
    FROM covered
    GROUP BY run_id, trace_id, device
)

SELECT
    run_id,
    trace_id,
    device,
    recognised.name,
    coalesce(is_assumed, false),
    coalesce(gpu_op_count, 0),
    coalesce(busy_ns, 0)::BIGINT,
    coalesce(kernel_busy_ns, 0)::BIGINT,
    memory_bytes
FROM recognised
FULL JOIN busy USING (run_id, trace_id, device);
