"""Laws of predicted kernel times: no steps, no time below the bounds, growth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from support import ROOT

import tracedb
from tracedb import KernelModelError, kernels
from tracedb.kernels.blend import Answer, blended
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.predictor import Predicted
from tracedb.kernels.rows import rows_of
from tracedb.kernels.work import Op

if TYPE_CHECKING:
    pass

STEP = 1.02
"""From one size to the next."""
LARGEST_STEP = 1.15
"""By which a prediction may change then: a tree's leaf beside its neighbour."""
SWEEPS = {
    "elementwise": ("add", "float16", {"inputs": 2, "outputs": 1}, "elements"),
    "softmax": ("softmax", "float32", {"width": 1024}, "rows"),
    "gemm": ("mm", "bfloat16", {"n": 4096, "k": 4096}, "m"),
    "collective": ("all_reduce", "bytes", {"ranks": 8, "ranks_per_node": 8}, "bytes"),
}
HARDWARE = ("V100", "H100", "H200", "MI300X")


def sweep(family: str, hardware: str, least: float, most: float) -> pl.DataFrame:
    """Rows of one op whose size grows by `STEP`."""
    op, dtype, others, name = SWEEPS[family]
    count = int(np.log(most / least) / np.log(STEP))
    sizes = np.unique((least * STEP ** np.arange(count)).round().astype(int))
    texts = {"hardware": hardware, "family": family, "op": op, "dtype": dtype}
    return pl.DataFrame({name: sizes}).with_columns(
        **{n: pl.lit(value) for n, value in {**others, **texts}.items()}
    )


def made_up(family: str, device: str, software: str, factor: float) -> pl.DataFrame:
    """Measurements of a hundred sizes, by a plain roofline with scatter of 2 %."""
    op, dtype, _, _ = SWEEPS[family]
    frame = sweep(family, device, 1e3, 1e7).gather_every(4).drop("hardware")
    figures = hardware_table().find(device).figures
    rows = rows_of(frame, Op(family, op, dtype), figures, is_listed=True)
    work = np.maximum(rows.work.compute_ns / 0.7, rows.work.memory_ns / 0.8)
    scatter = np.random.default_rng(len(family)).normal(0, 0.02, len(rows))
    texts = {"device": device, "software": software, "measured": "kernel"}
    return frame.with_columns(
        source=pl.lit("test"),
        time_ns=pl.Series(factor * (3000 + work) * np.exp(scatter)),
        **{name: pl.lit(text) for name, text in texts.items()},
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> kernels.Models:
    """Models of four families on a V100, of products by two harnesses."""
    folder = tmp_path_factory.mktemp("laws")
    device = "Tesla V100-SXM2-16GB"
    frames = [made_up(family, device, "one", 1.0) for family in SWEEPS]
    slower = made_up("gemm", device, "two", 1.4).filter(pl.col("m") < 10**5)
    for number, frame in enumerate([*frames, slower]):
        metadata = {"tracedb.measurements": "1", "tracedb.provenance": "{}"}
        table = frame.to_arrow().replace_schema_metadata(metadata)
        pq.write_table(table, folder / f"{number}.parquet")
    kernels.train([folder], folder / "models", forests=("small",))
    return kernels.load(folder / "models")


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("family", SWEEPS)
def test_sizes_have_no_steps_and_no_bound_is_passed(
    family: str, hardware: str, models: kernels.Models
) -> None:
    """From far below to far above what was measured, a size is a smooth, growing time.

    Twice the size never takes less, but for what neighbouring leaves scatter.
    """
    question = sweep(family, hardware, 20, 1e9)
    found = models.predict(question)
    ns = found["predicted_ns"].to_numpy()
    change = ns[1:] / ns[:-1]
    sizes = question[SWEEPS[family][3]].to_numpy()
    grown = np.maximum(sizes[1:] / sizes[:-1], 1)
    assert (change <= LARGEST_STEP * grown).all()
    assert (change >= 1 / LARGEST_STEP).all()
    doubled = np.interp(2 * sizes, sizes, ns)
    inside = 2 * sizes <= sizes[-1]
    assert (doubled[inside] >= ns[inside] / LARGEST_STEP).all()
    op, dtype, _, _ = SWEEPS[family]
    figures = hardware_table().find(hardware).figures
    rows = rows_of(question, Op(family, op, dtype), figures, is_listed=True)
    assert (ns >= rows.least_ns * (1 - 1e-9)).all()
    assert (found["low_ns"].to_numpy() <= ns).all()
    assert (ns <= found["high_ns"].to_numpy()).all()


def test_the_bound_by_hand() -> None:
    """An addition of 2^20 floats moves 12.6 MB through a V100's memory: 13.98 us.

    Of a sixteenth, all of it lies in the cache of 6 MiB: 786 kB at 2,847 GB/s.
    """
    figures = hardware_table().find("V100").figures
    frame = pl.DataFrame({"elements": [2**20, 2**16], "inputs": 2, "outputs": 1})
    what = Op("elementwise", "add", "float32")
    rows = rows_of(frame, what, figures, is_listed=True)
    assert rows.least_ns == pytest.approx([13_981, 276.2], rel=1e-3)
    unlisted = rows_of(frame, what, figures, is_listed=False)
    assert (unlisted.least_ns == 0).all()


def test_harnesses_make_one_answer() -> None:
    """Between two that are as near; the one in its own range has more to say."""

    def answer(ns: float, away: float) -> Answer:
        times = np.array([ns]), np.array([ns / 1.1]), np.array([ns * 1.1])
        return Answer(Predicted(*times, np.array([away])), 0.0)

    even = blended([answer(100, 0), answer(400, 0)])
    assert even.ns[0] == pytest.approx(200)
    assert (even.low_ns[0] < 100, even.high_ns[0] > 400) == (True, True)
    near = blended([answer(100, 0), answer(400, 3)])
    assert 100 < near.ns[0] < 150
    assert near.away[0] == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "the size m of row 1 is nan"),
        (float("inf"), "the size m of row 1 is inf"),
        ("many", "the size m is String"),
    ],
)
def test_no_numbers_are_refused(
    value: float | str, words: str, models: kernels.Models
) -> None:
    """A size that is none is reported with its name, its row and its value."""
    question = sweep("gemm", "V100", 100, 200).with_columns(m=pl.lit(value))
    with pytest.raises(KernelModelError, match=words):
        models.predict(question)


def test_a_user_model_comes_before_the_shipped_ones(models: kernels.Models) -> None:
    """Where the user measured, shipped models count little; elsewhere they answer."""
    both = models.over(kernels.shipped())
    known = sweep("gemm", "V100", 1e4, 1.1e4)
    own, laid = models.predict(known), both.predict(known)
    ratio = laid["predicted_ns"].to_numpy() / own["predicted_ns"].to_numpy()
    assert np.abs(np.log(ratio)).max() < 0.2
    other = sweep("gemm", "A100 80GB", 1e4, 1.1e4)
    assert both.predict(other).equals(kernels.shipped().predict(other))


def test_what_is_shipped() -> None:
    """Each model has its file, its score, its data and their licence; all are small."""
    folder = ROOT / "tracedb" / "kernels" / "shipped"
    shipped = kernels.shipped()
    files = {shelf.source for shelf in shipped.shelves}
    assert files == set(folder.glob("*.npz"))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5e6
    for row in map(kernels.summary, shipped.models):
        assert row["licence"].endswith(("Apache-2.0", "MIT")), row
        assert row["files"]
        assert row["gmae_share"] < 0.2
    hardware = {shelf.key.hardware for shelf in shipped.shelves}
    assert hardware >= {"A100 80GB", "H100", "B200", "L40S", "V100", "T4", "P100"}


@pytest.mark.parametrize("hardware", ["H200", "MI300X", "A100 40GB"])
def test_hardware_without_data_has_the_nearest_model(hardware: str) -> None:
    """Only what the GPU needs is read, and such times serve for products."""
    shipped = kernels.shipped().serving()
    found = shipped.predict(sweep("gemm", hardware, 100, 1e4))
    assert found["predicted_ns"].null_count() == 0
    assert set(found["likeness"]) == {"other_hardware"}
    read = [shelf for shelf in shipped.shelves if "model" in vars(shelf)]
    assert 1 <= len(read) <= 4
    memory = shipped.predict(sweep("elementwise", hardware, 100, 1e4))
    assert memory["predicted_ns"].null_count() == memory.height


def test_ingest_asks_the_shipped_models() -> None:
    """A first trace has times of models without any setup, and again after a second."""
    trace = ROOT / "sample_traces" / "generated_gpu" / "rank0.kineto.json.gz"
    with tracedb.open() as database:
        database.ingest([trace])
        query = "SELECT count(*), any_value(likeness) FROM reference.kernel_estimate"
        count, likeness = database.sql(query).row(0)
        assert count > 0
        assert likeness == "alike"
        database.apply_models()
        assert database.sql(query).row(0)[0] >= count
