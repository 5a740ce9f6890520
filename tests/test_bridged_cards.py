"""Collectives of cards that a bridge joins: two over NVLink, more over PCIe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from launched import Op as Launched
from launched import write
from support import ROOT, rows

import tracedb
from tracedb.kernels import read_measurements
from tracedb.kernels.collective_table import OTHER_KIND, fit_table
from tracedb.kernels.families import FAMILIES
from tracedb.kernels.groups import groups_of
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.rows import rows_of
from tracedb.kernels.transfer import are_twins
from tracedb.kernels.usual import usual_ns
from tracedb.kernels.work import Op

if TYPE_CHECKING:
    from pathlib import Path

    from tracedb.kernels.rows import Rows

BRIDGED, SWITCHED = "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"
NVLINK, PCIE = 300.0, 31.5
"""GB/s of the link of an A100 PCIe, and of its slot."""
REDUCED = Op("collective", "all_reduce", "bytes")
LARGE = 1 << 30
MEASURED = ROOT.parent / "shared" / "kerneldata" / "vidur_collectives.csv.gz"


def reduction(ranks: int) -> Launched:
    """An all-reduce of 1 GiB."""
    sizes = {"In msg nelems": LARGE // 4, "Out msg nelems": LARGE // 4}
    more = {"Collective name": "allreduce", "Group size": ranks, "dtype": "Float"}
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    given = (*sizes.items(), *more.items())
    return Launched("record_param_comms", [], [], kernels=(kernel,), more=given)


def asked(device: str, ranks: int) -> Rows:
    """Rows of an all-reduce within a node, from 1 KiB to 1 GiB."""
    frame = pl.DataFrame({"bytes": [1 << power for power in range(10, 31)]})
    frame = frame.with_columns(ranks=pl.lit(ranks), ranks_per_node=pl.lit(ranks))
    return rows_of(
        frame, REDUCED, hardware_table().find(device).figures, is_listed=True
    )


@pytest.mark.parametrize("device", [BRIDGED, SWITCHED])
def test_a_trace_has_the_link_of_its_ranks(device: str, tmp_path: Path) -> None:
    """The roofline of a trace and that of the models are over the same link."""
    counts = (2, 3, 4, 8)
    path = write(tmp_path / "trace.json", [*map(reduction, counts)], device)
    with tracedb.open() as database:
        database.ingest([path])
        query = """
            SELECT roofline_ns
            FROM prediction.kernel_roofline
            WHERE family = 'collective'
            ORDER BY gpu_op_id
        """
        found = [ns for (ns,) in rows(database, query)]
    expected = [usual_ns(asked(device, ranks))[-1] for ranks in counts]
    assert found == pytest.approx(expected, rel=0.01)
    per_bus_byte = [ns / (2 * (n - 1) / n) for ns, n in zip(found, counts, strict=True)]
    slower = NVLINK / PCIE if device == BRIDGED else 1
    assert per_bus_byte[1:] == pytest.approx([slower * per_bus_byte[0]] * 3, rel=0.02)


@pytest.mark.skipif(not MEASURED.exists(), reason="../shared/kerneldata is absent")
@pytest.mark.parametrize("device", ["A100 PCIe", "H100 PCIe"])
def test_four_measured_cards(device: str) -> None:
    """The roofline of four bridged cards is off by less than 15 % in the mean."""
    groups = groups_of(read_measurements([MEASURED]).frame)
    group = next(
        g for g in groups if (g.key.hardware, g.key.op) == (device, "all_reduce")
    )
    four = group.rows.take(group.rows.shapes["ranks"] == 4)
    off = np.abs(usual_ns(four) / four.time_ns - 1)
    assert len(four) > 100
    assert off.mean() < 0.15


@pytest.mark.parametrize(("ranks", "measured"), [(2, 2), (3, 4), (8, 4)])
def test_tables_do_not_lead_from_one_link_to_another(ranks: int, measured: int) -> None:
    """Three and eight cards follow from four, not from the two of a bridge."""
    ns = {n: usual_ns(asked(BRIDGED, n)) for n in (2, 4, ranks)}
    known = [replace(asked(BRIDGED, n), time_ns=ns[n]) for n in (2, 4)]
    frame = pl.concat(
        pl.DataFrame(dict(each.shapes.sizes)).select(
            "bytes", "ranks", "ranks_per_node", time_ns=pl.Series(each.time_ns)
        )
        for each in known
    )
    figures = hardware_table().find(BRIDGED).figures
    table = fit_table(rows_of(frame, REDUCED, figures, is_listed=True))
    found = table.predict_ns(asked(BRIDGED, ranks))
    # A ring of more cards has the same rate, and more steps.
    assert found[-1] == pytest.approx(ns[ranks][-1], rel=0.05)
    assert (table.away(asked(BRIDGED, ranks)) > 0).all() == (ranks != measured)
    alone = fit_table(known[0])
    assert (alone.away(asked(BRIDGED, ranks)) >= OTHER_KIND).all() == (ranks > 2)


def test_bridged_cards_are_no_twins_of_switched_ones() -> None:
    """They have the same chip: products are alike, collectives are not."""
    table = hardware_table()
    cards = table.find(BRIDGED), table.find(SWITCHED)
    assert are_twins(*cards, FAMILIES["gemm"], "bfloat16")
    assert not are_twins(*cards, FAMILIES["collective"], "bytes")
    linked = [
        table.find(name).figures.get("linked_devices") for name in ("H200 NVL", "B200")
    ]
    assert linked == [4, None]
