-- The types of operations in pipeline-parallel training that tables of operations contain,
-- and their properties.
-- One row per type.
-- Key: type.
CREATE VIEW staging.operation_type (
    -- Name of the type.
    type,
    -- Name of its group in results: sends and receives of one direction are one group.
    op_type,
    -- `compute`, `send` or `recv` (receive) between stages, `collective`, or `other`.
    kind,
    -- `forward` or `backward`, for operations of a microbatch.
    direction,
    -- Whether it moves data: its typical time is then the median, otherwise the mean.
    is_communication,
    -- Which operations form one and end together: a `pair` (a send and its receive), those
    -- of all data-parallel ranks of the `stage`, of the `ends` (first and last stage of a
    -- data-parallel rank), or of the whole `job`; NULL if it is alone.
    peers,
    -- The lane that executes it in order: `compute`, the type of a send or receive, or
    -- `data_parallel`; NULL for operations that only follow the last computation.
    stream,
    -- Its ordinal among what follows the last computation of a step; NULL for the rest.
    tail
) AS
SELECT *
FROM (
    VALUES
    (
        'forward-compute', 'forward-compute', 'compute', 'forward', false, NULL,
        'compute', NULL
    ),
    (
        'backward-compute', 'backward-compute', 'compute', 'backward', false, NULL,
        'compute', NULL
    ),
    (
        'forward-send', 'forward-pp-comm', 'send', 'forward', true, 'pair',
        'forward-send', NULL
    ),
    (
        'forward-recv', 'forward-pp-comm', 'recv', 'forward', true, 'pair',
        'forward-recv', NULL
    ),
    (
        'backward-send', 'backward-pp-comm', 'send', 'backward', true, 'pair',
        'backward-send', NULL
    ),
    (
        'backward-recv', 'backward-pp-comm', 'recv', 'backward', true, 'pair',
        'backward-recv', NULL
    ),
    (
        'params-all-gather', 'params-all-gather', 'collective', NULL, true, 'stage',
        'data_parallel', NULL
    ),
    ('gc', 'gc', 'other', NULL, false, NULL, NULL, 1),
    (
        'layernorm-grads-all-reduce', 'layernorm-grads-all-reduce', 'collective', NULL,
        true, NULL, NULL, 2
    ),
    (
        'embedding-grads-all-reduce', 'embedding-grads-all-reduce', 'collective', NULL,
        true, 'ends', NULL, 3
    ),
    (
        'grads-reduce-scatter', 'grads-reduce-scatter', 'collective', NULL, true, 'stage',
        'data_parallel', 4
    ),
    (
        'separate-grads-all-reduce', 'separate-grads-all-reduce', 'collective', NULL, true,
        'stage', NULL, 5
    ),
    (
        'optimizer-clip-main-grad', 'optimizer-clip-main-grad', 'collective', NULL, true,
        'job', NULL, 6
    ),
    ('optimizer', 'optimizer', 'other', NULL, false, NULL, NULL, 7)
) AS known (type, op_type, kind, direction, is_communication, peers, stream, tail);
