-- Scenarios that users keep in the database: they insert a row for each edit (`INSERT INTO
-- reference.scenario BY NAME SELECT ...`), and `tracedb whatif DB --stored` carries them out.
-- Rows are as an edit in a file, and checked when they are read.
-- One row per edit.
-- Key: ordinal.
CREATE TABLE reference.scenario (
    -- The scenario.
    scenario VARCHAR,
    -- Ordinal of the edit among all; its order is that of the rows where it is not given.
    ordinal BIGINT,
    -- What it changes, as in `prediction.scenario_edit`; so are the fields that follow.
    target VARCHAR,
    -- Which of these.
    type VARCHAR,
    -- Pattern of the name.
    name VARCHAR,
    -- Pattern of the name of an op around it.
    op VARCHAR,
    -- Pattern of the name of a user range around it.
    annotation VARCHAR,
    -- Pattern of the dimensions of the arguments of an op around it.
    shape VARCHAR,
    -- Pattern of the path of its module.
    module VARCHAR,
    -- Pattern of the family of GPU work.
    family VARCHAR,
    -- Pattern of a collective's process group.
    process_group VARCHAR,
    -- Pattern of the role, the name or the number of the thread.
    thread VARCHAR,
    -- Which part of ops: `self`.
    part VARCHAR,
    -- Phase.
    phase VARCHAR,
    -- Ordinals in a step.
    instance VARCHAR,
    -- Numbers of steps.
    step VARCHAR,
    -- Ranks.
    rank VARCHAR,
    -- Streams.
    stream VARCHAR,
    -- Devices.
    device VARCHAR,
    -- Nodes, as in `graph.node`.
    node VARCHAR,
    -- A query that gives nodes.
    sql VARCHAR,
    -- What is done to it.
    action VARCHAR,
    -- What the time is multiplied by.
    factor DOUBLE,
    -- [ns] What is then added to it.
    add_ns BIGINT,
    -- [ns] What it is set to.
    set_ns BIGINT,
    -- Whose time it is set to: `step_median`, `rank_median` or `rank_min`.
    set_to VARCHAR,
    -- The run whose time it is set to.
    from_run BIGINT,
    -- The GPU that GPU work is put on.
    to_gpu VARCHAR,
    -- The type that its elements become.
    to_dtype VARCHAR,
    -- The batch size that its tensors then have.
    to_batch BIGINT,
    -- The batch size that they were recorded with.
    from_batch BIGINT,
    -- Which gaps stay around removed ops: `longest` or `all`.
    gaps VARCHAR,
    -- Where work is inserted: `before` or `after`.
    place VARCHAR,
    -- [ns] What the launch of inserted work, an inserted op or the launch of a graph takes,
    -- or taking what was fetched ahead.
    host_ns BIGINT,
    -- [ns] Duration of inserted, or fused, work.
    gpu_ns BIGINT,
    -- [ns] Time between work of a graph.
    gap_ns BIGINT,
    -- Stream that work is moved to.
    to_stream BIGINT,
    -- Pattern of the op or range that takes what overlapped work gives.
    until VARCHAR,
    -- Workers that fetch ahead.
    workers BIGINT,
    -- How much each of them fetches ahead.
    ahead BIGINT
);
