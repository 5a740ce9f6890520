"""FBGEMM's fused embedding bags in graphs: which ops are known, what gradients sort."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracedb.from_code.graph_values import shapes, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracedb.from_code.graph import GraphNode, Values

_LOOKUP = re.compile(r"fbgemm::.*embedding.*codegen_(lookup|forward).*")
_GRADIENT = re.compile(r"torch::autograd::CppNode<.*LookupFunction.*>")
_LISTED = re.compile(
    r"fbgemm::(permute_\w*sparse_(data|features)|asynchronous_\w+_cumsum"
    r"|block_bucketize_sparse_features|bounds_check_indices\w*)"
)
_INDICES, _BITS = "indices", "total_hash_size_bits"


def is_known(name: str) -> bool:
    """Whether it is known how many kernels an op of FBGEMM launches."""
    return bool(_LOOKUP.fullmatch(name) or _LISTED.fullmatch(name)) or is_gradient(name)


def is_gradient(name: str) -> bool:
    """Whether it is the backward of a lookup, which autograd runs as a C++ function."""
    return _GRADIENT.fullmatch(name) is not None


@dataclass
class FusedBags:
    """The lookups of a step, by the number of elements of their results."""

    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)

    def note(self, given: GraphNode) -> None:
        """Keep how many rows a lookup reads and the bits of their numbers."""
        if not _LOOKUP.fullmatch(given.name):
            return
        indices, bits = given.argument(_INDICES), given.argument(_BITS)
        if indices is None or bits is None or not isinstance(bits.value, int):
            return
        for _, shape in tensors([indices]):
            self._seen[_elements(given.outputs)] = (shape.elements, bits.value)

    def sorted_by(self, given: GraphNode) -> tuple[int, int] | None:
        """The keys that a gradient sorts, and their bits: those of its lookup."""
        return (
            self._seen.get(_elements(given.inputs)) if is_gradient(given.name) else None
        )


def _elements(values: Iterable[Values]) -> int:
    first = next(shapes(values), None)
    return first.elements if first else 0
