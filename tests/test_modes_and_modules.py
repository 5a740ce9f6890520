"""Inference mode, recomputed layers, lazy modules and changed types of parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from test_styles import recorded
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.profiler import ProfilerActivity, profile

from tracedb.errors import EstimateError
from tracedb.from_code.fake_run import FakeRun, FakeStep

MODES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "attention": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(),
        (4, 5, 16),
    ),
    "recurrent": (lambda: nn.LSTM(8, 8), (5, 4, 8)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten()),
        (2, 3, 8, 8),
    ),
    "product": (lambda: nn.Bilinear(4, 5, 6), (3, 4)),
}


def names(step: FakeStep) -> list[str]:
    """The names of the ops, in order."""
    return [op.name for op in step.ops.values()]


@pytest.mark.parametrize("gpu", ["NVIDIA H100", None])
@pytest.mark.parametrize("name", MODES)
def test_inference_mode_runs_the_ops_that_no_grad_runs(
    name: str, gpu: str | None
) -> None:
    """A real device gets the same ops, although fake tensors would not."""
    make, shape = MODES[name]

    def step(mode: Callable[[], AbstractContextManager[object]]) -> FakeStep:
        run = FakeRun(gpu)
        with run.inside():
            model, given = make(), torch.randn(shape)
            more = [torch.randn(3, 5)] if name == "product" else []

        def once() -> object:
            with mode():
                return model(given.clone(), *more)

        return run.step(once)

    expected, found = step(torch.no_grad), step(torch.inference_mode)
    assert names(found) == names(expected)
    assert found.memory.peak_bytes == expected.memory.peak_bytes


def test_a_number_is_read_in_inference_mode(tmp_path: Path) -> None:
    """It is an op of its own."""
    code = """
        @torch.inference_mode()
        def step():
            return model(torch.randn(16, 8, device=gpu)).sum().item()
        """
    assert names(recorded(tmp_path, code)).count("aten::_local_scalar_dense") == 1


def test_recomputed_layers_run_as_on_a_gpu(tmp_path: Path) -> None:
    """The backward pass calls a GPU's ops, in autocast's types."""
    code = """
        from torch.utils.checkpoint import checkpoint
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to(gpu)
        def step():
            given = torch.randn(4, 5, 16, device=gpu)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                made = checkpoint(layer, given, use_reentrant=False)
            made.float().sum().backward()
        """
    found = Counter(names(recorded(tmp_path, code)))
    assert found["aten::native_dropout"] == 2 * 3
    assert found["aten::_scaled_dot_product_flash_attention"] == 2
    assert not found["aten::bernoulli_"]


def peak(make: Callable[[], Callable[[], object]]) -> int:
    """[B] The most that PyTorch's CPU allocator holds in the second of two steps."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step = make()
        step()
        with torch.profiler.record_function("second"):
            step()
    events = profiler.profiler.kineto_results.events()
    (second,) = (e for e in events if e.name() == "second" and e.duration_ns())
    held, most = 0, 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() != "[memory]":
            continue
        held += event.nbytes()
        if second.start_ns() <= event.start_ns() <= second.end_ns():
            most = max(most, held)
    return most


def lstm(*, packed: bool) -> Callable[[], object]:
    """A step of a recurrent layer, whose workspace the backward pass needs."""
    layer, given = nn.LSTM(24, 32, 2, batch_first=True), torch.randn(8, 20, 24)

    def step() -> None:
        words = given.clone()
        if packed:
            made = layer(pack_padded_sequence(words, [20] * 8, batch_first=True))[
                0
            ].data
        else:
            made = layer(words)[0]
        torch.autograd.backward(made.square().sum())

    return step


def lazily() -> Callable[[], object]:
    """A step of a model whose sizes a first run finds."""
    model = nn.Sequential(
        nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(),
        nn.LazyLinear(10),
    )  # fmt: skip
    model(torch.zeros(2, 3, 8, 8))
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(model(torch.randn(4, 3, 8, 8)).sum())
        optimizer.step()

    return step


@pytest.mark.parametrize(
    "make", [lambda: lstm(packed=False), lambda: lstm(packed=True), lazily]
)
def test_peaks_are_those_of_real_steps(
    make: Callable[[], Callable[[], object]],
) -> None:
    """Workspace that is kept, and tensors of lazy modules, count as they are."""
    run = FakeRun(None)
    with run.inside():
        step = make()
    assert run.step(step).memory.peak_bytes == pytest.approx(peak(make), rel=0.005)


def test_lazy_modules_are_where_the_code_puts_them(tmp_path: Path) -> None:
    """Their parameters have names, and the device and type that the model was given."""
    code = """
        lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
        lazy.to(gpu).to(torch.bfloat16)
        lazy(torch.zeros(1, 8, device=gpu, dtype=torch.bfloat16))
        def step():
            lazy(torch.zeros(1, 8, device=gpu, dtype=torch.bfloat16)).sum().backward()
        """
    step = recorded(tmp_path, code)
    held = {h.name: h for h in step.held if h.kind == "parameter"}
    assert held["0.weight"].dims == (4, 8)
    assert held["0.weight"].dtype == "bfloat16"
    assert all(one.is_on_gpu for one in held.values())


def test_an_optimizer_of_unknown_sizes_is_refused(tmp_path: Path) -> None:
    """It would not see the parameters that the model has later."""
    code = """
        lazy = nn.LazyLinear(4)
        chosen = torch.optim.SGD(lazy.parameters())
        def step():
            lazy(torch.zeros(1, 8)).sum().backward()
            chosen.step()
        """
    with pytest.raises(EstimateError, match="run the model once before"):
        recorded(tmp_path, code)


def test_a_parameter_s_known_value_has_its_new_type() -> None:
    """A number that `to()` converts is not computed with in its old type."""

    def make() -> Callable[[], object]:
        layer = nn.ParameterList([torch.tensor(2.5)]).to(dtype=torch.bfloat16)
        optimizer = torch.optim.AdamW(layer.parameters())

        def step() -> None:
            torch.autograd.backward(layer[0] * 2)
            optimizer.step()
            assert optimizer.state[layer[0]]["exp_avg"].dtype == torch.bfloat16

        return step

    run = FakeRun("NVIDIA H100")
    with run.inside():
        step = make()
    run.step(step)
