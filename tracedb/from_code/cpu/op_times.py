"""Predict the times of ops on a CPU by models of its measurements, each shape once.

`prediction.op_problem` describes the work of an op, as it does for GPU work. An op
without a model takes as long as an addition that moves as many bytes: the CPU's
measured roofline of memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

from tracedb import catalog
from tracedb.duck import frame
from tracedb.from_code.pricing import key_of, launched, one_of_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from tracedb.from_code.pricing import Key
    from tracedb.from_code.program import Node
    from tracedb.kernels.models import Models

_PROBLEMS = """
SELECT first_number, problem.* EXCLUDE (op_id, run_id, trace_id)
FROM prediction.op_problem AS problem
INNER JOIN (
    SELECT op_id, min(correlation) AS first_number
    FROM staging.gpu_op
    GROUP BY op_id
) USING (op_id)
ORDER BY ALL
"""
_BATCH_NORM = "batch_norm"
_ADDED_BYTES = 12
"""[B] What an addition of two fp32 elements moves."""
_LEAST_BYTES = 16 * _ADDED_BYTES
_UNKNOWN = (1 / 3, 3.0)
"""The band of an op without a model, as factors of its time."""


@dataclass(frozen=True)
class OpTime:
    """[ns] The time of an op, its band, and the kind whose models predict it.

    Without `is_modelled`, its kind was not measured, and the time is the roofline's.
    """

    expected: float
    low: float
    high: float
    kind: str
    is_modelled: bool = True


def op_times(
    connection: duckdb.DuckDBPyConnection, nodes: Sequence[Node], models: Models
) -> dict[int, OpTime]:
    """The time of each op by `id(node)`. The database must be empty."""
    keys = {id(node): key_of(node) for node in nodes}
    unique = {keys[id(node)]: node for node in nodes}
    each = list(unique.values())
    modelled = _modelled(in_pieces(_problems(connection, each), each), models)
    rest = {k: node for n, (k, node) in enumerate(unique.items()) if n not in modelled}
    times = _by_roofline(rest, models)
    for number, key in enumerate(unique):
        if number in modelled:
            times[key] = modelled[number]
    return {identity: times[key] for identity, key in keys.items()}


def _problems(
    connection: duckdb.DuckDBPyConnection, nodes: Sequence[Node]
) -> pl.DataFrame:
    """The problems of each op (zero or more), with the op's index in `place`."""
    from tracedb.ingest import ingest

    with TemporaryDirectory(prefix="tracedb-") as folder:
        file = Path(folder, "ops.json")
        file.write_text(one_of_each(nodes, "CPU"))
        ingest(
            connection, [file], run=None, pair=False,
            progress=lambda _line: None, until="staging",
        )  # fmt: skip
    (trace,) = connection.execute("SELECT max(trace_id) FROM raw.trace").fetchall()[0]
    stored = {
        name
        for name in catalog.sources("prediction.op_problem")
        if name.startswith("prediction.")
    }
    for _ in catalog.compute(connection, [trace], stored | {"prediction.op_problem"}):
        pass
    numbers = {}
    number = 1
    for place, node in enumerate(nodes):
        numbers[number] = place
        number += len(launched(node)[2])
    found = frame(connection.sql(_PROBLEMS))
    places = found["first_number"].replace_strict(numbers, return_dtype=pl.Int64)
    return found.with_columns(place=places).drop("first_number")


def in_pieces(problems: pl.DataFrame, nodes: Sequence[Node]) -> pl.DataFrame:
    """Batch norms by what lies in one piece of memory, over which a CPU loops.

    That is a channel of an image (op `batch_norm_nchw`), or an example where each
    channel is one number (`batch_norm_nhwc`): many small pieces take longer than a few
    large ones. `place` of a problem is the index of its node. Layouts are not known, so
    images are taken to be contiguous.
    """
    rows = [_by_piece(row, nodes[row["place"]]) for row in problems.to_dicts()]
    return pl.DataFrame(rows, schema=problems.schema)


def _by_piece(row: dict[str, Any], node: Node) -> dict[str, Any]:
    op = row["op"]
    if node.dispatched is None or not (op or "").startswith(_BATCH_NORM):
        return row
    examples, channels, *sides = node.dispatched.tensors[0].dims
    pixels = prod(sides)
    if pixels > 1:
        layout, pieces, width = "nchw", examples * channels, pixels
    else:
        layout, pieces, width = "nhwc", examples, channels
    named = f"{_BATCH_NORM}_{layout}{op.removeprefix(_BATCH_NORM)}"
    return row | {"op": named, "rows": pieces, "width": width}


def _modelled(problems: pl.DataFrame, models: Models) -> dict[int, OpTime]:
    """The times of ops all of whose problems have a model."""
    # Estimates have dense gradients of embedding tables.
    is_table = pl.col("family") == "embedding_bag_backward"
    asked = problems.with_columns(
        op=pl.when(is_table).then("dense_" + pl.col("op")).otherwise("op"),
        hardware=pl.lit(_hardware(models)),
        measured=pl.lit("op"),
    )
    predicted = models.predict(asked)
    rows = asked.select("place", "family", "op").hstack(predicted.select(_TIMES))
    found: dict[int, OpTime] = {}
    for (place,), part in rows.group_by("place", maintain_order=True):
        if part["predicted_ns"].null_count():
            continue
        family, op = part.row(0, named=True)["family"], "/".join(part["op"])
        ns, low, high = (float(part[name].sum()) for name in _TIMES)
        found[int(str(place))] = OpTime(ns, low, high, f"{family} {op}")
    return found


_TIMES = ("predicted_ns", "low_ns", "high_ns")


def _hardware(models: Models) -> str:
    """The hardware of the models."""
    return models.shelves[0].key.hardware


def _by_roofline(rest: dict[Key, Node], models: Models) -> dict[Key, OpTime]:
    """The times of ops without a model."""
    if not rest:
        return {}
    counts = [
        max(_moved_bytes(node), _LEAST_BYTES) // _ADDED_BYTES for node in rest.values()
    ]
    asked = pl.DataFrame({"elements": counts}).with_columns(
        hardware=pl.lit(_hardware(models)),
        measured=pl.lit("op"),
        family=pl.lit("elementwise"),
        op=pl.lit("add"),
        dtype=pl.lit("float32"),
        inputs=pl.lit(2),
        outputs=pl.lit(1),
    )
    expected = models.predict(asked)["predicted_ns"]
    low, high = _UNKNOWN
    return {
        key: OpTime(
            ns, low * ns, high * ns, f"no model: {launched(node)[0]}", is_modelled=False
        )
        for (key, node), ns in zip(rest.items(), expected, strict=True)
    }


def _moved_bytes(node: Node) -> int:
    """[B] What an op reads and writes."""
    op = node.dispatched
    assert op is not None  # noqa: S101 (what computes was dispatched)
    return sum(
        shape.elements * shape.element_bytes for shape in (*op.tensors, *op.results)
    )
