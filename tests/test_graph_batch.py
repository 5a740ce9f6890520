"""Execution graphs at another batch size, compared with those recorded there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from test_inferred_batch import MODELS, Model, recurrent
from torch.profiler import ExecutionTraceObserver
from written_graphs import collective, node, tensor, values, written

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError

HERE, THERE = 6, 15
SAME = [make for make in MODELS if make is not recurrent]
"""oneDNN rounds the size of what it keeps for a recurrent layer's gradient."""
ADDMM = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor"


def record(make: Callable[[], Model], batch: int, path: Path) -> Path:
    """The execution graph of a training step on the CPU."""
    torch.manual_seed(0)
    model, loss = make()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for is_recorded in (False, True):
        observer = ExecutionTraceObserver()
        if is_recorded:
            observer.register_callback(str(path)).start()
        optimizer.zero_grad()
        torch.autograd.backward(loss(batch))
        optimizer.step()
        if is_recorded:
            observer.stop()
            observer.unregister_callback()
    return path


def figures(found: tracedb.Estimate) -> tuple[object, ...]:
    """What must be equal."""
    memory = found.memory
    return (
        *(found.step_ns, found.low_ns, found.high_ns, found.gpu_active_ns),
        *(found.kernel_count, memory.peak_bytes, memory.largest),
    )


@pytest.mark.parametrize("make", SAME)
def test_a_graph_at_another_batch_is_the_graph_recorded_there(
    make: Callable[[], Model], tmp_path: Path
) -> None:
    """Times, kernels and memory are equal, to the nanosecond and the byte."""
    here = record(make, HERE, tmp_path / "here.json")
    there = record(make, THERE, tmp_path / "there.json")
    found = tracedb.estimate(here, gpu="A100", batch=THERE, recorded_batch=HERE)
    assert found.batch == THERE
    assert f"with batch {HERE}" in found.source
    assert figures(found) == figures(tracedb.estimate(there, gpu="A100"))


def layer(number: int, batch: int, inputs: int = 96, size: int = 640) -> dict[str, Any]:
    """A linear layer."""
    given = [tensor(20, size), tensor(21, batch, inputs), tensor(22, inputs, size)]
    return node(
        number,
        "aten::addmm",
        2,
        ADDMM,
        **values("input", *given),
        **values("output", tensor(23, batch, size)),
    )


def job(batch: int, folder: Path) -> Path:
    """Graphs of two ranks, which average a gradient."""
    folder.mkdir()
    for rank in range(2):
        nodes = [layer(3, batch), *(layer(n, batch) for n in range(4, 4 + 3 * rank))]
        called = collective(90, 2, "allreduce", 30, rank=rank, ranks=(0, 1, 2))
        written([*nodes, called], folder / f"rank{rank}.json")
    return folder


def test_graphs_of_a_job_change_alike(tmp_path: Path) -> None:
    """Each rank has the batch size; a message of the model stays as it is."""
    found, wanted = (
        tracedb.estimate(job(batch, tmp_path / f"{batch}"), gpu="A100", batch=1024)
        for batch in (512, 1024)
    )
    assert found.batch == 1024
    assert figures(found)[:5] == figures(wanted)[:5]
    assert [one.step_ns for one in found.stages] == [
        one.step_ns for one in wanted.stages
    ]


def refused(
    step: str | Path, batch: int | None = None, recorded: int | None = None
) -> str:
    """The line that says why there is no estimate."""
    with pytest.raises(EstimateError) as error:
        tracedb.estimate(step, gpu="A100", batch=batch, recorded_batch=recorded)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    """As many features as examples, and no inputs that show the batch size."""
    wide = written([layer(3, 64, 64, 64)], tmp_path / "wide.json")
    line = refused(wide, batch=128)
    assert "may be the batch size or a size of the model" in line
    assert line.endswith("record the graph at batch size 128")
    other = node(
        3,
        "aten::relu",
        2,
        "aten::relu(Tensor self) -> Tensor",
        **values("input", tensor(20, 64, 96)),
        **values("output", tensor(21, 64, 96)),
    )
    unclear = written([other], tmp_path / "unclear.json")
    assert "give it with --recorded-batch" in refused(unclear, batch=128)
    line = refused(unclear, batch=128, recorded=64)
    assert "is not known to follow the batch size" in line
    assert "give that as well" in refused(unclear, recorded=64)
    code = tmp_path / "step.py"
    code.write_text("import torch\ndef step():\n    torch.ones(2) + 1\n")
    line = refused(f"{code}:step", recorded=64)
    assert "only an execution graph has a recorded batch size" in line


def test_few_unknown_sizes_stay_and_are_named(tmp_path: Path) -> None:
    """What has few of the elements does not keep a graph from being estimated."""
    other = node(
        4,
        "aten::relu",
        2,
        "aten::relu(Tensor self) -> Tensor",
        **values("input", tensor(30, 64)),
        **values("output", tensor(31, 64)),
    )
    path = written([layer(3, 64, 640), other], tmp_path / "graph.json")
    [line] = tracedb.estimate(path, gpu="A100", batch=128).unsure
    assert line.startswith("aten::relu: dimension 0 of [64] is not known to follow")
    assert line.endswith("it stays as recorded")


def test_the_command_shows_both_sizes(tmp_path: Path) -> None:
    """The size that was asked for, and the recorded one."""
    path = written([layer(3, 512)], tmp_path / "graph.json")
    given = ["estimate", str(path), "--gpu", "A100", "--batch", "1024"]
    result = CliRunner().invoke(command, given, catch_exceptions=False)
    assert "batch 1,024" in result.output
    assert "recorded on a GPU with batch 512" in result.output
    told = CliRunner().invoke(command, [*given, "--format", "json"])
    assert json.loads(told.output)["batch"] == 1024
