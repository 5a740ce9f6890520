-- Which hardware the devices of a trace are.
-- One row per device of a trace.
-- Key: trace_id, device.
CREATE VIEW prediction.kernel_device (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Device.
    device,
    -- Its row of `prediction.hardware`.
    hardware,
    -- Whether the trace names it and its model is listed.
    is_known
) AS
WITH
named AS (
    SELECT
        run_id,
        trace_id,
        device,
        coalesce(staging.device.name, device_name, '') AS name
    FROM staging.device
    INNER JOIN staging.trace USING (run_id, trace_id)
)

SELECT run_id, trace_id, device, arg_min(hardware, ordinal), NOT arg_min(is_generic, ordinal)
FROM named
INNER JOIN prediction.hardware ON regexp_matches(name, name_pattern, 'i')
GROUP BY run_id, trace_id, device;
