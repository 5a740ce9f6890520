"""Products of quantised matrices without the time that quantising took.

A server's linear layer of one-byte types takes its input in bf16: it finds the scale,
scales the matrix, and multiplies. In a trace these are kernels of their own, and the
product is that of `_scaled_mm`. Where a campaign measured all three, what is left of
the layer is the product.

TensorRT-LLM's layers are exactly that. On six GPUs (aiconfigurator, H100 to B300), what
is left takes 0.50 to 0.55 of the time of bf16 in the median of products of 0.2 ms and
more (P10 0.45, P90 0.64), as the peaks have it.
"""

from __future__ import annotations

import polars as pl

LAYER = "quantised_linear"
"""The op of a layer: its input is quantised in its time."""
PRODUCT = "gemm"
SCALE, SCALED = "compute_scale", "scale_matrix"
"""The ops that quantise a matrix: they find its scale, and multiply by it."""
_CAMPAIGN = ("device", "source", "software")
_INPUT = (*_CAMPAIGN, "m", "k")
"""The input of a layer, in a campaign."""
_MOST = 0.9


def products(frame: pl.DataFrame) -> pl.DataFrame:
    """Measurements in which products are alone, if that can be found out.

    The other layers of a campaign stay layers: those of a shape for which one of the
    other ops is unknown, and all if it is unknown for most.
    """
    is_layer = pl.col("op") == LAYER
    rows = {SCALE: pl.col("rows"), SCALED: pl.col("elements") // pl.col("width")}
    found = frame.with_columns(_of=pl.when(is_layer).then(pl.lit(LAYER)))
    for op, count in rows.items():
        times = (
            frame.filter(pl.col("op") == op)
            .group_by(*_CAMPAIGN, count.alias("m"), pl.col("width").alias("k"))
            .agg(pl.col("time_ns").median().alias(f"_{op}"))
            .with_columns(_of=pl.lit(LAYER))
        )
        found = found.join(
            times, on=["_of", *_INPUT], how="left", maintain_order="left"
        )
    left = pl.col("time_ns") - pl.col(f"_{SCALE}") - pl.col(f"_{SCALED}")
    is_known = left.is_not_null() & (left.count() > _MOST * is_layer.sum()).over(
        _CAMPAIGN
    )
    return found.with_columns(
        op=pl.when(is_known).then(pl.lit(PRODUCT)).otherwise("op"),
        time_ns=pl.when(is_known).then(left).otherwise("time_ns"),
    ).select(frame.columns)
