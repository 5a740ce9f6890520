"""Ratios of kernel times on two GPUs, or with two batch sizes, beside measured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
import time_ratios
from kernels import DATA

from tracedb.kernels.relations import declared

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGET = 0.8
"""The share of ratios that a band should hold."""
MEMORY, HALF = 3350 / 4800, 1.0
"""Time on an H200, of an H100's: bound by the memory, by the arithmetic."""


@pytest.fixture(scope="module")
def pairs() -> pl.DataFrame:
    """All pairs of GPUs, with a sample of the shapes that were measured on both."""
    if not DATA.exists():
        pytest.skip(f"{DATA.name} is absent")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time_ratios, "MOST_SHAPES", 300)
        return time_ratios.ratios([DATA])


@pytest.mark.parametrize("change", ["GPU", "batch"])
@pytest.mark.parametrize("basis", ["roofline", "model", "unknown"])
def test_bands_hold_most_ratios(change: str, basis: str, pairs: pl.DataFrame) -> None:
    """About four of five, in the mean over families and pairs of GPUs."""
    own = pairs.filter(pl.col("shapes") >= 20, change=change)
    holds = own.group_by("family", "dtype").agg(pl.col(f"{basis}_holds").mean())
    mean = holds[f"{basis}_holds"].mean()
    assert holds.height >= 8
    assert isinstance(mean, float)
    assert mean >= TARGET - 0.04


def test_bands_of_products_hold_in_each_type(pairs: pl.DataFrame) -> None:
    """Rooflines tell less of types without matrix units, and of a byte."""
    own = pairs.filter(pl.col("shapes") >= 20, change="GPU", family="gemm")
    holds = own.group_by("dtype").agg(pl.col("roofline_holds").mean())
    assert set(holds["dtype"]) >= {"float32", "bfloat16", "float8"}
    assert holds.filter(pl.col("roofline_holds") < TARGET - 0.1).is_empty(), holds


def ratios() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """The rows of `prediction.gpu_ratio`, by both GPUs."""
    rows = declared("prediction.gpu_ratio")
    return {(row["hardware"], row["to_hardware"]): row for row in rows}


def test_work_is_bounded_by_all_rates() -> None:
    """An H200 is an H100 with more memory bandwidth; back it is the other way round."""
    there, back = ratios()["H100", "H200"], ratios()["H200", "H100"]
    assert there["memory_ratio"] == pytest.approx(MEMORY, rel=1e-3)
    assert (there["least_ratio"], there["greatest_ratio"]) == (
        there["memory_ratio"],
        HALF,
    )
    assert there["link_ratio"] == 1
    for name, reverse in (
        ("memory_ratio", "memory_ratio"),
        ("least_ratio", "greatest_ratio"),
        ("greatest_ratio", "least_ratio"),
    ):
        assert there[name] * back[reverse] == pytest.approx(1)


def test_products_of_16_bits_are_not_bound_by_fp32_arithmetic() -> None:
    """In fp32 an MI300X is 2.4 times as fast as an H200, in 16 bits 1.3 times."""
    found = ratios()["MI300X", "H200"]
    assert found["greatest_ratio"] == pytest.approx(163.4 / 66.9)
    assert found["greatest_half_ratio"] == pytest.approx(1307.4 / 989.4)
    assert found["least_half_ratio"] == found["floor_ratio"] < 1


def test_a_gpu_equals_itself() -> None:
    """Every ratio is 1."""
    for (one, other), row in ratios().items():
        if one == other:
            assert {v for k, v in row.items() if k.endswith("_ratio")} == {1}
