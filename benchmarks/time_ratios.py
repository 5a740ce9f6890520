"""Ratios of kernel times on two GPUs, beside measured ones: a section of a page.

    python benchmarks/time_ratios.py --published aiconfigurator_core \
        --write docs/kernel-transfer.md

`tracedb whatif --set gpu=`, `dtype=` and `batch=` multiply times by ratios of
predictions. Public data have shapes that one harness measured on two GPUs, in two
types, or with two batch sizes, and so what each ratio really is. `shipped_models.py`
says what `--published` is.
"""

from __future__ import annotations

from itertools import product
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import polars as pl
from kernels import DATA
from pages import parser, publish_section, table
from shipped_models import MORE, published

from tracedb import kernels
from tracedb.kernels.dtypes import matrix_unit
from tracedb.kernels.families import COLUMNS
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.models import Models
from tracedb.kernels.pooled import SOURCE as POOLED
from tracedb.kernels.relations import declared
from tracedb.kernels.shape_times import shape_times

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "## Ratios of times"
MOST_SHAPES = 3_000
"""Of an op and a type of a harness."""
_LEAST = 20
"""Fewer shapes of two GPUs say nothing."""
_LONG_NS = 1e5
"""[ns] From here on, a launch is a small part of what NeuSight measures."""
_MOST_GROWTH = 16
_HARNESS = ("measured", "source", "tool")
_SHAPE = (*_HARNESS, "family", "op", "dtype", *COLUMNS)
_BATCH = {
    "gemm": "m",
    "attention": "images",
    "convolution": "images",
    "elementwise": "elements",
    "embedding": "rows",
    "normalisation": "rows",
    "reduction": "rows",
    "softmax": "rows",
}
"""The size that follows the batch, by family."""
_COLLECTIVE = "collective"
_OTHER_GPU, _OTHER_TYPE, _OTHER_SIZE = "GPU", "type", "batch"
_BASES = ("roofline", "model", "unseen", "unknown")
HOW = """\
`tracedb whatif --set gpu=`, `dtype=` and `batch=` multiply times by the ratio of two
predictions (`prediction.changed_time`). Here the same shape was measured by one harness
on two GPUs, in two types, or with up to {growth} times the batch. Four of five ratios
are off by at most this many times, in the median over the pairs of GPUs (each has one
vote, in both directions), and `holds` is the share in their band, in %, in the mean
over the pairs and in the worst of them; the target is 80. *Roofline*: with the usual
shares of the peaks, the band of `prediction.ratio_error`. *Model*: the shipped models
of both sides, their bands added by squares; they have seen these shapes, so they are
off by less here than in a trace. *Unseen*: the same without the models of the GPU that
work is moved to, as for a GPU that nobody measured, and without those of all GPUs of a
vendor, which have seen it. *Unknown*: as if nothing were known of the work: it is
memory-bound, or in proportion to the batch, collectives follow the links, and the band
reaches over all that may bound it (`prediction.gpu_ratio`), but for fp32 arithmetic if
names of kernels tell products of types of at most 16 bits, as is assumed here. At most
{shapes:,} shapes of an op and type of a harness. Written by
`python benchmarks/time_ratios.py --published aiconfigurator_core --write
docs/kernel-transfer.md`.
"""


def measured(folders: list[Path]) -> pl.DataFrame:
    """A sample of shapes, with the time on each GPU and what is predicted [ns]."""
    models = kernels.shipped()
    rows = read_measurements(folders).frame.filter(
        pl.col("family").is_in([*_BATCH, _COLLECTIVE]),
        (pl.col("measured") == "kernel") | (pl.col("time_ns") >= _LONG_NS),
    )
    listed = {name: models.hardware.find(name) for name in rows["device"].unique()}
    known = {name: row.name for name, row in listed.items() if not row.is_fallback}
    rows = rows.filter(pl.col("device").is_in(list(known))).with_columns(
        hardware=pl.col("device").replace_strict(known),
        tool=pl.col("software").str.split("/").list.first(),
    )
    rows = rows.group_by("hardware", *_SHAPE).agg(pl.col("time_ns").median())
    rows = rows.join(_some(rows), on=_SHAPE, how="semi", nulls_equal=True)
    rows = rows.with_columns(
        *_predicted(models, rows, "model"),
        roofline_ns=shape_times(Models((), models.hardware), rows)["ns"],
    )
    return pl.concat(
        own.with_columns(_predicted(_without(models, str(name)), own, "unseen"))
        for (name,), own in rows.group_by("hardware", maintain_order=True)
    )


def _predicted(models: Models, rows: pl.DataFrame, name: str) -> list[pl.Series]:
    """Times by models, with their bands [ns]."""
    found = models.serving().predict(rows)
    columns = {"predicted_ns": "ns", "low_ns": "low_ns", "high_ns": "high_ns"}
    return [found[of].alias(f"{name}_{column}") for of, column in columns.items()]


def _without(models: Models, hardware: str) -> Models:
    """The models, as if a GPU had not been measured."""
    shelves = (
        shelf
        for shelf in models.shelves
        if models.hardware.find(shelf.key.hardware).name != hardware
        and shelf.key.source != POOLED
    )
    return Models(tuple(shelves), models.hardware)


def _some(rows: pl.DataFrame) -> pl.DataFrame:
    """A sample of the shapes, the same for all GPUs."""
    of = (*_HARNESS, "family", "op", "dtype")
    drawn = pl.struct(_SHAPE).hash(0).rank("ordinal").over(of)
    return rows.select(_SHAPE).unique().filter(drawn <= MOST_SHAPES)


def pairs(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows side by side, by what differs between them."""
    yield (
        _OTHER_GPU,
        rows.join(rows, on=_SHAPE, suffix="_then", nulls_equal=True).filter(
            pl.col("hardware") != pl.col("hardware_then")
        ),
    )
    same = [name for name in ("hardware", *_SHAPE) if name not in ("dtype", "source")]
    yield (
        _OTHER_TYPE,
        rows.join(rows, on=same, suffix="_then", nulls_equal=True).filter(
            pl.col("dtype") != pl.col("dtype_then")
        ),
    )
    for family, size in _BATCH.items():
        own = rows.filter(pl.col(size).is_not_null(), family=family)
        same = [name for name in ("hardware", *_SHAPE) if name != size]
        growth = pl.col(f"{size}_then") / pl.col(size)
        yield (
            _OTHER_SIZE,
            own.join(own, on=same, suffix="_then", nulls_equal=True)
            .with_columns(growth=growth)
            .filter(
                growth.is_between(1 / _MOST_GROWTH, _MOST_GROWTH), growth != pl.lit(1)
            ),
        )


def errors(what: str, both: pl.DataFrame) -> pl.DataFrame:
    """How far each ratio is off, as a logarithm, and whether its band holds it."""
    off_by = {
        (row["basis"], row["products_in"]): log(row["off_by"])
        for row in declared("prediction.ratio_error")
    }
    types = {
        name: off_by["roofline", matrix_unit(name)] for name in both["dtype"].unique()
    }
    of_roofline = (
        pl.when(pl.col("family") == "gemm")
        .then("dtype")
        .replace_strict(
            types, default=off_by["roofline", "any"], return_dtype=pl.Float64
        )
    )
    basis = "bandwidth" if what == _OTHER_GPU else "size"
    is_linked = pl.col("family") == _COLLECTIVE
    ratio = (pl.col("time_ns_then") / pl.col("time_ns")).log()
    roofline = ratio - _log("roofline_ns_then", "roofline_ns")
    linked = pl.lit(0.0)
    if what == _OTHER_GPU:
        both = both.join(_of_gpus(), on=("hardware", "hardware_then"))
        linked = pl.when(is_linked).then("link_error").otherwise(1).log()
    usual, least, greatest = (
        _LIMITS[what] if what in _LIMITS else (pl.lit(None, pl.Float64),) * 3
    )
    of_links, of_others = off_by["links", "any"], off_by[basis, "any"]
    error = pl.when(is_linked).then(of_links).otherwise(of_others) + linked
    return both.select(
        "source",
        "family",
        "dtype",
        "hardware",
        pl.lit(what).alias("change"),
        (pl.col("hardware_then") if what == _OTHER_GPU else pl.lit("")).alias("then"),
        *_by_models(ratio, "model"),
        *(_by_models(ratio, "unseen") if what == _OTHER_GPU else ()),
        roofline=roofline,
        roofline_holds=roofline.abs() <= of_roofline + linked,
        unknown=ratio - usual.log(),
        unknown_holds=ratio.is_between(least.log() - error, greatest.log() + error),
    )


def _by_models(ratio: pl.Expr, there: str) -> tuple[pl.Expr, pl.Expr]:
    """The error of a ratio of models, and whether their joint band holds it."""
    here = "model"
    error = ratio - _log(f"{there}_ns_then", f"{here}_ns")
    low, high = (
        _joint(
            _log(f"{there}_{one}_ns_then", f"{there}_ns_then"),
            _log(f"{here}_{other}_ns", f"{here}_ns"),
        )
        for one, other in (("low", "high"), ("high", "low"))
    )
    holds = error.is_between(-low, high)
    return error.alias(there), holds.alias(f"{there}_holds")


def _by_type(which: str) -> pl.Expr:
    """A limit of unknown work; names of kernels tell products, and of which type."""
    is_half = pl.col("dtype").is_in(["bfloat16", "float16", "float8", "float4"])
    is_half &= pl.col("family").is_in(["gemm", "convolution", "attention"])
    return pl.when(is_half).then(f"{which}_half_ratio").otherwise(f"{which}_ratio")


_FLOOR_SHARE = (pl.col("floor_ns") / pl.col("time_ns")).clip(0, 1)
_LINKS = pl.col("link_ratio")
_LIMITS = {
    _OTHER_GPU: tuple(
        pl.when(pl.col("family") == _COLLECTIVE).then(of_links).otherwise(of_others)
        for of_links, of_others in (
            (
                _LINKS,
                _FLOOR_SHARE * pl.col("floor_ratio")
                + (1 - _FLOOR_SHARE) * pl.col("memory_ratio"),
            ),
            (pl.min_horizontal(_LINKS, 1.0), _by_type("least")),
            (pl.max_horizontal(_LINKS, 1.0), _by_type("greatest")),
        )
    ),
    _OTHER_SIZE: (
        pl.col("growth"),
        pl.min_horizontal(pl.col("growth"), 1.0),
        pl.max_horizontal(pl.col("growth"), 1.0),
    ),
}
"""The ratio of unknown work, and its least and its greatest one."""


def _of_gpus() -> pl.DataFrame:
    """The rows of `prediction.gpu_ratio`, with the floor of the first."""
    floors = {
        row["hardware"]: row["floor_ns"] for row in declared("prediction.hardware")
    }
    found = pl.DataFrame(list(declared("prediction.gpu_ratio")))
    return found.rename({"to_hardware": "hardware_then"}).with_columns(
        floor_ns=pl.col("hardware").replace_strict(floors, return_dtype=pl.Float64)
    )


def _log(one: str, other: str) -> pl.Expr:
    return (pl.col(one) / pl.col(other)).log()


def _joint(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return (one**2 + other**2).sqrt()


def scored(found: pl.DataFrame) -> pl.DataFrame:
    """Each pair of GPUs, with what four of five ratios are off by."""
    each = ("change", "family", "dtype", "source", "hardware", "then")
    columns = [
        expression
        for name in _BASES
        if name in found.columns
        for expression in (
            pl.col(name).abs().quantile(0.8).alias(name),
            pl.col(f"{name}_holds").mean(),
        )
    ]
    return found.group_by(each).agg(pl.len().alias("shapes"), *columns)


def section(found: pl.DataFrame) -> str:
    """The section."""
    kept = found.filter(pl.col("shapes") >= _LEAST)
    all_ = kept.with_columns(family=pl.lit("all"), dtype=pl.lit(""))
    order = ("change", "family", "dtype")
    both = pl.concat([kept, all_]).sort(pl.col("family") == "all", *order)
    rows = []
    for names, own in both.group_by(order, maintain_order=True):
        cells = [*map(str, names), f"{own.height:,}", f"{own['shapes'].sum():,}"]
        for name in _BASES:
            cells += _cells(own[name].to_list(), own[f"{name}_holds"].to_list())
        rows.append(cells)
    head = ["other", "family", "dtype", "pairs", "shapes"]
    head += [f"{name}{what}" for name, what in product(_BASES, (" off by", " holds"))]
    how = HOW.format(growth=_MOST_GROWTH, shapes=MOST_SHAPES)
    return "\n".join([TITLE, "", how, *table(head, rows, left=3), ""])


def _cells(off: list[float | None], holds: list[float | None]) -> list[str]:
    """What ratios are off by, and the share in their bands."""
    known = [one for one in off if one is not None]
    shares = [100 * one for one in holds if one is not None]
    if not known or not shares:
        return ["", ""]
    return [f"{exp(median(known)):.2f}", f"{fmean(shares):.0f} / {min(shares):.0f}"]


def ratios(folders: list[Path]) -> pl.DataFrame:
    """Every pair of GPUs, by what differs."""
    rows = measured(folders)
    return pl.concat(
        (scored(errors(what, both)) for what, both in pairs(rows)), how="diagonal"
    )


def main() -> None:
    """Compare, and write the section."""
    given = parser(__doc__)
    given.add_argument("--published", type=Path, required=True, metavar="FOLDER")
    asked = given.parse_args()
    folders = [path for path in (DATA, MORE) if path.exists()]
    found = ratios([*folders, *published(asked.published)])
    publish_section(section(found), asked.write)


if __name__ == "__main__":
    main()
