-- The kind of a span of host time on a critical path.
-- One row per type of span.
-- Key: type.
CREATE VIEW critical_path.host_kind (
    -- Its type, as in `overhead.timeline`.
    type,
    -- `host_op`, `launch`, `host_gap`, `data_loading` or `wait`.
    kind
) AS
SELECT
    type,
    CASE
        WHEN type IN ('T2', 'T3', 'T5') THEN 'host_op'
        WHEN type = 'T4' THEN 'launch'
        WHEN type = 'T1' THEN 'host_gap'
        WHEN type = 'wait_data' THEN 'data_loading'
        WHEN type = 'wait_rank' THEN 'rank_wait'
        ELSE 'wait'
    END
FROM (SELECT DISTINCT type FROM overhead.timeline);
