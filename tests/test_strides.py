"""Recorded strides: how they are ingested, and what kernel times make of them."""

from __future__ import annotations

import gzip
import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from launched import FLOAT, HALF, Op, write
from support import ingests_until

import tracedb
from tracedb.kernels.hardware import hardware_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MI300X = "AMD Instinct MI300X"
LINE, THREADS = 128, 64


def op(name: str, dims: list[Any], strides: object = None, dtype: str = FLOAT) -> Op:
    """An op on tensors of one type, with its strides if there are any."""
    types = [dtype if size else "Scalar" for size in dims]
    types = [
        "TensorList" if size and isinstance(size[0], list) else kind
        for size, kind in zip(dims, types, strict=True)
    ]
    more = () if strides is None else (("Input Strides", strides),)
    return Op(name, dims, types, more=more)


def answers(
    folder: Path, ops: Sequence[Op], query: str, device: str = MI300X
) -> list[tuple[Any, ...]]:
    """The rows of a query over a trace of ops."""
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(folder / "trace.json", ops, device)])
        return database.sql(query).rows()


def rooflines(folder: Path, ops: Sequence[Op], device: str = MI300X) -> list[int]:
    """[ns] The roofline of each op."""
    query = "SELECT roofline_ns FROM prediction.kernel_roofline ORDER BY gpu_op_id"
    return [row[0] for row in answers(folder, ops, query, device)]


def contiguous(dims: Sequence[int]) -> list[int]:
    """Strides of a contiguous tensor."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return strides[: len(dims)]


def test_strides_are_ingested_as_recorded(tmp_path: Path) -> None:
    """Each op has its own; without any the column is NULL."""
    copied = op("aten::copy_", [[4, 8], [4, 8], []], [[8, 1], [1, 4], []])
    found = answers(
        tmp_path,
        [copied, op("aten::relu", [[4, 8]])],
        "SELECT input_strides FROM staging.op ORDER BY op_id",
    )
    assert [row[0] and json.loads(row[0]) for row in found] == [
        [[8, 1], [1, 4], []],
        None,
    ]


def test_strides_of_an_execution_graph(tmp_path: Path) -> None:
    """Since schema 1.1.1 they are beside the sizes of the arguments."""
    inputs = {"values": [], "shapes": [[4, 4]], "types": ["Tensor(float)"]}
    node = {"id": 2, "name": "aten::relu", "ctrl_deps": 1, "attrs": []}
    node |= {"inputs": inputs | {"strides": [[1, 4]]}, "outputs": inputs}
    root = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]"}
    root |= {"ctrl_deps": 1, "attrs": [], "inputs": inputs, "outputs": inputs}
    page = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "", "nodes": [root, node]}
    path = tmp_path / "graph.json.gz"
    path.write_bytes(gzip.compress(json.dumps(page).encode()))
    with tracedb.open() as database, ingests_until("staging"):
        database.ingest([path])
        query = "SELECT input_strides::VARCHAR FROM staging.et_op WHERE id = 2"
        assert database.sql(query).rows() == [("[[1,4]]",)]


def test_a_transposing_copy_is_slower_than_a_permuting_one(tmp_path: Path) -> None:
    """By hand: 2^24 elements, 0.25 of them per clock and multiprocessor."""
    dims = [64, 256, 1024]
    plain = contiguous(dims)
    transposed, permuted = [262_144, 1, 256], [1024, 65_536, 1]
    ops = [
        op("aten::copy_", [dims, dims, []], [plain, strides, []], HALF)
        for strides in (permuted, transposed)
    ]
    unknown = op("aten::copy_", [dims, dims, []], None, HALF)
    by_rows, by_columns, before = rooflines(tmp_path, [*ops, unknown])
    assert by_rows == before
    figures = hardware_table().find("MI300X").figures
    clocks = 0.25 * figures["sm_count"] * figures["clocks_per_second"]
    [[floor]] = answers(
        tmp_path,
        [op("aten::copy_", [[8], [8], []])],
        "SELECT roofline_ns FROM prediction.kernel_roofline",
    )
    assert by_columns - floor == pytest.approx(1e9 * 2**24 / clocks, rel=0.01)
    assert by_columns > 2 * by_rows
    same = rooflines(tmp_path, [*ops, unknown], "NVIDIA H100 80GB HBM3")
    assert len(set(same)) == 1


def test_channels_last_tensors_together_are_as_fast_as_contiguous_ones(
    tmp_path: Path,
) -> None:
    """Only mixed layouts are slow, also if the smaller tensor is broadcast."""
    dims = [8, 64, 256, 256]
    last = [64 * 65_536, 1, 64 * 256, 64]
    plain = contiguous(dims)
    mask = [1, 64, 256, 256]
    ops = [
        op("aten::add", [dims, dims, []], [one, other, []])
        for one, other in ((plain, plain), (last, last), (last, plain), (plain, last))
    ]
    ops.append(op("aten::add", [dims, mask, []], [plain, last, []]))
    both, channels, mixed, also, smaller = rooflines(tmp_path, ops)
    assert both == channels
    assert mixed == also > 2 * both
    assert smaller > 2 * both


def test_concatenated_tensors_become_contiguous(tmp_path: Path) -> None:
    """A list of transposed tensors is read by columns; one of channels-last is not."""
    flat, image = [4096, 1024], [64, 64, 32, 32]
    last = [65_536, 1, 2048, 64]
    ops = [
        op("aten::cat", [[dims, dims], []], [[strides, strides], []])
        for dims, strides in (
            (flat, contiguous(flat)),
            (flat, [1, 4096]),
            (image, contiguous(image)),
            (image, last),
        )
    ]
    rows, columns, images, channels = rooflines(tmp_path, ops)
    assert columns > 2 * rows
    assert images == channels


def test_an_expanded_tensor_is_read_once(tmp_path: Path) -> None:
    """Its traffic is what is stored: 16 times less for heads that are repeated."""
    dims = [2, 16, 1024, 128]
    plain = contiguous(dims)
    expanded = [131_072, 0, 128, 1]
    size = 4 * 2 * 16 * 1024 * 128
    names: tuple[tuple[str, list[Any]], ...] = (
        ("aten::copy_", [[], []]),
        ("aten::add", [[]]),
    )
    ops = [
        op(name, [dims, dims, *rest], [plain, strides, *rest])
        for name, rest in names
        for strides in (plain, expanded)
    ]
    found = answers(
        tmp_path, ops, "SELECT read_bytes FROM prediction.op_work ORDER BY op_id"
    )
    assert [row[0] for row in found] == [
        *(size, size // 16),
        *(2 * size, size + size // 16),
    ]


HOSTILE = {
    "too few": [[8, 1]],
    "too many": [[8, 1], [8, 1], [], [], [1]],
    "another rank": [[1], [8, 1, 1], []],
    "negative": [[-8, -1], [-8, -1], []],
    "text": [["a", "b"], "long", []],
    "huge": [[2**70, 2**60], [2**63, 1], []],
    "fractions": [[0.5, None], [None, 1e300], []],
    "nested": [[[8, 1], [8, 1]], [[8], 1], []],
    "a number": 7,
    "an object": {"stride": 1},
    "not JSON": "[[8, 1",
    "empty": [],
    "nothing": None,
}


def test_odd_strides_change_nothing(tmp_path: Path) -> None:
    """They are ignored: the op is predicted as without strides."""
    dims = [[1024, 4096], [1024, 4096], []]
    ops = [op("aten::copy_", dims, strides) for strides in HOSTILE.values()]
    expected, *found = rooflines(tmp_path, [op("aten::copy_", dims), *ops])
    assert dict(zip(HOSTILE, found, strict=True)) == dict.fromkeys(HOSTILE, expected)


def test_strides_that_are_no_list_are_reported(tmp_path: Path) -> None:
    """Like sizes that are not."""
    dims = [[1024, 4096], [1024, 4096], []]
    odd: tuple[object, ...] = (7, {"stride": 1}, "[[8, 1", [])
    ops = [op("aten::copy_", dims, strides) for strides in odd]
    query = "SELECT field, occurrences FROM staging.unread_value"
    assert answers(tmp_path, ops, query) == [("Input Strides", 3)]


def lines(dims: Sequence[int], guide: Sequence[int], strides: Sequence[int]) -> float:
    """Lines of memory per element: 64 threads at a time, in the order of the guide."""
    cells = sorted(
        product(*map(range, dims)),
        key=lambda cell: sum(i * s for i, s in zip(cell, guide, strict=True)),
    )
    addresses = [4 * sum(i * s for i, s in zip(c, strides, strict=True)) for c in cells]
    groups = [addresses[n : n + THREADS] for n in range(0, len(cells), THREADS)]
    return sum(len({a // LINE for a in group}) for group in groups) / len(cells)


def test_shares_agree_with_counted_lines(tmp_path: Path) -> None:
    """Over all layouts of small tensors, the share is that of the lines touched.

    If the inner dimension is short, it misses jumps along the others: it is less.
    """
    wide, narrow = [16, 64, 64], [64, 64, 8]
    cases = []
    for dims in (wide, narrow):
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1), (1, 2, 0)):
            packed = contiguous([dims[n] for n in order])
            cases.append((dims, [packed[order.index(n)] for n in range(3)]))
    ops = [
        op("aten::copy_", [dims, dims, []], [contiguous(dims), strides, []])
        for dims, strides in cases
    ]
    query = "SELECT scattered_share FROM prediction.op_layout ORDER BY op_id"
    shares = [row[0] for row in answers(tmp_path, ops, query)]
    for (dims, strides), share in zip(cases, shares, strict=True):
        counted = max(
            lines(dims, contiguous(dims), s) for s in (strides, contiguous(dims))
        )
        assert share <= 1.1 * counted, (dims, strides, share, counted)
        assert share >= counted / 1.1 or dims == narrow, (dims, strides, share, counted)
