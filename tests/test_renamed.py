"""Old names: errors give the new name, and the contract of scripts is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from support import ROOT, SAMPLES, DatabaseOf, Ingested, rows

import tracedb
from tracedb import catalog, overhead_library, renamed
from tracedb.cli.main import tracedb as main

GENERATED = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"

# What scripts rely on: relations have at least these columns.
CONTRACT = {
    "staging.call": "call_id trace_id thread_id name kind start_ns end_ns op_id",
    "staging.gpu_op": "gpu_op_id trace_id name kind device stream start_ns end_ns "
    "call_id op_id is_collective",
    "staging.kernel": "gpu_op_id trace_id name device stream start_ns end_ns call_id "
    "op_id is_collective",
    "staging.trace": "trace_id run_id path rank",
    "staging.thread": "thread_id trace_id name role",
    "staging.op": "op_id trace_id thread_id name start_ns end_ns",
    "staging.step": "step_id trace_id thread_id step start_ns end_ns",
    "graph.node": "node_id trace_id kind name start_ns end_ns",
    "graph.edge": "trace_id source_node_id target_node_id kind recorded",
    "overhead.interval": "trace_id step_id thread_id type start_ns end_ns",
    "critical_path.interval": "scope path_id trace_id step_id start_ns end_ns kind",
    "prediction.kernel_time": "gpu_op_id predicted_ns low_ns high_ns model in_range",
    "critical_path.step_time": "scenario method trace_id step_id measured_ns "
    "predicted_ns",
}


@pytest.fixture(scope="module")
def path(ingested: Ingested) -> Path:
    """A database of one generated rank."""
    return ingested(GENERATED)


@pytest.fixture
def filled(database_of: DatabaseOf) -> tracedb.Database:
    """The same, opened."""
    return database_of(GENERATED)


@pytest.mark.parametrize("name", CONTRACT)
def test_the_contract_of_scripts(filled: tracedb.Database, name: str) -> None:
    """A query of these columns runs."""
    columns = ", ".join(CONTRACT[name].split())
    assert filled.sql(f"SELECT {columns} FROM {name}").columns == columns.split(", ")


@pytest.mark.parametrize("method", ["replay", "statistics", "full"])
def test_steps_are_predicted_by_each_method(path: Path, method: str) -> None:
    """`tracedb predict DB --method M --format json` has one row per step."""
    words = ["predict", str(path), "--method", method, "--format", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert {row["method"] for row in found} == {method}
    assert {"step", "measured_ns", "predicted_ns"} <= set(found[0])


def test_the_kernel_view(filled: tracedb.Database) -> None:
    """Copies and memsets are GPU ops, but not kernels."""
    query = "SELECT kind, count(*) FROM staging.gpu_op GROUP BY kind"
    counts = dict(rows(filled, query))
    assert counts.keys() > {"kernel"}
    assert rows(filled, "SELECT count(*) FROM staging.kernel") == [(counts["kernel"],)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("FROM staging.launch", "staging.launch was renamed to staging.call"),
        ("SELECT kernel_id FROM staging.gpu_op", "kernel_id was renamed to gpu_op_id"),
        (
            "SELECT k.KERNEL_ID FROM staging.kernel k",
            "kernel_id was renamed to gpu_op_id",
        ),
        (
            "SELECT name FROM staging.gpu_op JOIN staging.call USING (launch_id)",
            "launch_id was renamed to call_id",
        ),
        (
            "SELECT rung FROM critical_path.step_time WHERE rung = 'replay'",
            "rung was renamed to method",
        ),
        ("FROM graph.activity", "graph.activity was renamed to graph.top_level_event"),
        (
            "SELECT kind FROM staging.kernel",
            "staging.kernel was renamed to staging.gpu_op",
        ),
    ],
)
def test_an_old_name_in_a_query_gives_the_new_one(
    filled: tracedb.Database, query: str, message: str
) -> None:
    """The error is one line that starts with DuckDB's message."""
    with pytest.raises(tracedb.QueryError) as refused:
        filled.sql(query)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_hint_without_an_old_name() -> None:
    """Strings, comments and longer identifiers do not count."""
    assert not renamed.hint("SELECT 'launch_id', my_kernel_id FROM staging.call")
    assert not renamed.hint("FROM staging.call /* rung */ -- moment")


def test_other_errors_are_unchanged(filled: tracedb.Database) -> None:
    """For queries with current names, the error is DuckDB's alone."""
    with pytest.raises(tracedb.QueryError) as refused:
        filled.sql("SELECT absent FROM staging.call")
    assert "renamed" not in str(refused.value)


@pytest.mark.parametrize("command", ["predict", "critical-path", "ask", "sql"])
def test_the_old_option_gives_the_new_one(path: Path, command: str) -> None:
    """`--rung` is an error that names `--method`."""
    done = CliRunner().invoke(main, [command, str(path), "--rung", "replay"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"tracedb: error: {command}: no such option")
    assert "it was renamed to --method" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_old_relation_or_method_gives_the_new_one(
    filled: tracedb.Database,
) -> None:
    """In Python, and in `tracedb schema`."""
    with pytest.raises(tracedb.QueryError, match=r"it was renamed to lin2022"):
        filled.predict("published")
    with pytest.raises(tracedb.QueryError, match=r"was renamed to prediction\.method"):
        filled.schema("prediction.rung")


def test_hints_use_current_names() -> None:
    """Every name in a hint exists and is not an old one."""
    declared = {relation.full_name: relation for relation in catalog.relations()}
    assert set(renamed.RELATIONS.values()) <= declared.keys()
    assert not renamed.RELATIONS.keys() & declared.keys()
    columns = {column for relation in declared.values() for column in relation.columns}
    # `place` now means a position only, and `kernels` are counted without copies.
    assert renamed.COLUMNS.keys() & columns == {"kernel_count", "place"}
    new = {name.split()[0] for name in renamed.COLUMNS.values()}
    assert new <= columns
    assert set(renamed.METHODS.values()) <= set(tracedb.METHODS)


def test_the_changelog_has_each_renamed_relation() -> None:
    """Old and new name are in one row."""
    page = (ROOT / "CHANGELOG.md").read_text()
    for old, new in renamed.RELATIONS.items():
        assert f"| `{old}` | `{new}` |" in page
    for old, new in (renamed.OPTIONS | renamed.METHODS).items():
        assert f"| `{old}` | `{new}` |" in page


# databases and files of the previous version


@pytest.fixture
def old_database(path: Path, tmp_path: Path) -> Path:
    """The database as the previous version stored it, with a user's device."""
    old = tmp_path / "old.duckdb"
    recipe = (Path(__file__).parent / "old_database.sql").read_text()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{old}' AS old (STORAGE_VERSION 'v1.5.0')")
        connection.execute(f"ATTACH '{path}' AS new (READ_ONLY)")
        connection.execute(recipe)
        # What is stored now may have more columns than then.
        tables = connection.execute(
            "SELECT table_name, string_agg(column_name, ', ') FROM duckdb_columns() "
            "WHERE database_name = 'old' AND schema_name = 'raw' AND table_name IN ("
            "SELECT table_name FROM duckdb_tables() "
            "WHERE database_name = 'new' AND schema_name = 'raw') "
            "GROUP BY table_name"
        ).fetchall()
        for name, columns in tables:
            connection.execute(
                f"INSERT INTO old.raw.{name} ({columns}) "
                f"SELECT {columns} FROM new.raw.{name}"
            )
        connection.execute(
            "UPDATE old.raw.database SET value = 'an older one' "
            "WHERE property = 'fingerprint'"
        )
        connection.execute(
            "INSERT INTO old.raw.hardware (hardware, place, name_pattern, kind, "
            "peak_fp32_flops_per_second, dram_bytes_per_second, l2_bytes, sm_count, "
            "clocks_per_second) "
            "VALUES ('Mine', 1, 'Mine', 'gpu', 1e13, 1e12, 1, 1, 1e9)"
        )
        connection.execute(
            "INSERT INTO old.raw.calibration "
            "VALUES ('Mine', 1, 'model', 2, 100, 20, 5, 0, 0, 0, 0, true)"
        )
        connection.execute(
            "INSERT INTO old.raw.kernel_estimate SELECT min(gpu_op_id), 1, 7, 5, 9, 1, "
            "'mine', 'alike', true FROM new.staging.gpu_op"
        )
    return old


KEPT = {
    "SELECT hardware, ordinal FROM reference.hardware": ("Mine", 1),
    "SELECT predicted_ns, model FROM reference.kernel_estimate "
    "INNER JOIN staging.gpu_op USING (gpu_op_id)": (7, "mine"),
}
"""What users stored in the old database, by its current query."""


def test_an_old_database_is_upgraded(old_database: Path, path: Path) -> None:
    """User data is kept under new names; everything else is computed again."""
    refused = CliRunner().invoke(main, ["sql", str(old_database), "SELECT 1"])
    assert refused.exit_code == 2
    assert "run `tracedb upgrade" in refused.stderr
    assert CliRunner().invoke(main, ["upgrade", str(old_database)]).exit_code == 0
    with tracedb.open(old_database, read_only=True) as upgraded:
        for query, kept in KEPT.items():
            assert rows(upgraded, query) == [kept]
        for name in renamed.RELATIONS:
            with pytest.raises(tracedb.QueryError):
                upgraded.sql(f"FROM {name}")
        with tracedb.open(path, read_only=True) as new:
            for name in ("staging.call", "staging.gpu_op", "critical_path.step_time"):
                assert upgraded.relation(name).equals(new.relation(name))
            declared = {r.full_name for r in catalog.relations() if not r.is_macro}
            assert stored_names(upgraded) == stored_names(new) == declared


def stored_names(database: tracedb.Database) -> set[str]:
    """All tables and views of a database."""
    query = """
        SELECT schema_name || '.' || table_name FROM duckdb_tables()
        UNION ALL
        SELECT schema_name || '.' || view_name FROM duckdb_views() WHERE NOT internal
    """
    return {name for (name,) in rows(database, query)}


def test_an_old_library_of_overheads_still_predicts(
    path: Path, tmp_path: Path, filled: tracedb.Database
) -> None:
    """Two of its columns had other names."""
    new, old = tmp_path / "new.parquet", tmp_path / "old.parquet"
    overhead_library.learn([path], new)
    duckdb.execute(
        f"COPY (SELECT * RENAME (ordinal AS place, ordinal_count AS place_count) "
        f"FROM '{new}') TO '{old}' (FORMAT parquet, "
        "KV_METADATA {'tracedb.overhead_library': '1'})"
    )
    assert filled.predict(library=old).equals(filled.predict(library=new))


def test_an_old_device_row_gives_the_new_name(path: Path, tmp_path: Path) -> None:
    """The row was copied from the old `prediction.hardware`."""
    file, database = tmp_path / "mine.json", tmp_path / "run.duckdb"
    file.write_text('{"hardware": "Mine", "place": 3}')
    # The command opens it to write, while other tests may be reading the shared one.
    shutil.copy(path, database)
    words = ["kernels", "hardware", str(database), "--add", str(file)]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no column place; it was renamed to ordinal" in done.stderr
