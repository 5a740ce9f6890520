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
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    from .families import Floats

_CHUNK = 32768
"""Rows at a time: their features then fit the processor's caches."""
_WALKED = 32768
"""Places in trees at a time, where rows walk through all trees together."""
_LEVELS = 4
_MANY = 4096
"""Rows from which it pays to prepare trees for them."""
_MOST_DEPTH = 256
"""Deeper than any tree that is learnt: each level costs all rows a step."""
_MOST_VALUE = 1e6
_MOST_SELECTED = 64
"""Leaves of a tree that is evaluated node by node: more are walked to."""


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
        is_selecting = rows >= _MANY and self._leaves.max() <= _MOST_SELECTED
        step = _CHUNK if is_selecting else max(1, _WALKED // len(self.first))
        total = np.full(rows, float(self.start[0]))
        for begin in range(0, rows, step):
            part = features[:, begin : begin + step]
            values = self._selected(part) if is_selecting else self._walked(part)
            # One after the other, so that a row has one sum in any company.
            for value in values:
                total[begin : begin + step] += value
        return total

    def _walked(self, features: NDArray[np.float32]) -> Iterable[Floats]:
        """What each tree says, level by level for all trees together.

        Most rows come to a leaf halfway down the deepest branch: those that have are
        left out every few levels.
        """
        columns, rows = features.shape
        # Row by row, so that what a row compares lies together.
        flat, trees = features.T.ravel(), len(self.first)
        feature, left, step = self._steps
        node = np.repeat(self.first, rows)
        row = np.tile(np.arange(rows) * columns, trees)
        ends, place = node.copy(), np.arange(len(node))
        for level in range(1, self._depth + 1):
            value = flat.take(feature.take(node) + row)
            goes_right = value > self.threshold.take(node)
            node = left.take(node) + goes_right * step.take(node)
            if level % _LEVELS == 0 or level == self._depth:
                ends[place] = node
                going = np.flatnonzero(step.take(node))
                node, row, place = (each.take(going) for each in (node, row, place))
        found: Floats = self.value.take(ends).reshape(trees, rows)
        return found

    @cached_property
    def _steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each node: its feature, its left child, how far the right is from it.

        Places are those of the whole forest; rows stay in leaves.
        """
        is_leaf = self.left == 0
        places = np.arange(len(self.left))
        return (
            np.where(is_leaf, 0, self.feature.astype(np.int64)),
            np.where(is_leaf, places, self._base + self.left),
            np.where(is_leaf, 0, self.right.astype(np.int64) - self.left),
        )

    def _selected(self, features: NDArray[np.float32]) -> Iterator[Floats]:
        """What each tree says, node by node for all rows together."""
        selection = _Selection(np.ascontiguousarray(features))
        for tree in self._selecting:
            yield tree.leaves.take(selection.leaf_of(tree.root))

    @cached_property
    def _selecting(self) -> list[_SelectingTree]:
        return [_selecting(self, nodes) for nodes in self._slices()]

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        """How many nodes each tree has."""
        return np.diff(np.append(self.first, len(self.feature)))

    @cached_property
    def _leaves(self) -> NDArray[np.int64]:
        """How many leaves each tree has."""
        leaves: NDArray[np.int64] = (self._sizes + 1) // 2
        return leaves

    @cached_property
    def _base(self) -> NDArray[np.int64]:
        """For each node, where its tree begins."""
        return np.repeat(self.first, self._sizes)

    @cached_property
    def _depth(self) -> int:
        """Levels below the first nodes; one more than allowed says: too many."""
        nodes, depth = self.first, 0
        while depth <= _MOST_DEPTH:
            inner = nodes[self.left[nodes] != 0]
            if not len(inner):
                break
            children = (self.left[inner], self.right[inner])
            nodes = np.concatenate([self._base[inner] + each for each in children])
            depth += 1
        return depth

    def _slices(self) -> Iterator[slice]:
        ends = (self.first + self._sizes).tolist()
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
        inner = self.left != 0
        known = (self.feature >= 0) & (self.feature < features)
        if not np.all(known | ~inner) or not self._are_trees(inner):
            raise KernelModelError("a tree of a forest is not a tree")
        if self._depth > _MOST_DEPTH:
            raise KernelModelError("a tree of a forest is too deep")

    def _are_trees(self, inner: NDArray[np.bool_]) -> bool:
        """Whether all nodes but the first of a tree have one parent, before them."""
        place = (np.arange(len(inner)) - self._base)[inner]
        base, size = self._base[inner], np.repeat(self._sizes, self._sizes)[inner]
        parents = np.zeros(len(inner), np.int64)
        parents[self.first] = 1
        for children in (self.left[inner], self.right[inner]):
            if not np.all((children > place) & (children < size)):
                return False
            parents += np.bincount(base + children, minlength=len(inner))
        return bool(np.all(parents == 1))


def _ascend(first: NDArray[np.int64], count: int) -> bool:
    ends = np.append(first, count)
    return bool(len(first)) and first[0] == 0 and bool(np.all(np.diff(ends) > 0))


@dataclass(frozen=True)
class _Node:
    """An inner node of a small tree; None stands for a leaf."""

    feature: int
    threshold: np.float32
    left: _Node | None
    right: _Node | None
    leaves_left: np.uint8
    """How many leaves lie at its left."""


@dataclass(frozen=True)
class _SelectingTree:
    """A small tree: its leaves are numbered from left to right."""

    root: _Node | None
    leaves: Floats


@dataclass(frozen=True)
class _Selection:
    """Which leaf each row comes to, of rows whose features come column by column.

    No row is walked. A node compares a whole column, and takes the number of the leaf
    from its left or its right: bytes, of which a processor does dozens at once.
    """

    features: NDArray[np.float32]

    def leaf_of(self, node: _Node | None) -> NDArray[np.uint8]:
        """The leaf below a node, counted from the leftmost one there."""
        if node is None:
            return np.zeros(self.features.shape[1], np.uint8)
        goes_right: NDArray[np.bool_] = self.features[node.feature] > node.threshold
        found = goes_right.view(np.uint8)
        if node.right is not None:
            right = self.leaf_of(node.right)
            right += node.leaves_left
            found *= right
        elif node.left is not None:
            found *= node.leaves_left
        if node.left is not None:
            # Leaves at the left have lower numbers than any at the right.
            np.maximum(found, self.leaf_of(node.left), out=found)
        return found


_TYPES = {"feature": np.int64, "left": np.int64, "right": np.int64, "first": np.int64}


def _whole(array: NDArray[Any], name: str) -> NDArray[Any]:
    """An array of a file, which has the narrowest type, in one to reckon with."""
    if name == "threshold" or array.dtype.kind not in "iuf":
        return array
    if name in _TYPES and array.dtype.kind == "f":
        return array  # refused by the check of the nodes
    return array.astype(_TYPES.get(name, np.float64))


def _selecting(forest: Forest, nodes: slice) -> _SelectingTree:
    """A tree as its inner nodes, and its leaves from left to right."""
    feature, threshold = forest.feature[nodes].tolist(), forest.threshold[nodes]
    left, right = forest.left[nodes].tolist(), forest.right[nodes].tolist()
    value = forest.value[nodes].tolist()
    leaves: list[float] = []

    def visit(node: int) -> _Node | None:
        if left[node] == 0:
            leaves.append(value[node])
            return None
        before = len(leaves)
        at_left = visit(left[node])
        count = np.uint8(len(leaves) - before)
        at_right = visit(right[node])
        return _Node(feature[node], threshold[node], at_left, at_right, count)

    return _SelectingTree(visit(0), np.array(leaves))


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
