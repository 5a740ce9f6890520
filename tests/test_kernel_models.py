"""Kernel models: families, counts, forests, bands, scores, files, commands."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.optimize import isotonic_regression
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from support import ROOT, unbroken
from threadpoolctl import threadpool_limits

import tracedb
from tracedb import KernelModelError, MeasurementError, kernels
from tracedb.cli.main import tracedb as command
from tracedb.kernels.bands import band_of, falling
from tracedb.kernels.collective_table import CollectiveTable, fit_table, rising
from tracedb.kernels.families.family import Shapes
from tracedb.kernels.groups import groups_of
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.harnesses import Comparison, compared, harness_error
from tracedb.kernels.held_out import Answered, HeldOut
from tracedb.kernels.model import Key
from tracedb.kernels.predictor import fit_predictor
from tracedb.kernels.public import READERS
from tracedb.kernels.rows import rows_of
from tracedb.kernels.scores import scores_of
from tracedb.kernels.splits import SPLITS
from tracedb.kernels.trees import Forest, averaged, boosted, rounded_down
from tracedb.kernels.work import Op, shapes_of, work_of

if TYPE_CHECKING:
    from click.testing import Result

    from tracedb.kernels.groups import Group
    from tracedb.kernels.rows import Rows

DATA = ROOT.parent / "shared" / "kerneldata"
V100 = "Tesla V100-SXM2-16GB"
ROWS = 90
NOISE = 0.03
EACH_REAL_ROW = 5
"""Only one in five rows of real products is used."""

needs_data = pytest.mark.skipif(
    not DATA.exists(), reason="../shared/kerneldata is absent"
)

# An example op of each family, its dtype, and the range of its sizes.
EXAMPLES: dict[str, tuple[str, str, dict[str, tuple[int, int]]]] = {
    "gemm": ("mm", "float16", {"m": (64, 8192), "n": (64, 8192), "k": (64, 8192)}),
    "convolution": (
        "forward",
        "float32",
        {
            "images": (8, 64),
            "channels_in": (16, 512),
            "channels_out": (16, 512),
            "height": (14, 112),
            "width": (14, 112),
            "kernel_height": (3, 3),
            "kernel_width": (3, 3),
        },
    ),
    "attention": (
        "forward",
        "float16",
        {
            "images": (1, 16),
            "heads": (8, 32),
            "queries": (128, 4096),
            "keys": (128, 4096),
            "head_dim": (64, 128),
        },
    ),
    "embedding": (
        "embedding",
        "float32",
        {"rows": (1000, 10**6), "width": (16, 256), "table_rows": (1000, 10**6)},
    ),
    "embedding_bag": (
        "sum",
        "float32",
        {
            "tables": (1, 16),
            "table_rows": (1000, 10**6),
            "width": (16, 256),
            "bags": (128, 4096),
            "pooling": (1, 64),
        },
    ),
    "elementwise": (
        "add",
        "float32",
        {"elements": (10**4, 10**8), "inputs": (1, 2), "outputs": (1, 1)},
    ),
    "reduction": ("sum", "float32", {"rows": (100, 10**5), "width": (16, 4096)}),
    "softmax": ("softmax", "float32", {"rows": (100, 10**5), "width": (16, 4096)}),
    "normalisation": (
        "layer_norm",
        "float32",
        {"rows": (100, 10**5), "width": (16, 4096)},
    ),
    "concat": (
        "cat",
        "float32",
        {"tensors": (2, 16), "rows": (100, 10**4), "width": (16, 4096)},
    ),
    "copy": (
        "transpose",
        "float32",
        {"batch": (1, 64), "rows": (64, 2048), "width": (64, 2048)},
    ),
    "index": ("gather", "float32", {"rows": (100, 10**5), "width": (16, 1024)}),
    "memcpy": ("h2d", "float32", {"bytes": (10**4, 10**9)}),
    "memset": ("memset", "float32", {"bytes": (10**4, 10**9)}),
    "optimizer": ("adam", "float32", {"tensors": (1, 200), "elements": (10**5, 10**9)}),
    "collective": (
        "all_reduce",
        "float32",
        {"bytes": (10**4, 10**9), "ranks": (8, 8), "ranks_per_node": (8, 8)},
    ),
}
EXAMPLES["embedding_backward"] = EXAMPLES["embedding"]
EXAMPLES["embedding_bag_backward"] = EXAMPLES["embedding_bag"]
EXAMPLES["broadcast"] = EXAMPLES["elementwise"]
for _name, _family in kernels.FAMILIES.items():
    _sizes = dict.fromkeys(_family.required, (16, 4096))
    EXAMPLES.setdefault(_name, ("any", "float32", _sizes))


def measured(family: str, rows: int = ROWS, device: str = V100) -> pl.DataFrame:
    """Rows as a microbenchmark writes them: a plain roofline with noise."""
    op, dtype, ranges = EXAMPLES[family]
    random = np.random.default_rng(len(family))
    sizes = {
        name: np.exp(random.uniform(np.log(low), np.log(high + 0.5), rows)).astype(int)
        for name, (low, high) in ranges.items()
    }
    frame = pl.DataFrame(sizes).with_columns(
        device=pl.lit(device),
        software=pl.lit("made up"),
        source=pl.lit("test"),
        measured=pl.lit("kernel"),
        family=pl.lit(family),
        op=pl.lit(op),
        dtype=pl.lit(dtype),
        repeats=pl.lit(10),
    )
    contract = kernels.FAMILIES[family]
    what = Op(family, op, dtype)
    figures = hardware_table().find(device).figures
    work = work_of(contract, shapes_of(contract, frame, what), figures, what)
    time_ns = 3000 + np.maximum(work.compute_ns / 0.7, work.memory_ns / 0.8)
    noise = np.exp(random.normal(0, NOISE, rows))
    return frame.with_columns(time_ns=pl.Series(time_ns * noise))


def write(frame: pl.DataFrame, path: Path, version: str = "1") -> Path:
    """Write rows as a measurement file."""
    table = frame.to_arrow().replace_schema_metadata(
        {"tracedb.measurements": version, "tracedb.provenance": "{}"}
    )
    pq.write_table(table, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of all families, trained on made-up rows."""
    made = tmp_path_factory.mktemp("made")
    for family in kernels.FAMILIES:
        write(measured(family), made / f"{family}.parquet")
    kernels.train([made], made / "models")
    return made / "models"


@pytest.fixture(scope="module")
def models(folder: Path) -> kernels.Models:
    """The same models, loaded from files."""
    return kernels.load(folder)


def asked(family: str, hardware: str = "V100", rows: int = ROWS) -> pl.DataFrame:
    """The measured rows of a family, without their times."""
    kept = measured(family, rows).drop(
        "device", "software", "source", "time_ns", "repeats"
    )
    return kept.with_columns(hardware=pl.lit(hardware))


# What holds for each family.

every_family = pytest.mark.parametrize("family", list(kernels.FAMILIES))


@every_family
def test_a_family_is_in_the_file_of_its_name(family: str) -> None:
    """The file of a family has its name."""
    folder_ = ROOT / "tracedb" / "kernels" / "families"
    assert (folder_ / f"{family}.py").exists()
    assert kernels.FAMILIES[family].name == family


@every_family
def test_work_grows_with_each_size(family: str) -> None:
    """FLOPs and bytes never shrink when a size grows (other than a filter's)."""
    op, dtype, ranges = EXAMPLES[family]
    what = Op(family, op, dtype)
    contract = kernels.FAMILIES[family]
    small = pl.DataFrame({name: [low] for name, (low, _) in ranges.items()})
    for name in ranges.keys() - {"kernel_height", "kernel_width"}:
        large = small.with_columns(pl.col(name) * 2)
        before, after = (shapes_of(contract, f, what) for f in (small, large))
        for count in ("flops", "read_bytes", "written_bytes"):
            assert after[count][0] >= before[count][0] >= 0
        assert after.footprint_bytes[0] >= before.footprint_bytes[0] > 0


@every_family
def test_predictions_of_measured_rows(family: str, models: kernels.Models) -> None:
    """Errors are within a few times the noise, and bands contain the measured times."""
    found = models.predict(asked(family))
    assert found["in_range"].all()
    assert (found["low_ns"] <= found["predicted_ns"]).all()
    assert (found["predicted_ns"] <= found["high_ns"]).all()
    truth = measured(family)["time_ns"].to_numpy()
    assert scores_of(found["predicted_ns"].to_numpy(), truth).mape_share < 4 * NOISE
    inside = found["low_ns"].to_numpy() <= truth
    inside &= truth <= found["high_ns"].to_numpy()
    assert inside.mean() > 0.7
    assert found["model"].str.contains(f"{family} ").all()
    assert found["model"].str.contains("on V100 by test made up").all()


@every_family
def test_rows_keep_their_order(family: str, models: kernels.Models) -> None:
    """A row's prediction does not depend on the rows around it."""
    question = asked(family)
    backwards = models.predict(question.reverse()).reverse()
    assert models.predict(question).equals(backwards)


@every_family
def test_larger_shapes_are_out_of_range(family: str, models: kernels.Models) -> None:
    """Sizes a million times larger take longer and are marked out of range."""
    question = asked(family)
    growing = {"optimizer": "elements", "concat": "rows"}
    name = growing.get(family, next(iter(EXAMPLES[family][2])))
    found = models.predict(question.with_columns(pl.col(name) * 10**6))
    assert not found["in_range"].any()
    before = models.predict(question)["predicted_ns"].to_numpy()
    assert found["predicted_ns"].to_numpy().min() > before.min()


@every_family
def test_missing_sizes_have_no_prediction(family: str, models: kernels.Models) -> None:
    """A missing required size gives NULL; optional sizes may be missing."""
    contract = kernels.FAMILIES[family]
    question = asked(family)
    name = contract.required[0]
    found = models.predict(question.with_columns(pl.lit(None, pl.Int64).alias(name)))
    assert found["predicted_ns"].null_count() == found["model"].null_count() == ROWS
    assert found["in_range"].null_count() == ROWS
    without = models.predict(question.drop(contract.optional, strict=False))
    assert without["predicted_ns"].null_count() == 0


@every_family
def test_other_hardware_is_marked(family: str, models: kernels.Models) -> None:
    """Hardware that was not measured has the nearest model's times and a wide band."""
    found = models.predict(asked(family, "NVIDIA H100 80GB HBM3"))
    assert not found["in_range"].any()
    assert found["model"].str.contains("on V100").all()
    assert (found["likeness"] == "other_hardware").all()
    assert (found["high_ns"] / found["low_ns"] > 2).all()
    unlisted = models.predict(asked(family, "Voodoo 2"))
    assert (unlisted["high_ns"] / unlisted["low_ns"] > 4).all()


@every_family
def test_few_rows_give_constants(family: str, tmp_path: Path) -> None:
    """Twenty rows calibrate a roofline or a table, without a forest."""
    write(measured(family, 20), tmp_path / "few.parquet")
    done = kernels.train([tmp_path / "few.parquet"], tmp_path / "models")
    assert [kernels.summary(m)["kind"].split()[1] for m in done.models] == ["alone"]
    found = kernels.load(tmp_path / "models").predict(asked(family, rows=20))
    truth = measured(family, 20)["time_ns"].to_numpy()
    few = scores_of(found["predicted_ns"].to_numpy(), truth)
    assert few.mape_share < 4 * NOISE


def test_times_are_transferred_from_the_nearest_hardware(tmp_path: Path) -> None:
    """T4 times come from the L4, scaled by rooflines, and not from the H100."""
    for device in ("NVIDIA H100 80GB HBM3", "NVIDIA L4"):
        frame = measured("elementwise", 40, device)
        write(frame, tmp_path / f"{device[-2:]}.parquet")
    kernels.train([tmp_path], tmp_path / "models")
    found = kernels.load(tmp_path / "models").predict(asked("elementwise", "T4"))
    truth = measured("elementwise", device="Tesla T4")["time_ns"].to_numpy()
    assert found["model"].str.contains("on L4").all()
    assert (found["likeness"] == "transferred").all()
    off = np.abs(np.log(found["predicted_ns"].to_numpy() / truth))
    assert np.median(off) < 0.1


# Counts.


@dataclass(frozen=True)
class Count:
    """Sizes of one op and its work, counted by hand."""

    family: str
    op: str
    dtype: str
    sizes: dict[str, int]
    flops: float
    read: float
    written: float


CONV = {
    "images": 2,
    "channels_in": 3,
    "channels_out": 4,
    "height": 8,
    "width": 8,
    "kernel_height": 3,
    "kernel_width": 3,
    "stride": 1,
    "padding": 1,
}
# CONV: input 2*3*8*8 = 384, weight 4*3*3*3 = 108, output 2*4*8*8 = 512 elements.
ATTENTION = {"images": 2, "heads": 3, "queries": 4, "keys": 4, "head_dim": 8}
BAG = {
    "tables": 2,
    "table_rows": 1000,
    "width": 8,
    "bags": 4,
    "pooling": 3,
    "distinct_rows": 20,
}
ROW = {"rows": 4, "width": 8}
COUNTS = (
    Count("gemm", "mm", "float32", {"m": 2, "n": 3, "k": 4}, 48, 80, 24),
    Count("gemm", "bmm", "float16", {"batch": 5, "m": 2, "n": 3, "k": 4}, 240, 200, 60),
    # int8 products accumulate in int32; FBGEMM's linear layer outputs int8.
    Count("gemm", "mm", "int8", {"m": 2, "n": 3, "k": 4}, 48, 20, 4 * 6),
    Count("gemm", "linear", "int8", {"m": 2, "n": 3, "k": 4}, 48, 20, 6),
    Count("gemm", "mm", "float8", {"m": 2, "n": 3, "k": 4}, 48, 20, 2 * 6),
    Count("convolution", "forward", "float32", CONV, 2 * 512 * 27, 4 * 492, 4 * 512),
    Count("convolution", "backward_input", "float32", CONV, 27648, 4 * 620, 4 * 384),
    Count("convolution", "backward_weight", "float32", CONV, 27648, 4 * 896, 4 * 108),
    Count("attention", "forward", "float32", ATTENTION, 3072, 4 * 576, 4 * 192),
    Count(
        "attention", "forward", "float32", ATTENTION | {"causal": 1}, 1920, 2304, 768
    ),
    # A single query comes last and attends to all keys.
    Count(
        *("attention", "forward", "float32"),
        ATTENTION | {"causal": 1, "queries": 1},
        *(768, 4 * (48 + 2 * 192), 4 * 48),
    ),
    Count("attention", "backward", "float32", ATTENTION, 7680, 4 * 960, 4 * 576),
    Count("embedding", "embedding", "float32", ROW, 0, 4 * 32 + 8 * 4, 4 * 32),
    Count("embedding_backward", "embedding", "float32", ROW, 32, 160, 128),
    # 24 lookups of 8 elements; 24 indices and 8 offsets; 8 bags.
    Count("embedding_bag", "sum", "float32", BAG, 192, 768 + 256, 256),
    Count("embedding_bag_backward", "sum", "float32", BAG, 384, 256 + 1024, 768),
    Count("elementwise", "add", "float16", {"elements": 9, "inputs": 2}, 9, 36, 18),
    Count("elementwise", "gelu", "float32", {"elements": 9}, 175 * 9, 36, 36),
    Count(
        "elementwise",
        "native_dropout",
        "float32",
        {"elements": 9, "outputs": 2},
        18,
        36,
        36 + 9,
    ),
    Count("broadcast", "add", "float32", {"elements": 9, "inputs": 2}, 9, 36, 36),
    Count("reduction", "sum", "float32", ROW, 32, 128, 16),
    Count("reduction", "mse_loss", "float32", ROW, 96, 256, 16),
    Count("softmax", "softmax", "float32", ROW, 174 * 32, 128, 128),
    Count("softmax", "softmax_backward", "float32", ROW, 64, 256, 128),
    Count("normalisation", "layer_norm", "float32", ROW, 160, 128, 128),
    Count("normalisation", "batch_norm_backward", "float32", ROW, 320, 256, 128),
    Count("concat", "cat", "float32", ROW, 0, 128, 128),
    Count("copy", "transpose", "float32", ROW | {"batch": 2}, 0, 256, 256),
    Count("index", "gather", "float32", ROW, 0, 128 + 256, 128),
    Count("index", "tril", "float32", ROW, 0, 128, 128),
    Count("memcpy", "h2d", "bytes", {"bytes": 7}, 0, 7, 0),
    Count("memcpy", "d2d", "bytes", {"bytes": 7}, 0, 7, 7),
    Count("memset", "memset", "bytes", {"bytes": 7}, 0, 0, 7),
    Count("optimizer", "fused_adam", "float32", {"elements": 2}, 26, 32, 24),
    Count("optimizer", "sgd", "float32", {"elements": 2}, 4, 16, 8),
    Count("collective", "all_reduce", "bytes", {"bytes": 8, "ranks": 4}, 0, 12, 0),
    Count("collective", "all_gather", "bytes", {"bytes": 8, "ranks": 4}, 0, 6, 0),
    Count("collective", "send_recv", "bytes", {"bytes": 8, "ranks": 2}, 0, 8, 0),
)


def shapes(family: str, op: str, dtype: str, sizes: dict[str, int]) -> Shapes:
    """The shapes of one op."""
    frame = pl.DataFrame({name: [size] for name, size in sizes.items()})
    return shapes_of(kernels.FAMILIES[family], frame, Op(family, op, dtype))


@pytest.mark.parametrize(
    "count", COUNTS, ids=lambda count: f"{count.family}-{count.op}-{count.dtype}"
)
def test_counts_by_hand(count: Count) -> None:
    """FLOPs and bytes equal counts by hand."""
    row = shapes(count.family, count.op, count.dtype, count.sizes)
    assert row["flops"][0] == count.flops
    assert row["read_bytes"][0] == count.read
    assert row["written_bytes"][0] == count.written


def test_reuse_of_embedding_rows() -> None:
    """A table of ten rows has at most ten distinct rows to read."""
    few = shapes("embedding", "embedding", "float32", ROW | {"table_rows": 10})
    many = shapes("embedding", "embedding", "float32", ROW | {"table_rows": 10**9})
    assert few.footprint_bytes[0] < many.footprint_bytes[0]
    row = ROW | {"rows": 10**6, "table_rows": 10}
    all_ = shapes("embedding", "embedding", "float32", row)
    moved = 4 * 8 * 10**6 + 8 * 10**6  # the result, and the indices
    assert all_.footprint_bytes[0] == pytest.approx(10 * 8 * 4 + moved)


# Forests.


@cache
def forests(rows: int = 2000) -> tuple[Any, Any, np.ndarray[Any, Any]]:
    """Both kinds of scikit-learn forest; some features lie exactly on thresholds."""
    random = np.random.default_rng(0)
    features = random.normal(size=(rows, 6)).astype(np.float32)
    features[:, 0] = np.round(features[:, 0] * 4) / 4
    target = features[:, 0] * features[:, 1] + np.abs(features[:, 2])
    boosting = HistGradientBoostingRegressor(max_leaf_nodes=32, random_state=0)
    trees = ExtraTreesRegressor(20, max_leaf_nodes=300, random_state=0)
    with threadpool_limits(1):
        return boosting.fit(features, target), trees.fit(features, target), features


def test_forests_predict_as_scikit_learn() -> None:
    """Predictions equal scikit-learn's to 1e-9, on thresholds too."""
    boosting, trees, features = forests()
    columns = features.T.copy()
    off = np.abs(boosted(boosting).predict(columns) - boosting.predict(features))
    assert off.max() < 1e-9
    off = np.abs(averaged(trees).predict(columns) - trees.predict(features))
    assert off.max() < 1e-9


@pytest.mark.parametrize("copies", [1, 5000])
@pytest.mark.parametrize("leaves", [1, 10, 100])
def test_a_row_on_a_threshold_goes_left(leaves: int, copies: int) -> None:
    """A row on a threshold goes left, in the walk for few rows and the one for many."""
    inner = np.arange(leaves - 1)
    nodes = 2 * leaves - 1
    names = ("feature", "left", "right")
    arrays: dict[str, Any] = {name: np.zeros(nodes, int) for name in names}
    arrays["left"][2 * inner], arrays["right"][2 * inner] = 2 * inner + 1, 2 * inner + 2
    threshold, value = np.zeros(nodes, np.float32), np.zeros(nodes)
    threshold[2 * inner] = inner
    value[2 * inner + 1], value[-1] = inner, leaves - 1
    more = {"threshold": threshold, "value": value, "first": np.zeros(1, int)}
    chain = Forest.of_arrays(arrays | more | {"start": np.zeros(1)}, features=1)
    rows = np.tile(np.array([[5.0, 5.5, -1.0, 99.0]], np.float32), copies)
    expected = np.minimum(np.tile([5.0, 6.0, 0.0, 99.0], copies), leaves - 1)
    assert chain.predict(rows).tolist() == expected.tolist()


def test_a_row_is_predicted_the_same_alone_and_among_others() -> None:
    """The prediction of a row does not depend on how many rows there are."""
    boosting, _, features = forests()
    forest = boosted(boosting)
    many = np.tile(features.T, 3)
    together = forest.predict(many)
    assert together.tolist() == np.tile(together[: len(features)], 3).tolist()
    alone = [float(forest.predict(many[:, [row]])[0]) for row in range(20)]
    assert together[:20].tolist() == alone


def test_thresholds_are_rounded_down() -> None:
    """No float32 lies between a threshold and its rounded value."""
    exact = np.array([0.1, 1 / 3, -0.1, 0.5, 1e-3])
    rounded = rounded_down(exact)
    assert (rounded <= exact).all()
    assert (np.nextafter(rounded, np.float32(np.inf)) > exact).all()


@pytest.mark.parametrize(
    ("name", "value"), [("left", 10**6), ("right", -5), ("feature", 99), ("left", 1)]
)
def test_malformed_trees_are_refused(name: str, value: int) -> None:
    """Children outside the tree, cycles and unknown features are refused."""
    _, trees, _ = forests(300)
    arrays = averaged(trees).arrays()
    inner = np.flatnonzero(arrays["left"] > 0)[3]
    arrays[name] = arrays[name].copy()
    arrays[name][inner] = value
    with pytest.raises(KernelModelError, match="not a tree"):
        Forest.of_arrays(arrays, features=6)


# Features, hardware.


def test_tile_costs_by_hand() -> None:
    """A product of 192 x 256 over 5 multiprocessors: 9,830.4 elements for each.

    Tiles of 64 x 64: 12, so the busiest has 3: 12,288 elements. Of 128 x 128: 4, so 1:
    16,384. Of 128 x 256: 2, so 1: 32,768.
    """
    frame = pl.DataFrame({"m": [192], "n": [256], "k": [64]})
    figures = {**hardware_table().find(V100).figures, "sm_count": 5.0}
    rows = rows_of(frame, Op("gemm", "mm", "float16"), figures, is_listed=True)
    found = rows.family.features(rows.shapes, rows.figures)
    costs = {"64x64": 5 / 4, "128x128": 5 / 3, "128x256": 10 / 3, "least": 5 / 4}
    for tile, cost in costs.items():
        assert np.exp(found[f"log_cost_{tile}"]) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA A40", "A40"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H800", "H800"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX A4000", None),
    ],
)
def test_devices_are_found_by_driver_name(device: str, name: str | None) -> None:
    """A name that another name begins with does not match it."""
    found = hardware_table().find(device)
    assert (found.name, found.is_fallback) == (name or device, name is None)


# Bands, scores, splits.


def test_harness_error_is_learnt_from_data(tmp_path: Path) -> None:
    """Harnesses that differ by 1.5 give that error, for families without pairs too."""
    slow = measured("gemm").with_columns(
        pl.lit("slow").alias("software"), pl.col("time_ns") * 1.5
    )
    for number, frame in enumerate((measured("gemm"), slow, measured("softmax"))):
        write(frame, tmp_path / f"{number}.parquet")
    groups = groups_of(kernels.read_measurements([tmp_path]).frame)
    predictors = {group.key: fit_predictor(group.rows) for group in groups}
    found = told(groups, compared(groups, predictors))
    assert found["gemm"] == pytest.approx(np.log(1.5), abs=3 * NOISE)
    assert found["softmax"] == pytest.approx(found["gemm"], abs=NOISE)
    alone = [group for group in groups if group.key.software != "slow"]
    assert set(told(alone, compared(alone, predictors)).values()) == {0.0}


def told(
    groups: Sequence[Group], comparisons: Sequence[Comparison]
) -> dict[str, float]:
    """The harness error of each family, in the mean over times."""
    errors = {g.key.family: harness_error(g.key, comparisons) for g in groups}
    return {family: float(error.error.mean()) for family, error in errors.items()}


def test_campaigns_have_one_vote_each() -> None:
    """A campaign's size does not matter; other dtypes have two votes together."""

    def pair(family: str, dtype: str, error: float, rows: int) -> Comparison:
        key = Key("V100", family, "mm", dtype, "kernel", "one", "")
        other = replace(key, source="other")
        return Comparison(key, other, np.full(rows, 1e5), np.full(rows, error))

    comparisons = [
        *(pair("gemm", "float16", error, 1_000) for error in (0.1, 0.1, 0.1, -0.2)),
        pair("gemm", "float16", 0.3, 100_000),
        pair("gemm", "float8", 0.9, 1_000),
        *(pair("softmax", "float16", 0.05, 1_000) for _ in range(20)),
    ]
    errors = {
        (family, dtype): harness_error(
            Key("H100", family, "x", dtype, "kernel", "", ""), comparisons
        ).of(np.array([1e5]))[0]
        for family, dtype in (
            *(("gemm", "bfloat16"), ("gemm", "float8"), ("gemm", "float32")),
            ("attention", "float16"),
        )
    }
    assert errors == {
        ("gemm", "bfloat16"): pytest.approx(0.2, rel=0.1),
        ("gemm", "float8"): pytest.approx(0.9, rel=0.1),
        ("gemm", "float32"): pytest.approx(0.1, rel=0.1),
        ("attention", "float16"): pytest.approx(0.1, rel=0.1),
    }


def timed_pairs(count: int) -> list[Comparison]:
    """Pairs of products that differ by 2 us and 5 %: short ones by more."""
    random = np.random.default_rng(4)
    found = []
    for number in range(count):
        ns = 1e3 * 2 ** random.uniform(1, 13, 2_000)
        sign = random.choice([-1, 1], 2_000)
        scatter = random.normal(0, 1, 2_000) * (0.05 + 2e3 / ns)
        key = Key("V100", "gemm", "mm", "float16", "kernel", f"{number}", "")
        other = replace(key, source="other")
        found.append(Comparison(key, other, ns, sign * scatter))
    return found


def test_errors_of_harnesses_depend_on_the_time() -> None:
    """Short kernels differ by more; four of five are held in each decade of time."""
    comparisons = timed_pairs(4)
    found = harness_error(comparisons[0].one, comparisons[1:])
    held = comparisons[0]
    is_in = np.abs(held.errors) <= found.of(held.predicted_ns)
    decade = np.floor(np.log10(held.predicted_ns))
    for one in np.unique(decade):
        assert 0.65 < is_in[decade == one].mean() < 0.95
    short, long = found.of(np.array([3e3, 8e6]))
    assert short > 5 * long
    assert (np.diff(found.error) <= 0).all()


def test_errors_of_others_do_not_narrow_what_a_family_does_not_know() -> None:
    """Beyond the times of its own pairs, the error stays as it is there."""
    short = Key("V100", "softmax", "softmax", "float32", "kernel", "one", "")
    ns = np.full(300, 2e4)
    own = Comparison(short, replace(short, source="other"), ns, np.full(300, 0.3))
    exact = [replace(c, errors=c.errors * 1e-3) for c in timed_pairs(4)]
    found = harness_error(short, [own, *exact])
    known, beyond = found.of(np.array([2e4, 1e7]))
    assert 0.3 >= known >= beyond > 0.2
    assert harness_error(exact[0].one, [own, *exact]).of(np.array([1e7]))[0] < 0.01
    other = replace(short, family="attention")
    pairs = timed_pairs(4)
    own_long, other_long = (
        harness_error(key, pairs).of(np.array([8e6]))[0]
        for key in (pairs[0].one, other)
    )
    assert other_long > 1.5 * own_long


def test_falling_values_are_the_nearest_ones() -> None:
    """Each rise is levelled by the weighted mean; what falls stays."""
    values, weights = np.array([5.0, 1, 3, 2, 2.5]), np.array([1.0, 1, 3, 1, 1])
    assert falling(values, weights) == pytest.approx([5, 2.5, 2.5, 2.25, 2.25])


def test_harnesses_without_common_shapes_are_no_pair(tmp_path: Path) -> None:
    """Harnesses are not compared when few of their shapes overlap."""
    large = measured("softmax").with_columns(
        pl.lit("large").alias("software"), pl.col("rows") * 10**6
    )
    slow = measured("gemm").with_columns(
        pl.lit("slow").alias("software"), pl.col("time_ns") * 1.5
    )
    frames = (measured("softmax"), large, measured("gemm"), slow)
    for number, frame in enumerate(frames):
        write(frame, tmp_path / f"{number}.parquet")
    groups = groups_of(kernels.read_measurements([tmp_path]).frame)
    predictors = {group.key: fit_predictor(group.rows) for group in groups}
    found = told(groups, compared(groups, predictors))
    assert found["softmax"] == pytest.approx(found["gemm"], abs=NOISE)
    assert found["gemm"] > 0.3


def test_the_harness_factor_is_stored_with_models(tmp_path: Path) -> None:
    """The factor found in training comes with every prediction.

    Out of range, the model's own error joins it.
    """
    slow = measured("memset").with_columns(
        pl.lit("slow").alias("software"), pl.col("time_ns") * 2
    )
    write(pl.concat([measured("memset"), slow]), tmp_path / "sets.parquet")
    kernels.train([tmp_path / "sets.parquet"], tmp_path / "models")
    models = kernels.load(tmp_path / "models")
    found = models.predict(asked("memset"))
    assert found["harness_factor"].to_list() == pytest.approx([2] * ROWS, rel=0.1)
    found = models.predict(asked("memset").with_columns(pl.col("bytes") * 10**6))
    half = np.log((found["high_ns"] / found["low_ns"]).to_numpy()) / 2
    joined = np.hypot(np.log(2), half)
    error = np.log(found["harness_factor"].to_numpy())
    assert error == pytest.approx(joined, rel=0.05)


def test_bands_hold_four_of_five() -> None:
    """P10 to P90 contain 75 to 85 % of new rows, and small kernels scatter more."""
    random = np.random.default_rng(0)

    def rows(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        predicted = np.exp(random.uniform(7, 15, count))
        spread = 0.3 / np.log(predicted)
        return predicted, predicted * np.exp(random.normal(0, spread))

    band = band_of(*rows(2000))
    predicted, truth = rows(5000)
    low, high = band.around(predicted)
    for part in (predicted < np.median(predicted), predicted >= np.median(predicted)):
        inside = (low[part] <= truth[part]) & (truth[part] <= high[part])
        assert 0.75 <= inside.mean() <= 0.85


def test_scores_by_hand() -> None:
    """GMAE, MAPE and P90 of errors 0.1 and 0.4; an exact row counts as 0.0001."""
    scores = scores_of(np.array([110.0, 60.0]), np.array([100.0, 100.0]))
    assert scores.gmae_share == pytest.approx(0.2)
    assert scores.mape_share == pytest.approx(0.25)
    assert scores.p90_share == pytest.approx(0.37)
    assert scores_of(np.ones(1), np.ones(1)).gmae_share == pytest.approx(1e-4)


def test_splits_hold_out_what_they_say() -> None:
    """A split holds out a fifth, whole combinations, or the largest."""
    frame = measured("softmax", 400).with_columns(width=pl.int_range(400) % 20 + 1)
    figures = hardware_table().find(V100).figures
    rows = rows_of(frame, Op("softmax", "softmax", "float32"), figures, is_listed=True)
    held_out = {name: split(rows) for name, split in SPLITS.items()}
    for mask in held_out.values():
        assert mask is not None
        assert 0.1 < mask.mean() < 0.3
    widths, mask = rows.shapes["width"], np.asarray(held_out["shape"])
    assert not set(widths[mask].tolist()) & set(widths[~mask].tolist())
    mask = np.asarray(held_out["largest"])
    assert rows.size[mask].min() > rows.size[~mask].max()


def cluster(layouts: Sequence[tuple[int, int]], time_ns: pl.Expr) -> CollectiveTable:
    """The all_reduce table of some (ranks, ranks_per_node)."""
    frame = pl.concat(
        pl.DataFrame({"bytes": SIZES}).with_columns(
            ranks=pl.lit(ranks), ranks_per_node=pl.lit(per_node)
        )
        for ranks, per_node in layouts
    )
    return fit_table(messages(frame.with_columns(time_ns=time_ns)))


def messages(frame: pl.DataFrame) -> Rows:
    """Rows of all_reduce on a V100."""
    figures = hardware_table().find(V100).figures
    return rows_of(frame, REDUCED, figures, is_listed=True)


def asked_of(ranks: int, per_node: int) -> Rows:
    """All sizes for one layout."""
    frame = pl.DataFrame({"bytes": SIZES})
    layout = {"ranks": pl.lit(ranks), "ranks_per_node": pl.lit(per_node)}
    return messages(frame.with_columns(**layout))


LAYOUTS = [
    (8, 8, "alike"),
    (4, 4, "alike"),
    (16, 8, "other_topology"),
]
SIZES = [2**power for power in range(10, 31)]
REDUCED = Op("collective", "all_reduce", "bytes")
_ON_LINKS = pl.col("bytes") * (1 - 1 / pl.col("ranks")) / 50
ONE_NODE = 20_000 + _ON_LINKS + pl.col("bytes") / 200
"""[ns] A share that crosses links, and one local to each rank."""


def test_collectives_above_the_largest_message(tmp_path: Path) -> None:
    """Bandwidth stays constant; larger messages are out of range."""
    texts = {name: pl.lit(value) for name, value in TEXTS.items()}
    frame = pl.DataFrame({"bytes": SIZES}).with_columns(ranks=8, ranks_per_node=8)
    write(frame.with_columns(time_ns=ONE_NODE, **texts), tmp_path / "nccl.parquet")
    kernels.train([tmp_path / "nccl.parquet"], tmp_path / "models")
    question = frame.tail(2).with_columns(hardware=pl.lit("V100"), **texts)
    question = question.with_columns(bytes=pl.Series([2**30, 2**33]))
    found = kernels.load(tmp_path / "models").predict(question)
    truth = question.select(ONE_NODE.alias("ns"))["ns"].to_list()
    assert found["predicted_ns"].to_list() == pytest.approx(truth, rel=0.02)
    assert found["in_range"].to_list() == [True, False]


def test_collectives_of_other_rank_counts_within_a_node() -> None:
    """Each rank is another step: within 1 % for small messages, within 5 for all."""
    time_ns = ONE_NODE + 2_000 * pl.col("ranks")
    table = cluster([(n, n) for n in (2, 8)], time_ns)
    found, truth = table.predict_ns(asked_of(4, 4)), at_four(time_ns)
    assert found[:8] == pytest.approx(truth[:8], rel=0.01)
    assert found == pytest.approx(truth, rel=0.05)


def test_ranks_that_share_a_link_are_no_steps() -> None:
    """Times that grow faster than the ranks are interpolated as a power of them."""
    time_ns = 1e4 * pl.col("ranks") ** 2
    table = cluster([(n, n) for n in (2, 8)], time_ns)
    assert table.predict_ns(asked_of(4, 4)) == pytest.approx(at_four(time_ns), rel=0.01)


def at_four(time_ns: pl.Expr) -> list[float]:
    """[ns] What four ranks of a node take."""
    shapes = pl.DataFrame(dict(asked_of(4, 4).shapes.sizes))
    return shapes.select(ns=time_ns)["ns"].to_list()


def test_a_collective_of_one_rank_takes_no_longer() -> None:
    """It sends nothing, and takes at most as long as the same message of two."""
    table = cluster([(n, n) for n in (2, 8)], ONE_NODE)
    one, two = (table.predict_ns(asked_of(n, n)) for n in (1, 2))
    assert (one > 0).all()
    assert (one <= two).all()


@pytest.mark.parametrize(("ranks", "per_node", "kind"), LAYOUTS)
def test_collectives_of_unmeasured_layouts(
    ranks: int, per_node: int, kind: str, tmp_path: Path
) -> None:
    """Unmeasured rank counts are out of range; other nodes are another topology."""
    texts = {name: pl.lit(value) for name, value in TEXTS.items()}
    frame = pl.DataFrame({"bytes": SIZES}).with_columns(ranks=8, ranks_per_node=8)
    write(frame.with_columns(time_ns=ONE_NODE, **texts), tmp_path / "nccl.parquet")
    kernels.train([tmp_path / "nccl.parquet"], tmp_path / "models")
    question = frame.with_columns(hardware=pl.lit("V100"), **texts).with_columns(
        ranks=pl.lit(ranks), ranks_per_node=pl.lit(per_node)
    )
    found = kernels.load(tmp_path / "models").predict(question)
    assert found["in_range"].any() == (ranks == per_node == 8)
    assert set(found["likeness"]) == {kind}


def test_collectives_of_other_rank_counts_across_nodes() -> None:
    """Time per bus byte is interpolated between measured rank counts."""
    bus_bytes = 2 * pl.col("bytes") * (1 - 1 / pl.col("ranks"))
    time_ns = bus_bytes * pl.col("ranks").sqrt() / 10 + 1
    table = cluster([(4, 2), (16, 8)], time_ns)
    asked_for = asked_of(8, 4)
    truth = pl.DataFrame(dict(asked_for.shapes.sizes)).select(time_ns.alias("ns"))
    found = table.predict_ns(asked_for)[
        1:
    ]  # the first size is below the measured range
    assert found == pytest.approx(truth["ns"].to_list()[1:], rel=0.02)


def test_a_short_curve_is_extended_by_a_longer_one() -> None:
    """A layout measured for 1 kB only uses the bandwidth of another, out of range."""
    time_ns = 50_000 + pl.col("bytes") / 10
    rows = [(32, 8, size) for size in SIZES] + [(16, 8, SIZES[0])]
    frame = pl.DataFrame(rows, ["ranks", "ranks_per_node", "bytes"], orient="row")
    frame = frame.with_columns(time_ns=time_ns + 1000 * pl.col("ranks"))
    table = fit_table(messages(frame))
    asked_for = asked_of(16, 8)
    truth = pl.DataFrame(dict(asked_for.shapes.sizes)).select(ns=time_ns + 16_000)
    found = table.predict_ns(asked_for)
    assert found == pytest.approx(truth["ns"].to_list(), rel=0.05)
    assert (table.beyond(asked_for) > 0).tolist() == [False] + [True] * (len(SIZES) - 1)
    assert not table.beyond(asked_of(32, 8)).any()


def test_falling_times_are_made_to_rise_as_scipy_does() -> None:
    """Isotonic regression of random curves of 1 to 60 sizes."""
    random = np.random.default_rng(5)
    for count in range(1, 61):
        y = np.cumsum(random.normal(size=count)) * 10.0 ** random.integers(-2, 3)
        assert rising(y) == pytest.approx(isotonic_regression(y).x, rel=1e-9, abs=1e-9)


def test_the_nearest_layout_is_chosen() -> None:
    """Of two layouts of eight ranks, the one with more ranks per node is nearer."""
    layouts = [(4, 1), (8, 1), (8, 4), (16, 8)]
    table = cluster(layouts, 1e6 / pl.col("ranks_per_node") + pl.col("bytes"))
    alone = cluster(layouts[2:], 1e6 / pl.col("ranks_per_node") + pl.col("bytes"))
    found, expected = (t.predict_ns(asked_of(12, 6)) for t in (table, alone))
    assert found == pytest.approx(expected)


def test_stalled_messages_are_dropped(tmp_path: Path) -> None:
    """Five times as long as larger messages is a stall; one short time is not."""
    texts = {name: pl.lit(value) for name, value in TEXTS.items()}
    frame = pl.DataFrame({"bytes": SIZES}).with_columns(ranks=8, ranks_per_node=8)
    frame = frame.with_columns(time_ns=ONE_NODE, **texts)
    stalled = pl.when(pl.col("bytes") == SIZES[4]).then(10).otherwise(1)
    slips = pl.when(pl.col("bytes") == SIZES[-3]).then(0.01).otherwise(1)
    for name, factor in (("stalled", stalled), ("slips", slips)):
        changed = frame.with_columns(time_ns=ONE_NODE * factor)
        write(changed, tmp_path / f"{name}.parquet")
    found = kernels.read_measurements([tmp_path / "stalled.parquet"])
    assert found.frame["bytes"].to_list() == [*SIZES[:4], *SIZES[5:]]
    assert [*found.dropped.values()] == [1]
    assert not kernels.read_measurements([tmp_path / "slips.parquet"]).dropped


def test_scatter_of_one_rank_count_does_not_spread() -> None:
    """A hump among small messages stays in its own curve; others are interpolated."""
    is_hill = pl.col("bytes").is_between(2**13, 2**15)
    hill = pl.when(is_hill).then(5 * ONE_NODE).otherwise(ONE_NODE)
    table = cluster([(n, n) for n in (2, 8)], hill)
    known = table.predict_ns(asked_of(8, 8))
    assert known[4] > 4 * known[2]
    between = table.predict_ns(asked_of(4, 4))
    assert (np.diff(between) >= -1e-6).all()
    assert between[4] < 3 * between[2]


def test_links_within_a_node_belong_to_the_hardware() -> None:
    """Times across nodes transfer to other GPUs; times within a node do not."""
    frame = pl.DataFrame({"bytes": SIZES}).join(
        pl.DataFrame({"ranks": [8, 16], "ranks_per_node": [8, 8]}), how="cross"
    )
    texts = {name: pl.lit(value) for name, value in TEXTS.items()}
    frame = frame.with_columns(time_ns=ONE_NODE, **texts)
    devices = (V100, "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
    groups = groups_of(
        pl.concat(frame.with_columns(device=pl.lit(device)) for device in devices)
    )
    volta, ampere, hopper = groups
    one_node = hopper.rows.take(hopper.rows.shapes["ranks"] == 8)
    hopper = replace(hopper, rows=one_node)
    predictors = {g.key: fit_predictor(g.rows) for g in (volta, ampere, hopper)}

    def said(*members: Group) -> Answered:
        found = HeldOut(members, predictors).answered(members[0])
        assert found is not None
        return found

    rows, predicted, is_near = said(volta, ampere)
    assert not is_near
    over = rows.shapes["ranks"] == 16
    assert predicted.ns[over] == pytest.approx(rows.time_ns[over], rel=1e-3)
    assert predicted.ns[~over].max() > 1.5 * rows.time_ns[~over].max()
    assert set(said(volta, hopper).rows.shapes["ranks"]) == {8}


TEXTS = {
    "device": V100,
    "software": "nccl",
    "source": "test",
    "measured": "kernel",
    "family": "collective",
    "op": "all_reduce",
    "dtype": "float16",
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Attention of two libraries on two GPUs, one 1.5 times as long as the other."""
    folder = tmp_path_factory.mktemp("libraries")
    for device in (V100, "NVIDIA A100-SXM4-80GB"):
        for library, factor in (("fa2", 1.5), ("fa3", 1.0)):
            frame = measured("attention", device=device).with_columns(
                pl.lit(f"served 1.0 {library}").alias("software"),
                pl.col("time_ns") * factor,
            )
            write(frame, folder / f"{library} {device}.parquet")
    return folder


def test_models_of_the_same_library_answer(libraries: Path, tmp_path: Path) -> None:
    """Others only where the library is unknown; of a third one, nothing is in range."""
    kernels.train([libraries], tmp_path)
    found = kernels.load(tmp_path)

    def said(library: str | None) -> pl.DataFrame:
        named = pl.lit(library, pl.String).alias("implementation")
        return found.predict(asked("attention").with_columns(named))

    by = {name: said(name) for name in ("fa2", "fa3", "other", None)}
    ratio = (by["fa2"]["predicted_ns"] / by["fa3"]["predicted_ns"]).median()
    assert ratio == pytest.approx(1.5, rel=0.03)
    between = (by[None]["predicted_ns"] / by["fa3"]["predicted_ns"]).median()
    assert between == pytest.approx(1.5**0.5, rel=0.03)
    assert by[None].equals(found.predict(asked("attention")))
    assert by["other"]["predicted_ns"].to_list() == by[None]["predicted_ns"].to_list()
    assert [by[n]["in_range"].any() for n in by] == [True, True, False, True]
    assert set(by["other"]["likeness"]) == {"alike"}


def test_held_out_gpus_are_predicted_by_the_same_library(
    libraries: Path,
) -> None:
    """If it is known; otherwise by all, which are off by what libraries differ."""
    groups = groups_of(kernels.read_measurements([libraries]).frame)
    predictors = {group.key: fit_predictor(group.rows) for group in groups}
    off = {}
    for is_known in (False, True):
        held = HeldOut(groups, predictors, is_implementation_known=is_known)
        found = held.answered(groups[0])
        assert found is not None
        logs = np.log(found.predicted.ns / found.rows.time_ns)
        off[is_known] = float(np.median(logs))
    assert off[True] == pytest.approx(0, abs=0.03)
    assert abs(off[False]) == pytest.approx(np.log(1.5) / 2, abs=0.03)


def test_near_ops_share_models(models: kernels.Models) -> None:
    """A model of mm serves addmm; add serves relu, marked `other_op`; bmm has none."""
    question = asked("gemm").head(1)
    alike = models.predict(question.with_columns(op=pl.lit("addmm")))
    assert alike["in_range"].to_list() == [True]
    assert alike["likeness"].to_list() == ["alike"]
    other = models.predict(question.with_columns(op=pl.lit("bmm")))
    assert other["predicted_ns"].to_list() == [None]
    relu = asked("elementwise").head(1).with_columns(op=pl.lit("relu"))
    assert models.predict(relu)["in_range"].to_list() == [False]
    assert models.predict(relu)["likeness"].to_list() == ["other_op"]


def test_hardware_listed_by_a_user(folder: Path, models: kernels.Models) -> None:
    """Hardware listed in a user's database is known by that name."""
    with tracedb.open() as database:
        connection = database.connection
        connection.execute("CREATE TABLE own AS FROM prediction.hardware")
        connection.execute("UPDATE own SET hardware = 'My GPU' WHERE hardware = 'V100'")
        connection.execute("DROP SCHEMA prediction CASCADE")
        connection.execute("CREATE SCHEMA prediction")
        connection.execute("CREATE VIEW prediction.hardware AS FROM own")
        own = kernels.load(folder, connection)
    question = asked("gemm", "My GPU").head(2)
    assert models.predict(question)["in_range"].to_list() == [False, False]
    assert own.predict(question)["in_range"].to_list() == [True, True]


def test_dtypes_of_the_same_rate_share_models(models: kernels.Models) -> None:
    """A model of float16 serves bfloat16, but not float32."""
    question = asked("gemm").head(1)
    bfloat = models.predict(question.with_columns(dtype=pl.lit("bfloat16")))
    assert bfloat["in_range"].to_list() == [True]
    full = models.predict(question.with_columns(dtype=pl.lit("float32")))
    assert full["predicted_ns"].to_list() == [None]


# Files.


def test_files_hold_no_code(folder: Path) -> None:
    """A model file has a JSON header with provenance, plain arrays, and no objects."""
    path = next(folder.glob("V100_gemm_*.npz"))
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(file["header"].tobytes())
        assert not any(file[name].dtype.hasobject for name in file.files)
    data = header["provenance"]["data"]
    assert [entry["file"] for entry in data] == ["gemm.parquet"]
    assert len(data[0]["sha256"]) == 64
    assert header["provenance"]["scikit_learn"]
    assert header["key"]["hardware"] == "V100"


def test_files_predict_as_trained(folder: Path, tmp_path: Path) -> None:
    """A loaded model predicts exactly what the trained one does."""
    source = folder.parent / "gemm.parquet"
    done = kernels.train([source], tmp_path / "again")
    again = kernels.Models.of(done.models, hardware_table())
    question = asked("gemm")
    assert again.predict(question).equals(
        kernels.load(tmp_path / "again").predict(question)
    )


def _band_of(value: object) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def put(_header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["band.new.low"] = np.array([value] * len(arrays["band.new.low"]))

    return put


BREAKS: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "version": lambda header, _: header.update(format=99),
    "key": lambda header, _: header["key"].pop("op"),
    "size": lambda header, _: header["base"]["constants"].update(floor_ns="text"),
    "array": lambda _, arrays: arrays.pop("band.new.low"),
    "nan": _band_of(float("nan")),
    "inf": _band_of(float("inf")),
    "words": _band_of("text"),
}
"""How each case changes a model's header or arrays."""


def broken(path: Path, how: str) -> Path:
    """Break a model file."""
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("no model")
    elif how == "pickle":
        np.savez(path, header=np.array([{"a": 1}], dtype=object))
    else:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        BREAKS[how](header, arrays)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("how", ["cut", "empty", "text", "pickle", *BREAKS])
def test_broken_models(how: str, folder: Path, tmp_path: Path) -> None:
    """A broken file gives one line that names it and says what to do."""
    path = tmp_path / "model.npz"
    path.write_bytes(next(folder.glob("V100_gemm_*.npz")).read_bytes())
    with pytest.raises(KernelModelError, match="train it again") as caught:
        kernels.load(broken(path, how))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# Public data.


def test_formats_differ() -> None:
    """No two formats have the same columns."""
    columns = [frozenset(reader.columns.split()) for reader in READERS]
    assert len(set(columns)) == len(columns)


@needs_data
def test_public_files_are_read() -> None:
    """Every measurement file is recognised; rows known to be wrong are dropped."""
    found = kernels.read_measurements([DATA])
    assert found.skipped == ("neusight_devices.csv",)
    assert (found.frame["time_ns"] > 0).all()
    assert any("sliding window" in why for why in found.dropped)
    for name, family in kernels.FAMILIES.items():
        rows = found.frame.filter(pl.col("family") == name)
        assert rows.select(family.required).null_count().sum_horizontal().sum() == 0


@needs_data
def test_models_beat_the_baselines(tmp_path: Path) -> None:
    """On real products, held out by size, the model beats MLP and roofline."""
    with gzip.open(DATA / "pipeweave_gemm_fp8.csv.gz", "rt") as file:
        header, *lines = file
    some = tmp_path / "pipeweave_gemm_fp8.csv"
    some.write_text("".join([header, *lines[::EACH_REAL_ROW]]))
    scores = kernels.evaluate([some], splits=["largest"])
    for _, part in scores.group_by("hardware"):
        gmae = dict(part.select("predictor", "gmae_share").iter_rows())
        assert gmae["model"] < min(gmae["mlp"], gmae["roofline"])


# The command line.


def run(*words: object) -> Result:
    """Run `tracedb kernels`."""
    return CliRunner().invoke(command, ["kernels", *map(str, words)])


def test_train_list_show(tmp_path: Path) -> None:
    """`list` and `show` read what `train` writes; ops with few rows are left out."""
    few = measured("memcpy", 5).with_columns(op=pl.lit("d2h"))
    source = pl.concat([measured("memcpy"), measured("memset"), few])
    write(source, tmp_path / "copies.parquet")
    done = run("train", tmp_path / "copies.parquet", "-o", tmp_path / "models")
    assert done.exit_code == 0
    assert "too few shapes for a model: memcpy d2h" in done.stderr
    assert "doubtful" not in done.stderr
    listed = run("list", tmp_path / "models", "--format", "json")
    rows = json.loads(listed.stdout)
    assert {row["hardware"] for row in rows} == {"V100"}
    assert rows[0]["shapes"] == ROWS
    path = next((tmp_path / "models").glob("V100_memcpy_*.npz"))
    shown = run("show", path).stdout
    assert "copies.parquet" in shown
    assert "floor_ns" in shown
    assert max(map(len, shown.splitlines())) < 150
    assert {file.suffix for file in (tmp_path / "models").iterdir()} == {".npz"}
    many = run("show", tmp_path / "models")
    assert (many.exit_code, many.stdout, many.stderr.count("\n")) == (2, "", 1)
    assert f"a folder of {len(rows)} models; choose one: " in many.stderr
    assert path.name in many.stderr
    alone = tmp_path / "alone"
    alone.mkdir()
    path.rename(alone / path.name)
    assert run("show", alone).stdout == shown


def test_train_warns_of_useless_models(tmp_path: Path) -> None:
    """Times that do not depend on size give a model worse than the data sheet."""
    random = np.random.default_rng(0)
    times = pl.Series(np.exp(random.uniform(np.log(1e4), np.log(1e9), ROWS)))
    noise = measured("memset").with_columns(time_ns=times)
    write(noise, tmp_path / "sets.parquet")
    done = run("train", tmp_path / "sets.parquet", "-o", tmp_path / "models")
    assert done.exit_code == 0
    warned = [line for line in unbroken(done.stderr).splitlines() if "doubtful" in line]
    assert len(warned) == 1
    assert warned[0].startswith("doubtful: memset memset bytes kernel on V100 by test")
    assert "the data sheet by" in warned[0]
    assert "leave this model out" in warned[0]


@pytest.mark.parametrize(("factor", "told"), [(1000, ""), (1e-3, "takes 1/")])
def test_train_warns_of_a_wrong_unit(factor: float, told: str, tmp_path: Path) -> None:
    """Times a thousand times too long or too short contradict the data sheet."""
    wrong = measured("memset").with_columns(pl.col("time_ns") * factor)
    write(wrong, tmp_path / "sets.parquet")
    done = run("train", tmp_path / "sets.parquet", "-o", tmp_path / "models")
    assert done.exit_code == 0
    (warned,) = [
        line for line in unbroken(done.stderr).splitlines() if "doubtful" in line
    ]
    assert "as long as by the data sheet; check that its times are in ns" in warned
    assert told in warned


def test_evaluate_shows_all_scores(tmp_path: Path) -> None:
    """Each split has the model and its baselines, with all four scores."""
    write(measured("memset", 200), tmp_path / "sets.parquet")
    words = ("--split", "random", "--split", "largest", "--format", "json")
    rows = json.loads(run("evaluate", tmp_path / "sets.parquet", *words).stdout)
    assert {row["split"] for row in rows} == {"random", "largest"}
    predictors = {"model", "roofline", "datasheet", "mlp"}
    assert {row["predictor"] for row in rows} == predictors
    model = next(row for row in rows if row["predictor"] == "model")
    shares = ("gmae_share", "mape_share", "p90_share", "coverage_share")
    assert all(model[name] is not None for name in shares)


def bad_file(folder: Path, name: str) -> Path:
    """A file without measurements, or with broken ones."""
    path = folder / "bad"
    good = measured("memset")
    frames = {
        "version": (good, "7"),
        "family": (good.with_columns(family=pl.lit("gem")), "1"),
        "column": (good.drop("time_ns"), "1"),
        "size": (good.rename({"bytes": "size"}), "1"),
        "type": (good.with_columns(bytes=pl.lit("many")), "1"),
        "few": (good.head(3), "1"),
    }
    if name in frames:
        return write(frames[name][0], path.with_suffix(".parquet"), frames[name][1])
    if name == "cut":
        path = write(good, path.with_suffix(".parquet"))
        path.write_bytes(path.read_bytes()[:-99])
        return path
    if name == "csv":
        path.with_suffix(".csv").write_text("a,b\n1,2\n")
        return path.with_suffix(".csv")
    if name == "other":
        good.select("bytes").write_parquet(path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    if name == "plain":
        good.write_parquet(path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    return folder / "absent"


MISTAKES = {
    "version": "measurements of version 7; this tracedb reads version 1",
    "family": "row 1: family is 'gem'; it must be one of attention, broadcast",
    "column": "measurements lack column time_ns",
    "size": "measurements lack column bytes, which every memset needs",
    "type": "a column has the wrong type",
    "few": "no kernel was measured with 8 or more shapes (at most 3)",
    "cut": "not a Parquet file, or truncated",
    "csv": "the columns a, b match no known format",
    "plain": "write_parquet(..., metadata={'tracedb.measurements': '1'})",
    "other": "match no known format",
    "absent": "absent: cannot be read: No such file or directory",
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_bad_files_are_one_line(name: str, tmp_path: Path) -> None:
    """A bad file gives exit code 2 and one line that says why."""
    done = run("train", bad_file(tmp_path, name), "-o", tmp_path / "models")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("tracedb: error: ")
    assert MISTAKES[name] in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["list", "show"])
def test_no_models(command: str, tmp_path: Path) -> None:
    """Missing and empty folders have no models; the message says how to train them."""
    for path in (tmp_path, tmp_path / "absent"):
        done = run(command, path)
        assert done.exit_code == 2
        assert "`tracedb kernels train` writes models" in done.stderr


def test_rewritten_measurements_are_read_with_their_version(tmp_path: Path) -> None:
    """The suggested fix works; without it, a folder does not skip the file."""
    path = tmp_path / "mine.parquet"
    measured("memset").write_parquet(path, metadata={"tracedb.measurements": "1"})
    assert kernels.read_measurements([tmp_path]).frame.height == ROWS
    measured("memset").write_parquet(path)
    with pytest.raises(MeasurementError, match="rewritten by another tool"):
        kernels.read_measurements([tmp_path])


def test_unknown_families_are_reported(tmp_path: Path) -> None:
    """The error lists the known families."""
    path = write(measured("memset"), tmp_path / "sets.parquet")
    done = run("evaluate", path, "--family", "bogus")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no family bogus; available: attention, broadcast, " in done.stderr


def test_empty_folder_has_no_measurements(tmp_path: Path) -> None:
    """A folder without measurements is an error, not an empty model."""
    with pytest.raises(MeasurementError, match="no measurements"):
        kernels.read_measurements([tmp_path])


@pytest.mark.parametrize("name", ["train", "evaluate", "list", "show"])
def test_help_of_each_command(name: str) -> None:
    """Help has an example of the command, and lines of at most 80 characters."""
    done = run(name, "--help")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert f"tracedb kernels {name} " in done.stdout


def test_a_text_file_is_no_model(tmp_path: Path) -> None:
    """The error says that it is not an archive, and does not mention pickle."""
    path = tmp_path / "text.npz"
    path.write_text("{}")
    with pytest.raises(KernelModelError, match="it is not an archive") as raised:
        kernels.load(path)
    assert "pickle" not in str(raised.value)
