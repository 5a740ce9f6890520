"""Readers of public measurements (CSV), recognised by their columns.

Each turns one file format into the rows of `measurements.py`, and says which rows are
known to be wrong, and why: those are dropped and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

LICENCES: Mapping[str, str] = {
    "aiconfigurator": "ai-dynamo/aiconfigurator, Apache-2.0",
    "apex_plus": "microsoft/apex_plus, Apache-2.0",
    "infersim": "alibaba/InferSim, Apache-2.0",
    "mlpredict": "CDECatapult/ml-performance-prediction, Apache-2.0",
    "neusight": "sitar-lab/NeuSight, MIT",
    "pipeweave": "zksainx/pipeweave, Apache-2.0",
    "superbench": "microsoft/superbenchmark, MIT",
    "vidur": "microsoft/vidur, MIT",
}
"""The projects on GitHub whose measurements are read, and their licences."""


@dataclass(frozen=True)
class Reader:
    """One public file format."""

    source: str
    """Project whose data it is; the licence is beside the data."""
    columns: str
    """The file has exactly these columns, in any order."""
    values: Mapping[str, pl.Expr]
    """Columns of a measurement, from columns of the file."""
    wrong: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Rows that are dropped: why, and which."""

    def read(self, file: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
        """The measurements of a file, and how many rows were dropped for what."""
        dropped = {}
        for reason, is_wrong in self.wrong.items():
            kept = file.filter(~is_wrong)
            dropped[reason] = file.height - kept.height
            file = kept
        columns = [value.alias(name) for name, value in self.values.items()]
        source = pl.lit(self.source).alias("source")
        return file.select(*columns, source), {k: n for k, n in dropped.items() if n}


_MICROSECOND = 1e3


def _c(name: str) -> pl.Expr:
    return pl.col(name)


def _named(column: str, names: Mapping[str, str]) -> pl.Expr:
    """A column with other names for some of its values."""
    return pl.col(column).replace(dict(names))


def _milliseconds(column: str = "time_ms") -> pl.Expr:
    return pl.col(column).cast(pl.Float64) * 1e6


_DTYPES = {"fp32": "float32", "fp16": "float16", "half": "float16", "fp8": "float8"}
_dtype = _named("dtype", _DTYPES)
# The clusters that were measured, by the names that drivers give to their GPUs.
_AIC_DEVICES = {
    "a100_sxm": "NVIDIA A100-SXM4-80GB",
    "h100_sxm": "NVIDIA H100 80GB HBM3",
    "b200_sxm": "NVIDIA B200",
    "l40s": "NVIDIA L40S",
    "h200_sxm": "NVIDIA H200",
}
_VIDUR_DEVICES = {
    "a100": "NVIDIA A100-SXM4-80GB",
    "h100": "NVIDIA H100 80GB HBM3",
    "a40": "NVIDIA A40",
}
_VIDUR_CLUSTERS = {
    "a100_dgx": "NVIDIA A100-SXM4-80GB",
    # Pairs of cards with a bridge between them are not nodes with a switch.
    "a100_pairwise_nvlink": "NVIDIA A100 80GB PCIe",
    "h100_pairwise_nvlink": "NVIDIA H100 PCIe",
    "a40_pairwise_nvlink": "NVIDIA A40",
}
_NCCL_OPS = {"alltoall": "all_to_all"}
_kernel, _op = pl.lit("kernel"), pl.lit("op")

_AIC = {
    "device": _named("device", _AIC_DEVICES),
    "software": _c("runtime"),
    "measured": _kernel,
    "time_ns": _milliseconds(),
}
_AIC_ATTENTION = _AIC | {
    "software": pl.concat_str("runtime", "kernel_source", separator=" "),
    "family": pl.lit("attention"),
    "op": pl.lit("forward"),
    "dtype": _dtype,
    "images": _c("batch_size"),
    "heads": _c("num_heads"),
    "queries": _c("isl"),
    "keys": _c("isl"),
    "head_dim": _c("head_dim"),
}
_AIC_WRONG = {"shorter than 1 us: outliers": _milliseconds() < _MICROSECOND}

_NEUSIGHT = {
    "device": _c("device"),
    "software": pl.lit("torch 2.1.0, cuda 12.1"),
    "measured": _op,
    "dtype": _dtype,
    "time_ns": _milliseconds(),
}
_NEUSIGHT_GEMM = "device op dtype B M N K time_ms kernel gx gy gz bx"
_NEUSIGHT_ROWS = {"softmax": "softmax", "ln": "normalisation"}
# `addu`, `mulu` and so on take a number as their second operand.
_unary = _c("op").is_in(["add", "mul", "div", "pow"]).not_()
_is_rows = _c("op").is_in(list(_NEUSIGHT_ROWS))

_MLPREDICT = {
    "device": _named("device", {"P100": "Tesla P100", "V100": "Tesla V100"}),
    "software": pl.lit("tensorflow"),
    "measured": _op,
    "dtype": pl.lit("float32"),
    "time_ns": _milliseconds(),
}


def _mlpredict_op(forward: str) -> pl.Expr:
    """Forward alone, or forward, backward and the update of an optimizer."""
    train = pl.lit("train_") + _c("opt").str.to_lowercase()
    return pl.when(_c("opt") == "None").then(pl.lit(forward)).otherwise(train)


_VIDUR_FAMILIES = {
    "gemm": "gemm",
    "embedding": "embedding",
    "rmsnorm": "normalisation",
    "silu_mul": "elementwise",
    "rope": "elementwise",
    "add": "elementwise",
}
_vidur_family = _named("op", _VIDUR_FAMILIES)


def _where(family: str, value: pl.Expr) -> pl.Expr:
    return pl.when(_vidur_family == family).then(value).cast(pl.Int64)


_COLLECTIVE = {
    "measured": _kernel,
    "family": pl.lit("collective"),
    "op": _named("op", _NCCL_OPS),
    "dtype": pl.lit("bytes"),
    "bytes": _c("bytes"),
    "time_ns": _milliseconds(),
}
_GEMM = {"m": _c("m"), "n": _c("n"), "k": _c("k")}
_PROFILED = {"low_ns": _milliseconds("t_min"), "high_ns": _milliseconds("t_max")}

READERS: tuple[Reader, ...] = (
    Reader(
        "aiconfigurator",
        "device runtime op dtype m n k time_ms",
        _AIC
        | {
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": _dtype,
            "m": _c("m"),
            "n": _c("n"),
            "k": _c("k"),
        },
        _AIC_WRONG,
    ),
    Reader(
        "aiconfigurator",
        (
            "device runtime kernel_source op dtype kv_cache_dtype "
            "batch_size isl num_heads num_key_value_heads head_dim step "
            "window_size time_ms"
        ),
        _AIC_ATTENTION | {"kv_heads": _c("num_key_value_heads"), "causal": pl.lit(1)},
        {
            "sliding window: not the shape of an op": _c("window_size") > 0,
            "keys in fp8": _c("kv_cache_dtype") == "fp8",
            **_AIC_WRONG,
        },
    ),
    Reader(
        "aiconfigurator",
        (
            "device runtime kernel_source op dtype batch_size isl num_heads "
            "head_dim time_ms"
        ),
        _AIC_ATTENTION | {"kv_heads": _c("num_heads"), "causal": pl.lit(0)},
        _AIC_WRONG,
    ),
    Reader(
        "aiconfigurator",
        "device runtime kernel_source op dtype m k time_ms",
        _AIC
        | {
            "family": pl.when(_c("op") == "compute_scale")
            .then(pl.lit("reduction"))
            .otherwise(pl.lit("elementwise")),
            "op": _c("op"),
            "dtype": pl.lit("bfloat16"),
            "rows": pl.when(_c("op") == "compute_scale").then("m"),
            "width": pl.when(_c("op") == "compute_scale").then("k"),
            "elements": pl.when(_c("op") != "compute_scale").then(_c("m") * _c("k")),
            "inputs": pl.when(_c("op") != "compute_scale").then(1),
            "outputs": pl.when(_c("op") != "compute_scale").then(1),
        },
        {
            "differences of two measurements": _c("kernel_source").str.contains(
                "minus"
            ),
            **_AIC_WRONG,
        },
    ),
    Reader(
        "aiconfigurator",
        "device runtime op dtype num_gpus bytes time_ms",
        _AIC
        | _COLLECTIVE
        | {"ranks": _c("num_gpus"), "ranks_per_node": _c("num_gpus")},
    ),
    Reader(
        "neusight",
        _NEUSIGHT_GEMM,
        _NEUSIGHT
        | {
            "family": pl.lit("gemm"),
            "op": _c("op"),
            "batch": _c("B"),
            "m": _c("M"),
            "n": _c("N"),
            "k": _c("K"),
        },
    ),
    Reader(
        "neusight",
        ("device op dtype B Cin Cout R H stride pad time_ms kernel gx gy gz bx"),
        _NEUSIGHT
        | {
            "family": pl.lit("convolution"),
            "op": pl.lit("forward"),
            "images": _c("B"),
            "channels_in": _c("Cin"),
            "channels_out": _c("Cout"),
            "height": _c("H"),
            "width": _c("H"),
            "kernel_height": _c("R"),
            "kernel_width": _c("R"),
            "stride": _c("stride"),
            "padding": _c("pad"),
        },
    ),
    Reader(
        "neusight",
        "device op dtype B H time_ms gx bx",
        _NEUSIGHT
        | {
            "family": _c("op").replace_strict(_NEUSIGHT_ROWS, default="elementwise"),
            "op": _c("op")
            .replace({"ln": "layer_norm"})
            .str.replace("^(add|mul|div|pow)u$", "${1}"),
            "rows": pl.when(_is_rows).then("B"),
            "width": pl.when(_is_rows).then("H"),
            "elements": pl.when(~_is_rows).then(_c("B") * _c("H")),
            "inputs": pl.when(~_is_rows).then(pl.when(_unary).then(1).otherwise(2)),
            "outputs": pl.when(~_is_rows).then(1),
        },
    ),
    Reader(
        "mlpredict",
        (
            "device batchsize channels_in channels_out kernelsize matsize "
            "padding strides use_bias opt act time_ms t_std"
        ),
        _MLPREDICT
        | {
            "family": pl.lit("convolution"),
            "op": _mlpredict_op("forward"),
            "images": _c("batchsize"),
            "channels_in": _c("channels_in"),
            "channels_out": _c("channels_out"),
            "height": _c("matsize"),
            "width": _c("matsize"),
            "kernel_height": _c("kernelsize"),
            "kernel_width": _c("kernelsize"),
            "stride": _c("strides"),
            # 1 stands for "same": the output is as large as the input over the stride.
            "padding": _c("padding") * (_c("kernelsize") // 2),
        },
    ),
    Reader(
        "mlpredict",
        "device batchsize dim_input dim_output opt act time_ms t_std",
        _MLPREDICT
        | {
            "family": pl.lit("gemm"),
            "op": _mlpredict_op("dense"),
            "m": _c("batchsize"),
            "n": _c("dim_output"),
            "k": _c("dim_input"),
        },
    ),
    Reader(
        "pipeweave",
        "device M N K time_us",
        {
            "device": pl.lit("NVIDIA ") + _c("device"),
            "software": pl.lit("pipeweave"),
            "measured": _kernel,
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": pl.lit("float8"),
            "m": _c("M"),
            "n": _c("N"),
            "k": _c("K"),
            "time_ns": _milliseconds("time_us") / 1000,
        },
    ),
    Reader(
        "vidur",
        "device model site op dtype tp M N K time_ms t_min t_max t_std",
        _PROFILED
        | {
            "device": _named("device", _VIDUR_DEVICES),
            "software": pl.lit("vidur"),
            "measured": _kernel,
            "family": _vidur_family,
            "op": _named("op", {"rmsnorm": "rms_norm"}),
            "dtype": _dtype,
            "m": _where("gemm", _c("M")),
            "n": _where("gemm", _c("N")),
            "k": _where("gemm", _c("K")),
            "rows": pl.when(_vidur_family.is_in(["embedding", "normalisation"])).then(
                "M"
            ),
            # The kernel of an addition does not go row by row.
            "width": pl.when(~_c("op").is_in(["gemm", "add"])).then("N"),
            "table_rows": _where("embedding", _c("K")),
            "elements": _where("elementwise", _c("M") * _c("N")),
            "inputs": _where(
                "elementwise", pl.when(_c("op") == "rope").then(1).otherwise(2)
            ),
            "outputs": _where("elementwise", pl.lit(1)),
            "repeats": pl.lit(20),
            "time_ns": _milliseconds(),
        },
        {"shorter than 1 us: the clock has 1 us": _milliseconds() < _MICROSECOND},
    ),
    Reader(
        "vidur",
        ("device op num_gpus devices_per_node bytes time_ms t_min t_max t_std"),
        _COLLECTIVE
        | _PROFILED
        | {
            "device": _named("device", _VIDUR_CLUSTERS),
            "software": pl.lit("vidur ") + _c("device"),
            "ranks": _c("num_gpus"),
            "ranks_per_node": _c("devices_per_node"),
        },
        {"shorter than 1 us: the clock has 1 us": _milliseconds() < _MICROSECOND},
    ),
    Reader(
        "pipeweave",
        "device op n devices_per_node bytes time_ms t_min t_max t_std",
        _COLLECTIVE
        | _PROFILED
        | {
            "device": pl.lit("NVIDIA ") + _c("device"),
            "software": pl.lit("pipeweave"),
            "ranks": _c("n"),
            "ranks_per_node": _c("devices_per_node"),
        },
    ),
    Reader(
        "apex_plus",
        "gpu dtype m k n time(us)",
        {
            "device": pl.lit("Tesla ") + _c("gpu"),
            "software": pl.lit("apex_plus"),
            # Whole microseconds, and no product below 13: with its launch.
            "measured": _op,
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": _dtype,
            **_GEMM,
            "time_ns": _milliseconds("time(us)") / 1000,
        },
    ),
    Reader(
        "infersim",
        "m k n latency_us mfu gpu",
        {
            "device": pl.lit("NVIDIA ") + _c("gpu"),
            "software": pl.lit("DeepGEMM"),
            "measured": _kernel,
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": pl.lit("float8"),
            **_GEMM,
            "time_ns": _milliseconds("latency_us") / 1000,
        },
    ),
    Reader(
        "superbench",
        "dir bytes gbps",
        {
            "device": pl.lit("Tesla V100-PCIE-32GB"),
            "software": pl.lit("bandwidthTest"),
            # It times loops of calls on the host.
            "measured": _op,
            "family": pl.lit("memcpy"),
            "op": _c("dir").str.to_lowercase(),
            "dtype": pl.lit("bytes"),
            "bytes": _c("bytes"),
            # On the device it counts bytes twice: read and written.
            "time_ns": _c("bytes")
            * pl.when(_c("dir") == "D2D").then(2).otherwise(1)
            / _c("gbps"),
        },
        {"slower than 2 GB/s: given to 0.1 GB/s": _c("gbps") < 2},  # noqa: PLR2004
    ),
)


def reader_of(columns: frozenset[str]) -> Reader | None:
    """The reader of the format with these columns."""
    return next(
        (reader for reader in READERS if set(reader.columns.split()) == columns), None
    )
