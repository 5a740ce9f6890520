"""FBGEMM's fused embedding bags (torchrec's tables) in code whose step is estimated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support import rows

import tracedb

# The arguments of FBGEMM 1.8 up to those with defaults, of an optimizer nobody has.
SCHEMA = (
    "split_embedding_codegen_lookup_test_function_pt2(Tensor placeholder, "
    "Tensor[] weights, Tensor D_offsets, SymInt total_D, SymInt max_D, "
    "Tensor hash_size_cumsum, int total_hash_size_bits, Tensor indices, "
    "Tensor offsets, int pooling_mode, Tensor? indice_weights, int output_dtype, "
    "SymInt max_B=-1) -> Tensor"
)
STEP = """
import torch

ROWS = [1_000, 40, 8, 300_000]
EACH, BAGS, WIDTH = 16, 128, 64
weights = torch.nn.Parameter(torch.empty(sum(ROWS) * WIDTH, device="cuda"))
starts = torch.tensor([0, *ROWS]).cumsum(0).cuda()
columns = torch.arange(0, 5 * WIDTH, WIDTH, dtype=torch.int32).cuda()
LOOKUPS = EACH * BAGS * len(ROWS)


def step(pooling=0, output=0, batches=-1):
    indices = torch.randint(7, (LOOKUPS,), device="cuda")
    offsets = torch.arange(0, LOOKUPS + 1, EACH, device="cuda")
    none = torch.empty(0, device="cuda")
    found = torch.ops.fbgemm.split_embedding_codegen_lookup_test_function_pt2(
        none, [weights, none, starts[:4].int(), starts[:4] * WIDTH, none],
        columns, 4 * WIDTH, WIDTH, starts, 19, indices, offsets,
        pooling, None, output_dtype=output, max_B=batches,
    )
    assert found.is_cuda and found.dtype is (torch.float32, torch.float16)[output]
    shape = (BAGS, 4 * WIDTH) if pooling < 2 else (LOOKUPS, WIDTH)
    assert tuple(found.shape) == shape
    found.float().square().sum().backward()
    assert weights.grad is None
"""
LOOKUP = "fbgemm::split_embedding_codegen_lookup_test_function_pt2"
GRADIENT = "fbgemm::split_embedding_backward_codegen_test_unweighted_pt2_wrapper"
LOOKUPS, WIDTH, BAGS = 16 * 128 * 4, 64, 128


@pytest.fixture(autouse=True, scope="module")
def _declared() -> Iterator[None]:
    with torch.library._scoped_library("fbgemm", "FRAGMENT") as library:  # noqa: SLF001
        library.define(SCHEMA)
        yield


def script(folder: Path, call: str = "step()") -> str:
    """A script that calls the step."""
    path = folder / "train.py"
    path.write_text(f"{STEP}\n\ndef trained():\n    {call}\n")
    return f"{path}:trained"


def test_a_lookup_and_its_gradient_have_their_sizes(tmp_path: Path) -> None:
    """Each launches FBGEMM's kernels, over all tables."""
    with tracedb.estimate(script(tmp_path), gpu="V100").database as database:
        found = rows(
            database,
            """
            SELECT DISTINCT family, tables, width, bags, pooling, rows, table_rows
            FROM prediction.op_problem WHERE family LIKE 'embedding_bag%'
            ORDER BY family
            """,
        )
        query = """
            SELECT op.name, count(*)
            FROM staging.gpu_op INNER JOIN staging.op USING (op_id)
            WHERE op.name LIKE 'fbgemm::%' GROUP BY ALL
        """
        launched = dict(rows(database, query))
    sizes = (4, WIDTH, BAGS, 16, LOOKUPS, 301_048 // 4)
    assert found == [("embedding_bag", *sizes), ("embedding_bag_backward", *sizes)]
    # Keys of 19 bits are sorted in three passes, with two kernels before. One kernel
    # makes the keys, seven find and update the rows.
    assert launched[GRADIENT] == (1 + (2 + 3) + 7) * launched[LOOKUP]


def test_lookups_without_pooling_return_a_row_each(tmp_path: Path) -> None:
    """The code asserts the shape and the type."""
    assert (
        tracedb.estimate(script(tmp_path, "step(2, 1)"), gpu="V100").memory is not None
    )


@pytest.mark.parametrize(
    ("call", "why"),
    [("step(0, 2)", "results of type 2"), ("step(0, 0, 64)", "batch size for each")],
)
def test_what_is_not_known_is_refused(call: str, why: str, tmp_path: Path) -> None:
    """In one line, with the place in the code."""
    with pytest.raises(tracedb.EstimateError, match=rf"train.py:\d+: .*{why}"):
        tracedb.estimate(script(tmp_path, call), gpu="V100")
