-- What ops that compute on the host take themselves at another batch size
-- (`prediction.op_change`): what they take however little there is to do
-- (`prediction.op_floor`), and the rest times what a roofline says of their work then over
-- what it says of it as recorded. Its peaks are what the trace itself reaches at best
-- (`prediction.host_peak`), so that a machine and what an op makes of it cancel; caches do
-- not, which larger tensors may leave. What is of unknown work goes with the elements of its
-- tensors; where these are not known, it stays.
-- Without edits it is empty.
-- One row per scenario and op that it puts at another batch size.
-- Key: scenario, op_id.
CREATE TABLE prediction.changed_op_time (
    -- The scenario.
    scenario,
    -- The op.
    op_id,
    -- The trace it is from.
    trace_id,
    -- What is changed, as in `prediction.op_change`.
    change,
    -- Family, as in `prediction.op_work`; `unknown` where the work is.
    family,
    -- [ns] Its own time, as measured.
    own_ns,
    -- [ns] Of that what it takes whatever its work.
    floor_ns,
    -- What tells how the rest changes: `roofline`, or `size` of tensors; `unchanged` where
    -- nothing does, or there is no rest, `unknown` where it is not known what another batch
    -- size does to it.
    basis,
    -- What the rest is multiplied by.
    ratio,
    -- [ns] Its own time then.
    changed_ns,
    -- The batch size that it was recorded with.
    recorded_batch,
    -- What tells how sizes follow the batch, as in `reference.scaled_argument`.
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
        op.own_ns,
        least(
            coalesce(op_floor.floor_ns, peak.floor_ns, 5_000)::BIGINT, op.own_ns
        ) AS least_ns,
        prediction.roofline_ns(usual.flops, usual.bytes, flops_per_second, bytes_per_second)
        AS usual_ns,
        prediction.roofline_ns(changed.flops, changed.bytes, flops_per_second, bytes_per_second)
        AS then_ns,
        CASE
            WHEN least_ns >= op.own_ns OR prediction.computes_nothing(op.name) THEN 'unchanged'
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
            WHEN 'size' THEN scaled.size_share
            ELSE 1
        END AS ratio,
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
    recorded_batch,
    sizes_from
FROM known;
