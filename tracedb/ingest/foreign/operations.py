"""Read tables of operations: a row per timed operation of a rank, Parquet or CSV.

Production jobs write such logs: the forward and backward computation of each
microbatch, its sends and receives, the collectives and the optimizer, but no kernels.
Columns are recognised by common names, or mapped by `--map`. A folder of Primus's
`pp_rank_N.json`, or one such file, is read as such a table as well.
`staging.operation_type` describes the operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest.foreign.event import ForeignTrace
from tracedb.ingest.other_formats import what_has_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

__all__ = ["CATEGORY", "FIELDS", "TYPES", "MappedReader", "read", "recognises"]

CATEGORY = "operation"
"""The `raw.event.cat` of operations."""

TYPES = (
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
)
"""Types of operations: those of `staging.operation_type`."""

FIELDS: dict[str, tuple[str, ...]] = {
    "type": ("optype", "op_type", "operation"),
    "step": ("iteration", "iter", "global_step"),
    "stage": ("pp_rank", "pp_stage", "pipeline_stage", "pipeline_rank"),
    "dp_rank": ("dp", "data_parallel_rank"),
    "rank": ("global_rank", "worker"),
    "start_s": ("start_ts", "begin_s"),
    "start_ms": ("begin_ms",),
    "start_us": ("begin_us",),
    "start_ns": ("begin_ns",),
    "duration_s": ("duration", "dur_s"),
    "duration_ms": ("dur_ms",),
    "duration_us": ("dur_us",),
    "duration_ns": ("dur_ns",),
    "end_s": ("end_ts",),
    "end_ms": (),
    "end_us": (),
    "end_ns": (),
    "ordinal": ("seq_id", "seq", "sequence"),
    "chunk": ("mc", "model_chunk", "virtual_stage", "vp_rank"),
    "microbatch": ("mb_id", "mb", "micro_batch"),
}
"""The fields of a table, with alternative column names."""

_NANOSECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_NUMBERS = ("step", "stage", "dp_rank", "rank", "ordinal", "chunk", "microbatch")
_NEEDED = ("type", "step", "stage")
_WORKER = ("dp_rank", "stage")
_MAGIC = b"PAR1"
_PRIMUS = re.compile(r"pp_rank_(\d+)\.json")
_LANES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
_LARGEST_NS = 2.0**61
_BATCH = 50_000


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is a Parquet or CSV file, or one of Primus's; see `ForeignReader`."""
    try:
        if path.is_dir():
            return any(_PRIMUS.fullmatch(file.name) for file in path.iterdir())
    except OSError:
        return False
    is_table = head.startswith(_MAGIC) or path.name.endswith(".csv")
    return is_table or _PRIMUS.fullmatch(path.name) is not None


def siblings(path: Path) -> frozenset[Path]:
    """The files that are one table with this one: all of a folder of Primus's."""
    if _PRIMUS.fullmatch(path.name) is None:
        return frozenset()
    try:
        beside = [*path.parent.iterdir()]
    except OSError:
        return frozenset()
    return frozenset(one for one in beside if _PRIMUS.fullmatch(one.name))


def read(path: Path) -> ForeignTrace:
    """Read a table; see `ForeignReader`."""
    return _read(path, {})


@dataclass(frozen=True)
class MappedReader:
    """A reader of tables with custom names of columns or operations.

    `mapping` maps columns to fields of `FIELDS`, and operations to `TYPES`.
    """

    mapping: Mapping[str, str]

    def recognises(self, path: Path, head: bytes) -> bool:
        """See `ForeignReader`."""
        return recognises(path, head)

    def read(self, path: Path) -> ForeignTrace:
        """See `ForeignReader`."""
        return _read(path, self.mapping)


def _read(path: Path, mapping: Mapping[str, str]) -> ForeignTrace:
    table = _Table(path, dict(mapping))
    frame = table.operations()
    header = {"source": {"tool": "operations", "columns": table.columns}}
    return ForeignTrace(header, _events(frame))


class _Table:
    """A table; its errors use the table's own column names."""

    def __init__(self, path: Path, mapping: dict[str, str]) -> None:
        self._path = path
        self._types = {k: v for k, v in mapping.items() if v in TYPES}
        self._frame = _frame(path)
        self.columns = self._recognised(mapping)
        """The column of each field."""

    def operations(self) -> pl.DataFrame:
        """All operations, with times in nanoseconds, and integer fields."""
        self._require()
        frame = self._frame.select(
            pl.col(column).alias(field) for field, column in self.columns.items()
        )
        frame = self._typed(self._plain(frame))
        for field in set(_NUMBERS) & set(frame.columns):
            frame = self._whole(frame, field)
        frame = self._timed(frame)
        self._refuse_repeated(frame)
        return frame

    def _error(self, what: str) -> IngestError:
        return IngestError(f"{self._path}: {what}")

    def _recognised(self, mapping: dict[str, str]) -> dict[str, str]:
        there = self._frame.columns
        chosen = {}
        for column, field in mapping.items():
            if field in TYPES:
                continue
            if field not in FIELDS:
                raise self._error(
                    f"'{field}' is not a field; the fields are {', '.join(FIELDS)}, "
                    f"and the types of operations {', '.join(TYPES)}"
                )
            if column not in there:
                raise self._error(
                    f"no column '{column}'; the columns are {', '.join(there)}"
                )
            chosen[field] = column
        taken = set(chosen.values())
        for field, names in FIELDS.items():
            known = [n for n in (field, *names) if n in there and n not in taken]
            if known and field not in chosen:
                chosen[field] = known[0]
        return chosen

    def _require(self) -> None:
        missing = [field for field in _NEEDED if field not in self.columns]
        missing += [
            f"{kinds[0]} (or _ms, _us, _ns)"
            for kinds in (("start_s",), ("duration_s", "end_s"))
            if not any(self._unit(kind.removesuffix("_s")) for kind in kinds)
        ]
        if not missing:
            return
        if what := what_has_columns(self._frame.columns):
            raise ForeignFileError(f"{self._path}: {what}")
        there = ", ".join(self._frame.columns) or "none"
        known = set(self.columns) & {"type", "step", "stage"}
        error = IngestError if len(known) > 1 else ForeignFileError
        raise error(
            f"{self._path}: not a table of operations: no column {', '.join(missing)}; "
            f"the columns are {there}; map them with --map COLUMN=FIELD"
        )

    def _unit(self, kind: str) -> str | None:
        return next((u for u in _NANOSECONDS if f"{kind}_{u}" in self.columns), None)

    def _plain(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns with times as numbers, also if they are texts."""
        for field, column in self.columns.items():
            kind = frame[field].dtype
            if kind.is_nested() or kind.is_temporal() or kind == pl.Binary:
                raise self._error(
                    f"column '{column}' has the type {kind}, which is neither number "
                    "nor text"
                )
        texts = (
            name
            for name in frame.columns
            if _is_time(name) and not frame[name].dtype.is_numeric()
        )
        return frame.with_columns(pl.col(texts).cast(pl.Float64, strict=False))

    def _typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = frame.with_columns(
            pl.col("type").cast(pl.String).str.strip_chars().replace(self._types)
        )
        odd = frame.filter(~pl.col("type").is_in(TYPES).fill_null(value=False))
        if odd.height:
            names = odd["type"].drop_nulls().unique().sort().head(5).to_list()
            listed = ", ".join(f"'{name}'" for name in names) or "an empty one"
            raise self._error(
                f"unknown type of operation: {listed}; known are {', '.join(TYPES)}; "
                "map it with --map NAME=TYPE, or remove such rows"
            )
        return frame

    def _whole(self, frame: pl.DataFrame, field: str) -> pl.DataFrame:
        """Convert a column to integers; required ones must not be empty."""
        column = pl.col(field)
        whole = frame.select(column.cast(pl.Int64, strict=False)).to_series()
        given = frame[field]
        odd = given.is_not_null() & whole.is_null()
        if given.dtype.is_float():
            odd = odd | (given.is_finite() & (given != given.floor())).fill_null(
                value=False
            )
        if field in _NEEDED:
            odd = odd | given.is_null()
        self._refuse(odd, f"column '{self.columns[field]}' is not a whole number")
        return frame.with_columns(whole.alias(field))

    def _timed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Convert begin, end and duration to nanoseconds.

        A missing end is the sum of begin and duration in the precision of the columns:
        in 32-bit tables, begins in seconds are coarser than durations.
        """
        start = self._time(frame, "start")
        end = self._time(frame, "end")
        duration = self._time(frame, "duration")
        if duration is None and end is not None:
            duration = end - start
        elif end is None and duration is not None:
            end = self._sum(frame)
        if start is None or end is None or duration is None:  # `_require` has looked
            raise self._error("no times")
        self._refuse(duration < 0, "the duration is negative")
        times = {"start_ns": start, "end_ns": end, "duration_ns": duration}
        frame = frame.drop(name for name in frame.columns if _is_time(name))
        return frame.with_columns(
            series.round().cast(pl.Int64).alias(name) for name, series in times.items()
        )

    def _sum(self, frame: pl.DataFrame) -> pl.Series:
        """[ns] Begin plus duration, added in the table's own unit if they share it."""
        unit, other = self._unit("start"), self._unit("duration")
        if unit == other and unit is not None:
            total = frame[f"start_{unit}"] + frame[f"duration_{unit}"]
            return total.cast(pl.Float64) * _NANOSECONDS[unit]
        start, duration = self._time(frame, "start"), self._time(frame, "duration")
        if start is None or duration is None:  # `_require` has looked
            raise self._error("no times")
        return start + duration

    def _time(self, frame: pl.DataFrame, kind: str) -> pl.Series | None:
        """[ns] A column of times; None if there is none."""
        unit = self._unit(kind)
        if unit is None:
            return None
        name = f"{kind}_{unit}"
        time = frame[name].cast(pl.Float64, strict=False) * _NANOSECONDS[unit]
        odd = ~(time.is_finite() & (time.abs() < _LARGEST_NS)).fill_null(value=False)
        self._refuse(odd, f"column '{self.columns[name]}' is not a time")
        return time

    def _refuse_repeated(self, frame: pl.DataFrame) -> None:
        """Raise `IngestError` for repeated operations, as in tables of more ranks."""
        ordinal = "ordinal" if "ordinal" in frame.columns else "start_ns"
        key = [
            name
            for name in ("step", *_WORKER, "type", ordinal)
            if name in frame.columns
        ]
        odd = ~frame.select(pl.struct(key).is_first_distinct()).to_series()
        self._refuse(
            odd,
            f"the operation occurs twice (same {', '.join(key)}); a table has one row "
            "for each operation of a data-parallel rank and stage",
        )

    def _refuse(self, odd: pl.Series, what: str) -> None:
        place = odd.fill_null(value=False).arg_true()
        if place.len():
            raise self._error(
                f"row {place[0] + 1:,}: {what} ({place.len():,} such rows)"
            )


def _is_time(field: str) -> bool:
    return field.partition("_")[0] in ("start", "end", "duration")


def _frame(path: Path) -> pl.DataFrame:
    try:
        if path.is_dir() or _PRIMUS.fullmatch(path.name):
            return _primus(path)
        if path.name.endswith(".csv"):
            return pl.read_csv(path, infer_schema_length=None)
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, msgspec.MsgspecError) as error:
        why = " ".join(str(error).split())
        raise ForeignFileError(f"{path}: not a readable table: {why}") from error


class _PrimusStep(msgspec.Struct):
    """A step of a rank: begins and ends of its microbatches' computation."""

    fwd_start: list[float]
    fwd_end: list[float]
    bwd_start: list[float]
    bwd_end: list[float]


def _primus(path: Path) -> pl.DataFrame:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    rows = [
        row
        for file in files
        if (name := _PRIMUS.fullmatch(file.name))
        for row in _primus_rows(file, int(name[1]))
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _primus_rows(file: Path, stage: int) -> Iterator[dict[str, Any]]:
    steps = msgspec.json.decode(file.read_bytes(), type=dict[int, _PrimusStep])
    for step, times in steps.items():
        for way in ("forward", "backward"):
            short = "fwd" if way == "forward" else "bwd"
            starts = getattr(times, f"{short}_start")
            ends = getattr(times, f"{short}_end")
            if len(starts) != len(ends):
                raise IngestError(
                    f"{file}: step {step}: {len(starts)} starts, {len(ends)} ends"
                )
            for ordinal, (start, end) in enumerate(zip(starts, ends, strict=True)):
                yield {
                    "type": f"{way}-compute",
                    "step": step,
                    "stage": stage,
                    "start_ms": start,
                    "end_ms": end,
                    "ordinal": ordinal,
                }


def _events(frame: pl.DataFrame) -> Iterator[pa.Table]:
    """Batches of rows of `raw.event`."""
    fields = [name for name in (*_NUMBERS, "end_ns") if name in frame.columns]
    absent = pl.lit(None, pl.String)
    worker = "rank" if "rank" in frame.columns else "stage"
    lane = pl.when(pl.col("type").is_in(_LANES)).then("type").otherwise(pl.lit("rank"))
    rows = frame.select(
        ph=pl.lit("X"),
        cat=pl.lit(CATEGORY),
        name="type",
        pid=pl.col(worker).cast(pl.String),
        tid=lane,
        ts_ns="start_ns",
        dur_ns="duration_ns",
        id=absent,
        args=pl.struct(fields).struct.json_encode(),
        other=absent,
    )
    for part in rows.iter_slices(_BATCH):
        yield part.to_arrow(compat_level=pl.CompatLevel.oldest())
