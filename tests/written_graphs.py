"""Execution graphs written by hand, in schema 1.0.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Graph = dict[str, Any]


def node(number: int, name: str, above: int, schema: str = "", **more: object) -> Graph:
    """A node of schema 1.0.1."""
    given = {
        "id": number, "name": name, "parent": above, "rf_id": number, "fw_parent": 0,
        "seq_id": -1, "scope": 0 if schema else 7, "tid": 1, "fw_tid": 0,
        "op_schema": schema, "inputs": [], "input_shapes": [], "input_types": [],
        "outputs": [], "output_shapes": [], "output_types": [],
    }  # fmt: skip
    return given | more


def tensor(storage: int, *dims: int, device: str = "cuda:0") -> dict[str, Any]:
    """A float32 tensor."""
    count = 1
    for size in dims:
        count *= size
    value = [storage, storage, 0, count, 4, device]
    return {"values": value, "shapes": list(dims), "types": "Tensor(float)"}


def values(side: str, *given: dict[str, Any]) -> Graph:
    """Inputs or outputs of a node."""
    return {
        f"{side}s": [one["values"] for one in given],
        f"{side}_shapes": [one["shapes"] for one in given],
        f"{side}_types": [one["types"] for one in given],
    }


def plain(value: object, kind: str) -> dict[str, Any]:
    """A value that is not a tensor."""
    return {"values": value, "shapes": [], "types": kind}


PROCESS = "[pytorch|profiler|execution_graph|process]"
THREAD = "[pytorch|profiler|execution_graph|thread]"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
COPY = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"


def product(number: int, above: int, *storages: int, **more: object) -> Graph:
    """A product of two matrices."""
    first, second, result = (tensor(storage, 64, 64) for storage in storages)
    return node(
        number, "aten::mm", above, MM,
        **values("input", first, second), **values("output", result), **more,
    )  # fmt: skip


def written(nodes: list[Graph], path: Path) -> Path:
    """A graph of these nodes, in the order in which they ended."""
    roots = [node(1, PROCESS, 1), node(2, THREAD, 1)]
    path.write_text(json.dumps({"schema": "1.0.1", "nodes": [*nodes, *roots]}))
    return path


def collective(  # noqa: PLR0913 (what a call records)
    number: int,
    above: int,
    name: str,
    *storages: int,
    group: int = 77,
    rank: int = 0,
    rows: int = 1024,
    ranks: tuple[int, int, int] | None = None,
) -> Graph:
    """A collective, or the wait for it.

    `ranks` are the first rank of the group, its stride and its size, which newer
    versions record.
    """
    given = [tensor(storage, rows, 1024) for storage in storages]
    called = [plain(5, "Int"), plain(group, "Int"), plain(rank, "Int")]
    called += [plain(name, "String"), plain([], "GenericList[]")]
    if ranks is not None:
        called += [plain([], "GenericList[]"), *(plain(one, "Int") for one in ranks)]
    return node(
        number, "record_param_comms", above, scope=0,
        **values("input", *given, *called), **values("output", *given),
    )  # fmt: skip
