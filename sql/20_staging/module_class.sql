-- The path of a module with `*` for the number of each module in it, so that equal layers
-- have the same one: `Net_*/Block_*/Linear_*`.
CREATE MACRO staging.module_class(
    -- The path, as in `staging.module_call`.
    path
) AS (
    regexp_replace(path, '_\d+(/|$)', '_*\1', 'g')
);
