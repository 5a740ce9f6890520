"""Encode rows as JSON, CSV or Parquet."""

from __future__ import annotations

import io

import msgspec
import polars as pl

# A 128-bit integer of DuckDB, as `sum` returns, arrives as this type.
_SUM = pl.Decimal(38, 0)


def encode(frame: pl.DataFrame, format_: str) -> bytes:
    """Encode rows; DuckDB's 128-bit sums become ordinary integers."""
    sums = [name for name, kind in frame.schema.items() if kind == _SUM]
    return _ENCODERS[format_](
        frame.with_columns(_integers(frame[name]) for name in sums)
    )


def _integers(column: pl.Series) -> pl.Series:
    integers = column.cast(pl.Int64, strict=False)
    return integers if integers.null_count() == column.null_count() else column


def _json(frame: pl.DataFrame) -> bytes:
    encoder = msgspec.json.Encoder(decimal_format="number")
    rows = (encoder.encode(row) for row in frame.iter_rows(named=True))
    return b"[" + b",\n ".join(rows) + b"]\n"


def _csv(frame: pl.DataFrame) -> bytes:
    odd = [n for n, k in frame.schema.items() if k.is_nested() or k == pl.Binary]
    return (
        frame.with_columns(_as_json(frame[name]) for name in odd).write_csv().encode()
    )


def _as_json(column: pl.Series) -> pl.Series:
    encoder = msgspec.json.Encoder(decimal_format="number")
    values = column.to_list()
    texts = [None if v is None else encoder.encode(v).decode() for v in values]
    return pl.Series(column.name, texts, pl.String)


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


_ENCODERS = {"json": _json, "csv": _csv, "parquet": _parquet}
