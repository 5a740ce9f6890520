"""Show what a node depends on, and what depends on it.

SQL walks the graph (`question.ancestor`, `descendant`, `waits_for`, `delays`). This
module finds a node by number or name, and adds names, times and lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.errors import QueryError
from tracedb.words import shortened

if TYPE_CHECKING:
    import duckdb

_MOST_NAMED = 5
_DIRECTIONS = ("up", "down")
_ITSELF = "SELECT 'itself', 0, NULL, NULL, {node}, NULL, NULL"
_REACHED = {
    "up": """
        SELECT 'up', distance, kind, recorded, node_id, next_node_id, NULL
        FROM question.ancestor({node})
    """,
    "down": """
        SELECT 'down', distance, kind, recorded, node_id, previous_node_id, NULL
        FROM question.descendant({node})
    """,
}
_WAITS = {
    "up": """
        SELECT 'up', 1, kind, recorded, awaited_node_id, waiting_node_id, waited_ns
        FROM question.waits_for({node})
    """,
    "down": """
        SELECT 'down', hop, kind, NULL, node_id, previous_node_id, waited_ns
        FROM question.delays({node})
    """,
}
_ROWS = """
WITH found (direction, distance, kind, recorded, node_id, via_node_id, waited_ns) AS (
    {parts}
)
SELECT
    direction,
    distance::BIGINT AS distance,
    found.kind,
    recorded,
    {waited}
    node.start_ns - itself.start_ns AS offset_ns,
    node.end_ns - node.start_ns AS duration_ns,
    CASE
        WHEN node.thread_id IS NULL
            THEN format('device {{}} stream {{}}', node.device, node.stream)
        ELSE format('{{}} thread {{}}', role, tid)
    END AS lane,
    node.name,
    node_id,
    via_node_id,
    node.start_ns
FROM found
INNER JOIN graph.node AS node USING (node_id)
CROSS JOIN (SELECT start_ns FROM graph.node WHERE node_id = {node}) AS itself
LEFT JOIN staging.thread AS thread ON node.thread_id = thread.thread_id
ORDER BY distance, direction DESC, node.start_ns, node_id, via_node_id
"""
_CANDIDATES = """
SELECT
    node.node_id,
    CASE WHEN rank >= 0 THEN 'rank ' || rank ELSE 'trace ' || node.trace_id END,
    mark.step,
    node.start_ns - coalesce(
        mark.start_ns,
        (
            SELECT min(start_ns) FROM graph.node AS first
            WHERE first.trace_id = node.trace_id
        )
    ) AS offset_ns,
    node.end_ns - node.start_ns AS duration_ns
FROM graph.node AS node
LEFT JOIN graph.node_step AS node_step ON node.node_id = node_step.node_id
LEFT JOIN staging.step AS mark ON node_step.step_id = mark.step_id
INNER JOIN staging.trace AS trace ON node.trace_id = trace.trace_id
WHERE
    {condition}
    AND ($step IS NULL OR mark.step = $step)
    AND ($rank IS NULL OR trace.rank = $rank)
ORDER BY node.start_ns, node.node_id
"""


# Names that contain the given one, or are misspelt by a letter in four at most.
_NEAR = """
SELECT name
FROM (SELECT DISTINCT name FROM graph.node WHERE name IS NOT NULL)
WHERE
    length($node) > 1
    AND (
        contains(lower(name), lower($node))
        OR damerau_levenshtein(lower(name), lower($node)) <= length($node) // 4
    )
ORDER BY
    contains(lower(name), lower($node)) DESC,
    jaro_winkler_similarity(lower(name), lower($node)) DESC,
    name
LIMIT 3
"""
_WIDEST = 60


def _suggestion(connection: duckdb.DuckDBPyConnection, node: int | str) -> str:
    """A hint at similar names, or at the relation that lists nodes."""
    if isinstance(node, str):
        near = connection.execute(_NEAR, {"node": node}).fetchall()
        if near:
            names = " or ".join(shortened(name, _WIDEST) for (name,) in near)
            return f"; did you mean {names}?"
    return "; graph.node lists the nodes"


def find_node(
    connection: duckdb.DuckDBPyConnection,
    node: int | str,
    step: int | None,
    rank: int | None,
) -> int:
    """The number of the node with that number or name, in a step or rank if given.

    Raises `QueryError` if there is none, or several; the message lists the first few.
    """
    condition = "node.node_id = $node" if isinstance(node, int) else "node.name = $node"
    values = {"node": node, "step": step, "rank": rank}
    query = _CANDIDATES.format(condition=condition)
    found = connection.execute(query, values).fetchall()
    if len(found) == 1:
        return int(found[0][0])
    where = "" if step is None else f" in step {step}"
    where += "" if rank is None else f" of rank {rank}"
    if not found:
        raise QueryError(f"no node {node}{where}{_suggestion(connection, node)}")
    listed = "; ".join(_reported(*row) for row in found[:_MOST_NAMED])
    more = "; ..." if len(found) > _MOST_NAMED else ""
    raise QueryError(
        f"{len(found)} nodes are named {node}{where}; choose one by its number: "
        f"{listed}{more}"
    )


def _reported(
    node: int, trace: str, step: int | None, offset: int, duration: int
) -> str:
    place = "" if step is None else f" step {step}"
    return (
        f"{node} ({trace}{place}, at {offset / 1e6:.3f} ms, "
        f"{duration / 1e3:.3f} us long)"
    )


def rows_query(node: int, direction: str | None, *, waits: bool) -> str:
    """The query for a node's dependencies (all, or waits), in one direction or both."""
    if direction is not None and direction not in _DIRECTIONS:
        raise QueryError(f"no direction {direction}; choose up or down")
    ways = _WAITS if waits else _REACHED
    chosen = [ways[way] for way in _DIRECTIONS if direction in (None, way)]
    parts = " UNION ALL ".join([_ITSELF, *chosen]).format(node=node)
    return _ROWS.format(parts=parts, node=node, waited="waited_ns," if waits else "")
