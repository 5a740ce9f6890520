"""Estimates of steps on a CPU: ops, memory, host times, bands, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.profiler import ProfilerActivity, profile

import tracedb
from tracedb import kernels, microbench
from tracedb.cli.main import tracedb as command
from tracedb.from_code.cpu.host import PARTS, HostModel, Timed, fit, parts
from tracedb.from_code.cpu.measured import HOST, MODELS, MeasuredCpu
from tracedb.from_code.cpu.op_times import in_pieces
from tracedb.from_code.error_sources import ErrorSource, band, largest_sources
from tracedb.from_code.fake_run import FakeRun
from tracedb.from_code.ops import Dispatched, Shape
from tracedb.from_code.program import Node, tree
from tracedb.microbench.timing import ColdTimer, Effort

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = """
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(batch=32):
    optimizer.zero_grad()
    inputs = torch.randn(batch, 64, device=device)
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def on_gpu(batch=32):
    return model(torch.randn(batch, 64, device="cuda"))
"""
FIXED_NS, FLOPS_PER_NS, BYTES_PER_NS = 2_000, 40, 10
"""A made-up CPU: fixed cost per call, then arithmetic or memory."""


def fake(make: Callable[[], Callable[[], object]]) -> Node:
    """The tree of a step, recorded on fake CPU tensors."""
    run = FakeRun(None)
    with run.inside():
        step = make()
    found = run.step(step)
    return tree(found.events, found.ops)


def attention() -> Callable[[], object]:
    """A layer whose attention and dropout use other ops on a GPU."""
    layer = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0, batch_first=True)
    words = torch.randn(2, 5, 16)

    def step() -> None:
        torch.autograd.backward(nn.functional.dropout(layer(words), 0.1).sum())

    return step


def recorded(step: Callable[[], object]) -> list[str]:
    """The op names of a real step, from the profiler."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    return [event.name for event in profiler.events() or []]


def test_ops_match_those_of_a_real_step() -> None:
    """Fake tensors dispatch the same ops as a real step on the CPU."""
    real = recorded(attention())
    names = [node.dispatched.name for node in fake(attention).walk() if node.dispatched]
    flash = "aten::_scaled_dot_product_flash_attention_for_cpu"
    for name in (flash, f"{flash}_backward", "aten::bernoulli_", "aten::addmm"):
        assert names.count(name) == real.count(name) > 0, name
    assert "aten::native_dropout" not in names


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step that uses the GPU if there is one."""
    path = tmp_path_factory.mktemp("cpu") / "train.py"
    path.write_text(SCRIPT)
    return path


def measured(case: microbench.Case) -> float:
    """[ns] The time of a product or an addition on the made-up CPU."""
    s = case.shape
    if case.family == "gemm":
        flops = 2 * s["batch"] * s["m"] * s["n"] * s["k"]
        return FIXED_NS + flops / FLOPS_PER_NS
    return FIXED_NS + case.memory_bytes / BYTES_PER_NS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of measurements of the made-up CPU."""
    folder = tmp_path_factory.mktemp("measured")
    wanted = {"mm", "addmm", "add"}
    found = [case for case in microbench.plan("cpu").cases if case.op in wanted]
    where = {"device": "AMD EPYC", "software": "torch, 1 thread", "source": "cpu"}
    rows = [
        where
        | {"measured": "op", "family": c.family, "op": c.op, "dtype": c.dtype}
        | dict(c.shape)
        | {"time_ns": measured(c), "low_ns": measured(c), "high_ns": measured(c)}
        for c in found
    ]
    file = folder / "ops.parquet"
    table = pl.DataFrame(rows, infer_schema_length=None).to_arrow()
    import pyarrow.parquet as pq

    pq.write_table(table.replace_schema_metadata({"tracedb.measurements": "1"}), file)
    kernels.train([file], folder / MODELS)
    host = HostModel(dict.fromkeys(PARTS, 1_000.0), 0.1)
    facts = {"processor": "AMD EPYC", "threads": 1, "memory_bytes": 1 << 34}
    MeasuredCpu(folder, host, facts).save()
    return folder


@pytest.fixture(scope="module")
def estimate(script: Path, folder: Path) -> tracedb.Estimate:
    """The script, estimated once."""
    return tracedb.estimate(f"{script}:step", cpu=folder, batch=256)


def test_a_step_is_compute_plus_overhead(estimate: tracedb.Estimate) -> None:
    """Products take their measured time; the step is longer than its compute."""
    flops = 2 * 256 * 64 * (64 + 64 + 8 + 8 + 8)
    products = 5 * FIXED_NS + flops / FLOPS_PER_NS
    assert estimate.computing_ns > products
    assert estimate.computing_ns < estimate.step_ns
    assert estimate.low_ns < estimate.step_ns < estimate.high_ns
    assert estimate.cpu == "AMD EPYC, 1 thread"
    assert estimate.gpu is None
    assert "aten::relu" not in estimate.unmodelled  # as other elementwise ops
    assert 1 <= len(estimate.error_sources) <= 3


def test_the_database_has_the_steps(estimate: tracedb.Estimate) -> None:
    """Both steps in the database last as long as the estimate; it has no GPU op."""
    with estimate.database as database:
        steps = database.sql("SELECT end_ns - start_ns AS ns FROM staging.step")
        gpu = database.sql("SELECT count(*) AS n FROM staging.gpu_op").item()
    assert gpu == 0
    assert steps["ns"].to_list() == pytest.approx([estimate.step_ns] * 2, abs=1_000)


def test_memory_is_counted_in_bytes(estimate: tracedb.Estimate) -> None:
    """Parameters have their exact size, and the capacity is the CPU's."""
    weights = 4 * (64 * 64 + 64 + 64 * 8 + 8)
    assert estimate.memory.by_kind["parameter"] == weights
    activations = 4 * 256 * (64 + 64 + 8)
    assert estimate.memory.peak_bytes > weights + activations
    assert estimate.capacity_bytes == 1 << 34


def test_new_pages_of_memory_take_time(script: Path, folder: Path) -> None:
    """Memory that is taken anew lengthens the ops that allocate it, and the band."""
    kept = tracedb.estimate(f"{script}:step", cpu=folder, batch=100_000)
    assert kept.new_pages_ns == 0
    text = (folder / HOST).read_text()
    try:
        (folder / HOST).write_text(text.replace('"page_ns": 0.0', '"page_ns": 500.0'))
        found = tracedb.estimate(f"{script}:step", cpu=folder, batch=100_000)
        shown = run(f"{script}:step", "--cpu", folder, "--batch", 100_000).output
    finally:
        (folder / HOST).write_text(text)
    # Tensors of 25.6 MB: some of the heap's pages, each once.
    activations = 4 * 100_000 * (64 + 64 + 64 + 8)
    assert 0 < found.new_pages_ns < 3 * 500 * activations / 4096
    assert found.step_ns == kept.step_ns + found.new_pages_ns
    assert found.low_ns < kept.step_ns < found.high_ns
    assert "; new pages" not in shown
    assert ", new pages of memory take " in shown
    with found.database as database:
        steps = database.sql("SELECT end_ns - start_ns AS ns FROM staging.step")
    assert steps["ns"].to_list() == pytest.approx([found.step_ns] * 2, abs=1_000)


def run(*words: object) -> Any:  # noqa: ANN401
    """Run `tracedb estimate`."""
    return CliRunner().invoke(command, ["estimate", *map(str, words)])


def test_output_of_the_command(script: Path, folder: Path) -> None:
    """The text shows the CPU, its ops and the largest error sources."""
    text = run(f"{script}:step", "--cpu", folder, "--batch", 256)
    assert text.exit_code == 0, text.output
    for words in ("Estimate for AMD EPYC, 1 thread", "Ops     compute", "off most by"):
        assert words in text.output
    found = run(f"{script}:step", "--cpu", folder, "--batch", 256, "--format", "json")
    assert json.loads(found.stdout)["computing_ns"] > 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["{script}:on_gpu", "--cpu", "{folder}"], "train.py:20: it asks for a GPU"),
        (["{script}:step", "--cpu", "{script}"], "no CPU was measured there"),
        (["{script}:step", "--cpu", "{folder}", "--gpu", "H100"], "name a GPU, or"),
        (["{script}:step", "--cpu", "{folder}", "--ranks", "2"], "ranks is of GPUs"),
        (
            ["{script}:step", "--cpu", "{folder}", "--sweep", "batch=1,2"],
            "--sweep is of GPUs",
        ),
    ],
)
def test_wrong_arguments_are_one_line(
    words: list[str], expected: str, script: Path, folder: Path
) -> None:
    """Bad arguments give one line and exit code 2."""
    found = run(*(word.format(script=script, folder=folder) for word in words))
    assert found.exit_code == 2
    assert expected in found.output.splitlines()[-1]


def test_each_part_is_counted_once() -> None:
    """Modules, the ops they call, and autograd nodes are counted as parts."""

    def make() -> Callable[[], object]:
        model = nn.Linear(4, 4)
        inputs = torch.randn(2, 4)
        return lambda: torch.autograd.backward(model(inputs).sum())

    found = parts(fake(make))
    assert found["module"] == 1
    assert (
        found["call"] == 2 + 1
    )  # linear, sum, and ones_like for the gradient of the loss
    assert found["gradient"] == 2
    assert found["optimizer"] == 0


def test_fit_recovers_known_times() -> None:
    """The fit recovers the times from which programs were generated."""
    chance = np.random.default_rng(0)
    known = dict(zip(PARTS, chance.uniform(500, 5_000, len(PARTS)), strict=True))
    programs = []
    for _ in range(30):
        counts = {part: int(chance.integers(0, 40)) for part in PARTS}
        total = HostModel(known, 0.0).total_ns(counts)
        programs.append(Timed(counts, 10_000.0, 10_000.0 + total))
    found = fit(programs)
    assert found.part_ns == pytest.approx(known, rel=1e-6)
    assert found.spread < 1e-6


def test_bands_add_in_quadrature() -> None:
    """Independent errors add up by squares, not linearly."""
    sources = [ErrorSource("a", 3, 6), ErrorSource("b", 4, 8), ErrorSource("c", 0, 0)]
    assert band(100, sources) == (95, 110)
    assert [source.name for source in largest_sources(sources)] == ["b", "a"]


def test_cold_calls_follow_other_work() -> None:
    """Each timed call, apart from warm-up, follows a call of other work."""
    done: list[str] = []
    timer = ColdTimer(lambda: done.append("other"))
    taken = timer.samples(
        lambda: done.append("work"), Effort(repeats=3, most=3, least_ns=0, warmup=2)
    )
    assert len(taken) == 3
    assert done[:2] == ["work", "work"]
    assert done[2:] == ["other", "work"] * (len(done[2:]) // 2)


@pytest.mark.parametrize(
    ("op", "dims", "expected"),
    [
        ("batch_norm", (8, 3, 4, 4), ("batch_norm_nchw", 24, 16)),
        ("batch_norm_backward", (8, 3, 4), ("batch_norm_nchw_backward", 24, 4)),
        ("batch_norm", (8, 3), ("batch_norm_nhwc", 8, 3)),
        ("batch_norm_backward", (8, 3, 1, 1), ("batch_norm_nhwc_backward", 8, 3)),
        ("layer_norm", (8, 3), ("layer_norm", 3, 8)),
    ],
)
def test_batch_norms_go_by_pieces(
    op: str, dims: tuple[int, ...], expected: tuple[str, int, int]
) -> None:
    """A CPU loops over channels of images, or over examples."""
    images = Shape(dims, "float", 4)
    norm = Dispatched("aten::norm", [images], [], is_on_gpu=False, is_view=False)
    rows = pl.DataFrame({"place": [0], "op": [op], "rows": [3], "width": [8]})
    found = in_pieces(rows, [Node("norm", "op", dispatched=norm)])
    assert found.select("op", "rows", "width").rows() == [expected]


def test_measurements_of_another_version_are_refused(tmp_path: Path) -> None:
    """Their models have other names, without which an estimate would be a guess."""
    host = HostModel(dict.fromkeys(PARTS, 1.0), 0.1)
    facts = {"processor": "A", "threads": 1, "memory_bytes": 1}
    MeasuredCpu(tmp_path, host, facts).save()
    assert MeasuredCpu.load(tmp_path).host == host
    text = (tmp_path / HOST).read_text()
    (tmp_path / HOST).write_text(text.replace('"format": 3', '"format": 2'))
    with pytest.raises(tracedb.EstimateError, match="another version of tracedb"):
        MeasuredCpu.load(tmp_path)


def test_an_incomplete_folder_is_refused(tmp_path: Path) -> None:
    """A folder whose measurement was interrupted is refused."""
    (tmp_path / HOST).write_text('{"format": 1, "part_ns": {}}')
    with pytest.raises(tracedb.EstimateError, match="not to the end"):
        MeasuredCpu.load(tmp_path)
