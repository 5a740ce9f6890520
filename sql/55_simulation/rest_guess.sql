-- How much earlier or later rests would end if they were waits for something else
-- (`graph.possible_wait`), of threads whose work the steps need or that launch beside it
-- (`simulation.kept_order`).
-- One row per variant, rest, and what it may have been a wait for.
-- Key: variant_id, thread_id, resume_ns, other_thread_id, at_ns.
CREATE VIEW simulation.rest_guess (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The thread that rests.
    thread_id,
    -- [ns] Time when it continues, as measured.
    resume_ns,
    -- The thread that it may have waited for.
    other_thread_id,
    -- [ns] When that did so, as measured.
    at_ns,
    -- [ns] How much earlier or later.
    guess_ns
) AS
SELECT
    done.variant_id, rest.trace_id, rest.thread_id, resume_ns, other_thread_id,
    at_ns,
    abs(resumed.end_ns - greatest(stopped.end_ns, done.end_ns + resume_ns - at_ns))
    AS guess_ns
FROM graph.possible_wait AS rest
SEMI JOIN (
    SELECT thread_id FROM graph.needed_thread WHERE NOT is_assumed
    UNION ALL
    SELECT launch_thread_id FROM simulation.kept_order
) USING (thread_id)
INNER JOIN overhead.timeline AS span
    ON other_thread_id = span.thread_id AND at_ns = span.end_ns
INNER JOIN overhead.timeline AS rest_span
    ON rest.thread_id = rest_span.thread_id AND resume_ns = rest_span.end_ns
INNER JOIN overhead.timeline AS stop_span
    ON rest.thread_id = stop_span.thread_id AND stop_ns = stop_span.end_ns
INNER JOIN simulation.host_span_time AS done
    ON span.thread_id = done.thread_id AND span.position = done.position
INNER JOIN simulation.host_span_time AS resumed
    ON
        done.variant_id = resumed.variant_id
        AND rest_span.thread_id = resumed.thread_id
        AND rest_span.position = resumed.position
INNER JOIN simulation.host_span_time AS stopped
    ON
        done.variant_id = stopped.variant_id
        AND stop_span.thread_id = stopped.thread_id
        AND stop_span.position = stopped.position;
