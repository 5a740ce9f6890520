"""Questions about dependencies, compared with plain loops."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest
from support import SAMPLES, rows, write_generated

import tracedb

SEEDS = range(6)
WAITING = {"sync_stream", "sync_device", "sync_event", "copy"}
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """The samples, and six generated traces of 1 to 3 threads and 1 to 4 streams."""
    folder = tmp_path_factory.mktemp("generated")
    write_generated(folder, SEEDS, jitters=[0.2])
    with tracedb.open() as opened:
        opened.ingest([folder, SAMPLES])
        yield opened


def trace_ids(database: tracedb.Database) -> list[int]:
    """The ids of all Kineto traces."""
    query = "SELECT trace_id FROM staging.trace WHERE format = 'kineto' ORDER BY ALL"
    return [trace_id for (trace_id,) in rows(database, query)]


@dataclass
class Trace:
    """The rows of one trace, for the loops below."""

    nodes: dict[int, Row]
    ops: dict[int, Row]
    calls: dict[int, Row]
    work: dict[int, Row]
    steps: list[Row]
    top_level_events: dict[int, list[Row]]
    edges: list[Row]
    outer_calls: dict[int, Row]

    def begin(self, node: int) -> int:
        """Begin of a node's step membership: its own begin, or its launch's."""
        launch = self.work[node][1] if node in self.work else None
        return int(self.nodes[node if launch is None else launch][2])

    def step(self, node: int) -> tuple[int, int]:
        """Begin and end of the step around a node; of all time if there is none."""
        time = self.begin(node)
        found = [(start, end) for _, _, start, end in self.steps if start <= time < end]
        return max(found, default=(-(2**62), 2**62))

    def events_in(self, user_range: int) -> list[int]:
        """Top-level events that begin in a user range on its thread, by begin."""
        kind, start, end, thread = self.nodes[user_range][1:5]
        if kind != "annotation":
            return []
        return [n for n, at, _ in self.top_level_events[thread] if start <= at < end]


def read(database: tracedb.Database, trace_id: int) -> Trace:
    """Read the rows of a trace."""

    def found(columns: str, source: str) -> list[Row]:
        query = f"SELECT {columns} FROM {source} WHERE trace_id = {trace_id}"
        return rows(database, f"{query} ORDER BY ALL")

    top_level_events = defaultdict(list)
    query = "thread_id, start_ns, end_ns, node_id"
    for thread, start, end, node in found(query, "graph.top_level_event"):
        top_level_events[thread].append((node, start, end))
    of_node = "node_id, kind, start_ns, end_ns, thread_id, device, stream"
    columns = "call_id, thread_id, op_id, top_op_id"
    return Trace(
        {r[0]: r for r in found(of_node, "graph.node")},
        {
            r[0]: r
            for r in found(
                "op_id, parent_op_id, is_top_level, is_annotation", "staging.op"
            )
        },
        {r[0]: r for r in found(columns, "staging.call")},
        {r[0]: r for r in found("gpu_op_id, call_id, op_id", "staging.gpu_op")},
        found("step_id, step, start_ns, end_ns", "staging.step"),
        top_level_events,
        found("source_node_id, target_node_id, kind", "graph.edge"),
        {
            r[0]: r
            for r in found(
                "call_id, thread_id, wait_start_ns, end_ns", "graph.host_call"
            )
        },
    )


def sample(trace: Trace, seed: int) -> list[int]:
    """Some nodes of each kind that a trace has."""
    chance = random.Random(seed)  # noqa: S311 (a choice of examples)
    by_kind = defaultdict(list)
    for node, row in sorted(trace.nodes.items()):
        by_kind[row[1]].append(node)
    return [chance.choice(nodes) for nodes in by_kind.values()]


# Ancestors and descendants: shortest paths in a graph of begins and ends


def endpoints(trace: Trace, node: int) -> nx.DiGraph:
    """Begins and ends of a step's nodes; each edge with its number of hops."""
    start, end = trace.step(node)
    inside = {n for n in trace.nodes if start <= trace.begin(n) < end}
    graph = nx.DiGraph()
    graph.add_edges_from((((n, 0), (n, 1)) for n in inside), hops=0)
    edges = [edge for edge in trace.edges if {edge[0], edge[1]} <= inside]
    for source, target, kind in edges:
        first = (source, 0 if kind in {"nesting", "launch"} else 1)
        graph.add_edge(first, (target, 1 if kind in WAITING else 0), hops=1)
        if kind == "nesting":
            graph.add_edge((target, 1), (source, 1), hops=1)
    for first_node, then in siblings(trace, inside):
        graph.add_edge((first_node, 1), (then, 0), hops=1)
    return graph


def siblings(trace: Trace, inside: set[int]) -> Iterator[tuple[int, int]]:
    """Neighbours within an op."""
    parts = defaultdict(list)
    for op, parent, is_top, is_annotation in trace.ops.values():
        if not is_top and not is_annotation and op in inside:
            parts[parent].append(op)
    for call, _, op, top in trace.calls.values():
        if top is not None and call in trace.outer_calls and call in inside:
            parts[op].append(call)
    for nodes in parts.values():
        yield from pairwise(sorted(nodes, key=lambda n: (*trace.nodes[n][2:4], n)))


def ancestors(trace: Trace, node: int) -> dict[int, int]:
    """What a node depends on, with the number of edges between."""
    asked = next(iter(trace.events_in(node)), node)
    graph = endpoints(trace, node).reverse(copy=False)
    starts = {(asked, 0): 0} if (asked, 0) in graph else {}
    starts |= {
        (source, 1): 1
        for source, target, kind in trace.edges
        if target == asked and kind in WAITING and (source, 1) in graph
    }
    return nearest(graph, starts, asked)


def descendants(trace: Trace, node: int) -> dict[int, int]:
    """What depends on a node, with the number of edges between."""
    graph = endpoints(trace, node)
    starts = {(node, 0): 0} if (node, 0) in graph else {}
    starts |= {(n, 0): 1 for n in trace.events_in(node)}
    reached = nearest(graph, starts, node)
    # An op that ends only after the node does not depend on it if it began before.
    begun = nearest(graph, starts, node, endpoint=0)
    waited: dict[int, int] = {}
    for source, target, kind in trace.edges:
        if kind in WAITING and (source in reached or source == node):
            distance = reached.get(source, 0) + 1
            waited[target] = min(distance, waited.get(target, distance))
    ends = {n: d for n, d in waited.items() if (n, 1) in graph and n != node}
    return {n: min(begun.get(n, 2**62), ends.get(n, 2**62)) for n in {*begun, *ends}}


def nearest(
    graph: nx.DiGraph, starts: dict[Row, int], itself: int, endpoint: int | None = None
) -> dict[int, int]:
    """The least number of hops from the starts to each node's begin or end."""
    found: dict[int, int] = {}
    for start, offset in starts.items():
        hops = nx.single_source_dijkstra_path_length(graph, start, weight="hops")
        for (node, which), distance in hops.items():
            if node != itself and endpoint in (None, which):
                total = distance + offset
                found[node] = min(total, found.get(node, total))
    return found


@pytest.mark.parametrize(
    ("question", "reference"),
    [("ancestor", ancestors), ("descendant", descendants)],
    ids=["ancestor", "descendant"],
)
def test_distances_equal_shortest_paths(
    traces: tracedb.Database,
    question: str,
    reference: Any,  # noqa: ANN401 (a function)
) -> None:
    """Networkx finds the same nodes and distances between begins and ends."""
    reached = 0
    for trace_id in trace_ids(traces):
        trace = read(traces, trace_id)
        for node in sample(trace, trace_id):
            query = f"SELECT node_id, distance FROM question.{question}({node})"
            expected = reference(trace, node)
            assert dict(rows(traces, query)) == expected, node
            reached += len(expected)
    assert reached > 5_000


def test_edges_of_paths_exist(traces: tracedb.Database) -> None:
    """Each row names an existing edge, to a node that is nearer."""
    for trace_id in trace_ids(traces)[-4:]:
        for node in sample(read(traces, trace_id), trace_id):
            wrong = f"""
                SELECT * FROM question.ancestor({node}) AS far
                LEFT JOIN question.ancestor({node}) AS near
                    ON far.next_node_id = near.node_id
                ANTI JOIN graph.step_edge({node}) AS edge
                    ON edge.source_node_id = far.node_id
                    AND edge.target_node_id = far.next_node_id
                    AND edge.kind = far.kind
                    AND far.distance > coalesce(near.distance, 0)
            """
            assert rows(traces, wrong) == []


@pytest.mark.until("graph")
def test_cycles_terminate() -> None:
    """Backward edges, which no valid trace has, do not cause endless recursion."""
    with tracedb.open() as database:
        database.ingest([SAMPLES / "dlrm_cpu"])
        database.connection.execute("""
            INSERT INTO graph.data_edge
            SELECT run_id, trace_id, target_op_id, source_op_id, tensor_count
            FROM graph.data_edge
        """)
        trace = read(database, trace_ids(database)[0])
        (node,) = rows(database, "SELECT max(source_op_id) FROM graph.data_edge")[0]
        for question, reference in (
            ("ancestor", ancestors),
            ("descendant", descendants),
        ):
            query = f"SELECT node_id, distance FROM question.{question}({node})"
            assert dict(rows(database, query)) == reference(trace, node)


# Waits


def waits(database: tracedb.Database, trace: Trace, node: int) -> set[Row]:
    """Waits of a node as (waiting node, kind, awaited node, duration)."""
    below = {node} & trace.ops.keys()
    for op, parent, *_ in sorted(trace.ops.values()):
        if parent in below:
            below.add(op)
    calls = {
        call for call, row in trace.calls.items() if call == node or row[2] in below
    }
    kind, start, end, thread = trace.nodes[node][1:5]
    is_range = kind == "annotation"
    if is_range:
        calls |= {
            call
            for call, row in trace.calls.items()
            if row[1] == thread and start <= trace.nodes[call][2] < end
        }
    found = set()
    for call, target, work, begin, over, blocked in rows(
        database,
        "SELECT call_id, target, gpu_op_id, start_ns, end_ns, is_blocked "
        "FROM graph.host_wait",
    ):
        if call in calls:
            kind = "copy" if target == "copy" else f"sync_{target}"
            found.add((call, kind, work, over - begin if blocked else 0))
    for work, awaited, excess, reason in rows(
        database,
        "SELECT gpu_op_id, awaited_gpu_op_id, excess_ns, reason FROM graph.stream_wait",
    ):
        if work == node or (work in trace.work and trace.work[work][1] in calls):
            kind = "stream_wait" if reason == "event" else reason
            found.add((work, kind, awaited, max(excess or 0, 0)))
    for waiter, begin, over, last, after in rows(
        database,
        "SELECT thread_id, start_ns, end_ns, last_node_id, after_node_id "
        "FROM graph.thread_wait WHERE kind = 'join'",
    ):
        in_range = is_range and waiter == thread and start <= over < end
        if after in below or after == node or in_range:
            found.add((after, "join", last, over - begin))
    return found


def test_waits_equal_a_loop(traces: tracedb.Database) -> None:
    """The nodes and durations equal those of a loop over all waits."""
    seen: dict[str, int] = defaultdict(int)
    for trace_id in trace_ids(traces):
        trace = read(traces, trace_id)
        waiting = f"""
            SELECT node_id FROM (
                SELECT unnest([op_id, top_op_id]) AS node_id, call.trace_id
                FROM staging.call INNER JOIN graph.host_wait USING (call_id)
                UNION SELECT gpu_op_id, trace_id FROM graph.stream_wait
                UNION
                SELECT after_node_id, trace_id FROM graph.thread_wait
                WHERE kind = 'join'
            )
            WHERE trace_id = {trace_id} AND node_id IS NOT NULL
            ORDER BY ALL LIMIT 6
        """
        nodes = {node for (node,) in rows(traces, waiting)}
        steps = {step for step, *_ in trace.steps[:1]}
        for node in {*nodes, *steps, *sample(trace, trace_id)}:
            query = f"""
                SELECT waiting_node_id, kind, awaited_node_id, waited_ns
                FROM question.waits_for({node})
            """
            answer = rows(traces, query)
            assert set(answer) == waits(traces, trace, node), node
            assert len(answer) == len(set(answer))
            for _, kind, *_ in answer:
                seen[kind] += 1
    assert {"copy", "sync_stream", "stream_wait", "join"} <= set(seen)


# Causes: what delays what, and chains


@dataclass
class Causes:
    """What each GPU op and each resumed thread came after."""

    gpu: dict[int, Row]
    host: dict[int, Row]
    by_thread: dict[int, list[tuple[int, int]]]

    def latest(self, thread: int, time: int) -> int | None:
        """The last resumption of a thread up to a time."""
        known = self.by_thread[thread]
        place = bisect_right(known, (time, 2**62))
        return known[place - 1][1] if place else None


def causes(database: tracedb.Database, trace_id: int) -> Causes:
    """Read the causes of a trace."""
    gpu = rows(
        database,
        f"""
        SELECT gpu_op_id, cause, cause_gpu_op_id, cause_ns, launch_thread_id,
            launch_start_ns, start_ns, end_ns
        FROM graph.gpu_cause
        INNER JOIN graph.stream_position USING (trace_id, gpu_op_id)
        WHERE trace_id = {trace_id}
        """,
    )
    host = rows(
        database,
        f"""
        SELECT resume_id, thread_id, cause, resume_ns, cause_gpu_op_id, cause_thread_id,
            cause_resume_id, call_id
        FROM graph.host_cause WHERE trace_id = {trace_id} ORDER BY thread_id, resume_ns
        """,
    )
    # Another rank is unknown within a trace; only that the thread waited is known.
    before: dict[int, int | None] = {}
    for number, (resume_id, thread, cause, *rest) in enumerate(host):
        if cause == "arrival":
            own = (rest[0], None, thread, before.get(thread), None)
            host[number] = (resume_id, thread, cause, *own)
        before[thread] = resume_id
    by_thread = defaultdict(list)
    for resume_id, thread, _, time, *_ in host:
        by_thread[thread].append((time, resume_id))
    for known in by_thread.values():
        known.sort()
    return Causes({r[0]: r for r in gpu}, {r[0]: r for r in host}, by_thread)


def delayed(trace: Trace, known: Causes, kernel: int) -> dict[Row, int]:
    """What GPU work delays, as (call or GPU op, reason), with the number of hops."""
    start, end = trace.step(kernel)
    after: dict[Row, list[Row]] = defaultdict(list)
    for work, cause, cause_work, _, thread, launched, *_ in known.gpu.values():
        if launched is None or start <= launched < end:
            source = ("gpu", cause_work)
            if cause == "launch":
                source = ("host", known.latest(thread, launched))
            after[source].append(("gpu", work, cause))
    for resume_id, _, cause, time, cause_work, _, before, _ in known.host.values():
        if start <= time < end:
            source = ("gpu", cause_work) if cause == "return" else ("host", before)
            after[source].append(("host", resume_id, cause))
    found: dict[Row, int] = {}
    front, hop = [("gpu", kernel)], 0
    while front:
        hop += 1
        reached = [child for source in front for child in after.pop(source, [])]
        for where, number, cause in reached:
            if where == "gpu" or cause == "return":
                node = number if where == "gpu" else known.host[number][-1]
                found.setdefault((node, cause), hop)
        front = [(where, number) for where, number, _ in reached]
    return found


def test_delays_equal_a_loop(traces: tracedb.Database) -> None:
    """They equal what a loop along the causes reaches, hop by hop."""
    seen: dict[str, int] = defaultdict(int)
    for trace_id in trace_ids(traces):
        trace, known = read(traces, trace_id), causes(traces, trace_id)
        awaited = sorted({r[4] for r in known.host.values()} - {None})[:4]
        first = sorted(known.gpu)[::37][:6]
        for kernel in [*awaited, *first]:
            query = f"SELECT node_id, kind, hop FROM question.delays({kernel})"
            answer = {(n, kind): hop for n, kind, hop in rows(traces, query)}
            for _, kind in answer:
                seen[kind] += 1
            expected = delayed(trace, known, kernel)
            threads = {key for key in answer if key[1] in {"fork", "join"}}
            assert {k: h for k, h in answer.items() if k not in threads} == expected
    assert {"stream", "stream_wait", "return", "launch", "fork"} <= set(seen)


def chains(trace: Trace, known: Causes, start: int, end: int) -> list[list[Row]]:
    """Nodes of the chain to each lane's last event in a step, latest end first."""
    lasts: list[Row] = []
    for thread, top_level_events in trace.top_level_events.items():
        inside = [
            (at, over, n) for n, at, over in top_level_events if start <= at < end
        ]
        if inside:
            last = max(inside)
            lasts.append((last[1], last[2], thread, None))
    lanes: dict[Row, Row] = {}
    for work, *_, launched, begun, over in known.gpu.values():
        if launched is not None and start <= launched < end:
            lane = trace.nodes[work][5:]
            lanes[lane] = max(lanes.get(lane, (-1, 0, 0)), (begun, over, work))
    lasts += [(over, work, None, work) for _, over, work in lanes.values()]
    lasts.sort(key=lambda last: (-last[0], last[1]))
    return [chain(trace, known, start, *last) for last in lasts]


def chain(  # noqa: PLR0913, PLR0917 (where it is, and where it comes from)
    trace: Trace,
    known: Causes,
    start: int,
    until: int,
    _node: int,
    thread: int | None,
    work: int | None,
) -> list[Row]:
    """Walk back from the end of a lane to the begin of the step."""
    nodes: list[Row] = []
    resume_id = None if thread is None else known.latest(thread, until)
    reason = "end"
    while True:
        cause, next_until, next_thread, next_work, next_resume_id = _before(
            known, resume_id, work
        )
        goes_on = cause != "none" and min(until, next_until) > start
        since = max(min(until, next_until), start) if goes_on else start
        if work is None:
            passed = [
                (n, max(at, since), min(over, until))
                for n, at, over in trace.top_level_events[thread or 0]
                if at < until and over > since
            ]
        else:
            passed = [
                (work, max(known.gpu[work][6], since), min(known.gpu[work][7], until))
            ]
        leads = ["thread"] * (len(passed) - 1) + [reason]
        nodes[:0] = [(*p, by) for p, by in zip(passed, leads, strict=bool(passed))]
        if not goes_on:
            return nodes
        until, reason = since, cause
        thread, work, resume_id = next_thread, next_work, next_resume_id


def _before(known: Causes, resume_id: int | None, work: int | None) -> Row:
    """What a point of a chain came after: cause, time, thread, work, resume_id."""
    if work is not None:
        _, cause, cause_work, cause_ns, thread, launched, begun, _ = known.gpu[work]
        if cause != "launch":
            return cause, begun, None, cause_work, None
        return cause, min(cause_ns, begun), thread, None, known.latest(thread, launched)
    if resume_id is None:
        return "none", 0, None, None, None
    _, _, cause, time, cause_work, thread, before, _ = known.host[resume_id]
    return cause, time, thread, cause_work, before


def work_ns(trace: Trace, node: int, start: int, end: int) -> int:
    """Time between, less the waits of the node's thread."""
    thread = trace.nodes[node][4]
    waited: int = sum(
        max(min(end, over) - max(start, begin), 0)
        for _, of_thread, begin, over in trace.outer_calls.values()
        if of_thread == thread
    )
    return end - start - waited


def test_chains_equal_a_loop(traces: tracedb.Database) -> None:
    """They equal those of a loop that walks back lane by lane."""
    count = 0
    for trace_id in trace_ids(traces):
        trace, known = read(traces, trace_id), causes(traces, trace_id)
        for step, _, start, end in trace.steps[:2]:
            query = f"FROM question.longest_chain({step}, 99)"
            answer = defaultdict(list)
            for rank, total, _, _, node, _, leads, at, over, work in rows(
                traces, query
            ):
                answer[rank].append((node, at, over, leads))
                assert work == work_ns(trace, node, at, over)
                assert total >= work
            expected = chains(trace, known, start, end)
            assert [answer[rank + 1] for rank in range(len(expected))] == expected
            assert len([c for c in answer.values() if c]) == len(
                [c for c in expected if c]
            )
            count += len(expected)
    assert count > 60


def test_the_first_chains_do_not_depend_on_k(traces: tracedb.Database) -> None:
    """The first k chains are the same for any k, with ever earlier ends."""
    for (step,) in rows(traces, "SELECT step_id FROM staging.step"):
        every = rows(traces, f"FROM question.longest_chain({step}, 99)")
        two = rows(traces, f"FROM question.longest_chain({step}, 2)")
        assert two == [row for row in every if row[0] <= 2]
        assert [row[2] for row in every] == sorted((r[2] for r in every), reverse=True)
