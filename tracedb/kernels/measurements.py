"""Measured kernel times: Parquet files of our own, and public data (`public.py`).

One row per measured kernel or op on one device. A Parquet file says in its metadata
`tracedb.measurements` which version of the format it has.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracedb.duck import one_line
from tracedb.errors import MeasurementError

from .dtypes import known_types
from .families import COLUMNS, FAMILIES
from .public import reader_of
from .quantised import products
from .work import Op, absent_sizes, complete, shapes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

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
_MOST_NS = 1e15
_MOST_SIZE = 1 << 50
_TOO_LARGE = 2.0**63
_MOST_BYTES = 1 << 30
"""Of a public file's text: a hundred times those of the largest that there are."""
_ROW = "_row"
_OF_CURVE = ("device", "software", "op", "ranks", "ranks_per_node")
_STALLED = 2
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff")
_POINTER = "version https://git-lfs.github.com/spec/v1"


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
    broken one, and where there is nothing at all. Rows without a time or a shape are
    dropped and counted.
    """
    frames: list[pl.DataFrame] = []
    files: dict[str, str] = {}
    dropped: dict[str, int] = {}
    skipped: list[str] = []
    found = [*_files(paths)]
    often = Counter(path.name for path, _ in found)
    for path, is_named in found:
        # Projects have many files of one name, in folders that say what they are of.
        name = path.name if often[path.name] == 1 else str(path)
        try:
            frame, left_out = _read(path, name)
        except _UnknownFormatError as error:
            if is_named:
                raise MeasurementError(str(error)) from error
            skipped.append(name)
            continue
        frames.append(frame)
        files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        dropped |= {f"{name}: {why}": count for why, count in left_out.items()}
    if not any(frame.height for frame in frames):
        names = ", ".join(map(str, paths))
        why = ", ".join(f"{count:,} rows of {what}" for what, count in dropped.items())
        raise MeasurementError(
            f"{names}: no measurements{why and f' (dropped are {why})'}; "
            "`tracedb microbench` writes some"
        )
    whole = products(pl.concat(frames))
    kept = whole.filter(pl.col("time_ns") >= 1)
    if whole.height > kept.height:
        dropped["no longer than quantising alone"] = whole.height - kept.height
    return Measurements(kept, files, dropped, tuple(skipped))


class _UnknownFormatError(Exception):
    """A file holds something else than measurements."""


def _files(paths: Sequence[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Each file, and whether it was named rather than found in a folder."""
    for path in map(Path, paths):
        try:
            mode = path.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise MeasurementError(f"{path}: cannot be read: {reason}") from error
        if not S_ISDIR(mode.st_mode):
            yield path, True
            continue
        found = (p for p in path.rglob("*") if p.is_file() and _is_table(p))
        yield from ((file, False) for file in sorted(found))


def _is_table(path: Path) -> bool:
    return path.name.endswith((".parquet", ".csv", ".csv.gz"))


def _read(path: Path, name: str) -> tuple[pl.DataFrame, dict[str, int]]:
    frame, dropped = _read_parquet(path) if _is_parquet(path) else _read_csv(path)
    frame = _complete(frame.with_columns(file=pl.lit(name)), path)
    timed = frame.filter(_is_time("time_ns")).with_columns(
        pl.when(_is_time(name)).then(name).alias(name) for name in TIMES[1:]
    )
    shaped = _with_shapes(timed)
    kept = _without_stalls(shaped)
    for why, count in (
        ("no time, or none from 1 ns to 11 days", frame.height - timed.height),
        ("no shape, or an impossible one", timed.height - shaped.height),
        (
            f"{_STALLED} times as long as a larger message and more",
            shaped.height - kept.height,
        ),
    ):
        if count:
            dropped[why] = count
    return kept, dropped


def _is_time(column: str) -> pl.Expr:
    return pl.col(column).is_between(1, _MOST_NS)


def _with_shapes(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that have what their family needs, and something to do."""
    sizes = [pl.col(name).is_between(0, _MOST_SIZE) for name in COLUMNS]
    bounded = frame.filter(pl.all_horizontal(sizes).fill_null(value=True))
    whole = [
        rows.filter(_has_work(rows, Op(str(family), str(op), str(dtype))))
        for (family, op, dtype), of_op in bounded.with_row_index(_ROW).group_by(
            "family", "op", "dtype"
        )
        if not (rows := complete(FAMILIES[str(family)], of_op)).is_empty()
    ]
    return pl.concat(whole).sort(_ROW).drop(_ROW) if whole else frame.clear()


def _without_stalls(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows without messages that larger ones, sent in their place, would beat.

    Some wait for links that are set up, or for another job: 939 us among 7 and 20, 45
    among 15. Two neighbours say so, for one that is wrong by itself could be too short.
    Of aiconfigurator's 8,456 rows, which are steady, 4 are such: protocols change.
    """
    numbered = frame.with_row_index(_ROW)
    messages = numbered.filter(pl.col("family") == "collective")
    if messages.is_empty():
        return frame
    descending = messages.sort("bytes", descending=True, maintain_order=True)
    time = pl.col("time_ns")
    slower = pl.when(time.shift() > time).then(time.shift()).otherwise(time)
    pair = pl.when(time.shift().is_not_null()).then(slower)
    least = pair.cum_min().over(_OF_CURVE)
    stalled = descending.filter(time >= _STALLED * least)
    return numbered.join(stalled, on=_ROW, how="anti").drop(_ROW)


def _has_work(rows: pl.DataFrame, op: Op) -> pl.Series:
    """Which rows of an op read or write, as much as can be counted."""
    shapes = shapes_of(FAMILIES[op.family], rows, op)
    counts = (shapes["flops"] + 1, shapes.moved_bytes, shapes.footprint_bytes)
    return pl.Series(np.all([(n > 0) & np.isfinite(n) for n in counts], axis=0))


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1" or path.suffix == ".parquet"


def _read_parquet(path: Path) -> tuple[pl.DataFrame, dict[str, int]]:
    # Models predict without them, and a small ingest would wait for their import.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table, metadata = file.read(), file.metadata.metadata or {}
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise MeasurementError(
            f"{path}: not a Parquet file, or truncated: {line}"
        ) from error
    version = metadata.get(METADATA)
    if version is None and set(_NEEDED) <= set(table.column_names):
        raise MeasurementError(
            f"{path}: rewritten by another tool, without the format version: give the "
            "file as `tracedb microbench` wrote it, or, if only rows changed, put "
            f"{METADATA.decode()} = {VERSION} back into its metadata: polars' "
            f"write_parquet(..., metadata={{'{METADATA.decode()}': '{VERSION}'}})"
        )
    if version is None:
        return _read_public(path, _of_arrow(path, table))
    if version != VERSION.encode():
        raise MeasurementError(
            f"{path}: measurements of version {version.decode(errors='replace')}; this "
            f"tracedb reads version {VERSION}: measure again, or use the tracedb that "
            "wrote it"
        )
    return _of_arrow(path, table), {}


def _of_arrow(path: Path, table: pa.Table) -> pl.DataFrame:
    try:
        return pl.DataFrame(pl.from_arrow(table))
    except pl.exceptions.PolarsError as error:
        raise MeasurementError(f"{path}: {one_line(error)}") from error


def _read_csv(path: Path) -> tuple[pl.DataFrame, dict[str, int]]:
    text = b""
    try:
        text = _text_of(path)
        file = pl.read_csv(text, infer_schema_length=None)
    except (OSError, EOFError, zlib.error, pl.exceptions.PolarsError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise MeasurementError(
            f"{path}: cannot be read as CSV: {_no_csv(text) or line}"
        ) from error
    if file.is_empty() or _UTF_16.match(text):
        raise _UnknownFormatError(
            f"{path}: {_no_csv(text) or 'a table without rows'}; docs/kernels.md lists "
            "the formats"
        )
    return _read_public(path, file)


def _no_csv(text: bytes) -> str:
    """Why a text is no CSV, and where; empty if that cannot be told."""
    if _UTF_16.match(text):
        return "its text is UTF-16; save it as UTF-8"
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8 text"
    if text.lstrip()[:1] in (b"{", b"["):
        return "it is JSON, not a table; `tracedb ingest` reads traces"
    try:
        counts = [len(fields) for fields in csv.reader(lines)]
    except csv.Error as error:
        return str(error)
    for number, count in enumerate(counts, 1):
        if count > counts[0]:
            return f"line {number} has {count} fields, the first line {counts[0]}"
    return ""


def _read_public(path: Path, file: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """The measurements of a table that some project made."""
    # Imported here: models are trained from such files, and predict without them.
    from .published import Place, plain, published_of

    reader, plainly = reader_of(frozenset(file.columns)), plain(file)
    published = published_of(plainly.columns)
    found = None
    try:
        if reader is not None:
            found = reader.read(file)
        elif published is not None:
            found = published.read(plainly, Place.of(path))
        if found is not None:
            _check_types(found[0], path)
    except (pl.exceptions.PolarsError, MeasurementError) as error:
        text = _text_in(file)
        if text:
            raise MeasurementError(f"{path}: {text}") from error
        if isinstance(error, MeasurementError):
            raise
        raise _wrong_type(path, one_line(error)) from error
    if found is not None:
        return _named(path, *found)
    if file.columns[:1] == [_POINTER]:
        raise _UnknownFormatError(
            f"{path}: a Git LFS pointer, not the file; fetch it with `git lfs pull`"
        )
    shown = ", ".join(file.columns[:8])
    raise _UnknownFormatError(
        f"{path}: the columns {shown} match no known format; docs/kernels.md lists the "
        "formats"
    )


def _text_in(file: pl.DataFrame) -> str:
    """The first text in a column of numbers, with its row; empty if there is none."""
    for column in file.select(pl.col(pl.String)).iter_columns():
        numbers = column.cast(pl.Float64, strict=False)
        wrong = numbers.is_null() & column.is_not_null()
        if wrong.any() and numbers.is_not_null().any():
            row = int(wrong.arg_max() or 0)
            return (
                f"row {row + 1}: {column.name} is {column[row]!r}, which is no number"
            )
    return ""


def _named(
    path: Path, frame: pl.DataFrame, dropped: dict[str, int]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """The same; raises `MeasurementError` where nothing says which GPU it was."""
    if frame["device"].null_count():
        raise MeasurementError(
            f"{path}: no column and no folder names the GPU; keep the folders of the "
            "data set (a100, h100_sxm and so on)"
        )
    return frame, dropped


def _text_of(path: Path) -> bytes:
    """What is in a file, decompressed."""
    stored = path.read_bytes()
    if not stored.startswith(b"\x1f\x8b"):
        return stored
    with gzip.open(BytesIO(stored)) as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise OSError(f"it decompresses to more than {_MOST_BYTES:,} bytes")
    return text


def _complete(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The rows with all columns of `SCHEMA` in their types, checked."""
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise MeasurementError(f"{path}: measurements lack column {', '.join(missing)}")
    _check_types(frame, path)
    absent = absent_sizes(frame)
    if absent:
        raise MeasurementError(f"{path}: measurements lack column {absent}")
    unknown = [pl.lit(None).alias(n) for n in SCHEMA if n not in frame.columns]
    whole = frame.with_columns(unknown).select(*SCHEMA).cast(pl.Schema(SCHEMA))
    whole = whole.with_columns(pl.col(TEXTS).fill_null(""))
    for wrong, column, must in _rules():
        _check(whole, wrong, column, must, path)
    return whole


def _rules() -> Iterator[tuple[pl.Expr, str, str]]:
    """What no row may be, the column that is then wrong, and what it must be."""
    time, low, high = (pl.col(name).fill_nan(None) for name in TIMES)
    typed = [family.name for family in FAMILIES.values() if family.is_typed]
    yield pl.col("device").str.strip_chars() == "", "device", "name the GPU or CPU"
    yield _is_none_of("family", FAMILIES)
    yield _is_none_of("measured", _KINDS)
    is_unknown, column, must = _is_none_of("dtype", known_types())
    yield pl.col("family").is_in(typed) & is_unknown, column, must
    is_timed = _is_time("time_ns")
    yield is_timed & (low > time), "low_ns", "be at most time_ns"
    yield is_timed & (high < time), "high_ns", "be at least time_ns"
    yield pl.col("repeats") < 1, "repeats", "be at least 1"


def _is_none_of(column: str, known: Iterable[str]) -> tuple[pl.Expr, str, str]:
    """A rule of a column that has only some values."""
    wrong = ~pl.col(column).is_in(list(known))
    return wrong, column, f"be one of {', '.join(known)}"


def _check_types(frame: pl.DataFrame, path: Path) -> None:
    """Refuse columns of which a cast would make something else than they hold."""
    for name in frame.columns:
        column, wanted = frame[name], SCHEMA.get(name)
        if wanted is None or column.dtype == pl.Null:
            continue
        if wanted == pl.String:
            fits = column.dtype in (pl.String, pl.Categorical, pl.Enum)
        else:
            fits = column.dtype.is_numeric()
        if not fits:
            raise _wrong_type(path, f"{name} is {column.dtype}, and must be {wanted}")
        if wanted == pl.Int64:
            _check_whole(column, path)


def _check_whole(column: pl.Series, path: Path) -> None:
    """Refuse sizes that no whole number of 64 bits is, the first with its row."""
    values = column.cast(pl.Float64)
    fits = (values.abs() < _TOO_LARGE) & (values == values.floor())
    wrong = column.is_not_null() & ~fits
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise MeasurementError(
            f"{path}: row {row + 1}: {column.name} is {column[row]}; it must be a "
            "whole number"
        )


def _check(
    frame: pl.DataFrame, wrong: pl.Expr, column: str, must: str, path: Path
) -> None:
    """Refuse rows that are wrong, the first with its value."""
    rows = frame.lazy().with_row_index(_ROW, 1).filter(wrong).select(_ROW, column)
    for row, value in rows.head(1).collect().iter_rows():
        told = repr(value) if str(value).strip() else "empty"
        raise MeasurementError(f"{path}: row {row}: {column} is {told}; it must {must}")


def _wrong_type(path: Path, why: str) -> MeasurementError:
    return MeasurementError(f"{path}: a column has the wrong type: {why}")
