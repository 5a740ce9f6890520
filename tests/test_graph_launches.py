"""The GPU work of a GPU's execution graph, against the trace of the same run.

The graph says which ops ran; the launch table, which kernels they launch. In the trace
both are recorded.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import CORPUS, DatabaseOf

import tracedb
from tracedb.from_code import sorting
from tracedb.from_code.graph import read
from tracedb.from_code.graph_program import subject
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.ops import Dispatched, Shape
from tracedb.from_code.program import launch

DLRM = CORPUS / "param" / "dlrm8"
SPLIT = {"aten::mm", "aten::addmm", "aten::bmm"}
"""Products: some are computed in two kernels, which nothing in a graph shows."""
MANY = ("iota", "radix_sort_histogram", "radix_sort_scan", "radix_sort_onesweep", "put")
KERNELS = """
SELECT op.name, count(*)
FROM staging.gpu_op AS work
INNER JOIN staging.op AS op USING (op_id)
INNER JOIN staging.trace AS trace ON work.trace_id = trace.trace_id
WHERE
    (work.kind = 'kernel' OR contains(work.name, 'DtoD'))
    AND NOT is_collective
    AND contains(trace.path, $file)
GROUP BY ALL
"""


@pytest.fixture(scope="module")
def table() -> LaunchTable:
    """The shipped launch rules."""
    with tracedb.open() as empty:
        return LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=True
        )


def of_graph(path: Path, table: LaunchTable) -> Counter[str]:
    """The kernels and copies within the GPU of each op in the step of a graph."""
    found: Counter[str] = Counter()
    for node in launch(subject(read(path)).root, table):
        found[node.name] += sum(
            one.kind == "kernel" or "DtoD" in one.name for one in node.work
        )
    return +found


@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_ops_launch_as_many_kernels_as_in_the_trace(
    rank: int, table: LaunchTable, database_of: DatabaseOf
) -> None:
    """Fused embedding bags, ops with parts and sorts launch what the trace shows."""
    if not DLRM.exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(DLRM)
    found = database.connection.execute(KERNELS, {"file": f"worker{rank}.pt"})
    recorded = Counter(dict(found.fetchall()))
    graph = of_graph(DLRM / "et" / f"dlrm_eg_{rank}.json.gz", table)
    assert sum(recorded.values()) > 200
    different = {
        name: (graph[name], recorded[name])
        for name in graph.keys() | recorded.keys()
        if graph[name] != recorded[name] and name not in SPLIT
    }
    assert different == {}


@pytest.mark.parametrize(
    ("lookups", "rows", "sort"),
    [
        (768, 1 << 26, ["radix_sort_single_tile"]),
        (2_304, 1 << 26, ["radix_sort_single_tile"]),
        (2_305, 1 << 8, [*MANY[1:4]]),
        (100_000, 1 << 26, [*MANY[1:4], *[MANY[3]] * 3]),
    ],
)
def test_a_sort_has_a_kernel_for_each_digit(
    lookups: int, rows: int, sort: list[str]
) -> None:
    """A tile is sorted at once; more keys by 8 bits at a time."""
    given = [Shape((lookups,), "long int", 8)]
    target = Shape((rows,), "float", 4)
    op = Dispatched(
        "aten::_index_put_impl_", [target, given, target], [target],
        is_on_gpu=True, is_view=False, writes=True,
    )  # fmt: skip
    assert [*sorting.by_size(MANY, op)] == ["iota", *sort, "put"]
    # Without the indices, their number is not known.
    op.arguments = [target]
    assert sorting.by_size(MANY, op) == MANY


@pytest.mark.parametrize(
    ("lookups", "kernels"),
    [(3_072, ("zero", "embedding_backward_feature")), (3_073, (*MANY[1:4], MANY[3]))],
)
def test_few_lookups_are_not_sorted(lookups: int, kernels: tuple[str, ...]) -> None:
    """The gradient of an embedding sorts its lookups if they are many."""
    op = Dispatched(
        "aten::embedding_dense_backward",
        [Shape((lookups, 64), "float", 4), Shape((lookups,), "long int", 8), "50257"],
        [], is_on_gpu=True, is_view=False, writes=True,
    )  # fmt: skip
    assert sorting.by_size(MANY[1:4], op) == kernels
