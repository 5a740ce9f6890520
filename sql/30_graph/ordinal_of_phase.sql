-- The place of a phase (`graph.phase`) in the order in which answers show them, from 1.
CREATE MACRO graph.ordinal_of_phase(
    -- The phase.
    phase
) AS (
    list_position(
        [
            'data_loading', 'inference', 'forward', 'backward', 'gradients', 'optimizer', 'other'
        ],
        phase
    )
);
