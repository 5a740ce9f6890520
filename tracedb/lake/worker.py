"""The work of a worker: ingest one file, and write its rows to the lake.

The file is ingested with all layers into its own database. Relations with rows are
written as Parquet files, small ones to one file (`packing.py`), and moved to the lake
as a folder (`storage.py`), which counts once the manifest lists it. A worker may die at
any moment: a retry finds either a complete result or none.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from typing import TYPE_CHECKING, Literal

import msgspec

import tracedb
from tracedb import catalog, ingest, remote
from tracedb.duck import literal, one_thread, own_errors, scalar
from tracedb.errors import LakeError, TracedbError
from tracedb.ingest.files import Source, digest
from tracedb.lake import packing
from tracedb.lake.manifest import Entry, Failure, Manifest, numbers_of
from tracedb.lake.place import partition

if TYPE_CHECKING:
    import duckdb

    from tracedb.lake.storage import Storage


class Task(msgspec.Struct, frozen=True):
    """A file to ingest into a lake."""

    root: str
    """The folder or URI of the lake."""
    job: str
    """The name of the job (`Storage.job`)."""
    memory: int
    """[B] The memory limit."""
    number: int = 0
    run: str = ""
    run_id: int = 0
    path: bytes = b""
    """The path or URI of the file, as bytes, because names need not be text."""
    source: str = ""
    """Its name in the manifest."""
    is_named: bool = True
    """Whether the user named it; files found in folders need not be traces."""
    why_not: str = ""
    """Why it is skipped, if known."""
    part: int | None = None
    """The process whose trace it is, of a file with several."""
    step_mark: str | None = None
    step_from: str | None = None
    one_step: bool = False
    mapping: dict[str, str] = {}

    @property
    def made_with(self) -> str:
        """What determines its rows besides the file: `fingerprint` and options."""
        mapping = sorted(self.mapping.items())
        options = (self.step_mark, self.step_from, mapping, self.one_step)
        if not any(options):
            return fingerprint()
        digest = hashlib.sha256(f"{fingerprint()} {options}".encode()).hexdigest()
        return f"{fingerprint()}-{digest[:16]}"


OUTCOMES = ("new", "known", "skipped", "failed")


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a file."""

    number: int
    source: str
    kind: Literal["new", "known", "skipped", "failed"]
    detail: str = ""
    """Why it was skipped or failed."""
    sha256: str = ""
    event_count: int = 0

    def __str__(self) -> str:
        """A line for people."""
        more = f": {self.detail}" if self.detail else ""
        events = f", {self.event_count:,} events" if self.event_count else ""
        return f"{self.source}: {self.kind}{events}{more}"


def work(task: Task) -> Outcome:
    """Ingest a file into the lake, unless it is there; never raises for a bad file.

    A failure is stored in the manifest.
    """
    if task.why_not:
        return Outcome(task.number, task.source, "skipped", task.why_not)
    try:
        manifest = Manifest(task.root)
        beside = manifest.storage.scratch(task.job)
        with own_errors(), TemporaryDirectory(dir=beside) as scratch:
            return _work(task, manifest, Path(scratch))
    except TracedbError as error:
        why = str(error).removeprefix(f"{task.source}: ")
        return failed(task, why)


def failed(task: Task, why: str) -> Outcome:
    """Store a failure, if the lake is writable."""
    try:
        Manifest(task.root).fail(Failure(task.number, task.run, task.source, why))
    except TracedbError as error:
        why = f"{why}; this could not be recorded either: {error}"
    return Outcome(task.number, task.source, "failed", why)


def _work(task: Task, manifest: Manifest, scratch: Path) -> Outcome:
    place = os.fsdecode(task.path)
    path = Path(place)
    if remote.is_remote(place):
        path = remote.fetched(place, scratch / "source")
    source = Source(
        task.source, path, task.is_named, mapping=task.mapping, part=task.part
    )
    sha256 = digest(source)
    known = manifest.entry(sha256)
    if known is not None and _is_there(known, task, manifest.storage):
        other = "" if known.run == task.run else f"it is in run {known.run}"
        return Outcome(task.number, task.source, "known", other, sha256)
    lines: list[str] = []
    with tracedb.open(scratch / "trace.duckdb", allow_files=True) as db:
        new = ingest.ingest(
            db.connection,
            [source],
            run=task.run,
            pair=False,
            memory=task.memory,
            step_mark=task.step_mark,
            step_from=task.step_from,
            one_step=task.one_step,
            numbers=numbers_of(task.run_id, task.number),
            progress=lines.append,
        )
        if not new:
            why = "".join(lines[-1:]).partition(f"{task.source}: ")[2]
            why = why.removesuffix(f": {ingest.NO_TRACE}")
            return Outcome(task.number, task.source, "skipped", why)
        if len(new) > 1:
            raise LakeError(
                f"{task.source}: was merged from the traces of {len(new)} processes; a "
                "lake takes only a file of each"
            )
        entry = _put(db.connection, task, manifest.storage, scratch / "rows")
    manifest.commit(entry)
    return Outcome(
        *(task.number, task.source, "new"),
        sha256=entry.sha256,
        event_count=entry.event_count,
    )


def _is_there(known: Entry, task: Task, storage: Storage) -> bool:
    """Whether an entry equals the task's result, and none of its files is missing."""
    names = [f"{known.partition}/{file}" for file in known.files]
    return known.made_with == task.made_with and not storage.lacking(names)


def _put(
    connection: duckdb.DuckDBPyConnection, task: Task, storage: Storage, folder: Path
) -> Entry:
    """Write the rows of a trace's database, and move them to their place."""
    query = "SELECT rank, format, sha256, event_count FROM staging.trace"
    ((rank, format_, sha256, event_count),) = connection.execute(query).fetchall()
    name = f"{task.number}-{sha256[:12]}-{task.made_with[-8:]}"
    files = _write(connection, folder)
    place = storage.put(folder, partition(task.run, rank, name), task.job)
    return Entry(
        number=task.number,
        run=task.run,
        run_id=task.run_id,
        rank=rank,
        format=format_,
        source=task.source,
        sha256=sha256,
        event_count=event_count,
        partition=place,
        files=files,
        fingerprint=fingerprint(),
        options=task.made_with.partition("-")[2],
        written_ns=time_ns(),
    )


def kept() -> list[catalog.Relation]:
    """The relations that a lake keeps: all stored ones of a trace or run."""
    return [
        one
        for one in catalog.relations()
        if one.kind == "TABLE" and {"trace_id", "run_id"} & one.columns.keys()
        if one.full_name != "raw.run"
    ]


@cache
def contracted() -> tuple[catalog.Relation, ...]:
    """The small relations that a lake keeps per trace for questions of the fleet."""
    of_fleet = f"{catalog.FLEET}."
    return tuple(
        one
        for one in catalog.fleet()
        if one.query and not any(name.startswith(of_fleet) for name in one.reads)
    )


@cache
def fingerprint() -> str:
    """A digest of everything that determines the contents of a partition."""
    texts = [
        catalog.fingerprint(),
        *(one.statement for one in contracted()),
        packing.packed({"relation": "rows"}),
    ]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _write(
    connection: duckdb.DuckDBPyConnection, folder: Path
) -> dict[str, tuple[str, ...]]:
    """Write relations with rows, ordered by key, so that equal rows give equal bytes.

    Returns the relations in each file.
    """
    folder.mkdir()
    filled = catalog.what_is_empty(connection)
    small: dict[str, str] = {}
    files: dict[str, tuple[str, ...]] = {}
    with one_thread(connection):
        for one in kept():
            name, query = one.full_name, _in_order(one, f"FROM {one.full_name}")
            if not filled.has_rows(name):
                continue
            if scalar(connection, f"SELECT count(*) FROM {name}") > packing.MOST_ROWS:
                _copy(connection, query, folder / packing.file_of(name))
                files[packing.file_of(name)] = (name,)
            else:
                small[name] = query
        fleet = {
            one.full_name: _in_order(one, contraction(one)) for one in contracted()
        }
        for name, queries in ((packing.SMALL, small), (packing.FLEET, fleet)):
            _copy(connection, packing.packed(queries), folder / name)
            files[name] = (*queries,)
    return files


def _in_order(one: catalog.Relation, query: str) -> str:
    return f"FROM ({query}) ORDER BY {', '.join(one.key)}"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Write the rows of a query to a file."""
    to = f"{literal(str(path))} (FORMAT parquet, COMPRESSION zstd)"
    connection.execute(f"COPY ({query}) TO {to}")


def contraction(one: catalog.Relation) -> str:
    """The query on a trace's database for the rows that a lake keeps."""
    return f"SELECT * FROM (\n{one.query}\n) AS kept ({', '.join(one.columns)})"
