-- Size of the elements of tensors, by the names that profilers and execution graphs use.
-- Names are case-sensitive: `Int` is a number, `int` a tensor of such.
-- One row per type.
-- Key: dtype.
CREATE VIEW prediction.op_dtype (
    -- Name of the type.
    dtype,
    -- [B] Size of an element.
    element_bytes,
    -- Whether it is a floating-point type.
    is_floating,
    -- Name used by the kernel models: `float32`, `bfloat16`, `int64` and so on.
    model_dtype
) AS
SELECT dtype, element_bytes::BIGINT, is_floating, model_dtype
FROM (VALUES
    ('double', 8, true, 'float64'),
    ('float', 4, true, 'float32'),
    ('c10::Half', 2, true, 'float16'),
    ('c10::BFloat16', 2, true, 'bfloat16'),
    ('c10::Float8_e4m3fn', 1, true, 'float8'),
    ('c10::Float8_e5m2', 1, true, 'float8'),
    ('c10::Float8_e4m3fnuz', 1, true, 'float8'),
    ('c10::Float8_e5m2fnuz', 1, true, 'float8'),
    ('c10::complex<float>', 8, true, 'complex64'),
    ('c10::complex<double>', 16, true, 'complex128'),
    ('long int', 8, false, 'int64'),
    ('long', 8, false, 'int64'),
    ('int', 4, false, 'int32'),
    ('short int', 2, false, 'int16'),
    ('short', 2, false, 'int16'),
    ('signed char', 1, false, 'int8'),
    ('unsigned char', 1, false, 'uint8'),
    ('bool', 1, false, 'bool'),
    ('c10::qint8', 1, false, 'int8'),
    ('c10::quint8', 1, false, 'uint8')
) AS listed (dtype, element_bytes, is_floating, model_dtype);
