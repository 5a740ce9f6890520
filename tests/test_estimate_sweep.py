"""Steps as functions of the batch size, compared with recordings at each size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError
from tracedb.from_code.batches import Batches
from tracedb.from_code.clock import Course
from tracedb.from_code.fake_run import FakeRun
from tracedb.from_code.fitting import room
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.layout import STEPS
from tracedb.from_code.pricing import Device, price
from tracedb.from_code.program import Node, launch
from tracedb.from_code.recordings import Recording, Source
from tracedb.from_code.script import load
from tracedb.from_code.timeline import Timeline

Train = Callable[[int], torch.Tensor]
RECORDED = (8, 50, 31)
ASKED = (20, 97)


def trained(make: Callable[[], tuple[nn.Module, Train]]) -> Callable[..., None]:
    """A training step with Adam; the model is created in the first call."""
    made: dict[str, Any] = {}

    def step(batch: int = 8) -> None:
        if not made:
            made["model"], made["error"] = make()
            made["optimizer"] = torch.optim.Adam(made["model"].parameters())
        made["optimizer"].zero_grad()
        torch.autograd.backward(made["error"](batch))
        made["optimizer"].step()

    return step


def perceptron() -> tuple[nn.Module, Train]:
    """Linear layers, a norm and activations; a mean, which divides by the batch."""
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96))
    return model, lambda batch: model(torch.randn(batch, 64)).square().mean()


def recommender() -> tuple[nn.Module, Train]:
    """Embedding bags, pairwise products, and a range named after the batch."""
    tables = nn.ModuleList([nn.EmbeddingBag(n, 16, mode="sum") for n in (1000, 200)])
    top = nn.Linear(4, 1)

    def error(batch: int) -> torch.Tensor:
        rows = torch.zeros(batch, 4, dtype=torch.long)
        with torch.profiler.record_function(f"batch of {batch}"):
            found = torch.stack([table(rows) for table in tables], 1)
        pairs = torch.bmm(found, found.transpose(1, 2)).view(batch, -1)
        wanted = torch.ones(batch, 1)
        return nn.functional.binary_cross_entropy_with_logits(top(pairs), wanted)

    return nn.ModuleList([tables, top]), error


def convolutions() -> tuple[nn.Module, Train]:
    """Convolutions, batch norms and pooling."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 64, 10),
    )  # fmt: skip

    def error(batch: int) -> torch.Tensor:
        classes = torch.zeros(batch, dtype=torch.long)
        images = torch.ones(batch, 3, 16, 16)
        return nn.functional.cross_entropy(model(images), classes) / batch

    return model, error


def words() -> tuple[nn.Module, Train]:
    """Repeated layers with attention and dropout, in half precision."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.ModuleList([nn.Embedding(50, 32), body, nn.Linear(32, 50)]).cuda()

    def error(batch: int) -> torch.Tensor:
        text = torch.zeros(batch, 12, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model[2](body(model[0](text)))
            return nn.functional.cross_entropy(found.flatten(0, 1), text.flatten())

    return model, error


MAKES = (perceptron, recommender, convolutions, words)


def recorded(make: Callable[[], tuple[nn.Module, Train]], batch: int) -> Recording:
    """A recording at one batch size."""
    return Source(trained(make), (), "H100").at(batch)


def learnt(make: Callable[[], tuple[nn.Module, Train]]) -> Batches:
    """The step as a function of its batch, from three recordings."""
    source = Source(trained(make), (), "H100")
    return Batches.of([source.at(batch) for batch in RECORDED])


def flat(root: Node) -> list[tuple[Any, ...]]:
    """All nodes of a tree; sequence numbers start at 0."""
    given = [node.arguments.get("Sequence number") for node in root.walk()]
    first = min(number for number in given if number is not None)
    return [
        (
            node.name, node.kind, len(node.children), node.dispatched,
            None if number is None else number - first,
        )
        for node, number in zip(root.walk(), given, strict=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def functions() -> dict[str, Batches]:
    """Each model's step as a function."""
    return {make.__name__: learnt(make) for make in MAKES}


@pytest.fixture(scope="module")
def direct() -> dict[tuple[str, int], Recording]:
    """Each model's step, recorded at the batch sizes under test."""
    return {(m.__name__, batch): recorded(m, batch) for m in MAKES for batch in ASKED}


@pytest.mark.parametrize("batch", ASKED)
@pytest.mark.parametrize("make", MAKES)
def test_the_function_equals_a_recording(
    make: Callable[[], object],
    batch: int,
    functions: dict[str, Batches],
    direct: dict[tuple[str, int], Recording],
) -> None:
    """Nodes, shapes, arguments and memory are equal."""
    function, there = functions[make.__name__], direct[make.__name__, batch]
    assert flat(function.at(batch)) == flat(there.root)
    assert function.memory(batch) == there.fake.memory


def test_times_equal_those_of_a_recording(
    functions: dict[str, Batches], direct: dict[tuple[str, int], Recording]
) -> None:
    """Kernel times on two GPUs and the host's timeline are equal."""
    with tracedb.open() as empty:
        tf32 = {"tf32_products": False, "tf32_convolutions": False}
        table = LaunchTable.of(empty.connection, **tf32)
        pairs = [
            (functions[name].at(batch), there.root)
            for (name, batch), there in direct.items()
        ]
        programs = [launch(root, table) for pair in pairs for root in pair]
        devices = [Device.of(empty.connection, gpu) for gpu in ("H100", "A100")]
        times = price(empty.connection, dict.fromkeys(devices, programs))
    for each in times.values():
        assert each[::2] == each[1::2]
    for swept, there in pairs:
        assert course(swept) == course(there)


def course(root: Node) -> Course:
    """The timeline of host and stream."""
    timeline = Timeline(HostTimes.shipped(), lambda _number: 0)
    for number in range(STEPS):
        timeline.step(root, number)
    return Course.of(timeline.clock.log, STEPS)


SCRIPT = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()


def step(batch=256):
    inputs = torch.randn(batch, 64).cuda()
    {line}
    loss = model(inputs).mean()
    loss.backward()
    return loss.item()
"""
REFUSED = {
    "inputs = inputs.relu() if batch > 500 else inputs": "aten::relu of [[999, 64]]",
    "inputs = inputs[: batch // 2]": "50 at 100",
    "inputs = inputs[: batch // 32 * 32]": "96 at 100",
    "inputs = nn.functional.pad(inputs, (0, 0, 0, -batch % 64))": "28 at 100",
    "[model(part) for part in inputs.split(100)]": "aten::split of",
}


def script(folder: Path, line: str) -> str:
    """A script with this line as its ninth."""
    path = folder / "train.py"
    path.write_text(SCRIPT.format(line=line))
    return f"{path}:step"


@pytest.mark.parametrize("line", REFUSED)
def test_steps_that_are_no_function_of_the_batch_are_refused(
    line: str, tmp_path: Path
) -> None:
    """The error names the line, even if the batches share a divisor."""
    with pytest.raises(EstimateError, match=r"train\.py:9: ") as error:
        tracedb.estimate_sweep(
            script(tmp_path, line), gpus=["H100"], batches=[100, 999]
        )
    assert REFUSED[line] in str(error.value)
    assert "\n" not in str(error.value)


def test_a_function_of_multiples_is_reported(tmp_path: Path) -> None:
    """Halving works for even batch sizes, with a note that says so."""
    told: list[str] = []
    step = script(tmp_path, "inputs = inputs[: batch // 2]")
    found = tracedb.estimate_sweep(
        step, gpus=["H100"], batches=[128, 256, 1024], tell=told.append
    )
    assert "train.py:9" in told[0]
    assert "multiples of 128" in told[0]
    alone = tracedb.estimate(step, gpu="H100", batch=256)
    row = found.row(1, named=True)
    assert row["peak_bytes"] == alone.memory.peak_bytes
    assert row["step_ns"] == alone.step_ns


def test_a_sweep_has_the_estimate_of_each_point(tmp_path: Path) -> None:
    """Times and memory equal those of an estimate; the largest batch just fits."""
    step = script(tmp_path, "pass")
    found = tracedb.estimate_sweep(
        step, gpus=["A100", "H100"], batches=[64, 300, 4096], cuda_graph=True
    )
    assert found["batch"].to_list() == [64, 64, 300, 300, 4096, 4096]
    alone = tracedb.estimate(step, gpu="H100", batch=300, cuda_graph=True)
    row = found.row(3, named=True)
    for name in ("step_ns", "low_ns", "high_ns", "gpu_active_ns", "kernel_count"):
        assert row[name] == getattr(alone, name)
    assert row["gpu"] == alone.gpu
    assert row["peak_bytes"] == alone.memory.peak_bytes
    assert row["samples_per_second"] == pytest.approx(300e9 / alone.step_ns)
    size, most = row["largest_batch"], room(row["capacity_bytes"])
    peaks = [recorded_peak(step, batch) for batch in (size, size + 1)]
    assert peaks[0] <= most < peaks[1]


def recorded_peak(step: str, batch: int) -> int:
    """[B] Peak memory at a batch size."""
    run = FakeRun("H100")
    path, _, name = step.rpartition(":")
    with run.inside():
        called = load(Path(path), name)
    return run.step(called.with_batch(batch)).memory.peak_bytes


def test_kept_inputs_have_the_same_batch_size(tmp_path: Path) -> None:
    """Inputs kept until the next step count at that step's batch size."""
    line = "kept, model.kept = getattr(model, 'kept', None), inputs"
    step = script(tmp_path, line)
    found = tracedb.estimate_sweep(step, gpus=["H100"], batches=[64, 300, 1000])
    assert found["peak_bytes"][1] == recorded_peak(step, 300)
    kept = 4 * 64 * 300
    assert found["peak_bytes"][1] == kept + recorded_peak(script(tmp_path, "pass"), 300)


def test_a_step_that_reads_the_gpu_name_is_recorded_per_gpu(tmp_path: Path) -> None:
    """An op that the code runs on one GPU only is counted there only."""
    line = (
        "inputs = inputs.relu() if 'H100' in torch.cuda.get_device_name() else inputs"
    )
    found = tracedb.estimate_sweep(script(tmp_path, line), gpus=["A100", "H100"])
    less, more = found["kernel_count"]
    assert more == less + 1
    assert found["batch"].to_list() == [256, 256]


def test_the_command_writes_a_row_for_each_point(tmp_path: Path) -> None:
    """The command writes one row per point."""
    arguments = ["estimate", script(tmp_path, "pass"), "--gpu", "A100"]
    swept = ["--sweep", "batch=64..200", "--sweep", "gpu=H100", "--format", "json"]
    result = CliRunner().invoke(command, [*arguments, *swept], catch_exceptions=False)
    rows = json.loads(result.stdout)
    assert [(row["batch"], row["gpu"]) for row in rows] == [
        (64, "H100"), (128, "H100"), (200, "H100"),
    ]  # fmt: skip


WRONG: dict[tuple[str, ...], str] = {
    ("--sweep", "size=1,2"): "expected batch=256..65536 or gpu=A100,H100",
    ("--sweep", "batch=few"): "few is neither a whole number from 1 nor a range",
    ("--sweep", "batch=9..3"): "9..3 does not ascend",
    ("--sweep", "batch=3,3"): "a batch size occurs twice",
    ("--sweep", "gpu=Abacus"): "unknown GPU Abacus",
    ("--format", "csv"): "--format csv needs --sweep",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_sweeps_are_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A bad sweep gives one line and exit code 2."""
    step = script(tmp_path, "pass")
    result = CliRunner().invoke(
        command, ["estimate", step, "--gpu", "H100", *arguments]
    )
    assert result.exit_code == 2
    assert WRONG[arguments] in result.stderr
