"""What edits select equals what a plain loop over rows selects, for each field."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SAMPLES, Ingested

import tracedb
from tracedb import Edit
from tracedb.selection import TEXTS, is_expression, ranges, used
from tracedb.synthetic import Gap, Op, Program, Rank, Thread, execute, step

Row = dict[str, Any]
Times = list[tuple[int, int]]
GPU_WAITS = ("wait_stream", "wait_device", "wait_event", "wait_copy", "wait_queue")
SPAN_TYPES: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("host", None): ("T1", "T2", "T3", "T4", "T5"),
    ("op", None): ("T2", "T3", "T4", "T5", "wait_data", *GPU_WAITS),
    ("wait", None): (*GPU_WAITS, "wait_thread"),
    ("wait", "host"): GPU_WAITS,
    ("wait", "thread"): ("wait_thread",),
    ("delay", None): (*GPU_WAITS, "wait_thread"),
    ("delay", "return"): GPU_WAITS,
    ("delay", "thread"): ("wait_thread",),
}


def matches(pattern: str, text: str | None) -> bool:
    """Whether a text matches a pattern."""
    if text is None:
        return False
    if is_expression(pattern):
        return re.search(pattern[1:-1], text) is not None
    literal = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(literal, text, re.DOTALL) is not None


def among(numbers: int | str | None, number: int | None) -> bool:
    """Whether a number is among the selected ones."""
    return numbers is None or (
        number is not None and any(a <= number <= b for a, b in ranges(numbers))
    )


def overlap(times: list[Times], start: int, end: int) -> int:
    """How much of a span is within the intersection of several lists of times."""
    cuts = {start, end}
    for chosen in times:
        cuts |= {at for pair in chosen for at in pair if start < at < end}
    ordered = sorted(cuts)
    return sum(
        after - at
        for at, after in pairwise(ordered)
        if all(any(a <= at < b for a, b in chosen) for chosen in times)
    )


class Rows:
    """A database's rows, and what edits select from them, by a loop."""

    def __init__(self, database: tracedb.Database) -> None:
        """Read all rows."""
        self.database = database
        self._times: dict[tuple[Edit, int], dict[str, Times]] = {}

    def _read(self, query: str) -> list[Row]:
        return list(self.database.sql(query).iter_rows(named=True))

    @cached_property
    def ops(self) -> list[Row]:
        """Ops other than user ranges, outer ones first."""
        return self._read(
            "SELECT op_id AS node, * FROM staging.op WHERE NOT is_annotation "
            "ORDER BY start_ns, end_ns DESC, op_id"
        )

    @cached_property
    def spans(self) -> list[Row]:
        """Spans of host time with their names; idle spans as in the partition."""
        return self._read(
            """
            SELECT
                span.* EXCLUDE (type),
                CASE
                    WHEN span.type <> 'T1' OR interval.type IS NULL
                        AND step.step_id IS NULL
                        AND span.position BETWEEN first AND last
                        THEN span.type
                    ELSE coalesce(interval.type, 'idle')
                END AS type,
                CASE
                    WHEN span.type = 'T4' OR span.type LIKE 'wait%' AND call_id > 0
                        THEN call.name
                    ELSE op.name
                END AS name
            FROM overhead.timeline AS span
            INNER JOIN (
                SELECT
                    thread_id,
                    min(position) FILTER (op_id > 0 OR call_id > 0) AS first,
                    max(position) FILTER (op_id > 0 OR call_id > 0) AS last
                FROM overhead.timeline GROUP BY ALL
            ) USING (thread_id)
            LEFT JOIN staging.op AS op USING (op_id)
            LEFT JOIN staging.call AS call USING (call_id)
            LEFT JOIN staging.step AS step
                ON span.trace_id = step.trace_id
                AND span.start_ns BETWEEN step.start_ns AND step.end_ns - 1
            LEFT JOIN overhead.interval AS interval
                ON span.thread_id = interval.thread_id
                AND span.position = interval.position
            ORDER BY span.thread_id, span.position
            """
        )

    @cached_property
    def works(self) -> list[Row]:
        """GPU work, and when and where it was launched."""
        return self._read(
            "SELECT work.*, call.thread_id, call.start_ns AS at_ns, process_group, "
            "wait.gpu_op_id IS NOT NULL AS waits, "
            "CASE WHEN is_collective THEN 'collective' ELSE work.kind END AS type "
            "FROM staging.gpu_op AS work "
            "LEFT JOIN staging.call AS call USING (call_id) "
            "LEFT JOIN staging.collective AS collective ON work.gpu_op_id = node_id "
            "LEFT JOIN graph.stream_wait AS wait USING (gpu_op_id) ORDER BY gpu_op_id"
        )

    @cached_property
    def threads(self) -> dict[int, Row]:
        """The host threads."""
        found = self._read(
            "SELECT thread.*, rank FROM staging.thread AS thread "
            "INNER JOIN staging.trace USING (trace_id)"
        )
        return {row["thread_id"]: row for row in found}

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The rank of each trace."""
        return dict(
            self.database.sql("SELECT trace_id, rank FROM staging.trace").rows()
        )

    @cached_property
    def annotations(self) -> list[Row]:
        """The user ranges."""
        return self._read("SELECT annotation_id AS node, * FROM staging.annotation")

    @cached_property
    def steps(self) -> list[Row]:
        """The steps."""
        return self._read("FROM staging.step")

    @cached_property
    def phases(self) -> list[Row]:
        """The phase of each top-level event."""
        return self._read("FROM graph.phase")

    @cached_property
    def nodes(self) -> list[Row]:
        """The nodes."""
        return self._read("SELECT node_id AS node, * FROM graph.node")

    def times(self, edit: Edit, thread: int) -> dict[str, Times]:
        """The times on a thread at which each of an edit's fields holds (cached)."""
        if (edit, thread) not in self._times:
            self._times[edit, thread] = self._times_of(edit, thread)
        return self._times[edit, thread]

    def _times_of(self, edit: Edit, thread: int) -> dict[str, Times]:
        row = self.threads[thread]

        def on(rows: list[Row], chosen: Callable[[Row], bool]) -> Times:
            here = [r for r in rows if r["thread_id"] == thread and chosen(r)]
            return [(r["start_ns"], r["end_ns"]) for r in here]

        found: dict[str, Times] = {}
        if edit.annotation is not None:
            found["annotation"] = on(
                self.annotations, lambda r: matches(str(edit.annotation), r["name"])
            )
        if edit.phase is not None:
            found["phase"] = on(self.phases, lambda r: r["phase"] == edit.phase)
        if edit.node is not None:
            found["node"] = on(self.nodes, lambda r: among(edit.node, r["node"]))
        if edit.step is not None:
            found["step"] = [
                (s["start_ns"], s["end_ns"])
                for s in self.steps
                if s["trace_id"] == row["trace_id"] and among(edit.step, s["step"])
            ]
        if edit.thread is not None:
            texts = (row["role"], row["name"], str(row["tid"]))
            is_it = any(matches(edit.thread, text) for text in texts)
            found["thread"] = [(-(10**18), 10**18)] if is_it else []
        return found

    def chosen_ops(self, edit: Edit) -> list[Row]:
        """The outermost ops that an edit names."""
        pattern = edit.name if edit.target == "op" else edit.op
        found: list[Row] = []
        until: dict[int, int] = {}
        for op in self.ops:
            thread = op["thread_id"]
            times = self.times(edit, thread).values()
            if (
                (pattern is None or matches(pattern, op["name"]))
                and (edit.shape is None or matches(edit.shape, op["input_dims"]))
                and among(edit.rank, self.ranks[op["trace_id"]])
                and all(any(a <= op["start_ns"] < b for a, b in t) for t in times)
                and (edit.part or op["start_ns"] >= until.get(thread, 0))
            ):
                until[thread] = op["end_ns"]
                found.append(op)
        return self.instances(edit, found, lambda op: (op["start_ns"], op["op_id"]))

    def instances(
        self, edit: Edit, found: list[Row], key: Callable[[Row], tuple[int, int]]
    ) -> list[Row]:
        """Those whose ordinal in their step is selected."""
        if edit.instance is None:
            return found
        groups: dict[tuple[int, int | None], list[Row]] = {}
        for row in found:
            at = row.get("at_ns") or row["start_ns"]
            step = next(
                (
                    s["step_id"]
                    for s in self.steps
                    if s["trace_id"] == row["trace_id"]
                    and s["start_ns"] <= at < s["end_ns"]
                ),
                None,
            )
            groups.setdefault((row["trace_id"], step), []).append(row)
        return [
            row
            for rows in groups.values()
            for number, row in enumerate(sorted(rows, key=key), 1)
            if among(edit.instance, number)
        ]

    def all_times(self, edit: Edit, thread: int, ops: list[Row]) -> list[Times]:
        """The times at which all of an edit's fields hold."""
        fields = list(self.times(edit, thread).values()) if edit.target != "op" else []
        if edit.target == "op" or edit.op is not None or edit.shape is not None:
            own = [op for op in ops if op["thread_id"] == thread]
            fields.append([time for op in own for time in self.times_in(edit, op)])
        return fields

    def times_in(self, edit: Edit, op: Row) -> Times:
        """The time of an op, or its time outside inner ops."""
        found = [(op["start_ns"], op["end_ns"])]
        for inner in self.within[op["op_id"]] if edit.part else ():
            start, end = inner["start_ns"], inner["end_ns"]
            found = [
                piece
                for a, b in found
                for piece in ((a, min(b, start)), (max(a, end), b))
                if piece[0] < piece[1]
            ]
        return found

    @cached_property
    def within(self) -> dict[int, list[Row]]:
        """All ops within each op, at any depth."""
        parents = dict(
            self.database.sql("SELECT op_id, parent_op_id FROM staging.op").rows()
        )
        found = defaultdict(list)
        for op in self.ops:
            above = parents[op["op_id"]]
            while above is not None:
                found[above].append(op)
                above = parents[above]
        return found

    def chosen_spans(self, edit: Edit) -> dict[tuple[int, int], int]:
        """The spans that an edit selects, and how much of each."""
        types = SPAN_TYPES.get((edit.target, edit.type), (str(edit.type),))
        ops = self.chosen_ops(edit)
        found, chosen = {}, []
        for span in self.spans:
            name = edit.name if edit.target != "op" else None
            if (
                span["type"] not in types
                or (edit.target in ("gpu", "profiler"))
                or not among(edit.rank, self.ranks[span["trace_id"]])
                or (name is not None and not matches(name, span["name"]))
            ):
                continue
            times = self.all_times(edit, span["thread_id"], ops)
            part = overlap(times, span["start_ns"], span["end_ns"])
            if part:
                chosen.append(span)
                found[span["thread_id"], span["position"]] = part
        if edit.op or edit.shape or edit.target == "op":
            return found
        # Spans that are calls.
        numbered = self.instances(
            edit, chosen, lambda s: (s["start_ns"], s["thread_id"])
        )
        keys = [(span["thread_id"], span["position"]) for span in numbered]
        return {key: found[key] for key in keys}

    def chosen_works(self, edit: Edit) -> set[int]:
        """GPU work selected by an edit of GPU work, ops or stream waits."""
        if edit.target == "host" or edit.type in ("host", "thread", "return"):
            return set()
        ops = self.chosen_ops(edit)
        found = [work for work in self.works if self._is_chosen(edit, work, ops)]
        if edit.op is None and edit.shape is None and edit.target != "op":
            found = self.instances(edit, found, lambda w: (w["at_ns"], w["gpu_op_id"]))
        return {work["gpu_op_id"] for work in found}

    def _is_chosen(self, edit: Edit, work: Row, ops: list[Row]) -> bool:
        is_type = {
            "gpu": edit.type in (None, work["type"]),
            "op": True,
            "wait": work["waits"],
        }
        name = edit.name if edit.target != "op" else None
        group = edit.process_group
        times = self.all_times(edit, work["thread_id"], ops)
        return (
            is_type[edit.target]
            and (name is None or matches(name, work["name"]))
            and (group is None or matches(group, work["process_group"]))
            and among(edit.rank, self.ranks[work["trace_id"]])
            and among(edit.stream, work["stream"])
            and among(edit.device, work["device"])
            and (
                (edit.node is not None and among(edit.node, work["gpu_op_id"]))
                or all(any(a <= work["at_ns"] < b for a, b in t) for t in times)
            )
        )


@pytest.fixture(scope="module")
def database(ingested: Ingested) -> Iterator[tracedb.Database]:
    """A run of two ranks with GPU work."""
    path = ingested(SAMPLES / "generated_gpu")
    with tracedb.open(path, read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(database: tracedb.Database) -> Rows:
    """The same rows, for the loop."""
    return Rows(database)


def found(
    database: tracedb.Database, edits: list[Edit]
) -> dict[str, tuple[dict[tuple[int, int], int], set[int]]]:
    """What edits select, each in its own scenario: spans and GPU work."""
    from tracedb.simulation import beside

    chosen: dict[str, tuple[dict[tuple[int, int], int], set[int]]] = {
        edit.scenario: ({}, set()) for edit in edits
    }
    with beside(database.connection, [], edits) as (cursor, _):
        for scenario, thread, position, part in cursor.execute(
            "SELECT scenario, thread_id, position, chosen_ns "
            "FROM prediction.chosen_span"
        ).fetchall():
            chosen[scenario][0][thread, position] = part
        for scenario, work in cursor.execute(
            "SELECT scenario, gpu_op_id FROM prediction.chosen_work"
        ).fetchall():
            chosen[scenario][1].add(work)
    return chosen


FIELDS: list[dict[str, Any]] = [
    {"target": "host"},
    {"target": "host", "type": "T2"},
    {"target": "host", "type": "idle"},
    {"target": "host", "type": "wait_data"},
    {"target": "host", "name": "aten::linear"},
    {"target": "host", "name": "cudaLaunch*"},
    {"target": "host", "name": "/Addmm|linear/"},
    {"target": "host", "type": "T4", "op": "aten::addmm"},
    {"target": "host", "op": "aten::t"},
    {"target": "host", "op": "aten::as_strided", "step": 2},
    {"target": "host", "op": "aten::mm", "instance": "1,3..4"},
    {"target": "host", "name": "aten::linear", "op": "aten::t"},
    {"target": "host", "op": "aten::linear", "part": "self"},
    {"target": "host", "op": "/addmm|linear|Backward/", "part": "self", "type": "T5"},
    {"target": "host", "op": "*", "part": "self", "instance": "2..9"},
    {"target": "gpu", "op": "/add|linear|Backward/", "part": "self"},
    {"target": "op", "name": "aten::*", "part": "self", "phase": "optimizer"},
    {"target": "host", "annotation": "## forward ##"},
    {"target": "host", "annotation": "Optimizer*", "type": "T1"},
    {"target": "host", "annotation": "/forward|Optimizer/", "step": "2..3"},
    {"target": "host", "phase": "backward"},
    {"target": "host", "phase": "optimizer", "rank": 1},
    {"target": "host", "step": "1,3"},
    {"target": "host", "rank": 0, "type": "T5"},
    {"target": "host", "thread": "autograd"},
    {"target": "host", "thread": "*pt_autograd*"},
    {"target": "host", "thread": "19392"},
    {"target": "host", "shape": "*8192,13*"},
    {"target": "host", "type": "T4", "instance": "2..3"},
    {"target": "gpu"},
    {"target": "gpu", "type": "memcpy"},
    {"target": "gpu", "type": "collective"},
    {"target": "gpu", "name": "*gemm*"},
    {"target": "gpu", "name": "Memcpy HtoD (Pinned -> Device)"},
    {"target": "gpu", "name": "/^ncclDevKernel_(Send|AllR)/"},
    {"target": "gpu", "op": "aten::addmm"},
    {"target": "gpu", "op": "aten::addmm", "instance": 2},
    {"target": "gpu", "op": "/Backward/", "name": "*reduce_kernel*"},
    {"target": "gpu", "stream": "20..40"},
    {"target": "gpu", "device": 1},
    {"target": "gpu", "process_group": "0 *"},
    {"target": "gpu", "step": 2, "rank": 1},
    {"target": "gpu", "phase": "optimizer"},
    {"target": "gpu", "phase": "forward", "stream": 7},
    {"target": "gpu", "annotation": "nccl:all_reduce"},
    {"target": "gpu", "thread": "autograd", "instance": "1..2"},
    {"target": "gpu", "shape": "*[8192,13]*"},
    {"target": "op", "name": "aten::linear"},
    {"target": "op", "name": "*Backward*", "step": "3"},
    {"target": "op", "name": "aten::t"},
    {"target": "op", "phase": "optimizer"},
    {"target": "op", "shape": "*8192,13*", "instance": 1},
    {"target": "wait"},
    {"target": "wait", "type": "host", "name": "*StreamSynchronize*"},
    {"target": "wait", "type": "host", "step": 2},
    {"target": "wait", "type": "thread", "rank": 0},
    {"target": "wait", "type": "stream", "stream": 7},
    {"target": "wait", "type": "stream", "name": "nccl*"},
    {"target": "delay", "type": "return"},
]


def made(scenario: str, fields: dict[str, Any]) -> Edit:
    """An edit with a selection."""
    change: dict[str, Any] = {} if fields["target"] == "wait" else {"factor": 0.5}
    return Edit(scenario=scenario, **fields, **change)


def test_each_field_selects_like_a_loop(
    database: tracedb.Database, plain: Rows
) -> None:
    """Spans, their parts and GPU work are equal; some but not all are selected."""
    edits = [made(str(number), fields) for number, fields in enumerate(FIELDS)]
    for edit, (spans, works) in zip(
        edits, found(database, edits).values(), strict=True
    ):
        assert spans == plain.chosen_spans(edit), edit
        if edit.target != "delay":
            assert works == plain.chosen_works(edit), edit
        assert spans or works, edit


NAMES: dict[str, list[int | str]] = {
    "name": ["aten::*", "*gemm*", "aten::linear", "cuda*", "/Backward|nccl/"],
    "op": ["aten::addmm", "*Backward*", "/linear|sum/"],
    "annotation": ["## forward ##", "*Optimizer*", "ProfilerStep#?"],
    "shape": ["*13*", "/^..8192/"],
    "thread": ["main", "autograd", "*0*"],
    "process_group": ["*"],
    "part": ["self"],
    "phase": ["forward", "backward", "optimizer"],
    "instance": [1, "2..5"],
    "step": [2, "1,3"],
    "rank": [0, 1],
    "stream": [7, "8..99"],
    "device": [0],
}


@st.composite
def selections(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Selections by several fields that can be combined."""
    drawn = []
    for number in range(6):
        target = draw(st.sampled_from(["host", "gpu", "op", "wait"]))
        names = draw(st.sets(st.sampled_from(sorted(NAMES)), max_size=3))
        fields: dict[str, Any] = {"target": target}
        fields |= {name: draw(st.sampled_from(NAMES[name])) for name in names}
        try:
            edit = made(str(number), fields)
            tracedb.scenario.check([edit])
        except tracedb.ScenarioError:
            continue
        drawn.append(fields)
    return drawn


@settings(max_examples=6, deadline=None)
@given(drawn=selections())
def test_combined_fields_select_the_intersection(
    drawn: list[dict[str, Any]], database: tracedb.Database, plain: Rows
) -> None:
    """An edit selects what all of its fields select."""
    edits = [made(str(number), fields) for number, fields in enumerate(drawn)]
    if not edits:
        return
    for edit, (spans, works) in zip(
        edits, found(database, edits).values(), strict=True
    ):
        if edit.instance is None or edit.op or edit.shape or edit.target == "op":
            assert spans == plain.chosen_spans(edit), edit
        assert works == plain.chosen_works(edit), edit


def test_nodes_select_themselves_and_their_contents(
    database: tracedb.Database, plain: Rows
) -> None:
    """By the id of an op, call, GPU op or range, or by a query."""
    query = "SELECT min(node_id) FROM graph.node WHERE kind = 'launch'"
    ((launch,),) = database.sql(query).rows()
    op = plain.ops[3]["op_id"]
    work = plain.works[5]["gpu_op_id"]
    range_ = next(a["node"] for a in plain.annotations if a["name"] == "## forward ##")
    edits = [
        made(f"{target} {node}", {"target": target, "node": node})
        for target, node in (
            *(("host", op), ("host", launch), ("host", range_), ("op", op)),
            *(("gpu", work), ("gpu", launch), ("gpu", range_)),
        )
    ]
    for edit, (spans, works) in zip(
        edits, found(database, edits).values(), strict=True
    ):
        assert spans == plain.chosen_spans(edit), edit
        assert works == plain.chosen_works(edit), edit
    (queried,) = found(
        database,
        [
            made(
                "query",
                {
                    "target": "gpu",
                    "sql": "SELECT gpu_op_id FROM staging.gpu_op WHERE stream = 20",
                },
            )
        ],
    ).values()
    assert queried[1] == {w["gpu_op_id"] for w in plain.works if w["stream"] == 20}


QUERIES = [
    ("DROP TABLE raw.event", "DROP is not allowed"),
    ("SELECT * FROM read_csv('x.csv')", "the table function read_csv is not allowed"),
    ("SELECT name FROM staging.op", "its first column must hold numbers of graph.node"),
    ("SELECT nothing FROM staging.op", 'Referenced column "nothing" not found'),
]


@pytest.mark.parametrize(("query", "line"), QUERIES)
def test_node_queries_are_sandboxed(
    database: tracedb.Database, query: str, line: str
) -> None:
    """Forbidden queries, errors, and results without nodes give one line."""
    edit = made("q", {"target": "gpu", "sql": query})
    with pytest.raises(tracedb.ScenarioError) as raised:
        database.scenarios([edit])
    assert str(raised.value).startswith("scenario q: sql")
    assert line in str(raised.value)


MISSES = [
    ({"target": "gpu", "op": "aten::adm"}, "nearest: aten::a"),
    (
        {"target": "gpu", "name": ".*gemm.*"},
        "write a regular expression between slashes: /.*gemm.*/",
    ),
    ({"target": "gpu", "name": "aten::addmm"}, "(for an op: op=aten::addmm)"),
    ({"target": "op", "name": "## forw*"}, '(for a range: annotation="## forw*")'),
    ({"target": "host", "op": "forward"}, "(for a range: annotation=forward)"),
    ({"target": "host", "annotation": "forward"}, "1 contains it: ## forward ##"),
    ({"target": "host", "thread": "autogrd"}, "nearest: autograd"),
    ({"target": "host", "module": "Linear"}, "there is no module"),
    ({"target": "gpu", "shape": "*[7]*"}, "nearest:"),
    ({"target": "gpu", "process_group": "1"}, " it: 0 [0, 1]"),
    ({"target": "host", "step": 9}, "available: step 1, 2, 3"),
    ({"target": "host", "rank": "5..7"}, "available: rank 0, 1"),
    ({"target": "gpu", "stream": 1}, "available: stream 7, 20, 40"),
    ({"target": "gpu", "device": 4}, "available: device 0, 1"),
    ({"target": "gpu", "stream": 40, "name": "*gemm*"}, "exists, but not together"),
    ({"target": "host", "node": 10**12}, "graph.node has no such number"),
    ({"target": "gpu", "sql": "SELECT 5 WHERE false"}, "it returns no number of graph"),
    ({"target": "host", "phase": "data_loading"}, "available: phase backward, forw"),
    ({"target": "gpu", "instance": 9999}, "in no step do so many match otherwise"),
]


@pytest.mark.parametrize(("fields", "line"), MISSES)
def test_edits_without_matches_list_similar_names(
    database: tracedb.Database, fields: dict[str, Any], line: str
) -> None:
    """The line has the wrong field, and what there is."""
    with pytest.raises(tracedb.ScenarioError) as raised:
        database.scenarios([made("s", fields)])
    assert str(raised.value).startswith("scenario s, edit 1: no ")
    assert line in str(raised.value)


def test_patterns_match_whole_names() -> None:
    """The loop's own implementation of patterns is as documented."""
    assert matches("*gemm*", "sgemm_128")
    assert not matches("gemm", "sgemm")
    assert matches("/gemm/", "sgemm_128")
    assert matches("a[1]*", "a[1]b")
    assert used(Edit(scenario="a", target="gpu", name="x", step=1)) == ["name", "step"]
    assert set(TEXTS) <= set(Edit.__struct_fields__)


ODD_NAMES = (
    "größe",
    "größen",
    "日本 op",
    'a"b',
    "it's",
    "a*b",
    "[x]",
    "back\\slash",
    "",
)
ODD_PATTERNS = (
    *("gr??e", "gr?????", "gr*e", "??*op", "日本?op", 'a"b', "a?b", "it?s", "a*b"),
    *("[x]", "[?]", "back\\slash", "back?slash", "", "*", "?", "/^gr..e$/", "/^.x.$/"),
)


def test_patterns_match_unusual_names(tmp_path: Path) -> None:
    """`?` matches a character of any number of bytes; quotes and brackets are literal.

    A pattern that equals a name matches only that name.
    """
    body = tuple(Op(name, (Gap(1_000),)) for name in ODD_NAMES)
    program = Program((Rank((Thread("main", (step(1, *body),)),)),))
    path = execute(program)[0].write(tmp_path / "trace.json")
    edits = [
        Edit(scenario=pattern or "empty", target="op", name=pattern, factor=2)
        for pattern in ODD_PATTERNS
        if any(matches(pattern, name) for name in ODD_NAMES)
    ]
    query = "SELECT scenario, text FROM prediction.edit_text ORDER BY ALL"
    with tracedb.open() as database:
        database.ingest([path])
        with database.simulate(["replay"], edits) as beside:
            found = beside.sql(query).rows()
    assert found == sorted(
        (edit.scenario, name)
        for edit in edits
        for name in ODD_NAMES
        if edit.name == name
        or (edit.name not in ODD_NAMES and matches(str(edit.name), name))
    )
