-- A regular expression that matches a name and nothing else.
CREATE MACRO staging.as_pattern(
    -- The name.
    name
) AS (
    regexp_replace(name, '([][\\.*+?^${}()|])', '\\\1', 'g')
);
