-- How long all-to-alls between the ranks of `reference.sharding` take, by the size of their
-- message: what the rank sends, or gets, that sends or gets most, its own part included.
-- Between two sizes the time is on the line through them.
-- One row per size.
-- Key: message_bytes.
CREATE TABLE reference.exchange_estimate (
    -- [B] The message.
    message_bytes BIGINT NOT NULL,
    -- [ns] The time; no larger message is faster.
    estimate_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    high_ns BIGINT NOT NULL,
    -- Name of the kernel model; NULL: by the links' bandwidth.
    model VARCHAR
);
