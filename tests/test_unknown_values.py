"""What an estimate assumes of values that only a real run has, and that it says so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from test_styles import START, recorded
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError
from tracedb.from_code.fake_run import FakeRun, FakeStep
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.recordings import Source

CONDITION = "a condition on an unknown value is assumed to be "


def of_loss(folder: Path, code: str) -> FakeStep:
    """A step with some code behind its loss."""
    lines = [f"    {line}" for line in code.splitlines()]
    head = ["def step():", "    loss = trained(torch.ones(16, 8))"]
    return recorded(folder, "\n".join([*head, *lines]))


def told(step: FakeStep) -> list[str]:
    """The assumptions, without the folder of the script."""
    return [line.rpartition("/")[2] for line in step.assumed]


ASSUMED = {
    "if loss.item() < 3: model(loss)": ("false",),
    "if loss < 3: model(loss)": ("false",),
    "assert loss.item() < 100": ("true",),
    "assert not loss.item() > 100, 'no'": ("false",),
    "assert loss.item() < 100 and not loss.item() > 3": ("true", "false"),
    "if not loss.item() < 100: raise ValueError": ("true",),
    "if not (loss.item() < 100) or loss.item() == 3: raise ValueError": (
        "true",
        "false",
    ),
    "for _ in range(3):\n    if not loss.item() < 1: continue": ("true",),
    "if loss.item() > 3: pass\nelse: raise ValueError": ("true",),
    "assert torch.allclose(loss, loss)": ("true",),
    "if torch.equal(loss, loss): model(loss)": ("false",),
    "if (loss > 0).sum() == 0: raise ValueError": ("false",),
    "count = (loss > 0).sum().item()\nif not count > 0: model(loss)": ("true",),
}


def test_conditions_go_the_usual_way(tmp_path: Path) -> None:
    """Nothing is left early, assertions hold, and each line is told."""
    found = told(of_loss(tmp_path, "\n".join(ASSUMED)))
    truths = [truth for truths in ASSUMED.values() for truth in truths]
    assert [line.partition(": ")[2] for line in found] == [
        f"{CONDITION}{truth}" for truth in truths
    ]
    numbers = [int(line.split(":")[1]) for line in found]
    assert numbers == sorted(numbers)
    assert numbers[0] == START.count("\n") + 3


FINITE = [
    "if torch.isnan(loss): raise ValueError",
    "assert torch.isfinite(loss).all()",
    "assert not torch.isnan(loss)",
    "if (~torch.isfinite(model.weight)).any(): raise ValueError",
    "if model.weight.grad.isinf().sum() > 0: raise ValueError",
    "if torch.isnan(loss) or torch.isinf(loss).item(): raise ValueError",
    "if torch.logical_or(loss.isnan(), loss.isinf()): raise ValueError",
    "assert torch.isfinite(model.weight).sum().item() == model.weight.numel()",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1, error_if_nonfinite=True)",
    "if not math.isfinite(loss.item()): raise ValueError",
]


def test_values_are_finite(tmp_path: Path) -> None:
    """Checks for overflow find none, as always, so it is not told."""
    assert not of_loss(tmp_path, "\n".join(FINITE)).assumed


def test_float_is_told() -> None:
    """In functions that Python has compiled, it forgets what `float()` converts."""
    run = FakeRun("NVIDIA H100")

    def step() -> None:
        value = float(torch.ones(9).sum() + torch.randn(9).sum())
        if value < 3 or math.isnan(value):
            raise ValueError

    (line,) = told(run.step(step))
    assert line.startswith("test_unknown_values.py:")
    assert "float() of an unknown number" in line


def test_a_loop_that_waits_for_a_value_is_refused(tmp_path: Path) -> None:
    """`while True` that a value ends is refused, instead of running forever."""
    code = "while True:\n    if loss.item() < 1: break"
    with pytest.raises(EstimateError, match="a loop waits for a value"):
        of_loss(tmp_path, code)


def test_the_command_tells_the_assumptions(tmp_path: Path) -> None:
    """The answer lists them as unsure, on a GPU as in Python."""
    path = tmp_path / "train.py"
    path.write_text(
        START
        + "def step():\n    if trained(torch.ones(16, 8)).item() < 1:\n        pass\n"
    )
    given = ["estimate", f"{path}:step", "--gpu", "H100"]
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 0
    assert f"{path}:19: {CONDITION}false" in " ".join(result.stdout.split())


NAMING = {
    "model.cuda()": "model = nn.Linear(8, 8)\nkept = torch.ones(4, 8)\nmodel.cuda()",
    "model.to": "model = nn.Linear(8, 8)\nkept = torch.ones(4, 8)\nmodel.to('cuda')",
    "device=": "model = nn.Linear(8, 8, device='cuda')\nkept = torch.ones(4, 8)",
}


@pytest.mark.parametrize("named", NAMING)
def test_a_model_s_device_names_the_gpu(named: str, tmp_path: Path) -> None:
    """Batches that are copied to the GPU are on the host, also those made before."""
    code = (
        "import torch\nfrom torch import nn\n"
        f"{NAMING[named]}\n"
        "def step():\n"
        "    model(torch.randn(4, 8).to('cuda')).sum().backward()\n"
        "    model(kept.cuda()).sum().backward()\n"
    )
    path = tmp_path / "train.py"
    path.write_text(code)
    step = Source(f"{path}:step", (), "NVIDIA H100").at(None).fake
    copies = [op for op in step.ops.values() if op.transfer]
    assert [op.transfer for op in copies] == ["HtoD", "HtoD"]
    products = [op for op in step.ops.values() if op.name == "aten::addmm"]
    assert all(op.is_on_gpu for op in products)


def test_a_default_device_names_the_gpu(tmp_path: Path) -> None:
    """With `set_default_device("cuda")`, tensors are made on the GPU."""
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\ntorch.set_default_device('cuda')\n"
        "def step():\n    return torch.ones(4).sum(), torch.ones(4).cpu()\n"
    )
    try:
        step = Source(f"{path}:step", (), "NVIDIA H100").at(None).fake
    finally:
        torch.set_default_device(None)
    transfers = [op.transfer for op in step.ops.values() if op.transfer]
    assert transfers == ["DtoH"]


def test_real_inputs_are_copied() -> None:
    """Inputs that a function moves to the GPU are copied in each step."""
    model = nn.Linear(8, 8)

    def step(inputs: torch.Tensor) -> object:
        return model(inputs.cuda())

    run = FakeRun("NVIDIA H100")
    found = run.step(lambda: step(torch.ones(2, 8)))
    given = torch.ones(2, 8)
    again = FakeRun("NVIDIA H100").step(lambda: step(given))
    for one in (found, again):
        assert [op.transfer for op in one.ops.values() if op.transfer] == ["HtoD"]


class Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the ops that are dispatched."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (an overload of an op)
        _types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Count it by its name."""
        if func.namespace == "aten":
            self.counts[func._schema.name] += 1  # noqa: SLF001
        return func(*args, **(kwargs or {}))


def both(make: Callable[[], Callable[[], object]]) -> tuple[Counter[str], Counter[str]]:
    """The ops of a real second step on this CPU, and of an estimated one."""
    step = make()
    step()
    with Ops() as ops:
        step()
    run = FakeRun(None)
    with run.inside():
        faked = make()
    fake = run.step(faked)
    return ops.counts, Counter(op.name for op in fake.ops.values())


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_runs_its_iterations(search: str | None) -> None:
    """LBFGS keeps its directions, and has the products of a real run."""

    def make() -> Callable[[], object]:
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=5, line_search_fn=search
        )
        given, wanted = torch.randn(16, 8), torch.randn(16, 4)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = (model(given) - wanted).square().mean()
            torch.autograd.backward(loss)
            return loss

        return lambda: optimizer.step(closure)  # type: ignore[no-untyped-call]

    real, fake = both(make)
    for name in ("aten::addmm", "aten::dot", "aten::mul", "aten::add_", "aten::neg"):
        assert fake[name] == real[name] > 0


def test_lbfgs_is_told(tmp_path: Path) -> None:
    """The answer says how often LBFGS is assumed to evaluate."""
    code = """
        lbfgs = torch.optim.LBFGS(model.parameters())
        def step():
            lbfgs.step(lambda: trained(torch.ones(2, 8)))
        """
    (line,) = told(recorded(tmp_path, code))
    assert line.startswith("train.py:21: LBFGS is assumed to run all its iterations")


def test_packed_sequences_have_their_lengths() -> None:
    """Lengths from a list are known, and each step of time has as many products."""

    def make() -> Callable[[], object]:
        cells = nn.LSTM(8, 8, batch_first=True)
        rnn = torch.nn.utils.rnn

        def step() -> None:
            given = torch.randn(4, 6, 8)
            packed = rnn.pack_padded_sequence(given, [6, 4, 3, 2], batch_first=True)
            found, lengths = rnn.pad_packed_sequence(cells(packed)[0], batch_first=True)
            assert found.shape == (4, 6, 8)
            assert lengths.tolist() == [6, 4, 3, 2]
            torch.autograd.backward(found.sum())

        return step

    real, fake = both(make)
    for name in ("aten::addmm", "aten::mm", "aten::sigmoid_"):
        assert fake[name] == real[name] > 0
    # A dispatch mode does not see the copies within gradients of views.
    within = real["aten::slice_backward"] + real["aten::select_backward"]
    assert fake["aten::copy_"] == real["aten::copy_"] + within > within > 0


SELECTED = {
    "y[y > 0].sum()": "a mask is assumed to select all of its 64 elements",
    "y[y[:, 0] > 0].sum()": "a mask is assumed to select all of its 16 elements",
    "torch.masked_select(y, y > 0)": "a mask is assumed to select all of its 64",
    "torch.nonzero(y)": "a mask is assumed to select all of its 64 elements",
    "torch.where(y > 0)": "a mask is assumed to select all of its 64 elements",
    "torch.unique(y, return_inverse=True)": "all 64 values are assumed to be distinct",
    "torch.unique(y, dim=0)": "all 16 values are assumed to be distinct",
    "torch.unique_consecutive(y)": "all 64 values are assumed to be distinct",
    "torch.bincount(y[:, 0].long(), minlength=5)": "no value is assumed to be more",
    "torch.nn.utils.rnn.pack_padded_sequence(y[None], y[0, :1].long(), True)": (
        "all sequences are assumed to have the full length 16"
    ),
}


def test_sizes_by_values_are_told(tmp_path: Path) -> None:
    """Masks select everything, values are distinct, sequences are full; it is told."""
    code = ["y = model(torch.ones(16, 8, device=gpu))", *SELECTED]
    found = told(of_loss(tmp_path, "\n".join(code)))
    assert len(found) == len(SELECTED)
    for line, expected in zip(found, SELECTED.values(), strict=True):
        assert expected in line


MADE_FROM_NUMBERS = [
    "torch.full((6,), 4).view(2, 3).sum(1)",
    "torch.arange(2, 9, 3)",
    "torch.eye(3, dtype=torch.int32).sum(0) + torch.ones(3, dtype=torch.int8)",
    "torch.zeros(4, dtype=torch.long).fill_(7)[1:]",
    "torch.empty(2, dtype=torch.long).copy_(torch.tensor([3, 5]))",
    "torch.rand(3).new_full((2,), 5, dtype=torch.long).cumsum(0)",
    "torch.ones_like(torch.rand(2, 2), dtype=torch.long).triu()",
    "torch.randint(9, (4,)).zero_() + 2",
]
CHANGED = [
    "x = torch.zeros(3, dtype=torch.long)\nx.add_(torch.rand(3).long())",
    "x = torch.ones(4, dtype=torch.long)\nx[1:].copy_(torch.rand(3))",
    "x = torch.arange(4)\ny = x[1]\ny.mul_(loss.detach().long())",
    "x = torch.tensor([3, 4]).new_empty(2)",
    # What may stand for data.
    "x = torch.ones(3)",
]


def test_values_made_from_numbers_are_known(tmp_path: Path) -> None:
    """They are what a real run has, until something unknown is written to them."""
    lines = [f"print(({made}).tolist())" for made in MADE_FROM_NUMBERS]
    code = "\n".join([*lines, *(f"{lines}\nprint(x.tolist())" for lines in CHANGED)])
    with redirect_stdout(StringIO()) as printed:
        of_loss(tmp_path, code)
    found = printed.getvalue().splitlines()
    made = [str(eval(one).tolist()) for one in MADE_FROM_NUMBERS]  # noqa: S307 (it is above)
    assert found[: len(made)] == made
    assert all("nan" in line for line in found[len(made) : len(made) + len(CHANGED)])


def test_known_lengths_are_sizes(tmp_path: Path) -> None:
    """Pieces have the lengths that numbers say which were read back from the GPU."""
    step = of_loss(
        tmp_path,
        "lengths = torch.full((2, 3), 4, dtype=torch.int32).cuda()\n"
        "read = torch.empty(2, dtype=torch.int64)\n"
        "read.copy_(lengths.sum(1), non_blocking=True)\n"
        "first, second = torch.rand(24, 8).cuda().split(read.tolist())\n"
        "print(first.shape[0], second.shape[0])",
    )
    assert not told(step)


def test_pieces_of_unknown_sizes_are_alike(tmp_path: Path) -> None:
    """What numbers leave of a tensor is divided evenly, and it is told."""
    step = of_loss(
        tmp_path,
        "sizes = (torch.rand(3) * 9).long().tolist()\n"
        "pieces = torch.split(torch.rand(11, 4), [*sizes, 2])\n"
        "assert [piece.shape[0] for piece in pieces] == [3, 3, 3, 2]",
    )
    (line,) = told(step)
    assert line.endswith("4 pieces of unknown sizes are assumed to be equally large")


def test_known_masks_select_what_they_do(tmp_path: Path) -> None:
    """A mask of Python's own values is known, so nothing is assumed."""
    code = """
        def step():
            found = model(torch.ones(4, 8, device=gpu))
            chosen = found[torch.tensor([True, False, True, False])]
            assert chosen.shape == (2, 4)
            chosen.sum().backward()
        """
    step = recorded(tmp_path, code)
    assert not step.assumed


def test_filling_by_a_mask_needs_no_places(tmp_path: Path) -> None:
    """`x[mask] = 0` is `masked_fill_`, which does not wait for the GPU."""
    names = [
        op.name
        for op in of_loss(
            tmp_path, "y = torch.ones(16, 8, device=gpu)\ny[y > 0] = 0.0"
        ).ops.values()
    ]
    assert "aten::masked_fill_" in names
    assert "aten::nonzero" not in names


def test_the_host_waits_for_the_number_of_places(tmp_path: Path) -> None:
    """`nonzero` copies the number of its results to the host."""
    step = of_loss(tmp_path, "torch.nonzero(torch.ones(16, 8, device=gpu))")
    (op,) = [op for op in step.ops.values() if op.name == "aten::nonzero"]
    table = LaunchTable((), {})
    assert [w.is_waited_for for w in table.launching(op).work] == [False, True]
