"""What an element of each type takes, and at which rate hardware multiplies it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES: Mapping[str, tuple[int, str, float]] = {
    # type: [B] of an element, the matrix peak in `prediction.hardware`, times what
    "float64": (8, "peak_fp32_flops_per_second", 0.5),
    "float32": (4, "peak_fp32_flops_per_second", 1.0),
    "tf32": (4, "peak_tf32_flops_per_second", 1.0),
    "bfloat16": (2, "peak_half_flops_per_second", 1.0),
    "float16": (2, "peak_half_flops_per_second", 1.0),
    "float8": (1, "peak_half_flops_per_second", 2.0),
    "int8": (1, "peak_half_flops_per_second", 2.0),
    "int64": (8, "peak_fp32_flops_per_second", 1.0),
    "int32": (4, "peak_fp32_flops_per_second", 1.0),
    "int16": (2, "peak_fp32_flops_per_second", 1.0),
    "bool": (1, "peak_fp32_flops_per_second", 1.0),
}
_USUAL = "float32"

ALIKE: Mapping[str, str] = {"bfloat16": "float16"}
"""Types of one size and one rate: a model of one serves the other."""


def element_bytes(dtype: str) -> int:
    """[B] of an element; an unknown type counts as float32."""
    return DTYPES.get(dtype, DTYPES[_USUAL])[0]


def matrix_peak(hardware: Mapping[str, float], dtype: str) -> float:
    """[FLOP/s] Products of this type, as the data sheet promises."""
    _, column, factor = DTYPES.get(dtype, DTYPES[_USUAL])
    share = hardware["matrix_share"] if column == "peak_half_flops_per_second" else 1.0
    return hardware[column] * factor * share
