"""Read tables of a profiler's database: a SQLite file or a folder of Parquet files."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tracedb.ingest.foreign.event import Row

_MAGIC = b"SQLite format 3\0"
_PARQUET = ".parquet"
_BATCH = 20_000

# Damaged column names may not be UTF-8.
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)


class Tables(Protocol):
    """Tables by name; a missing table has no rows."""

    def names(self) -> frozenset[str]:
        """The names of the tables."""

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table."""

    def rows(self, table: str, **equal: object) -> Iterator[Row]:
        """The rows of a table, optionally only those with the given values."""


def table_names(path: Path, head: bytes, *, views: bool = False) -> frozenset[str]:
    """The tables of a SQLite file or a Parquet folder; empty if it is neither."""
    try:
        if path.is_dir():
            return _ParquetTables(path).names()
        if not head.startswith(_MAGIC):
            return frozenset()
        with opened(path, views=views) as tables:
            return tables.names()
    except (IngestError, OSError):
        return frozenset()


@contextmanager
def opened(path: Path, *, views: bool = False) -> Iterator[Tables]:
    """Open the tables of a SQLite file or a Parquet folder, read-only.

    SQLite views are included only with `views`, because a view can run forever.
    """
    if path.is_dir():
        yield _ParquetTables(path)
        return
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except (sqlite3.Error, OSError) as error:
        raise IngestError(f"{path}: cannot be opened: {error}") from error
    try:
        # Views call functions that the file names: allow none with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.text_factory = _decode
        yield _SqliteTables(path, connection, ("table", "view")[: 1 + views])
    finally:
        connection.close()


def _decode(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


class _SqliteTables:
    def __init__(
        self, path: Path, connection: sqlite3.Connection, kinds: tuple[str, ...]
    ) -> None:
        self._path = path
        self._connection = connection
        self._kinds = kinds

    def names(self) -> frozenset[str]:
        found = self._read("sqlite_master", type=self._kinds)
        return frozenset(str(row["name"]) for row in found)

    def columns(self, table: str) -> frozenset[str]:
        query = f"SELECT * FROM {_quoted(table)} LIMIT 0"
        try:
            cursor = self._connection.execute(query)
        except _UNREADABLE as error:
            raise self._broken(table, 0, error) from error
        return frozenset(name for name, *_ in cursor.description)

    def rows(self, table: str, **equal: object) -> Iterator[Row]:
        if table in self.names():
            yield from self._read(table, **equal)

    def _read(self, table: str, **equal: object) -> Iterator[Row]:
        count = 0
        try:
            for row in self._select(table, equal):
                yield row
                count += 1
        except _UNREADABLE as error:
            raise self._broken(table, count, error) from error

    def _select(self, table: str, equal: dict[str, object]) -> Iterator[Row]:
        chosen = {name: _listed(value) for name, value in equal.items()}
        conditions = "".join(
            f" AND {_quoted(name)} IN ({', '.join('?' * len(values))})"
            for name, values in chosen.items()
        )
        cursor = self._connection.execute(
            f"SELECT * FROM {_quoted(table)} WHERE TRUE{conditions}",
            [value for values in chosen.values() for value in values],
        )
        names = [name for name, *_ in cursor.description]
        for values in cursor:
            yield dict(zip(names, values, strict=True))

    def _broken(self, table: str, count: int, error: Exception) -> IngestError:
        reason = " ".join(str(error).split())
        return IngestError(
            f"{self._path}: table {table}, after row {count}: {reason}; the file is "
            "damaged or truncated; export it again"
        )


class _ParquetTables:
    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> frozenset[str]:
        files = self._path.glob(f"*{_PARQUET}")
        return frozenset(file.name.removesuffix(_PARQUET) for file in files)

    def columns(self, table: str) -> frozenset[str]:
        return frozenset(self._file(table).schema_arrow.names)

    def rows(self, table: str, **equal: object) -> Iterator[Row]:
        if table not in self.names():
            return
        chosen = {name: _listed(value) for name, value in equal.items()}
        for row in self._read(table):
            if all(row[name] in values for name, values in chosen.items()):
                yield row

    def _read(self, table: str) -> Iterator[Row]:
        import pyarrow as pa

        count = 0
        try:
            for batch in self._file(table).iter_batches(_BATCH):
                yield from batch.to_pylist()
                count += len(batch)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._broken(table, count, error) from error

    def _file(self, table: str) -> Any:  # noqa: ANN401 (pyarrow ships no types)
        import pyarrow as pa
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(self._path / f"{table}{_PARQUET}")
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._broken(table, 0, error) from error
        nested = [f.name for f in file.schema_arrow if pa.types.is_nested(f.type)]
        if nested:
            raise self._broken(table, 0, f"{nested[0]} is not a column of plain values")
        return file

    def _broken(self, table: str, count: int, error: object) -> IngestError:
        reason = " ".join(str(error).split())
        return IngestError(
            f"{self._path / table}{_PARQUET}: after row {count}: {reason}; the file is "
            "damaged or truncated; export it again"
        )


def _listed(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
