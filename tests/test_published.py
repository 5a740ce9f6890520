"""Published measurements in their original formats: small files of the same form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tracedb import MeasurementError, kernels
from tracedb.kernels.public import LICENCES
from tracedb.kernels.published import PUBLISHED, published_of

if TYPE_CHECKING:
    from pathlib import Path

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
ONCE = {
    "framework": "SGLang",
    "version": "0.5.10",
    "device": A100,
    "op_name": "gemm",
    "kernel_source": "sglang",
}
HEADS = {
    "batch_size": 4,
    "isl": 128,
    "num_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "beam_width": 1,
    "attn_dtype": "bfloat16",
    "kv_cache_dtype": "bfloat16",
    "step": 0,
    "latency": 0.5,
}
SITES = {
    "emb": 0.234,
    "input_layernorm": 0.105,
    "attn_pre_proj": 1.911,
    "attn_rope": 0.149,
    "attn_post_proj": 0.611,
    "mlp_up_proj": 3.3655,
    "mlp_act": 0.266,
    "mlp_down_proj": 1.604,
}
MODEL = {
    "n_head": 32,
    "n_kv_head": 32,
    "n_embd": 4096,
    "n_expanded_embd": 11008,
    "vocab_size": 32768,
    "use_gated_mlp": True,
    "num_tokens": 4096,
    "num_tensor_parallel_workers": 2,
}
MESSAGE = {
    "rank": 0,
    "num_workers": 8,
    "size": 2048,
    "collective": "all_reduce",
    "devices_per_node": 8,
    "max_devices_per_node": 8,
}


def stats(place: str, median: float) -> dict[str, float]:
    """[ms] The statistics of a measurement, with Vidur's column names."""
    parts = {"min": 0.9, "max": 1.2, "mean": 1.01, "median": 1.0, "std": 0.1}
    return {f"time_stats.{place}.{n}": median * by for n, by in parts.items()}


@dataclass(frozen=True)
class Case:
    """A file of one row, and its expected measurements."""

    path: str
    row: dict[str, Any]
    found: list[dict[str, Any]]


CASES = {
    "aiconfigurator gemm": Case(
        "a100_sxm/gemm/sglang/0.5.10/gemm_perf.parquet",
        {**ONCE, "gemm_dtype": "bfloat16", "m": 81, "n": 3584, "k": 64, "latency": 0.5},
        [
            {
                "device": A100,
                "software": "sglang/0.5.10",
                "family": "gemm",
                "dtype": "bfloat16",
                "m": 81,
                "n": 3584,
                "k": 64,
                "time_ns": 5e5,
            }
        ],
    ),
    "aiconfigurator scaled gemm": Case(
        "gemm_perf.parquet",
        {**ONCE, "gemm_dtype": "fp8_block", "m": 1, "n": 2, "k": 3, "latency": 0.5},
        [
            {
                "software": "sglang/0.5.10 fp8_block",
                "op": "quantised_linear",
                "dtype": "float8",
            }
        ],
    ),
    "aiconfigurator prefill": Case(
        "context_attention_perf.parquet",
        {**ONCE, **HEADS, "op_name": "context_attention"},
        [
            {
                "software": "sglang/0.5.10 sglang",
                "queries": 128,
                "keys": 128,
                "causal": 1,
            }
        ],
    ),
    "aiconfigurator decode": Case(
        "generation_attention_perf.parquet",
        {
            **ONCE,
            **HEADS,
            "op_name": "generation_attention",
            "isl": 1,
            "step": 1000,
            "window_size": 0,
            "power": 400.0,
        },
        [{"queries": 1, "keys": 1001, "kv_heads": 8, "causal": 0, "images": 4}],
    ),
    "aiconfigurator encoder": Case(
        "encoder_attention_perf.parquet",
        {
            **ONCE,
            **{n: v for n, v in HEADS.items() if n not in ("kv_cache_dtype", "step")},
        },
        [{"queries": 128, "kv_heads": 32, "causal": 0}],
    ),
    "aiconfigurator scale": Case(
        "computescale_perf.parquet",
        {
            **ONCE,
            "op_name": "compute_scale",
            "m": 32,
            "k": 64,
            "quant_dtype": "fp8",
            "latency": 0.5,
        },
        [{"family": "reduction", "rows": 32, "width": 64}],
    ),
    "aiconfigurator NCCL": Case(
        "h100_sxm/comm/nccl/2.23/nccl_perf.parquet",
        {
            "nccl_dtype": "half",
            "num_gpus": 2,
            "message_size": 1024,
            "kernel_source": "NCCL",
            "op_name": "alltoall",
            "latency": 0.5,
        },
        [
            {
                "device": H100,
                "software": "nccl/2.23",
                "op": "all_to_all",
                "bytes": 2048,
                "ranks": 2,
            }
        ],
    ),
    "NeuSight bmm": Case(
        "bmm.csv",
        {
            "OPName": "bmm",
            "Latency": 0.5,
            "Device": "T4",
            "Kernel Name": "volta_sgemm",
            "Grid x": 1,
            "B": 2,
            "M": 3,
            "N": 4,
            "K": 5,
            "large": False,
        },
        [{"family": "gemm", "op": "bmm", "batch": 2, "m": 3, "dtype": "float32"}],
    ),
    "NeuSight rows": Case(
        "ln.csv",
        {"OPName": "LN", "Latency [ms]": 0.5, "Device": "T4", "B": 2, "H": 64},
        [{"family": "normalisation", "op": "layer_norm", "rows": 2, "width": 64}],
    ),
    "NeuSight elements": Case(
        "addu.csv",
        {"OPName": "addu", "Latency": 0.5, "Device": "T4", "B": 2, "H": 64},
        [{"family": "elementwise", "op": "add", "elements": 128, "inputs": 1}],
    ),
    # A real row, with two workers: vidur@7d475133, Llama-2-7b on an A100.
    "Vidur compute": Case(
        "compute/a100/meta-llama/Llama-2-7b-hf/mlp.csv",
        MODEL
        | {n: v for name, ms in SITES.items() for n, v in stats(name, ms).items()},
        [
            {"op": "gemm", "m": 4096, "n": 6144, "k": 4096, "time_ns": 1911000.0},
            {"op": "gemm", "n": 4096, "k": 2048, "time_ns": 611000.0},
            {"op": "gemm", "n": 11008, "k": 4096, "low_ns": 3365500.0 * 0.9},
            {"op": "gemm", "n": 4096, "k": 5504, "device": A100},
            {"op": "silu_mul", "elements": 4096 * 5504, "inputs": 2},
            {"op": "rope", "elements": 4096 * 4096, "inputs": 1},
            {"op": "embedding", "rows": 4096, "width": 4096, "table_rows": 16384},
            {"op": "rms_norm", "rows": 4096, "width": 4096, "dtype": "float16"},
        ],
    ),
    "Vidur network": Case(
        "network/h100_dgx/all_reduce.csv",
        {"": 0, **stats("all_reduce", 0.03), **MESSAGE},
        [
            {
                "device": H100,
                "software": "vidur h100_dgx",
                "source": "vidur",
                "bytes": 2048,
                "ranks": 8,
                "ranks_per_node": 8,
                "time_ns": 30000.0,
            }
        ],
    ),
    "PipeWeave collectives": Case(
        "dataset/collective/H20/all_reduce.csv",
        {"": 0, **stats("all_reduce", 0.03), **MESSAGE},
        [{"device": "NVIDIA H20", "software": "pipeweave", "source": "pipeweave"}],
    ),
    "PipeWeave gemm": Case(
        "dataset/gemm_fp8_test.csv",
        {
            "M": 96,
            "N": 6144,
            "K": 2560,
            "avg_duration": 11.5,
            "hardware": "NVIDIA H100",
            "num_sms": 132,
            "overall_perf": 0.17,
        },
        [{"m": 96, "dtype": "float8", "time_ns": 11500.0, "device": "NVIDIA H100"}],
    ),
    "apex_plus collectives": Case(
        "profile/comm/H100-SXM-80GB/sendrecv.csv",
        {
            "gpu": "H100-SXM-80GB",
            "num_nodes": 2,
            "num_gpus_per_node": 1,
            "dtype": "half",
            "size(kb)": 4,
            "time(us)": 7.0,
        },
        [{"op": "send_recv", "bytes": 4096, "ranks": 2, "ranks_per_node": 1}],
    ),
    "InferSim gemm": Case(
        "bench_data/gemm/h20/data.csv",
        {"m": 16, "k": 2048, "n": 6144, "latency_us": 10.5, "mfu": 0.1},
        [{"device": "NVIDIA H20", "m": 16, "dtype": "float8", "time_ns": 10500.0}],
    ),
}


def write(folder: Path, path: str, row: dict[str, Any]) -> Path:
    """A file of one row."""
    made = folder / path
    made.parent.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame([row])
    if made.suffix == ".parquet":
        frame.write_parquet(made)
    else:
        frame.write_csv(made)
    return made


@pytest.mark.parametrize("name", CASES)
def test_a_published_row_is_read(name: str, tmp_path: Path) -> None:
    """Times in nanoseconds, sizes, GPU and library."""
    case = CASES[name]
    found = kernels.read_measurements([write(tmp_path, case.path, case.row)]).frame
    rows = found.rows(named=True)
    assert len(rows) == len(case.found)
    for row, expected in zip(rows, case.found, strict=True):
        told = {column: row[column] for column in expected}
        assert told == pytest.approx(expected)


def test_every_format_has_a_case_and_a_licence() -> None:
    """Each case is of another format, and all formats are covered."""
    met = set()
    for case in CASES.values():
        columns = [*case.row]
        plain = {name.partition(" [")[0].partition("(")[0] for name in columns}
        if "collective" in plain:
            plain |= {"time_stats.min", "time_stats.max", "time_stats.median"}
        one = published_of(plain | {*columns})
        assert one is not None
        met.add(one.columns)
    assert met == {one.columns for one in PUBLISHED}
    assert {one.project for one in PUBLISHED} <= {*LICENCES}


SCALES = {"compute_scale": 0.1, "scale_matrix": 0.05}
"""[ms] What quantising a matrix takes."""


def layers(tmp_path: Path, latencies: tuple[float, ...], *scales: str) -> pl.DataFrame:
    """Layers in fp8 of 16 rows and more, as read beside what quantising them takes."""
    folder = tmp_path / "h100_sxm"
    sizes = {"n": 32, "k": 64, "gemm_dtype": "fp8"}
    rows = [
        {**ONCE, **sizes, "m": 16 + number, "latency": latency}
        for number, latency in enumerate(latencies)
    ]
    folder.mkdir()
    pl.DataFrame(rows).write_parquet(folder / "gemm_perf.parquet")
    for op in scales:
        quantised = [
            {**ONCE, "op_name": op, "m": row["m"], "k": 64, "quant_dtype": "fp8"}
            | {"latency": SCALES[op]}
            for row in rows
        ]
        pl.DataFrame(quantised).write_parquet(folder / f"{op}_perf.parquet")
    read = kernels.read_measurements([tmp_path])
    assert sum(read.dropped.values()) == sum(latency < 0.2 for latency in latencies)
    return read.frame.filter(pl.col("family") == "gemm")


def test_quantising_is_no_part_of_a_product(tmp_path: Path) -> None:
    """A layer of 0.5 ms, 0.15 of which quantises, is a product of 0.35 ms."""
    found = layers(tmp_path, (0.5, 0.4, 0.15), *SCALES)
    assert found["op"].to_list() == ["gemm", "gemm"]
    assert found["time_ns"].to_list() == pytest.approx([350_000, 250_000])
    assert found["software"].unique().to_list() == ["sglang/0.5.10"]


def test_a_layer_that_cannot_be_taken_apart_stays_one(tmp_path: Path) -> None:
    """No model of products learns from it."""
    found = layers(tmp_path, (0.5, 0.4), "scale_matrix")
    assert found["op"].to_list() == ["quantised_linear"] * 2
    assert found["time_ns"].to_list() == [500_000, 400_000]
    models = kernels.shipped()
    question = found.with_columns(hardware=pl.lit("H100"))
    assert models.serving().predict(question)["predicted_ns"].null_count() == 2


def test_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    """Each has its own checksum and rows."""
    case = CASES["aiconfigurator gemm"]
    for version, ms in (("1", 0.5), ("2", 0.25)):
        row = case.row | {"version": version, "latency": ms}
        write(tmp_path, f"a100_sxm/gemm/sglang/{version}/gemm_perf.parquet", row)
    found = kernels.read_measurements([tmp_path])
    assert len(found.files) == 2
    assert found.frame.group_by("file").len()["len"].to_list() == [1, 1]


WRONG: dict[str, dict[str, Any]] = {
    "no time": {"latency": float("nan")},
    "no time ": {"latency": float("inf")},
    "no shape": {"m": 2**60},
    "types of four bits": {"gemm_dtype": "nvfp4"},
    "shorter than 1 us": {"latency": 0.0004},
}


@pytest.mark.parametrize("why", WRONG)
def test_wrong_rows_are_dropped_and_counted(why: str, tmp_path: Path) -> None:
    """A good row in the same file is kept."""
    row = CASES["aiconfigurator gemm"].row
    path = tmp_path / "gemm_perf.parquet"
    pl.DataFrame([row, {**row, **WRONG[why]}]).write_parquet(path)
    found = kernels.read_measurements([path])
    assert found.frame.height == 1
    [(told, count)] = found.dropped.items()
    assert (why.strip() in told, count) == (True, 1)


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "must be Int64": ("gemm_perf.parquet", {"m": "many"}),
    "row 1: m is 1.5; it must be a whole number": ("gemm_perf.parquet", {"m": 1.5}),
    "wrong type": ("gemm_perf.parquet", {"latency": "soon"}),
    "row 1: m is nan; it must be a whole number": (
        "gemm_perf.parquet",
        {"m": float("nan")},
    ),
    "match no known format": ("gemm_perf.parquet", {"gemm_dtype": None}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_wrong_files_are_refused_in_a_line(why: str, tmp_path: Path) -> None:
    """The error names the file and the reason."""
    name, change = REFUSED[why]
    row = {**CASES["aiconfigurator gemm"].row, **change}
    row = {column: value for column, value in row.items() if value is not None}
    path = write(tmp_path, name, row)
    with pytest.raises(MeasurementError, match=why) as caught:
        kernels.read_measurements([path])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


TEXTS = {
    "Git LFS pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:b\n",
    "cannot be read as CSV": "",
    "a table without rows": "m,k,n,latency_us,mfu,gpu\n",
}


@pytest.mark.parametrize("why", TEXTS)
def test_files_without_rows_are_refused(why: str, tmp_path: Path) -> None:
    """For a Git LFS pointer, the error says how to fetch the file."""
    path = tmp_path / "gemm_train.csv"
    path.write_text(TEXTS[why])
    with pytest.raises(MeasurementError, match=why):
        kernels.read_measurements([path])


def test_an_unnamed_gpu_is_an_error(tmp_path: Path) -> None:
    """A file moved out of its folder does not show its GPU."""
    path = write(tmp_path, "mlp.csv", CASES["Vidur compute"].row)
    with pytest.raises(MeasurementError, match="keep the folders of the data set"):
        kernels.read_measurements([path])
