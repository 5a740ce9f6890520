"""What an op launches beside its parts, the ops below it in a graph from a GPU."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tracedb.from_code.graph_values import tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracedb.from_code.graph import GraphNode
    from tracedb.from_code.launches import Work

OF_SEVERAL = tuple(
    f"aten::{name}"
    for name in (
        *("_safe_softmax", "logsumexp", "constant_pad_nd"),
        *("slice_backward", "select_backward", "diagonal_backward"),
    )
)
"""Ops that PyTorch implements by several others on any device (`several` in code)."""
_FILLS = re.compile(r"(zero|fill|zeros|ones|full|new_zeros|new_ones|new_full)(_like)?")
_ALLOCATES = re.compile(r"(new_)?empty(_like|_strided|_permuted)?|resize(_as)?")
_SAME = {
    "fill": "zero",
    "ones": "zero",
    "zeros": "zero",
    "full": "zero",
    "arange": "iota",
}
"""Ops and kernels that do the same, by one name."""


@cache
def known(kind: str) -> frozenset[str]:
    """Ops that PyTorch implements by other ops: `implicit` or `explicit` ones."""
    text = files("tracedb.from_code").joinpath("composite_ops.json").read_text("utf-8")
    return frozenset(json.loads(text)[kind])


def bare(name: str) -> str:
    """The name of an op without what it is from, and whether it writes its input."""
    return re.sub(r"([^_])_$", r"\1", name.rpartition("::")[2])


def make_all(given: GraphNode) -> bool:
    """Whether the parts of an op write its result, so that it launches nothing itself.

    They do if PyTorch implements it by other ops, if one of them has its name, or one
    returns its result and does not merely allocate or fill it.
    """
    name = bare(given.name)
    if given.overload in known("explicit") or _FILLS.fullmatch(name):
        return True
    inputs = {storage for storage, _ in tensors(given.inputs)}
    results = {storage for storage, _ in tensors(given.outputs)}
    for part in given.walk():
        if part is given or not part.schema:
            continue
        called = bare(part.name)
        if called == name:
            return True
        if _FILLS.fullmatch(called) or _ALLOCATES.fullmatch(called) or part.is_view:
            continue
        made = {storage for storage, _ in tensors(part.outputs)} & results
        # What a part writes in place may be added to what the op wrote before.
        if made and (not part.writes or made & inputs):
            return True
    return False


def remaining(work: Iterable[Work], launched: Iterable[str]) -> tuple[Work, ...]:
    """The work of an op without the kernels that its parts launched, by their names."""
    done = {_SAME.get(bare(name), bare(name)) for name in launched}
    return tuple(one for one in work if _SAME.get(one.name, one.name) not in done)
