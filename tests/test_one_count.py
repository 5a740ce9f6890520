"""Work and rooflines counted in SQL, for a trace, and in Python, for kernel models.

Each family, type and size is an op of a trace; its problem is counted again by the
functions that models use. Both must give the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from launched import Op as Launched
from launched import write
from support import ingests_until, sampled

import tracedb
from tracedb.kernels.families import FAMILIES
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.relations import declared
from tracedb.kernels.rows import rows_of
from tracedb.kernels.usual import usual_ns
from tracedb.kernels.work import Op

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES = sorted({row["dtype"] for row in declared("prediction.op_dtype")} - {"tf32"})
SIZES = ((8, 16, 24), (63, 130, 77), (512, 1024, 256), (1, 4096, 4097))
DEVICES = {
    "NVIDIA A100-SXM4-80GB": "A100 80GB",
    "Tesla T4": "T4",
    "AMD Instinct MI300X": "MI300X",
}
BACKWARD = ["", "", "", "[4]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]


def ops_of(dtype: str, m: int, n: int, k: int) -> Iterator[Launched]:
    """Ops of all families, of some sizes."""

    def op(name: str, *dims: Any, **more: Any) -> Launched:  # noqa: ANN401
        return Launched(f"aten::{name}", dims, [dtype] * len(dims), **more)

    def indexed(name: str, dims: list[Any], types: str, *concrete: str) -> Launched:
        known = {"t": dtype, "i": "long int", "s": "Scalar"}
        return Launched(f"aten::{name}", dims, [known[t] for t in types], concrete)

    lists = ["TensorList"] * 4
    listed = f"GenericList[{dtype},{dtype}]"
    images = (2, 8, m, 20)
    yield op("mm", (m, k), (k, n))
    if dtype == "float":
        yield op("mm", (m, k), (k, n), kernels=["ampere_s1688gemm_tf32"])
    yield op("addmm", (n,), (m, k), (k, n))
    yield op("linear", (m, k), (n, k))
    yield op("bmm", (3, m, k), (3, k, n))
    yield op("baddbmm", (3, m, n), (3, m, k), (3, k, n))
    yield op("_scaled_mm", (m, k), (k, n))
    yield op("cudnn_convolution", images, (16, 8, 3, 3), kernels=["scudnn"])
    yield op("convolution", images, (16, 8, 3, 3), kernels=["xmma_fprop"])
    yield op(
        "convolution_backward", (2, 16, m, 20), images, (16, 8, 3, 3),
        concrete=[*BACKWARD, "[False, True, False]"], kernels=["wgrad"],
    )  # fmt: skip
    heads = (2, 4, m, 64)
    yield op("_scaled_dot_product_flash_attention", heads, *[(2, 4, k, 64)] * 2)
    backward = "_scaled_dot_product_flash_attention_backward"
    yield op(backward, heads, heads, *[(2, 4, k, 64)] * 2, heads)
    yield from (
        op(name, (m, n), (m, n)) for name in ("add", "gt", "threshold_backward")
    )
    yield from (op(name, (m, n)) for name in ("gelu", "native_dropout", "fill_"))
    yield from (op(name, (m, n)) for name in ("uniform_", "max_pool2d_with_indices"))
    yield op("mul", (m, n), (n,))
    yield op("copy_", (m, n), (m, n))
    yield indexed("copy_", [[m, n], [m, n]], "ti")
    yield op("triton_poi_fused_add_0", (m, n), (m, n))
    yield from (op(name, (m, n)) for name in ("sum", "amax", "argmax", "mean"))
    yield op("mse_loss", (m, n), (m, n))
    yield op("_softmax", (m, n), concrete=["", "1"])
    yield op("_log_softmax_backward_data", (m, n), (m, n))
    yield op("native_layer_norm", (m, n), (n,), (n,))
    yield op("cudnn_batch_norm_backward", (2, m, 4, n), (2, m, 4, n))
    yield from (op(name, (m, n), concrete=["", "1"]) for name in ("cumsum", "sort"))
    yield from (op(name, (m, n)) for name in ("tril", "flip"))
    yield indexed("index_select", [[n, k], [], [m]], "tsi")
    yield indexed("embedding", [[n, k], [m]], "ti")
    grads = "embedding_dense_backward"
    yield indexed(grads, [[m, k], [m], [], [], []], "tisss", "", "", str(n), "-1")
    yield indexed("_embedding_bag", [[n, k], [4 * m], [m]], "tii")
    yield indexed("gather", [[m, n], [], [m, n]], "tsi")
    yield Launched("aten::cat", [[[m, n], [m, k]], []], [listed, "Scalar"], ["", "1"])
    yield Launched("aten::_fused_adam_", [[[m, n], [k]]] * 4, [listed] * 4)
    yield Launched("aten::_foreach_add_", [[[m, n], [k]]] * 2, lists[:2])


def transfers(count: int) -> Iterator[Launched]:
    """Copies, a memset, and collectives, of some size."""
    for kernel in ("Memcpy DtoD", "Memcpy HtoD (Pinned -> Device)", "Memset (Device)"):
        copied: dict[str, Any] = {"kernels": [kernel], "copied_bytes": 4 * count}
        yield Launched("aten::copy_", [[count], [count]], ["float"] * 2, **copied)
    for kind in ("allreduce", "allgather", "alltoall"):
        recorded = {"Collective name": kind, "Group size": 4, "dtype": "Float"}
        recorded |= {"In msg nelems": count, "Out msg nelems": count}
        kernels, more = ["ncclDevKernel_" + kind], tuple(recorded.items())
        yield Launched("record_param_comms", [], [], kernels=kernels, more=more)


COUNTED = ("flops", "read_bytes", "written_bytes", "footprint_bytes")
PROBLEMS = """
    SELECT
        problem.*,
        coalesce(counted.flops, copied.flops) AS flops,
        coalesce(counted.read_bytes, copied.read_bytes) AS read_bytes,
        coalesce(counted.written_bytes, copied.written_bytes) AS written_bytes,
        counted.footprint_bytes,
        kernel.roofline_ns
    FROM prediction.kernel_problem AS problem
    LEFT JOIN prediction.op_problem AS counted USING (op_id, op)
    LEFT JOIN prediction.gpu_copy AS copied USING (gpu_op_id)
    INNER JOIN prediction.kernel_roofline AS kernel USING (gpu_op_id)
    INNER JOIN prediction.hardware AS peak ON problem.hardware = peak.hardware
    -- Models know neither generated kernels nor the runtime of a vendor.
    WHERE problem.family <> 'fused' AND (problem.family <> 'memcpy' OR vendor <> 'AMD')
"""


@pytest.fixture(scope="module", params=sampled(DEVICES, 1))
def problems(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> pl.DataFrame:
    """The problems of all ops on a GPU, each solved by one kernel."""
    ops = [op for dtype in TYPES for size in SIZES for op in ops_of(dtype, *size)]
    ops += [op for count in (1, 1000, 10**7) for op in transfers(count)]
    path = tmp_path_factory.mktemp("count") / "trace.json"
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(path, ops, request.param)])
        found = database.sql(PROBLEMS)
    assert set(found["hardware"]) == {DEVICES[request.param]}
    return found


def test_work_and_rooflines_are_the_same_in_sql_and_python(
    problems: pl.DataFrame,
) -> None:
    """FLOPs, bytes and the roofline of each problem are equal; SQL rounds to 1 ns."""
    assert {*problems["family"], "memcpy", "embedding_bag_backward"} == FAMILIES.keys()
    assert problems.height > 40 * len(TYPES) * len(SIZES)
    for (family, op, dtype), these in problems.group_by("family", "op", "dtype"):
        figures = hardware_table().find(these["hardware"][0]).figures
        sizes = these.drop(*COUNTED, "roofline_ns")
        what = Op(str(family), str(op), str(dtype or ""))
        rows = rows_of(sizes, what, figures, is_listed=True)
        for name in COUNTED:
            in_sql = these[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
            in_python = rows.shapes.sizes.get(name, np.full(len(rows), np.nan))
            np.testing.assert_array_equal(in_python, in_sql, f"{name} of {what}")
        in_sql = these["roofline_ns"].to_numpy()
        np.testing.assert_allclose(usual_ns(rows), in_sql, 1e-9, 1, err_msg=str(what))
