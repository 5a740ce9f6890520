-- [ns] The part of a row's time in which no earlier row was running: the sum is the time in
-- which any was.
CREATE MACRO staging.uncovered_ns(
    -- [ns] Start.
    start_ns,
    -- [ns] End; NULL for rows that do not count.
    end_ns,
    -- The scope of the time: a trace or a step.
    scope_id,
    -- Device.
    device,
    -- Stream; NULL if the whole device counts as one.
    stream
) AS (
    greatest(
        end_ns - greatest(
            start_ns,
            max(end_ns) OVER (
                PARTITION BY scope_id, device, stream ORDER BY start_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ),
        0
    )
);
