-- The shards that tables can be split into: by columns (each shard has all rows and all
-- lookups; in multiples of 4 elements if rows consist of these, as FBGEMM requires), or by
-- rows (each has its part of the lookups, as indices are spread evenly, and its own sums
-- for all examples). Into 2, 4, 8 ... parts, or as many as there are ranks; shards are of
-- equal size, or the first ones are one larger.
-- One row per table, split and size of its shards.
-- Key: ordinal, way, parts, first_part.
CREATE VIEW prediction.embedding_shard (
    -- The table.
    ordinal,
    -- `none` (the table as it is), `column` or `row`.
    way,
    -- Shards of the table.
    parts,
    -- The first shard of this size, from 0.
    first_part,
    -- Number of shards of this size.
    shard_count,
    -- Rows of a shard.
    rows,
    -- Elements per row.
    width,
    -- Mean number of rows looked up per example.
    pooling,
    -- Type of the elements.
    dtype,
    -- Elements looked up per step.
    looked_up,
    -- [B] The shard with its optimizer state.
    memory_bytes,
    -- [B] Sums for the examples of all ranks, which are sent to these; their gradients
    -- return.
    sent_bytes,
    -- [B] Indices from all ranks, of 8 bytes each.
    index_bytes
) AS
WITH
cut AS (
    SELECT
        sharded.*,
        sharding.*,
        way,
        CASE WHEN way = 'column' AND width % 4 = 0 THEN 4 ELSE 1 END AS unit_size,
        CASE way WHEN 'row' THEN sharded.rows ELSE width // unit_size END AS units,
        unnest(CASE
            WHEN way = 'none' THEN [1]
            ELSE list_sort(list_distinct(
                [2 ** power for power in range(1, 13) if 2 ** power <= least(ranks, units)]
                || CASE WHEN ranks BETWEEN 2 AND units THEN [ranks] ELSE [] END
            ))
        END)::BIGINT AS parts
    FROM reference.sharded_table AS sharded
    CROSS JOIN reference.sharding AS sharding
    CROSS JOIN (VALUES ('none'), ('column'), ('row')) AS listed (way)
),

sized AS (
    SELECT
        *,
        unnest([
            {'first': 0, 'count': units % parts, 'units': units // parts + 1},
            {'first': units % parts, 'count': parts - units % parts, 'units': units // parts}
        ]) AS shard,
        shard['units'] * unit_size AS shard_size
    FROM cut
)

SELECT
    ordinal,
    way,
    parts,
    shard['first'],
    shard['count'],
    CASE way WHEN 'row' THEN shard_size ELSE rows END AS shard_rows,
    CASE way WHEN 'row' THEN width ELSE shard_size END AS shard_width,
    CASE way WHEN 'row' THEN pooling * shard_size / rows ELSE pooling END AS shard_pooling,
    dtype,
    round(ranks * batch * shard_pooling * shard_width)::BIGINT,
    shard_rows * (row_state_size + shard_width * (element_size + element_state_size)),
    ranks * batch * shard_width * element_size,
    round(8 * ranks * batch * shard_pooling)::BIGINT
FROM sized
WHERE shard['count'] > 0;
