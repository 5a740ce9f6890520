"""Forests as flat arrays, evaluated by NumPy alone.

A node sends a row left where `feature <= threshold`. Thresholds are float32 rounded
down: features are float32, for which that is the same comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tracedb.errors import KernelModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    from .families import Floats

_CHUNK = 16384
"""Rows at a time: their features then fit the processor's caches."""
_MOST_DEPTH = 256
"""Deeper than any tree that is learnt: each level costs all rows a step."""
_MOST_VALUE = 1e6
_MOST_MASKED = 32
"""Leaves of a tree that the bits of a mask can stand for."""


@dataclass(frozen=True)
class Forest:
    """Trees whose values are added up to `start`.

    Nodes lie tree by tree, parents before children; `left` and `right` count from the
    tree's first node, and are 0 in leaves. `first` has where each tree begins.
    """

    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    first: NDArray[np.int64]
    start: NDArray[np.float64]

    def predict(self, features: NDArray[np.float32]) -> Floats:
        """The sum over all trees; features come column by column (features x rows)."""
        rows = features.shape[1]
        total = np.full(rows, float(self.start[0]))
        for begin in range(0, rows, _CHUNK):
            part = np.ascontiguousarray(features[:, begin : begin + _CHUNK])
            for tree in self._trees:
                total[begin : begin + _CHUNK] += tree.predict(part)
        return total

    @cached_property
    def _trees(self) -> list[_MaskedTree | _WalkedTree]:
        return [_prepared(self, nodes) for nodes in self._slices()]

    def _slices(self) -> Iterator[slice]:
        ends = [*self.first[1:].tolist(), len(self.feature)]
        for begin, end in zip(self.first.tolist(), ends, strict=True):
            yield slice(begin, end)

    def in_single_precision(self) -> Forest:
        """The same with values that single precision holds."""
        return replace(self, value=self.value.astype(np.float32).astype(float))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: int) -> Forest:
        """A forest from a file, checked so that no walk can leave its arrays."""
        try:
            forest = cls(*(_whole(arrays[f.name], f.name) for f in fields(cls)))
        except KeyError as error:
            raise KernelModelError(f"a forest lacks the array {error}") from error
        forest._check(features)
        return forest

    def _check(self, features: int) -> None:
        """Each part is a tree: every node but the first has one parent, before it."""
        count = len(self.feature)
        same = {len(self.threshold), len(self.left), len(self.right), len(self.value)}
        if same != {count} or len(self.start) != 1 or not _ascend(self.first, count):
            raise KernelModelError("the arrays of a forest differ in length")
        whole = (self.feature, self.left, self.right, self.first)
        if any(column.dtype.kind not in "iu" for column in whole):
            raise KernelModelError("the nodes of a forest are not numbers")
        if not np.abs(np.append(self.value, self.start)).max() <= _MOST_VALUE:
            raise KernelModelError("a value of a forest is out of range")
        for nodes in self._slices():
            left, right = self.left[nodes], self.right[nodes]
            feature = self.feature[nodes]
            inner = left != 0
            known = (feature >= 0) & (feature < features)
            if not np.all(known | ~inner) or not _is_tree(left, right, inner):
                raise KernelModelError("a tree of a forest is not a tree")
            if _depth(left, right) > _MOST_DEPTH:
                raise KernelModelError("a tree of a forest is too deep")


def _is_tree(
    left: NDArray[np.int32], right: NDArray[np.int32], inner: NDArray[np.bool_]
) -> bool:
    places = np.flatnonzero(inner)
    children = np.append(left[inner], right[inner])
    is_behind = np.all((left[inner] > places) & (right[inner] > places))
    return bool(is_behind) and np.array_equal(
        np.sort(children), np.arange(1, len(left))
    )


def _ascend(first: NDArray[np.int64], count: int) -> bool:
    ends = np.append(first, count)
    return bool(len(first)) and first[0] == 0 and bool(np.all(np.diff(ends) > 0))


@dataclass(frozen=True)
class _MaskedTree:
    """A small tree, as for each inner node the leaves that going right rules out.

    The leaf is the first one that no node rules out (Lucchese et al., QuickScorer):
    no row is walked, each node is one comparison of a whole column.
    """

    nodes: list[tuple[int, np.float32, np.uint32]]
    leaves: Floats

    def predict(self, features: NDArray[np.float32]) -> Floats:
        rows = features.shape[1]
        ruled_out = np.zeros(rows, np.uint32)
        goes_right = np.empty(rows, np.bool_)
        bits = np.empty(rows, np.uint32)
        for feature, threshold, left_leaves in self.nodes:
            np.greater(features[feature], threshold, out=goes_right)
            np.multiply(goes_right, left_leaves, out=bits)
            np.bitwise_or(ruled_out, bits, out=ruled_out)
        first_free = ~ruled_out & (ruled_out + np.uint32(1))
        _, exponent = np.frexp(first_free.astype(np.float64))
        found: Floats = self.leaves.take(exponent - 1)
        return found


@dataclass(frozen=True)
class _WalkedTree:
    """A large tree, walked level by level by all rows together."""

    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    left: NDArray[np.int64]
    step: NDArray[np.int64]
    """From the left child to the right one; 0 in leaves, which stay."""
    value: Floats
    depth: int

    def predict(self, features: NDArray[np.float32]) -> Floats:
        rows = features.shape[1]
        flat, row = features.ravel(), np.arange(rows)
        column = self.feature * rows
        node = np.zeros(rows, np.int64)
        for _ in range(self.depth):
            value = flat.take(column.take(node) + row)
            goes_right = value > self.threshold.take(node)
            node = self.left.take(node) + goes_right * self.step.take(node)
        found: Floats = self.value.take(node)
        return found


_TYPES = {"feature": np.int64, "left": np.int64, "right": np.int64, "first": np.int64}


def _whole(array: NDArray[Any], name: str) -> NDArray[Any]:
    """An array of a file, which has the narrowest type, in one to reckon with."""
    if name == "threshold" or array.dtype.kind not in "iuf":
        return array
    if name in _TYPES and array.dtype.kind == "f":
        return array  # refused by the check of the nodes
    return array.astype(_TYPES.get(name, np.float64))


def _prepared(forest: Forest, nodes: slice) -> _MaskedTree | _WalkedTree:
    left, right = forest.left[nodes], forest.right[nodes]
    feature, threshold = forest.feature[nodes], forest.threshold[nodes]
    value = forest.value[nodes]
    is_leaf = left == 0
    if is_leaf.sum() <= _MOST_MASKED:
        return _masked(feature, threshold, left, right, value)
    places = np.arange(len(left), dtype=np.int64)
    stay = np.where(is_leaf, places, left).astype(np.int64)
    step = np.where(is_leaf, 0, right - left).astype(np.int64)
    column = np.where(is_leaf, 0, feature).astype(np.int64)
    return _WalkedTree(column, threshold, stay, step, value, _depth(left, right))


def _depth(left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    depth = np.zeros(len(left), np.int64)
    for node in np.flatnonzero(left):  # parents come first
        depth[left[node]] = depth[right[node]] = depth[node] + 1
    return int(depth.max())


def _masked(
    feature: NDArray[np.int16],
    threshold: NDArray[np.float32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    value: Floats,
) -> _MaskedTree:
    """Number the leaves from left to right, and give each node those at its left."""
    leaves: list[float] = []
    nodes: list[tuple[int, np.float32, np.uint32]] = []

    def visit(node: int) -> int:
        if left[node] == 0:
            leaves.append(float(value[node]))
            return 1 << (len(leaves) - 1)
        at_left = visit(int(left[node]))
        nodes.append((int(feature[node]), threshold[node], np.uint32(at_left)))
        return at_left | visit(int(right[node]))

    visit(0)
    return _MaskedTree(nodes, np.array(leaves))


def rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """The largest float32 that is not above each threshold."""
    near = thresholds.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > thresholds, below, near)


@dataclass(frozen=True)
class _Tree:
    """One tree of scikit-learn's, its nodes parents first."""

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: NDArray[Any]


def boosted(model: HistGradientBoostingRegressor) -> Forest:
    """The forest of a gradient boosting regressor without categories."""
    trees = []
    for (predictor,) in model._predictors:  # noqa: SLF001 (the trees are nowhere else)
        nodes = predictor.nodes
        is_inner = nodes["is_leaf"] == 0
        trees.append(
            _Tree(
                nodes["feature_idx"],
                np.where(is_inner, nodes["num_threshold"], 0),
                np.where(is_inner, nodes["left"], 0),
                np.where(is_inner, nodes["right"], 0),
                nodes["value"],
            )
        )
    start = float(model._baseline_prediction.ravel()[0])  # noqa: SLF001 (likewise)
    return _forest(trees, start)


def averaged(model: ExtraTreesRegressor) -> Forest:
    """The forest of an average: a sum, each value divided by the number of trees."""
    trees = []
    for estimator in model.estimators_:
        nodes = estimator.tree_
        is_inner = nodes.children_left > 0
        trees.append(
            _Tree(
                np.where(is_inner, nodes.feature, 0),
                np.where(is_inner, nodes.threshold, 0),
                np.where(is_inner, nodes.children_left, 0),
                np.where(is_inner, nodes.children_right, 0),
                nodes.value.ravel() / len(model.estimators_),
            )
        )
    return _forest(trees, 0.0)


def _forest(trees: list[_Tree], start: float) -> Forest:
    sizes = [len(tree.feature) for tree in trees]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    return Forest(
        joined("feature").astype(np.int16),
        rounded_down(joined("threshold").astype(float)),
        joined("left").astype(np.int32),
        joined("right").astype(np.int32),
        joined("value").astype(float),
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.array([start]),
    )
