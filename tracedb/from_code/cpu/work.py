"""Find the ops of a step that compute on a CPU, as measurements name them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracedb.from_code.launches import Launching, LaunchTable, Work

if TYPE_CHECKING:
    import duckdb

    from tracedb.from_code.ops import Dispatched
    from tracedb.from_code.program import Node

_BAGS, _DENSE = "aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward"
_OFFSETS, _SPARSE = 2, 9
"""Positions of arguments of the first op that the second lacks."""


def cpu_launches(connection: duckdb.DuckDBPyConnection) -> LaunchTable:
    """The launch table by rules only, because traces of GPUs do not apply."""
    return LaunchTable.of(connection, tf32_products=False, tf32_convolutions=False)


def computing(root: Node, table: LaunchTable) -> list[Node]:
    """Set what each op computes; return the nodes that compute something."""
    found = []
    for node in root.walk():
        if node.dispatched is not None:
            node.launching = _launching(node.dispatched, table)
            if node.launching.work:
                found.append(node)
    return found


def _launching(op: Dispatched, table: LaunchTable) -> Launching:
    """The work of an op, under the name that a recording has."""
    if op.name != _BAGS:
        return table.launching(op)
    kept = [
        argument
        for place, argument in enumerate(op.arguments)
        if place not in {_OFFSETS, _SPARSE}
    ]
    work = (Work("kernel", _DENSE),)
    return replace(Launching(work), name=_DENSE, arguments=tuple(kept))
