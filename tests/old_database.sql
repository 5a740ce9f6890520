-- The raw layer as it was before the names of `CHANGELOG.md`, with some relations of upper
-- layers: a database of this form is what `tracedb upgrade` starts from.
CREATE SCHEMA old.raw;
CREATE SCHEMA old.staging;
CREATE SCHEMA old.prediction;
CREATE TABLE old.raw.calibration (
    hardware VARCHAR NOT NULL,
    trace_id BIGINT,
    basis VARCHAR NOT NULL,
    scale DOUBLE NOT NULL,
    offset_ns BIGINT NOT NULL,
    kernel_count BIGINT NOT NULL,
    other_count BIGINT NOT NULL,
    gmae_before_share DOUBLE NOT NULL,
    gmae_after_share DOUBLE NOT NULL,
    mape_before_share DOUBLE NOT NULL,
    mape_after_share DOUBLE NOT NULL,
    is_applied BOOLEAN NOT NULL
);
CREATE TABLE old.raw.database (
    property VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL
);
CREATE TABLE old.raw.et_node (
    et_node_id BIGINT NOT NULL,
    trace_id BIGINT NOT NULL,
    node JSON NOT NULL USING COMPRESSION zstd
);
CREATE TABLE old.raw.event (
    event_id BIGINT NOT NULL,
    trace_id BIGINT NOT NULL,
    ph VARCHAR,
    cat VARCHAR,
    name VARCHAR,
    pid VARCHAR,
    tid VARCHAR,
    ts_ns BIGINT,
    dur_ns BIGINT,
    id VARCHAR,
    args JSON USING COMPRESSION zstd,
    other JSON
);
CREATE TABLE old.raw.hardware (
    hardware VARCHAR NOT NULL,
    place BIGINT NOT NULL,
    name_pattern VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    peak_fp32_flops_per_second DOUBLE NOT NULL,
    peak_tf32_flops_per_second DOUBLE,
    peak_half_flops_per_second DOUBLE,
    matrix_share DOUBLE,
    dram_bytes_per_second DOUBLE NOT NULL,
    l2_bytes BIGINT NOT NULL,
    l2_bytes_per_second DOUBLE,
    sm_count BIGINT NOT NULL,
    clocks_per_second DOUBLE NOT NULL,
    pcie_bytes_per_second DOUBLE,
    pageable_bytes_per_second DOUBLE,
    nvlink_bytes_per_second DOUBLE,
    floor_ns BIGINT,
    reached_fp32_flops_per_second DOUBLE,
    reached_half_flops_per_second DOUBLE,
    reached_dram_bytes_per_second DOUBLE
);
CREATE TABLE old.raw.ingest_issue (
    trace_id BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    occurrences BIGINT NOT NULL,
    first_bytes BIGINT,
    detail VARCHAR NOT NULL
);
CREATE TABLE old.raw.kernel_estimate (
    event_id BIGINT NOT NULL,
    trace_id BIGINT NOT NULL,
    predicted_ns BIGINT NOT NULL,
    low_ns BIGINT NOT NULL,
    high_ns BIGINT NOT NULL,
    harness_factor DOUBLE NOT NULL,
    model VARCHAR NOT NULL,
    likeness VARCHAR NOT NULL,
    in_range BOOLEAN NOT NULL
);
CREATE TABLE old.raw.library_sample (
    trace_sha256 VARCHAR NOT NULL,
    run_sha256 VARCHAR NOT NULL,
    gpu VARCHAR,
    thread BIGINT NOT NULL,
    position BIGINT NOT NULL,
    step BIGINT NOT NULL,
    type VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    shapes VARCHAR NOT NULL,
    place BIGINT NOT NULL,
    place_count BIGINT NOT NULL,
    sample_ns BIGINT NOT NULL
);
CREATE TABLE old.raw.nesting (
    event_id BIGINT NOT NULL,
    trace_id BIGINT NOT NULL,
    parent_event_id BIGINT NOT NULL,
    outermost_event_id BIGINT NOT NULL,
    top_event_id BIGINT
);
CREATE TABLE old.raw.pairing (
    event_id BIGINT NOT NULL,
    trace_id BIGINT NOT NULL,
    et_node_id BIGINT NOT NULL,
    occurrence BIGINT NOT NULL
);
CREATE TABLE old.raw.run (
    run_id BIGINT PRIMARY KEY,
    name VARCHAR NOT NULL
);
CREATE TABLE old.raw.trace (
    trace_id BIGINT PRIMARY KEY,
    run_id BIGINT NOT NULL,
    path VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    header JSON NOT NULL,
    event_count BIGINT NOT NULL,
    paired_trace_id BIGINT,
    pairing VARCHAR,
    step_mark VARCHAR,
    step_from VARCHAR
);
CREATE TABLE old.staging.launch (launch_id BIGINT, name VARCHAR);
CREATE TABLE old.staging.kernel (kernel_id BIGINT, launch_id BIGINT);
CREATE VIEW old.prediction.rung AS SELECT 'replay' AS rung;
