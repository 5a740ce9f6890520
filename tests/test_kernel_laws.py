"""Laws of predicted kernel times: no jumps, no time below the bound, growth."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import kernel_laws
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from launched import Op as Launched
from launched import tensors, write
from support import ROOT, ingests_until

import tracedb
from tracedb import KernelModelError, kernels
from tracedb.kernels.blend import Answer, blended
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.held_out import Held, transfer_of
from tracedb.kernels.model import Key
from tracedb.kernels.pooled import SOURCE
from tracedb.kernels.predictor import Predicted
from tracedb.kernels.rows import rows_of
from tracedb.kernels.transfer import GRID, NEAREST, PARTS, Mix, Verdict
from tracedb.kernels.usual import usual_ns
from tracedb.kernels.work import Op

if TYPE_CHECKING:
    from pathlib import Path

STEP = 1.02
"""The ratio between neighbouring sizes."""
LARGEST_STEP = 1.15
"""The largest allowed change between them (leaves of a tree differ)."""
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
    """A hundred sizes: a plain roofline with 2 % scatter."""
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
    """Models of four families on a V100; two harnesses measured gemm."""
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
def test_predictions_are_smooth_and_above_the_bound(
    family: str, hardware: str, models: kernels.Models
) -> None:
    """Times grow without jumps from far below to far above the measured sizes.

    Twice the size never takes less time, apart from the scatter of tree leaves.
    """
    question = sweep(family, hardware, 20, 1e9)
    check_laws(family, hardware, question, models.predict(question))


def check_laws(
    family: str,
    hardware: str,
    question: pl.DataFrame,
    found: pl.DataFrame,
    largest: float = LARGEST_STEP,
) -> None:
    """Predictions of a sweep are smooth, grow, and stay above the bound."""
    ns = found["predicted_ns"].to_numpy()
    change = ns[1:] / ns[:-1]
    sizes = question[SWEEPS[family][3]].to_numpy()
    grown = np.maximum(sizes[1:] / sizes[:-1], 1)
    assert (change <= largest * grown).all()
    assert (change >= 1 / largest).all()
    doubled = np.interp(2 * sizes, sizes, ns)
    inside = 2 * sizes <= sizes[-1]
    assert (doubled[inside] >= ns[inside] / largest).all()
    op, dtype, _, _ = SWEEPS[family]
    figures = hardware_table().find(hardware).figures
    rows = rows_of(question, Op(family, op, dtype), figures, is_listed=True)
    assert (ns >= rows.least_ns * (1 - 1e-9)).all()
    assert (found["low_ns"].to_numpy() <= ns).all()
    assert (ns <= found["high_ns"].to_numpy()).all()


def test_the_bound_by_hand() -> None:
    """An addition of 2^20 floats moves 12.6 MB through a V100's memory: 13.98 us.

    With 2^16 floats, everything is in the 6 MiB cache: 786 kB at 2,847 GB/s.
    """
    figures = hardware_table().find("V100").figures
    frame = pl.DataFrame({"elements": [2**20, 2**16], "inputs": 2, "outputs": 1})
    what = Op("elementwise", "add", "float32")
    rows = rows_of(frame, what, figures, is_listed=True)
    assert rows.least_ns == pytest.approx([13_981, 276.2], rel=1e-3)
    unlisted = rows_of(frame, what, figures, is_listed=False)
    assert (unlisted.least_ns == 0).all()


def test_harnesses_are_blended() -> None:
    """Equal distances give the geometric mean; a model in range counts more."""

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
def test_sizes_that_are_no_numbers_are_refused(
    value: float | str, words: str, models: kernels.Models
) -> None:
    """The error gives the size's name, row and value."""
    question = sweep("gemm", "V100", 100, 200).with_columns(m=pl.lit(value))
    with pytest.raises(KernelModelError, match=words):
        models.predict(question)


@pytest.mark.parametrize(
    ("family", "op", "sizes"),
    [
        ("gemm", "linear", {"m": 1 << 40, "n": 1 << 40, "k": 1 << 40}),
        ("gemm", "linear", {"batch": 0}),
        ("attention", "forward", {"queries": -1}),
        ("attention", "forward", {"kv_heads": 0}),
        (
            "collective",
            "all_gather",
            {"bytes": 1 << 20, "ranks": 8, "ranks_per_node": 0},
        ),
    ],
)
def test_what_is_no_work_has_no_time(
    family: str, op: str, sizes: dict[str, int]
) -> None:
    """Sizes below 1 and work beyond numbers leave other rows as they are."""
    usual = {"images": 2, "heads": 8, "kv_heads": 8, "queries": 512, "keys": 512}
    usual |= {"head_dim": 64, "causal": 1, "batch": 1, "m": 64, "n": 64, "k": 64}
    usual |= {"elements": 1 << 20, "bytes": 1 << 20, "ranks": 8, "ranks_per_node": 8}
    texts = {"hardware": "H100", "family": family, "op": op}
    texts["dtype"] = "bytes" if family == "collective" else "bfloat16"
    found = kernels.shipped().predict(
        pl.DataFrame([texts | usual, texts | usual | sizes])
    )
    assert found["predicted_ns"].is_null().to_list() == [False, True]


def test_a_user_model_comes_before_the_shipped_ones(models: kernels.Models) -> None:
    """Where the user measured, shipped models count little; elsewhere they answer."""
    both = models.over(kernels.shipped())
    known = sweep("gemm", "V100", 1e4, 1.1e4)
    own, laid = models.predict(known), both.predict(known)
    ratio = laid["predicted_ns"].to_numpy() / own["predicted_ns"].to_numpy()
    assert np.abs(np.log(ratio)).max() < 0.2
    other = sweep("gemm", "A100 80GB", 1e4, 1.1e4)
    assert both.predict(other).equals(kernels.shipped().predict(other))


def test_shipped_models() -> None:
    """Each has its file, score, data and licence; all are small."""
    folder = ROOT / "tracedb" / "kernels" / "shipped"
    shipped = kernels.shipped()
    files = {shelf.source for shelf in shipped.shelves}
    assert files == set(folder.glob("*.npz"))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5e6
    for row in map(kernels.summary, shipped.models):
        assert row["licence"].endswith(("Apache-2.0", "MIT")), row
        assert row["files"]
        # Held-out GPUs judge pooled models: they have no score of their own.
        assert row["source"] == SOURCE or row["gmae_share"] < 0.2, row
    hardware = {shelf.key.hardware for shelf in shipped.shelves}
    assert hardware >= {"A100 80GB", "H100", "B200", "L40S", "V100 PCIe", "T4", "P100"}


@pytest.fixture(scope="module")
def serving() -> kernels.Models:
    """The shipped models that replace the roofline."""
    return kernels.shipped().serving()


@pytest.mark.parametrize(
    ("family", "hardware", "relative"),
    [
        ("gemm", "H800", "H100"),
        ("gemm", "A100 40GB", "A100 80GB"),
        ("elementwise", "H200", "H100"),
        ("collective", "H800", "H100"),
    ],
)
def test_times_are_transferred_within_a_generation(
    family: str, hardware: str, relative: str, serving: kernels.Models
) -> None:
    """GPUs that were not measured use a relative's times, without new jumps.

    Tiles cause jumps in the measured times; larger ones are not allowed.
    """
    question = sweep(family, hardware, 100, 1e8)
    found = serving.predict(question)
    assert set(found["likeness"]) == {"transferred"}
    assert not found["in_range"].any()
    measured = serving.predict(question.with_columns(hardware=pl.lit(relative)))
    assert set(measured["likeness"]) == {"alike"}
    ns = measured["predicted_ns"].to_numpy()
    tiles = np.abs(np.log(ns[1:] / ns[:-1])).max()
    check_laws(family, hardware, question, found, LARGEST_STEP * float(np.exp(tiles)))


@pytest.mark.parametrize("hardware", ["MI300X", "Voodoo 2", "V100 PCIe"])
def test_other_vendors_and_unknown_gpus_have_no_model(
    hardware: str, serving: kernels.Models
) -> None:
    """NVIDIA models do not serve AMD or unknown GPUs: there the roofline remains.

    V100 PCIe measurements include the launch, so kernel models do not serve it.
    """
    question = sweep("elementwise", hardware, 100, 1e4)
    assert serving.predict(question)["predicted_ns"].null_count() == question.height


def test_measured_gpus_use_their_own_models(serving: kernels.Models) -> None:
    """A measured GPU uses its own models, and no other file is read."""
    for hardware, dtype in (("H100", "bfloat16"), ("A40", "float16")):
        fresh = kernels.shipped().serving()
        question = sweep("gemm", hardware, 100, 1e4).with_columns(dtype=pl.lit(dtype))
        assert set(fresh.predict(question)["likeness"]) == {"alike"}
        read = {s.key.hardware for s in fresh.shelves if "model" in vars(s)}
        assert read == {hardware}
    nearest = [s.key.hardware for s in serving.shelves if s.key.family == "gemm"]
    assert len(set(nearest)) > NEAREST


def test_less_aligned_rows_than_measured_take_longer(serving: kernels.Models) -> None:
    """Models of aligned products take the factor of the roofline, out of range."""
    sizes = {"batch": 1, "m": 512, "k": 4096, "measured": "kernel", "family": "gemm"}
    question = pl.DataFrame({"n": [30_528, 30_522, 30_521]}).with_columns(
        **{name: pl.lit(value) for name, value in sizes.items()},
        hardware=pl.lit("H100"),
        op=pl.lit("mm"),
        dtype=pl.lit("bfloat16"),
    )
    found = serving.predict(question)
    aligned, even, odd = found["predicted_ns"]
    assert (even, odd) == (
        pytest.approx(1.4 * aligned, rel=0.1),
        pytest.approx(2 * aligned, rel=0.1),
    )
    assert found["in_range"].to_list() == [True, False, False]
    # apex_plus measured rows of all sizes.
    texts = {"hardware": "V100 PCIe", "dtype": "float16", "measured": "op"}
    known = question.with_columns(n=pl.Series([4_096, 4_098, 4_097]), m=pl.lit(4_096))
    known = known.with_columns(**{name: pl.lit(text) for name, text in texts.items()})
    assert serving.predict(known)["in_range"].to_list() == [True, True, True]


def held(
    hardware: str,
    errors: list[float],
    *,
    pooled: list[float] | None = None,
    dtype: str = "float16",
    roofline: float = 0.9,
) -> Held:
    """A held-out GPU: errors for each part of the usual shares, or for each row."""
    key = Key(hardware, "gemm", "mm", dtype, "kernel", "one", "")
    by_weight = {0.0: errors, 0.5: pooled}
    by_mix = {
        mix: np.full(9, given[PARTS.index(mix.usual_part)])
        for mix in GRID
        if (given := by_weight[mix.pooled]) is not None
    }
    return Held(key, by_mix, np.full(9, roofline))


def test_held_out_gpus_decide_what_serves() -> None:
    """Each GPU has one vote; types of the same rate are judged together."""
    found = [
        held("A100", [0.3, 0.3, 0.3], roofline=0.3),
        held("H100", [-0.2, -0.2, -0.2], roofline=-0.4, dtype="bfloat16"),
        held("H100", [0.2, 0.2, 0.2], roofline=0.2),
        held("H20", [0.9, 0.9, 0.9], roofline=0.2, dtype="float8"),
        held("H800", [0.9, 0.9, 0.9], roofline=0.2, dtype="float8"),
        held("T4", [0.01, 0.01, 0.01], dtype="float32"),
    ]
    half = transfer_of(found[1].key, found).far
    assert (half.error, half.hardware, half.is_better) == (0.3, 2, True)
    assert half.mean_error == pytest.approx((0.3 + 0.2) / 2)
    assert half.roofline_error == pytest.approx((0.3 + 0.3) / 2)
    assert not transfer_of(found[3].key, found).far.is_better
    single = transfer_of(found[-1].key, found).far
    assert (single.hardware, single.is_better) == (1, False)
    other = transfer_of(replace(found[0].key, family="softmax"), found).far
    assert (other.hardware, other.error, other.is_better) == (0, 0.9, False)


def test_held_out_gpus_choose_the_share() -> None:
    """The share with the smallest error is chosen; near GPUs have their own band."""
    far = held("A100", [0.4, 0.3, 0.5])
    near = replace(held("H200", [0.2, 0.1, 0.05]), is_near=True)
    found = transfer_of(far.key, [far, near])
    assert found.far.mix == found.near.mix == Mix(0.5)
    assert (found.of(is_near=False).error, found.of(is_near=True).error) == (0.3, 0.1)
    single = transfer_of(far.key, [far])
    assert (single.far.mix, single.far.error, single.near.error) == (Mix(), 0.4, 0.4)


def test_two_held_out_gpus_do_not_choose_the_pooled_model() -> None:
    """Three do, separately for GPUs with a twin and without."""
    names = ("A100", "L40S", "T4", "H100", "H200", "B200")
    far = [held(n, [0.4, 0.4, 0.3], pooled=[0.5, 0.5, 0.5]) for n in names[:3]]
    near = [held(n, [0.4, 0.4, 0.3], pooled=[0.2, 0.1, 0.2]) for n in names[3:]]
    found = far + [replace(each, is_near=True) for each in near]
    both = transfer_of(found[0].key, found)
    assert (both.far.mix, both.near.mix) == (Mix(1.0), Mix(0.5, 0.5))
    assert both.is_pooled
    assert transfer_of(found[0].key, found[3:5]).near.mix == Mix(1.0)


def test_a_mix_is_between_its_parts_and_above_the_bound() -> None:
    """It is the geometric mean; without a pooled model, the other part."""
    frame = pl.DataFrame({"batch": [1, 1], "m": [64, 8192], "n": [4096] * 2})
    frame = frame.with_columns(k=pl.lit(4096))
    figures = hardware_table().find("H100").figures
    op = Op("gemm", "mm", "bfloat16")
    rows = rows_of(frame, op, figures, is_listed=True)
    low, high = rows.least_ns * [0.5, 2], rows.least_ns * [0.9, 8]
    near, pooled = (Predicted(ns, ns / 2, ns * 2, np.zeros(2)) for ns in (low, high))
    found = Mix(0.0, 0.5).of(near, pooled, rows)
    assert found.ns == pytest.approx(rows.least_ns * [1, 4])
    assert found.high_ns == pytest.approx(2 * found.ns)
    assert Mix(0.0, 0.5).of(near, None, rows) == near


def test_the_band_is_that_of_held_out_gpus() -> None:
    """Out of range, the models' own band is used if it is wider."""
    ns = np.full(2, 100.0)
    own = Predicted(ns, ns / 10, ns * 10, np.array([0.0, 1.0]))
    found = Verdict(error=float(np.log(2.0))).banded(own)
    assert found.low_ns.tolist() == [50, 10]
    assert found.high_ns.tolist() == [200, 1000]


@pytest.mark.parametrize(
    ("family", "dtype", "op", "tensors_"),
    [
        ("gemm", "bfloat16", "aten::mm", ((4000, 512), (512, 1001))),
        ("gemm", "float16", "aten::mm", ((4096, 512), (512, 1024))),
        ("gemm", "float8", "aten::_scaled_mm", ((8192, 8192), (8192, 8192))),
        ("gemm", "int8", "aten::_int_mm", ((8192, 8192), (8192, 8192))),
        ("gemm", "bfloat16", "aten::bmm", ((37_632, 8, 63), (37_632, 63, 8))),
        ("elementwise", "float32", "aten::add", ((10**6,), (10**6,))),
        ("softmax", "float32", "aten::_softmax", ((4, 10**5),)),
        ("softmax", "float32", "aten::_softmax", ((10**5, 1000),)),
        ("reduction", "float32", "aten::argmax", ((16, 128_256),)),
    ],
)
def test_the_roofline_is_the_same_in_sql_and_python(
    family: str,
    dtype: str,
    op: str,
    tensors_: tuple[tuple[int, ...], ...],
    tmp_path: Path,
) -> None:
    """The roofline that models are compared with equals that of a trace."""
    query = "SELECT any_value(dtype) FROM prediction.op_dtype WHERE model_dtype = ?"
    with tracedb.open() as database:
        [[type_]] = database.connection.execute(query, [dtype]).fetchall()
    launched = Launched(op, **tensors(*tensors_, dtype=type_))
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(tmp_path / "trace.json", [launched], "NVIDIA A100")])
        [problem] = database.sql("FROM prediction.kernel_problem").iter_rows(named=True)
        query = "SELECT roofline_ns FROM prediction.kernel_roofline"
        [[in_sql]] = database.sql(query).rows()
    figures = hardware_table().find(problem["hardware"]).figures
    what = Op(family, problem["op"], problem["dtype"])
    rows = rows_of(pl.DataFrame([problem]), what, figures, is_listed=True)
    assert usual_ns(rows)[0] == pytest.approx(in_sql, rel=1e-4)


def test_ingest_applies_the_shipped_models() -> None:
    """The first trace has times from models; applying them again keeps them."""
    trace = ROOT / "sample_traces" / "generated_gpu" / "rank0.kineto.json.gz"
    with tracedb.open() as database:
        database.ingest([trace])
        query = "SELECT count(*), any_value(likeness) FROM reference.kernel_estimate"
        count, likeness = database.sql(query).row(0)
        assert count > 0
        assert likeness == "alike"
        database.apply_models()
        assert database.sql(query).row(0)[0] >= count


@pytest.mark.parametrize("seed", range(0, 60, 12))
def test_no_law_is_broken_by_odd_sizes(seed: int, serving: kernels.Models) -> None:
    """`tests/kernel_laws.py` searches more of them."""
    randoms = (Random(seed + n) for n in range(12))  # noqa: S311 (repeatable)
    asked = (kernel_laws.question(random, serving) for random in randoms)
    found = [kernel_laws.answer(question, serving) for question in asked]
    answered = [one for one in found if one is not None]
    assert len(answered) >= 6
    assert [(str(one.question), one.broken()) for one in answered if one.broken()] == []


@pytest.mark.parametrize("hardware", ["H100", "B200", "L40S", "GB200"])
def test_long_products_in_fp8_take_about_half_as_long(
    hardware: str, serving: kernels.Models
) -> None:
    """Their models are of products alone, without quantising the operands."""
    sizes = pl.DataFrame({"m": [4096, 8192, 16_384], "n": [4096, 8192, 4096]})
    question = sizes.with_columns(
        k=pl.lit(8192),
        family=pl.lit("gemm"),
        op=pl.lit("mm"),
        hardware=pl.lit(hardware),
    )
    fp8, bf16 = (
        serving.predict(question.with_columns(dtype=pl.lit(dtype)))["predicted_ns"]
        for dtype in ("float8", "bfloat16")
    )
    assert (fp8 / bf16).to_list() == pytest.approx([0.55] * 3, abs=0.1)


def test_more_ranks_than_measured_follow_the_most(serving: kernels.Models) -> None:
    """Two A100 PCIe have an NVLink that four do not: eight are no such step farther."""
    texts = {"hardware": "A100 PCIe", "family": "collective", "op": "all_reduce"}
    sizes = pl.DataFrame({"bytes": [1 << power for power in range(10, 31)]})
    times = {
        ranks: serving.predict(
            sizes.with_columns(
                dtype=pl.lit("bytes"),
                ranks=pl.lit(ranks),
                ranks_per_node=pl.lit(ranks),
                **{name: pl.lit(text) for name, text in texts.items()},
            )
        )["predicted_ns"].to_numpy()
        for ranks in (2, 4, 8)
    }
    assert times[4][-1] > 10 * times[2][-1]
    # Each sends 7 / 6 as much as of four, over PCIe as well.
    assert times[8][-1] == pytest.approx(7 / 6 * times[4][-1], rel=0.02)
    assert (times[8] <= 1.3 * times[4]).all()
    assert (times[8][1:] >= 0.95 * times[8][:-1]).all()
