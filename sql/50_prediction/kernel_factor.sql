-- Calibration of kernel times by the trace: a factor for each problem, learned from the
-- others. Nothing is predicted from its own time: the sums exclude its step if the GPU works
-- in several, otherwise the problem itself (`prediction.kernel_sample`). A factor is a mean of
-- logarithms of measured divided by predicted times, shrunk level by level: the trace's
-- towards 1 (separately for work of 12 us and more, and for shorter work, which floors
-- dominate), a family's towards the trace's, an op's towards its family's, that of an op's
-- work of similar duration (within a factor of 2) towards the op's, and a shape's towards
-- that. Each level counts as a number of votes (4, 4, 2, 1, a third) for the next. Above the
-- level of shapes, each shape has one vote, however often it recurs, and no ratio counts as
-- more than 12. Traces of other databases have a quarter of a vote. GPUs of different kinds in
-- a trace learn nothing from each other. If a model and the roofline both predict a family,
-- and the trace has at least five other shapes of it, the one that is closer there after
-- calibration is used.
-- One row per problem: the kernels of an op, a copy, a memset.
-- Key: problem_id.
CREATE TABLE prediction.kernel_factor (
    -- The op, or the copy or memset.
    problem_id,
    -- The trace.
    trace_id,
    -- The predictor in use: the `roofline`, or a `model`.
    basis,
    -- The factor for its prediction.
    factor,
    -- The closest level with calibration: `shape`, `size` (of this op), `op`, `family`,
    -- `trace`; `none` if it is alone.
    learnt_from,
    -- Factor by which four of five others in the trace and family, calibrated at this
    -- level, were longer or shorter than predicted; NULL if there are fewer than five.
    spread_factor
) AS
WITH
sample AS (
    SELECT * FROM prediction.kernel_sample
),

-- The votes of a shape's samples that leave out the same. Calibrations from other databases
-- are added to the trace's, and are never excluded.
voted AS MATERIALIZED (
    SELECT
        trace_id, hardware, basis, family, op, octave, shape_key, left_out_id,
        row_number() OVER () AS group_id,
        count(*) AS times,
        avg(log_ratio) AS log_ratio,
        count(*) / sum(count(*)) OVER (
            PARTITION BY hash(trace_id, hardware, basis, octave, shape_key)
        ) AS votes
    FROM sample
    GROUP BY trace_id, hardware, basis, family, op, octave, shape_key, left_out_id
    UNION ALL BY NAME
    SELECT
        lesson.* EXCLUDE (trace_sha256),
        own.trace_id,
        1 AS times,
        0.25 AS votes
    FROM reference.kernel_lesson AS lesson
    INNER JOIN (SELECT DISTINCT trace_id, hardware FROM sample) AS own USING (hardware)
    INNER JOIN staging.trace AS trace ON own.trace_id = trace.trace_id
    WHERE lesson.trace_sha256 <> trace.sha256
),

-- Each group at all levels, from coarse to fine. Groups with the same `level_id` learn from
-- each other, but not from those with the same `own_id`.
placed AS MATERIALIZED (
    SELECT
        group_id,
        fineness,
        CASE fineness
            WHEN 1 THEN hash(1, trace_id, hardware, basis, octave <= 13)
            WHEN 2 THEN hash(2, trace_id, hardware, basis, family)
            WHEN 3 THEN hash(3, trace_id, hardware, basis, family, op)
            WHEN 4 THEN hash(4, trace_id, hardware, basis, family, op, octave)
            ELSE hash(5, trace_id, hardware, basis, octave, shape_key)
        END AS level_id,
        hash(level_id, left_out_id) AS own_id,
        CASE WHEN fineness < 5 THEN votes ELSE times END AS weight,
        weight * CASE WHEN fineness < 5 THEN greatest(least(log_ratio, 2.5), -2.5)
            ELSE log_ratio END AS said
    FROM voted
    CROSS JOIN (VALUES (1), (2), (3), (4), (5)) AS level (fineness)
),

-- Votes of all except the excluded ones, and their combined value.
other AS (
    SELECT
        own_id,
        sum(sum(weight)) OVER (PARTITION BY level_id) - sum(weight) AS votes,
        sum(sum(said)) OVER (PARTITION BY level_id) - sum(said) AS said
    FROM placed
    GROUP BY own_id, level_id
),

combined AS (
    SELECT
        group_id,
        sum(other.votes) FILTER (fineness = 1) AS trace_votes,
        sum(other.said) FILTER (fineness = 1) AS trace_said,
        sum(other.votes) FILTER (fineness = 2) AS family_votes,
        sum(other.said) FILTER (fineness = 2) AS family_said,
        sum(other.votes) FILTER (fineness = 3) AS op_votes,
        sum(other.said) FILTER (fineness = 3) AS op_said,
        sum(other.votes) FILTER (fineness = 4) AS size_votes,
        sum(other.said) FILTER (fineness = 4) AS size_said,
        sum(other.votes) FILTER (fineness = 5) AS shape_times,
        sum(other.said) FILTER (fineness = 5) AS shape_said
    FROM placed
    INNER JOIN other USING (own_id)
    GROUP BY group_id
),

learnt AS (
    SELECT
        *,
        trace_said / (trace_votes + 4) AS of_trace,
        (family_said + 4 * of_trace) / (family_votes + 4) AS of_family,
        (op_said + 2 * of_family) / (op_votes + 2) AS of_op,
        (size_said + of_op) / (size_votes + 1) AS of_size,
        (shape_said + of_size / 3) / (shape_times + 1 / 3) AS of_shape,
        CASE
            WHEN shape_times > 0.5 THEN 'shape'
            WHEN size_votes > 0.1 THEN 'size'
            WHEN op_votes > 0.1 THEN 'op'
            WHEN family_votes > 0.1 THEN 'family'
            WHEN trace_votes > 0.1 THEN 'trace'
            ELSE 'none'
        END AS learnt_from
    FROM voted
    INNER JOIN combined USING (group_id)
),

scored AS (
    SELECT
        *,
        sum(votes * abs(log_ratio - of_size)) OVER family AS family_off,
        (family_off - sum(votes * abs(log_ratio - of_size)) OVER own_family)
        / nullif(family_votes, 0) AS rival_error,
        sum(times) OVER level - sum(times) OVER own_level AS level_times,
        sum(times * abs(log_ratio - of_shape)) OVER level
        - sum(times * abs(log_ratio - of_shape)) OVER own_level AS level_off
    FROM learnt
    WINDOW
        family AS (PARTITION BY hash(trace_id, hardware, basis, family)),
        own_family AS (PARTITION BY hash(trace_id, hardware, basis, family, left_out_id)),
        level AS (PARTITION BY hash(trace_id, hardware, basis, family, learnt_from)),
        own_level AS (PARTITION BY hash(trace_id, hardware, basis, family, learnt_from, left_out_id))
)

-- For errors distributed evenly on a logarithmic scale, four of five are below ln(5) times
-- their mean. Rounded, because floating-point sums depend on the order: to six digits, and
-- small ones to six significant ones.
SELECT
    problem_id,
    trace_id,
    serving.basis,
    round(
        exp(serving.of_shape), 6 + greatest(-floor(serving.of_shape / ln(10)), 1)::INTEGER - 1
    ),
    serving.learnt_from,
    round(exp(ln(5) * serving.level_off / serving.level_times), 6)
FROM (
    SELECT
        problem_id,
        sample.trace_id,
        arg_min(
            {
                'basis': basis,
                'of_shape': of_shape,
                'learnt_from': learnt_from,
                'level_off': greatest(level_off, 0),
                'level_times': CASE WHEN level_times > 4.5 THEN level_times END
            },
            CASE
                WHEN family_votes > 4.9 THEN rival_error
                ELSE CASE basis WHEN 'model' THEN 0 ELSE 1e9 END
            END
        ) AS serving
    FROM sample
    INNER JOIN scored USING (trace_id, hardware, basis, octave, shape_key, left_out_id)
    GROUP BY problem_id, sample.trace_id
);
