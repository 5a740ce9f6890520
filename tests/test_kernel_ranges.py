"""Rows between measured ones: what is held out, what is in range, how bands widen."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import kernel_ranges
import numpy as np
import polars as pl
import pytest

from tracedb import kernels
from tracedb.errors import KernelModelError
from tracedb.kernels.bands import EVEN, Band, growth_of
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.model import Key
from tracedb.kernels.predictor import fit_predictor
from tracedb.kernels.rows import rows_of
from tracedb.kernels.store import read
from tracedb.kernels.support import holes
from tracedb.kernels.work import Op

if TYPE_CHECKING:
    from tracedb.kernels.predictor import Predictor
    from tracedb.kernels.rows import Rows

SOFTMAX = Op("softmax", "softmax", "float32")
KEY = Key("V100", "softmax", "softmax", "float32", "kernel", "test", "")
NOISE = 0.02
WIDE = (2_000, 9_000)
"""Widths that a model has not seen."""


def made_up(*, is_rough: bool = False) -> Rows:
    """Softmax of 400 random shapes on a V100: a roofline with 2 % scatter.

    A rough one takes up to 20 % longer or shorter, by a wave over widths.
    """
    random = np.random.default_rng(1)
    sizes = {
        "rows": (2 ** random.uniform(6, 16, 400)).astype(int),
        "width": (2 ** random.uniform(5, 15, 400)).astype(int),
    }
    figures = hardware_table().find("V100").figures
    rows = rows_of(pl.DataFrame(sizes), SOFTMAX, figures, is_listed=True)
    ns = rows.work.floor_ns + rows.work.bytes / 0.7 * 1e9 / rows.work.bandwidth
    width = rows.shapes["width"]
    wave = 1 + 0.2 * is_rough * np.sin(2 * np.pi * np.log2(width) / 1.7)
    return replace(rows, time_ns=ns * wave * random.lognormal(0, NOISE, 400))


@cache
def gapped() -> tuple[Predictor, Rows]:
    """A model of rough times that lacks some widths, and all rows."""
    rows = made_up(is_rough=True)
    width = rows.shapes["width"]
    is_kept = (width < WIDE[0]) | (width > WIDE[1])
    return fit_predictor(rows.take(is_kept), ("small",)), rows


@pytest.mark.parametrize("way", kernel_ranges.WAYS)
def test_rows_are_held_out_between_others(way: str) -> None:
    """A fifth to all but sixty are held out; a gap has others on each side."""
    rows = made_up()
    is_kept = kernel_ranges.WAYS[way](rows, np.random.default_rng(2))
    assert is_kept is not None
    assert 0.05 < is_kept.mean() < 0.95
    if way == "gap":
        between = [
            (rows.shapes[n][~is_kept].min(), rows.shapes[n][~is_kept].max())
            for n in ("rows", "width")
        ]
        outside = [
            ((v := rows.shapes[n][is_kept]) < low).any()
            and (v > high).any()
            and not ((v >= low) & (v <= high)).any()
            for n, (low, high) in zip(("rows", "width"), between, strict=True)
        ]
        assert any(outside)


def test_errors_are_as_stated_where_rows_are_alike() -> None:
    """Of a smooth law, four of five are in the band, wherever rows are held out."""
    found = [s for s in kernel_ranges.scored(KEY, made_up()) if s.place == "in range"]
    assert {s.way for s in found} == {*kernel_ranges.WAYS}
    held = np.average([s.held for s in found], weights=[s.rows for s in found])
    assert 0.7 < held < 0.95
    assert all(s.ratio < 2 for s in found)


def test_too_narrow_a_band_is_found() -> None:
    """The check sees bands of half the width."""
    rows = made_up()
    is_kept = kernel_ranges.random_rows(rows, np.random.default_rng(0))
    assert is_kept is not None
    predictor = fit_predictor(rows.take(is_kept), ("small",))
    bands = {n: band.narrowed(0.5) for n, band in predictor.bands.items()}
    narrow = replace(predictor, bands=bands)
    held = [
        next(kernel_ranges.judged(KEY, "random", each, rows.take(~is_kept))).held
        for each in (predictor, narrow)
    ]
    assert held[0] > 0.7
    assert held[1] < 0.6


def test_shapes_in_a_gap_are_not_in_range() -> None:
    """Widths between measured ones that no measured shape is near are out of range."""
    predictor, rows = gapped()
    width = rows.shapes["width"]
    is_gap = (width > 1.5 * WIDE[0]) & (width < WIDE[1] / 1.5)
    away = predictor.predict(rows).away
    assert (predictor.core.outside(rows)[is_gap] == 0).mean() > 0.95
    is_known = (width < WIDE[0]) | (width > WIDE[1])
    assert (away[is_gap] > 0).mean() > 0.8
    assert (away[is_known] == 0).mean() > 0.8


def test_bands_are_wider_in_a_gap() -> None:
    """The farther the nearest measured shape, the wider the band."""
    predictor, rows = gapped()
    found = predictor.predict(rows)
    nearest = predictor.core.support.nearest(rows)
    grown = predictor.growth.of(np.sort(nearest))
    assert (np.diff(grown) >= 0).all()
    assert grown[0] >= 0
    is_gap = nearest > np.quantile(nearest, 0.95)
    width = np.log(found.high_ns / found.low_ns)
    assert np.median(width[is_gap]) > 1.5 * np.median(width[~is_gap])


def test_held_out_holes_are_in_the_middle_or_in_a_corner() -> None:
    """A hole leaves most rows, and some beyond it in each size."""
    rows = made_up()
    found = [*holes(rows, 6)]
    assert len(found) == 6
    assert all(0.1 < hole.mean() < 0.5 for hole in found)


def test_bands_widen_by_what_would_have_held() -> None:
    """Errors that grow with the distance widen bands; few rows tell nothing."""
    random = np.random.default_rng(3)
    distance = random.uniform(0, 2, 4_000)
    error = np.abs(random.normal(0, 0.1 * (1 + distance))) / 1.2816
    growth = growth_of((0.3, 0.4), distance, error - 0.1)
    assert growth.at[0] == 0.3
    assert growth.added[0] == 0
    # 87 % are held by 1.17 times what holds four of five.
    expected = 1.17 * 0.1 * (1 + growth.at[1:]) - 0.1
    assert growth.added[1:] == pytest.approx(expected, abs=0.03)
    end = growth.of(np.array([0.0, growth.at[-1], 2 * growth.at[-1]]))
    assert end == pytest.approx([0, growth.added[-1], 2 * growth.added[-1]])
    assert growth.reach(0.1) == pytest.approx(0.2 / 0.117 - 1, abs=0.15)
    assert growth.reach(1e3) > growth.at[-1]
    assert growth_of((0.3, 0.4), distance[:60], error[:60]) is EVEN


def test_how_far_outside_a_band_times_are() -> None:
    """0 is the end of the band, on either side, and what is added is beyond it."""
    band = Band(np.zeros(1), np.array([-0.1]), np.array([0.3]))
    predicted = np.full(3, 100.0)
    measured = predicted * np.exp([-0.05, 0.3, 0.6])
    assert band.missed(predicted, measured) == pytest.approx([-0.05, 0, 0.3])
    low, high = band.around(predicted, np.full(3, 0.2))
    assert np.log(low / predicted) == pytest.approx(-0.3)
    assert np.log(high / predicted) == pytest.approx(0.5)


@pytest.mark.parametrize("family", ["gemm", "collective"])
def test_files_of_earlier_versions_are_read(family: str, tmp_path: Path) -> None:
    """Without measured shapes, every row between measured sizes is in range."""
    shelf = next(s for s in kernels.shipped().shelves if s.key.family == family)
    assert isinstance(shelf.source, Path)
    with np.load(shelf.source) as file:
        arrays = {name: file[name] for name in file.files}
    new = ("support", "table.linked", "growth.", "harness.")
    added = [name for name in arrays if name.startswith(new)]
    assert len(added) == 5 + (family == "collective")
    old = tmp_path / shelf.source.name
    np.savez(old, **{n: a for n, a in arrays.items() if n not in added})
    one, other = shelf.model.predictor, read(old).predictor
    frame = pl.DataFrame({"m": [64, 96, 4_000], "n": [128, 5_000, 64], "k": 3 * [512]})
    sizes = frame.with_columns(bytes=pl.Series([10**4, 10**6, 10**8]), ranks=8)
    figures = hardware_table().find(shelf.key.hardware).figures
    what = Op(family, shelf.key.op, shelf.key.dtype)
    rows = rows_of(sizes.with_columns(ranks_per_node=8), what, figures, is_listed=True)
    assert other.predict(rows).ns == pytest.approx(one.predict(rows).ns)
    assert other.growth is EVEN
    assert (read(old).harness_error.of(np.array([1e3, 1e6])) == 0).all()
    assert (other.in_range(rows) == (other.core.outside(rows) == 0)).all()


def test_a_renamed_size_is_named() -> None:
    """Shapes without a size that their family needs are an error, not unknown times."""
    shape = {"hardware": "H100", "family": "gemm", "op": "mm", "dtype": "bfloat16"}
    shapes = pl.DataFrame([{**shape, "M": 64, "n": 64, "k": 64}])
    with pytest.raises(KernelModelError, match="column m, which every gemm needs"):
        kernels.shipped().predict(shapes)
    assert kernels.shipped().predict(shapes.rename({"M": "m"}))["predicted_ns"][0] > 0
