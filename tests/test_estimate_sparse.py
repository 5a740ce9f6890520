"""Sparse gradients from code: ops, rows and memory are those of real steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from test_estimate import exported, measured_peak
from torch import nn
from torch.profiler import ProfilerActivity, profile

import tracedb
from tracedb.errors import EstimateError
from tracedb.from_code.fake_run import FakeRun, FakeStep
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.ops import Shape
from tracedb.from_code.sparse import distinct

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")
Make = Callable[[], Callable[[], object]]

ROWS, EXAMPLES, LOOKUPS, WIDTH = 2000, 64, 20, 16
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=0.1),
    "adagrad": partial(torch.optim.Adagrad, lr=0.1),
    "sparse_adam": torch.optim.SparseAdam,
}
TABLES: dict[str, Callable[[], nn.Module]] = {
    "bag": lambda: nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=True),
    "mean": lambda: nn.EmbeddingBag(ROWS, WIDTH, mode="mean", sparse=True),
    "embedding": lambda: nn.Embedding(ROWS, WIDTH, sparse=True),
}
MADE = ("aten::empty", "aten::new_", "aten::resize_")
"""Beginnings of names of ops that make tensors, for which C++ calls others."""
CASES = [(table, optimizer) for table in TABLES for optimizer in OPTIMIZERS]


def lookups() -> torch.Tensor:
    """Rows of which so many are distinct as are expected of random ones."""
    count = EXAMPLES * LOOKUPS
    found = torch.arange(count) % distinct(count, ROWS)
    return found.view(EXAMPLES, LOOKUPS)


def trained(table: str, optimizer: str) -> Callable[[], None]:
    """A step that looks up rows of one table."""
    model = TABLES[table]()
    chosen = OPTIMIZERS[optimizer](model.parameters())
    rows = lookups()

    def step() -> None:
        chosen.zero_grad()
        torch.autograd.backward(model(rows).square().mean())
        chosen.step()

    return step


def fake(make: Make, gpu: str | None) -> FakeStep:
    """A step on fake tensors."""
    run = FakeRun(gpu)
    with run.inside():
        step = make()
    return run.step(step)


def real_ops(make: Make) -> list[dict[str, Any]]:
    """The ops of the second step on this CPU, as the profiler records them."""
    step = make()
    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    return [event for event in exported(profiler) if event.get("cat") == "cpu_op"]


def outermost(events: list[dict[str, Any]]) -> Iterator[str]:
    """What autograd, the optimizer and the code call, in order.

    How a gradient is stored, and views made for it, launch nothing, and depend on who
    else knows it.
    """
    end = stored = float("-inf")
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        name, done = str(event["name"]), event["ts"] + event["dur"]
        if name == "torch::autograd::AccumulateGrad":
            stored = max(stored, done)
        if not name.startswith("aten::") or event["ts"] < max(end, stored):
            continue
        end = done
        if name not in {"aten::_indices", "aten::_values", "aten::detach"}:
            yield name


@pytest.mark.parametrize(("table", "optimizer"), CASES)
def test_ops_are_those_of_a_real_step(table: str, optimizer: str) -> None:
    """The same ops are called in the same order, and compute with the same shapes."""
    make = partial(trained, table, optimizer)
    real = real_ops(make)
    found = fake(make, None)
    events = [e for e in found.events if e.get("cat") == "cpu_op"]
    assert list(outermost(events)) == list(outermost(real))
    shapes = [
        (
            e["name"].removesuffix("_"),
            [tuple(dims) for dims in e["args"]["Input Dims"] if dims],
        )
        for e in sorted(real, key=lambda e: e["ts"] + e["dur"])
        if "Input Dims" in e["args"]
    ]
    waiting = iter(shapes)
    for op in found.ops.values():
        if op.is_view or op.name.startswith(MADE):
            continue
        given = [a.dims for a in op.arguments if isinstance(a, Shape)]
        asked = (op.name.removesuffix("_"), [dims for dims in given if dims])
        assert asked in waiting, asked


@pytest.mark.parametrize(("table", "optimizer"), CASES)
def test_the_peak_is_that_of_the_allocator(table: str, optimizer: str) -> None:
    """The peak is within 2 % of what PyTorch's CPU allocator holds in a real step."""
    real = measured_peak(lambda _: trained(table, optimizer), 0)
    found = fake(partial(trained, table, optimizer), None)
    assert found.memory.peak_bytes == pytest.approx(real, rel=0.02)


def test_a_gpu_sorts_and_adds_up_what_is_coalesced() -> None:
    """It merges sorted tiles in passes, waits for how many rows are left, and adds."""
    found = fake(partial(trained, "bag", "sparse_adam"), "H100")
    (line,) = found.assumed
    assert line.startswith("946 of the 1,280 rows of a sparse gradient are distinct")
    with tracedb.open() as empty:
        table = LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=False
        )
    (op,) = [op for op in found.ops.values() if op.name == "aten::_coalesce"]
    assert [work.name for work in table.launching(op).work] == [
        *("iota", "iota", "merge_sort_tile", "unique_by_key_init", "unique_by_key"),
        *("Memcpy DtoH (Device -> Pageable)", "coalesceValuesKernel"),
    ]
    assert op.counted_as is not None
    name, (into, _, _, rows) = op.counted_as
    assert isinstance(into, Shape)
    assert isinstance(rows, Shape)
    assert (name, into.dims, rows.dims) == ("aten::index_add_", (946, 16), (1280, 16))
    longer = Shape((100_000, 16), "float", 4)
    many = replace(op, counted_as=(name, (into, "0", longer, longer)))
    merged = [w.name for w in table.launching(many).work if w.name.endswith("_merge")]
    # 49 tiles are one after six passes.
    assert len(merged) == 6


def test_a_gpu_adds_all_rows_to_the_table() -> None:
    """SGD adds up nothing: each row looked up is added to the table."""
    found = fake(partial(trained, "bag", "sgd"), "H100")
    (added,) = [op for op in found.ops.values() if op.name == "aten::index_add_"]
    count = EXAMPLES * LOOKUPS
    dims = [(ROWS, WIDTH), (count,), (count, WIDTH)]
    assert [shape.dims for shape in added.tensors] == dims
    assert found.memory.by_kind["gradient"] == count * (4 * WIDTH + 8)
    assert found.assumed == ()


def test_what_is_unknown_of_sparse_gradients_is_told_with_its_line() -> None:
    """An op that is not known is named, with the line of the code that calls it."""
    table = nn.Embedding(9, 4, sparse=True)

    def step() -> None:
        torch.autograd.backward(table(torch.zeros(3, dtype=torch.long)).sum())
        torch.nn.utils.clip_grad_norm_(table.parameters(), 1.0)

    with pytest.raises(EstimateError, match=r"sparse.py:\d+: what aten::\w+ does with"):
        fake(lambda: step, "H100")


def test_gradients_of_bags_that_are_dense_are_sorted_and_added() -> None:
    """Without `sparse`, CUDA zeroes a whole gradient, and sorts what was looked up."""
    model = nn.EmbeddingBag(ROWS, WIDTH, mode="sum")

    def step() -> None:
        torch.autograd.backward(model(lookups()).sum())

    found = fake(lambda: step, "H100")
    with tracedb.open() as empty:
        table = LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=False
        )
    (op,) = [op for op in found.ops.values() if "bag_backward" in op.name]
    launching = table.launching(op)
    assert launching.name == "aten::_embedding_bag_dense_backward"
    assert launching.arguments[5] == str(ROWS)
    assert launching.work[0].name == "zero"
    assert launching.work[-1].name == "embedding_backward"
    # In a graph of a GPU the op below launches it.
    op.is_made_by_parts = True
    assert not table.launching(op, launched=[launching.name]).work
