"""The kernels with which CUB sorts, by the number of keys."""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

from tracedb.from_code.ops import Shape

if TYPE_CHECKING:
    from tracedb.from_code.ops import Dispatched

_MANY = ("radix_sort_histogram", "radix_sort_scan", "radix_sort_onesweep")
"""A radix sort of many keys; the last one runs once for each digit."""
_SINGLE = "radix_sort_single_tile"
_TILE = 2_304
"""Keys of 8 bytes that one kernel sorts: 256 threads with 9 each (Policy700, 800)."""
_DIGIT_BITS = 8

# Arguments of gradients of embeddings that hold the lookups and the number of rows.
_ROWS_AT = {
    "aten::embedding_dense_backward": 2,
    "aten::_embedding_bag_dense_backward": 5,
    "aten::_embedding_bag_backward": 6,
}
_UNSORTED = "aten::embedding_dense_backward"
_FEW = 3_072
"""Lookups whose gradient PyTorch adds up without sorting them (Embedding.cu)."""


def by_size(kernels: tuple[str, ...], op: Dispatched) -> tuple[str, ...]:
    """The kernels of an op, with as many for sorting as its number of keys needs."""
    place = kernels.index(_MANY[0]) if _MANY[0] in kernels else None
    keys = _keys(op)
    if place is None or keys is None:
        return kernels
    count, bits = keys
    if op.name == _UNSORTED and count <= _FEW:
        return ("zero", "embedding_backward_feature")
    *first, last = _MANY
    passes = ceil(bits / _DIGIT_BITS)
    sort = (_SINGLE,) if count <= _TILE else (*first, *[last] * passes)
    return (*kernels[:place], *sort, *kernels[place + len(_MANY) :])


def _keys(op: Dispatched) -> tuple[int, int] | None:
    """The number of keys that an op sorts and their bits, if it shows them."""
    if op.sorts is not None:
        return op.sorts
    given = op.arguments
    if op.name in _ROWS_AT and len(given) > _ROWS_AT[op.name]:
        lookups, rows = given[1], given[_ROWS_AT[op.name]]
        if isinstance(lookups, Shape) and isinstance(rows, str) and rows.isdigit():
            return lookups.elements, _bits(int(rows))
    if "index_put" in op.name and len(given) > 1 and isinstance(given[1], list):
        # Indices of several dimensions are combined: at most one for each element.
        count = max((index.elements for index in given[1]), default=0)
        target = given[0].elements if isinstance(given[0], Shape) else 0
        return count, _bits(target)
    return None


def _bits(values: int) -> int:
    """The bits of a number below `values`; at least one."""
    return max(ceil(log2(values)), 1) if values > 1 else 1
