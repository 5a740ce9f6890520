"""A library file of overheads, learnt from some databases for predictions in others.

The file is Parquet: the rows of `question.portable_sample` of all databases, with the
format version under the metadata key `tracedb.overhead_library`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import tracedb
from tracedb import catalog, renamed
from tracedb.duck import one_line, registered, scalar
from tracedb.errors import LibraryError
from tracedb.outputs import written

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

FORMAT = "1"
_KEY = "tracedb.overhead_library"
_TABLE = "reference.library_sample"
_SUMMARY = f"""
SELECT
    gpu,
    count(DISTINCT run_sha256) AS run_count,
    count(DISTINCT trace_sha256) AS trace_count,
    count(DISTINCT (trace_sha256, step)) AS step_count,
    count(*) AS sample_count
FROM {_TABLE}
GROUP BY gpu
ORDER BY gpu
"""

_KEYS = "trace_sha256, thread, position"
# Conditions of an invalid library, by error.
_WRONG = {
    "it has no rows": "SELECT count(*) = 0",
    "a span of host time occurs twice": (
        f"SELECT count(*) > count(DISTINCT ({_KEYS}))"
    ),
    "a type is none of T1 to T5": (
        "SELECT NOT bool_and(type IN ('T1', 'T2', 'T3', 'T4', 'T5'))"
    ),
    "a duration is negative, or days long": (
        "SELECT NOT bool_and(sample_ns BETWEEN 0 AND 1e15)"
    ),
    "a number of a thread or step is below 1": "SELECT min(least(thread, step)) < 1",
    "an ordinal is outside its step": (
        "SELECT NOT bool_and(ordinal BETWEEN 0 AND ordinal_count - 1)"
    ),
}


def learn(sources: Iterable[str | Path], path: str | Path) -> pl.DataFrame:
    """Write the overheads of databases and older libraries into one library.

    A trace in several sources counts once. Returns the number of runs, traces, steps
    and samples by GPU. Raises `LibraryError` if there is nothing to learn, or if the
    file cannot be written or is something else; then it is unchanged.
    """
    if Path(path).exists() and _format(path) is None:
        raise LibraryError(
            f"{path}: exists and is not a library of overheads; choose another name"
        )
    with duckdb.connect() as connection:
        catalog.create_only(connection, _TABLE)
        for source in sources:
            _add(connection, Path(source))
        if not scalar(connection, f"SELECT count(*) FROM {_TABLE}"):
            raise LibraryError(
                "no steps in these databases, so there is nothing to learn"
            )
        _write(connection, Path(path))
        frame: pl.DataFrame = connection.sql(_SUMMARY).pl()
    return frame


def load(connection: duckdb.DuckDBPyConnection, path: str | Path) -> None:
    """Load a library into the empty `reference.library_sample` of a database.

    Raises `LibraryError` if the file is not a library.
    """
    with registered(connection, "sample", _samples(path)):
        connection.execute(f"INSERT INTO {_TABLE} FROM sample")


def medians(path: str | Path) -> dict[tuple[str, str], int]:
    """[ns] The median time of a library's spans, by type and name.

    Raises `LibraryError` if the file is not a library.
    """
    query = (
        "SELECT type, name, median(sample_ns)::BIGINT FROM sample "
        "GROUP BY type, name ORDER BY type, name"
    )
    with (
        duckdb.connect() as connection,
        registered(connection, "sample", _samples(path)),
    ):
        rows = connection.execute(query).fetchall()
    return {(kind, name): ns for kind, name, ns in rows}


def gpus_of(path: str | Path) -> list[str | None]:
    """The GPUs of the traces that a library was learnt from; None for an unknown GPU.

    Raises `LibraryError` if the file is not a library.
    """
    found = _samples(path)["gpu"].unique().to_pylist()
    return sorted(found, key=lambda gpu: (gpu is None, gpu))


def _samples(path: str | Path) -> pa.Table:
    """The checked rows of a library.

    It uses its own connection, because opened databases cannot read files
    (`tracedb.sandbox`).
    """
    check(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            samples = file.read()
        with duckdb.connect() as connection:
            catalog.create_only(connection, _TABLE)
            samples = _of_columns(connection, samples)
            with registered(connection, "sample", samples):
                connection.execute(f"INSERT INTO {_TABLE} FROM sample")
            _refuse_wrong(connection)
    except (pa.ArrowException, OSError, ValueError, duckdb.Error) as error:
        raise LibraryError(
            f"{path}: broken library: {one_line(error)}; learn it again"
        ) from error
    return samples


def _of_columns(connection: duckdb.DuckDBPyConnection, samples: pa.Table) -> pa.Table:
    """The rows with their table's columns in order; other columns are an error."""
    wanted = connection.sql(f"FROM {_TABLE}").to_arrow_table().schema
    new = renamed.KEPT_COLUMNS[_TABLE]
    samples = samples.rename_columns([new.get(n, n) for n in samples.column_names])
    if sorted(samples.column_names) != sorted(wanted.names):
        raise ValueError(f"its columns are {', '.join(samples.column_names)}")
    for column in wanted:
        kind = samples.schema.field(column.name).type
        if kind != column.type:
            raise ValueError(f"{column.name} is {kind}, not {column.type}")
    return samples.select(wanted.names)


def _refuse_wrong(connection: duckdb.DuckDBPyConnection) -> None:
    for what, query in _WRONG.items():
        if scalar(connection, f"{query} FROM {_TABLE}"):
            raise ValueError(what)


def check(path: str | Path) -> None:
    """Raise `LibraryError` if a file is not a library of this format."""
    if not os.path.isfile(path):  # noqa: PTH113 (it takes any text)
        raise LibraryError(
            f"{path}: no such file; `tracedb overheads learn` writes one"
        )
    found = _format(path)
    if found is None:
        raise LibraryError(
            f"{path}: not a library of overheads; `tracedb overheads learn` writes one"
        )
    if found != FORMAT:
        raise LibraryError(
            f"{path}: a library of format {found}, not {FORMAT}; learn it again with "
            "this version of tracedb"
        )


def _format(path: str | Path) -> str | None:
    """The format of a library; None for another file.

    Raises `LibraryError` for a broken Parquet file.
    """
    if not _is_parquet(Path(path)):
        return None
    query = "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?"
    with duckdb.connect() as connection:
        try:
            found = scalar(connection, query, [str(path), _KEY.encode()])
        except duckdb.Error as error:
            raise LibraryError(
                f"{path}: a broken or truncated Parquet file; copy it again"
            ) from error
    return None if found is None else bytes(found).decode(errors="replace")


def _add(connection: duckdb.DuckDBPyConnection, source: Path) -> None:
    """Add the samples of a database or a library, of new traces only."""
    if _is_parquet(source):
        samples = _samples(source)
    else:
        with tracedb.open(source, read_only=True) as database:
            query = "FROM question.portable_sample"
            samples = database.connection.sql(query).to_arrow_table()
    with registered(connection, "sample", samples):
        connection.execute(
            f"INSERT INTO {_TABLE} FROM sample "
            f"WHERE trace_sha256 NOT IN (SELECT trace_sha256 FROM {_TABLE})"
        )


def _is_parquet(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(4) == b"PAR1"
    return False


def _write(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    samples = connection.sql(f"FROM {_TABLE} ORDER BY ALL").to_arrow_table()
    known = {_KEY: FORMAT, "tracedb.version": tracedb.__version__}
    with written(path, LibraryError) as beside:
        pq.write_table(
            samples.replace_schema_metadata(known),
            beside,
            compression="zstd",
            write_page_checksum=True,
        )
