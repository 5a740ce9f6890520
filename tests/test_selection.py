"""What edits select equals what a plain loop over rows selects, for each field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odd_traces
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selecting import Rows, differences, drawn, found, made, matches
from support import SAMPLES, Ingested

import tracedb
from tracedb import Edit
from tracedb.synthetic import Gap, Launch, Op, Program, Rank, Thread, execute, step
from tracedb.synthetic.program import seeded
from tracedb.whatif.selection import TEXTS, used


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
    {"target": "wait", "type": "stream", "awaited_stream": 7},
    {"target": "wait", "type": "stream", "stream": 40, "awaited": "*gemm*"},
    {"target": "wait", "type": "stream", "awaited_op": "aten::*", "instance": 1},
    {"target": "delay", "type": "stream_wait", "awaited_device": 0},
    {"target": "delay", "type": "return"},
    {"target": "delay", "type": "launch", "op": "aten::addmm", "instance": 2},
    {"target": "delay", "type": "launch", "instance": "2..3"},
    {"target": "delay", "type": "stream", "stream": 20, "step": 2},
    {"target": "delay", "type": "stream_wait", "thread": "main"},
    {"target": "delay", "type": "thread", "rank": 1},
    {"target": "delay", "phase": "backward"},
    {"target": "gpu", "family": "gemm*", "step": 2},
]


def test_each_field_selects_like_a_loop(
    database: tracedb.Database, plain: Rows
) -> None:
    """Spans, their parts and GPU work are equal; some but not all are selected."""
    edits = [made(str(number), fields) for number, fields in enumerate(FIELDS)]
    assert differences(database, edits, plain) == []
    for edit in edits:
        assert plain.chosen_spans(edit) or plain.chosen_works(edit), edit


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
            tracedb.whatif.scenario.check([edit])
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
    assert differences(database, edits, plain) == []


@pytest.mark.parametrize("change", ["no calls", "modules"])
def test_odd_traces_select_like_a_loop(change: str, tmp_path: Path) -> None:
    """Random edits; `python tests/selecting.py 0 9` makes more of them."""
    with tracedb.open() as opened:
        opened.ingest(odd_traces.write(tmp_path, 4, change))
        rows = Rows(opened)
        edits = drawn(rows, seeded(change), 40)
        assert differences(opened, edits, rows) == []
        hits = [
            bool(spans or works) for spans, works, _ in found(opened, edits).values()
        ]
    assert sum(hits) > len(hits) / 4


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
    assert differences(database, edits, plain) == []
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
    on_stream = {w["gpu_op_id"] for w in plain.works if w["stream"] == 20}
    assert {work for _, work in queried[1]} == on_stream


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
    ({"target": "host", "op": "forward"}, '(for a range: annotation="## forward ##")'),
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
    ({"target": "host", "phase": "data_loading"}, "batches is host:wait_data"),
    ({"target": "wait", "type": "rank"}, "use 'host ideal' and 'gpu ideal'"),
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


def test_names_that_are_cut_alike_are_listed_once(tmp_path: Path) -> None:
    """Instances of a template differ where a long name is cut."""
    long = [Op(f"long_{'a' * 60}{n}{'b' * 60}") for n in range(5)]
    program = Program((Rank((Thread("main", (step(1, *long, Op("longer")),)),)),))
    path = execute(program)[0].write(tmp_path / "trace.json")
    with tracedb.open() as database:
        database.ingest([path])
        with pytest.raises(tracedb.ScenarioError) as raised:
            database.scenarios([made("s", {"target": "host", "name": "long"})])
    cut = f"long_{'a' * 25}…{'b' * 29}"
    assert f"; 6 contain it: {cut}, longer (" in str(raised.value)


def test_phases_that_do_not_occur(tmp_path: Path) -> None:
    """The line has those that do."""
    program = Program((Rank((Thread("main", (step(1, Op("aten::a")),)),)),))
    path = execute(program)[0].write(tmp_path / "trace.json")
    edit = made("s", {"target": "host", "phase": "backward"})
    with tracedb.open() as database:
        database.ingest([path])
        with pytest.raises(tracedb.ScenarioError, match=r"available: phase forward$"):
            database.scenarios([edit])


@pytest.mark.parametrize("selection", [{}, {"type": "T2"}])
def test_ops_within_others_have_no_host_time_of_their_own(
    selection: dict[str, Any], tmp_path: Path
) -> None:
    """Host time is named by top-level ops; the line has the field for others."""
    outer = Op("aten::outer", (Gap(1_000), Op("aten::inner", (Gap(5_000),))))
    program = Program((Rank((Thread("main", (step(1, outer),)),)),))
    path = execute(program)[0].write(tmp_path / "trace.json")
    edit = made("s", {"target": "host", "name": "aten::inner", **selection})
    with tracedb.open() as database:
        database.ingest([path])
        with pytest.raises(tracedb.ScenarioError) as raised:
            database.scenarios([edit])
        assert str(raised.value).endswith(
            "it runs only within other ops (for an op: op=aten::inner)"
        )
        of_op = made("s", {"target": "host", "op": "aten::inner"})
        assert database.scenarios([of_op]).height


@pytest.mark.parametrize(
    ("selection", "hint"),
    [
        ({"name": "*reduction*"}, "(for a family of kernels: family=*reduction*)"),
        ({"family": "softmax"}, "{} kernels is unknown"),
    ],
)
def test_names_and_families_hint_at_each_other(
    ingested: Ingested, selection: dict[str, str], hint: str
) -> None:
    """A name of a family that no kernel has, and a family beside unknown ones."""
    edit = made("s", {"target": "gpu", **selection})
    path = ingested(SAMPLES / "generated_gpu")
    with tracedb.open(path, read_only=True) as database:
        unknown = database.sql(
            "FROM staging.gpu_op ANTI JOIN prediction.kernel_problem USING (gpu_op_id) "
            "WHERE kind = 'kernel'"
        )
        with pytest.raises(tracedb.ScenarioError) as raised:
            database.scenarios([edit])
    assert hint.format(unknown.height) in str(raised.value)


def test_work_without_ops_has_no_family(tmp_path: Path) -> None:
    """Replays of CUDA graphs have none; the line says what to do."""
    body = Launch(7, 5_000, "sgemm"), Gap(10_000)
    program = Program((Rank((Thread("main", (step(1, *body),)),)),))
    path = execute(program)[0].write(tmp_path / "trace.json")
    edit = made("s", {"target": "gpu", "family": "gemm*"})
    with tracedb.open() as database:
        database.ingest([path])
        with pytest.raises(tracedb.ScenarioError) as raised:
            database.scenarios([edit])
    assert "no GPU work with family gemm* in this database; a" in str(raised.value)
    assert "record_shapes=True" in str(raised.value)
    assert "\n" not in str(raised.value)


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
