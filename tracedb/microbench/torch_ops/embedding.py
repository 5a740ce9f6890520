"""Lookups in tables: single rows, and bags of rows that are summed or averaged.

Every call looks up other rows, alternating between a few sets, as batches do. Several
tables of one width are in one tensor, so that one kernel serves all of them.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (as PyTorch's own pages have it)
from torch import Tensor

from ..case import Case, Shape
from ..errors import UnsupportedError
from ..indices import draw
from ..turns import in_turn
from .tensors import Maker, gradient, op_of

_SETS = 4
_MOST_LOOKUPS = 2**24
"""The total lookups of all sets, enough that no cache has them at the next call."""
_LOOKUPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "embedding": F.embedding,
    "index_select": lambda rows, table: torch.index_select(table, 0, rows),
}
_MODES = ("sum", "mean")
_DENSE = "dense_"
"""Prefix of ops whose gradients are dense."""


def lookup(case: Case, device: torch.device) -> Callable[[], object]:
    """Look up single rows, drawn evenly from the table."""
    make = Maker.of(case, device)
    look = op_of(case, _LOOKUPS)
    table = make.random(case.shape["table_rows"], case.shape["width"])
    return in_turn([partial(look, rows, table) for rows in _single_rows(case, make)])


def lookup_backward(case: Case, device: torch.device) -> Callable[[], object]:
    """Compute the dense gradient of a table from the gradient of looked-up rows."""
    make = Maker.of(case, device)
    look = op_of(case, _LOOKUPS)
    table = make.learnt(case.shape["table_rows"], case.shape["width"])
    results = [look(rows, table) for rows in _single_rows(case, make)]
    return _gradients(results, table)


def bags(case: Case, device: torch.device) -> Callable[[], object]:
    """Look up bags of rows in several tables at once."""
    make = Maker.of(case, device)
    table = _tables(case, make.random)
    sets = _bag_rows(case, make)
    return in_turn([partial(_pool, case, rows, table) for rows in sets])


def bags_backward(case: Case, device: torch.device) -> Callable[[], object]:
    """Compute the gradient of the tables: sparse, unless the op is a dense one."""
    make = Maker.of(case, device)
    table = _tables(case, make.learnt)
    is_sparse = not case.op.startswith(_DENSE)
    sets = _bag_rows(case, make)
    results = [_pool(case, rows, table, sparse=is_sparse) for rows in sets]
    return _gradients(results, table)


def _single_rows(case: Case, make: Maker) -> list[Tensor]:
    s = case.shape
    return [make.indices(s["table_rows"], s["rows"]) for _ in range(_SETS)]


def _tables(case: Case, make: Callable[..., Tensor]) -> Tensor:
    if case.op.removeprefix(_DENSE) not in _MODES:
        raise UnsupportedError(f"{case.family}: no op {case.op}; available: sum, mean")
    return make(case.shape["tables"] * case.shape["table_rows"], case.shape["width"])


def _bag_rows(case: Case, make: Maker) -> list[Tensor]:
    """Draw the rows of every bag, table by table, a row of the result per bag."""
    s, random = case.shape, np.random.default_rng(0)
    lookups = s["bags"] * s["pooling"]
    sets = max(1, min(_SETS, _MOST_LOOKUPS // (lookups * s["tables"])))
    return [_one_set(s, make.device, random) for _ in range(sets)]


def _one_set(s: Shape, device: torch.device, random: np.random.Generator) -> Tensor:
    """Draw for one table; the other tables' rows are shifted, which is faster."""
    tables, table_rows = s["tables"], s["table_rows"]
    lookups, distinct = s["bags"] * s["pooling"], s["distinct_rows"] // tables
    rows = torch.from_numpy(draw(table_rows, lookups, distinct, random)).to(device)
    shift = torch.from_numpy(random.integers(0, table_rows, (tables, 1))).to(device)
    first = table_rows * torch.arange(tables, device=device).unsqueeze(1)
    return ((rows + shift) % table_rows + first).view(-1, s["pooling"])


def _pool(case: Case, rows: Tensor, table: Tensor, *, sparse: bool = False) -> Tensor:
    mode = case.op.removeprefix(_DENSE)
    return F.embedding_bag(rows, table, mode=mode, sparse=sparse)


def _gradients(results: Sequence[Tensor], table: Tensor) -> Callable[[], object]:
    return in_turn([gradient(result, table) for result in results])
