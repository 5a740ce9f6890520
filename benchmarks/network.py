"""Collectives over several nodes beside measured ones: a section of a page.

    python benchmarks/network.py MEASURED.csv.gz ... --write docs/ranks.md

takes public measurements that `tracedb kernels train` reads. Of each cluster, what a
message reaches and how long a step takes from node to node is read off its sends
between two nodes alone: the largest, and the median of those of up to 16 KiB. All its
other collectives over several nodes are predicted by that, and by the links within one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from pages import filled, parser, publish_section, table

from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.models import Models
from tracedb.kernels.shape_times import shape_times

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "## Over several nodes: measured collectives"
_SHORT = 16 << 10
"""[B] The time of smaller messages is latency."""
_LONG = 16 << 20
"""[B] The time of larger messages is bandwidth."""
_FEW = 10
"""Messages that a layout needs to be listed."""
_SHAPE = ("hardware", "family", "op", "dtype", "bytes", "ranks", "ranks_per_node")
HOW = """\
Public measurements of two clusters (Vidur's A100, apex_plus' V100 with PCIe). For each,
two figures are taken only from sends between two nodes: the bandwidth of the largest
message, and the median time of short ones as the latency from node to node. They
predict all other collectives over the nodes, by the roofline; nothing is learned from
these. A port serves {sharing}. Errors are those of the time: geometric mean (GMAE), and
median bias, for messages from 16 MiB on and for shorter ones; in brackets the GMAE
without a network, as before.
"""


@dataclass(frozen=True)
class Cluster:
    """Measured collectives across nodes, and the network as measured by sends."""

    name: str
    rows: pl.DataFrame
    bytes_per_second: float
    latency_ns: float
    is_shared: bool
    """Whether the GPUs of a node share a port, or each has its own."""

    @classmethod
    def of(cls, name: str, rows: pl.DataFrame) -> Cluster:
        """All rows of a cluster except sends, which give the network."""
        over = rows.filter(pl.col("ranks_per_node") < pl.col("ranks"))
        is_send = (pl.col("op") == "send_recv") & (pl.col("ranks_per_node") == 1)
        sends = over.filter(is_send)
        largest = sends.sort("bytes").row(-1, named=True)
        short = sends.filter(pl.col("bytes") <= _SHORT)["time_ns"].median()
        rest = over.filter(pl.col("op") != "send_recv")
        rate = 1e9 * largest["bytes"] / largest["time_ns"]
        return cls(name, rest, rate, float(short), "PCIE" in name)  # type: ignore[arg-type]

    def predicted(self, *, with_network: bool) -> pl.Series:
        """[ns] Each row by the roofline."""
        parts = []
        for (per_node,), rows in self.rows.group_by("ranks_per_node"):
            rate = self.bytes_per_second / (per_node if self.is_shared else 1)
            table_ = hardware_table()
            listed = table_.find(self.name)
            fast = {"network_bytes_per_second": 1e15, "network_latency_ns": 0.0}
            own = {
                "network_bytes_per_second": rate,
                "network_latency_ns": self.latency_ns,
            }
            figures = {**listed.figures, **(own if with_network else fast)}
            models = Models(
                (), replace(table_, rows=(replace(listed, figures=figures),))
            )
            asked = rows.with_columns(hardware=pl.lit(listed.name))
            times = shape_times(models, asked.select(_SHAPE))
            parts.append(rows.select("row").with_columns(times["ns"].alias("ns")))
        return pl.concat(parts).sort("row")["ns"]

    def errors(self) -> pl.DataFrame:
        """Logarithms of predicted over measured."""
        measured = self.rows["time_ns"].log()
        return self.rows.with_columns(
            error=self.predicted(with_network=True).log() - measured,
            before=self.predicted(with_network=False).log() - measured,
        )


def clusters(paths: list[Path]) -> Iterator[Cluster]:
    """Clusters in these files with several nodes, and sends between them."""
    rows = read_measurements(paths).frame
    rows = rows.filter(pl.col("family") == "collective", pl.col("bytes") >= 1)
    for (device, _), own in rows.group_by("device", "software", maintain_order=True):
        over = own.filter(pl.col("ranks_per_node") < pl.col("ranks"))
        if over["op"].n_unique() > 1 and "send_recv" in over["op"]:
            yield Cluster.of(
                str(device),
                own.with_columns(dtype=pl.lit("bytes")).with_row_index("row"),
            )


def section(found: list[Cluster]) -> str:
    """The section."""
    rows = []
    for cluster in found:
        errors = cluster.errors()
        groups = (
            errors.group_by("op", "ranks", "ranks_per_node")
            .agg(pl.all())
            .sort("op", "ranks", "ranks_per_node")
        )
        for group in groups.iter_rows(named=True):
            sizes = np.array(group["bytes"])
            if len(sizes) < _FEW:
                continue
            off, before = np.array(group["error"]), np.array(group["before"])
            cells = []
            for here in (sizes >= _LONG, sizes < _LONG):
                cells += _cells(off[here], before[here])
            nodes = group["ranks"] // group["ranks_per_node"]
            rows.append(
                [
                    cluster.name,
                    group["op"],
                    f"{nodes} x {group['ranks_per_node']}",
                    *cells,
                ]
            )
    head = ["cluster", "collective", "nodes x ranks", "long", "bias", "short", "bias"]
    told = [
        f"- {c.name}: {c.bytes_per_second / 1e9:.2f} GB/s, {c.latency_ns / 1e3:.0f} us"
        for c in found
    ]
    how = filled(HOW.strip(), sharing="all GPUs of a V100 node, one each of an A100's")
    return "\n".join([TITLE, "", how, "", *told, "", *table(head, rows, left=3), ""])


def gmae_share(logs: np.ndarray) -> float:
    """Geometric mean of unsigned errors, as `prediction.gmae_share`."""
    shares = np.maximum(np.abs(np.expm1(logs)), 1e-4)
    return float(np.exp(np.log(shares).mean()))


def _cells(off: np.ndarray, before: np.ndarray) -> list[str]:
    if not len(off):
        return ["", ""]
    gmae, other = (gmae_share(e) for e in (off, before))
    return [f"{gmae:.0%} ({other:.0%})", f"{np.expm1(np.median(off)):+.0%}"]


def main() -> None:
    """Measure, and write the section."""
    given = parser(__doc__)
    given.add_argument("measured", type=Path, nargs="+", metavar="CSV")
    asked = given.parse_args()
    publish_section(section([*clusters(asked.measured)]), asked.write)


if __name__ == "__main__":
    main()
