-- Elements of tensors: their sizes and what multiplies them, by the names that profilers
-- and execution graphs use. Names are case-sensitive: `Int` is a number, `int` a tensor of
-- such. No profiler records `tf32`: it is what kernel models call `float` where names of
-- kernels show that type.
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
    model_dtype,
    -- Units that multiply its matrices, as in `prediction.arithmetic_unit`.
    unit
) AS
SELECT dtype, element_bytes::BIGINT, is_floating, model_dtype, unit
FROM (VALUES
    ('double', 8, true, 'float64', 'fp64_matrix'),
    ('float', 4, true, 'float32', 'fp32'),
    ('tf32', 4, true, 'tf32', 'tf32'),
    ('c10::Half', 2, true, 'float16', 'half'),
    ('c10::BFloat16', 2, true, 'bfloat16', 'half'),
    ('c10::Float8_e4m3fn', 1, true, 'float8', 'byte'),
    ('c10::Float8_e5m2', 1, true, 'float8', 'byte'),
    ('c10::Float8_e4m3fnuz', 1, true, 'float8', 'byte'),
    ('c10::Float8_e5m2fnuz', 1, true, 'float8', 'byte'),
    ('c10::Float8_e8m0fnu', 1, true, 'float8', 'byte'),
    ('c10::Float4_e2m1fn_x2', 1, true, 'float4', 'fp4'),
    ('c10::complex<c10::Half>', 4, true, 'complex32', 'fp32'),
    ('c10::complex<float>', 8, true, 'complex64', 'fp32'),
    ('c10::complex<double>', 16, true, 'complex128', 'fp64_matrix'),
    ('long int', 8, false, 'int64', 'fp32'),
    ('long', 8, false, 'int64', 'fp32'),
    ('int', 4, false, 'int32', 'fp32'),
    ('short int', 2, false, 'int16', 'fp32'),
    ('short', 2, false, 'int16', 'fp32'),
    ('signed char', 1, false, 'int8', 'byte'),
    ('unsigned char', 1, false, 'uint8', 'byte'),
    ('unsigned short', 2, false, 'uint16', 'fp32'),
    ('unsigned int', 4, false, 'uint32', 'fp32'),
    ('unsigned long', 8, false, 'uint64', 'fp32'),
    ('bool', 1, false, 'bool', 'fp32'),
    ('c10::qint8', 1, false, 'int8', 'byte'),
    ('c10::quint8', 1, false, 'uint8', 'byte')
) AS listed (dtype, element_bytes, is_floating, model_dtype, unit);
