-- What wrote this database.
-- One row per property.
-- Key: property.
CREATE TABLE raw.database (
    -- `version` of tracedb, `fingerprint` of its relations, and what each of them is
    -- `empty_without`, as JSON.
    property VARCHAR PRIMARY KEY,
    -- Its value.
    value VARCHAR NOT NULL
);
