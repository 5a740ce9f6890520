"""Every file under `sql/` keeps the promises that its readers rely on."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.resources import files
from itertools import product
from typing import Any
from unittest.mock import patch

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from support import CORPUS, ROOT, SAMPLES, DatabaseOf, Ingested, rows

import tracedb
from tracedb import catalog
from tracedb.catalog import LAYERS, Relation
from tracedb.cli.main import tracedb as command
from tracedb.encode import encode
from tracedb.public import by_subject

UNITS = {
    "_ns": "[ns]",
    "_bytes": "[B]",
    "_share": "[1]",
    "bytes_per_second": "[B/s]",
    "flops_per_second": "[FLOP/s]",
    "clocks_per_second": "[1/s]",
    "flops": "[FLOP]",
    "flops_per_byte": "[FLOP/B]",
}
COMPUTED = [r for r in catalog.relations() if r.is_computed_on_ingest]
QUESTIONS = [r for r in catalog.relations() if r.layer == "question" and not r.is_macro]
MACROS = [r for r in catalog.relations() if r.is_macro]
DLRM8 = CORPUS / "param" / "dlrm8"
STORED = "SELECT schema_name || '.' || table_name FROM duckdb_tables()"
LARGEST_RELATION = 180
MOST_ROWS = 150
"""Of an answer that is kept: what a person reviews."""

LARGEST_REPETITION = 6
"""Columns and constants of the largest rule that two relations may each state."""

Described = dict[str, list[tuple[str, str]]]

each_relation = pytest.mark.parametrize(
    "relation", catalog.relations(), ids=lambda relation: relation.full_name
)

each_function = pytest.mark.parametrize(
    "function", catalog.functions(), ids=lambda function: function.full_name
)
each_declared = pytest.mark.parametrize(
    "relation", catalog.declared(), ids=lambda relation: relation.full_name
)


@pytest.fixture(scope="module")
def samples(
    tmp_path_factory: pytest.TempPathFactory, ingested: Ingested
) -> Iterator[tracedb.Database]:
    """All sample traces in one database, and four ranks of a GPU run where they are."""
    path = tmp_path_factory.mktemp("samples") / "run.duckdb"
    if DLRM8.exists():
        shutil.copy(ingested(DLRM8), path)
    with tracedb.open(path) as opened:
        opened.ingest([SAMPLES])
        yield opened


def sources(relation: Relation, database: tracedb.Database) -> list[str]:
    """What to query a relation by: its name, of a macro with values of each kind."""
    nodes = """
        SELECT min(node_id) FROM graph.node GROUP BY kind
        UNION SELECT min(cause_gpu_op_id) FROM graph.host_cause
        UNION SELECT min(after_node_id) FROM graph.thread_wait
    """
    values = {
        "node": [node for (node,) in rows(database, nodes)],
        "step": [s for (s,) in rows(database, "SELECT step_id FROM staging.step")],
        "k": [1, 9],
        "chunks": [1, 2],
        "a": [1],
        "b": [1, 2],
    }
    chosen = product(*(values[name] for name in relation.parameters))
    return [relation.full_name + relation.call(*arguments) for arguments in chosen]


@pytest.fixture(scope="module")
def described(samples: tracedb.Database) -> Described:
    """The columns of every relation, with their types."""
    return catalog.described_all(samples.connection)


@each_relation
def test_every_column_is_documented(relation: Relation, described: Described) -> None:
    """The documented columns are the columns, in order."""
    names = [name for name, _ in described[relation.full_name]]
    assert list(relation.columns) == names
    assert all(relation.columns.values())


@pytest.mark.parametrize("relation", MACROS, ids=lambda relation: relation.full_name)
def test_every_parameter_is_documented(
    relation: Relation, samples: tracedb.Database
) -> None:
    """The documented parameters are the parameters, in order."""
    layer, name = relation.full_name.split(".")
    declared = f"""
        SELECT parameters FROM duckdb_functions()
        WHERE schema_name = '{layer}' AND function_name = '{name}'
    """
    assert rows(samples, declared) == [(list(relation.parameters),)]
    assert relation.parameters
    assert all(relation.parameters.values())


@each_function
def test_every_function_is_documented(
    function: Relation, samples: tracedb.Database
) -> None:
    """With its parameters, in order, and the unit of what it gives."""
    layer, name = function.full_name.split(".")
    declared = f"""
        SELECT parameters, comment FROM duckdb_functions()
        WHERE schema_name = '{layer}' AND function_name = '{name}'
    """
    ((parameters, comment),) = rows(samples, declared)
    assert parameters == list(function.parameters)
    assert all(function.parameters.values())
    assert comment.startswith(function.comment)
    documented = {name: function.doc, **function.parameters}
    assert_units(documented)


@each_function
def test_a_function_is_a_rule_of_several(function: Relation) -> None:
    """What one relation alone needs to know stands there."""
    users = [one for one in catalog.declared() if function.full_name in one.reads]
    assert len(users) > 1


def test_no_rule_is_written_twice() -> None:
    """What two relations say alike, with constants in it, is a function of both."""
    found: dict[str, set[str]] = {}
    for relation in catalog.relations():
        if relation.query:
            for rule in rules(tree_of(relation)):
                found.setdefault(rule, set()).add(relation.full_name)
    assert [names for names in found.values() if len(names) > 1] == []


def rules(tree: Any) -> Iterator[str]:  # noqa: ANN401 (JSON)
    """Expressions of a query that are large, and have constants: in one form each."""
    if isinstance(tree, dict):
        if tree.get("class"):
            rule = json.dumps(bare(tree))
            constants, columns = rule.count('"="'), rule.count('"#"')
            if constants and constants + columns > LARGEST_REPETITION:
                yield rule
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from rules(part)


def bare(tree: Any) -> Any:  # noqa: ANN401 (JSON)
    """An expression without places and aliases; columns without their tables."""
    if isinstance(tree, list):
        return [bare(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "COLUMN_REF":
        return {"#": tree["column_names"][-1]}
    if tree.get("class") == "CONSTANT":
        return {"=": {k: v for k, v in tree.items() if "location" not in k}}
    return {
        name: bare(part)
        for name, part in tree.items()
        if name != "alias" and not name.startswith("query_location")
    }


def tree_of(relation: Relation) -> Any:  # noqa: ANN401 (JSON)
    """The query as DuckDB's own parser has it."""
    return json.loads(rows_of("SELECT json_serialize_sql(?)", [relation.query])[0][0])


@each_relation
def test_what_a_relation_reads_is_what_duckdb_finds(relation: Relation) -> None:
    """The catalog looks for names in the text; DuckDB's parser is the judge."""
    if not relation.query:
        assert not relation.reads
        return
    tree = json.dumps(tree_of(relation), separators=(",", ":"))
    tables = re.findall(r'"schema_name":"(\w+)",[^{}]*?"table_name":"(\w+)"', tree)
    macros = re.findall(r'"function_name":"(\w+)","schema":"(\w+)"', tree)
    tables += [(schema, name) for name, schema in macros]
    # What a recursion has found so far is no relation.
    found = {f"{of}.{name}" for of, name in tables if of != "recurring"}
    assert relation.reads == found


def rows_of(query: str, values: list[str]) -> list[tuple[Any, ...]]:
    """Rows of a query outside of any database."""
    return duckdb.execute(query, values).fetchall()


@each_relation
def test_grain_and_key_are_stated(relation: Relation) -> None:
    """A reader learns what a row is, and what tells rows apart, before the query."""
    assert "One row per " in relation.doc
    assert set(relation.key) <= set(relation.columns)


@each_relation
def test_key_is_unique(relation: Relation, samples: tracedb.Database) -> None:
    """A relation has one row for each value of its key."""
    key = ", ".join(relation.key)
    for source in sources(relation, samples):
        repeated = f"SELECT {key} FROM {source} GROUP BY ALL HAVING count(*) > 1"
        assert rows(samples, f"{repeated} LIMIT 3") == [], source


@each_relation
def test_units_agree_with_names(relation: Relation) -> None:
    """A unit stands in the name of a column and in its documentation, or in neither."""
    assert_units(relation.columns)


def assert_units(documented: dict[str, str]) -> None:
    """Names and what documents them have the same units."""
    for name, doc in documented.items():
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), None)
        stated = re.match(r"\[[^\]]+\]", doc)
        assert (stated[0] if stated else None) == unit, name


@each_relation
def test_times_are_integers(relation: Relation, described: Described) -> None:
    """Times and sizes are BIGINT, whatever was summed."""
    exact = [
        (name, type_)
        for name, type_ in described[relation.full_name]
        if name.endswith(("_ns", "_bytes"))
    ]
    assert [column for column in exact if column[1] != "BIGINT"] == []


@each_declared
def test_layers_read_downwards(relation: Relation) -> None:
    """A relation reads its own layer and those before it; only staging reads raw."""
    allowed = set(LAYERS[: LAYERS.index(relation.layer) + 1])
    if relation.layer != "staging":
        allowed -= {"raw"}
    assert {name.split(".")[0] for name in relation.reads} <= allowed


@each_declared
def test_file_says_where_it_is(relation: Relation) -> None:
    """`graph.edge` is `sql/30_graph/edge.sql`."""
    assert list((ROOT / "sql").glob(f"*_{relation.layer}/{relation.name}.sql"))


@each_relation
def test_a_relation_can_be_read_at_a_sitting(relation: Relation) -> None:
    """No file grows beyond a few screens."""
    assert len(relation.statement.splitlines()) <= LARGEST_RELATION


@pytest.mark.parametrize("relation", COMPUTED, ids=lambda relation: relation.full_name)
def test_stored_relations_are_computed_by_trace(relation: Relation) -> None:
    """What is stored on ingest can be computed for one trace alone."""
    assert "trace_id" in relation.columns


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.full_name)
def test_a_trace_comes_with_its_rank(question: Relation) -> None:
    """People know ranks; the number of a trace says nothing outside the database."""
    if "trace_id" in question.columns and "grouping" not in question.columns:
        assert "rank" in question.columns


def test_what_needs_edits_is_empty_without(samples: tracedb.Database) -> None:
    """What is not computed at ingest has no rows there, were it computed."""
    assert {r.full_name for r in COMPUTED if r.needs_edits} >= catalog.chosen_by_edits()
    samples.connection.execute("SET VARIABLE computing = [1, 2]")
    for relation in COMPUTED:
        if relation.needs_edits:
            assert rows(samples, relation.query) == [], relation.full_name
    samples.connection.execute("RESET VARIABLE computing")


ORDER = "from tracedb import catalog; print([r.full_name for r in catalog.declared()])"


def test_relations_have_one_order() -> None:
    """Whatever the seed of hashes is: files of equal content are equal."""
    orders = {
        subprocess.run(  # noqa: S603 (our own words)
            [sys.executable, "-c", ORDER],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in "123"
    }
    assert len(orders) == 1


def test_folders_are_the_layers() -> None:
    """The folders of `sql/`, in the order of their numbers, are the layers."""
    folders = sorted(
        e.name for e in files("tracedb.sql").iterdir() if e.name[:2].isdigit()
    )
    assert [name.split("_", 1)[1] for name in folders] == list(LAYERS)


NAMED = {
    name
    for top in ("tracedb", "cli")
    for path in (ROOT / top).rglob("*.py")
    for name in re.findall(r"(?=\b(\w+\.\w+)\b)", path.read_text())
}
"""What Python may mean by a relation."""


def test_nothing_is_unread() -> None:
    """Every relation is public or read by Python, or one that is reads it."""
    live = {
        r.full_name for r in catalog.declared() if r.is_public or r.full_name in NAMED
    }
    for relation in reversed(catalog.declared()):
        if relation.full_name in live:
            live |= relation.reads
    assert {r.full_name for r in catalog.declared()} - live == set()


def test_public_relations_are_listed_once() -> None:
    """And are there: a name that is renamed or deleted leaves the list."""
    listed = [name for names in by_subject().values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) <= {r.full_name for r in catalog.relations()}


def test_questions_are_public() -> None:
    """What `tracedb ask` answers is what users rely on."""
    questions = [r for r in catalog.relations() if r.layer == "question"]
    assert [r.full_name for r in questions if not r.is_public] == []


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/questions.md"])
def test_pages_for_users_name_public_relations(page: str) -> None:
    """An example that is copied from there keeps working."""
    internal = {r.full_name for r in catalog.relations() if not r.is_public}
    named = re.findall(r"\b\w+\.\w+\b", (ROOT / page).read_text())
    assert internal & {*named} == set()


def test_comments_reach_the_database() -> None:
    """Any DuckDB client shows the documentation."""
    missing = """
        SELECT schema_name, table_name, column_name FROM duckdb_columns()
        WHERE NOT internal AND comment IS NULL
    """
    with tracedb.open() as database:
        assert rows(database, missing) == []


@pytest.mark.parametrize("relation", MACROS, ids=lambda relation: relation.full_name)
def test_comments_of_macros_reach_the_database(
    relation: Relation, samples: tracedb.Database
) -> None:
    """The comment on a macro tells its parameters and columns, too."""
    layer, name = relation.full_name.split(".")
    query = f"""
        SELECT comment FROM duckdb_functions()
        WHERE schema_name = '{layer}' AND function_name = '{name}'
    """
    ((comment,),) = rows(samples, query)
    documented = {**relation.parameters, **relation.columns}.items()
    assert comment.startswith(relation.comment)
    assert all(f"{name}: {doc}" in comment for name, doc in documented)


def test_schema_page_is_current(samples: tracedb.Database) -> None:
    """`docs/schema.md` is what the SQL says."""
    page = catalog.schema_page(samples.connection)
    assert (ROOT / "docs" / "schema.md").read_text() == page, "run `make docs`"


@pytest.fixture(scope="module", params=["dlrm_cpu", "ddp_gloo", "generated_gpu"])
def sample(
    request: pytest.FixtureRequest, ingested: Ingested
) -> Iterator[tuple[str, tracedb.Database]]:
    """The name of each sample, and a database of it alone."""
    path = ingested(SAMPLES / request.param)
    with tracedb.open(path, read_only=True) as database:
        yield request.param, database


each_question = pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda relation: relation.name
)


@each_question
def test_answers(
    question: Relation,
    sample: tuple[str, tracedb.Database],
    request: pytest.FixtureRequest,
) -> None:
    """Each question has the answer that is kept beside the sample trace.

    It is asked by the command, which opens the database; here that is open.
    """
    name, database = sample
    words = ["ask", "run.duckdb", question.name, "--format", "parquet"]
    with patch("tracedb.open", lambda *_, **__: nullcontext(database)):
        done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.stderr
    rows = pl.read_parquet(done.stdout_bytes)
    compare_with_kept(name, question.name, rows, request)
    header, *lines = csv.reader(encode(rows, "csv").decode().splitlines(keepends=True))
    assert header == list(question.columns)
    assert len(lines) == rows.height


def compare_with_kept(
    sample: str, name: str, rows: pl.DataFrame, request: pytest.FixtureRequest
) -> None:
    """Compare an answer with the kept one, or keep it where that is asked for."""
    golden = SAMPLES / sample / "answers" / f"{name}.csv"
    answer = rows.head(MOST_ROWS).write_csv(float_precision=9)
    if request.config.getoption("--update-answers"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(answer)
    assert answer == golden.read_text(), "review with --update-answers and git diff"


OF_A_LOOP = [
    *("module", "module_class", "module_tree", "data_loading"),
    *("compile_time", "compiled_region", "host_gap"),
    *("memory", "memory_by_step", "memory_at_peak"),
]
"""Questions that need stacks, allocations or a loader, which other samples lack."""


@pytest.mark.parametrize("question", OF_A_LOOP)
def test_answers_of_a_loop(
    question: str, database_of: DatabaseOf, request: pytest.FixtureRequest
) -> None:
    """The same of a sample with Python stacks, allocations and compiled code."""
    rows = database_of(SAMPLES / "loop_cpu").ask(question)
    compare_with_kept("loop_cpu", question, rows, request)


@pytest.fixture(scope="module")
def simulated(sample: tuple[str, tracedb.Database]) -> Iterator[tracedb.Database]:
    """The stored methods' simulation of each sample."""
    with sample[1].simulate(["replay", "statistics", "full"]) as asked:
        yield asked


@pytest.mark.parametrize("name", ["critical_path", "path_interval", "idle_cause"])
def test_answers_of_methods(
    name: str,
    sample: tuple[str, tracedb.Database],
    simulated: tracedb.Database,
    request: pytest.FixtureRequest,
) -> None:
    """Beside what was measured the stored methods answer, where they are asked for."""
    trace, database = sample
    rows = simulated.ask(name)
    measured = rows["method"] == "measured"
    assert rows.filter(measured).equals(database.ask(name))
    predicted = rows.filter(~measured)
    compare_with_kept(trace, f"{name}.predicted", predicted, request)


def test_the_same_rows_twice(
    database: tracedb.Database, database_of: DatabaseOf
) -> None:
    """Two ingests of the same files give the same rows in every relation.

    Of views those are compared that no other relation reads: one that reads others has
    their rows. What questions answer is kept beside the samples.
    """
    trace = SAMPLES / "generated_gpu"
    database.ingest([trace])
    read = set().union(*(relation.reads for relation in catalog.declared()))
    is_stored = {name for (name,) in rows(database, STORED)}
    compared = [
        relation.full_name
        for relation in catalog.relations()
        if relation.full_name in is_stored
        or not (relation.full_name in read or relation.layer == "question")
    ]
    assert len(compared) > len(COMPUTED)
    other = database_of(trace)
    for name in compared:
        if name != "raw.event":
            assert database.relation(name).equals(other.relation(name))
