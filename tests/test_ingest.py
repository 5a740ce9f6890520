"""Ingest keeps everything, is atomic, and joins files that belong together."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support import (
    CORPUS,
    SAMPLES,
    Ingested,
    assert_nothing_written,
    ingests_until,
    needs_corpus,
    rows,
)

import tracedb
from tracedb import catalog
from tracedb.ingest.files import expand

EVENT: dict[str, Any] = {
    "ph": "X",
    "cat": "cpu_op",
    "name": "aten::relu",
    "pid": 1,
    "tid": 1,
    "ts": 1,
    "dur": 2,
}


def write(path: Path, *events: dict[str, Any], **header: Any) -> Path:  # noqa: ANN401 (JSON)
    """Write a trace of some events."""
    path.write_text(json.dumps({**header, "traceEvents": list(events)}))
    return path


def counts(database: tracedb.Database) -> list[int]:
    """Row counts of all stored relations."""
    tables = rows(
        database,
        "SELECT schema_name || '.' || table_name FROM duckdb_tables() ORDER BY ALL",
    )
    parts = (f"(SELECT count(*) FROM {name})" for (name,) in tables)
    ((*found,),) = rows(database, f"SELECT {', '.join(parts)}")
    return found


@pytest.mark.until("staging")
def test_unknown_fields_are_kept(tmp_path: Path, database: tracedb.Database) -> None:
    """Fields without a column, and all arguments, are kept as JSON."""
    args = {"External id": 4, "odd": {"deep": [1, 2.50, "x"]}}
    event = EVENT | {"args": args, "cname": "good", "tts": 5}
    database.ingest([write(tmp_path / "a.json", event, traceName="t", odd=[1])])
    ((kept, other),) = rows(database, "SELECT args, other FROM raw.event")
    assert json.loads(kept) == args
    assert json.loads(other) == {"cname": "good", "tts": 5}
    ((header,),) = rows(database, "SELECT header FROM raw.trace")
    assert json.loads(header) == {"traceName": "t", "odd": [1]}


@needs_corpus
@pytest.mark.until("staging")
def test_a_real_file_can_be_reconstructed(database: tracedb.Database) -> None:
    """Every event of a real trace is in the database, with all fields."""
    path = CORPUS / "param" / "dlrm8" / "kineto" / "worker1.pt.trace.json.gz"
    database.ingest([path])
    query = (
        "SELECT ph, cat, name, pid, tid, ts_ns, dur_ns, id, args, other FROM raw.event"
    )
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    for row, event in zip(
        rows(database, f"{query} ORDER BY event_id"), events, strict=True
    ):
        *texts, ts, dur, id_, args, other = row
        found = dict(zip(("ph", "cat", "name", "pid", "tid"), texts, strict=True))
        known = {name: event.pop(name, None) for name in found}
        assert found == {n: None if v is None else str(v) for n, v in known.items()}
        assert ts == event.pop("ts") * 1000
        assert dur == (event["dur"] * 1000 if "dur" in event else None)
        event.pop("dur", None)
        assert id_ == (str(event["id"]) if "id" in event else None)
        event.pop("id", None)
        assert json.loads(args or "null") == event.pop("args", None)
        assert json.loads(other or "{}") == event


@pytest.mark.until("staging")
def test_both_readers_round_alike(tmp_path: Path, database: tracedb.Database) -> None:
    """Times halfway between two nanoseconds are included."""
    texts = ["1.0005", "2.0015", "0.0004999", "-1.0005", "12345678.9995", "7", "3e-4"]
    for name, more in (("plain", ""), ("other", ', "new": 1')):
        events = [
            f'{{"ph": "X", "name": "{number}", "ts": {text}, "dur": {text}{more}}}'
            for number, text in enumerate(texts)
        ]
        (tmp_path / f"{name}.json").write_text(f"[{', '.join(events)}]")
    database.ingest([tmp_path])
    query = "SELECT name, ts_ns, dur_ns FROM raw.event GROUP BY ALL ORDER BY name"
    assert len(rows(database, query)) == len(texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1661203462598738.123", 1_661_203_462_598_738_123),
        ("12.5", 12_500),
        ("0.001", 1),
        ("1e3", 1_000_000),
        ('"7.25"', 7_250),
        ("1661203462598738", 1_661_203_462_598_738_000),
    ],
)
@pytest.mark.until("staging")
def test_times_are_parsed_as_decimals(
    tmp_path: Path, database: tracedb.Database, text: str, expected: int
) -> None:
    """Times are exact to the nanosecond, where a double loses up to 125."""
    file = tmp_path / "a.json"
    file.write_text(f'[{{"ph": "X", "name": "x", "ts": {text}, "dur": 0.003}}]')
    database.ingest([file])
    assert rows(database, "SELECT ts_ns, dur_ns FROM raw.event") == [(expected, 3)]


def test_the_same_file_is_ingested_once(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A file that is there already, compressed or not, changes nothing."""
    file = write(tmp_path / "a.json", EVENT)
    first = database.ingest([file])
    before = counts(database)
    copy = tmp_path / "b.json.gz"
    copy.write_bytes(gzip.compress(file.read_bytes()))
    again = database.ingest([file, copy])
    assert (first.height, again.height) == (1, 0)
    assert counts(database) == before


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A database with a trace, which refused ingests leave as it is."""
    folder = tmp_path_factory.mktemp("before")
    with tracedb.open() as opened:
        opened.ingest([write(folder / "before.json", EVENT)])
        yield opened


@pytest.fixture(scope="module")
def counted(before: tracedb.Database) -> list[int]:
    """Row counts of its relations."""
    return counts(before)


DATABASE = b"DUCK\x40" + bytes(19) + b'"traceEvents": ['


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"traceEvents": [1]}', "holds no event that can be read"),
        (b'{"traceEvents": 5}', "its traceEvents are not a list"),
        (b'{"nodes": null}', "its nodes are not a list"),
        (b'[{"rank": 0}]', "not of trace events"),
        (b'{"weights": [1]}', "its keys are weights"),
        (b"not json", "is not JSON .it begins with 'not json'."),
        (b"{not json}", "malformed"),
        (b"\n<!DOCTYPE html><html>", "is a web page"),
        (b"\x7fELF\x02\x01\x01\0", "is binary, in no format that is read"),
        (b"ARROW1\0\0", "is in Arrow's format"),
        (b"\x89HDF\r\n\x1a\n", "is in the format HDF5"),
        (b"", "is empty"),
        (b"  " * (1 << 20), "is empty"),
        (lzma.compress(b"[]"), "is compressed with xz"),
        (bz2.compress(b"[]"), "is compressed with bzip2"),
        (gzip.compress(gzip.compress(b"[]", mtime=0), mtime=0), "with gzip twice"),
        (b"PK\x03\x04", "is a zip archive"),
        (b"SQLite format 3\0...", "is an SQLite database without tables of Nsight"),
        ("[]".encode("utf-16"), "is UTF-16 text"),
        ("{}".encode("utf-16-le"), "is UTF-16 text"),
        ("{}".encode("utf-16-be"), "is UTF-16 text"),
        ("[]".encode("utf-32"), "is UTF-32 text"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        (b'{"ph": "X"}\n{"ph": "X"}\n', "JSON objects line by line"),
        (b"\x1f\x8b\x08\x00broken", "the gzip stream"),
        # A database begins with a checksum, which may look like JSON.
        (b"  7bytes" + DATABASE, "a database, not a trace"),
        (b"[234567\n" + DATABASE, "a database, not a trace"),
        (b"\xef\xbb\xbf{{{{{" + DATABASE, "a database, not a trace"),
    ],
)
def test_a_failed_ingest_changes_nothing(
    tmp_path: Path,
    before: tracedb.Database,
    counted: list[int],
    content: bytes,
    message: str,
) -> None:
    """With one bad file among good ones, there is one line and no change."""
    good = write(tmp_path / "good.json", EVENT | {"name": "other"})
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    with pytest.raises(tracedb.IngestError, match=message) as caught:
        before.ingest([good, bad])
    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert counts(before) == counted


@pytest.mark.until("staging")
def test_ranks_that_were_recorded_together_are_one_run(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Same world size, other rank, overlapping times: one run.

    A second job is another.
    """
    for job, begin in (("first", 0), ("second", 10_000)):
        for rank in (0, 1):
            world = {"rank": rank, "world_size": 2, "backend": "nccl"}
            event = EVENT | {"ts": begin + rank, "name": f"{job} {rank}"}
            write(tmp_path / f"{job}{rank}.json", event, distributedInfo=world)
    database.ingest([tmp_path])
    query = """
        SELECT list(parse_filename(path) ORDER BY path) FROM staging.trace
        GROUP BY run_id
    """
    runs = sorted(names for (names,) in rows(database, query))
    assert runs == [["first0.json", "first1.json"], ["second0.json", "second1.json"]]


@pytest.mark.until("staging")
def test_a_rank_can_join_two_runs(tmp_path: Path, database: tracedb.Database) -> None:
    """Ranks that do not overlap become one run when a third one overlaps both."""
    times = {0: (0, 10), 1: (20, 10), 2: (5, 20)}
    for rank, (begin, duration) in times.items():
        world = {"rank": rank, "world_size": 3, "backend": "nccl"}
        event = EVENT | {"ts": begin, "dur": duration}
        write(tmp_path / f"{rank}.json", event, distributedInfo=world)
    query = (
        "SELECT count(*), list(rank ORDER BY rank) FROM staging.trace GROUP BY run_id"
    )
    database.ingest([tmp_path / "0.json", tmp_path / "1.json"])
    assert sorted(rows(database, query)) == [(1, [0]), (1, [1])]
    database.ingest([tmp_path / "2.json"])
    assert rows(database, query) == [(3, [0, 1, 2])]
    assert rows(database, "SELECT count(*) FROM raw.run") == [(1,)]
    assert rows(database, "SELECT count(DISTINCT run_id) FROM staging.op") == [(1,)]
    again = {"rank": 0, "world_size": 3, "backend": "nccl"}
    event = EVENT | {"ts": 5, "dur": 5, "name": "another job"}
    database.ingest([write(tmp_path / "again.json", event, distributedInfo=again)])
    assert sorted(rows(database, query)) == [(1, [0]), (3, [0, 1, 2])]


@pytest.mark.until("staging")
def test_a_run_can_be_named(tmp_path: Path, database: tracedb.Database) -> None:
    """With a given name, unrelated files form one run."""
    files = [write(tmp_path / f"{n}.json", EVENT | {"name": str(n)}) for n in range(3)]
    database.ingest(files[:2], run="mine")
    database.ingest(files[2:], run="mine")
    assert rows(database, "SELECT name FROM raw.run") == [("mine",)]
    assert rows(database, "SELECT DISTINCT run_id FROM staging.op") == [(1,)]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("worker3_step_12.pt.trace.json", 3),
        ("1782843274.77-TP-0-DECODE.trace.json", 0),
        ("rank-34.Jul_15.json", 34),
        ("dp1_pp0_tp0_ep0_rank5.123.pt.trace.json", 5),
        ("rank_3/host_4711.123.pt.trace.json", 3),
        ("rank_3/rank4.json", 4),
        ("worker1/trace.json", None),
        ("frank7.json", None),
        ("trace.json", None),
    ],
)
@pytest.mark.until("staging")
def test_rank_from_the_file_name(
    tmp_path: Path, database: tracedb.Database, name: str, rank: int | None
) -> None:
    """If the header lacks the rank, it is taken from the names of file and folder."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    database.ingest([write(tmp_path / name, EVENT)])
    assert rows(database, "SELECT rank FROM staging.trace") == [(rank,)]


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """In folders, patterns and archives, and as a shell lists them; not as given."""
    names = [f"{folder}/r0_{n}.json" for folder in "ab" for n in (7, 14)]
    for name in sorted(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, EVENT)
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for name in sorted(names):
            archive.add(tmp_path / name, name)
    files = [tmp_path / name for name in sorted(names)]
    ways = ([tmp_path / "a", tmp_path / "b"], [tmp_path / "*" / "*"], files)
    for number, way in enumerate((*ways, [tmp_path / "all.tar"])):
        (scratch := tmp_path / f"scratch{number}").mkdir()
        found = [source.name for source in expand(way, scratch)]
        assert [str(Path(*Path(name).parts[-2:])) for name in found] == names
    given = [files[1], files[0], files[2]]
    assert [source.path for source in expand(given, tmp_path)] == given


@pytest.mark.until("staging")
def test_other_json_in_a_folder_is_skipped(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Other JSON files are skipped and listed."""
    write(tmp_path / "a.json", EVENT)
    (tmp_path / "settings.json").write_text('{"batch": 4}')
    lines: list[str] = []
    assert database.ingest([tmp_path], progress=lines.append).height == 1
    assert any("settings.json: neither" in line for line in lines)
    assert any(line.endswith(": skipped, not a trace") for line in lines)


@pytest.mark.until("staging")
def test_a_file_that_is_not_json_does_not_stop_a_folder(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """It is an error if the user names it, and so is a broken trace."""
    write(tmp_path / "a.json", EVENT)
    notes = tmp_path / "notes.json"
    notes.write_text("not a trace at all")
    lines: list[str] = []
    assert database.ingest([tmp_path], progress=lines.append).height == 1
    assert any("notes.json" in line and "skipped" in line for line in lines)
    with pytest.raises(tracedb.IngestError, match=r"notes\.json"):
        database.ingest([notes])
    notes.write_text('{"traceEvents": [{"ph"')
    with pytest.raises(tracedb.IngestError, match=r"notes\.json"):
        database.ingest([tmp_path])


@pytest.mark.until("staging")
def test_an_empty_file_does_not_stop_a_folder(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A rank killed before writing leaves such a file."""
    write(tmp_path / "a.json", EVENT)
    (tmp_path / "b.json").touch()
    lines: list[str] = []
    assert database.ingest([tmp_path], progress=lines.append).height == 1
    assert any("is empty: skipped, not a trace" in line for line in lines)


@pytest.mark.until("staging")
def test_a_folder_may_hold_the_database(tmp_path: Path) -> None:
    """The database being written is not taken for a trace."""
    write(tmp_path / "a.json", EVENT)
    with tracedb.open(tmp_path / "run.db") as database:
        assert database.ingest([tmp_path]).height == 1


@pytest.mark.until("staging")
def test_white_space_before_a_list(tmp_path: Path, database: tracedb.Database) -> None:
    """Any amount of it is allowed."""
    file = tmp_path / "a.json"
    file.write_text(" " * (3 << 20) + json.dumps([EVENT]))
    assert database.ingest([file])["event_count"].to_list() == [1]


@pytest.mark.until("staging")
def test_a_known_file_keeps_its_run(tmp_path: Path, database: tracedb.Database) -> None:
    """The run of a file that was ingested before stays, which is reported."""
    file = write(tmp_path / "a.json", EVENT)
    database.ingest([file], run="mine")
    lines: list[str] = []
    database.ingest([file], run="yours", progress=lines.append)
    assert any("stays in the run 'mine': already in" in line for line in lines)
    assert rows(database, "SELECT name FROM raw.run") == [("mine",)]


@pytest.mark.until("staging")
def test_both_readers_give_the_same_fields(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Events read by DuckDB and by the Python reader are alike."""
    plain = EVENT | {"bp": 1.5, "s": True, "args": {"a": [1e5, "\u00e9"], "b": None}}
    write(tmp_path / "a.json", plain)
    write(tmp_path / "b.json", plain | {"ts": "1.0"})
    database.ingest([tmp_path])
    one, other = rows(database, "SELECT args, other FROM raw.event ORDER BY trace_id")
    assert one == other
    assert json.loads(one[1]) == {"bp": 1.5, "s": True}


def test_a_failed_first_ingest_leaves_no_file(tmp_path: Path) -> None:
    """A database created by a failed ingest is removed."""
    path = tmp_path / "run.duckdb"
    with pytest.raises(tracedb.IngestError), tracedb.open(path) as database:
        database.ingest([tmp_path / "missing.json"])
    assert_nothing_written(tmp_path)


def test_a_file_can_be_opened_by_duckdb_1_5(ingested: Ingested) -> None:
    """The file's storage version is one that DuckDB 1.5 reads."""
    path = ingested(SAMPLES / "dlrm_cpu")
    with duckdb.connect(path, read_only=True) as connection:
        tags = connection.execute(
            "SELECT tags FROM duckdb_databases() WHERE database_name = ?", [path.stem]
        ).fetchall()
    assert tags[0][0]["storage_version"].startswith("v1.5.0")


def test_a_large_database_is_rebuilt_whole(tmp_path: Path) -> None:
    """More rows than a row group survive a rebuild (DuckDB loses uncommitted ones)."""
    path = tmp_path / "run.duckdb"
    count = 130_000
    with tracedb.open(path) as database:
        events = [EVENT | {"ts": 3 * n} for n in range(count)]
        with ingests_until("raw"):
            database.ingest([write(tmp_path / "a.json", *events)])
        database.connection.execute(
            "UPDATE raw.database SET value = 'old' WHERE property = 'fingerprint'"
        )
    with tracedb.open(path) as database:
        query = "SELECT count(*), count(DISTINCT op_id) FROM staging.op"
        assert rows(database, query) == [(count, count)]


def test_a_database_of_another_version_is_rebuilt(
    tmp_path: Path, ingested: Ingested
) -> None:
    """Opening for writing recomputes all above raw; read only says what to do.

    Columns and tables added to the raw layer later are created without loss. Columns
    that are gone, of tables without rows, do not remain.
    """
    path = shutil.copy(ingested(SAMPLES / "generated_gpu"), tmp_path / "run.duckdb")
    with tracedb.open(path) as database:
        before = counts(database)
        for change in (
            "DROP TABLE critical_path.measured_interval CASCADE",
            "ALTER TABLE raw.trace DROP COLUMN step_mark",
            "DROP TABLE raw.pairing",
            "DROP TABLE reference.scenario_bound",
            "CREATE TABLE reference.scenario_bound AS SELECT 1 AS run_id LIMIT 0",
            "UPDATE raw.database SET value = 'old' WHERE property = 'fingerprint'",
        ):
            database.connection.execute(change)
    with pytest.raises(tracedb.DatabaseError, match="tracedb upgrade"):
        tracedb.open(path, read_only=True)
    with tracedb.open(path) as database:
        assert counts(database) == before
        assert rows(database, "SELECT DISTINCT step_mark FROM raw.trace") == [(None,)]
        assert rows(database, "SELECT count(*) FROM raw.pairing") == [(0,)]
        bound = database.relation("reference.scenario_bound")
        assert bound.columns == [*catalog.find("reference.scenario_bound").columns]


@pytest.mark.parametrize("is_read_only", [True, False])
@pytest.mark.parametrize("version", ["0.10.0", "99", "1.0rc1"])
def test_a_database_of_a_newer_version_is_left_as_it_is(
    tmp_path: Path, ingested: Ingested, version: str, *, is_read_only: bool
) -> None:
    """A rebuild would lose what only the newer version knows."""
    path = tmp_path / "run.duckdb"
    shutil.copy(ingested(SAMPLES / "loop_cpu"), path)
    with tracedb.open(path) as database:
        database.connection.execute(
            "UPDATE raw.database SET value = "
            f"CASE property WHEN 'version' THEN '{version}' ELSE 'new' END"
        )
    before = path.read_bytes()
    with pytest.raises(tracedb.DatabaseError, match=f"written by tracedb {version}, "):
        tracedb.open(path, read_only=is_read_only)
    assert path.read_bytes() == before


def test_another_file_is_not_a_database(tmp_path: Path) -> None:
    """A trace given as the database is left as it is."""
    file = write(tmp_path / "a.json", EVENT)
    before = file.read_bytes()
    with pytest.raises(tracedb.DatabaseError, match="not a database"):
        tracedb.open(file)
    assert file.read_bytes() == before
