"""Collectives: `bytes` as nccl-tests count them, over `ranks` ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family, no_flops

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes

OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "send_recv",
)


def bus_bytes(shapes: Shapes) -> Floats:
    """[B] What each rank sends: nccl-tests' bus factor times the message.

    (n - 1) / n of all_gather, reduce_scatter and all_to_all, twice that of all_reduce,
    all of broadcast and send_recv.
    """
    ranks = shapes["ranks"]
    part = (ranks - 1) / ranks
    factor = np.select(
        [shapes.op == "all_reduce", np.isin(shapes.op, ("broadcast", "send_recv"))],
        [2 * part, np.ones_like(part)],
        part,
    )
    return factor * shapes["bytes"]


def ranks_per_node(shapes: Shapes) -> Floats:
    """Ranks of a node; all of them where that is unknown."""
    return shapes.known("ranks_per_node", shapes["ranks"])


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """How many nodes take part."""
    del hardware
    return {"log_nodes": np.log(shapes["ranks"] / ranks_per_node(shapes))}


COLLECTIVE = Family(
    name="collective",
    columns=("bytes", "ranks", "ranks_per_node"),
    flops=no_flops,
    read_bytes=bus_bytes,
    written_bytes=no_flops,
    features=features,
    optional={"ranks_per_node": ranks_per_node},
    bandwidths=dict.fromkeys(OPS, "nvlink_bytes_per_second"),
    group=("ranks", "ranks_per_node"),
    is_typed=False,
)
