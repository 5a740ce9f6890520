"""Relations known to be empty from what they read, without running their queries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import duckdb
import pytest
from support import CORPUS, SAMPLES, DatabaseOf, needs_corpus

import tracedb
from tracedb import catalog
from tracedb.duck import one_thread, scalar
from tracedb.emptiness import Emptiness, View, note

# Queries over two tables that have rows or none, without conditions that could fail
# where there are rows: for these the rule is exact.
QUERIES = [
    "FROM t.a",
    "SELECT x + 1 AS x FROM t.a WHERE x > 0 ORDER BY x",
    "FROM t.a JOIN t.b USING (x)",
    "FROM t.a, t.b",
    "FROM t.a LEFT JOIN t.b USING (x)",
    "FROM t.a RIGHT JOIN t.b USING (x)",
    "FROM t.a FULL JOIN t.b USING (x)",
    "FROM t.a SEMI JOIN t.b USING (x)",
    "SELECT x FROM t.a ANTI JOIN t.b ON a.x = b.x + 1",
    "FROM t.a ASOF JOIN t.b ON a.x >= b.x",
    "FROM t.a ASOF LEFT JOIN t.b ON a.x >= b.x",
    "FROM t.a UNION ALL FROM t.b",
    "FROM t.a UNION FROM t.b",
    "FROM t.a UNION ALL FROM t.b UNION ALL FROM t.a",
    "FROM t.a INTERSECT FROM t.b",
    "FROM t.a EXCEPT SELECT x + 1 FROM t.b",
    "SELECT count(*) FROM t.a",
    "SELECT x FROM t.a GROUP BY x",
    "SELECT x, count(*) FROM t.a GROUP BY ALL",
    "SELECT count(*) FROM t.a GROUP BY ALL",
    "SELECT x, count(*) FROM t.a GROUP BY GROUPING SETS ((x), ())",
    "SELECT x, count(*) FROM t.a GROUP BY ROLLUP (x)",
    "SELECT 1 FROM t.a HAVING count(*) >= 0",
    "SELECT sum(x) OVER () FROM t.a",
    "SELECT row_number() OVER (ORDER BY sum(x)) FROM t.a",
    "SELECT list_sum([x]) FROM t.a",
    "SELECT geomean(x) FROM t.a",
    "SELECT t.total(x) FROM t.a",
    "SELECT t.doubled(x) FROM t.a",
    "SELECT unnest([x, x]) FROM t.a",
    "SELECT (SELECT count(*) FROM t.b) FROM t.a",
    "SELECT DISTINCT x FROM t.a",
    "SELECT x FROM t.a QUALIFY row_number() OVER () = 1",
    "WITH c AS (FROM t.a), d AS MATERIALIZED (FROM c) FROM d",
    "WITH a AS (SELECT 1) FROM a",
    "WITH c AS (FROM t.a) FROM (WITH c AS (FROM t.b) FROM c)",
    "FROM (SELECT * FROM t.a) AS s, (SELECT max(x) FROM t.b)",
    "WITH RECURSIVE c(x) AS (FROM t.a UNION SELECT x FROM c JOIN t.b USING (x)) FROM c",
    "WITH RECURSIVE c(x) USING KEY (x) AS (FROM t.a UNION FROM c WHERE x < 0) FROM c",
    "WITH RECURSIVE c(x) AS (FROM t.a UNION FROM t.b) FROM c",
    "FROM (VALUES (1)) AS v (x)",
    "SELECT 1 AS x",
    "FROM range(3)",
    "FROM t.a WHERE EXISTS (FROM t.b)",
    "FROM t.a WHERE x IN (FROM t.b) AND x > 0",
    "SELECT x FROM t.v",
    "SELECT 'FROM t.a, t.b.x -- isn''t read' AS hint FROM t.a -- isn't t.b.x",
    "SELECT y FROM t.w",
    "SELECT w.y, other.* FROM t.w, t.w AS other",
    "FROM t.w JOIN t.b ON w.y = b.x WHERE EXISTS (FROM t.v WHERE t.v.x = w.y)",
    "WITH counted AS (SELECT 1 AS y) FROM t.w LEFT JOIN counted USING (y)",
    "FROM t.m(1)",
    "FROM t.a, t.m(1)",
    "FROM (UNPIVOT t.a ON x INTO NAME n VALUE v)",
    "SELECT a.x FROM t.a LEFT JOIN t.b ON t.a.x IS NOT DISTINCT FROM t.b.x",
    "SELECT one.* FROM t.a AS one -- of t.b\nLEFT JOIN t.b AS other USING (x)",
]
# Here a condition decides, which no rule looks at.
UNDECIDED = [
    "FROM t.a WHERE x NOT IN (SELECT x + 1 FROM t.b)",
    "FROM t.a WHERE NOT EXISTS (FROM t.b WHERE x > 1)",
    "FROM t.a WHERE x IN (FROM t.b) OR x > 0",
    "FROM t.a WHERE x > ALL (SELECT x - 1 FROM t.b)",
    "FROM t.a WHERE x < 0",
    "FROM t.a JOIN t.b ON a.x > b.x",
    "SELECT (SELECT x FROM t.b LIMIT 1) FROM t.a",
]
# Required texts: for these the rule is exact ...
TEXTS = [
    "SELECT x FROM t.c WHERE kind = 'one' AND x = 1",
    "FROM t.c WHERE kind = 'one' OR kind IN ('two', 'three')",
    "SELECT 1 FROM t.c WHERE x IS NOT NULL AND kind IS NOT NULL",
    "FROM t.c WHERE regexp_full_match(kind, 'o' || 'n' || 'e')",
    "FROM t.c AS of_c WHERE of_c.kind = 'one'",
    "SELECT t.c.x FROM t.c WHERE t.c.kind = 'one'",
    "WITH n AS (FROM t.c WHERE kind = 'two') SELECT count(*) AS n FROM n GROUP BY x",
    "SELECT 1 FROM t.c, t.d WHERE c.kind = 'one' AND d.kind = 'two'",
    "SELECT 1 FROM (SELECT 1 AS x) AS b LEFT JOIN t.c USING (x) WHERE kind = 'one'",
]
# ... and for these it stays on the safe side.
OTHER_TEXTS = [
    "FROM t.c WHERE kind <> 'one'",
    "FROM t.c WHERE kind IS NULL",
    "FROM t.c WHERE x = '2'",
    "FROM t.c WHERE kind = 'one' OR x = 1",
    "FROM t.c WHERE NOT (kind = 'one')",
    "FROM t.c WHERE kind NOT IN ('one')",
    "FROM t.c WHERE kind = 'on' || x",
    "FROM t.c WHERE kind = upper('one')",
    "SELECT 1 FROM t.c LEFT JOIN t.d USING (kind) WHERE kind = 'one'",
    "WITH n AS (FROM t.c) FROM n LEFT JOIN t.d USING (kind) WHERE kind = 'one'",
    "WITH n AS (FROM t.c) FROM n NATURAL LEFT JOIN t.d WHERE kind = 'one'",
    "WITH n AS (FROM t.c) FROM n ANTI JOIN t.d ON x = 2 WHERE kind = 'one'",
    "WITH n AS (SELECT 'one' AS kind) FROM n WHERE kind = 'one'",
    "SELECT 1 FROM t.c WHERE EXISTS (FROM t.d WHERE c.kind = 'one')",
    "SELECT count(*) FROM t.c WHERE kind = 'one'",
]
# Views, the second of which has column names of its own and an outer join that its rows
# survive.
VIEWS = {
    "t.v": View(["x"], "FROM t.a -- not t.b"),
    "t.w": View(
        ["y", "n"],
        "WITH counted AS (SELECT x, count(*) AS n FROM t.b GROUP BY ALL) "
        "SELECT v.x, n FROM t.v LEFT JOIN counted USING (x)",
    ),
}


@pytest.fixture
def small() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two empty tables, a view and macros."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE SCHEMA raw; CREATE TABLE raw.database ("
            "property VARCHAR PRIMARY KEY, value VARCHAR);"
            "CREATE SCHEMA t; CREATE TABLE t.a (x BIGINT); CREATE TABLE t.b (x BIGINT);"
            "CREATE TABLE t.c (kind VARCHAR, x BIGINT);"
            "CREATE TABLE t.d (kind VARCHAR);"
            f"CREATE VIEW t.v AS {VIEWS['t.v'].query}\n;"
            f"CREATE VIEW t.w (y, n) AS {VIEWS['t.w'].query};"
            "CREATE MACRO t.total(x) AS sum(x) + 1;"
            "CREATE MACRO t.doubled(x) AS list_sum([x, x]);"
            "CREATE MACRO t.m(y) AS TABLE FROM t.b"
        )
        yield connection


def verdicts(
    connection: duckdb.DuckDBPyConnection, query: str
) -> Iterator[tuple[bool, bool]]:
    """Whether the rule says empty, and whether there are rows, for all fillings.

    Replacing empty relations by stand-ins does not change the answer.
    """
    views = {name: view.query for name, view in VIEWS.items()}
    queries = {**views, "t.m": "FROM t.b", "t.q": query}
    note(connection, queries, "of these")
    for rows in product((0, 1), repeat=2):
        for table, count in zip("ab", rows, strict=True):
            connection.execute(f"DELETE FROM t.{table}")
            connection.execute(f"INSERT INTO t.{table} SELECT 1 FROM range({count})")
        emptiness = Emptiness(connection, "of these", ["t.a", "t.b"], views=VIEWS)
        found = connection.execute(query).fetchall()
        reduced = connection.execute(emptiness.reduced(query)).fetchall()
        assert sorted(reduced, key=repr) == sorted(found, key=repr)
        yield emptiness.must_be_empty("t.q"), bool(found)


@pytest.mark.parametrize("query", QUERIES)
def test_rules_agree_with_queries(small: duckdb.DuckDBPyConnection, query: str) -> None:
    """The rule says empty exactly where the query has no rows."""
    assert all(is_empty != has_rows for is_empty, has_rows in verdicts(small, query))


@pytest.mark.parametrize("query", UNDECIDED)
def test_queries_that_may_have_rows_are_run(
    small: duckdb.DuckDBPyConnection, query: str
) -> None:
    """Where conditions decide, no query with rows is called empty."""
    assert not any(
        is_empty and has_rows for is_empty, has_rows in verdicts(small, query)
    )


def texts_told(
    connection: duckdb.DuckDBPyConnection, query: str
) -> Iterator[tuple[bool, bool]]:
    """Whether the rule says empty, and there are rows, for all sets of texts."""
    note(connection, {"t.q": query}, "of these")
    texts = ("", "(NULL, 1)", "('one', 1)", "('two', 1)", "('one', 1), ('two', 1)")
    for rows in product(texts, repeat=2):
        for table, of_table in zip("cd", rows, strict=True):
            connection.execute(f"DELETE FROM t.{table}")
            if of_table:
                columns = "kind, x" if table == "c" else "kind"
                connection.execute(
                    f"INSERT INTO t.{table} SELECT {columns} "
                    f"FROM (VALUES {of_table}) AS n (kind, x)"
                )
        emptiness = Emptiness(connection, "of these", ["t.c", "t.d"])
        yield emptiness.must_be_empty("t.q"), bool(connection.execute(query).fetchall())


@pytest.mark.parametrize("query", TEXTS)
def test_queries_for_absent_texts_are_empty(
    small: duckdb.DuckDBPyConnection, query: str
) -> None:
    """The rule says empty exactly where no row has the text."""
    assert all(is_empty != has_rows for is_empty, has_rows in texts_told(small, query))


@pytest.mark.parametrize("query", OTHER_TEXTS)
def test_unknown_texts_are_on_the_safe_side(
    small: duckdb.DuckDBPyConnection, query: str
) -> None:
    """Other conditions, or columns of other relations, are not mistaken for texts."""
    verdicts = texts_told(small, query)
    assert not any(is_empty and has_rows for is_empty, has_rows in verdicts)


def test_every_relation_without_its_empty_parts() -> None:
    """Dropping what is empty gives a valid query with the same types."""
    with tracedb.open() as database:
        connection = database.connection
        names = [one.full_name for one in catalog.relations()]
        known = catalog.what_is_empty(connection, names)
        for one in catalog.relations():
            is_question = one.layer == "question" and one.kind == "VIEW"
            if one.is_computed_on_ingest or is_question:
                reduced = known.reduced(one.query)
                left = {name for name in one.reads & {*names} if name in reduced}
                assert {name.split(".")[0] for name in left} <= {"reference"}
                found = connection.execute(f"DESCRIBE {reduced}").fetchall()
                types = [type_ for _, type_ in catalog.described(connection, one)]
                assert [type_ for _, type_, *_ in found] == types, one.full_name


@pytest.mark.thorough
@pytest.mark.parametrize("sample", ["generated_gpu", "ddp_gloo"])
def test_stored_rows_are_those_of_the_whole_query(
    sample: str, database_of: DatabaseOf
) -> None:
    """What is stored, by queries without their empty parts, is what they tell whole."""
    connection = database_of(SAMPLES / sample).connection
    traces = scalar(connection, "SELECT list(trace_id) FROM staging.trace")
    connection.execute(f"SET VARIABLE computing = {traces}")
    with one_thread(connection):
        for one in catalog.relations():
            if one.is_computed_on_ingest and not one.needs_edits:
                query = "SELECT count(*), bit_xor(hash(r)) FROM ({}) AS r"
                stored = connection.execute(query.format(f"FROM {one.full_name}"))
                rows = stored.fetchone()
                whole = connection.execute(query.format(f"FROM ({one.query}\n)"))
                assert whole.fetchone() == rows, one.full_name


def test_questions_are_planned_without_their_empty_parts(
    generated: tracedb.Database,
) -> None:
    """Questions that must be empty without edits read nothing; others keep rows."""
    connection = generated.connection
    hits, gaps = map(catalog.find, ("question.scenario_hit", "question.host_gap"))
    assert f"FROM {hits.full_name}" not in catalog.rows(connection, hits)
    assert "WHERE false" in catalog.rows(connection, hits)
    queries = catalog.rows(connection, gaps), f"FROM {gaps.full_name}"
    reduced, whole = (
        connection.execute(f"{query} ORDER BY ALL").fetchall() for query in queries
    )
    assert reduced == whole != []


def test_rules_of_another_version_are_ignored(small: duckdb.DuckDBPyConnection) -> None:
    """Without rules, or with those of another version, every query is run."""
    assert not Emptiness(small, "of these", ["t.a"]).must_be_empty("t.q")
    note(small, {"t.q": "FROM t.a"}, "of others")
    assert not Emptiness(small, "of these", ["t.a"]).must_be_empty("t.q")
    assert Emptiness(small, "of others", ["t.a"]).must_be_empty("t.q")


def test_changed_tables_are_noticed(small: duckdb.DuckDBPyConnection) -> None:
    """A table that was filled or emptied since is looked at again."""
    note(small, {"t.q": "FROM t.a"}, "of these")
    emptiness = Emptiness(small, "of these", ["t.a"])
    small.execute("INSERT INTO t.a VALUES (1)")
    emptiness.recheck("t.a")
    assert emptiness.has_rows("t.a")
    assert not emptiness.must_be_empty("t.q")
    small.execute("DELETE FROM t.a")
    emptiness.recheck("t.a")
    assert emptiness.must_be_empty("t.q")
    emptiness.add_rows("t.a", 0)
    assert emptiness.must_be_empty("t.q")
    emptiness.add_rows("t.a", 2)
    assert not emptiness.must_be_empty("t.q")


def test_added_texts_are_noticed(small: duckdb.DuckDBPyConnection) -> None:
    """Texts of a table are read again after rows were added or removed."""
    note(small, {"t.q": "FROM t.d WHERE kind = 'two'"}, "of these")
    small.execute("INSERT INTO t.d VALUES ('one')")
    emptiness = Emptiness(small, "of these", ["t.d"])
    assert emptiness.must_be_empty("t.q")
    small.execute("INSERT INTO t.d VALUES ('two')")
    emptiness.add_rows("t.d", 1)
    assert not emptiness.must_be_empty("t.q")
    small.execute("DELETE FROM t.d WHERE kind = 'two'")
    emptiness.recheck("t.d")
    assert emptiness.must_be_empty("t.q")


CASES = [
    *(SAMPLES / name for name in ("dlrm_cpu", "generated_gpu")),
    pytest.param(CORPUS / "param" / "dlrm8" / "kineto", marks=needs_corpus),
]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_relations_called_empty_are_empty(path: Path, database_of: DatabaseOf) -> None:
    """Computed anyway, relations that a trace was said to lack have no rows."""
    database = database_of(path)
    emptiness = catalog.what_is_empty(database.connection)
    passed_over = [
        one
        for one in catalog.relations()
        if one.is_computed_on_ingest and emptiness.must_be_empty(one.full_name)
    ]
    assert passed_over
    database.connection.execute(
        "SET VARIABLE computing = (SELECT list(trace_id) FROM raw.trace)"
    )
    for one in passed_over:
        assert not database.connection.execute(one.query).fetchall(), one.full_name


def test_most_relations_of_a_cpu_trace_are_skipped(database_of: DatabaseOf) -> None:
    """That a trace has no GPU work is recognised through all layers."""
    database = database_of(SAMPLES / "dlrm_cpu")
    emptiness = catalog.what_is_empty(database.connection)
    of_gpu_work = (
        *("staging.collective", "graph.clock", "graph.stream_wait", "graph.gpu_cause"),
        *("prediction.op_shape", "prediction.op_work", "prediction.gpu_time"),
        *("simulation.gpu_offset", "critical_path.stream_stretch"),
    )
    assert [name for name in of_gpu_work if not emptiness.must_be_empty(name)] == []


def test_edits_that_change_only_times_need_no_models(database_of: DatabaseOf) -> None:
    """What would run on another GPU, of another type or size is skipped."""
    database = database_of(SAMPLES / "generated_gpu")
    to_bf16 = {"action": "set", "to_dtype": "bf16"}
    for how, is_skipped in (({"factor": 0.5}, True), (to_bf16, False)):
        edit = tracedb.Edit(scenario="a", target="gpu", family="gemm", **how)
        with database.simulate(["replay"], [edit]) as beside:
            emptiness = catalog.what_is_empty(
                beside.connection, stored_views=catalog.edit_views()
            )
            is_empty = emptiness.must_be_empty("prediction.changed_time")
        assert is_empty == is_skipped
