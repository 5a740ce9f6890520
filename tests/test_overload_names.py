"""Ops recorded with the names of their overloads (`capture_overload_names`)."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import pytest
from launched import Op, tensors, write
from support import ingests_until, rows

import tracedb

if TYPE_CHECKING:
    from pathlib import Path

OVERLOADS = {
    "aten::add": "Tensor",
    "aten::sum": "dim_IntList",
    "aten::transpose": "int",
    "aten::mm": "out",
}
OTHERS = ("module::layer.conv", "vllm::silu.0", "aten::to.12")
"""Names with a point that is of no overload."""
ANSWERS = (
    "SELECT op_id, name, top_op_id FROM staging.op ORDER BY op_id",
    "SELECT op_id, family, flops, read_bytes FROM prediction.op_work ORDER BY op_id",
    "SELECT name, prediction.computes_nothing(name) FROM staging.op ORDER BY name",
)


@pytest.mark.until("prediction")
def test_overloads_change_no_answer(tmp_path: Path) -> None:
    """An op is the same with and without; other names keep what follows a point."""
    sizes = tensors((64, 64), (64, 64))
    ops = [Op(name, **sizes, kernels=["k"]) for name in OVERLOADS]
    plain = write(
        tmp_path / "plain.json", [*ops, *(Op(n, [], [], kernels=[]) for n in OTHERS)]
    )
    trace = json.loads(plain.read_text())
    named = copy.deepcopy(trace)
    for event in named["traceEvents"]:
        if event.get("cat") == "cpu_op" and event["name"] in OVERLOADS:
            event["name"] += f".{OVERLOADS[event['name']]}"
    (tmp_path / "named.json").write_text(json.dumps(named))
    found = []
    for file in ("plain.json", "named.json"):
        with tracedb.open() as database, ingests_until("prediction"):
            database.ingest([tmp_path / file])
            found.append([rows(database, query) for query in ANSWERS])
    assert found[0] == found[1]
    assert {*OTHERS} <= {name for name, _ in found[1][2]}
    assert len(found[1][1]) > 2
