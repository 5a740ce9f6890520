-- GPUs of a node, and how many of them are linked. Bridges, by the datasheets, join two
-- cards, or up to four H200 NVL, MI100 and MI210. All GPUs of an NVL72 are one node: NVLink
-- connects them.
-- One row per device model.
-- Key: hardware.
CREATE TABLE prediction.gpu_node (
    -- Name of the model, as in `prediction.hardware`.
    hardware,
    -- GPUs per node.
    devices_per_node,
    -- GPUs that a bridge joins; NULL if there is no bridge.
    linked_devices
) AS
SELECT
    hardware,
    CASE
        WHEN hardware = 'CPU' THEN 1
        WHEN regexp_matches(hardware, '^(GH200|MI300A)') THEN 4
        WHEN regexp_matches(hardware, '^GB[23]00') THEN 72
        ELSE 8
    END::BIGINT,
    CASE
        WHEN hardware IN ('H200 NVL', 'MI100', 'MI210') THEN 4
        WHEN
            hardware IN (
                'A100 PCIe', 'A800 PCIe', 'H100 PCIe', 'H800 PCIe', 'H100 NVL', 'A30', 'A40',
                'RTX A6000', 'RTX 3090', 'RTX 2080 Ti'
            )
            THEN 2
    END::BIGINT
FROM prediction.datasheet;
