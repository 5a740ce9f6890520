-- Size of the elements of tensors, by the names that profilers and execution graphs use.
-- Names are case-sensitive: `Int` is a number, `int` a tensor of such.
-- One row per type.
-- Key: dtype.
CREATE VIEW prediction.op_dtype (
    -- Name of the type.
    dtype,
    -- [B] Size of an element.
    element_bytes,
    -- Whether it holds fractions.
    is_floating
) AS
SELECT dtype, element_bytes::BIGINT, is_floating
FROM (VALUES
    ('double', 8, true),
    ('float', 4, true),
    ('c10::Half', 2, true),
    ('c10::BFloat16', 2, true),
    ('c10::Float8_e4m3fn', 1, true),
    ('c10::Float8_e5m2', 1, true),
    ('c10::Float8_e4m3fnuz', 1, true),
    ('c10::Float8_e5m2fnuz', 1, true),
    ('c10::complex<float>', 8, true),
    ('c10::complex<double>', 16, true),
    ('long int', 8, false),
    ('long', 8, false),
    ('int', 4, false),
    ('short int', 2, false),
    ('short', 2, false),
    ('signed char', 1, false),
    ('unsigned char', 1, false),
    ('bool', 1, false),
    ('c10::qint8', 1, false),
    ('c10::quint8', 1, false)
) AS listed (dtype, element_bytes, is_floating);
