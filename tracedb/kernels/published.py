"""Readers of public measurements as their projects publish them.

What a column does not say, the file's name and the folders around it do: which GPU it
was, which collective. `Place` reads those, and `read` puts them beside the columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from .public import (
    ATTENTION,
    COLLECTIVE,
    GEMM,
    MICROSECOND,
    c,
    microseconds,
    milliseconds,
    neusight_gemm,
    neusight_vector,
    quantised,
    without,
)
from .quantised import LAYER, PRODUCT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_A100, _A100_PCIE = "NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"
_H100, _H100_PCIE = "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"
_GPUS: Mapping[str, str] = {
    **dict.fromkeys(("a100", "a100_dgx", "a100_sxm", "a100-sxm-80gb"), _A100),
    **dict.fromkeys(("a100_pairwise_nvlink", "a100_pair_nvlink"), _A100_PCIE),
    **dict.fromkeys(("h100", "h100_dgx", "h100_sxm", "h100-sxm-80gb"), _H100),
    **dict.fromkeys(("h100_pairwise_nvlink", "h100_pair_nvlink"), _H100_PCIE),
    **dict.fromkeys(("h200", "h200_sxm", "h200-sxm-141gb"), "NVIDIA H200"),
    **dict.fromkeys(("a40", "a40_pairwise_nvlink"), "NVIDIA A40"),
    **dict.fromkeys(("b200", "b200_sxm"), "NVIDIA B200"),
    **dict.fromkeys(("b300", "b300_sxm"), "NVIDIA B300 SXM6 AC"),
    "v100": "Tesla V100-SXM2-16GB",
    "v100-pcie-16gb": "Tesla V100-PCIE-16GB",
    "gb200": "NVIDIA GB200",
    "gb300": "NVIDIA GB300",
    "l40s": "NVIDIA L40S",
    "h20": "NVIDIA H20",
    "h800": "NVIDIA H800",
    "rtx 6000 ada": "NVIDIA RTX 6000 Ada Generation",
    "rtx pro 6000 s": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "rtx_pro_6000_server": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}
"""Folders of the projects, in small letters, and how drivers name these GPUs."""
_PIPEWEAVE = "collective"
"""The folder of PipeWeave's collectives, whose files are of Vidur's form."""


@dataclass(frozen=True)
class Place:
    """What a file's path says of what is in it."""

    folder: str | None
    """The one that names a GPU."""
    version: str
    """The folder that the file is in."""
    stem: str
    is_pipeweave: bool

    @classmethod
    def of(cls, path: Path) -> Place:
        """Of a file; the nearest folder that names a GPU counts."""
        folders = path.absolute().parent.parts
        gpus = (folder for folder in reversed(folders) if folder.lower() in _GPUS)
        stem = path.name.partition(".")[0]
        return cls(next(gpus, None), folders[-1], stem, _PIPEWEAVE in folders)

    @property
    def device(self) -> str | None:
        """The GPU; PipeWeave does not say which memory its A100 has."""
        if self.folder is None:
            return None
        if self.is_pipeweave and self.folder == "A100":
            return "NVIDIA A100"
        return _GPUS[self.folder.lower()]

    @property
    def columns(self) -> dict[str, pl.Expr]:
        """What is put beside the columns of the file."""
        folder, project = self.folder or "", "vidur"
        if self.is_pipeweave:
            folder, project = "", "pipeweave"
        return {
            "place.device": pl.lit(self.device, pl.String),
            "place.version": pl.lit(self.version),
            "place.stem": pl.lit(self.stem),
            "place.software": pl.lit(f"{project} {folder}".strip()),
            "place.project": pl.lit(project),
        }


@dataclass(frozen=True)
class Published:
    """One format: what it needs; whatever else the file has is left alone."""

    project: str
    files: str
    """Which files of the project these are."""
    columns: str
    """What the file has at least."""
    values: tuple[Mapping[str, pl.Expr], ...]
    """Columns of a measurement, for each op that a row may have a time of."""
    wrong: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Rows that are dropped: why, and which."""
    defaults: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Columns that files of some versions lack."""

    def reads(self, columns: Iterable[str]) -> bool:
        """Whether a file with these columns is of this format."""
        return {*self.columns.split()} <= {*columns}

    def read(
        self, file: pl.DataFrame, place: Place
    ) -> tuple[pl.DataFrame, dict[str, int]]:
        """The measurements of a file, and how many rows were dropped for what."""
        file = file.with_columns(**place.columns)
        absent = {n: v for n, v in self.defaults.items() if n not in file.columns}
        file, dropped = without(self.wrong, file.with_columns(**absent))
        source = {"source": pl.lit(self.project)}
        parts = [
            file.select(**{**source, **values})
            for values in self.values
            if _read_by(values) <= {*file.columns}
        ]
        return pl.concat(parts, how="diagonal_relaxed"), dropped


def _read_by(values: Mapping[str, pl.Expr]) -> set[str]:
    """The columns that some expressions read."""
    return {name for value in values.values() for name in value.meta.root_names()}


def published_of(columns: Iterable[str]) -> Published | None:
    """The format of a file with these columns."""
    known = [*columns]
    return next((one for one in PUBLISHED if one.reads(known)), None)


def plain(file: pl.DataFrame) -> pl.DataFrame:
    """The file, its columns without units, and without the name of its collective."""
    names = {name: re.sub(r" ?[\[(]\w+[\])]$", "", name) for name in file.columns}
    if {"collective", "num_workers"} <= {*names.values()}:
        pattern = r"^time_stats\.\w+\.(\w+)$"
        names = {o: re.sub(pattern, r"time_stats.\1", n) for o, n in names.items()}
    if len({*names.values()}) < len(names):
        return file
    return file.rename(names)


# aiconfigurator: Parquet files in `<gpu>/<area>/<framework>/<version>/`.

_AIC_TYPES = {
    "half": "float16",
    "float": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    **dict.fromkeys(("fp8", "fp8_static", "fp8_block"), "float8"),
    **dict.fromkeys(("int8", "int8_sq"), "int8"),
}
_AIC_BYTES = {"int8": 1, "half": 2, "bfloat16": 2, "float": 4}
_AIC_ONCE = "framework version device op_name kernel_source"
_RUNTIME = pl.concat_str(c("framework").str.to_lowercase(), pl.lit("/"), c("version"))
_AIC_TIMED = {
    "device": c("device"),
    "measured": pl.lit("kernel"),
    "time_ns": milliseconds("latency"),
}
_AIC_WRONG = {
    "shorter than 1 us: outliers": milliseconds("latency").is_between(
        0, 1000, closed="none"
    )
}


def _type(name: str) -> pl.Expr:
    """The type of elements; NULL where no element of that kind is known."""
    return c(name).replace_strict(_AIC_TYPES, default=None, return_dtype=pl.String)


def _untyped(name: str) -> dict[str, pl.Expr]:
    return {"types of four bits, or of weights alone": _type(name).is_null()}


# One scale of all, or scales of blocks: these are different kernels.
_SCALED = pl.when(c("gemm_dtype").is_in(["bfloat16", "float16", "fp8"]))
_SCALING = _SCALED.then(pl.lit("")).otherwise(pl.lit(" ") + c("gemm_dtype"))
_KERNEL_SOURCE = pl.concat_str(_RUNTIME, pl.lit(" "), c("kernel_source"))
_AIC_FORMATS = (
    Published(
        "aiconfigurator",
        "`gemm_perf.parquet`",
        f"{_AIC_ONCE} gemm_dtype m n k latency",
        (
            {
                **_AIC_TIMED,
                **GEMM,
                "software": pl.concat_str(_RUNTIME, _SCALING),
                "family": pl.lit("gemm"),
                "op": pl.when(_type("gemm_dtype").is_in(["float8", "int8"]))
                .then(pl.lit(LAYER))
                .otherwise(pl.lit(PRODUCT)),
                "dtype": _type("gemm_dtype"),
            },
        ),
        _untyped("gemm_dtype") | _AIC_WRONG,
    ),
    Published(
        "aiconfigurator",
        "`context_attention_perf.parquet`, `generation_attention_perf.parquet`",
        f"{_AIC_ONCE} attn_dtype kv_cache_dtype batch_size isl num_heads "
        "num_key_value_heads head_dim step latency",
        (
            {
                **_AIC_TIMED,
                **ATTENTION,
                "software": _KERNEL_SOURCE,
                "dtype": _type("attn_dtype"),
                "keys": c("isl") + c("step"),
                "kv_heads": c("num_key_value_heads"),
                "causal": (c("op_name") == "context_attention").cast(pl.Int64),
            },
        ),
        {
            "sliding window: not the shape of an op": c("window_size") > 0,
            "keys in fp8": c("kv_cache_dtype").str.contains("fp8"),
            **_untyped("attn_dtype"),
            **_AIC_WRONG,
        },
        {"window_size": pl.lit(0)},
    ),
    Published(
        "aiconfigurator",
        "`encoder_attention_perf.parquet`",
        f"{_AIC_ONCE} attn_dtype batch_size isl num_heads head_dim latency",
        (
            {
                **_AIC_TIMED,
                **ATTENTION,
                "software": _KERNEL_SOURCE,
                "dtype": _type("attn_dtype"),
                "kv_heads": c("num_heads"),
                "causal": pl.lit(0),
            },
        ),
        _untyped("attn_dtype") | _AIC_WRONG,
    ),
    Published(
        "aiconfigurator",
        "`computescale_perf.parquet`, `scale_matrix_perf.parquet`",
        f"{_AIC_ONCE} m k quant_dtype latency",
        (
            {
                **_AIC_TIMED,
                **quantised(c("op_name")),
                "width": c("k"),
                "software": _RUNTIME,
            },
        ),
        {"differences of two measurements": c("kernel_source").str.contains("minus")}
        | _AIC_WRONG,
    ),
    Published(
        "aiconfigurator",
        "`nccl_perf.parquet`",
        "nccl_dtype num_gpus message_size kernel_source op_name latency",
        (
            {
                **COLLECTIVE,
                **_AIC_TIMED,
                "software": pl.concat_str(
                    c("kernel_source").str.to_lowercase(), pl.lit("/"), c("version")
                ),
                "op": c("op_name").replace({"alltoall": "all_to_all"}),
                # Messages are counted in elements.
                "bytes": c("message_size")
                * c("nccl_dtype").replace_strict(_AIC_BYTES, default=None),
                "ranks": c("num_gpus"),
                "ranks_per_node": c("num_gpus"),
            },
        ),
        defaults={"device": c("place.device"), "version": c("place.version")},
    ),
)

# NeuSight: CSV files of a row for each kernel.

_NEUSIGHT = {
    "device": c("Device"),
    "software": pl.lit("torch 2.1.0, cuda 12.1"),
    "measured": pl.lit("op"),
    "dtype": pl.lit("float32"),
    "time_ns": milliseconds("Latency"),
}
_OP = c("OPName").str.to_lowercase().replace({"layernorm": "ln", "layer_norm": "ln"})
_NEUSIGHT_FORMATS = (
    Published(
        "neusight",
        "of `linear` and `bmm`",
        "OPName Latency Device B M N K",
        (_NEUSIGHT | neusight_gemm(_OP),),
    ),
    Published(
        "neusight",
        "of elementwise ops, `softmax`, `ln`",
        "OPName Latency Device B H",
        (_NEUSIGHT | neusight_vector(_OP),),
    ),
)

# Vidur: CSV files of a row for each model and number of tokens, with a time for each
# place in the model.


def _stats(name: str) -> dict[str, pl.Expr]:
    return {
        "time_ns": milliseconds(f"{name}.median"),
        "low_ns": milliseconds(f"{name}.min"),
        "high_ns": milliseconds(f"{name}.max"),
    }


_TP, _TOKENS = c("num_tensor_parallel_workers"), c("num_tokens")
_HEAD = c("n_embd") // c("n_head")
_GATES = pl.when(c("use_gated_mlp")).then(2).otherwise(1)
_PRODUCTS = {
    "attn_pre_proj": (
        (c("n_head") + 2 * c("n_kv_head")) * _HEAD // _TP,
        c("n_embd"),
    ),
    "attn_post_proj": (c("n_embd"), c("n_embd") // _TP),
    "mlp_up_proj": (_GATES * c("n_expanded_embd") // _TP, c("n_embd")),
    "mlp_down_proj": (c("n_embd"), c("n_expanded_embd") // _TP),
}
"""Columns and depth of the weights, by place; a row has a token."""
_ACTIVATED = pl.when(c("use_gated_mlp"))
# Of its models, those without a gate are as old as norms that subtract the mean.
_NORM = _ACTIVATED.then(pl.lit("rms_norm")).otherwise(pl.lit("layer_norm"))
_POINTWISE = {
    "mlp_act": (
        _ACTIVATED.then(pl.lit("silu_mul")).otherwise(pl.lit("gelu")),
        c("n_expanded_embd") // _TP,
        _GATES,
    ),
    "attn_rope": (
        pl.lit("rope"),
        (c("n_head") + c("n_kv_head")) * _HEAD // _TP,
        pl.lit(1),
    ),
    "add": (pl.lit("add"), c("n_embd"), pl.lit(2)),
}


def _vidur(place: str, family: str, **values: pl.Expr) -> dict[str, pl.Expr]:
    return {
        "device": c("place.device"),
        "software": pl.lit("vidur"),
        "measured": pl.lit("kernel"),
        "family": pl.lit(family),
        "dtype": pl.lit("float16"),
        "repeats": pl.lit(20),
        **_stats(f"time_stats.{place}"),
        **values,
    }


def _vidur_ops() -> Iterator[dict[str, pl.Expr]]:
    """What a row has times of."""
    for place, (n, k) in _PRODUCTS.items():
        yield _vidur(place, "gemm", op=pl.lit("gemm"), m=_TOKENS, n=n, k=k)
    for place, (op, width, inputs) in _POINTWISE.items():
        sizes = {"elements": _TOKENS * width, "inputs": inputs, "outputs": pl.lit(1)}
        yield _vidur(place, "elementwise", op=op, **sizes)
    rows = {"rows": _TOKENS, "width": c("n_embd")}
    table = {"table_rows": c("vocab_size") // _TP}
    yield _vidur("emb", "embedding", op=pl.lit("embedding"), **rows, **table)
    for place in ("input_layernorm", "post_attention_layernorm"):
        yield _vidur(place, "normalisation", op=_NORM, **rows)


_CLOCK = "shorter than 1 us: the clock has 1 us"
_VIDUR_FORMATS = (
    Published(
        "vidur",
        "`data/profiling/compute/<gpu>/<model>/mlp.csv`",
        "n_head n_kv_head n_embd n_expanded_embd vocab_size use_gated_mlp num_tokens "
        "num_tensor_parallel_workers time_stats.emb.median",
        tuple(_vidur_ops()),
    ),
    Published(
        "vidur",
        "`data/profiling/network/<cluster>/<collective>.csv`; PipeWeave's "
        "`dataset/collective/<gpu>/<collective>.csv`",
        "time_stats.min time_stats.max time_stats.median num_workers size collective "
        "devices_per_node",
        (
            {
                **COLLECTIVE,
                **_stats("time_stats"),
                "source": c("place.project"),
                "device": c("place.device"),
                "software": c("place.software"),
                "op": c("collective"),
                "bytes": c("size"),
                "ranks": c("num_workers"),
                "ranks_per_node": c("devices_per_node"),
            },
        ),
        {_CLOCK: milliseconds("time_stats.median") < MICROSECOND},
    ),
)

# PipeWeave, apex_plus and InferSim: CSV files of products and collectives.

_PRODUCT = {
    "measured": pl.lit("kernel"),
    "family": pl.lit("gemm"),
    "op": pl.lit("gemm"),
}
_IS_FP8 = c("place.stem").str.contains("fp8")
_STEMS = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
_MOST_GPUS = 16
PUBLISHED: tuple[Published, ...] = (
    *_AIC_FORMATS,
    *_NEUSIGHT_FORMATS,
    *_VIDUR_FORMATS,
    Published(
        "pipeweave",
        "`gemm_fp8_train.csv`, `gemm_fp8_test.csv`; others are in bf16",
        "M N K avg_duration hardware",
        (
            {
                **_PRODUCT,
                "device": c("hardware"),
                "software": pl.lit("pipeweave"),
                "dtype": pl.when(_IS_FP8)
                .then(pl.lit("float8"))
                .otherwise(pl.lit("bfloat16")),
                "m": c("M"),
                "n": c("N"),
                "k": c("K"),
                "time_ns": microseconds("avg_duration"),
            },
        ),
    ),
    Published(
        "apex_plus",
        "`profile/comm/<gpu>/<collective>.csv`",
        "gpu num_nodes num_gpus_per_node dtype size time",
        (
            {
                **COLLECTIVE,
                "device": pl.lit("NVIDIA ") + c("gpu"),
                "software": pl.lit("apex_plus"),
                "op": c("op").replace(_STEMS),
                "bytes": c("size") * 1024,
                "ranks": c("num_nodes") * c("num_gpus_per_node"),
                "ranks_per_node": c("num_gpus_per_node"),
                "time_ns": microseconds("time"),
            },
        ),
        {
            "columns in another order": c("num_gpus_per_node") > _MOST_GPUS,
            "nothing is sent": c("size") <= 0,
        },
        {"op": c("place.stem")},
    ),
    Published(
        "infersim",
        "`bench_data/gemm/<gpu>/data.csv`",
        "m k n latency_us mfu",
        (
            {
                **_PRODUCT,
                **GEMM,
                "device": pl.lit("NVIDIA ") + c("gpu"),
                "software": pl.lit("DeepGEMM"),
                "dtype": pl.lit("float8"),
                "time_ns": microseconds("latency_us"),
            },
        ),
        defaults={"gpu": c("place.device").str.strip_prefix("NVIDIA ")},
    ),
)
"""The first whose columns a file has counts."""
