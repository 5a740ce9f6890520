-- Whether most of a trace's time is in times similar to their median; an aggregate.
CREATE MACRO staging.divides(
    -- [ns] A time that could be a step.
    time_ns,
    -- [ns] Median of these times.
    median_ns,
    -- [ns] How long the trace lasts.
    span_ns
) AS (
    2 * sum(time_ns) FILTER (time_ns BETWEEN median_ns / 2 AND median_ns * 2)
    >= any_value(span_ns)
);
