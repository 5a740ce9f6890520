"""Measured kernel times: Parquet files of our own, and public data (`public.py`).

One row per measured kernel or op on one device. A Parquet file says in its metadata
`tracedb.measurements` which version of the format it has.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tracedb.errors import MeasurementError

from .families import COLUMNS, FAMILIES
from .public import reader_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

VERSION = "1"
METADATA = b"tracedb.measurements"
TEXTS = ("device", "software", "source", "measured", "family", "op", "dtype")
TIMES = ("time_ns", "low_ns", "high_ns")
SCHEMA = (
    dict.fromkeys(TEXTS, pl.String)
    | dict.fromkeys(COLUMNS, pl.Int64)
    | dict.fromkeys(TIMES, pl.Float64)
    | {"repeats": pl.Int64, "file": pl.String}
)
_NEEDED = (*TEXTS, "time_ns")
_KINDS = ("kernel", "op")


@dataclass(frozen=True)
class Measurements:
    """Rows of `SCHEMA`, the files that they are from, and what was left out."""

    frame: pl.DataFrame
    files: dict[str, str]
    """Name and SHA-256 of each file."""
    dropped: dict[str, int]
    """Rows that were dropped, by file and reason."""
    skipped: tuple[str, ...]
    """Files of folders that hold no measurements."""


def read_measurements(paths: Sequence[str | Path]) -> Measurements:
    """Read files, and folders with all files below that hold measurements.

    Raises `MeasurementError` for a file that is given by its name and holds none, for a
    broken one, and where there is nothing at all.
    """
    frames: list[pl.DataFrame] = []
    files: dict[str, str] = {}
    dropped: dict[str, int] = {}
    skipped: list[str] = []
    for path, is_named in _files(paths):
        try:
            frame, left_out = _read(path)
        except _UnknownFormatError as error:
            if is_named:
                raise MeasurementError(str(error)) from error
            skipped.append(path.name)
            continue
        frames.append(frame)
        files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        dropped |= {f"{path.name}: {why}": count for why, count in left_out.items()}
    if not frames:
        names = ", ".join(map(str, paths))
        raise MeasurementError(
            f"{names}: no measurements; `tracedb microbench` writes some"
        )
    return Measurements(pl.concat(frames), files, dropped, tuple(skipped))


class _UnknownFormatError(Exception):
    """A file holds something else than measurements."""


def _files(paths: Sequence[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Each file, and whether it was named rather than found in a folder."""
    for path in map(Path, paths):
        if path.is_dir():
            found = (p for p in path.rglob("*") if p.is_file() and _is_table(p))
            yield from ((file, False) for file in sorted(found))
        elif path.exists():
            yield path, True
        else:
            raise MeasurementError(f"{path}: no such file or folder")


def _is_table(path: Path) -> bool:
    return path.name.endswith((".parquet", ".csv", ".csv.gz"))


def _read(path: Path) -> tuple[pl.DataFrame, dict[str, int]]:
    frame, dropped = _read_parquet(path) if _is_parquet(path) else _read_public(path)
    frame = _complete(frame.with_columns(file=pl.lit(path.name)), path)
    is_time = pl.col("time_ns").is_finite() & (pl.col("time_ns") > 0)
    kept = frame.filter(is_time.fill_null(value=False))
    if frame.height > kept.height:
        dropped["no time"] = frame.height - kept.height
    return kept, dropped


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1" or path.suffix == ".parquet"


def _read_parquet(path: Path) -> tuple[pl.DataFrame, dict[str, int]]:
    try:
        with pq.ParquetFile(path) as file:
            table, metadata = file.read(), file.metadata.metadata or {}
    except (pa.ArrowException, OSError) as error:
        line = str(error).splitlines()[0]
        raise MeasurementError(
            f"{path}: no Parquet file, or cut off: {line}"
        ) from error
    version = metadata.get(METADATA)
    if version is None and set(_NEEDED) <= set(table.column_names):
        raise MeasurementError(
            f"{path}: measurements that another tool has rewritten, without the "
            f"version of their format: give the file as `tracedb microbench` wrote it, "
            f"or, if only rows changed, put {METADATA.decode()} = {VERSION} back into "
            "its metadata: polars' write_parquet(..., metadata="
            f"{{'{METADATA.decode()}': '{VERSION}'}})"
        )
    if version is None:
        raise _UnknownFormatError(
            f"{path}: a Parquet file, but no measurements; `tracedb microbench` writes "
            "some"
        )
    if version.decode() != VERSION:
        raise MeasurementError(
            f"{path}: measurements of version {version.decode()}; this tracedb reads "
            f"version {VERSION}: measure again, or use the tracedb that wrote it"
        )
    frame = pl.from_arrow(table)
    return pl.DataFrame(frame), {}


def _read_public(path: Path) -> tuple[pl.DataFrame, dict[str, int]]:
    try:
        text = (
            gzip.decompress(stored) if _is_gzip(stored := path.read_bytes()) else stored
        )
        file = pl.read_csv(text, infer_schema_length=None)
    except (OSError, EOFError, pl.exceptions.PolarsError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise MeasurementError(f"{path}: cannot be read as CSV: {line}") from error
    reader = reader_of(frozenset(file.columns))
    if reader is None:
        shown = ", ".join(file.columns[:8])
        raise _UnknownFormatError(
            f"{path}: no format of public measurements has the columns {shown}; "
            "docs/kernels.md lists the formats"
        )
    return reader.read(file)


def _is_gzip(stored: bytes) -> bool:
    return stored[:2] == b"\x1f\x8b"


def _complete(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The rows with all columns of `SCHEMA` in their types, checked."""
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise MeasurementError(f"{path}: measurements lack column {', '.join(missing)}")
    absent = [pl.lit(None).alias(n) for n in SCHEMA if n not in frame.columns]
    try:
        whole = frame.with_columns(absent).select(*SCHEMA).cast(pl.Schema(SCHEMA))
    except pl.exceptions.PolarsError as error:
        line = str(error).splitlines()[0]
        raise MeasurementError(f"{path}: a column has a wrong type: {line}") from error
    whole = whole.with_columns(pl.col(TEXTS).fill_null(""))
    _check(whole, "family", FAMILIES, path)
    _check(whole, "measured", _KINDS, path)
    return whole


def _check(frame: pl.DataFrame, column: str, known: Iterable[str], path: Path) -> None:
    """Refuse values that are not known, the first with its row."""
    wrong = frame.with_row_index("row", 1).filter(
        ~pl.col(column).is_in(list(known)).fill_null(value=False)
    )
    if wrong.height:
        first = wrong.row(0, named=True)
        raise MeasurementError(
            f"{path}: row {first['row']}: {column} is {first[column]!r}; "
            f"it must be one of {', '.join(known)}"
        )
