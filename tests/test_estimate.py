"""Estimates of steps that never ran: memory, launches and times from the code alone."""

from __future__ import annotations

import copy
import gc
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from support import ROOT
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError
from tracedb.from_code import needs_torch, place
from tracedb.from_code.cpu import workspace
from tracedb.from_code.fake_run import FakeRun, FakeStep
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.ops import Argument, Dispatched, Shape
from tracedb.from_code.recordings import Source
from tracedb.from_code.refused import reason

Make = Callable[[int], Callable[[], object]]


def readme_script() -> str:
    """The example script of the guide."""
    text = (ROOT / "docs" / "guide.md").read_text().partition("## Estimate")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's `train.py`."""
    path = tmp_path_factory.mktemp("estimate") / "train.py"
    path.write_text(readme_script())
    return path


@pytest.fixture(scope="module")
def estimate(script: Path) -> Iterator[tracedb.Estimate]:
    """The guide's example, estimated once for all tests."""
    found = tracedb.estimate(
        f"{script}:step", gpu="H100", batch=4096, find_largest_batch=True
    )
    with found.database:
        yield found


def fake(make: Make, batch: int = 32, gpu: str | None = "NVIDIA H100") -> FakeStep:
    """The step, recorded on fake tensors of a GPU, or else of a CPU."""
    run = FakeRun(gpu)
    with run.inside():
        step = make(batch)
    return run.step(step)


def names(step: FakeStep) -> list[str]:
    """The ops that a step dispatches, without `aten::`."""
    return [op.name.removeprefix("aten::") for op in step.ops.values()]


def trained(model: nn.Module, error: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """A training step with Adam (`foreach`)."""
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(error())
        optimizer.step()

    return step


def perceptron(batch: int) -> Callable[[], None]:
    """Linear layers, a layer norm and activations."""
    model = nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.LayerNorm(256), nn.Linear(256, 1)
    )
    return trained(model, lambda: model(torch.randn(batch, 64)).square().mean())


def recommender(batch: int) -> Callable[[], None]:
    """Embedding bags followed by linear layers."""
    tables = nn.ModuleList([nn.EmbeddingBag(n, 16, mode="sum") for n in (1000, 200)])
    top = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    model = nn.ModuleList([tables, top])

    def error() -> torch.Tensor:
        rows = torch.zeros(batch, 4, dtype=torch.long)
        found = torch.cat([table(rows) for table in tables], 1)
        return nn.functional.binary_cross_entropy_with_logits(
            top(found), torch.ones(batch, 1)
        )

    return trained(model, error)


def attention(batch: int) -> Callable[[], None]:
    """Attention written in ops that are the same on CPU and GPU."""
    mixed = nn.Linear(32, 96)
    norm = nn.LayerNorm(32)

    def error() -> torch.Tensor:
        inputs = torch.randn(batch, 16, 32)
        query, key, value = mixed(norm(inputs)).chunk(3, -1)
        weights = torch.softmax(query @ key.transpose(1, 2), -1)
        return torch.square(inputs + weights @ value).mean()

    return trained(nn.ModuleList([mixed, norm]), error)


def measured_peak(make: Make, batch: int) -> int:
    """The peak of the second step, as PyTorch's CPU allocator reports it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step = make(batch)
        step()
        with torch.profiler.record_function("second"):
            step()
    events = exported(profiler)
    begin = next(e["ts"] for e in events if e["name"] == "second")
    held: dict[int, int] = {}
    peak = 0
    for event in (e for e in events if e["name"] == "[memory]"):
        size, address = event["args"]["Bytes"], event["args"]["Addr"]
        if size > 0:
            held[address] = size
        else:
            held.pop(address, None)
        if event["ts"] >= begin:
            peak = max(peak, sum(held.values()))
    return peak


def exported(profiler: profile) -> list[dict[str, Any]]:
    """The profiler's events, ordered by time."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return sorted((e for e in events if "ts" in e), key=lambda e: e["ts"])


def convolutions(
    *layers: nn.Module, given: tuple[int, ...], is_half: bool = False
) -> Make:
    """A training step of convolutions and what is between them."""

    def make(batch: int) -> Callable[[], None]:
        model = copy.deepcopy(nn.Sequential(*layers))

        def error() -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_half):
                found: torch.Tensor = model(torch.randn(batch, *given))
            return found.float().square().mean()

        return trained(model, error)

    return make


SMALL = (nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
CONVOLUTIONAL = {
    "plain": convolutions(*SMALL, given=(3, 32, 32)),
    "bfloat16": convolutions(*SMALL, given=(3, 32, 32), is_half=True),
    "transposed": convolutions(
        nn.ConvTranspose2d(16, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 2, 2),
        given=(16, 8, 8),
    ),
    "depthwise": convolutions(
        nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU6(),
        nn.Conv2d(16, 32, 1), nn.ReLU6(),
        given=(3, 64, 64),
    ),
    "of three dimensions": convolutions(
        nn.Conv3d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv3d(8, 16, 3, 2, 1),
        given=(3, 8, 16, 16),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONVOLUTIONAL)
def test_peaks_of_convolutions_match_the_allocator(kind: str) -> None:
    """Copies in layouts that oneDNN prefers are part of the peak: within 2 %."""
    make = CONVOLUTIONAL[kind]
    real = measured_peak(make, 32)
    found = fake(make, 32, gpu=None)
    assert found.memory.peak_bytes == pytest.approx(real, rel=0.02)


def test_workspace_of_many_examples_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """If only a few examples of a convolution run, its workspace is within 5 %."""
    make = CONVOLUTIONAL["plain"]
    real = fake(make, 64, gpu=None).memory.peak_bytes
    monkeypatch.setattr(workspace, "_MOST_BYTES", 1_000_000)
    found = fake(make, 64, gpu=None).memory.peak_bytes
    assert found == pytest.approx(real, rel=0.05)


@pytest.mark.parametrize("make", [perceptron, recommender, attention])
@pytest.mark.parametrize("batch", [16, 256])
def test_peak_memory_matches_the_allocator(make: Make, batch: int) -> None:
    """The peak is within 2 % of what PyTorch's CPU allocator holds in a real step."""
    real = measured_peak(make, batch)
    found = fake(make, batch, gpu=None)
    assert found.memory.peak_bytes == pytest.approx(real, rel=0.02)


def test_memory_by_kind(estimate: tracedb.Estimate) -> None:
    """Parameters and Adam's state have exact sizes; the largest tensor is named."""
    elements = 512 * 4096 + 4096 + 4096 + 1
    held = estimate.memory.by_kind
    assert held["parameter"] == pytest.approx(4 * elements, abs=4 * 512)
    assert held["optimizer"] == pytest.approx(8 * elements, abs=8 * 512)
    kind, words, size = estimate.memory.largest[0]
    assert (kind, size) == ("activation", 4 * 4096 * 4096)
    assert "aten::addmm in Sequential.0" in words or "aten::relu in" in words


def test_the_largest_batch_fits_and_twice_it_does_not(
    script: Path, estimate: tracedb.Estimate
) -> None:
    """The largest batch uses at least 95 % of the memory; twice that does not fit."""
    assert estimate.largest_batch is not None
    assert estimate.capacity_bytes is not None
    namespace: dict[str, Any] = {}
    run = FakeRun("H100")
    with run.inside():
        exec(script.read_text(), namespace)  # noqa: S102 (the guide's own example)
    sizes = [estimate.largest_batch, 2 * estimate.largest_batch]
    peaks = [
        run.step(lambda n=n: namespace["step"](n)).memory.peak_bytes  # type: ignore[misc]
        for n in sizes
    ]
    room = estimate.capacity_bytes - 1_000_000_000
    assert 0.95 * room < peaks[0] <= room < peaks[1]


def test_the_database_answers_questions(estimate: tracedb.Estimate) -> None:
    """Steps, shapes, modules, kernel times and replay exist, marked `estimated`."""
    asked = estimate.database.sql
    assert asked("SELECT count(*) FROM staging.step").item() == 2
    shapes = asked(
        "SELECT DISTINCT input_dims::VARCHAR FROM staging.op WHERE name = 'aten::addmm'"
    ).to_series()
    assert "[[4096],[4096,512],[512,4096],[],[]]" in list(shapes)
    found = asked(
        "SELECT count(*), count(predicted_ns) FROM staging.gpu_op "
        "LEFT JOIN prediction.kernel_time USING (gpu_op_id)"
    ).row(0)
    assert found[0] == found[1] == 2 * estimate.kernel_count
    paths = asked("SELECT DISTINCT path FROM staging.module_call").to_series()
    assert "Sequential_0/Linear_0" in list(paths)
    replayed = estimate.database.predict("replay")["error_share"]
    assert replayed.abs().max() < 0.01  # type: ignore[operator]
    trust = estimate.database.ask("trust")
    assert trust["aspect"][0] == "estimated"
    assert estimate.low_ns < estimate.step_ns < estimate.high_ns


def test_copies_of_the_code_are_in_the_database(estimate: tracedb.Estimate) -> None:
    """`.cuda()` copies the batch to the GPU; `loss.item()` copies four bytes back."""
    copies = estimate.database.sql(
        "SELECT name, moved_bytes FROM staging.gpu_op WHERE kind = 'memcpy' "
        "ORDER BY start_ns LIMIT 2"
    ).rows()
    assert copies == [
        ("Memcpy HtoD (Pageable -> Device)", 4 * 4096 * 512),
        ("Memcpy DtoH (Device -> Pageable)", 4),
    ]


def test_kernels_run_one_after_another(estimate: tracedb.Estimate) -> None:
    """GPU ops of a stream do not overlap, and none starts before its launch."""
    late = estimate.database.sql(
        "SELECT gpu_op_id FROM (SELECT *, lag(gpu_op.end_ns) OVER (ORDER BY "
        "gpu_op.start_ns, gpu_op_id) AS before_ns, call.end_ns AS launched_ns "
        "FROM staging.gpu_op INNER JOIN staging.call AS call USING (call_id)) "
        "WHERE start_ns < before_ns OR start_ns < launched_ns"
    )
    assert late.is_empty()


def test_a_real_model_is_unchanged() -> None:
    """Parameters, gradients and optimizer state are the same after an estimate."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    kept = model.weight.clone()

    def step(inputs: torch.Tensor) -> None:
        model(inputs).sum().backward()
        optimizer.step()

    run = FakeRun("H100")
    found = run.step(lambda: step(torch.ones(2, 8)))
    assert "_foreach_addcdiv_" in names(found)
    assert model.weight.grad is None
    assert not optimizer.state
    assert type(model.weight) is nn.Parameter
    assert torch.equal(model.weight, kept)


def test_autocast_casts_as_on_cuda() -> None:
    """Autocast runs products in bfloat16 and softmax in float; attention is Flash."""

    def make(batch: int) -> Callable[[], None]:
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        layer.cuda()

        def step() -> None:
            inputs = torch.randn(batch, 16, 32, device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = layer(inputs).softmax(-1).mean()
            loss.backward()

        return step

    found = fake(make)
    types = {
        op.name: {shape.dtype for shape in op.tensors} for op in found.ops.values()
    }
    assert types["aten::addmm"] == {"c10::BFloat16"}
    assert types["aten::_softmax"] == {"float"}
    assert types["aten::native_layer_norm"] == {"float"}
    assert "_scaled_dot_product_flash_attention_backward" in names(found)
    assert "native_dropout" in names(found)


def test_a_model_may_be_converted() -> None:
    """A model that is moved and cast computes in that type, and keeps its buffers."""

    def make(batch: int) -> Callable[[], None]:
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).cuda().half()

        def step() -> None:
            inputs = torch.zeros(batch, 8, dtype=torch.half, device="cuda")
            torch.autograd.backward(model(inputs).sum())

        return step

    found = fake(make)
    products = [op for op in found.ops.values() if op.name == "aten::addmm"]
    assert {s.dtype for op in products for s in op.tensors} == {"c10::Half"}
    assert found.memory.by_kind["buffer"] == 3 * 512


def products() -> None:
    """Small half-precision products, then a synchronize."""
    matrix = torch.ones(512, 512, dtype=torch.half, device="cuda")
    for _ in range(20):
        torch.mm(matrix, matrix)
    torch.cuda.synchronize()


def test_a_cuda_graph_is_one_launch() -> None:
    """One launch, the same kernels in order, and a shorter step."""
    eager = tracedb.estimate(products, gpu="A100-SXM4-80GB")
    graph = tracedb.estimate(products, gpu="A100-SXM4-80GB", cuda_graph=True)
    query = "SELECT name, end_ns - start_ns FROM staging.gpu_op ORDER BY start_ns"
    with eager.database as one, graph.database as other:
        assert one.sql(query).rows() == other.sql(query).rows()
        calls = "SELECT kind, target FROM staging.call ORDER BY start_ns LIMIT 2"
        assert other.sql(calls).rows() == [("launch", "graph"), ("wait", "device")]
        modelled = one.sql(
            "SELECT basis FROM prediction.kernel_time WHERE family = 'gemm'"
        )
    assert graph.step_ns < eager.step_ns
    assert graph.gpu_active_ns == eager.gpu_active_ns
    assert set(modelled["basis"]) == {"model"}


def test_the_answer_agrees_with_the_database(estimate: tracedb.Estimate) -> None:
    """The step time and GPU active time equal those of the database."""
    period = estimate.database.sql(
        "SELECT end_ns - start_ns FROM graph.step_period ORDER BY step DESC LIMIT 1"
    )
    assert period.item() == estimate.step_ns
    busy = estimate.database.sql(
        "SELECT sum(end_ns - start_ns) // 2 FROM staging.gpu_op"
    )
    assert busy.item() == estimate.gpu_active_ns


UNRUNNABLE = {
    "while loss.item() > 0:": "how often a loop runs depends on a value",
    "for _ in range(int(loss)):": "a whole number depends on a value",
    "for _ in torch.repeat_interleave(inputs, inputs.long()):": "how much is repeated",
    "for _ in torch.bincount(inputs.long()):": "how many bins there are",
}


@pytest.mark.parametrize("condition", UNRUNNABLE)
def test_work_that_depends_on_values_is_an_error(
    condition: str, tmp_path: Path
) -> None:
    """Where values decide how much is done, one line tells where."""
    path = tmp_path / "deciding.py"
    path.write_text(
        "import torch\n\n\ndef step():\n    inputs = torch.ones(8)\n"
        f"    loss = inputs.mean()\n    {condition}\n        pass\n"
    )
    result = CliRunner().invoke(
        command, ["estimate", f"{path}:step", "--gpu", "H100"], catch_exceptions=False
    )
    assert result.exit_code == 2
    assert f"{path}:7: {UNRUNNABLE[condition]}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_value_may_be_formatted() -> None:
    """Values that are only printed or added need not be known; `GradScaler` works."""

    def make(batch: int) -> Callable[[], object]:
        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")

        def step() -> object:
            loss = model(torch.ones(batch, 8)).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return f"{loss.item() + 1:.3f}"

        return step

    assert "_foreach_add_" in names(fake(make))


WRONG = {
    ("train.py:step", "--gpu", "Abacus"): "unknown GPU Abacus; known: ",
    ("train.py", "--gpu", "H100"): "train.py: give a file and a function in it",
    ("none.py:step", "--gpu", "H100"): "none.py: no such file",
    ("trian.py:step", "--gpu", "H100"): "trian.py: no such file; did you mean train.py",
    ("train.py:step", "--gpu", "h-100 pci"): "unknown GPU h-100 pci; did you mean H100",
    ("train.py:stop", "--gpu", "H100"): "has no function stop; did you mean step?",
    ("plain.py:step", "--gpu", "H100", "--batch", "4"): "takes no batch size",
    ("plain.py:other", "--gpu", "H100"): "other() needs inputs",
    ("plain.py:named", "--gpu", "H100"): "named() needs size; it may take only",
    ("plain.py:sized", "--gpu", "H100"): "sized() needs a batch size: --batch N",
    ("plain.py:step", "--gpu", "H100"): "step() runs no ops of PyTorch",
    (
        "plain.py:leave",
        "--gpu",
        "H100",
    ): "plain.py:20: the code ends itself: os._exit(0)",
    ("plain.py:silent", "--gpu", "H100"): "plain.py:24: EOFError\n",
    (
        "plain.py:mute",
        "--gpu",
        "H100",
    ): "plain.py:33: Mute\n",
    ("plain.py:base", "--gpu", "H100"): "plain.py:37: BaseException: no\n",
    ("train.py:step", "--gpu", "H100", "--network", "9"): "give their number (--ranks)",
    ("train.py:step", "--gpu", "H100", "--sweep", "batch=1..9:0"): "asks for none",
}
PLAIN = """
import os
import torch


def step():
    pass


def other(inputs):
    pass


def named(*, size):
    pass


def leave():
    torch.ones(1)
    os._exit(0)


def silent():
    raise EOFError


class Mute(Exception):
    def __str__(self):
        raise ValueError


def mute():
    raise Mute


def base():
    raise BaseException("no")


def sized(batch):
    pass


def parts():
    os.chdir("/")
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    torch.ones(4) + 1
"""


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_arguments_are_one_line(
    arguments: tuple[str, ...], script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad arguments give one line that says what to do, and exit code 2."""
    monkeypatch.chdir(script.parent)
    Path("plain.py").write_text(PLAIN)
    result = CliRunner().invoke(command, ["estimate", *arguments])
    assert result.exit_code == 2
    assert WRONG[arguments] in result.stderr
    assert result.stderr.count("\n") == 1


def test_code_may_change_its_folder_and_end_its_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step runs in the folder that it changes to; the caller stays in its own."""
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text(PLAIN)
    assert tracedb.estimate("plain.py:parts", gpu="H100").kernel_count > 0
    assert Path.cwd() == tmp_path


def table(**learnt: tuple[str, ...]) -> LaunchTable:
    """The shipped rules, plus kernels learnt from traces."""
    with tracedb.open() as empty:
        found = LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=True
        )
    names = {f"aten::{name}": kernels for name, kernels in learnt.items()}
    return LaunchTable(found.rules, names, found.tf32_products, found.tf32_convolutions)


def launched(op: Dispatched, **learnt: tuple[str, ...]) -> list[str]:
    """Names of the kernels that an op launches."""
    return [work.name for work in table(**learnt).launching(op).work]


def single(count: int, *dims: int) -> list[Shape]:
    """The given number of float32 tensors."""
    return [Shape(dims, "float", 4)] * count


def test_launches_of_ops() -> None:
    """Views launch nothing, convolutions what is asked, lists by their chunks."""
    matrix = single(1, 8, 8)

    def op(name: str, *given: Argument, view: bool = False) -> Dispatched:
        return Dispatched(
            f"aten::{name}", list(given), matrix, is_on_gpu=True, is_view=view
        )

    assert launched(op("t", *matrix, view=True)) == []
    assert launched(op("add", *single(2, 8, 8))) == ["add"]
    assert launched(op("addmm", *single(3, 8, 8))) == ["sgemm"]
    assert launched(op("add", *matrix), add=("vectorized",)) == ["vectorized"]
    images = single(3, 2, 3, 8, 8)
    backward = op("convolution_backward", *images, "[False, True, True]")
    assert launched(backward) == ["tf32_conv_wgrad", "bias_sum"]
    assert len(launched(op("_foreach_add_", single(111, 8), single(111, 8)))) == 2
    assert len(launched(op("_foreach_sqrt", single(110, 8)))) == 1
    many = single(1, 65_536 * 641)
    assert len(launched(op("_foreach_sqrt", many))) == 3
    table_ = single(1, 100, 8)
    assert launched(op("embedding", *table_)) == ["vectorized_gather_kernel"]
    assert launched(op("embedding", *single(1, 100, 9))) == ["indexSelectLargeIndex"]
    joined = [*single(1, 3, 8), *single(1, 3, 5)]
    assert launched(op("cat", joined, "1")) == ["CatArrayBatchedCopy"]
    assert launched(op("cat", joined[:1], "-1")) == ["CatArrayBatchedCopy_vectorized"]
    host = Dispatched("aten::add", [], matrix, is_on_gpu=False, is_view=False)
    assert launched(host) == []


@pytest.mark.parametrize("has_frozen", [False, True])
def test_garbage_of_earlier_code_is_freed(tmp_path: Path, *, has_frozen: bool) -> None:
    """Cycles are garbage, too, whatever else garbage collection excludes."""
    path = tmp_path / "train.py"
    path.write_text(CYCLES)
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    try:
        if has_frozen:
            gc.freeze()
        step = Source(f"{path}:step", (), "NVIDIA H100").at(None).fake
        assert bool(gc.get_freeze_count()) is has_frozen
    finally:
        gc.unfreeze()
        if frozen:
            gc.freeze()
    assert step.memory.peak_bytes == 4 << 20


CYCLES = """
import torch

class Node:
    def __init__(self):
        self.itself = self
        self.held = torch.empty(1 << 20, device="cuda")

Node()

def step():
    Node()
"""


@pytest.mark.parametrize("installed", ["2.13.0+cpu", "2.14.1", "2.15.0a0+git1"])
def test_compared_versions_of_pytorch_are_not_told(installed: str) -> None:
    """What their real steps do is what estimates assume."""
    needs_torch.refuse(installed)
    assert not needs_torch.compared(installed)


@pytest.mark.parametrize("installed", ["2.6.0+cu124", "2.12.1", "2.16.0", "3.0.0"])
def test_other_versions_of_pytorch_are_told(installed: str) -> None:
    """They may run other ops."""
    needs_torch.refuse(installed)
    (line,) = needs_torch.compared(installed)
    assert installed in line


@pytest.mark.parametrize("installed", ["2.5.1", "1.13.1+cu117"])
def test_old_versions_of_pytorch_are_refused(installed: str) -> None:
    """Their fake tensors cannot run steps."""
    with pytest.raises(EstimateError, match=f"{re.escape(installed)}.*pip install"):
        needs_torch.refuse(installed)


@pytest.mark.parametrize(
    "text",
    [
        "Torch not compiled with CUDA enabled",
        "Found no NVIDIA driver on your system. Please check that you have one",
        "No CUDA GPUs are available",
    ],
)
def test_a_missing_gpu_has_one_reason(text: str) -> None:
    """Builds of PyTorch for CPUs and for GPUs tell it differently."""
    told = f"{reason(AssertionError(text))} {reason(RuntimeError(text))}"
    assert told.count("thread of its own") == 2


def test_a_recorded_step_tells_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """So do all ranks of a job, whose steps are recorded in the same way."""
    monkeypatch.setattr(needs_torch, "_COMPARED", ((9, 0), (9, 1)))
    step = fake(lambda _: lambda: torch.ones(2))
    assert any(f"PyTorch {torch.__version__} " in line for line in step.assumed)


def test_libraries_named_like_torch_are_not_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a library such as torchrec creates on a GPU names it for the whole code."""
    library = tmp_path / "site-packages" / "torchtables"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        "from torch import nn\n\n"
        "class Tables:\n"
        "    def __init__(self, device):\n"
        "        self.layer = nn.Linear(8, 8, device=device)\n\n"
        "    def __call__(self, batch):\n"
        "        return self.layer(batch.to(self.layer.weight.device))\n"
    )
    monkeypatch.syspath_prepend(library.parent)

    def make(batch: int) -> Callable[[], object]:
        import torchtables  # type: ignore[import-not-found]

        model = torchtables.Tables(torch.device("cuda"))
        examples = torch.ones(batch, 8)
        return lambda: model(examples)

    assert names(fake(make)).count("_to_copy") == 1


@pytest.mark.parametrize(
    ("file", "is_of_user"),
    [
        ("/home/me/mylib/python/train.py", True),
        ("/home/me/torch/train.py", True),
        ("/usr/lib/python3/dist-packages/lightning/trainer.py", False),
        (torch.__file__, False),
        (torch.nn.__file__, False),
        (json.__file__, False),
        (tracedb.from_code.__file__, False),
        ("<frozen importlib._bootstrap>", False),
    ],
)
def test_whose_code_a_file_is(file: str, *, is_of_user: bool) -> None:
    """Folders of the user's may have the names of libraries."""
    assert place.is_users(file) is is_of_user


def test_clipping_stays_on_the_gpu() -> None:
    """PyTorch groups gradients by where they are, which is not the host."""
    model = nn.Linear(8, 8)

    def step() -> None:
        model(torch.ones(2, 8)).sum().backward()
        for foreach in (True, False):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=foreach)

    source = Source(step, (), "NVIDIA H100")
    ops = source.at(None).fake.ops.values()
    source.close()
    assert [op.name for op in ops if op.transfer] == []
    assert "aten::_foreach_mul_" in {op.name for op in ops}


def test_checkpoints_of_real_tensors_are_recomputed() -> None:
    """A real tensor is on the GPU in the forward pass and in the backward pass."""
    first, last = nn.Linear(8, 32), nn.Linear(32, 8)
    inputs = torch.ones(4, 8)

    def step() -> None:
        found: Any = checkpoint(
            lambda x: last(first(x).relu()), inputs, use_reentrant=False
        )
        found.sum().backward()

    source = Source(step, (), "NVIDIA H100")
    names = [op.name for op in source.at(None).fake.ops.values()]
    source.close()
    assert names.count("aten::relu") == 2


@pytest.mark.parametrize("count", [90, 6000])
def test_clusters_of_labels_are_evenly_spread(count: int) -> None:
    """Each label is in one cluster, by its share of classes, and the answer says so."""
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 90, [30, 60])

    def step() -> None:
        labels = torch.randint(0, 90, (count,))
        layer(torch.ones(count, 16), labels).loss.backward()

    source = Source(step, (), "NVIDIA H100")
    found = source.at(None)
    source.close()
    (line,) = found.unsure
    assert line.endswith("are assumed to be evenly spread over its classes")
    softmaxes = [
        op.results[0].dims
        for op in found.fake.ops.values()
        if op.name == "aten::_log_softmax"
    ]
    assert softmaxes == [(count // 3, 30), (count // 3, 30), (count, 32)]


def test_transposed_convolutions_count_their_own_work() -> None:
    """Each element of the input is multiplied with the filters of its group."""
    layer = nn.ConvTranspose2d(8, 16, 3, stride=2, groups=2, output_padding=1)
    with (
        torch.no_grad(),
        tracedb.estimate(layer, torch.ones(2, 8, 10, 12), gpu="H100").database as found,
    ):
        (row,) = found.sql(
            "SELECT DISTINCT flops, groups, output_height, height "
            "FROM prediction.op_problem WHERE family = 'convolution'"
        ).rows()
    assert row == (2 * 2 * 10 * 12 * 8 * (16 // 2) * 9, 2, 10, 22)
