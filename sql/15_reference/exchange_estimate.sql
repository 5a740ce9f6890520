-- The time of all-to-alls between the ranks of `reference.sharding`, by message size: what
-- the rank with the most traffic sends or receives, including its own part. Between two
-- sizes, the time is interpolated linearly.
-- One row per size.
-- Key: message_bytes.
CREATE TABLE reference.exchange_estimate (
    -- [B] The message.
    message_bytes BIGINT NOT NULL,
    -- [ns] The time; never less than that of a smaller message.
    estimate_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    high_ns BIGINT NOT NULL,
    -- Name of the kernel model; NULL: from the links' bandwidth.
    model VARCHAR
);
