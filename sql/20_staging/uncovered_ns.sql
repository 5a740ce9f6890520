-- [ns] The part of a row's time in which no row before it was running: its sum is the time
-- in which any was.
CREATE MACRO staging.uncovered_ns(
    -- [ns] Begin.
    start_ns,
    -- [ns] End; NULL of rows that do not count.
    end_ns,
    -- What the time is of: a trace or a step.
    scope_id,
    -- Device.
    device,
    -- Stream; NULL where all of the device count together.
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
