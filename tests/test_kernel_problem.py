"""Kernel problems (family, op, dtype, sizes), and applying kernel models to them.

Sizes are counted by hand; models are small stubs with the same method.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from launched import FLOAT, HALF, LONG, Op, tensors, write
from support import rows

import tracedb

V100 = "Tesla V100-SXM2-32GB"
BFLOAT = "c10::BFloat16"
BACKWARD = ["", "", "", "[4]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]"]
LISTED = ["TensorList", "Scalar"]
CASES: list[tuple[str, Op, str, str, str | None, dict[str, int]]] = []


def case(
    name: str, op: Op, family: str, kind: str, dtype: str | None, **sizes: int
) -> None:
    """Add an op and the problem expected for it."""
    CASES.append((name, op, family, kind, dtype, sizes))


def matrices(*dims: tuple[int, ...], dtype: str = FLOAT) -> dict[str, Any]:
    """Arguments that are tensors of one type."""
    return tensors(*dims, dtype=dtype)


case(
    "mm",
    Op("aten::mm", **matrices((2, 3), (3, 5))),
    *("gemm", "mm", "float32"),
    batch=1,
    m=2,
    n=5,
    k=3,
)
# The gradient of a weight: 7 rows are reduced.
case(
    "mm of a gradient",
    Op("aten::mm", **matrices((5, 7), (7, 3), dtype=BFLOAT)),
    *("gemm", "mm", "bfloat16"),
    batch=1,
    m=5,
    n=3,
    k=7,
)
case(
    "addmm",
    Op("aten::addmm", **matrices((5,), (2, 3), (3, 5), dtype=HALF)),
    *("gemm", "addmm", "float16"),
    batch=1,
    m=2,
    n=5,
    k=3,
)
case(
    "bmm",
    Op("aten::bmm", **matrices((4, 2, 3), (4, 3, 5))),
    *("gemm", "bmm", "float32"),
    batch=4,
    m=2,
    n=5,
    k=3,
)
case(
    "matmul of one weight",
    Op("aten::matmul", **matrices((4, 2, 3), (3, 5))),
    *("gemm", "mm", "float32"),
    batch=1,
    m=8,
    n=5,
    k=3,
)
case(
    "matmul of many",
    Op("aten::matmul", **matrices((4, 6, 2, 3), (4, 6, 3, 5))),
    *("gemm", "bmm", "float32"),
    batch=24,
    m=2,
    n=5,
    k=3,
)
case(
    "linear",
    Op("aten::linear", **matrices((2, 7, 3), (5, 3), (5,))),
    *("gemm", "linear", "float32"),
    batch=1,
    m=14,
    n=5,
    k=3,
)
case(
    "mm with TF32",
    Op("aten::mm", **matrices((4, 4), (4, 4)), kernels=["s1688gemm", "splitKreduce"]),
    *("gemm", "mm", "tf32"),
    batch=1,
    m=4,
    n=4,
    k=4,
)
# Row scales and a bias of other types do not decide.
case(
    "scaled mm",
    Op(
        "aten::_scaled_mm",
        [[2, 3], [3, 5], [2, 1], [1, 5], [5]],
        [*["c10::Float8_e4m3fn"] * 2, *[FLOAT] * 2, BFLOAT],
    ),
    *("gemm", "mm", "float8"),
    batch=1,
    m=2,
    n=5,
    k=3,
)
case(
    "convolution",
    Op(
        "aten::cudnn_convolution",
        **matrices((1, 2, 5, 6), (4, 2, 3, 3)),
        concrete=["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "", "", ""],
        kernels=["volta_scudnn_128x64"],
    ),
    *("convolution", "forward", "float32"),
    images=1,
    channels_in=2,
    channels_out=4,
    height=5,
    width=6,
    kernel_height=3,
    kernel_width=3,
    stride=2,
    padding=1,
    dilation=1,
    groups=1,
    output_height=3,
    output_width=3,
)
# 8 rows, a filter of 3, stride 2 and padding 1 give 4 rows.
case(
    "convolution without numbers",
    Op(
        "aten::convolution_backward",
        **matrices((1, 4, 4, 4), (1, 6, 8, 8), (4, 3, 3, 3), dtype=HALF),
        kernels=["wgrad"],
        concrete=["", "", "", "", "", "", "", "", "", "", "[False, True, False]"],
    ),
    *("convolution", "backward_weight", "float16"),
    images=1,
    channels_in=6,
    channels_out=4,
    height=8,
    width=8,
    kernel_height=3,
    kernel_width=3,
    stride=2,
    padding=1,
    dilation=1,
    groups=2,
    output_height=4,
    output_width=4,
)
case(
    "convolution of sequences",
    Op(
        "aten::miopen_convolution",
        **matrices((2, 3, 9), (4, 3, 5), dtype=HALF),
        concrete=["", "", "", "[2]", "[1]", "[1]", "1"],
    ),
    *("convolution", "forward", "float16"),
    images=2,
    channels_in=3,
    channels_out=4,
    height=1,
    width=9,
    kernel_height=1,
    kernel_width=5,
    stride=1,
    padding=2,
    dilation=1,
    groups=1,
    output_height=1,
    output_width=9,
)
# A gradient by the input: from 4 x 4 with 6 channels to 8 x 8 with 3.
case(
    "transposed convolution",
    Op(
        "aten::cudnn_convolution_transpose",
        **matrices((2, 6, 4, 4), (6, 3, 2, 2)),
        concrete=["", "", "[0, 0]", "[0, 0]", "[2, 2]", "[1, 1]", "1"],
        kernels=["volta_scudnn_dgrad"],
    ),
    *("convolution", "backward_input", "float32"),
    images=2,
    channels_in=3,
    channels_out=6,
    height=8,
    width=8,
    kernel_height=2,
    kernel_width=2,
    stride=2,
    padding=0,
    dilation=1,
    groups=1,
    output_height=4,
    output_width=4,
)
case(
    "attention",
    Op(
        "aten::_flash_attention_forward",
        **matrices((2, 6, 8, 4), (2, 7, 2, 4), (2, 7, 2, 4), dtype=HALF),
        concrete=["", "", "", "", "", "6", "7", "0.", "True"],
    ),
    *("attention", "forward", "float16"),
    images=2,
    heads=8,
    kv_heads=2,
    queries=6,
    keys=7,
    head_dim=4,
    causal=1,
)
case(
    "attention with heads first",
    Op(
        "aten::_scaled_dot_product_flash_attention_backward",
        **matrices(*[(2, 8, 6, 4)] * 2, *[(2, 8, 7, 4)] * 2, (2, 8, 6, 4), dtype=HALF),
        concrete=[*[""] * 11, "False"],
    ),
    *("attention", "backward", "float16"),
    images=2,
    heads=8,
    kv_heads=8,
    queries=6,
    keys=7,
    head_dim=4,
    causal=0,
)
case(
    "index_select",
    Op("aten::index_select", [[100, 8], [], [5]], [FLOAT, "Scalar", LONG]),
    *("embedding", "index_select", "float32"),
    rows=5,
    width=8,
    table_rows=100,
    cleared_rows=0,
    distinct_rows=5,
)
case(
    "gradient of an embedding",
    Op(
        "aten::embedding_dense_backward",
        [[5, 8], [5], [], [], []],
        [FLOAT, LONG, "Scalar", "Scalar", "Scalar"],
        concrete=["", "", "100", "-1", "False"],
    ),
    *("embedding_backward", "embedding", "float32"),
    rows=5,
    width=8,
    table_rows=100,
    cleared_rows=0,
    distinct_rows=5,
)
case(
    "embedding_bag",
    Op(
        "aten::_embedding_bag",
        [[100, 8], [6], [2], [], []],
        [FLOAT, LONG, LONG, "Scalar", "Scalar"],
        concrete=["", "", "", "False", "1"],
    ),
    *("embedding_bag", "mean", "float32"),
    width=8,
    table_rows=100,
    tables=1,
    bags=2,
    pooling=3,
    rows=6,
    distinct_rows=6,
)
case(
    "add",
    Op("aten::add_", **matrices((2, 3), (2, 3))),
    *("elementwise", "add", "float32"),
    elements=6,
    inputs=2,
    outputs=1,
)
case(
    "add of rows",
    Op("aten::add", **matrices((2, 3), (3,), dtype=BFLOAT)),
    *("broadcast", "add", "bfloat16"),
    elements=6,
    inputs=2,
    outputs=1,
    input_bytes=2 * (6 + 3),
)
case(
    "dropout",
    Op("aten::native_dropout", **matrices((2, 3))),
    *("elementwise", "native_dropout", "float32"),
    elements=6,
    inputs=1,
    outputs=2,
)
case(
    "cast",
    Op("aten::copy_", [[2, 3], [2, 3]], [HALF, FLOAT]),
    *("elementwise", "cast", "float32"),
    elements=6,
    inputs=1,
    outputs=1,
    input_bytes=4 * 6,
    output_bytes=2 * 6,
)
case(
    "fill",
    Op("aten::fill_", **matrices((6,), dtype="int")),
    *("fill", "fill", "int32"),
    elements=6,
    inputs=0,
    outputs=1,
)
case(
    "sum of columns",
    Op("aten::sum", [[4, 8], [], []], [FLOAT, "ScalarList", ""], ["", "[0]", "False"]),
    *("reduction", "sum", "float32"),
    rows=8,
    width=4,
)
case(
    "sum of all",
    Op("aten::sum", [[4, 8], []], [FLOAT, ""], ["", ""]),
    *("reduction", "sum", "float32"),
    rows=1,
    width=32,
)
case(
    "mse_loss",
    Op("aten::mse_loss", **matrices((4, 8), (4, 8))),
    *("reduction", "mse_loss", "float32"),
    rows=1,
    width=32,
)
case(
    "softmax over the middle",
    Op("aten::_softmax", [[2, 8, 3], []], [HALF, "Scalar"], ["", "1", "False"]),
    *("softmax", "softmax", "float16"),
    rows=6,
    width=8,
)
case(
    "gradient of a softmax",
    Op("aten::_log_softmax_backward_data", **matrices((2, 8), (2, 8))),
    *("softmax", "log_softmax_backward", "float32"),
    rows=2,
    width=8,
)
case(
    "layer_norm of two dimensions",
    Op("aten::native_layer_norm", **matrices((2, 4, 8), (4, 8), (4, 8))),
    *("normalisation", "layer_norm", "float32"),
    rows=2,
    width=32,
)
case(
    "batch_norm",
    Op("aten::cudnn_batch_norm_backward", **matrices((2, 3, 4, 4), (2, 3, 4, 4))),
    *("normalisation", "batch_norm_backward", "float32"),
    rows=3,
    width=32,
)
case(
    "group_norm",
    Op(
        "aten::native_group_norm",
        [[2, 6, 5], [6], [6], [], [], [], [], []],
        [FLOAT, FLOAT, FLOAT, *["Scalar"] * 5],
        ["", "", "", "2", "6", "5", "3", "1e-5"],
    ),
    *("normalisation", "group_norm", "float32"),
    rows=6,
    width=10,
)
case(
    "cat of columns",
    Op("aten::cat", [[[2, 3], [2, 4]], []], LISTED, ["", "1"]),
    *("concat", "cat", "float32"),
    tensors=2,
    rows=2,
    width=7,
)
case(
    "cat of rows",
    Op("aten::cat", [[[2, 3], [4, 3]], []], LISTED),
    *("concat", "cat", "float32"),
    tensors=2,
    rows=1,
    width=18,
)
case(
    "copy",
    Op("aten::copy_", **matrices((5, 2, 3), (5, 2, 3))),
    *("copy", "copy", "float32"),
    batch=5,
    rows=2,
    width=3,
)
case(
    "tril",
    Op("aten::tril", **matrices((4, 4))),
    *("index", "tril", "float32"),
    rows=4,
    width=4,
)
case(
    "optimizer",
    Op("aten::_fused_adam_", [[[2, 3], [4, 3]]] * 4, ["TensorList"] * 4),
    *("optimizer", "fused_adam", "float32"),
    tensors=2,
    elements=18,
    inputs=4,
    outputs=3,
)
case(
    "copy to the device",
    Op(
        "aten::copy_",
        **matrices((2, 3), (2, 3)),
        kernels=["Memcpy HtoD (Pageable -> Device)"],
        copied_bytes=24,
    ),
    *("memcpy", "h2d_pageable", None),
    bytes=24,
)
case(
    "memset",
    Op(
        "aten::zero_",
        **matrices((2, 3)),
        kernels=["Memset (Device)"],
        copied_bytes=24,
    ),
    *("memset", "memset", None),
    bytes=24,
)
case(
    "collective",
    Op(
        "record_param_comms",
        **tensors(),
        kernels=["ncclKernel_AllGather"],
        more=(
            ("Collective name", "allgather"),
            ("In msg nelems", 500),
            ("Out msg nelems", 2000),
            ("Group size", 4),
            ("dtype", "Float"),
        ),
    ),
    *("collective", "all_gather", None),
    bytes=8000,
    ranks=4,
    ranks_per_node=4,
)


# Kernel names, and the gradient that each computes.
GRADIENTS = {
    ("dgrad", "wgrad"): "iw",
    ("wgrad", "dgrad"): "wi",
    ("conv_a", "conv_b"): "iw",
    ("transform", "conv_a", "transform", "conv_b", "transform"): "iiwww",
    ("transform", "wgrad", "transform", "dgrad", "transform"): "wwiii",
}
BOTH_GRADIENTS = [
    Op(
        "aten::convolution_backward",
        **matrices((1, 4, 3, 3), (1, 2, 5, 5), (4, 2, 3, 3)),
        concrete=[*BACKWARD, "1", "[True, True, False]"],
        kernels=kernels,
    )
    for kernels in GRADIENTS
]
CONVOLUTION = Op("aten::cudnn_convolution", **matrices((1, 2, 5, 5), (4, 2, 3, 3)))


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pl.DataFrame]:
    """The problems of all cases and gradients on an H100, and of one op on a V100."""
    folder = tmp_path_factory.mktemp("shapes")
    write(folder / "h100.json", [*(op for _, op, *_ in CASES), *BOTH_GRADIENTS])
    write(folder / "v100.json", [CONVOLUTION], V100)
    with tracedb.open() as database:
        database.ingest([folder])
        yield database.sql("""
            SELECT external_id, shape.*
            FROM prediction.kernel_problem AS shape
            INNER JOIN staging.op USING (op_id)
            ORDER BY gpu_op_id
        """)


def of_op(shapes: pl.DataFrame, number: int, hardware: str = "H100") -> pl.DataFrame:
    """The rows of one op's kernels."""
    return shapes.filter(external_id=number, hardware=hardware)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(n, case[2:]) for n, case in enumerate(CASES, 1)],
    ids=[name for name, *_ in CASES],
)
def test_problems_match_counts_by_hand(
    shapes: pl.DataFrame, number: int, expected: tuple[Any, ...]
) -> None:
    """Family, op, dtype and sizes are as expected; other sizes are NULL."""
    found = of_op(shapes, number)
    assert not found.is_empty()
    for row in found.iter_rows(named=True):
        names = shapes.columns[shapes.columns.index("implementation") + 1 :]
        sizes = {name: row[name] for name in names if row[name] is not None}
        assert (row["family"], row["op"], row["dtype"], sizes) == expected


@pytest.mark.parametrize(
    ("number", "passes"), list(enumerate(GRADIENTS.values(), len(CASES) + 1))
)
def test_gradients_are_recognised_by_name_or_order(
    shapes: pl.DataFrame, number: int, passes: str
) -> None:
    """An op with two gradients has kernels of each; helpers belong to the next one."""
    found = of_op(shapes, number)
    names = {"i": "backward_input", "w": "backward_weight"}
    assert list(found["op"]) == [names[letter] for letter in passes]
    shares = found.group_by("op").agg(pl.col("problem_share").sum())
    assert shares["problem_share"].to_list() == pytest.approx([1, 1])


def test_tf32_depends_on_hardware(shapes: pl.DataFrame) -> None:
    """Convolutions use TF32 by default; a V100 has none and uses fp32."""
    [on_h100] = of_op(shapes, len(CASES) + 1).filter(op="backward_input")["dtype"]
    [on_v100] = of_op(shapes, 1, "V100")["dtype"]
    assert (on_h100, on_v100) == ("tf32", "float32")


FLASH = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >"
LIBRARIES = {
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >": "fa2",
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_traits<64> >": "fa2",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<cute::tuple<x>>>": "fa3",
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<x>>>": "fa3",
    "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionFwd": "fa4",
    "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ8Kv128": "trtllm",
    "fmha_v2_flash_attention_bf16_64_128_S_qkv_128_causal_sm90_kernel_nl": "trtllm",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)": "other",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16": "other",
    "attn_fwd": "other",
    "kernel": None,
}


def test_kernels_of_attention_tell_their_library(tmp_path: Path) -> None:
    """All kernels of an op have the library's name, helpers among them."""
    _, attention, *_ = next(each for each in CASES if each[0] == "attention")
    names = [(name, "void at::native::fill") for name in LIBRARIES]
    ops = [replace(attention, kernels=each) for each in names]
    # A product is no attention, whatever its kernel is called.
    ops.append(replace(CASES[0][1], kernels=(FLASH,)))
    write(tmp_path / "trace.json", ops)
    with tracedb.open() as database:
        database.ingest([tmp_path])
        found = rows(
            database,
            "SELECT implementation FROM prediction.kernel_problem ORDER BY gpu_op_id",
        )
    expected = [name for library in LIBRARIES.values() for name in (library, library)]
    assert [one for (one,) in found] == [*expected, None]


def test_embedding_bag_gradients_have_the_sizes_of_their_lookup(
    dlrm8: tracedb.Database,
) -> None:
    """Sizes that the gradient does not record come from the matching lookup.

    On rank 0: 768 rows of 16 from 3 tables, 128 bags of each.
    """
    query = """
        SELECT DISTINCT family, tables, bags, pooling, width
        FROM prediction.kernel_problem
        INNER JOIN staging.trace USING (trace_id)
        WHERE rank = 0 AND family LIKE 'embedding_bag%' AND tables > 2
        ORDER BY family
    """
    assert rows(dlrm8, query) == [
        ("embedding_bag", 3, 128, 2, 16),
        ("embedding_bag_backward", 3, 128, 2, 16),
    ]


SHORT = Op("aten::mm", **matrices((8, 3), (3, 5)))
LONG_ONE = Op("aten::mm", **matrices((400, 3), (3, 5)))
SHARED = Op(
    "aten::mm",
    **matrices((512, 4096), (4096, 512)),
    kernels=["volta_sgemm_128x64_nn", "splitKreduce_kernel"],
)
ADDITION = Op("aten::add", **matrices((2, 3), (2, 3)))
MAGIC = Op("mylib::magic", **matrices((4, 4)))


class Rows:
    """A stub for gemm: 1 us per row of A, with a band of 25 %.

    `harness_factor` scales the band for other harnesses.
    """

    harness_factor = 1.0

    def __init__(self) -> None:
        """Nothing has been asked yet."""
        self.asked = pl.DataFrame()

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """A row per shape; without `m` there is no prediction."""
        self.asked = shapes
        time = 1000.0 * pl.col("m")
        return shapes.select(
            time.alias("predicted_ns"),
            (time * 0.75).alias("low_ns"),
            (time * 1.25).alias("high_ns"),
            pl.lit(self.harness_factor).alias("harness_factor"),
            pl.when(pl.col("m").is_not_null()).then(pl.lit("rows-1")).alias("model"),
            pl.lit("alike").alias("likeness"),
            (pl.col("m") < 100).alias("in_range"),
        )


class Strange(Rows):
    """A stub whose harness differs a lot from others."""

    harness_factor = 2.0


class Ignorance(Rows):
    """A stub that predicts nothing."""

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """A row per shape, without predictions."""
        return super().predict(shapes).with_columns(pl.lit(None).alias("predicted_ns"))


class Fragment(Rows):
    """A broken stub: it returns fewer rows than were asked for."""

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """All rows but one."""
        return super().predict(shapes).head(-1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the ops above on a V100, 5 us each; one occurs twice."""
    path = tmp_path_factory.mktemp("made") / "run.duckdb"
    ops = [SHORT, SHORT, LONG_ONE, SHARED, ADDITION, MAGIC]
    with tracedb.open(path) as database:
        database.ingest([write(path.with_name("trace.json"), ops, V100)])
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Iterator[tracedb.Database]:
    """A copy of that database."""
    with tracedb.open(shutil.copy(made, tmp_path)) as database:
        yield database


TIMES = """
    SELECT predicted_ns, low_ns, high_ns, model, in_range
    FROM prediction.kernel_time ORDER BY gpu_op_id
"""
FULL = """
    SELECT stored.predicted_ns, time.predicted_ns
    FROM prediction.gpu_time AS stored
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN prediction.kernel_time AS time USING (gpu_op_id)
    WHERE method = 'full' ORDER BY gpu_op_id
"""


def untaught(database: tracedb.Database) -> list[Any]:
    """Kernel times from shapes alone, without factors learnt from the trace."""
    database.connection.execute("DELETE FROM prediction.kernel_factor")
    return rows(database, TIMES)


def test_kernels_of_a_problem_share_its_time(run: tracedb.Database) -> None:
    """Shares sum to 1, in proportion to the kernels' rooflines."""
    query = """
        SELECT problem_share, roofline_ns FROM prediction.kernel_problem
        INNER JOIN prediction.kernel_roofline USING (gpu_op_id)
        WHERE m = 512 ORDER BY gpu_op_id
    """
    (main, main_ns), (helper, helper_ns) = rows(run, query)
    assert main + helper == pytest.approx(1)
    assert main / helper == pytest.approx(main_ns / helper_ns)
    assert main > 10 * helper
    run.apply_models(Rows())
    query = "SELECT sum(uncalibrated_ns) FROM prediction.kernel_time GROUP BY op_id"
    assert (512_000,) in rows(run, query)


def test_models_are_preferred_to_the_roofline(run: tracedb.Database) -> None:
    """Time, band, name and range come from the model, else from the roofline.

    Stored results that read kernel times are computed again.
    """
    before = rows(run, FULL)
    run.apply_models(Rows())
    full = rows(run, FULL)
    assert full != before
    assert all(stored == time for stored, time in full)
    found = untaught(run)
    assert found[0] == found[1] == (8000, 6000, 10000, "rows-1", True)
    assert found[2] == (400_000, 300_000, 500_000, "rows-1", False)
    run.apply_models(Ignorance())
    assert found[5] == untaught(run)[5]


def test_the_band_includes_the_harness_factor(run: tracedb.Database) -> None:
    """The harness factor widens the band until the trace provides its own factor."""
    run.apply_models(Strange())
    assert untaught(run)[0] == (8000, 4000, 16_000, "rows-1", True)
    run.connection.execute(
        "INSERT INTO prediction.kernel_factor SELECT problem_id, trace_id, 'model', 2, "
        "'shape', 1.25 FROM prediction.kernel_roofline GROUP BY ALL"
    )
    assert rows(run, TIMES)[0] == (16_000, 12_800, 20_000, "rows-1", True)


def test_each_shape_is_predicted_once(run: tracedb.Database) -> None:
    """Each distinct shape is asked for once."""
    model = Rows()
    run.apply_models(model)
    assert model.asked["m"].to_list().count(8) == 1
    assert rows(run, "SELECT count(*) FROM reference.kernel_estimate") == [(5,)]


def test_applying_models_replaces_earlier_ones(run: tracedb.Database) -> None:
    """Only the models applied last count."""
    roofline, full = rows(run, TIMES), rows(run, FULL)
    run.apply_models(Rows())
    run.apply_models(Ignorance())
    assert rows(run, TIMES) == roofline
    assert rows(run, FULL) == full


def test_a_broken_model_changes_nothing(run: tracedb.Database) -> None:
    """A result with too few rows is refused, and stored estimates stay."""
    run.apply_models(Rows())
    before = rows(run, TIMES)
    with pytest.raises(tracedb.QueryError):
        run.apply_models(Fragment())
    assert rows(run, TIMES) == before


def test_estimates_survive_an_upgrade(run: tracedb.Database) -> None:
    """A database upgraded to another version keeps the models' estimates."""
    run.apply_models(Rows())
    run.connection.execute("UPDATE raw.database SET value = 'old'")
    run.close()
    with tracedb.open(run.path) as database:
        assert untaught(database)[0][0] == untaught(database)[1][0] == 8000


def test_coverage_tells_models_from_the_roofline(run: tracedb.Database) -> None:
    """Of 7 kernels of 5 us, models cover 5, the roofline one, and one has neither."""
    covered = run.apply_models(Rows())
    shares = ("model_share", "roofline_share", "uncovered_share")
    found = {row["family"]: row for row in covered.iter_rows(named=True)}
    times = {family: row["time_share"] for family, row in found.items()}
    expected = {"gemm": 5 / 7, "elementwise": 1 / 7, "unknown": 1 / 7}
    assert times == pytest.approx(expected)
    for family, share in zip(expected, shares, strict=True):
        assert [found[family][s] for s in shares] == [float(s == share) for s in shares]


def test_kernel_errors_are_per_op(run: tracedb.Database) -> None:
    """Two kernels of one op count as one problem: 512 us predicted, 10 us measured."""
    run.apply_models(Rows())
    untaught(run)
    errors = run.ask("kernel_error").filter(family="gemm")
    [error] = errors.iter_rows(named=True)
    assert (error["model"], error["problem_count"]) == ("rows-1", 4)
    # Predicted and measured: 8, 8 and 400 us for 5 us each, 512 us for 10 us.
    assert error["mape_share"] == pytest.approx((0.6 + 0.6 + 79 + 50.2) / 4)
    assert error["bias_share"] == pytest.approx(928 / 25 - 1)
    assert error["time_share"] == pytest.approx(25 / 30)
    assert error["inside_share"] == 0


EMPTY = [
    Op("aten::mm", **matrices((0, 3), (3, 0))),
    Op("aten::cudnn_convolution", **matrices((1, 0, 5, 5), (0, 0, 0, 3))),
    Op("aten::cudnn_batch_norm", **matrices((2, 0, 4))),
    Op("aten::_softmax", [[2, 0], []], [HALF, "Scalar"], ["", "7"]),
    Op("aten::native_layer_norm", **matrices((2, 0), (0,), (0,))),
    Op("aten::index_select", [[0, 8], [], [0]], [FLOAT, "Scalar", LONG]),
    Op("aten::cat", [[[0, 3], [0]], []], LISTED, ["", "5"]),
    Op("aten::_index_put_impl_", [[0], [0], [0]], [FLOAT, LONG, FLOAT]),
]


def test_empty_tensors_are_ingested(database: tracedb.Database, tmp_path: Path) -> None:
    """Sizes of 0 are no error, and no share is above 1."""
    database.ingest([write(tmp_path / "trace.json", EMPTY)])
    query = "SELECT max(problem_share) <= 1 FROM prediction.kernel_problem"
    assert rows(database, query) == [(True,)]


def test_nothing_to_predict_is_reported(database: tracedb.Database) -> None:
    """Without GPU work of known shape there is nothing to predict: an error."""
    with pytest.raises(tracedb.QueryError, match="no shapes of GPU work"):
        database.apply_models(Rows())
