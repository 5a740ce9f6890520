"""Factors for other numbers of ranks beside measured ones: a section of a page.

    python benchmarks/other_ranks.py MEASURED.csv.gz ... --write docs/ranks.md

takes public measurements that `tracedb kernels train` reads. Each pair of measurements
of one collective and size, by one harness on one kind of GPU, has a measured factor
from the smaller to the larger number of ranks. `tracedb whatif --set ranks=` predicts
it by rooflines where models have not measured both numbers.
"""

from __future__ import annotations

from math import exp
from pathlib import Path

import polars as pl
from pages import parser, publish_section, table

from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.models import Models
from tracedb.kernels.shape_times import shape_times

TITLE = "## Other numbers of ranks: factors"
_LONG = 1 << 20
"""[B] The time of smaller messages is latency."""
_SHORTEST = 1 << 10
_WITHIN = "within a node"
_SHAPE = ("hardware", "family", "op", "dtype", "bytes", "ranks", "ranks_per_node")
_HARNESS = ("device", "software", "source")
HOW = """\
How much longer a collective takes with more ranks (`tracedb whatif --set ranks=64`), by
the rooflines of the links and of the network listed for the GPU, compared with the
factor measured between the same two numbers. Four of five factors are off by at most
this many times; in brackets, if the time stayed as it was. Messages of 1 MiB and more
are long. Where models have measured both numbers of ranks, `whatif` uses these instead.
The last column is for long messages with the cluster's own `network=`: the bus
bandwidth that NCCL's tests print for the largest all_reduce between two single GPUs.
Written by `benchmarks/other_ranks.py` from tables of aiconfigurator, PipeWeave, Vidur
and apex_plus.
"""


def measured(paths: list[Path]) -> pl.DataFrame:
    """Each message, with its median time and its roofline [ns]."""
    listed = hardware_table()
    rows = read_measurements(paths).frame.filter(
        pl.col("family") == "collective",
        pl.col("bytes") >= _SHORTEST,
        pl.col("op") != "send_recv",
    )
    names = {name: listed.find(name).name for name in rows["device"].unique()}
    rows = rows.with_columns(
        hardware=pl.col("device").replace_strict(names), dtype=pl.lit("bytes")
    )
    rows = rows.group_by(*_HARNESS, *_SHAPE).agg(pl.col("time_ns").median())
    models = Models((), listed)
    own = models
    for name, rate in _networks(rows).items():
        own = own.over_network(name, rate)
    return rows.with_columns(
        roofline_ns=shape_times(models, rows.select(_SHAPE))["ns"],
        own_network_ns=shape_times(own, rows.select(_SHAPE))["ns"],
    )


def _networks(rows: pl.DataFrame) -> dict[str, float]:
    """The bus bandwidth [B/s] between two nodes, of each cluster with several."""
    between = rows.filter(ranks=2, ranks_per_node=1, op="all_reduce").sort("bytes")
    return {
        row["hardware"]: 1e9 * row["bytes"] / row["time_ns"]
        for row in between.group_by("hardware").last().rows(named=True)
    }


def factors(rows: pl.DataFrame) -> pl.DataFrame:
    """Each pair of numbers of ranks, with logarithms of the errors of its factor."""
    more = rows.join(rows, on=(*_HARNESS, "op", "bytes"), suffix="_then")
    one = pl.col("ranks_per_node") >= pl.col("ranks")
    one_then = pl.col("ranks_per_node_then") >= pl.col("ranks_then")
    longer = (pl.col("time_ns_then") / pl.col("time_ns")).log()
    return more.filter(
        pl.col("ranks_then") > pl.col("ranks"),
        one | (pl.col("ranks_per_node") == pl.col("ranks_per_node_then")),
    ).select(
        "hardware",
        pl.when(one_then)
        .then(pl.lit(_WITHIN))
        .when(one)
        .then(pl.lit("from a node to several"))
        .otherwise(pl.lit("to more nodes"))
        .alias("where"),
        (pl.col("bytes") >= _LONG).alias("is_long"),
        *(
            ((pl.col(f"{name}_ns_then") / pl.col(f"{name}_ns")).log() - longer)
            .abs()
            .alias(name)
            for name in ("roofline", "own_network")
        ),
        longer.abs().alias("unchanged"),
    )


def section(found: pl.DataFrame) -> str:
    """The section."""
    both = pl.concat([found, found.with_columns(hardware=pl.lit("all"))])
    rows = []
    for (where, hardware), own in sorted(both.group_by("where", "hardware")):
        cells = []
        for is_long in (True, False):
            some = own.filter(is_long=is_long)
            off, kept = (some[name].quantile(0.8) for name in ("roofline", "unchanged"))
            cells += [f"{some.height:,}", _cell(off, kept)]
        given = own.filter(is_long=True)["own_network"].quantile(0.8)
        cells.append("" if where == _WITHIN or given is None else f"{exp(given):.2f}")
        rows.append([str(where), str(hardware), *cells])
    head = ["ranks", "GPU", "long pairs", "off by", "short pairs", "off by"]
    head.append("long, with `network=`")
    return "\n".join([TITLE, "", HOW, *table(head, rows, left=2), ""])


def _cell(off: float | None, kept: float | None) -> str:
    if off is None or kept is None:
        return ""
    return f"{exp(off):.2f} ({exp(kept):.1f})"


def main() -> None:
    """Compare, and write the section."""
    given = parser(__doc__)
    given.add_argument("measured", type=Path, nargs="+", metavar="CSV")
    asked = given.parse_args()
    publish_section(section(factors(measured(asked.measured))), asked.write)


if __name__ == "__main__":
    main()
