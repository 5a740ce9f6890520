-- The factor for the time of GPU work that a scenario moves to another GPU, type, batch size or
-- number of ranks (`prediction.work_change`): a model's prediction for the target, divided by the
-- same model's prediction for what was recorded, so that an error on both sides cancels. Kernel
-- models are used if they cover the op on both sides, for all kernels of an op together; otherwise
-- the roofline of the kernel. Unknown work on another GPU is assumed to be memory-bound: its floor
-- becomes the other's floor, and the rest scales with the bandwidths. Collectives use models that
-- measured both sides, if no network is given that messages would use; otherwise the roofline of
-- the links. On another GPU, those of more than 8 ranks use a network, which does not change, and
-- stay. Copies, and work of unknown shape or type, stay if another type is requested. At another
-- batch size, unknown work beyond its floor scales with the elements of its op; if these are
-- unknown, it stays. Bands hold four of five factors (`prediction.ratio_error`): those of models
-- are of both predictions; those of unknown work reach from the least to the greatest factor that
-- it may have: fp32 arithmetic does not count for products of 16 bits, by name. Unchanged work
-- has none. Without edits it is empty.
-- One row per scenario and GPU op that it moves.
-- Key: scenario, gpu_op_id.
CREATE TABLE prediction.changed_time (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- The change, as in `prediction.work_change`.
    change,
    -- Family, see `prediction.kernel_efficiency`; `unknown` if the work is.
    family,
    -- [ns] Its measured duration; for a collective, from when all ranks have started.
    measured_ns,
    -- Basis of the factor: `model`, `roofline`, `links`, `bandwidth`, `size`; `unchanged` if
    -- nothing changes, `unknown` if it is not known how it scales with the batch.
    basis,
    -- The factor for its time.
    ratio,
    -- Lower end of the factor's band.
    low_ratio,
    -- Upper end of the factor's band.
    high_ratio,
    -- Whether shapes, types and hardware are known and, for models, within their training
    -- range.
    in_range,
    -- The recorded batch size; NULL if not relevant.
    recorded_batch,
    -- How it is known which sizes scale with the batch, as in `reference.scaled_argument`.
    sizes_from
) AS
WITH
-- Models predict the time of a whole op.
estimate AS (
    SELECT
        estimate.*,
        CASE
            WHEN count(model_ns) OVER op = count(*) OVER op THEN sum(model_ns) OVER op
        END AS op_model_ns
    FROM reference.changed_estimate AS estimate
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    WINDOW op AS (PARTITION BY change, coalesce(op_id, -estimate.gpu_op_id))
),

known AS (
    SELECT
        work.scenario, work.gpu_op_id, work.trace_id, work.change,
        coalesce(roofline.family, 'unknown') AS family,
        greatest(
            coalesce(absent_waiting_ns + moving_ns, gpu_op.end_ns - gpu_op.start_ns), 0
        ) AS measured_ns,
        scaled.recorded_batch, scaled.sizes_from,
        work.to_batch IS NOT NULL AND (scaled.op_id IS NULL OR scaled.unknown IS NOT NULL)
        AS is_unknown,
        coalesce(scaled.size_share, 1) AS growth,
        coalesce(scaled.input_dims, scaled.output_dims, scaled.concrete_inputs) IS NULL
        AS is_same_size,
        coalesce(to_gpu, to_dtype, work.to_ranks::VARCHAR) IS NULL AS is_only_batch,
        CASE
            WHEN is_only_batch AND is_unknown THEN 'unknown'
            WHEN is_only_batch AND is_same_size THEN 'unchanged'
            WHEN roofline.family = 'collective' AND message.ranks > 8 AND to_gpu IS NOT NULL
                AND work.to_ranks IS NULL
                THEN 'unchanged'
            WHEN
                to_gpu IS NULL AND work.to_ranks IS NULL AND is_same_size
                AND (roofline.family IN ('memcpy', 'memset') OR is_dtype_known IS NOT TRUE)
                THEN 'unchanged'
            WHEN
                changed.op_model_ns > 0
                AND usual.op_model_ns > 0
                AND (roofline.family <> 'collective' OR (
                    changed.model_in_range AND usual.model_in_range
                    AND NOT coalesce(network > 0 AND (leaves_node OR leaves_node_then), false)
                ))
                THEN 'model'
            WHEN changed.gpu_op_id IS NOT NULL AND usual.gpu_op_id IS NOT NULL THEN 'roofline'
            WHEN to_gpu IS NOT NULL THEN if(is_collective, 'links', 'bandwidth')
            WHEN NOT is_same_size THEN 'size'
            ELSE 'unchanged'
        END AS basis,
        CASE basis
            WHEN 'model' THEN changed.op_model_ns / usual.op_model_ns
            WHEN 'roofline' THEN changed.roofline_ns / nullif(usual.roofline_ns, 0)
            WHEN 'links' THEN coalesce(moved.link_ratio, 1) * growth
            WHEN 'unchanged' THEN 1
            WHEN 'unknown' THEN 1
            ELSE coalesce(
                (
                    least(measured_ns, coalesce(own.floor_ns, 0)) * coalesce(moved.floor_ratio, 1)
                    + greatest(measured_ns - coalesce(own.floor_ns, 0), 0)
                    * growth * coalesce(moved.memory_ratio, 1)
                ) / nullif(measured_ns, 0),
                1
            )
        END AS ratio,
        if(basis = 'roofline' AND family = 'gemm', roofline.unit, 'any') AS products_in,
        basis IN ('unchanged', 'unknown')
        OR (coalesce(to_gpu = device.hardware, true) AND ratio = 1) AS is_same,
        -- Ratios between one node and several are off by up to 3.6 (own network: 1.5 to 2.5);
        -- hosts reach 0.25 to 0.56 of PCIe (`prediction.kernel_efficiency`).
        if(leaves_node <> leaves_node_then, if(network IS NULL, 2.2, 1.4), 1)
        * if(to_gpu IS NOT NULL AND NOT device.is_known, 4, 1)
        * if(to_gpu IS NOT NULL AND roofline.family = 'memcpy', 1.5, 1)
        * if(is_collective, coalesce(moved.link_error, 1), 1) AS doubt,
        exp(sqrt(
            ln(changed.model_low_ns / changed.model_ns) ** 2
            + ln(usual.model_high_ns / usual.model_ns) ** 2
        )) AS low_error,
        exp(sqrt(
            ln(changed.model_high_ns / changed.model_ns) ** 2
            + ln(usual.model_low_ns / usual.model_ns) ** 2
        )) AS high_error,
        CASE basis
            WHEN 'bandwidth'
                THEN coalesce(if(is_half, least_half_ratio, least_ratio), 1) * least(growth, 1)
            WHEN 'links' THEN least(ratio, growth)
            WHEN 'size' THEN least(growth, 1)
            WHEN 'model' THEN ratio / low_error
            ELSE ratio
        END AS least_ratio,
        CASE basis
            WHEN 'bandwidth' THEN greatest(growth, 1)
                * coalesce(if(is_half, greatest_half_ratio, greatest_ratio), 1)
            WHEN 'links' THEN greatest(ratio, growth)
            WHEN 'size' THEN greatest(growth, 1)
            WHEN 'model' THEN ratio * high_error
            ELSE ratio
        END AS greatest_ratio,
        CASE basis
            WHEN 'model' THEN changed.model_in_range AND usual.model_in_range
            WHEN 'roofline' THEN changed.roofline_in_range AND usual.roofline_in_range
        END AS in_range
    FROM prediction.work_change AS work
    INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
    LEFT JOIN prediction.kernel_name AS named ON gpu_op.name = named.name
    LEFT JOIN prediction.kernel_roofline AS roofline USING (gpu_op_id)
    LEFT JOIN reference.scaled_argument AS scaled
        ON
            work.to_batch = scaled.to_batch
            AND work.from_batch = scaled.from_batch
            AND work.op_id = scaled.op_id
    LEFT JOIN graph.collective AS collective ON work.gpu_op_id = collective.node_id
    LEFT JOIN prediction.op_shape AS shape ON work.op_id = shape.op_id
    LEFT JOIN prediction.collective_change AS message USING (scenario, gpu_op_id)
    LEFT JOIN estimate AS usual
        ON work.gpu_op_id = usual.gpu_op_id AND work.recorded = usual.change
    LEFT JOIN estimate AS changed
        ON work.gpu_op_id = changed.gpu_op_id AND work.change = changed.change
    LEFT JOIN prediction.kernel_device AS device
        ON gpu_op.trace_id = device.trace_id AND gpu_op.device = device.device
    LEFT JOIN prediction.hardware AS own ON device.hardware = own.hardware
    LEFT JOIN prediction.gpu_ratio AS moved
        ON device.hardware = moved.hardware AND to_gpu = moved.to_hardware
)

SELECT
    scenario, gpu_op_id, trace_id, change, family, measured_ns, basis, ratio,
    if(is_same, ratio, least(least_ratio / coalesce(doubt * off_by, 1), ratio)),
    if(is_same, ratio, greatest(greatest_ratio * coalesce(doubt * off_by, 1), ratio)),
    coalesce(in_range, false),
    recorded_batch,
    sizes_from
FROM known
LEFT JOIN prediction.ratio_error USING (basis, products_in);
