-- The factor for the time of GPU work that a scenario moves, as simulated: that of
-- `prediction.changed_time`, or one end of its band for a part of the work. The three
-- families of kernels with the widest bands are a part each, since they err independently;
-- all others are the fourth.
-- One row per scenario and GPU op that it moves.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.bounded_time (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The factor for its time.
    ratio
) AS
WITH
doubtful AS (
    SELECT
        *,
        round(sum((high_ratio - low_ratio) * measured_ns) OVER (
            PARTITION BY scenario, family
        )) AS doubt_ns
    FROM prediction.changed_time
),

parted AS (
    SELECT
        *,
        least(
            dense_rank() OVER (PARTITION BY scenario ORDER BY doubt_ns DESC, family), 4
        ) AS part
    FROM doubtful
)

SELECT
    parted.scenario,
    gpu_op_id,
    CASE bound
        WHEN 'low ' || part THEN low_ratio
        WHEN 'high ' || part THEN high_ratio
        ELSE ratio
    END
FROM parted
INNER JOIN (
    SELECT scenario, any_value(bound) AS bound FROM prediction.scenario_edit GROUP BY scenario
) AS edit
    ON parted.scenario = edit.scenario;
