"""Open selected traces of a lake as a database with all relations.

Their rows are copied into a database file in the user's cache folder, which later calls
for the same traces reuse. Rows are copied unchanged, because ids are unique in a lake.
For a run with one selected trace, the stored rows are complete; for several, layers
from `graph` upwards are computed, as an ingest of all of them would.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

import tracedb
from tracedb import template
from tracedb.database import Database
from tracedb.duck import bounded_memory, transaction
from tracedb.errors import LakeError
from tracedb.ingest import default_memory, join
from tracedb.lake import packing
from tracedb.lake.manifest import Manifest
from tracedb.lake.place import NOTHING
from tracedb.lake.storage import GoneError, storage
from tracedb.lake.worker import fingerprint, kept
from tracedb.outputs import written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from tracedb.lake.manifest import Entry
    from tracedb.lake.place import Place
    from tracedb.lake.storage import Storage

MOST_TRACES = 512
"""Most traces in one database; questions of the fleet have no limit."""
_ALONE = ("raw", "reference", "staging")
"""Layers whose rows do not depend on other traces of the run."""
_MOST_NAMES = 8
_INFO = {
    "trace_id": "Int64",
    "run": "String",
    "rank": "Int64",
    "format": "String",
    "event_count": "Int64",
    "path": "String",
    "issue": "String",
}


def opened(place: Place, *, allow_files: bool = False) -> Database:
    """Open the traces of a place in a lake, read-only.

    Raises `LakeError` if there are none, too many, or some of another version.
    """
    try:
        path = _database(place)
    except (duckdb.IOException, GoneError):
        # A partition was replaced in the meantime: try again with the new one.
        path = _database(place)
    except duckdb.InvalidInputException as error:
        raise damaged(error) from error
    database = Database(path, read_only=True, allow_files=allow_files)
    database.path, database.is_of_lake = str(place), True
    return database


def damaged(error: duckdb.Error) -> LakeError:
    """The error for an unreadable Parquet file."""
    line = str(error).partition("\n")[0].partition(": ")[2]
    return LakeError(f"{line}: damaged; delete that file, and ingest its trace again")


def info(place: Place) -> pl.DataFrame:
    """The files of a place, by number: those in the lake, and those that failed.

    For the latter, `issue` has the reason, and unknown columns are NULL.
    """
    import polars as pl

    manifest = Manifest(place.root)
    rows: list[tuple[int | str | None, ...]] = [
        (e.number, e.run, e.rank, e.format, e.event_count, e.source, None)
        for e in manifest.entries()
        if place.has(e.run, e.rank)
    ]
    rows += [
        (f.number, f.run, None, None, None, f.source, f.detail)
        for f in manifest.failures()
        if place.has(f.run, None)
    ]
    schema = {name: getattr(pl, type_) for name, type_ in _INFO.items()}
    return pl.DataFrame(rows, schema, orient="row").sort("trace_id", "issue")


def chosen(place: Place) -> list[Entry]:
    """The traces of a place.

    Raises `LakeError` if there are none, or some of another version.
    """
    entries = Manifest(place.root).entries()
    found = [entry for entry in entries if place.has(entry.run, entry.rank)]
    if not found:
        raise LakeError(f"{place}: no such trace; {_there(place, entries)}")
    old = [e for e in found if e.fingerprint != fingerprint()]
    if old:
        raise LakeError(
            f"{place}: {len(old)} of {len(found)} traces, such as {old[0].source}, "
            "were written by another version of tracedb; ingest them again"
        )
    return found


def _order(rank: int | None) -> int:
    return -1 if rank is None else rank


def _there(place: Place, entries: Sequence[Entry]) -> str:
    """The available ranks of the run, or if it does not exist, the runs."""
    of_run = replace(place, rank="*")
    ranks = sorted({e.rank for e in entries if of_run.has(e.run, e.rank)}, key=_order)
    if ranks and place.run != "*":
        names = [NOTHING if rank is None else str(rank) for rank in ranks]
        kind = "the ranks of that run are"
    else:
        names, kind = sorted({entry.run for entry in entries}), "the runs are"
    named = ", ".join(names[:_MOST_NAMES]) + (", ..." * (len(names) > _MOST_NAMES))
    return f"{kind} {named}" if names else "the lake is empty"


def _database(place: Place) -> Path:
    """The database file of the traces, created if missing."""
    entries = chosen(place)
    if len(entries) > MOST_TRACES:
        raise LakeError(
            f"{place}: {len(entries):,} traces, but a database takes at most "
            f"{MOST_TRACES}; select fewer: {place.root}/run=NAME, or "
            f"{place.root}/run=NAME/rank=N"
        )
    parts = [
        duckdb.__version__,
        fingerprint(),
        *(f"{e.run_id} {e.partition}" for e in entries),
    ]
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    path = template.folder().with_name("lakes") / f"{name}.duckdb"
    if path.exists():
        path.touch()
        return path
    with (
        written(path, LakeError) as beside,
        tracedb.open(beside, allow_files=True) as database,
        bounded_memory(database.connection, default_memory()),
    ):
        _fill(database.connection, storage(place.root), entries)
    template.keep_newest(path.parent)
    return path


def _fill(
    connection: duckdb.DuckDBPyConnection, lake: Storage, entries: Sequence[Entry]
) -> None:
    """Copy the rows of traces into an empty database."""
    sizes = Counter(entry.run_id for entry in entries)
    runs = sorted({(entry.run_id, entry.run) for entry in entries})
    with transaction(connection):
        connection.executemany("INSERT INTO raw.run VALUES (?, ?)", runs)
        for is_alone in (True, False):
            own = [e for e in entries if (sizes[e.run_id] == 1) == is_alone]
            wanted = [
                one.full_name for one in kept() if is_alone or one.layer in _ALONE
            ]
            _load(connection, lake, own, wanted)
    several = [entry.number for entry in entries if sizes[entry.run_id] > 1]
    if several:
        join(connection, several)


def _load(
    connection: duckdb.DuckDBPyConnection,
    lake: Storage,
    entries: Sequence[Entry],
    wanted: Sequence[str],
) -> None:
    """Copy the traces' rows of the wanted relations into their tables."""
    alone: dict[str, list[str]] = {}
    packs: list[str] = []
    packed: set[str] = set()
    for entry in entries:
        for file, relations in entry.files.items():
            name = f"{entry.partition}/{file}"
            if file == packing.SMALL:
                packs.append(name)
                packed.update(relations)
            elif relations[0] in wanted:
                alone.setdefault(relations[0], []).append(name)
    names = [*packs, *(name for names in alone.values() for name in names)]
    with lake.at_hand(names) as paths:
        both = [name for name in wanted if name in packed]
        if both:
            columns = ", ".join(map(packing.column_of, both))
            source = packing.files(
                [paths[name] for name in packs], "union_by_name = true"
            )
            # All at once: opening a file with so many columns takes longest.
            query = f"CREATE TEMP TABLE pack AS SELECT {columns} FROM {source}"
            connection.execute(query)
        for name in wanted:
            into = f"INSERT INTO {name} BY NAME"
            if name in alone:
                source = packing.files([paths[n] for n in alone[name]])
                connection.execute(f"{into} FROM {source}")
            if name in packed:
                connection.execute(f"{into} {packing.unpacked(name, 'pack')}")
        connection.execute("DROP TABLE IF EXISTS temp.pack")
