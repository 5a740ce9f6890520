-- Scenarios that users keep in the database: insert a row for each edit (`INSERT INTO
-- reference.scenario BY NAME SELECT ...`), and apply them with `tracedb whatif DB
-- --stored`. A row has the fields of an edit in a file, and is checked when it is read.
-- One row per edit.
-- Key: ordinal.
CREATE TABLE reference.scenario (
    -- The scenario.
    scenario VARCHAR,
    -- Ordinal of the edit among all; if missing, the order of the rows.
    ordinal BIGINT,
    -- What it changes, as in `prediction.scenario_edit`, which also explains the following
    -- fields.
    target VARCHAR,
    -- The type.
    type VARCHAR,
    -- Pattern for the name.
    name VARCHAR,
    -- Pattern for the name of an enclosing op.
    op VARCHAR,
    -- Pattern for the name of an enclosing user range.
    annotation VARCHAR,
    -- Pattern for the name of an enclosing Python function.
    function VARCHAR,
    -- Pattern for the dimensions of the arguments of an enclosing op.
    shape VARCHAR,
    -- Pattern for the path of its module.
    module VARCHAR,
    -- Pattern for the family of GPU work.
    family VARCHAR,
    -- Pattern for a collective's process group.
    process_group VARCHAR,
    -- Pattern for the name of the awaited GPU work.
    awaited VARCHAR,
    -- Pattern for the name of an op that encloses its launch.
    awaited_op VARCHAR,
    -- Streams of the awaited GPU work.
    awaited_stream VARCHAR,
    -- Devices of the awaited GPU work.
    awaited_device VARCHAR,
    -- Pattern for the role, the name or the number of the thread.
    thread VARCHAR,
    -- Part of ops: `self`.
    part VARCHAR,
    -- Phase.
    phase VARCHAR,
    -- Ordinals in a step.
    instance VARCHAR,
    -- Step numbers.
    step VARCHAR,
    -- Ranks.
    rank VARCHAR,
    -- Streams.
    stream VARCHAR,
    -- Devices.
    device VARCHAR,
    -- Nodes, as in `graph.node`.
    node VARCHAR,
    -- A query that returns nodes.
    sql VARCHAR,
    -- The action.
    action VARCHAR,
    -- Factor for the time.
    factor DOUBLE,
    -- [ns] What is added after that.
    add_ns BIGINT,
    -- [ns] The time it is set to.
    set_ns BIGINT,
    -- Source of the time it is set to: `step_median`, `rank_median` or `rank_min`.
    set_to VARCHAR,
    -- The run that the time is taken from.
    from_run BIGINT,
    -- The GPU that GPU work moves to.
    to_gpu VARCHAR,
    -- New type of its elements.
    to_dtype VARCHAR,
    -- New batch size of its tensors.
    to_batch BIGINT,
    -- The recorded batch size.
    from_batch BIGINT,
    -- New number of ranks of the groups of its collectives.
    to_ranks BIGINT,
    -- How many of them a node has.
    ranks_per_node BIGINT,
    -- What messages of a GPU reach between nodes, in GB/s.
    network DOUBLE,
    -- Which gaps remain around removed ops: `longest` or `all`.
    gaps VARCHAR,
    -- Where an insertion goes: `before` or `after`.
    place VARCHAR,
    -- [ns] Host time of the inserted launch or op, of the launch of a graph, or of taking
    -- what was prefetched.
    host_ns BIGINT,
    -- [ns] Duration of inserted or fused work.
    gpu_ns BIGINT,
    -- [ns] Time between work of a graph.
    gap_ns BIGINT,
    -- The stream that work moves to.
    to_stream BIGINT,
    -- Pattern for the op or range that consumes overlapped work.
    until VARCHAR,
    -- Workers that prefetch.
    workers BIGINT,
    -- How far ahead each of them prefetches.
    ahead BIGINT
);
