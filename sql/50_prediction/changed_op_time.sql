-- Predicted self time of ops that compute on the host at another batch size
-- (`prediction.op_change`): a fixed part, independent of the work (`prediction.op_floor`),
-- and the rest multiplied by the roofline of the new work over that of the recorded work.
-- Its peaks are the best that the trace itself reaches (`prediction.host_peak`), so the
-- machine and how well an op uses it cancel; caches do not, because larger tensors may no
-- longer fit. Unknown work scales with the batch size, or with the elements of its tensors if
-- these change by more; if they are unknown, it stays. So does the time of an op around the one
-- that does its work (`prediction.wrapping_op`). Bands hold four of five ops: work to the power
-- of 0.85 to 1.15, and unknown work either with the batch size or with its tensors.
-- Without edits it is empty.
-- One row per scenario and op whose batch size it changes.
-- Key: scenario, op_id.
CREATE TABLE prediction.changed_op_time (
    -- The scenario.
    scenario,
    -- The op.
    op_id,
    -- The trace.
    trace_id,
    -- The change, as in `prediction.op_change`.
    change,
    -- Family, as in `prediction.op_work`; `unknown` if the work is.
    family,
    -- [ns] Its measured self time.
    own_ns,
    -- [ns] The fixed part of it, independent of the work.
    floor_ns,
    -- Basis of the change: `roofline`, or `size` of tensors; `unchanged` if nothing changes
    -- or there is no rest, `unknown` if it is not known how it scales with the batch.
    basis,
    -- The factor for the rest.
    ratio,
    -- [ns] Its predicted self time.
    changed_ns,
    -- [ns] Lower end of its band.
    low_ns,
    -- [ns] Upper end of its band.
    high_ns,
    -- The recorded batch size.
    recorded_batch,
    -- How it is known which sizes scale with the batch, as in `reference.scaled_argument`.
    sizes_from
) AS
WITH
known AS (
    SELECT
        change.scenario,
        op.op_id,
        op.trace_id,
        change.change,
        coalesce(usual.family, 'unknown') AS family,
        change.to_batch / nullif(scaled.recorded_batch, 0) AS growth,
        op.own_ns,
        least(
            coalesce(op_floor.floor_ns, peak.floor_ns, 5_000)::BIGINT, op.own_ns
        ) AS least_ns,
        prediction.roofline_ns(usual.flops, usual.bytes, flops_per_second, bytes_per_second)
        AS usual_ns,
        prediction.roofline_ns(changed.flops, changed.bytes, flops_per_second, bytes_per_second)
        AS then_ns,
        CASE
            WHEN
                least_ns >= op.own_ns
                OR prediction.computes_nothing(op.name)
                OR wrapping.op_id IS NOT NULL
                THEN 'unchanged'
            WHEN scaled.op_id IS NULL OR scaled.unknown IS NOT NULL THEN 'unknown'
            WHEN
                coalesce(scaled.input_dims, scaled.output_dims, scaled.concrete_inputs)
                IS NULL
                THEN 'unchanged'
            WHEN usual_ns > 0 AND then_ns IS NOT NULL THEN 'roofline'
            ELSE 'size'
        END AS basis,
        CASE basis
            WHEN 'roofline' THEN then_ns / nullif(usual_ns, 0)
            WHEN 'size' THEN if(growth < 1, least(size_share, growth), greatest(size_share, growth))
            ELSE 1
        END AS ratio,
        exp(0.15 * abs(ln(greatest(ratio, 1e-9)))) AS off_by,
        -- The other end of what unknown work may follow.
        CASE basis WHEN 'size' THEN size_share WHEN 'unknown' THEN growth END AS other_ratio,
        least(ratio / off_by, other_ratio) AS low_ratio,
        greatest(ratio * off_by, other_ratio) AS high_ratio,
        scaled.recorded_batch,
        scaled.sizes_from
    FROM prediction.op_change AS change
    INNER JOIN prediction.computing_op AS op USING (op_id)
    LEFT JOIN reference.scaled_argument AS scaled
        ON
            change.to_batch = scaled.to_batch
            AND change.from_batch = scaled.from_batch
            AND op.op_id = scaled.op_id
    LEFT JOIN reference.op_estimate AS usual ON op.op_id = usual.op_id AND usual.change = ''
    LEFT JOIN reference.op_estimate AS changed
        ON op.op_id = changed.op_id AND change.change = changed.change
    LEFT JOIN prediction.wrapping_op AS wrapping ON op.op_id = wrapping.op_id
    LEFT JOIN prediction.host_peak AS peak ON op.trace_id = peak.trace_id
    LEFT JOIN prediction.op_floor AS op_floor
        ON op.trace_id = op_floor.trace_id AND op.name = op_floor.name
)

SELECT
    scenario,
    op_id,
    trace_id,
    change,
    family,
    own_ns,
    least_ns,
    basis,
    ratio,
    (least_ns + round((own_ns - least_ns) * ratio))::BIGINT,
    (least_ns + round((own_ns - least_ns) * low_ratio))::BIGINT,
    (least_ns + round((own_ns - least_ns) * high_ratio))::BIGINT,
    recorded_batch,
    sizes_from
FROM known;
