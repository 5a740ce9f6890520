"""Ingest stays within its memory limit, and reports when that is too small."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from scale import scale
from support import rows, write_generated

import tracedb
from tracedb import catalog
from tracedb.cli.main import tracedb as command
from tracedb.duck import scalar, size_of

EVENTS = 100_000
MB = 1_000_000
USED = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a hundred thousand events."""
    folder = tmp_path_factory.mktemp("large")
    write_generated(folder, [5])
    scale(folder / "5.json", folder / "large.json", EVENTS)
    return folder / "large.json"


@pytest.mark.parametrize("name", ["run.duckdb", ":memory:"])
def test_ingest_spills_to_disk(tmp_path: Path, trace: Path, name: str) -> None:
    """All layers fit into 100 MB, in a file and in memory; no file is left over."""
    path = name if name == ":memory:" else tmp_path / name
    used = []
    with tracedb.open(path) as database:
        usual = scalar(database.connection, "SELECT current_setting('memory_limit')")
        database.ingest(
            [trace],
            memory="100MB",
            progress=lambda _: used.append(scalar(database.connection, USED)),
        )
        assert max(used) <= 100 * MB
        assert rows(database, "SELECT count(*) >= 100000 FROM raw.event") == [(True,)]
        assert rows(database, "SELECT count(*) > 0 FROM critical_path.step_time")[0][0]
        query = "SELECT current_setting('memory_limit')"
        assert scalar(database.connection, query) == usual
    assert {file.name for file in tmp_path.iterdir()} <= {name}


def test_too_little_is_one_line(tmp_path: Path, trace: Path) -> None:
    """The error names file and option, and the database is unchanged."""
    path = tmp_path / "run.duckdb"
    words = ["ingest", str(trace), "--db", str(path), "--memory", "20MB"]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    (line,) = [text for text in done.stderr.splitlines() if str(trace) in text]
    assert line.endswith("20 MB of memory is not enough; allow more (`--memory`)")
    assert not path.exists()


@pytest.mark.parametrize("layer", ["_to_load", "_to_compute"])
def test_more_memory_is_used_if_needed(
    tmp_path: Path, trace: Path, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the usual limit is too low, everything starts again with more."""
    monkeypatch.setattr(f"tracedb.ingest.{layer}", lambda _text: 20 * MB)
    said: list[str] = []
    with tracedb.open(tmp_path / "run.duckdb") as database:
        database.ingest([trace], progress=said.append)
        assert said.count("starting again with more memory") == 1
        assert rows(database, "SELECT count(*) FROM raw.trace") == [(1,)]
        assert rows(database, "SELECT count(*) >= 100000 FROM raw.event") == [(True,)]
        assert rows(database, "SELECT count(*) > 0 FROM critical_path.step_time")[0][0]


def test_wide_relations_exist() -> None:
    """The relations with a choice of join sides are stored ones."""
    stored = {r.full_name for r in catalog.relations() if r.is_computed_on_ingest}
    assert stored >= catalog.WIDE


@pytest.mark.parametrize("memory", ["much", "", "-1GB", "4 XB"])
def test_bad_sizes_are_refused(tmp_path: Path, memory: str) -> None:
    """One line says how to write a size."""
    with (
        tracedb.open() as database,
        pytest.raises(tracedb.IngestError, match="is not a size; write it as 4GB"),
    ):
        database.ingest([tmp_path], memory=memory)


def test_sizes_of_duckdb_are_parsed() -> None:
    """Sizes in DuckDB's settings are parsed in every unit."""
    with tracedb.open() as database:
        for size in (300 * MB, 5 << 30, 2 << 40):
            database.connection.execute(f"SET memory_limit = '{size}B'")
            query = "SELECT current_setting('memory_limit')"
            reported = size_of(scalar(database.connection, query))
            assert reported == pytest.approx(size, rel=0.06)
