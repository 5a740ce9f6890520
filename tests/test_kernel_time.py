"""Predicted kernel times: work counted by hand, roofline laws, coverage."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from launched import FLOAT, H100, HALF, LONG, Op, event, tensors, write
from support import CORPUS, DatabaseOf, needs_corpus, rows

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.until("prediction")

CONVOLVED: dict[str, Any] = {
    "concrete": ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "", "", ""]
}
NOTHING: dict[str, Any] = tensors()

# Op, family, FLOPs, bytes read, bytes written: counted by hand.
COUNTED = [
    # 2 x 3 times 3 x 5: 10 results, each of 3 multiplications and 3 additions.
    (Op("aten::mm", **tensors((2, 3), (3, 5))), "gemm", 60, 4 * (6 + 15), 40),
    (
        Op("aten::addmm", **tensors((5,), (2, 3), (3, 5))),
        "gemm",
        60,
        4 * (6 + 15),
        40,
    ),
    # An added matrix is read from memory; an added vector is not counted.
    (
        Op("aten::addmm", **tensors((2, 5), (2, 3), (3, 5))),
        "gemm",
        60,
        4 * (10 + 6 + 15),
        40,
    ),
    # int8 products give int32, float8 products bfloat16.
    (
        Op("aten::_int_mm", **tensors((2, 3), (3, 5), dtype="signed char")),
        "gemm",
        60,
        6 + 15,
        4 * 10,
    ),
    (
        Op("aten::_scaled_mm", **tensors((2, 3), (3, 5), dtype="c10::Float8_e4m3fn")),
        "gemm",
        60,
        6 + 15,
        2 * 10,
    ),
    (
        Op("aten::bmm", **tensors((4, 2, 3), (4, 3, 5), dtype=HALF)),
        "gemm",
        4 * 60,
        2 * (24 + 60),
        2 * 40,
    ),
    (
        Op("aten::baddbmm", **tensors((4, 2, 5), (4, 2, 3), (4, 3, 5))),
        "gemm",
        4 * 60,
        4 * (40 + 24 + 60),
        4 * 40,
    ),
    (
        Op("aten::linear", **tensors((2, 7, 3), (5, 3), (5,))),
        "gemm",
        2 * 14 * 3 * 5,
        4 * (42 + 15),
        4 * 70,
    ),
    (Op("aten::mv", **tensors((2, 3), (3,))), "gemm", 12, 4 * 9, 4 * 2),
    # 5 x 5, padding 1 and stride 2 give 3 x 3; each output element sums 2 channels of 3
    # x 3.
    (
        Op(
            "aten::cudnn_convolution",
            **tensors((1, 2, 5, 5), (4, 2, 3, 3)),
            **CONVOLVED,
        ),
        "convolution",
        2 * 36 * 18,
        4 * (50 + 72),
        4 * 36,
    ),
    # Both gradients: the input's from gradient and weight, the weight's from gradient
    # and input.
    (
        Op(
            "aten::convolution_backward",
            **tensors((1, 4, 3, 3), (1, 2, 5, 5), (4, 2, 3, 3)),
        ),
        "convolution",
        2 * 2 * 36 * 18,
        4 * (36 + 72 + 36 + 50),
        4 * (50 + 72),
    ),
    (
        Op(
            "aten::convolution_backward",
            **tensors((1, 4, 3, 3), (1, 2, 5, 5), (4, 2, 3, 3)),
            concrete=["", "", "", "[0]", "[False, True, True]"],
        ),
        "convolution",
        2 * 36 * 18,
        4 * (36 + 50),
        4 * 72,
    ),
    # 2 x 6 queries of 3 heads of 4, each with 6 keys: two products of 4 x 6.
    (
        Op(
            "aten::_flash_attention_forward",
            **tensors(*[(2, 6, 3, 4)] * 3, dtype=HALF),
        ),
        "attention",
        2 * 6 * 3 * (2 * 4 * 6) * 2,
        2 * 3 * 144,
        2 * 144,
    ),
    (
        Op(
            "aten::_flash_attention_forward",
            **tensors(*[(2, 6, 3, 4)] * 3, dtype=HALF),
            concrete=["", "", "", "", "", "6", "6", "0.", "True"],
        ),
        "attention",
        # Of 6 queries, the first attends to one key and the last to all 6.
        2 * 3 * (1 + 2 + 3 + 4 + 5 + 6) * (2 * 4) * 2,
        2 * 3 * 144,
        2 * 144,
    ),
    # A single query comes last and attends to all keys.
    (
        Op(
            "aten::_flash_attention_forward",
            **tensors((2, 1, 3, 4), *[(2, 6, 3, 4)] * 2, dtype=HALF),
            concrete=["", "", "", "", "", "1", "6", "0.", "True"],
        ),
        "attention",
        2 * 3 * 6 * (2 * 4) * 2,
        2 * (24 + 2 * 144),
        2 * 24,
    ),
    (
        Op(
            "aten::_scaled_dot_product_efficient_attention",
            **tensors((2, 3, 6, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
        ),
        "attention",
        2 * 6 * 3 * (2 * 4 * 5) * 2,
        4 * (144 + 2 * 120),
        4 * 144,
    ),
    (
        Op(
            "aten::_flash_attention_backward",
            **tensors(*[(2, 6, 3, 4)] * 5, dtype=HALF),
        ),
        "attention",
        5 * 2 * 6 * 3 * (2 * 4 * 6),
        2 * 5 * 144,
        2 * 3 * 144,
    ),
    (
        Op("aten::index_select", [[100, 8], [], [5]], [FLOAT, "Scalar", LONG]),
        "embedding",
        0,
        4 * 40 + 8 * 5,
        4 * 40,
    ),
    # 6 rows of 8, reduced into 2 bags.
    (
        Op("aten::_embedding_bag", [[100, 8], [6], [2]], [FLOAT, LONG, LONG]),
        "embedding_bag",
        48,
        4 * 48 + 8 * (6 + 2),
        4 * 16,
    ),
    (
        Op("aten::embedding_dense_backward", [[5, 8], [5]], [FLOAT, LONG]),
        "embedding_backward",
        40,
        4 * 40 + 8 * 5,
        4 * 40,
    ),
    (
        Op(
            "torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>",
            **tensors((16, 24)),
        ),
        "embedding_bag_backward",
        2 * 384,
        4 * (384 + 384) + 8 * (16 + 16),
        4 * 384,
    ),
    (Op("aten::add", **tensors((2, 3), (2, 3))), "elementwise", 6, 48, 24),
    (Op("aten::add_", **tensors((2, 3), (2, 1))), "broadcast", 6, 32, 24),
    (Op("aten::mul", **tensors((2, 1), (1, 3))), "broadcast", 6, 20, 24),
    (Op("aten::gelu", **tensors((2, 3), dtype=HALF)), "elementwise", 175 * 6, 12, 12),
    (Op("aten::threshold_backward", **tensors((6,), (6,))), "elementwise", 12, 48, 24),
    (Op("aten::sum", **tensors((4, 8))), "reduction", 32, 128, 0),
    (Op("aten::mse_loss", **tensors((4, 8), (4, 8))), "reduction", 96, 256, 4),
    (Op("aten::_softmax", **tensors((2, 8))), "softmax", 174 * 16, 64, 64),
    (
        Op("aten::native_layer_norm", **tensors((2, 8), (8,), (8,))),
        "normalisation",
        5 * 16,
        64,
        64,
    ),
    (
        Op("aten::native_layer_norm_backward", **tensors((2, 8), (2, 8))),
        "normalisation",
        10 * 16,
        2 * 64,
        64,
    ),
    (
        Op("aten::cat", [[[2, 3], [4, 3]], []], ["TensorList", "Scalar"]),
        "concat",
        0,
        72,
        72,
    ),
    # A copy of the same dtype launches a kernel if strided; to another dtype, it is a
    # cast.
    (Op("aten::copy_", **tensors((2, 3), (2, 3))), "copy", 0, 24, 24),
    (Op("aten::copy_", [[2, 3], [2, 3]], [HALF, FLOAT]), "elementwise", 0, 24, 12),
    (
        Op("aten::gather", [[10, 4], [], [5, 4]], [FLOAT, "Scalar", LONG]),
        "index",
        0,
        4 * 20 + 8 * 20,
        4 * 20,
    ),
    (
        Op("aten::_index_put_impl_", [[10, 4], [], [3, 4]], [FLOAT, "", FLOAT]),
        "index",
        0,
        4 * 12 + 8 * 3,
        4 * 12,
    ),
    (Op("aten::tril", **tensors((4, 4))), "index", 0, 64, 64),
    (Op("aten::cumsum", [[4, 8], []], [FLOAT, "Scalar"]), "scan", 32, 128, 128),
    # The top 2 values and indices of each of 4 rows; 8 elements take 3 comparisons
    # each.
    (
        Op("aten::topk", [[4, 8], [], []], [FLOAT, *["Scalar"] * 2], ["", "2", "-1"]),
        "scan",
        3 * 32,
        128,
        4 * 2 * (4 + 8),
    ),
    (Op("aten::fill_", [[2, 3], []], [FLOAT, "Scalar"]), "fill", 0, 0, 24),
    (Op("aten::uniform_", **tensors((2, 3))), "random", 120, 0, 24),
    (
        Op(
            "aten::_foreach_add_",
            [[[2, 3], [4]], [[2, 3], [4]], []],
            ["TensorList", "TensorList", "Scalar"],
        ),
        "optimizer",
        10,
        80,
        40,
    ),
    # Parameters, gradients and two moments; gradients are not written.
    (
        Op("aten::_fused_adam_", [[[8]], [[8]], [[8]], [[8]]], ["TensorList"] * 4),
        "optimizer",
        13 * 8,
        128,
        96,
    ),
    (
        Op("aten::max_pool2d_with_indices", **tensors((1, 1, 4, 4))),
        "pooling",
        8 * 16,
        64,
        16,
    ),
    (Op("triton_poi_fused_add_0", **tensors((8,), (8,))), "fused", 32, 32, 32),
    # In a ring of 4, each rank sends a quarter 3 times to reduce and 3 times to gather.
    (
        Op(
            "record_param_comms",
            [],
            [],
            kernels=("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",),
            more=(
                ("Collective name", "allreduce"),
                ("In msg nelems", 1000),
                ("Out msg nelems", 1000),
                ("Group size", 4),
                ("dtype", "Float"),
            ),
        ),
        "collective",
        0,
        6000,
        0,
    ),
]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A database of all counted ops; `External id` is the ordinal, from 1."""
    path = tmp_path_factory.mktemp("counted") / "trace.json"
    with tracedb.open() as database:
        database.ingest([write(path, [op for op, *_ in COUNTED])])
        yield database


@pytest.fixture(scope="module")
def work(counted: tracedb.Database) -> dict[int, tuple[Any, ...]]:
    """`prediction.op_work` of one op, by ordinal."""
    query = """
        SELECT external_id, family, flops, read_bytes, written_bytes
        FROM prediction.op_work
        INNER JOIN staging.op USING (op_id)
    """
    return {place: tuple(counts) for place, *counts in rows(counted, query)}


@pytest.mark.parametrize(
    ("place", "expected"),
    [(n, tuple(counts)) for n, (_, *counts) in enumerate(COUNTED, 1)],
    ids=[f"{n}-{op.name}" for n, (op, *_) in enumerate(COUNTED, 1)],
)
def test_work_is_as_counted_by_hand(
    work: dict[int, tuple[Any, ...]], place: int, expected: tuple[Any, ...]
) -> None:
    """Family, FLOPs and bytes follow from shapes and types."""
    assert work[place] == expected


def lookup(tables: int, indices: int, bags: int, weights: int) -> Op:
    """An FBGEMM lookup as the profiler recorded it in 2023, without its result."""
    dims: list[Any] = [[] for _ in range(29)]
    dims[0], dims[1] = [0], [weights]
    dims[4], dims[5], dims[6] = [tables], [tables], [tables + 1]
    dims[9], dims[11], dims[12] = [tables + 1], [indices], [tables * bags + 1]
    types = ["Scalar"] * 29
    types[0] = types[1] = FLOAT
    types[4] = types[6] = "int"
    types[5] = types[9] = types[11] = types[12] = LONG
    name = "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function"
    return Op(name, dims, types)


def fused(name: str, arguments: str, **sizes: list[int]) -> Op:
    """An op of FBGEMM 1.8 as the profiler records it, with its arguments in order."""
    sizes |= {"weights": [700], "cache": [0, 0], "none": []}
    types = {"weights": FLOAT, "cache": FLOAT, "grad": FLOAT, "D_offsets": "int"}
    types |= {"placements": "int", "none": "", "scalar": "Scalar"}
    each = arguments.split()
    return Op(
        f"fbgemm::{name}",
        [sizes.get(one, []) for one in each],
        [types.get(one, LONG if one in sizes else "Scalar") for one in each],
    )


# Three tables with 30 rows of 20 / 3 in the mean, for 12 bags.
SIZES = {
    "placements": [3], "starts": [3], "D_offsets": [4], "hash": [4],
    "indices": [30], "offsets": [13], "grad": [4, 20], "locations": [0],
}  # fmt: skip
GRADIENT = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
LOOKED_UP = [
    # One table: 6 rows of 8 for 4 bags. Three: 30 rows of 20 / 3 in the mean, for 12.
    (lookup(1, 6, 4, 80), "embedding_bag", 48, 4 * 48 + 8 * 10, 4 * 32),
    (lookup(3, 30, 4, 700), "embedding_bag", 200, 4 * 200 + 8 * 42, 4 * 80),
    (
        Op(GRADIENT, **tensors((4, 20))),
        "embedding_bag_backward",
        400,
        4 * (200 + 80) + 8 * 42,
        4 * 200,
    ),
    (
        Op(GRADIENT, **tensors((4, 8))),
        "embedding_bag_backward",
        96,
        4 * (48 + 32) + 8 * 10,
        4 * 48,
    ),
    (
        fused(
            "split_embedding_backward_codegen_sgd_unweighted_pt2_wrapper",
            "grad none weights none cache placements starts D_offsets D mixed hash "
            "bits indices offsets pooling none locations block",
            **SIZES,
        ),
        "embedding_bag_backward",
        400,
        4 * (200 + 80) + 8 * 42,
        4 * 200,
    ),
    (
        fused(
            "split_embedding_codegen_forward_unweighted_pt2_wrapper",
            "none weights none cache placements starts D_offsets total D hash indices "
            "offsets pooling none locations locations no dtype",
            **SIZES,
        ),
        "embedding_bag",
        200,
        4 * 200 + 8 * 42,
        4 * 80,
    ),
    (
        fused(
            "split_embedding_codegen_forward_unweighted_cuda",
            "weights none cache placements starts D_offsets total D indices offsets "
            "pooling none locations locations dtype no",
            **SIZES,
        ),
        "embedding_bag",
        200,
        4 * 200 + 8 * 42,
        4 * 80,
    ),
    # No lookup has this number of bags: one row per bag.
    (
        Op(GRADIENT, **tensors((16, 24))),
        "embedding_bag_backward",
        2 * 384,
        4 * (384 + 384) + 8 * (16 + 16),
        4 * 384,
    ),
]


def test_lookups_without_results_are_paired_with_gradients(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A wider result means more tables; a gradient takes the rows of its lookup."""
    ops = [op for op, *_ in LOOKED_UP]
    database.ingest([write(tmp_path / "trace.json", ops)])
    query = """
        SELECT family, flops, read_bytes, written_bytes
        FROM prediction.op_work INNER JOIN staging.op USING (op_id)
        ORDER BY external_id
    """
    assert rows(database, query) == [tuple(counts) for _, *counts in LOOKED_UP]


# Names that contain words of other families. A generated kernel moves the tensors of
# its op, whatever it fuses; a matmul template's operands cannot be told apart.
IMAGE, FILTER = (64, 64, 56, 56), (128, 64, 3, 3)
TOUCHED = 4 * (64 * 64 * 56 * 56 + 128 * 64 * 3 * 3)
FUSED = [
    "triton_poi_fused_convolution_0",
    "triton_poi_fused__native_batch_norm_legit_convolution_relu_3",
    "triton_red_fused_native_layer_norm_backward_7",
    "triton_per_fused__scaled_dot_product_flash_attention_1",
    "triton_for_fused_0",
    "triton_unk_fused_max_pool2d_with_indices_2",
    "triton_poi_fused_upsample_nearest2d_backward_4",
]
NO_FAMILY = [
    "triton_tem_fused_convolution_2",
    "aten::_convert_indices_from_coo_to_csr",
    "mine::convert_layout",
    "mine::gated_conv_attention",
    "mine::norm_of_layer_norms",
    "mine::quantize_group_norm_linear",
    "mine::fused_attention_backward",
    "mine::avg_pool2d_and_sort",
]


HELPERS = [
    "void cudnn::ops::convertTensor_kernel<float>(float, float const*)",
    "triton_poi_fused_convolution_2",
    "triton_per_fused_mm_gemm_0",
]


def test_generated_kernels_move_the_tensors_of_their_op(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """The name tells what was fused, not that a convolution is computed."""
    ops = [Op(name, **tensors(IMAGE, FILTER), kernels=[name]) for name in FUSED]
    database.ingest([write(tmp_path / "trace.json", ops)])
    query = "SELECT family, is_main, traffic_bytes FROM prediction.kernel_work"
    assert rows(database, query) == [("fused", False, TOUCHED)] * len(FUSED)
    # 52 MB, and not the 638 ms of a convolution.
    predicted = rows(database, "SELECT roofline_ns FROM prediction.kernel_roofline")
    assert all(10_000 < time < 100_000 for (time,) in predicted)


def test_a_word_in_a_name_does_not_decide_the_family(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Ops whose name merely contains a family's word have no model."""
    ops = [Op(name, **tensors(IMAGE, FILTER), kernels=[name]) for name in NO_FAMILY]
    database.ingest([write(tmp_path / "trace.json", ops)])
    query = "SELECT name FROM prediction.unmodelled_op ORDER BY name"
    assert rows(database, query) == [(name,) for name in sorted(NO_FAMILY)]


def test_a_helper_kernel_is_not_the_main_one(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A layout conversion or a fused epilogue is not the main kernel."""
    op = Op(
        "aten::cudnn_convolution",
        **tensors((1, 2, 5, 5), (4, 2, 3, 3)),
        **CONVOLVED,
        kernels=[*HELPERS, "void implicit_convolve_sgemm<float, float, 1024>"],
    )
    database.ingest([write(tmp_path / "trace.json", [op])])
    query = "SELECT is_main FROM prediction.kernel_work ORDER BY gpu_op_id"
    assert rows(database, query) == [(False,)] * len(HELPERS) + [(True,)]


COPIES = {
    "Memcpy HtoD (Pinned -> Device)": ("memcpy", "pcie", 1000),
    "Memcpy DtoH (Device -> Pageable)": ("memcpy", "pageable", 1000),
    "Memcpy DtoD (Device -> Device)": ("memcpy", "dram", 2000),
    "Memcpy PtoP (Device -> Device)": ("memcpy", "nvlink", 1000),
    "Memset (Device)": ("memset", "dram", 1000),
}


def test_copies_count_their_own_bytes(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A copy moves its recorded bytes, over the link that its name gives."""
    shapes = tensors((2, 3), (3, 5))
    op = Op("aten::mm", **shapes, kernels=list(COPIES), copied_bytes=1000)
    database.ingest([write(tmp_path / "trace.json", [op])])
    query = """
        SELECT family, link, traffic_bytes FROM prediction.kernel_work
        ORDER BY gpu_op_id
    """
    assert rows(database, query) == list(COPIES.values())


def test_helper_kernels_of_a_product_have_no_work(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """The gemm kernel has all of the work, the split-K reduction none."""
    kernels = ["volta_sgemm_64x32_nn", "void splitKreduce_kernel<float>"]
    op = Op("aten::mm", **tensors((2, 3), (3, 5)), kernels=kernels)
    database.ingest([write(tmp_path / "trace.json", [op])])
    query = "SELECT flops, traffic_bytes FROM prediction.kernel_work ORDER BY gpu_op_id"
    assert rows(database, query) == [(60, 124), (0, 0)]


TRIED = [f"implicit_convolve_sgemm<{n}>" for n in range(6)]


@pytest.mark.parametrize(
    ("kernels", "attempts"),
    [(TRIED, 6), (TRIED[:3], 3), (TRIED[:2], 1), ([TRIED[0], *40 * ["cgemm"]], 24)],
    ids=["search", "short search", "two parts", "tiles"],
)
def test_each_algorithm_of_a_search_does_all_the_work(
    database: tracedb.Database,
    tmp_path: Path,
    kernels: list[str],
    attempts: int,
) -> None:
    """At a shape's first convolution cuDNN tries several algorithms, then uses one."""
    shapes = tensors((1, 2, 5, 5), (4, 2, 3, 3))
    name = "aten::cudnn_convolution"
    searched = Op(name, **shapes, **CONVOLVED, kernels=["flip_filter", *kernels])
    usual = Op(name, **shapes, **CONVOLVED, kernels=["flip_filter", TRIED[0]])
    database.ingest([write(tmp_path / "trace.json", [searched, usual, usual])])
    query = """
        SELECT sum(flops), sum(traffic_bytes), any_value(attempts)
        FROM prediction.kernel_work
        GROUP BY op_id
        ORDER BY op_id
    """
    once, read = 2 * 36 * 18, 4 * (50 + 72 + 36)
    first, *others = rows(database, query)
    assert others == [(once, read, 1)] * 2
    # Work is rounded per kernel.
    expected = (attempts * once, attempts * read, attempts)
    assert first == pytest.approx(expected, abs=len(kernels))


def test_algorithms_of_a_search_take_the_time_of_the_chosen_one(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Each algorithm is predicted to take the time of the shape's later ops."""
    image, weight = (32, 64, 56, 56), (64, 64, 3, 3)
    name = "aten::cudnn_convolution"
    each = [
        Op(name, **tensors(image, weight), **CONVOLVED, kernels=kernels)
        for kernels in (TRIED, *6 * [TRIED[:1]])
    ]
    database.ingest([write(tmp_path / "trace.json", each, kernel_us=15)])
    query = """
        SELECT sum(predicted_ns) / 1000, any_value(learnt_from)
        FROM prediction.kernel_time
        GROUP BY op_id
        ORDER BY op_id
    """
    (first, learnt), *others = rows(database, query)
    assert [others[0], learnt] == [(pytest.approx(15, rel=0.02), "shape"), "shape"]
    assert first == pytest.approx(6 * 15, rel=0.1)


def test_kernels_of_an_op_share_its_work(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Without a clear main kernel, all have equal parts."""
    op = Op("aten::sum", **tensors((4, 8)), kernels=["first", "second"])
    database.ingest([write(tmp_path / "trace.json", [op])])
    query = "SELECT flops, traffic_bytes FROM prediction.kernel_work"
    assert rows(database, query) == [(16, 64), (16, 64)]


UNITS = [
    ("aten::mm", "ampere_sgemm_128x64_nn", "fp32"),
    ("aten::mm", "cutlass_80_tensorop_s1688gemm_128x128", "tf32"),
    ("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_tf32f32", "tf32"),
    ("aten::cudnn_convolution", "volta_scudnn_128x64_relu", "fp32"),
]


def test_kernel_names_tell_the_unit(database: tracedb.Database, tmp_path: Path) -> None:
    """Whether fp32 runs as TF32 is a setting that only kernel names show."""
    shapes = {
        "aten::mm": tensors((4, 4), (4, 4)),
        "aten::cudnn_convolution": tensors((1, 2, 5, 5), (4, 2, 3, 3)),
    }
    ops = [Op(name, **shapes[name], kernels=[kernel]) for name, kernel, _ in UNITS]
    database.ingest([write(tmp_path / "trace.json", ops)])
    query = "SELECT unit FROM prediction.kernel_work ORDER BY gpu_op_id"
    assert rows(database, query) == [(unit,) for *_, unit in UNITS]


def test_old_gradient_ops_take_the_shapes_of_their_parent(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """The op of the weight's gradient lacks its shape; the parent op has it."""
    around = Op("aten::cudnn_convolution_backward", **NOTHING, kernels=())
    shapes = tensors((1, 4, 5, 5), (1, 4, 3, 3), (4, 2, 3, 3))
    events = [
        event("cpu_op", around.name, 0, 100, arguments(shapes)),
        event(
            "cpu_op",
            "aten::cudnn_convolution_backward_weight",
            10,
            50,
            arguments(tensors((), (1, 4, 3, 3), (1, 4, 5, 5))),
        ),
        event("cuda_runtime", "cudaLaunchKernel", 20, 5, {"correlation": 1}),
        event("kernel", "wgrad", 30, 5, {"device": 0, "stream": 7, "correlation": 1}),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    database.ingest([path])
    query = "SELECT flops, read_bytes, written_bytes FROM prediction.op_work"
    assert rows(database, query) == [(2 * 36 * 18, 4 * (100 + 36), 4 * 72)]


def arguments(shapes: dict[str, Any]) -> dict[str, Any]:
    """An event's arguments for these shapes."""
    return {"Input Dims": shapes["dims"], "Input type": shapes["types"]}


def batched(batch: int) -> list[Op]:
    """One op of each family at a batch size."""
    rows_of = tensors((batch, 512))
    image = (batch, 64, 14, 14)
    heads = (batch, 128, 8, 64)
    return [
        Op("aten::mm", **tensors((batch, 512), (512, 512))),
        Op("aten::bmm", **tensors((batch, 64, 64), (batch, 64, 64), dtype=HALF)),
        Op("aten::cudnn_convolution", **tensors(image, (64, 64, 3, 3))),
        Op("aten::_flash_attention_forward", **tensors(*[heads] * 3, dtype=HALF)),
        Op("aten::index_select", [[9999, 64], [], [batch]], [FLOAT, "Scalar", LONG]),
        Op("aten::add", **tensors((batch, 512), (batch, 512))),
        Op("aten::mul", **tensors((batch, 512), (512,))),
        Op("aten::gelu", **rows_of),
        Op("aten::sum", **rows_of),
        Op("aten::_softmax", **rows_of),
        Op("aten::native_layer_norm", **rows_of),
        Op("aten::cudnn_batch_norm_backward", **tensors(image, image)),
        Op("aten::max_pool2d_with_indices", **tensors(image)),
        Op("aten::cat", [[[batch, 64]] * 4, []], ["TensorList", "Scalar"]),
        Op("aten::copy_", **tensors((batch, 512), (batch, 512))),
        Op("aten::gather", [[batch, 64], [], [batch, 64]], [FLOAT, "Scalar", LONG]),
        Op("aten::fill_", **rows_of),
        Op("aten::_fused_adam_", [[[batch, 64]]] * 4, ["TensorList"] * 4),
        Op("aten::_flash_attention_backward", **tensors(*[heads] * 5, dtype=HALF)),
        Op(
            "aten::copy_",
            **tensors((batch, 512), (batch, 512)),
            kernels=["Memcpy HtoD (Pinned -> Device)"],
            copied_bytes=4 * 512 * batch,
        ),
    ]


def predicted(
    database: tracedb.Database,
    times: str = "kernel_time",
    column: str = "uncalibrated_ns",
) -> list[list[int]]:
    """Predicted times of each trace, in the order of its ops."""
    query = f"""
        SELECT list({column} ORDER BY gpu_op_id) FROM prediction.{times}
        INNER JOIN staging.trace USING (trace_id)
        GROUP BY path ORDER BY path
    """
    return [times for (times,) in rows(database, query)]


ROOFLINE = ("kernel_roofline", "roofline_ns")
"""Rooflines only: models scatter like their data (see `test_kernel_laws.py`)."""


def test_a_doubled_batch_is_never_faster(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """In every family, from 1 to half a million, times grow, and much in the end."""
    for power in range(20):
        write(tmp_path / f"{power:02}.json", batched(2**power))
    database.ingest([tmp_path])
    sweep = list(zip(*predicted(database, *ROOFLINE), strict=True))
    assert len(sweep) == len(batched(1))
    for times in sweep:
        assert list(times) == sorted(times)
        assert times[-1] > 20 * times[0]


BETTER = [
    ("Tesla P100-SXM2-16GB", H100),
    ("Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-40GB"),
    ("NVIDIA A100-SXM4-40GB", H100),
    (H100, "NVIDIA H200"),
    ("NVIDIA H200", "NVIDIA B200"),
    ("AMD Instinct MI210", "AMD Instinct MI300X"),
]
"""Pairs of devices: the second is better in all respects."""


def test_newer_hardware_is_never_slower(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """No family takes longer on the better GPU of a pair."""
    for number, device in enumerate(sorted(set().union(*BETTER))):
        write(tmp_path / f"{number:02}.json", batched(4096), device)
    database.ingest([tmp_path])
    found = predicted(database, *ROOFLINE)
    times = dict(zip(sorted(set().union(*BETTER)), found, strict=True))
    for slower, faster in BETTER:
        pairs = zip(times[slower], times[faster], strict=True)
        assert all(new <= old for old, new in pairs), (slower, faster)


def test_measured_durations_do_not_matter(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """The same ops with other kernel durations have the same uncalibrated times."""
    for number, kernel_us in enumerate((1, 500)):
        write(tmp_path / f"{number}.json", batched(64), kernel_us=kernel_us)
    database.ingest([tmp_path])
    first, second = predicted(database)
    assert first == second


DEVICES = {
    "Tesla P100-PCIE-16GB": "P100",
    "Tesla V100-SXM2-32GB": "V100",
    "Tesla V100-PCIE-16GB": "V100 PCIe",
    "Tesla T4": "T4",
    "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "A100-PG509-200": "A100 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 80GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe",
    "NVIDIA A10G": "A10G",
    H100 + " MIG 1g.10gb": "H100 MIG 1g",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    H100: "H100",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H200": "H200",
    "NVIDIA B200": "B200",
    "NVIDIA B300 SXM6 AC": "B300",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250X": "MI250",
    "AMD Instinct MI300X VF": "MI300X",
    "Unheard 9000": "unknown",
    "": "unknown",
}


def test_devices_of_one_model_are_found_together(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Twenty times as many take no longer: a trace may list a cluster's."""
    for name, count in (("few", 100), ("many", 2000)):
        file = tmp_path / f"{name}.json"
        write(file, batched(64)[:1], H100)
        trace = json.loads(file.read_text())
        (device,) = trace["deviceProperties"]
        trace["deviceProperties"] = [{**device, "id": n} for n in range(count)]
        file.write_text(json.dumps(trace))

    def seconds() -> float:
        begun = time.process_time()
        assert rows(database, "SELECT count(*) FROM prediction.kernel_device")
        return time.process_time() - begun

    database.ingest([tmp_path / "few.json"])
    of_few = seconds()
    database.ingest([tmp_path / "many.json"])
    assert seconds() < 5 * of_few


def test_devices_are_found_by_name(database: tracedb.Database, tmp_path: Path) -> None:
    """A name finds its data sheet; unknown devices are predicted, but out of range."""
    for number, device in enumerate(DEVICES):
        write(tmp_path / f"{number:02}.json", batched(64)[:1], device)
    database.ingest([tmp_path])
    query = """
        SELECT hardware, is_known, in_range, high_ns / predicted_ns > 7
        FROM prediction.kernel_time
        INNER JOIN prediction.kernel_device USING (trace_id, hardware)
        INNER JOIN staging.trace USING (trace_id)
        ORDER BY path
    """
    known = [(name, name != "unknown") for name in DEVICES.values()]
    assert rows(database, query) == [(name, is_, is_, not is_) for name, is_ in known]


# Kernel names in traces without a GPU name, and the GPU that they suggest.
CLUES = {
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": "H100",
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT": "H100",
    "nvjet_sm100_tst_128x64": "B200",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>": (
        "A100 40GB"
    ),
    "ampere_sgemm_32x128_nn": "A100 40GB",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn": "T4",
    "volta_sgemm_128x64_nn": "V100",
    "maxwell_sgemm_128x64_nn": "P100",
    "Cijk_Ailk_Bjlk_SB_MT32x32x16_SN_1LDSB0_ISA90a_IU1_K1": "MI250",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x64x128_ISA942_IU1": "MI300X",
    "kernel": "unknown",
}


def test_unnamed_devices_are_recognised_by_their_kernels(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Kernel names give the architecture; its usual GPU is assumed, not known.

    Newer GPUs also run older kernels, so the newest name decides.
    """
    shape = tensors((64, 512), (512, 512))
    for number, kernel in enumerate(CLUES):
        older = ("volta_sgemm_32x32_nn",) if "sm" in kernel else ()
        ops = [Op("aten::mm", **shape, kernels=(kernel, *older))]
        write(tmp_path / f"{number:02}.json", ops, "")
    database.ingest([tmp_path])
    query = """
        SELECT DISTINCT ON (path) hardware, is_known FROM prediction.kernel_device
        INNER JOIN staging.trace USING (trace_id)
        ORDER BY path
    """
    assert rows(database, query) == [(name, False) for name in CLUES.values()]


def test_unaligned_and_strided_work_takes_longer(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Rows for matrix units not aligned to 16 bytes; elements addressed one by one."""
    halves = [tensors((512, 4096), (4096, n), dtype=HALF) for n in (3136, 3138, 3137)]
    single = tensors((512, 4096), (4096, 3137))
    added = tensors((4096, 4096), (4096, 4096), dtype=HALF)
    kernels = ("vectorized_elementwise_kernel<4>", "elementwise_kernel<128, 4>")
    adds = [
        Op("aten::add", **added, kernels=(f"void at::native::{name}",))
        for name in kernels
    ]
    products = [Op("aten::mm", **shape) for shape in halves]
    products += [
        Op("aten::mm", **single, kernels=(name,))
        for name in ("cutlass_80_tensorop_s1688gemm_128x128_align1", "ampere_sgemm")
    ]
    write(tmp_path / "1.json", [*products, *adds])
    database.ingest([tmp_path])
    [found] = predicted(database, *ROOFLINE)
    aligned, even, odd, tf32, fp32 = (ns - 3 * 1_600 for ns in found[:5])
    together, one_by_one = found[5:]
    assert even == pytest.approx(1.4 * aligned, rel=0.01)
    assert odd == pytest.approx(2 * aligned, rel=0.01)
    assert tf32 == pytest.approx(4 * aligned, rel=0.01)
    # Units without matrices take rows as they come.
    assert fp32 == pytest.approx(989.4 / 66.9 * aligned, rel=0.01)
    assert one_by_one > 1.3 * together
    query = "SELECT unaligned_factor FROM prediction.op_work ORDER BY op_id"
    assert rows(database, query) == [(1,), (1.4,), (2,), (2,), (2,), (1,), (1,)]


def test_reading_unaligned_rows_of_tf32_takes_little_longer(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Only arithmetic is twice as long; reading elements of 4 bytes, 1.3 times."""
    names = {"tf32": "cutlass_80_tensorop_s1688gemm_64x128", "fp32": "ampere_sgemm"}
    shape = tensors((983_040, 30), (30, 31))
    ops = [Op("aten::mm", **shape, kernels=(name,)) for name in names.values()]
    write(tmp_path / "1.json", ops)
    database.ingest([tmp_path])
    query = "SELECT traffic_ns FROM prediction.kernel_roofline ORDER BY op_id"
    [(unaligned,), (usual,)] = rows(database, query)
    assert unaligned == pytest.approx(1.3 * usual, rel=0.001)


@pytest.mark.parametrize(
    ("device", "each_ns"),
    [("NVIDIA H100", 2_500 / 132 / 1.98), ("AMD Instinct MI300X", 9_700 / 304 / 2.1)],
)
def test_each_matrix_of_a_batch_has_a_block(
    device: str, each_ns: float, database: tracedb.Database, tmp_path: Path
) -> None:
    """Many tiny matrices take 2,500 clocks each, on AMD 9,700; vectors do not."""
    batches = (1, 132, 37_632, 75_264)
    ops = [
        Op("aten::bmm", **tensors((batch, 8, 64), (batch, 64, 8), dtype=HALF))
        for batch in batches
    ]
    thin = [((37_632, 1, 64), (37_632, 64, 8)), ((37_632, 8, 1), (37_632, 1, 8))]
    ops += [Op("aten::bmm", **tensors(*each, dtype=HALF)) for each in thin]
    write(tmp_path / "1.json", ops, device)
    database.ingest([tmp_path])
    [[one, one_each, many, twice, *vectors]] = predicted(database, *ROOFLINE)
    assert one_each < 1.1 * one
    assert twice - many == pytest.approx(37_632 * each_ns, rel=0.001)
    assert max(vectors) < many / 3


@pytest.mark.parametrize(
    ("device", "slowed"), [("NVIDIA A100-SXM4-80GB", 1.54), ("NVIDIA H100", 1)]
)
def test_copies_to_the_gpu_share_with_those_from_it(
    device: str, slowed: float, database: tracedb.Database, tmp_path: Path
) -> None:
    """On Ampere, a copy to the GPU has 0.46 of its rate while one comes back."""
    path = write(tmp_path / "1.json", [Op("aten::neg", **tensors((16,)))], device)
    page = json.loads(path.read_text())
    copies = [
        ("DtoH (Device -> Pinned)", 7, 0, 40),
        ("HtoD (Pinned -> Device)", 8, 0, 90),
    ]
    copies += [("HtoD (Pinned -> Device)", 8, 200, 50)]
    copies += [("DtoH (Device -> Pageable)", 7, 200, 50)]
    for name, stream, start, duration in copies:
        place = {"device": 0, "stream": stream, "bytes": 400_000_000}
        event_ = event("gpu_memcpy", f"Memcpy {name}", 1000 + start, duration, place)
        page["traceEvents"].append(event_ | {"pid": 0, "tid": stream})
    path.write_text(json.dumps(page))
    database.ingest([path])
    query = """
        SELECT roofline_ns FROM prediction.kernel_roofline
        INNER JOIN staging.gpu_op USING (gpu_op_id)
        WHERE kind = 'memcpy' ORDER BY gpu_op_id
    """
    back, beside, alone, _ = (ns for [ns] in rows(database, query))
    assert back == alone
    assert beside == pytest.approx(slowed * alone, rel=0.001)


def test_wide_softmax_takes_amd_longer(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """On AMD, rows wider than a warp handles take 2.1 times as long; not on NVIDIA."""
    shapes = [tensors((2**26 // width, width)) for width in (1024, 2048)]
    ops = [Op("aten::_softmax", **shape) for shape in shapes]
    for device in ("AMD Instinct MI300X", "NVIDIA A100-SXM4-80GB"):
        write(tmp_path / f"{device[0]}.json", ops, device)
    database.ingest([tmp_path])
    [amd, nvidia] = predicted(database, *ROOFLINE)
    assert amd[1] == pytest.approx(2.1 * amd[0], rel=0.02)
    assert nvidia[1] == pytest.approx(nvidia[0], rel=0.02)


def test_strided_work_is_not_predicted_by_models_of_other_kernels(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Models are trained on contiguous tensors; copies are expected to be strided."""
    added = tensors((4096, 4096), (4096, 4096), dtype=HALF)
    names = ("vectorized_elementwise_kernel<4>", "elementwise_kernel<128, 4>")
    kernels = [f"void at::native::{name}" for name in names]
    ops = [Op("aten::add", **added, kernels=(name,)) for name in kernels]
    copied = Op("aten::copy_", **tensors((8, 512), (8, 512)), kernels=(kernels[1],))
    write(tmp_path / "1.json", [*ops, copied])
    database.ingest([tmp_path])
    query = """
        SELECT family, name FROM prediction.kernel_problem
        INNER JOIN staging.gpu_op USING (gpu_op_id) ORDER BY gpu_op_id
    """
    assert rows(database, query) == [("elementwise", kernels[0]), ("copy", kernels[1])]


@pytest.mark.parametrize(
    ("op", "share"),
    [("aten::_softmax", 1), ("aten::argmax", 0.5), ("aten::native_layer_norm", 1)],
)
def test_a_few_wide_rows_take_as_long_as_one(
    op: str, share: float, database: tracedb.Database, tmp_path: Path
) -> None:
    """A row has one block of threads, which moves 12.6 B/ns; many rows fill the GPU."""
    shapes = [tensors((count, 100_000)) for count in (1, 4, 40_000)]
    ops = [Op(op, **shape, concrete=["", "1"]) for shape in shapes]
    write(tmp_path / "1.json", ops)
    database.ingest([tmp_path])
    [[one, few, many]] = predicted(database, *ROOFLINE)
    assert one == few > share * 800_000 / 12.6
    assert few < share * 800_000 / 12.6 + 10_000
    assert many > 50 * few


def test_small_work_waits_for_other_streams(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A kernel that begins beside one of another stream has 2.7 times its floor.

    Collectives, and kernels of its own stream, do not count.
    """
    path = write(tmp_path / "1.json", [Op("aten::neg", **tensors((16,)))] * 4)
    page = json.loads(path.read_text())
    beside = [("matmul", 9), ("ncclKernel_AllReduce", 9), ("matmul", 7)]
    for number, (name, stream) in enumerate(beside, 1):
        place = {"device": 0, "stream": stream, "correlation": 7000 + number}
        event_ = event("kernel", name, 1000 * number, 100, place)
        page["traceEvents"].append(event_ | {"pid": 0, "tid": stream})
    path.write_text(json.dumps(page))
    database.ingest([path])
    [[waiting, *alone]] = predicted(database, *ROOFLINE)
    assert waiting == pytest.approx(2.7 * alone[0], rel=0.01)
    assert len({*alone}) == 1


def test_assumed_sizes_are_out_of_range(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Without stride, padding or a gradient, a convolution's output is a guess."""
    shapes = tensors((1, 2, 5, 5), (4, 2, 3, 3))
    known = Op("aten::cudnn_convolution", **shapes, **CONVOLVED)
    for number, op in enumerate((known, Op("aten::cudnn_convolution", **shapes))):
        write(tmp_path / f"{number}.json", [op])
    database.ingest([tmp_path])
    query = "SELECT in_range FROM prediction.kernel_time ORDER BY trace_id"
    assert rows(database, query) == [(True,), (False,)]


UNMODELLED = [
    Op("mylib::magic", **tensors((4, 4))),
    Op("aten::mm", **NOTHING),
    Op("aten::index", [[9, 9], []], [FLOAT, ""]),
    Op("aten::cat", [[], []], ["TensorList", "Scalar"]),
]


def test_work_without_a_model_is_listed(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Unknown ops and shapes are listed with their share, not predicted as 0."""
    known = Op("aten::add", **tensors((2, 3), (2, 3)))
    database.ingest([write(tmp_path / "trace.json", [known, *UNMODELLED])])
    query = """
        SELECT name, gpu_op_count, measured_ns, gpu_time_share
        FROM prediction.unmodelled_op ORDER BY name
    """
    names = sorted(op.name for op in UNMODELLED)
    assert rows(database, query) == [(name, 1, 5000, 0.2) for name in names]


def assert_lawful(database: tracedb.Database) -> None:
    """Check what holds for all predictions of a database."""
    laws = """
        SELECT
            count(*) = count(DISTINCT gpu_op_id),
            bool_and(predicted_ns > 0),
            bool_and(low_ns <= predicted_ns AND predicted_ns <= high_ns),
            bool_and(low_ns > 0)
        FROM prediction.kernel_time
    """
    assert rows(database, laws) == [(True, True, True, True)]
    parts = """
        SELECT count(*) - (SELECT count(*) FROM prediction.kernel_time)
            - (SELECT coalesce(sum(gpu_op_count), 0) FROM prediction.unmodelled_op)
        FROM staging.gpu_op WHERE kind <> 'other'
    """
    assert rows(database, parts) == [(0,)]


def test_counted_ops_are_lawful(counted: tracedb.Database) -> None:
    """For the ops above, each kernel has one prediction, within its band."""
    assert_lawful(counted)
    assert rows(counted, "FROM prediction.unmodelled_op") == []


def test_dlrm_is_lawful_and_covered(dlrm8: tracedb.Database) -> None:
    """On DLRM, all GPU work launched by ops has a model."""
    assert_lawful(dlrm8)
    query = """
        SELECT sum(gpu_time_share) FROM prediction.unmodelled_op
        INNER JOIN staging.op USING (trace_id, name)
    """
    assert rows(dlrm8, query) == [(None,)]


def test_table_lookups_are_counted_from_the_execution_graph(
    dlrm8: tracedb.Database,
) -> None:
    """768 rows of 16 into 384 bags: the width is the result's width over the bags."""
    query = """
        SELECT rows, width, read_bytes, written_bytes FROM prediction.op_embedding_bag
        INNER JOIN staging.trace USING (trace_id)
        INNER JOIN staging.op USING (op_id)
        WHERE rank = 0 AND name LIKE 'fbgemm::split_embedding%'
    """
    read = 4 * 768 * 16 + 8 * (768 + 384)
    assert rows(dlrm8, query) == [(768, 16, read, 4 * 128 * 48)]


@needs_corpus
@pytest.mark.parametrize(
    ("path", "family", "bound"),
    [
        ("tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", "gemm", 0.05),
        ("param/linear", "gemm", 0.10),
        ("kineto/resnet50_w4_2021b.json.gz", "normalisation", 0.25),
        ("kineto/resnet50_w4_2021b.json.gz", "convolution", 0.25),
    ],
)
def test_error_on_public_traces(
    database_of: DatabaseOf, path: str, family: str, bound: float
) -> None:
    """The geometric mean of a family's relative errors stays below a bound."""
    database = database_of(CORPUS / path)
    query = f"""
        SELECT exp(avg(ln(greatest(abs(predicted_ns / measured_ns - 1), 1e-4))))
        FROM (
            SELECT
                sum(predicted_ns) AS predicted_ns,
                sum(end_ns - start_ns) AS measured_ns
            FROM prediction.kernel_time
            INNER JOIN staging.gpu_op USING (gpu_op_id, op_id)
            WHERE family = '{family}'
            GROUP BY op_id
        )
    """
    [(error,)] = rows(database, query)
    assert error < bound


def test_families_of_fbgemm_ops(counted: tracedb.Database) -> None:
    """Moved elements are `index`, columns `copy`; products have no model."""
    moved = (
        "permute_2D_sparse_data",
        "asynchronous_complete_cumsum",
        "jagged_to_padded",
    )
    columns = (
        "permute_pooled_embs_auto_grad",
        "permute_duplicate_pooled_embs",
        "recat_embedding_grad_output_mixed_D_batch",
    )
    others = ("f8f8bf16_rowwise", "bf16i4bf16_rowwise", "jagged_dense_bmm", "new_op")
    query = """
        SELECT arg_min(family, ordinal) FROM prediction.op_family
        WHERE regexp_full_match('fbgemm::' || ?, pattern)
    """
    for names, family in ((moved, "index"), (columns, "copy"), (others, None)):
        for name in names:
            found = counted.connection.execute(query, [name]).fetchone()
            assert found == (family,), name


def test_rows_looked_up_again_come_from_the_cache(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Lookups in a small table have the cache's speed, in a large one the memory's."""
    ops = [
        Op(
            "aten::_embedding_bag",
            [[rows, 64], [2_000_000], [1_000]],
            [FLOAT, LONG, LONG],
        )
        for rows in (1_000, 100_000, 100_000_000)
    ]
    write(tmp_path / "1.json", ops)
    database.ingest([tmp_path])
    query = "SELECT traffic_bytes, traffic_ns FROM prediction.kernel_roofline"
    found = rows(database, query + " ORDER BY op_id")
    moved, least = found[0]
    assert found[1] == found[0]
    assert found[2][0] == moved
    [(cache, memory)] = rows(
        database,
        "SELECT cache_share * l2_bytes_per_second,"
        " memory_share * dram_bytes_per_second "
        "FROM prediction.hardware, prediction.kernel_efficiency "
        "WHERE hardware = 'H100' AND family = 'embedding_bag'",
    )
    assert least == pytest.approx(1e9 * moved / cache, rel=0.001)
    assert found[2][1] == pytest.approx(1e9 * moved / memory, rel=0.1)
