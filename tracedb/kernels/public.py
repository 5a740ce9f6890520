"""Readers of public measurements as tables of their shapes (CSV), by their columns.

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
    "apex_plus": "microsoft/apex_plus, MIT",
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
        file, dropped = without(self.wrong, file)
        columns = [value.alias(name) for name, value in self.values.items()]
        source = pl.lit(self.source).alias("source")
        return file.select(*columns, source), dropped


def without(
    wrong: Mapping[str, pl.Expr], file: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, int]]:
    """The rows that are not known to be wrong, and how many are, by the reason."""
    dropped = {}
    for reason, is_wrong in wrong.items():
        kept = file.filter(~is_wrong.fill_null(value=False))
        dropped[reason] = file.height - kept.height
        file = kept
    return file, {reason: count for reason, count in dropped.items() if count}


MICROSECOND = 1e3


def c(name: str) -> pl.Expr:
    """A column of a file."""
    return pl.col(name)


def _named(column: str, names: Mapping[str, str]) -> pl.Expr:
    """A column with other names for some of its values."""
    return pl.col(column).replace(dict(names))


def milliseconds(column: str = "time_ms") -> pl.Expr:
    """[ns] A time of a file."""
    return pl.col(column).cast(pl.Float64) * 1e6


def microseconds(column: str) -> pl.Expr:
    """[ns] A time of a file."""
    return pl.col(column).cast(pl.Float64) * MICROSECOND


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
    "software": c("runtime"),
    "measured": _kernel,
    "time_ns": milliseconds(),
}
ATTENTION = {
    "family": pl.lit("attention"),
    "op": pl.lit("forward"),
    "images": c("batch_size"),
    "heads": c("num_heads"),
    "queries": c("isl"),
    "keys": c("isl"),
    "head_dim": c("head_dim"),
}
_AIC_ATTENTION = {
    **_AIC,
    **ATTENTION,
    "software": pl.concat_str("runtime", "kernel_source", separator=" "),
    "dtype": _dtype,
}


def quantised(op: pl.Expr) -> dict[str, pl.Expr]:
    """The scale of a matrix, or its product with one."""
    is_scale = op == "compute_scale"
    return {
        "family": pl.when(is_scale)
        .then(pl.lit("reduction"))
        .otherwise(pl.lit("elementwise")),
        "op": op,
        "dtype": pl.lit("bfloat16"),
        "rows": pl.when(is_scale).then("m"),
        "width": pl.when(is_scale).then("k"),
        "elements": pl.when(~is_scale).then(c("m") * c("k")),
        "inputs": pl.when(~is_scale).then(1),
        "outputs": pl.when(~is_scale).then(1),
    }


_AIC_WRONG = {"shorter than 1 us: outliers": milliseconds() < MICROSECOND}

_NEUSIGHT = {
    "device": c("device"),
    "software": pl.lit("torch 2.1.0, cuda 12.1"),
    "measured": _op,
    "dtype": _dtype,
    "time_ns": milliseconds(),
}
_NEUSIGHT_ROWS = {"softmax": "softmax", "ln": "normalisation"}


def neusight_gemm(op: pl.Expr) -> dict[str, pl.Expr]:
    """Products: of a batch (`bmm`), or by a weight (`linear`)."""
    sizes = {"batch": c("B"), "m": c("M"), "n": c("N"), "k": c("K")}
    return {"family": pl.lit("gemm"), "op": op, **sizes}


def neusight_vector(op: pl.Expr) -> dict[str, pl.Expr]:
    """Ops on the elements or on the rows of a matrix."""
    # `addu`, `mulu` and so on take a number as their second operand.
    is_unary = op.is_in(["add", "mul", "div", "pow"]).not_()
    is_of_rows = op.is_in(list(_NEUSIGHT_ROWS))
    inputs = pl.when(is_unary).then(1).otherwise(2)
    return {
        "family": op.replace_strict(_NEUSIGHT_ROWS, default="elementwise"),
        "op": op.replace({"ln": "layer_norm"}).str.replace(
            "^(add|mul|div|pow)u$", "${1}"
        ),
        "rows": pl.when(is_of_rows).then("B"),
        "width": pl.when(is_of_rows).then("H"),
        "elements": pl.when(~is_of_rows).then(c("B") * c("H")),
        "inputs": pl.when(~is_of_rows).then(inputs),
        "outputs": pl.when(~is_of_rows).then(1),
    }


_MLPREDICT = {
    "device": _named("device", {"P100": "Tesla P100", "V100": "Tesla V100"}),
    "software": pl.lit("tensorflow"),
    "measured": _op,
    "dtype": pl.lit("float32"),
    "time_ns": milliseconds(),
}


def _mlpredict_op(forward: str) -> pl.Expr:
    """Forward alone, or forward, backward and the update of an optimizer."""
    train = pl.lit("train_") + c("opt").str.to_lowercase()
    return pl.when(c("opt") == "None").then(pl.lit(forward)).otherwise(train)


_VIDUR_FAMILIES = {
    "gemm": "gemm",
    "embedding": "embedding",
    "rmsnorm": "normalisation",
    "silu_mul": "elementwise",
    "rope": "elementwise",
    "add": "elementwise",
}
_vidur_family = _named("op", _VIDUR_FAMILIES)
# Its layer of this name has no gate: an activation alone, over every element. Its norm
# subtracts the mean: PyTorch's kernel, which takes a third of the time of vLLM's.
_is_phi = c("model") == "microsoft/phi-2"
_is_ungated = (c("op") == "silu_mul") & _is_phi
_is_layer_norm = (c("op") == "rmsnorm") & _is_phi


def _where(family: str, value: pl.Expr) -> pl.Expr:
    return pl.when(_vidur_family == family).then(value).cast(pl.Int64)


COLLECTIVE = {
    "measured": _kernel,
    "family": pl.lit("collective"),
    "op": _named("op", _NCCL_OPS),
    "dtype": pl.lit("bytes"),
    "bytes": c("bytes"),
    "time_ns": milliseconds(),
}
GEMM = {"m": c("m"), "n": c("n"), "k": c("k")}
_PROFILED = {"low_ns": milliseconds("t_min"), "high_ns": milliseconds("t_max")}

READERS: tuple[Reader, ...] = (
    Reader(
        "aiconfigurator",
        "device runtime op dtype m n k time_ms",
        _AIC
        | {
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": _dtype,
            "m": c("m"),
            "n": c("n"),
            "k": c("k"),
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
        _AIC_ATTENTION | {"kv_heads": c("num_key_value_heads"), "causal": pl.lit(1)},
        {
            "sliding window: not the shape of an op": c("window_size") > 0,
            "keys in fp8": c("kv_cache_dtype") == "fp8",
            **_AIC_WRONG,
        },
    ),
    Reader(
        "aiconfigurator",
        (
            "device runtime kernel_source op dtype batch_size isl num_heads "
            "head_dim time_ms"
        ),
        _AIC_ATTENTION | {"kv_heads": c("num_heads"), "causal": pl.lit(0)},
        _AIC_WRONG,
    ),
    Reader(
        "aiconfigurator",
        "device runtime kernel_source op dtype m k time_ms",
        _AIC | quantised(c("op")),
        {
            "differences of two measurements": c("kernel_source").str.contains("minus"),
            **_AIC_WRONG,
        },
    ),
    Reader(
        "aiconfigurator",
        "device runtime op dtype num_gpus bytes time_ms",
        _AIC | COLLECTIVE | {"ranks": c("num_gpus"), "ranks_per_node": c("num_gpus")},
    ),
    Reader(
        "neusight",
        "device op dtype B M N K time_ms kernel gx gy gz bx",
        _NEUSIGHT | neusight_gemm(c("op")),
    ),
    Reader(
        "neusight",
        ("device op dtype B Cin Cout R H stride pad time_ms kernel gx gy gz bx"),
        _NEUSIGHT
        | {
            "family": pl.lit("convolution"),
            "op": pl.lit("forward"),
            "images": c("B"),
            "channels_in": c("Cin"),
            "channels_out": c("Cout"),
            "height": c("H"),
            "width": c("H"),
            "kernel_height": c("R"),
            "kernel_width": c("R"),
            "stride": c("stride"),
            "padding": c("pad"),
        },
    ),
    Reader(
        "neusight",
        "device op dtype B H time_ms gx bx",
        _NEUSIGHT | neusight_vector(c("op")),
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
            "images": c("batchsize"),
            "channels_in": c("channels_in"),
            "channels_out": c("channels_out"),
            "height": c("matsize"),
            "width": c("matsize"),
            "kernel_height": c("kernelsize"),
            "kernel_width": c("kernelsize"),
            "stride": c("strides"),
            # 1 stands for "same": the output is as large as the input over the stride.
            "padding": c("padding") * (c("kernelsize") // 2),
        },
    ),
    Reader(
        "mlpredict",
        "device batchsize dim_input dim_output opt act time_ms t_std",
        _MLPREDICT
        | {
            "family": pl.lit("gemm"),
            "op": _mlpredict_op("dense"),
            "m": c("batchsize"),
            "n": c("dim_output"),
            "k": c("dim_input"),
        },
    ),
    Reader(
        "pipeweave",
        "device M N K time_us",
        {
            "device": pl.lit("NVIDIA ") + c("device"),
            "software": pl.lit("pipeweave"),
            "measured": _kernel,
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": pl.lit("float8"),
            "m": c("M"),
            "n": c("N"),
            "k": c("K"),
            "time_ns": milliseconds("time_us") / 1000,
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
            "op": pl.when(_is_ungated)
            .then(pl.lit("gelu"))
            .when(_is_layer_norm)
            .then(pl.lit("layer_norm"))
            .otherwise(_named("op", {"rmsnorm": "rms_norm"})),
            "dtype": _dtype,
            "m": _where("gemm", c("M")),
            "n": _where("gemm", c("N")),
            "k": _where("gemm", c("K")),
            "rows": pl.when(_vidur_family.is_in(["embedding", "normalisation"])).then(
                "M"
            ),
            # The kernel of an addition does not go row by row.
            "width": pl.when(~c("op").is_in(["gemm", "add"]) & ~_is_ungated).then("N"),
            "table_rows": _where("embedding", c("K")),
            "elements": _where("elementwise", c("M") * c("N")),
            "inputs": _where(
                "elementwise",
                pl.when((c("op") == "rope") | _is_ungated).then(1).otherwise(2),
            ),
            "outputs": _where("elementwise", pl.lit(1)),
            "repeats": pl.lit(20),
            "time_ns": milliseconds(),
        },
        {"shorter than 1 us: the clock has 1 us": milliseconds() < MICROSECOND},
    ),
    Reader(
        "vidur",
        ("device op num_gpus devices_per_node bytes time_ms t_min t_max t_std"),
        COLLECTIVE
        | _PROFILED
        | {
            "device": _named("device", _VIDUR_CLUSTERS),
            "software": pl.lit("vidur ") + c("device"),
            "ranks": c("num_gpus"),
            "ranks_per_node": c("devices_per_node"),
        },
        {"shorter than 1 us: the clock has 1 us": milliseconds() < MICROSECOND},
    ),
    Reader(
        "pipeweave",
        "device op n devices_per_node bytes time_ms t_min t_max t_std",
        COLLECTIVE
        | _PROFILED
        | {
            "device": pl.lit("NVIDIA ") + c("device"),
            "software": pl.lit("pipeweave"),
            "ranks": c("n"),
            "ranks_per_node": c("devices_per_node"),
        },
    ),
    Reader(
        "apex_plus",
        "gpu dtype m k n time(us)",
        {
            "device": pl.lit("Tesla ") + c("gpu"),
            "software": pl.lit("apex_plus"),
            # Whole microseconds, and no product below 13: with its launch.
            "measured": _op,
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": _dtype,
            **GEMM,
            "time_ns": microseconds("time(us)"),
        },
    ),
    Reader(
        "infersim",
        "m k n latency_us mfu gpu",
        {
            "device": pl.lit("NVIDIA ") + c("gpu"),
            "software": pl.lit("DeepGEMM"),
            "measured": _kernel,
            "family": pl.lit("gemm"),
            "op": pl.lit("gemm"),
            "dtype": pl.lit("float8"),
            **GEMM,
            "time_ns": microseconds("latency_us"),
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
            "op": c("dir").str.to_lowercase(),
            "dtype": pl.lit("bytes"),
            "bytes": c("bytes"),
            # On the device it counts bytes twice: read and written.
            "time_ns": c("bytes")
            * pl.when(c("dir") == "D2D").then(2).otherwise(1)
            / c("gbps"),
        },
        {"slower than 2 GB/s: given to 0.1 GB/s": c("gbps") < 2},  # noqa: PLR2004
    ),
)


def reader_of(columns: frozenset[str]) -> Reader | None:
    """The reader of the format with these columns."""
    return next(
        (reader for reader in READERS if set(reader.columns.split()) == columns), None
    )
