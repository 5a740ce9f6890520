"""Queries cannot write, or read files they were not given.

Each attack is tried by the command, and in Python on databases opened for reading and
for writing; nothing in the folder changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, nullcontext
from pathlib import Path
from unittest.mock import patch

import click.testing
import duckdb
import polars as pl
import pytest
from support import SAMPLES, Ingested

import tracedb
from tracedb.cli.main import tracedb as command

SECRET = "the text of a file that nobody is to read"  # noqa: S105 (no password)
SAMPLE = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"

ATTACKS = [
    # writes files
    "COPY raw.trace TO 'out.csv'",
    "COPY (SELECT 1) TO 'out.parquet' (FORMAT parquet)",
    "EXPLAIN ANALYZE COPY raw.trace TO 'out.csv'",
    "EXPORT DATABASE 'out'",
    "ATTACH 'out.duckdb' AS other (READ_WRITE)",
    "ATTACH 'run.duckdb' AS again (READ_WRITE)",
    "CREATE TABLE own AS SELECT 1",
    "FROM enable_logging(storage = 'file', storage_config = {'path': 'out'})",
    "CALL enable_logging('QueryLog', storage = 'file')",
    "FROM enable_profiling()",
    "SET profiling_output = 'out.json'",
    "SET log_query_path = 'out.log'",
    "PRAGMA enable_profiling = 'json'",
    "COPY FROM DATABASE tracedb TO memory",
    # reads files
    "FROM read_csv('secret.csv')",
    "FROM 'secret.csv'",
    'FROM "secret.csv"',
    "FROM read_text('secret.csv')",
    "FROM main.read_text('secret.csv')",
    "FROM system.main.read_blob('secret.csv')",
    """FROM "READ_TEXT"('secret.csv')""",
    "SELECT (SELECT content FROM read_text('secret.csv'))",
    "WITH a AS (FROM read_text('secret.csv')) FROM a",
    "SELECT 1 UNION ALL SELECT content FROM read_text('secret.csv')",
    "SELECT 1 IN (SELECT 1 FROM glob('*'))",
    "FROM query('FROM read_text(''secret.csv'')')",
    "FROM query_table('secret.csv')",
    "FROM histogram('secret.csv', content)",
    "FROM sniff_csv('secret.csv')",
    "FROM read_json_auto('secret.csv')",
    "FROM parquet_metadata('secret.parquet')",
    "FROM 'secret.parquet'",
    "FROM parquet_scan(['secret.parquet'])",
    "FROM read_duckdb('secret.duckdb', table_name = 'own')",
    "ATTACH 'secret.duckdb' AS other (READ_ONLY)",
    "FROM glob('/etc/*')",
    "FROM read_text('/proc/self/environ')",
    "FROM read_blob('run.duckdb')",
    "DESCRIBE FROM read_csv('secret.csv')",
    "SUMMARIZE FROM read_csv('secret.csv')",
    "EXPLAIN ANALYZE SELECT * FROM read_text('secret.csv')",
    "PIVOT read_csv('secret.csv') ON content",
    "FROM json_execute_serialized_sql('{}')",
    "FROM read_csv('http://localhost:9/secret.csv')",
    "FROM 'https://localhost:9/secret.parquet'",
    "SELECT getenv('HOME')",
    "FROM which_secret('s3://a', 's3')",
    # loads code, changes settings
    "INSTALL httpfs",
    "LOAD 'evil.duckdb_extension'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "SET allowed_directories = ['/']",
    "PRAGMA memory_limit = '1KB'",
    "CREATE SECRET (TYPE s3)",
    "CALL pragma_version()",
    # changes the database
    "INSERT INTO raw.database VALUES ('a', 'b')",
    "WITH a AS (INSERT INTO raw.database VALUES ('a', 'b') RETURNING *) FROM a",
    "WITH a AS (DELETE FROM raw.database RETURNING *) FROM a",
    "DELETE FROM raw.trace",
    "UPDATE raw.trace SET path = 'x'",
    "DROP SCHEMA question CASCADE",
    "ALTER TABLE raw.trace ADD COLUMN x INT",
    "CREATE OR REPLACE VIEW question.top_kernel AS SELECT 1",
    "CREATE TEMP MACRO abs(x) AS 1",
    "CHECKPOINT",
    "FROM force_checkpoint()",
    "VACUUM",
    "BEGIN",
    "DETACH tracedb",
    "USE memory",
    "PREPARE p AS SELECT 1",
    "SELECT nextval('own')",
    "SELECT write_log('x')",
    # several statements
    "SELECT 1; DROP TABLE raw.event",
    "SELECT 1;; COPY raw.trace TO 'out.csv';",
    "SELECT 1 /* ; */; -- ;\n DELETE FROM raw.trace",
    # Python objects
    "FROM SECRET",
    "FROM SAMPLE",
    "FROM frame",
    "FROM query",
    # neither of these
    "",
    "SELECT 1e999",
    "-- nothing",
    "EXPLAIN",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """A folder with a database, and files that no query may read."""
    made = tmp_path_factory.mktemp("sandbox")
    shutil.copy(ingested(SAMPLE), made / "run.duckdb")
    (made / "secret.csv").write_text(f"content\n{SECRET}\n")
    pl.DataFrame({"content": [SECRET]}).write_parquet(made / "secret.parquet")
    with duckdb.connect(made / "secret.duckdb") as connection:
        connection.execute(f"CREATE TABLE own AS SELECT '{SECRET}' AS content")
    return made


@pytest.fixture
def unchanged(folder: Path) -> Iterator[Path]:
    """The folder as working directory; all in it has to stay unchanged."""
    before = digests(folder)
    with chdir(folder):
        yield folder
    assert digests(folder) == before


def digests(folder: Path) -> dict[str, str]:
    """What is in a folder."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def by_command(database: Path) -> Iterator[str]:
    """Query by `tracedb sql`, opening the database once; returns the errors."""
    runner = click.testing.CliRunner()
    with tracedb.open(database, read_only=True, allow_files=False) as opened:

        def open_(path: str, **options: bool) -> AbstractContextManager[object]:
            assert (path, options) == (
                str(database),
                {"read_only": True, "allow_files": False},
            )
            return nullcontext(opened)

        with patch("tracedb.open", open_):
            for attack in ATTACKS:
                done = runner.invoke(command, ["sql", str(database), attack])
                assert (done.exit_code, done.stdout) == (2, ""), attack
                yield done.stderr.removesuffix("\n")


def by_python(opened: tracedb.Database) -> Iterator[str]:
    """Query in Python; returns the errors raised."""
    frame = pl.DataFrame({"content": [SECRET]})
    assert not frame.is_empty()
    for attack in ATTACKS:
        with pytest.raises(tracedb.QueryError) as caught:
            opened.sql(attack)
        yield str(caught.value)


def by_reader(database: Path) -> Iterator[str]:
    """Query a database opened for reading."""
    with tracedb.open(database, read_only=True) as opened:
        yield from by_python(opened)


def by_writer(database: Path) -> Iterator[str]:
    """Query a database opened for writing."""
    with tracedb.open(database) as opened:
        yield from by_python(opened)


def by_simulation(database: Path) -> Iterator[str]:
    """Query a simulation, which is a database in memory."""
    with (
        tracedb.open(database, read_only=True) as opened,
        opened.simulate(["other_steps"]) as beside,
    ):
        yield from by_python(beside)


@pytest.mark.parametrize("ask", [by_command, by_reader, by_writer, by_simulation])
def test_attacks_are_refused(
    unchanged: Path, ask: Callable[[Path], Iterator[str]]
) -> None:
    """One line says why; no file is read or written, and the database is unchanged."""
    for attack, reported in zip(ATTACKS, ask(unchanged / "run.duckdb"), strict=True):
        assert reported.isprintable(), attack
        assert SECRET not in reported, attack


QUERIES = [
    "SELECT count(*) FROM raw.trace",
    "SELECT count(*) FROM raw.trace;",
    "-- how many\nSELECT count(*) /* ; */ FROM raw.trace -- ;",
    "FROM question.top_kernel LIMIT 1",
    "WITH RECURSIVE a(n) AS (VALUES (1) UNION SELECT n % 7 + 1 FROM a) FROM a",
    "FROM question.ancestor(1)",
    "VALUES (1)",
    "TABLE raw.trace",
    "SHOW ALL TABLES",
    "DESCRIBE raw.trace",
    "SUMMARIZE raw.trace",
    "EXPLAIN SELECT 1",
    "explain analyze FROM raw.trace",
    "/* why */ EXPLAIN (FORMAT json) SELECT 1",
    "FROM range(3)",
    "FROM duckdb_tables()",
    "FROM (PIVOT raw.trace ON format IN ('kineto') USING count(*))",
    "UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b",
    "SELECT 'COPY a TO b; read_text(''x'')' AS text",
]


@pytest.mark.parametrize("read_only", [True, False])
def test_allowed_queries(unchanged: Path, *, read_only: bool) -> None:
    """All forms of SELECT, with comments and semicolons."""
    with tracedb.open(unchanged / "run.duckdb", read_only=read_only) as database:
        for query in QUERIES:
            rows = database.sql(query)
            assert not rows.is_empty() or "ancestor" in query, query


@pytest.mark.parametrize(
    "value",
    [
        "timestamp 'infinity'",
        "date '-infinity'",
        "timestamptz '290000-01-01'",
        "[NULL, date '0001-01-01 (BC)']",
        "{'a': [timestamp 'infinity']}",
        "map([1], [date 'infinity'])",
        "interval 1 month",
        "[interval 1 day]",
        "union_value(a := 1)",
    ],
)
def test_what_a_data_frame_cannot_hold_is_one_line(unchanged: Path, value: str) -> None:
    """Such values end polars with a panic, which would also end a server."""
    with tracedb.open(unchanged / "run.duckdb", read_only=True) as database:
        with pytest.raises(tracedb.QueryError, match="column x: a data frame cannot"):
            database.sql(f"SELECT 1, {value} AS x")
        database.sql(f"SELECT ({value})::VARCHAR AS x")
    least, most = "timestamp '0001-01-01'", "timestamp '9999-12-31 23:59:59.999999'"
    with tracedb.open(unchanged / "run.duckdb", read_only=True) as database:
        rows = database.sql(f"SELECT {least}, {most}, timestamp_ns 'infinity'").row(0)
    assert [one.year for one in rows] == [1, 9999, 2262]


def test_files_can_be_allowed(unchanged: Path) -> None:
    """With the option queries may read files, but not write them."""
    for query in ("FROM 'secret.csv'", "FROM read_csv('secret.csv')"):
        done = click.testing.CliRunner().invoke(
            command,
            ["sql", "run.duckdb", query, "--allow-files", "--format", "csv"],
        )
        assert done.stdout.splitlines() == ["content", SECRET], done.stderr
    path = unchanged / "run.duckdb"
    with tracedb.open(path, read_only=True, allow_files=True) as database:
        assert database.sql("FROM read_text('secret.csv')").height == 1
        with pytest.raises(tracedb.QueryError, match="COPY is not allowed"):
            database.sql("COPY raw.trace TO 'out.csv'")
        with pytest.raises(tracedb.QueryError, match="2 statements; write only one"):
            database.sql("SELECT 1; SELECT 2")


def test_a_crafted_database_cannot_read_files(folder: Path, tmp_path: Path) -> None:
    """DuckDB refuses a view in an untrusted database that reads a file."""
    path = tmp_path / "crafted.duckdb"
    path.write_bytes((folder / "run.duckdb").read_bytes())
    with duckdb.connect(path) as connection:
        connection.execute(
            f"CREATE VIEW own AS FROM read_text('{folder / 'secret.csv'}')"
        )
    with (
        tracedb.open(path, read_only=True) as database,
        pytest.raises(tracedb.QueryError, match="disabled by configuration"),
    ):
        database.sql("FROM own")


TEXTS = ["'; COPY raw.trace TO 'out.csv'; --", "1); DROP TABLE raw.event; --", "x') --"]


@pytest.mark.parametrize("text", TEXTS)
def test_arguments_are_not_run_as_queries(unchanged: Path, text: str) -> None:
    """Names of questions, relations, nodes, methods and steps are not executed."""
    scenario = tracedb.Edit(scenario=text, target="gpu", name=text, factor=0.5)
    bad_scenario = tracedb.Edit(scenario="a", target="gpu", type=text, factor=0.5)
    with tracedb.open(unchanged / "run.duckdb", read_only=True) as database:
        calls: list[Callable[[], object]] = [
            lambda: database.ask(text),
            lambda: database.ask("ancestor", text),  # type: ignore[arg-type]
            lambda: database.relation(text),
            lambda: database.relation("question.overhead", text),  # type: ignore[arg-type]
            lambda: database.depends(text),
            lambda: database.depends(1, direction=text),
            lambda: database.critical_path(scope=text),
            lambda: database.predict(text),
            lambda: database.scenarios([bad_scenario]),
            lambda: database.schema(text),
        ]
        for call in calls:
            with pytest.raises(tracedb.TracedbError):
                call()
        try:
            effects = database.scenarios([scenario])
        except tracedb.ScenarioError:  # no regular expression
            return
        assert set(effects["scenario"]) == {text}


NAMES = [
    *("graph", "raw", "reference", "staging", "overhead", "prediction"),
    *("simulation", "critical_path", "question"),
    *("main", "system", "temp", "memory", "tracedb", "information_schema", "select"),
    *("a b", "a'b", 'a"b', "наборы", "数", "a;b", "a.b", "%s", "{}", "~", "$x", "*"),
    *("simulation_1", "sqlite:a", "md:a", "[link=x]y", "a[x]", "[", "C:"),
]
SIMULATED = ("prediction", "simulation_1", 'a"b')
"""Names tried with a simulation too, which is slow."""
LARGE = ("graph", "critical_path", "question", "tracedb", "a b", "a.b", *SIMULATED)
"""Names tried with a question that reads many layers."""


@pytest.mark.parametrize("name", NAMES)
def test_a_database_may_have_any_name(folder: Path, tmp_path: Path, name: str) -> None:
    """Relations are found whatever the database file is called."""
    path = tmp_path / f"{name}.duckdb"
    path.write_bytes((folder / "run.duckdb").read_bytes())
    with tracedb.open(path) as database:
        assert database.sql("SELECT count(*) FROM graph.node").item() > 0
        assert database.ingest([SAMPLE]).is_empty()
    with chdir(tmp_path), tracedb.open(path.name, read_only=True) as database:
        assert not database.relation("overhead.interval").is_empty()
        if name in LARGE:
            assert not database.critical_path(summary=True).is_empty()
        if name in SIMULATED:
            assert not database.predict("other_steps").is_empty()
    assert [*tmp_path.iterdir()] == [path]


def test_a_database_may_be_in_any_folder(folder: Path, tmp_path: Path) -> None:
    """In a name with a slash, the part before it is a folder."""
    path = tmp_path / "a[/x].duckdb"
    path.parent.mkdir()
    path.write_bytes((folder / "run.duckdb").read_bytes())
    with tracedb.open(path) as database:
        assert database.ingest([SAMPLE]).is_empty()
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.skipif(os.sep != "/", reason="a backslash parts folders here")
@pytest.mark.parametrize("name", ["C:\\a.duckdb", "a\\b.duckdb", "a\\b/c.duckdb"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_backslash_is_refused(tmp_path: Path, name: str, *, is_there: bool) -> None:
    """DuckDB would open a file in a folder, not the one named."""
    (tmp_path / "a").mkdir()
    if is_there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    before = sorted(tmp_path.rglob("*"))
    for read_only in (False, True):
        with pytest.raises(tracedb.DatabaseError, match=r"backslash|no such database"):
            tracedb.open(tmp_path / name, read_only=read_only)
    assert sorted(tmp_path.rglob("*")) == before
    if is_there:
        with pytest.raises(tracedb.DatabaseError, match="backslash in a path"):
            tracedb.open(tmp_path / name, read_only=True)
