"""Which dimensions of recorded tensors are batch dimensions.

A recording has the shapes of an op's tensors, not their identities, so tensors of one
shape are treated alike. What ops tell (`rules`) is collected here: which
dimensions are equal, which belong to the model or to the batch, and which are products
of others. A dimension that is both, or a multiple of the batch size that is neither, is
unknown; nothing is guessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracedb.batch.calls import Dims

    Place = tuple[Dims, int]
    """A dimension: a shape, and an index into it."""

CONSTANT, BATCH, UNKNOWN, BOTH = "constant", "batch", "unknown", "both"
_PROBLEMS = {
    BOTH: "may be the batch size or a size of the model",
    UNKNOWN: "is not known to follow the batch size or not",
}


@dataclass
class Dimensions:
    """The kinds of all dimensions, for one batch size."""

    batch: int
    sparse: frozenset[Dims] = frozenset()
    """Shapes of the indices and values of sparse tensors, as of gradients."""
    _above: dict[Place, Place] = field(default_factory=dict)
    _kinds: dict[Place, set[str]] = field(default_factory=dict)
    _folded: dict[tuple[Place, tuple[Place, ...]], None] = field(default_factory=dict)

    def kind(self, place: Place) -> str:
        """The kind of a dimension: `BATCH`, `CONSTANT`, `UNKNOWN` or `BOTH`.

        A size that is not a multiple of the batch size is constant, except for a vector
        of offsets, which may have one element more or less, and for sparse tensors: how
        many values these have may follow from values.
        """
        dims, at = place
        kinds = self._kinds.get(self._root(place), set())
        if self.are_offsets(dims) and kinds == {BATCH}:
            return BATCH
        if dims[at] % self.batch:
            is_near = (dims[at] + 1) % self.batch in {0, 2 % self.batch}
            is_list = len(dims) == 1 and dims[at] > 1 and is_near
            may_grow = is_list or (dims in self.sparse and dims[at] > 1)
            return UNKNOWN if may_grow and not kinds else CONSTANT
        if not dims[at]:
            return CONSTANT
        if len(kinds) > 1:
            return BOTH
        kind = next(iter(kinds), UNKNOWN)
        return self._kind_of_one(place, kind) if self.batch == 1 else kind

    def are_offsets(self, dims: Dims) -> bool:
        """Whether a vector has one element more than examples: with the last's end."""
        return len(dims) == 1 < dims[0] and dims[0] % self.batch == 1

    def _kind_of_one(self, place: Place, kind: str) -> str:
        """The kind if a batch has one example, where many sizes of 1 mean nothing.

        Only the first dimension counts as the batch's, which then has no other, or one
        of which it is a factor.
        """
        dims, at = place
        first = self._kinds.get(self._root((dims, 0)))
        if len(dims) > 1 and dims[0] == 1 and first == {BATCH}:
            others = {UNKNOWN: CONSTANT, BATCH: BOTH}
            return others.get(kind, kind) if at else BATCH
        return UNKNOWN if dims[at] == 1 and kind == BATCH else kind

    def may_be_batch(self, dims: Dims, at: int) -> bool:
        """Whether a dimension can be the batch's by its size.

        All sizes are multiples of 1: then one of size 1 is, if there is one.
        """
        if self.batch == 1:
            return dims[at] == 1 or 1 not in dims
        return dims[at] % self.batch == 0

    def scaled(self, dims: Dims, to_batch: int) -> tuple[Dims, str]:
        """The sizes of a shape at another batch size, or why one of them is unknown."""
        found = []
        for at, size in enumerate(dims):
            kind = self.kind((dims, at))
            if kind in _PROBLEMS:
                return (), f"dimension {at} of {list(dims)} {_PROBLEMS[kind]}"
            count, more = divmod(size, self.batch)
            found.append(size if kind == CONSTANT else count * to_batch + more)
        return tuple(found), ""

    def are_of_model(self, call_dims: Iterable[Dims]) -> bool:
        """Whether an update of these tensors has sizes of the model only."""
        return self.sparse.isdisjoint(call_dims)

    def same(self, one: Place, other: Place) -> None:
        """Record that two dimensions are the same, if their sizes agree.

        Dimensions of size 1 are the same only if a batch has one example.
        """
        (dims, at), (others, place) = one, other
        if dims[at] != others[place] or (dims[at] == 1 < self.batch):
            return
        above, below = self._root(one), self._root(other)
        if above != below:
            self._above[below] = above
            self._kinds.setdefault(above, set()).update(self._kinds.pop(below, ()))

    def constant(self, dims: Dims, *places: int) -> None:
        """Record that dimensions (default all) belong to the model."""
        for at in places or range(len(dims)):
            self._mark((dims, at % len(dims)), CONSTANT)

    def rows(self, dims: Dims, at: int = 0) -> None:
        """Record that a dimension is the batch's, if it is a multiple of its size."""
        if len(dims) > at and dims[at] and dims[at] % self.batch == 0:
            self._mark((dims, at), BATCH)

    def offsets(self, dims: Dims) -> None:
        """Record where the examples' values begin, maybe also where the last ends."""
        if self.are_offsets(dims):
            self._mark((dims, 0), BATCH)
        else:
            self.rows(dims)

    def examples(self, dims: Dims) -> None:
        """Record that only the first dimension of a tensor belongs to the batch."""
        if dims and dims[0] and dims[0] % self.batch == 0:
            self.rows(dims)
            if len(dims) > 1:
                self.constant(dims, *range(1, len(dims)))

    def folded(self, whole: Place, parts: Sequence[Place]) -> None:
        """Record that a dimension is the product or sum of several."""
        self._folded[whole, tuple(parts)] = None

    def _mark(self, place: Place, kind: str) -> bool:
        kinds = self._kinds.setdefault(self._root(place), set())
        is_new = kind not in kinds
        kinds.add(kind)
        return is_new

    def _root(self, place: Place) -> Place:
        while (above := self._above.get(place)) is not None:
            place = above
        return place

    def settle(self) -> None:
        """Propagate kinds through folded dimensions until nothing changes."""
        while any(self._follow(whole, parts) for whole, parts in self._folded):
            pass

    def _follow(self, whole: Place, parts: Sequence[Place]) -> bool:
        kinds = [self.kind(part) for part in parts]
        around = self.kind(whole)
        new: list[tuple[Place, str]] = []
        if all(kind == CONSTANT for kind in kinds):
            new.append((whole, CONSTANT))
        elif BATCH in kinds:
            new.append((whole, BATCH))
        unknown = [p for p, kind in zip(parts, kinds, strict=True) if kind == UNKNOWN]
        is_found = around == BATCH and kinds.count(BATCH) == 1
        if around == CONSTANT or is_found:
            new += [(part, CONSTANT) for part in unknown]
        elif around == BATCH and BATCH not in kinds and len(unknown) == 1:
            new.append((unknown[0], BATCH))
        return any(self._mark(place, kind) for place, kind in new)


def reshaped(found: Dimensions, one: Dims, other: Dims) -> None:
    """Relate the dimensions of two shapes whose elements are in the same order.

    >>> found = Dimensions(4)
    >>> found.rows((8, 6))
    >>> reshaped(found, (8, 6), (2, 4, 6))
    >>> found.constant((2, 4, 6), 0)
    >>> found.settle()
    >>> found.kind(((2, 4, 6), 1))
    'batch'
    """
    has_ones = found.batch == 1
    for left, right in _pieces(one, other, has_ones=has_ones):
        of_one = [(one, at) for at in left]
        of_other = [(other, at) for at in right]
        if len(of_one) == len(of_other) == 1:
            found.same(of_one[0], of_other[0])
        elif len(of_one) == 1:
            found.folded(of_one[0], of_other)
        elif len(of_other) == 1:
            found.folded(of_other[0], of_one)
        else:
            both = _divided(one, other, has_ones=has_ones)
            if both is None or both in {one, other}:
                continue
            reshaped(found, one, both)
            reshaped(found, both, other)


def _divided(one: Dims, other: Dims, *, has_ones: bool) -> Dims | None:
    """The shape of which each of two has products; None if there is none.

    >>> _divided((8, 66), (48, 11), has_ones=False)
    (8, 6, 11)
    >>> _divided((1, 48, 11), (8, 66), has_ones=True)
    (1, 8, 6, 11)
    >>> _divided((4, 6), (6, 4), has_ones=False) is None
    True
    """
    same = _prefix(one, other)
    rests = (one[same:], other[same:])
    sizes = {math.prod(rest[at:]) for rest in rests for at in range(len(rest))}
    strides = sorted(sizes | {1})
    if any(outer % inner for inner, outer in pairwise(strides)):
        return None
    ones = (1,) if has_ones and 1 in {rest[0] for rest in rests if rest} else ()
    both = tuple(outer // inner for inner, outer in pairwise(strides))[::-1]
    return (*one[:same], *ones, *both)


def _prefix(one: Dims, other: Dims) -> int:
    """The number of first dimensions with equal sizes."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _pieces(
    one: Dims, other: Dims, *, has_ones: bool
) -> Iterator[tuple[list[int], list[int]]]:
    """Groups of dimensions with equal products, without those of size 1.

    `has_ones`: the first dimension that differs may be one of size 1; it is then part
    of the first group.
    """
    same = _prefix(one, other) if has_ones else 0
    for at in range(same):
        yield [at], [at]
    left = [at for at, size in enumerate(one) if size != 1 and at >= same]
    right = [at for at, size in enumerate(other) if size != 1 and at >= same]
    first = [[same] if 1 in dims[same : same + 1] else [] for dims in (one, other)]
    while left and right:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        product, wanted = one[ours[0]], other[theirs[0]]
        while product != wanted:
            if product < wanted and left:
                ours.append(left.pop(0))
                product *= one[ours[-1]]
            elif product > wanted and right:
                theirs.append(right.pop(0))
                wanted *= other[theirs[-1]]
            else:
                return
        if has_ones:
            ours, theirs = first[0] + ours, first[1] + theirs
            first = [[], []]
        yield ours, theirs
