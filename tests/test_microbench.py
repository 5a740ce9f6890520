"""Microbenchmarks: builders, timing, plans, resumable runs, files."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import sleep
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support import ROOT
from threadpoolctl import threadpool_limits

import tracedb as library
from tracedb.cli import measured_shapes
from tracedb.cli.main import tracedb
from tracedb.microbench import (
    COLUMNS,
    COUNTS,
    Backend,
    Case,
    Effort,
    MicrobenchError,
    Place,
    Plan,
    UnsupportedError,
    array_backend,
    expected_distinct,
    host,
    measure,
    open_backend,
    plan,
    sweeps,
)
from tracedb.microbench.array_ops import BUILDERS as ARRAY_BUILDERS
from tracedb.microbench.case import ARITY, pixels_out
from tracedb.microbench.indices import draw
from tracedb.microbench.plans import MEMORY_BYTES, QUICK_BYTES, thin
from tracedb.microbench.results import noise
from tracedb.microbench.run import visits
from tracedb.microbench.sweeps import octaves
from tracedb.microbench.timing import EventTimer, HostTimer, Overhead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COPIES = ("h2d", "d2h", "h2d_pageable", "d2h_pageable", "d2d")
PACKAGE = ROOT / "tracedb" / "microbench"
BRIEF = Effort(repeats=3, most=3, least_ns=0, sample_ns=0, warmup=1)


def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def sizes(**columns: int) -> dict[str, int]:
    """Return a shape."""
    return columns


# One tiny case for every op of every family.
TINY: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "gemm": (
        sizes(batch=1, m=4, n=6, k=8),
        ("mm", "addmm", "linear", "bmm", "baddbmm"),
    ),
    "convolution": (
        dict(
            **sizes(images=2, channels_in=4, channels_out=8, height=9, width=7),
            **sizes(kernel_height=3, kernel_width=3, stride=2, padding=1),
            **sizes(dilation=1, groups=2),
        ),
        ("forward", "backward_input", "backward_weight"),
    ),
    "attention": (
        sizes(images=2, heads=4, kv_heads=2, queries=8, keys=8, head_dim=16, causal=1),
        ("forward", "backward"),
    ),
    "embedding": (sizes(rows=8, width=4, table_rows=10), ("embedding", "index_select")),
    "embedding_backward": (
        sizes(rows=8, width=4, table_rows=10),
        ("embedding", "index_select"),
    ),
    "embedding_bag": (
        sizes(tables=2, table_rows=9, width=4, bags=5, pooling=3, distinct_rows=12),
        ("sum", "mean"),
    ),
    "embedding_bag_backward": (
        sizes(tables=2, table_rows=9, width=4, bags=5, pooling=3, distinct_rows=12),
        ("sum", "mean"),
    ),
    "reduction": (
        sizes(rows=4, width=8),
        (
            *("sum", "mean", "amax", "linalg_vector_norm", "mse_loss"),
            "binary_cross_entropy_with_logits",
        ),
    ),
    "softmax": (
        sizes(rows=4, width=8),
        ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward"),
    ),
    "normalisation": (
        sizes(rows=4, width=24),
        tuple(
            f"{norm}{end}"
            for norm in ("layer_norm", "rms_norm", "batch_norm")
            for end in ("", "_backward")
        ),
    ),
    "concat": (sizes(tensors=3, rows=4, width=8), ("cat", "split")),
    "copy": (sizes(batch=2, rows=4, width=8), ("copy", "transpose", "contiguous")),
    "index": (sizes(rows=4, width=8), ("tril", "gather", "index", "scatter")),
    "memcpy": (sizes(bytes=64), ("d2d",)),
    "memset": (sizes(bytes=64), ("memset",)),
    "optimizer": (
        sizes(tensors=3, elements=30),
        tuple(
            f"{how}{op}" for how in ("", "fused_") for op in ("sgd", "adam", "adagrad")
        ),
    ),
}


def tiny_cases() -> Iterator[Case]:
    """Yield them, and elementwise ops with all their tensors."""
    for family, (shape, ops) in TINY.items():
        dtype = "int8" if family in ("memcpy", "memset") else "float32"
        for op in ops:
            yield Case(family, op, dtype, shape)
    for op, (inputs, outputs) in ARITY.items():
        tensors = sizes(elements=16, inputs=inputs, outputs=outputs)
        yield Case("elementwise", op, "float32", tensors)
    yield Case("elementwise", "add", "float32", sizes(elements=16, inputs=1, outputs=1))
    yield Case("gemm", "linear", "int8", sizes(batch=1, m=4, n=8, k=16))


def gemm(m: int, dtype: str = "float32") -> Case:
    """Return a small product."""
    return Case("gemm", "mm", dtype, sizes(batch=1, m=m, n=8, k=8))


@pytest.fixture(scope="module")
def cpu() -> Backend:
    """PyTorch on a CPU, with one thread."""
    pytest.importorskip("torch", reason="measuring needs tracedb[record]")
    return open_backend("torch", "cpu", 1)


def run(*words: str) -> tuple[int, str]:
    """Run the command in this process; returns exit code and output."""
    done = CliRunner().invoke(tracedb, ["microbench", *words])
    return done.exit_code, done.stderr


# Cases


def test_a_case_is_read_from_its_key() -> None:
    """The order of sizes does not matter."""
    case = gemm(4)
    turned = Case(case.family, case.op, case.dtype, dict([*case.shape.items()][::-1]))
    assert Case.of_key(case.key) == case
    assert turned.key == case.key


@pytest.mark.parametrize(
    ("family", "dtype", "shape", "message"),
    [
        ("collective", "float32", {}, "collective: not a family of one device"),
        ("gemm", "float128", {}, "float128: unknown dtype"),
        ("memset", "int8", {"rows": 1}, "memset: a shape has bytes, not rows"),
    ],
)
def test_malformed_cases_are_refused(
    family: str, dtype: str, shape: dict[str, int], message: str
) -> None:
    """The error names the wrong family, dtype or size, and the known ones."""
    with pytest.raises(MicrobenchError, match=message):
        Case(family, "op", dtype, shape)


@pytest.mark.parametrize(
    ("case", "elements"),
    [
        (
            Case("gemm", "bmm", "float32", sizes(batch=2, m=3, n=5, k=7)),
            2 * (21 + 35 + 15),
        ),
        (Case("memcpy", "d2d", "int8", sizes(bytes=10)), 20),
        (Case("copy", "copy", "float16", sizes(batch=2, rows=3, width=5)), 60),
    ],
)
def test_memory_counts_inputs_and_results(case: Case, elements: int) -> None:
    """The bytes equal a count by hand."""
    width = {"float32": 4, "int8": 1, "float16": 2}[case.dtype]
    assert case.memory_bytes == elements * width


# Builders


@pytest.mark.parametrize(
    "case", list(tiny_cases()), ids=lambda case: f"{case.family} {case.op}"
)
def test_every_op_runs(cpu: Backend, case: Case) -> None:
    """Each PyTorch builder makes a callable that can run again and again."""
    if case.op in ("bmm", "baddbmm"):
        case = Case(case.family, case.op, case.dtype, {**case.shape, "batch": 3})
    assert all(sample > 0 for sample in cpu.timer.samples(cpu.build(case), BRIEF))


@pytest.mark.parametrize("family", ARRAY_BUILDERS)
def test_every_numpy_op_runs(family: str) -> None:
    """NumPy runs the same builders as CuPy on a GPU."""
    arrays = open_backend("numpy", "cpu")
    ran = 0
    for case in tiny_cases():
        if case.family != family:
            continue
        try:
            arrays.build(case)()
        except UnsupportedError:
            continue
        ran += 1
    assert ran


def test_work_is_what_the_case_says(cpu: Backend) -> None:
    """Results have the shapes that follow from the case."""
    results: dict[str, Any] = {
        case.family: cpu.build(case)()
        for case in tiny_cases()
        if case.op in ("mm", "forward", "sum", "cat", "transpose", "embedding")
    }
    convolved = TINY["convolution"][0]
    assert results["gemm"].shape == (4, 6)
    assert results["convolution"].shape == (2, 8, 5, 4)
    assert results["convolution"][0, 0].numel() == pixels_out(convolved)
    assert results["attention"].shape == (2, 4, 8, 16)
    assert results["embedding_bag"].shape == (10, 4)
    assert results["concat"].shape == (4, 8)
    assert results["copy"].shape == (2, 4, 8)
    assert results["copy"].is_contiguous()
    assert results["embedding"].shape == (8, 4)
    assert results["embedding_backward"][0].shape == (10, 4)


def test_int8_products_are_right(cpu: Backend) -> None:
    """FBGEMM does nothing, silently, if zero points are not integers."""
    shape = sizes(batch=1, m=64, n=32, k=64)
    work: Any = cpu.build(Case("gemm", "linear", "int8", shape))
    inputs, packed, scale, zero = work.args
    weight, bias = packed.unpack()
    exact = inputs.dequantize() @ weight.dequantize().T + bias
    low, high = (scale * (bound - zero) for bound in (0, 255))
    missed = work().dequantize() - exact.clamp(low, high)
    assert missed.abs().max() <= 0.51 * scale


def test_lookups_differ_from_call_to_call(cpu: Backend) -> None:
    """Otherwise a table would be more cached than in training."""
    shape = sizes(rows=8, width=4, table_rows=1000)
    work: Any = cpu.build(Case("embedding", "embedding", "float32", shape))
    assert not (work() == work()).all()


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (gemm(4, "float8"), "no plain float8"),
        (Case("gemm", "bmm", "int8", gemm(4).shape), "no bmm of int8 on cpu"),
        (Case("gemm", "mm", "float32", {**gemm(4).shape, "batch": 2}), "bmm has"),
        (Case("memcpy", "h2d", "int8", sizes(bytes=8)), "h2d needs a GPU"),
        (
            Case("softmax", "hardmax", "float32", sizes(rows=2, width=2)),
            "no op hardmax",
        ),
        (
            Case(
                "elementwise", "relu", "float32", sizes(elements=2, inputs=2, outputs=1)
            ),
            "relu reads 1",
        ),
        (
            Case("optimizer", "lion", "float32", sizes(tensors=1, elements=2)),
            "no op lion",
        ),
    ],
)
def test_unsupported_cases_are_reported(cpu: Backend, case: Case, message: str) -> None:
    """The error names the missing op, dtype or direction."""
    with pytest.raises(UnsupportedError, match=message):
        cpu.build(case)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("no kernel\nmore"), "unsupported: no kernel"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (TypeError("a number is no tensor"), "unsupported: a number is no tensor"),
        (KeyError("a mistake of ours"), None),
    ],
)
def test_errors_of_pytorch_are_classified(
    cpu: Backend, error: Exception, reason: str | None
) -> None:
    """What PyTorch does not support is one line; any other error ends the run."""
    assert cpu.failure(error) == reason


# Rows to look up


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.05])
@pytest.mark.parametrize("table_rows", [50, 5_000, 3_000_000])
def test_the_skew_of_lookups(table_rows: int, exponent: float) -> None:
    """The number of distinct rows is as expected, all within the table."""
    lookups = 20_000
    wanted = expected_distinct(table_rows, lookups, exponent)
    drawn = draw(table_rows, lookups, wanted, np.random.default_rng(1))
    assert len(drawn) == lookups
    assert len(np.unique(drawn)) == pytest.approx(wanted, rel=0.05)
    assert drawn.min() >= 0
    assert drawn.max() < table_rows


def test_even_lookups_follow_the_formula() -> None:
    """E (1 - (1 - 1/E)^n) distinct rows of E in n lookups."""
    rows, lookups = 10_000, 7_000
    assert expected_distinct(rows, lookups) == round(
        rows * (1 - (1 - 1 / rows) ** lookups)
    )


def test_bags_of_all_tables_have_their_rows(cpu: Backend) -> None:
    """Each table's lookups stay within it, with the expected distinct rows."""
    shape = sizes(
        tables=3, table_rows=500, width=1, bags=200, pooling=4, distinct_rows=3 * 300
    )
    work: Any = cpu.build(Case("embedding_bag_backward", "sum", "float32", shape))
    (gradient,) = work()
    rows = gradient.coalesce().indices().flatten().numpy()
    for table in range(3):
        of_table = rows[(rows >= 500 * table) & (rows < 500 * (table + 1))]
        assert len(of_table) == pytest.approx(300, rel=0.1)
    assert rows.max() < 3 * 500


# Timing


def test_clocks_are_read_from_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They come from nvidia-smi; if it is missing or fails, they are unknown."""
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.gpu_clock_mhz() is None
    program.write_text("#!/bin/sh\necho '1980 MHz'\n")
    program.chmod(0o755)
    assert host.gpu_clock_mhz() == 1980
    program.write_text("#!/bin/sh\nexit 9\n")
    assert host.gpu_facts() == {}


@dataclass
class FakeGpu:
    """A GPU whose clock advances by the work done; a flush takes 50 us."""

    now_ns: float = 0.0
    flushes: int = 0

    def mark(self) -> float:
        """The current time."""
        return self.now_ns

    def between_ns(self, start: float, end: float) -> float:
        """The difference of two times."""
        return end - start

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def flush(self) -> None:
        """Advance the clock."""
        self.flushes += 1
        self.now_ns += 50_000

    def work(self) -> None:
        """A kernel of 9 us."""
        self.now_ns += 9_000


def test_gpu_times_exclude_flush_and_event_cost() -> None:
    """Neither the flush before each call nor the events' own cost counts."""
    gpu = FakeGpu()
    timer = EventTimer(gpu, Overhead(pair_ns=5_000, kernel_ns=1_500))
    before = gpu.flushes
    samples = timer.samples(gpu.work, Effort(repeats=10, most=20, least_ns=1e9))
    assert samples == [9_000 - 3_500] * 20
    assert gpu.flushes - before >= 20


class FakeCuda:
    """A stand-in for CuPy's `cuda`, on a clock that each event advances by 7 ms."""

    class runtime:  # noqa: N801 (as CuPy has it)
        """Properties of a GPU."""

        CUDARuntimeError = RuntimeError
        runtimeGetVersion = staticmethod(lambda: 12080)  # noqa: N815

        @staticmethod
        def getDeviceProperties(_number: int) -> dict[str, Any]:  # noqa: N802
            """The GPU's properties."""
            return {"name": b"Fake", "l2CacheSize": 4096, "multiProcessorCount": 3}

    class Device:
        """The one GPU."""

        mem_info = (10**9, 10**9)

        def synchronize(self) -> None:
            """Nothing to wait for."""

    def __init__(self) -> None:
        """Start the clock."""
        self.clock = count(0, 7)

    def Event(self) -> Any:  # noqa: ANN401, N802
        """An event that stores the time when it is recorded."""
        event = SimpleNamespace()
        event.record = lambda: setattr(event, "at_ms", next(self.clock))
        return event

    def get_elapsed_time(self, start: Any, end: Any) -> float:  # noqa: ANN401
        """Milliseconds between events, as in CuPy."""
        return float(end.at_ms - start.at_ms)


def test_numpy_uses_the_requested_threads() -> None:
    """The stored number is what BLAS was set to, whatever the machine has."""
    with threadpool_limits():  # restores the previous limits
        for threads in (2, 1):
            place = open_backend("numpy", "cpu", threads).place()
            assert place.facts["threads"] == threads
            assert f", {threads} thread" in place.software


def test_cupy_uses_the_builders_of_numpy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a GPU the same builders run between CuPy's events."""
    monkeypatch.setattr(array_backend, "LEAST_FLUSH_BYTES", 1024)
    cupy = ModuleType("cupy")
    vars(cupy).update(vars(np) | {"cuda": FakeCuda(), "__spec__": np.__spec__})
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    gpu = open_backend("cupy", "cuda")
    place = gpu.place()
    assert (place.device, place.measured) == ("Fake", "kernel")
    assert place.software.endswith(", cuda 12.8")
    done = measure(tmp_path / "out.parquet", Plan("one", [gemm(4)]), gpu, effort=BRIEF)
    (row,) = pq.read_table(done.path).to_pylist()
    assert row["time_ns"] == 7_000_000


@pytest.mark.skipif(not _has_gpu(), reason="needs a CUDA GPU")
def test_a_gpu_times_kernels(tmp_path: Path) -> None:
    """A large product takes a plausible time; copies have directions."""
    large = Case("gemm", "mm", "bfloat16", sizes(batch=1, m=4096, n=4096, k=4096))
    cases = [large, *(Case("memcpy", op, "int8", sizes(bytes=2**24)) for op in COPIES)]
    done = measure(
        tmp_path / "out.parquet", Plan("gpu", cases), open_backend("torch", "cuda")
    )
    rows = pq.read_table(done.path).to_pylist()
    assert [row["op"] for row in rows] == ["mm", *COPIES]
    assert {row["measured"] for row in rows} == {"kernel"}
    assert 2 * 4096**3 / rows[0]["time_ns"] < 3_000_000
    assert rows[0]["time_ns"] < 100e6


def test_the_smallest_kernel_time() -> None:
    """Time less overhead has a lower bound; unknown overhead counts as 0."""
    assert Overhead(5_000, 1_500).without(3_000) == 1_500
    assert Overhead(5_000).without(3_000) == 3_000


def test_long_work_is_measured_less_often() -> None:
    """Work as long as its whole time budget still gets a few samples."""
    gpu = FakeGpu()

    def work() -> None:
        gpu.now_ns += 1e9

    effort = Effort(repeats=4, most=30)
    assert len(EventTimer(gpu).samples(work, effort)) == 4


def test_work_of_seconds_runs_once_after_one_warm_up() -> None:
    """GPU time is scarce: work longer than its budget is not repeated."""

    class SlowGpu(FakeGpu):
        calls = 0

        def work(self) -> None:
            self.calls += 1
            self.now_ns += 2e9

        def synchronize(self) -> None:
            sleep(0.002)

    gpu = SlowGpu()
    samples = EventTimer(gpu).samples(gpu.work, Effort(most_ns=1e6))
    assert (len(samples), gpu.calls) == (1, 2)


def test_quick_work_is_called_often_in_a_sample() -> None:
    """On the host, a sample is long enough for the clock."""
    calls: list[None] = []
    timer = HostTimer(lambda: 100 * len(calls))
    work = partial(calls.append, None)
    samples = timer.samples(work, Effort(repeats=3, most=3, least_ns=0))
    assert set(samples) == {100}
    assert len(calls) >= 3 * 1_000


# Plans

planned = cache(plan)


@pytest.mark.parametrize("name", list(COUNTS))
def test_sizes_of_plans(name: str) -> None:
    """Each has the stated number of distinct cases, all within the memory limit."""
    cases = planned(name).cases
    assert len(cases) == COUNTS[name]
    assert len(cases) == {
        "quick": 1340,
        "cpu": 3188,
        "gemm": 1500,
        "embedding_bag": 500,
    }.get(name, 300)
    assert len({case.key for case in cases}) == len(cases)
    most = QUICK_BYTES if name == "quick" else MEMORY_BYTES
    assert max(case.memory_bytes for case in cases) <= most


def test_gemm_plan_has_every_dtype_and_size() -> None:
    """Four dtypes and four ops in equal numbers, from small to large."""
    cases = planned("gemm").cases
    kinds = Counter((case.op, case.dtype) for case in cases)
    assert {dtype for _, dtype in kinds} == {"float32", "tf32", "bfloat16", "float16"}
    assert max(kinds.values()) - min(kinds.values()) <= 1
    flops = sorted(2 * np.prod(list(case.shape.values())) for case in cases)
    assert flops[0] < 1e6
    assert flops[-1] > 1e11


def test_the_papers_embedding_sweep_is_included() -> None:
    """The 3,240 sizes whose tables fit into the memory of its GPUs."""
    shapes = [case.shape for case in sweeps.embedding_bag()]
    small = [
        s
        for s in shapes
        if s["bags"] <= 512 and s["tables"] >= 32 and s["pooling"] >= 8
        if 4 * s["tables"] * s["table_rows"] * s["width"] <= MEMORY_BYTES
    ]
    assert len(small) == 3_240


def test_plans_are_reproducible() -> None:
    """Choice and order follow from a fixed seed."""
    first, second = plan("transpose"), plan("transpose")
    assert first == second
    assert list(visits(first)) == list(visits(second))


def test_whole_sweeps_have_no_thinning() -> None:
    """All sizes are there, except those too large for the memory."""
    whole = plan("transpose_whole").cases
    assert len(whole) > 5_000
    assert max(case.memory_bytes for case in whole) <= MEMORY_BYTES
    assert {case.key for case in plan("transpose").cases} <= {
        case.key for case in whole
    }


def test_thinning_is_even_over_sizes() -> None:
    """One of each group of sizes."""
    cases = [gemm(m) for m in range(1, 1001)]
    chosen = sorted(case.shape["m"] for case in thin(cases, 100))
    assert [(m - 1) // 10 for m in chosen] == list(range(100))


def test_octaves() -> None:
    """Powers of two, with both ends included."""
    assert octaves(1, 8, 2) == (1, 2, 3, 4, 6, 8)


# Runs


def test_a_file_has_the_columns_of_the_contract(cpu: Backend, tmp_path: Path) -> None:
    """Names, types and metadata are those that training reads."""
    cases = [gemm(4), Case("memset", "memset", "int8", sizes(bytes=64))]
    file = tmp_path / "out.parquet"
    done = measure(file, Plan("two", cases, rounds=2, again_share=1), cpu, effort=BRIEF)
    table = pq.read_table(file)
    words = [*("device", "software", "source", "measured"), "family", "op", "dtype"]
    times = ["time_ns", "low_ns", "high_ns"]
    assert table.column_names[: 7 + len(COLUMNS)] == [*words, *COLUMNS]
    assert {str(table.schema.field(name).type) for name in words} == {"string"}
    assert {str(table.schema.field(name).type) for name in COLUMNS} == {"int64"}
    assert {str(table.schema.field(name).type) for name in times} == {"double"}
    product, fill = table.to_pylist()
    assert (product["m"], product["bytes"], fill["bytes"]) == (4, None, 64)
    assert product["low_ns"] <= product["time_ns"] <= product["high_ns"]
    assert product["repeats"] == 2 * 3
    assert product["again_ns"] > 0
    assert (product["source"], product["measured"]) == ("two", "op")
    assert table.schema.metadata[b"tracedb.measurements"] == b"1"
    provenance = json.loads(table.schema.metadata[b"tracedb.provenance"])
    assert provenance["place"]["threads"] == 1
    assert provenance["noise"]["all"]["case_count"] == 2
    assert provenance["drift"][0]["median_ns"] > 0
    assert (done.rows, done.is_whole) == (2, True)
    assert not list(tmp_path.glob("*.new"))


@dataclass
class Counting:
    """A backend that counts what it builds, and fails on demand."""

    built: list[int] = field(default_factory=list)
    fails: Callable[[int], Exception | None] = lambda _m: None
    timer: Any = field(default_factory=HostTimer)
    cold_timer: Any = field(default_factory=HostTimer)
    memory_bytes: int = 10**9

    def place(self) -> Place:
        """The device."""
        return Place("device", "software", "op", {})

    def build(self, case: Case) -> Callable[[], object]:
        """Count a `gemm` case by its m."""
        m = case.shape.get("m", 0)
        if error := self.fails(m):
            raise error
        self.built.append(m)
        return lambda: None

    def failure(self, error: Exception) -> str | None:
        """Recognise unsupported cases and lack of memory."""
        known = isinstance(error, UnsupportedError | MemoryError)
        return f"{type(error).__name__}: {error}" if known else None

    def release(self) -> None:
        """Nothing to release."""


MANY = Plan("many", [gemm(m) for m in range(1, 21)], rounds=2, again_share=0.25)


def measured(backend: Counting) -> list[int]:
    """What was built, without reference cases."""
    return [m for m in backend.built if m not in (0, 256)]


def test_a_killed_run_continues_without_repeating(tmp_path: Path) -> None:
    """Journal entries are not measured again, except a torn last line."""
    file, journal = tmp_path / "out.parquet", tmp_path / "out.parquet.journal"
    calls = count()

    def interrupt(m: int) -> Exception | None:
        return RuntimeError("killed") if m != 256 and next(calls) == 15 else None

    killed = Counting(fails=interrupt)
    with pytest.raises(RuntimeError, match="killed"):
        measure(file, MANY, killed, effort=BRIEF)
    assert not file.exists()
    with journal.open("a") as torn:
        torn.write('{"case": "[\\"gemm')
    rest = Counting()
    done = measure(file, MANY, rest, effort=BRIEF)
    assert (done.rows, done.is_whole) == (20, True)
    once = Counter(measured(killed)) + Counter(measured(rest))
    assert once.total() == 20 * 2 + 5 * 2
    assert all(line.endswith("}") for line in journal.read_text().splitlines())
    again = Counting()
    measure(file, MANY, again, effort=BRIEF)
    assert measured(again) == []


def test_a_run_ends_after_its_minutes(tmp_path: Path) -> None:
    """It writes what it has, says what is left, and continues later."""
    reported: list[str] = []
    file = tmp_path / "out.parquet"
    short = measure(
        file, MANY, Counting(), minutes=0, effort=BRIEF, tell=reported.append
    )
    assert not short.is_whole
    assert reported[-1] == "time is up; 50 measurements are left"
    assert "to resume" in short.lines()[-1]
    assert measure(file, MANY, Counting(), effort=BRIEF).rows == 20


def test_what_fails_is_counted_and_left_out(tmp_path: Path) -> None:
    """Too little memory or an unsupported op neither ends the run nor is retried."""

    def fail(m: int) -> Exception | None:
        return {3: MemoryError("full"), 4: UnsupportedError("none")}.get(m)

    backend = Counting(fails=fail)
    done = measure(tmp_path / "out.parquet", MANY, backend, effort=BRIEF)
    assert done.rows == 18
    assert done.failures == {"gemm MemoryError": 1, "gemm UnsupportedError": 1}
    assert "left out 1: gemm MemoryError" in done.lines()


def test_a_case_larger_than_memory_is_not_tried(tmp_path: Path) -> None:
    """The system would kill the process rather than refuse."""
    backend = Counting(memory_bytes=gemm(10).memory_bytes)
    done = measure(tmp_path / "out.parquet", MANY, backend, effort=BRIEF)
    assert done.rows == 10
    assert max(backend.built) == 10


def test_a_journal_of_another_run_is_refused(tmp_path: Path) -> None:
    """The error says what differs; a file that is no journal is refused too."""
    file = tmp_path / "out.parquet"
    measure(file, MANY, Counting(), effort=BRIEF)
    with pytest.raises(MicrobenchError, match="run with another source; remove it"):
        measure(file, Plan("other", MANY.cases, rounds=2), Counting(), effort=BRIEF)
    file.with_name("out.parquet.journal").write_text("hello\n")
    with pytest.raises(MicrobenchError, match="not a journal of measurements"):
        measure(file, MANY, Counting(), effort=BRIEF)


def test_finished_measurements_are_not_overwritten(tmp_path: Path) -> None:
    """A file without a journal, such as a copy, stays as it is."""
    file = tmp_path / "out.parquet"
    measure(file, MANY, Counting(), effort=BRIEF)
    file.with_name("out.parquet.journal").unlink()
    before = file.read_bytes()
    with pytest.raises(MicrobenchError, match="exists, without the journal"):
        measure(file, MANY, Counting(), effort=BRIEF)
    assert file.read_bytes() == before


def test_noise_from_repeated_cases() -> None:
    """Geometric mean, mean and P90 over cases that were measured twice."""
    pairs = [(100.0, 101.0), (100.0, 90.0), (100.0, None)]
    score = noise({"time_ns": time, "again_ns": again} for time, again in pairs)
    assert score["case_count"] == 2
    assert score["gmae_share"] == pytest.approx((0.01 * 0.1) ** 0.5)
    assert score["mape_share"] == pytest.approx(0.055)
    assert score["p90_share"] == pytest.approx(0.1)


# The command, and the package alone


@pytest.mark.usefixtures("cpu")
def test_the_command_measures(tmp_path: Path) -> None:
    """One family of the quick plan, with a very short time limit."""
    file = tmp_path / "out.parquet"
    words = ("--family", "memset", "--threads", "1", "--minutes", "0.01")
    code, reported = run("-o", str(file), "--plan", "quick", *words)
    assert code == 0
    assert f"{file}: " in reported
    assert {row["family"] for row in pq.read_table(file).to_pylist()} <= {"memset"}


def test_the_list_has_every_plan() -> None:
    """The list has each plan's subject and number of cases."""
    done = CliRunner().invoke(tracedb, ["microbench", "--list"])
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert list(lines) == list(COUNTS)
    assert "1500 cases  Products" in lines["gemm"]


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plan", "slow"], "slow: unknown plan; available: quick, gemm"),
        (
            ["--plan", "quick", "--family", "gem"],
            "gem: unknown family; available: gemm",
        ),
        (["--plan", "quick", "--device", "cuda"], "finds no CUDA GPU"),
        (
            ["--plan", "quick", "--backend", "cupy"],
            "cupy does not run on cpu; available: torch, numpy",
        ),
        ([], "give either --plan NAME (--list shows the plans)"),
        (["--from", "/nowhere.duckdb"], "/nowhere.duckdb: no such database"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    """Exit code 2, one line that says what to do, and no file."""
    if "cuda" in words and _has_gpu():
        pytest.skip("here is a GPU")
    file = tmp_path / "out.parquet"
    code, reported = run(
        "-o", str(file), *(word.replace("{}", str(tmp_path)) for word in words)
    )
    assert code == 2
    assert reported.startswith("tracedb: error: ")
    assert reported.count("\n") == 1
    assert message in reported
    assert not file.exists()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a table of shapes: two alike, one incomplete, two others."""
    path = tmp_path_factory.mktemp("shapes") / "run.duckdb"
    columns = ", ".join(f'"{name}" BIGINT' for name in COLUMNS)
    with library.open(path) as db:
        db.ingest([ROOT / "sample_traces" / "generated_gpu" / "rank0.kineto.json.gz"])
        db.connection.execute(
            f"CREATE TABLE raw.shape (family TEXT, op TEXT, dtype TEXT, {columns})"
        )
        for columns, values in (
            *[("dtype, batch, m, n, k", "'gemm', 'mm', 'float32', 1, 2, 3, 4")] * 2,
            ("dtype, batch, m, n", "'gemm', 'mm', 'float32', 1, 2, 3"),
            ("bytes", "'memcpy', 'h2d', 64"),
            ("bytes", "'collective', 'all_reduce', 64"),
            (
                "dtype, tables, table_rows, width, bags, pooling",
                "'embedding_bag', 'sum', 'float32', 2, 100, 4, 50, 2",
            ),
        ):
            db.connection.execute(
                f"INSERT INTO raw.shape (family, op, {columns}) VALUES ({values})"
            )
    return path


def test_shapes_of_a_database_as_a_plan(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each shape once; unknown sizes are reported, unknown rows are drawn evenly."""
    monkeypatch.setattr(measured_shapes, "RELATION", "raw.shape")
    bag, product, copy = measured_shapes.plan_of(str(database)).cases
    assert (product.shape["k"], copy.dtype) == (4, "int8")
    assert bag.shape["distinct_rows"] == 2 * expected_distinct(100, 100)
    said = " ".join(capsys.readouterr().err.split())
    assert "skipped 2 shapes that are incomplete or of collectives" in said


def test_a_database_without_shapes_is_one_line(
    database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A relation that is missing, and one without a row, are both reported."""
    file = str(tmp_path / "out.parquet")
    monkeypatch.setattr(measured_shapes, "RELATION", "prediction.absent")
    code, reported = run("-o", file, "--from", str(database))
    assert (code, reported.count("\n")) == (2, 1)
    assert "absent" in reported
    monkeypatch.setattr(measured_shapes, "RELATION", "(FROM raw.shape LIMIT 0)")
    code, reported = run("-o", file, "--from", str(database))
    assert (code, reported.count("\n")) == (2, 1)
    assert "no GPU work with known shapes" in reported


def test_without_torch_one_line_says_how_to_install_it() -> None:
    """For a missing backend, the error names the extra."""
    code = (
        "import sys, importlib.util as u; found = u.find_spec;"
        "u.find_spec = lambda name: None if name == 'torch' else found(name);"
        "from tracedb.cli.main import tracedb;"
        "tracedb(['microbench', '--plan', 'quick', '-o', 'x.parquet',"
        " '--backend', 'torch'])"
    )
    done = subprocess.run(  # noqa: S603 (our own words)
        [sys.executable, "-Ic", code], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == (
        "tracedb: error: torch is not installed: pip install 'tracedb[record]'\n"
    )


def test_the_package_stands_alone() -> None:
    """It imports only the standard library, array libraries, Parquet, and itself."""
    allowed = sys.stdlib_module_names | {"numpy", "torch", "cupy", "pyarrow"}
    for file in PACKAGE.rglob("*.py"):
        depth = len(file.relative_to(PACKAGE).parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert (node.module or "").split(".")[0] in allowed
            elif isinstance(node, ast.ImportFrom):
                assert node.level <= depth


def test_a_copied_folder_measures(tmp_path: Path) -> None:
    """`python -m microbench` runs without tracedb, or says what is missing."""
    shutil.copytree(PACKAGE, tmp_path / "microbench")
    command = [sys.executable, "-m", "microbench", "-o", "out.parquet"]
    words = ["--backend", "numpy", "--family", "memset", "--minutes", "0.01"]
    done = subprocess.run(  # noqa: S603 (our own words)
        [*command, "--plan", "quick", *words],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "out.parquet: " in done.stderr
    assert (tmp_path / "out.parquet").exists()
    for mistake in (["--plan", "x"], []):
        wrong = subprocess.run(  # noqa: S603 (our own words)
            [*command, *mistake],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
