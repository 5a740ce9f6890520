"""What an element of each type takes, and at which rate hardware multiplies it.

Types and rates are those of traces (`prediction.op_dtype`, `arithmetic_unit`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .relations import declared

if TYPE_CHECKING:
    from collections.abc import Mapping

USUAL = "float32"

ALIKE: Mapping[str, str] = {"bfloat16": "float16"}
"""Types of one size and one rate: a model of one serves the other."""


def element_bytes(dtype: str) -> int:
    """[B] of an element; an unknown type counts as float32."""
    return _listed(dtype)[0]


def matrix_unit(dtype: str) -> str:
    """The units that multiply this type; an unknown one counts as float32."""
    return _listed(dtype)[1]


def matrix_peak(hardware: Mapping[str, float], dtype: str) -> float:
    """[FLOP/s] Products of this type, as the data sheet promises."""
    return _peak(hardware, matrix_unit(dtype))


def vector_peak(hardware: Mapping[str, float], dtype: str) -> float:
    """[FLOP/s] Arithmetic on this type that multiplies no matrices, likewise."""
    return _peak(hardware, "fp64" if matrix_unit(dtype) == "fp64_matrix" else "fp32")


def _peak(hardware: Mapping[str, float], unit: str) -> float:
    """The sum of the peaks that the unit has; those of fp64 some models do not know."""
    fp64, fp64_matrix, fp32, tf32, half = _peaks()[unit]
    usual = hardware["peak_fp32_flops_per_second"] / 2
    vector = hardware.get("peak_fp64_flops_per_second", usual)
    matrix = hardware.get("peak_fp64_matrix_flops_per_second", vector)
    return (
        fp64 * vector
        + fp32 * hardware["peak_fp32_flops_per_second"]
        + hardware["matrix_share"]
        * (
            fp64_matrix * matrix
            + tf32 * hardware["peak_tf32_flops_per_second"]
            + half * hardware["peak_half_flops_per_second"]
        )
    )


def known_types() -> list[str]:
    """The types that have a size and a rate of their own."""
    return [*_types()]


def _listed(dtype: str) -> tuple[int, str]:
    listed = _types()
    return listed.get(dtype, listed[USUAL])


@cache
def _types() -> dict[str, tuple[int, str]]:
    return {
        row["model_dtype"]: (row["element_bytes"], row["unit"])
        for row in declared("prediction.op_dtype")
    }


@cache
def _peaks() -> dict[str, tuple[float, ...]]:
    units = ("fp64", "fp64_matrix", "fp32", "tf32", "half")
    return {
        row["unit"]: tuple(row[f"{each}_peaks"] for each in units)
        for row in declared("prediction.arithmetic_unit")
    }
