"""Read an execution graph of any known schema version as a tree of nodes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tracedb
from tracedb.errors import EstimateError, IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import duckdb

_SCHEMAS = ("1.0.", "1.1.")
"""Prefixes of the known schema versions."""

_NODES = """
SELECT
    id, parent_id, name, tid, sequence_number, scope, op_schema, is_op,
    inputs, input_dims, input_types, input_strides,
    outputs, output_dims, output_types, attributes
FROM staging.et_op
WHERE trace_id = ?
ORDER BY et_node_id
"""
_TRACES = """
SELECT path, trace_id FROM raw.trace
"""
_KIND = """
SELECT format, header ->> '$.schema' FROM raw.trace WHERE trace_id = ?
"""
# What was repaired (a byte-order mark, an extra comma) lost no node.
_BROKEN = """
SELECT detail
FROM staging.ingest_issue
WHERE trace_id = ? AND kind NOT LIKE 'repaired:%'
ORDER BY kind
LIMIT 1
"""


@dataclass(eq=False)
class GraphNode:
    """A recorded node; its children are in order of their begins.

    Ids are assigned when nodes begin, and nodes are written when they end: `place` is
    the node's position in the file.
    """

    id: int
    parent_id: int | None
    name: str
    thread: int
    sequence: int
    scope: int
    schema: str
    is_op: bool
    inputs: Sequence[Values]
    outputs: Sequence[Values]
    attributes: dict[str, Any]
    place: int
    children: list[GraphNode] = field(default_factory=list)

    @property
    def is_range(self) -> bool:
        """Whether it is a user-scope range, of the user's code or of PyTorch's."""
        return self.is_op and not self.schema and self.scope == _USER

    @property
    def overload(self) -> str:
        """The name in its schema, such as `aten::add.Tensor`; empty without one."""
        return self.schema.partition("(")[0]

    @property
    def writes(self) -> bool:
        """Whether it writes an argument, by its schema."""
        return "!" in self.schema.partition("->")[0]

    @property
    def is_view(self) -> bool:
        """Whether it returns a view of an argument and writes none."""
        return "(a" in self.schema.partition("->")[0] and not self.writes

    def surrounds(self, other: GraphNode) -> bool:
        """Whether it begins before another node of any thread, and ends after it."""
        return self.id < other.id and self.place > other.place

    def walk(self) -> Iterator[GraphNode]:
        """The node and its descendants, in order of their begins."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)

    def argument(self, name: str) -> Values | None:
        """An argument by its name in the schema."""
        inside = self.schema.partition("(")[2].rpartition("->")[0]
        names = [
            p.partition("=")[0].split()[-1]
            for p in _parameters(inside)
            if p.strip() != "*"
        ]
        return dict(zip(names, self.inputs, strict=False)).get(name)


def _parameters(text: str) -> list[str]:
    """Split the parameters of a schema at commas outside brackets."""
    parts, depth = [""], 0
    for letter in text.strip().removesuffix(")"):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


@dataclass(frozen=True)
class Values:
    """An argument or a result: its value, its dimensions and its type.

    Strides are those of arguments, in elements, in graphs that record them.
    """

    value: Any
    dims: Any
    type: str
    strides: Any = ()


@dataclass(frozen=True)
class Graph:
    """An execution graph: the top-level ops of all threads, and all nodes by id.

    `batch` is the batch size that its sizes were changed to from the recorded one, if
    they were; `unsure` are the ops whose sizes were not, a line each.
    """

    path: str
    threads: list[GraphNode]
    nodes: dict[int, GraphNode]
    batch: int | None = None
    recorded_batch: int | None = None
    unsure: tuple[str, ...] = ()


_DEEPEST = 200
"""Deepest accepted nesting; PyTorch's is about 30."""
_USER = 7
"""PyTorch's `RecordScope::USER_SCOPE`."""


def read(path: str | Path) -> Graph:
    """Read an execution graph.

    Raises `EstimateError` if it is not one, is truncated, or is not a tree.
    """
    return read_all([path])[0]


def read_all(paths: Sequence[str | Path]) -> list[Graph]:
    """Read several execution graphs, which takes less time than one by one.

    Raises `EstimateError` as `read` does, and if two have the same contents.
    """
    from tracedb.ingest import ingest

    with tracedb.open() as database:
        connection = database.connection
        try:
            ingest(
                connection, paths, run=None, pair=False,
                progress=lambda _line: None, until="staging",
            )  # fmt: skip
        except IngestError as error:
            raise EstimateError(str(error)) from error
        traces = dict(connection.execute(_TRACES).fetchall())
        return [_read(connection, path, traces.get(str(path))) for path in paths]


def _read(
    connection: duckdb.DuckDBPyConnection, path: str | Path, trace_id: int | None
) -> Graph:
    if trace_id is None:
        raise EstimateError(f"{path}: has the same contents as another of the graphs")
    kind, schema = connection.execute(_KIND, [trace_id]).fetchall()[0]
    if kind != "et":
        raise EstimateError(
            f"{path}: a trace, not an execution graph; give the file of the "
            "ExecutionTraceObserver (for a trace, use `tracedb predict`)"
        )
    issue = connection.execute(_BROKEN, [trace_id]).fetchone()
    _refuse_unknown(path, schema, issue)
    rows = connection.execute(_NODES, [trace_id]).fetchall()
    nodes = [_node(place, row, path) for place, row in enumerate(rows)]
    return _graph(str(path), nodes)


def _refuse_unknown(
    path: str | Path, schema: str | None, issue: tuple[Any, ...] | None
) -> None:
    if schema is None or not schema.startswith(_SCHEMAS):
        raise EstimateError(
            f"{path}: an execution graph of schema {schema}; known are 1.0.1 to 1.1.1"
        )
    if issue is not None:
        raise EstimateError(
            f"{path}: {issue[0]}; an estimate needs the whole graph: record it again"
        )


def _node(place: int, row: tuple[Any, ...], path: str | Path) -> GraphNode:
    number, parent, name, thread, sequence, scope, schema, is_op = row[:8]
    if number is None or name is None:
        raise EstimateError(
            f"{path}: node {place + 1} of the file has no "
            f"{'name' if number is not None else 'id'}"
        )
    try:
        texts = [json.loads(text) if text else [] for text in row[8:]]
        values, dims, types, strides, results, result_dims, result_types, listed = texts
        return GraphNode(
            number, parent, name, thread or 0, -1 if sequence is None else sequence,
            scope or 0, schema or "", bool(is_op),
            _values(values, dims, types, strides),
            _values(results, result_dims, result_types, []),
            {given["name"]: given["value"] for given in listed}, place,
        )  # fmt: skip
    except (TypeError, ValueError, KeyError) as error:
        raise EstimateError(
            f"{path}: node {number} ({name}): its arguments are not lists of values, "
            "dimensions and types of equal length"
        ) from error


def _values(
    values: list[Any], dims: list[Any], types: list[str], strides: list[Any]
) -> list[Values]:
    parts = zip(values, dims, types, strict=True)
    if len(strides) != len(values):
        # Compilers' kernels have none.
        strides = [()] * len(values)
    return [
        Values(value, sizes, str(kind), steps)
        for (value, sizes, kind), steps in zip(parts, strides, strict=True)
    ]


def _graph(path: str, listed: list[GraphNode]) -> Graph:
    nodes = {node.id: node for node in listed}
    if len(nodes) < len(listed):
        ((twice, _),) = Counter(node.id for node in listed).most_common(1)
        raise EstimateError(f"{path}: two nodes have the id {twice}")
    roots = []
    around = _surrounding(listed)
    for node in sorted(listed, key=lambda node: node.id):
        above = nodes.get(-1 if node.parent_id is None else node.parent_id)
        above = above or around.get(node.id)
        if above is None or above is node or not above.is_op:
            roots.append(node)
        else:
            above.children.append(node)
    _refuse_circle(path, roots, nodes)
    _refuse_depth(path, roots)
    tops = [root for root in roots if root.is_op]
    if not any(node.schema for node in listed):
        raise EstimateError(
            f"{path}: none of its {len(listed)} nodes is an op with a schema; record "
            "it with PyTorch 1.13 or later"
        )
    return Graph(path, tops, nodes)


def _surrounding(listed: Sequence[GraphNode]) -> dict[int, GraphNode]:
    """The innermost node of the thread around each node.

    The parent of a node is missing if it raised an exception, as the recomputation of
    a checkpoint does when it has what it needs.
    """
    found: dict[int, GraphNode] = {}
    opened: defaultdict[int, list[GraphNode]] = defaultdict(list)
    for node in sorted(listed, key=lambda node: node.id):
        around = opened[node.thread]
        while around and not around[-1].surrounds(node):
            around.pop()
        if around:
            found[node.id] = around[-1]
        around.append(node)
    return found


def _refuse_depth(path: str, roots: list[GraphNode]) -> None:
    level = roots
    for _ in range(_DEEPEST):
        level = [child for node in level for child in node.children]
    if level:
        raise EstimateError(
            f"{path}: node {level[0].id} ({level[0].name}) is more than {_DEEPEST} "
            "levels deep, which no PyTorch step is"
        )


def _refuse_circle(
    path: str, roots: list[GraphNode], nodes: dict[int, GraphNode]
) -> None:
    reached = {node.id for root in roots for node in root.walk()}
    lost = sorted(nodes.keys() - reached)
    if lost:
        raise EstimateError(
            f"{path}: node {lost[0]} ({nodes[lost[0]].name}) is its own ancestor: the "
            "parents form a cycle"
        )
