"""How much work an estimate counts where an op's name and sizes do not say."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import tracedb
from tracedb.from_code.graph import Values
from tracedb.from_code.graph_values import arguments
from tracedb.from_code.ops import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTES = 512 * 256 * 1024 * 2
"""[B] One of the matrices."""
_PER_NS = 2_000
"""[B/ns] An H100 moves about as many."""


@torch.library.custom_op("tests::turned", mutates_args=())
def turned(given: torch.Tensor) -> torch.Tensor:
    """An op of somebody else's library."""
    raise NotImplementedError


@turned.register_fake
def _(given: torch.Tensor) -> torch.Tensor:
    return given.new_empty(given.shape)


@torch.library.custom_op("tests::taken", mutates_args=())
def taken(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """One that looks up rows."""
    raise NotImplementedError


@taken.register_fake
def _(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return table.new_empty(len(places), table.shape[1])


def step() -> None:
    """Products with itself and with another one, a triangle, ops without a rule."""
    one, other = (torch.empty(512, 256, 1024, dtype=torch.half) for _ in range(2))
    torch.bmm(one, one.transpose(1, 2))
    torch.bmm(one, other.transpose(1, 2))
    queries, keys = torch.empty(512, 256, 2048, dtype=torch.half).chunk(2, 2)
    torch.bmm(queries, keys.transpose(1, 2))
    below = torch.tril_indices(16, 16, -1)
    torch.empty(65_536, 16, 16, dtype=torch.half)[:, below[0], below[1]]
    turned(one)
    taken(nn.Parameter(torch.empty(4_000_000, 128)), torch.zeros(1024).long())


@pytest.fixture(scope="module")
def times() -> Iterator[dict[str, list[int]]]:
    """[ns] The kernels of each op, in order."""
    found = tracedb.estimate(step, gpu="H100")
    with found.database:
        rows = found.database.connection.execute(
            """
            SELECT op.name, work.end_ns - work.start_ns
            FROM staging.gpu_op AS work
            INNER JOIN staging.op AS op USING (op_id)
            INNER JOIN (
                SELECT trace_id, max(start_ns) AS start_ns
                FROM staging.step
                GROUP BY ALL
            ) AS last ON op.trace_id = last.trace_id AND op.start_ns >= last.start_ns
            ORDER BY work.start_ns
            """
        ).fetchall()
        known = defaultdict(list)
        for name, time in rows:
            known[name].append(time)
        yield known


def test_a_product_with_itself_reads_it_once(times: dict[str, list[int]]) -> None:
    """The other operand is in the cache; parts of one tensor are not the same."""
    itself, other, parts = times["aten::bmm"]
    assert parts == other
    assert other - itself == pytest.approx(_BYTES / 2_600, rel=0.3)


def test_indices_along_some_dimensions_select_along_the_others(
    times: dict[str, list[int]],
) -> None:
    """A triangle of each matrix of a batch is not one row."""
    (time,) = times["aten::index"]
    assert time > 2 * 65_536 * 120 * 2 / 3_350


def test_ops_without_a_rule_move_their_tensors(times: dict[str, list[int]]) -> None:
    """What they compute is unknown, but not what they read and write."""
    (time,) = times["tests::turned"]
    assert time == pytest.approx(2 * _BYTES / _PER_NS, rel=0.5)
    (time,) = times["tests::taken"]
    assert time < 5_000  # not the whole table


def test_a_graph_shows_which_arguments_are_the_same_memory() -> None:
    """Its views of the same elements are; other parts of its storage are not."""
    kind = "Tensor(float)"
    given = [
        Values([1, 7, 0, 64, 4, "cpu"], [8, 4, 2], kind),
        Values([2, 7, 0, 64, 4, "cpu"], [8, 2, 4], kind),
        Values([3, 7, 64, 64, 4, "cpu"], [8, 2, 4], kind),
    ]
    found = [one.is_again for one in arguments(given) if isinstance(one, Shape)]
    assert found == [False, True, False]
