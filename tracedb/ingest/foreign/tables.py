"""Read tables of a profiler's database: a SQLite file or a folder of Parquet files."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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


class Within(NamedTuple):
    """Rows by bits of an integer column: those with one of the values, or others."""

    column: str
    shift: int
    mask: int
    values: frozenset[int]
    is_in: bool


class Tables(Protocol):
    """Tables by name; a missing table has no rows."""

    def names(self) -> frozenset[str]:
        """The names of the tables."""

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table."""

    def rows(
        self, table: str, within: Within | None = None, **equal: object
    ) -> Iterator[Row]:
        """The rows of a table, optionally only those with the given values."""

    def extents(self, table: str, *keys: str) -> Iterator[Row]:
        """The first `start` and the last `end` of each combination of the keys."""


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

    def rows(
        self, table: str, within: Within | None = None, **equal: object
    ) -> Iterator[Row]:
        if table in self.names():
            yield from self._read(table, within, **equal)

    def extents(self, table: str, *keys: str) -> Iterator[Row]:
        listed = ", ".join(map(_quoted, keys))
        query = (
            f'SELECT {listed}, min("start") AS first, max("end") AS last '
            f"FROM {_quoted(table)} GROUP BY {listed}"
        )
        yield from self._counted(table, query, [])

    def _read(
        self, table: str, within: Within | None = None, **equal: object
    ) -> Iterator[Row]:
        chosen = {name: _listed(value) for name, value in equal.items()}
        conditions = "".join(
            f" AND {_quoted(name)} IN ({', '.join('?' * len(values))})"
            for name, values in chosen.items()
        )
        given = [value for values in chosen.values() for value in values]
        if within is not None:
            conditions += f" AND {_bits_in(within)}"
            given += within.values
        query = f"SELECT * FROM {_quoted(table)} WHERE TRUE{conditions}"
        yield from self._counted(table, query, given)

    def _counted(self, table: str, query: str, given: list[object]) -> Iterator[Row]:
        """The rows of a query; errors say after how many it failed."""
        count = 0
        try:
            cursor = self._connection.execute(query, given)
            names = [name for name, *_ in cursor.description]
            for values in cursor:
                yield dict(zip(names, values, strict=True))
                count += 1
        except _UNREADABLE as error:
            raise self._broken(table, count, error) from error

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

    def rows(
        self, table: str, within: Within | None = None, **equal: object
    ) -> Iterator[Row]:
        if table not in self.names():
            return
        chosen = {name: _listed(value) for name, value in equal.items()}
        for row in self._read(table, within):
            if all(row[name] in values for name, values in chosen.items()):
                yield row

    def extents(self, table: str, *keys: str) -> Iterator[Row]:
        import pyarrow as pa

        columns = [*keys, "start", "end"]
        bounds = [("start", "min"), ("end", "max")]
        try:
            whole = self._file(table).read(columns)
            found = whole.group_by([*keys]).aggregate(bounds)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._broken(table, 0, error) from error
        yield from found.rename_columns([*keys, "first", "last"]).to_pylist()

    def _read(self, table: str, within: Within | None) -> Iterator[Row]:
        import pyarrow as pa

        count = 0
        try:
            for batch in self._file(table).iter_batches(_BATCH):
                yield from _chosen(batch, within).to_pylist()
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


def _bits_in(within: Within) -> str:
    """A condition on bits, with places for the values."""
    bits = f"({_quoted(within.column)} >> {within.shift}) & {within.mask}"
    marks = ", ".join("?" * len(within.values))
    return f"coalesce({bits}, -1) {'' if within.is_in else 'NOT '}IN ({marks})"


def _chosen(batch: Any, within: Within | None) -> Any:  # noqa: ANN401 (pyarrow ships no types)
    """The rows of a batch with the wanted bits."""
    if within is None:
        return batch
    import pyarrow as pa
    from pyarrow import compute

    number = batch.column(within.column).cast(pa.int64(), safe=False)
    bits = compute.bit_wise_and(compute.shift_right(number, within.shift), within.mask)
    is_in = compute.is_in(bits, pa.array(sorted(within.values), pa.int64()))
    return batch.filter(is_in if within.is_in else compute.invert(is_in))


def _listed(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
