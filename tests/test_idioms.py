"""However a program selects the GPU, its estimate is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracedb.from_code.recordings import Recording, Source

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F

{before}
{model}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def step(batch: int = 64):
    x = torch.randn(batch, 32{on})
    y = torch.randint(0, 10, (batch,){on})
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    {after}
    optimizer.step()
"""
NET = "net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))"
PLAIN = {
    "before": "",
    "model": f'{NET}.to("cuda")',
    "on": ', device="cuda"',
    "after": "",
}
PLACED = {
    "a device": {
        "before": 'at = torch.device("cuda")',
        "model": f"{NET}.to(at)",
        "on": ", device=at",
    },
    "a device if there is one": {
        "before": 'at = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
        "model": f"{NET}.to(device=at, dtype=torch.float32, non_blocking=True)",
        "on": ", device=at",
    },
    "its number": {"model": f"{NET}.to(0)", "on": ", device=0"},
    "a device by its number": {
        "before": "at = torch.device(0)",
        "model": f"{NET}.cuda(0)",
        "on": ', device=torch.device("cuda", 0)',
    },
    "a context": {
        "before": 'at = torch.device("cuda")',
        "model": f"with at: {NET}",
        "on": ', device="cuda:0"',
    },
    "the default": {
        "before": 'torch.set_default_device("cuda")',
        "model": NET,
        "on": "",
    },
    "where the model is": {"on": ", device=next(net.parameters()).device"},
    "first nowhere": {
        "model": f'with torch.device("meta"): {NET}\nnet = net.to_empty(device="cuda")'
    },
}
BESIDE = {
    "ranges": "torch.cuda.nvtx.range_push('a'); torch.cuda.nvtx.range_pop()",
    "a stream": "torch.cuda.current_stream().wait_stream(torch.cuda.Stream())",
    "a stream's block": "with torch.cuda.stream(torch.cuda.Stream()): pass",
    "events": "e = torch.cuda.Event(enable_timing=True); e.record(); "
    "print(e.elapsed_time(e))",
    "memory kept for a stream": "x.record_stream(torch.cuda.current_stream())",
}


@pytest.fixture(autouse=True)
def _default_device() -> object:
    import torch

    yield
    torch.set_default_device(None)


def recorded(folder: Path, **said: str) -> Recording:
    """The program in another spelling, recorded on fake tensors."""
    path = folder / "program.py"
    path.write_text(PROGRAM.format(**{**PLAIN, **said}))
    return Source(f"{path}:step", (), "NVIDIA A100").at(None)


def ops(recording: Recording) -> list[tuple[object, ...]]:
    """Dispatched ops, and their devices, without calls that order streams."""
    return [
        (op.name, op.arguments, op.is_on_gpu, op.transfer)
        for op in recording.fake.ops.values()
        if op.ordering is None
    ]


@pytest.mark.parametrize("way", PLACED)
def test_each_way_to_select_the_gpu(way: str, tmp_path: Path) -> None:
    """Ops, devices and memory are equal."""
    usual, other = recorded(tmp_path), recorded(tmp_path, **PLACED[way])
    assert other.memory.by_kind == usual.memory.by_kind
    assert [op[::2] for op in ops(other)] == [op[::2] for op in ops(usual)]
    assert all(on_gpu for *_, on_gpu, _ in ops(other))


MADE_LIKE = """
import torch

net = torch.nn.Linear(32, 64).to("cuda")


def step():
    h, given = torch.ones(64, 32), {"device": "cuda"}
    made = [torch.zeros_like(h, **given), torch.randn_like(h, **given)]
    made += [h.new_zeros(8, 8, **given), h.new_empty(4, **given)]
    back = net.weight.new_ones(4, device="cpu"), torch.empty_like(made[0], device="cpu")
"""


def test_a_given_device_is_that_of_what_is_made_like_another(tmp_path: Path) -> None:
    """`zeros_like(host, device="cuda")` is on the GPU, and the other way around."""
    path = tmp_path / "program.py"
    path.write_text(MADE_LIKE)
    made = Source(f"{path}:step", (), "NVIDIA A100").at(None).fake.ops.values()
    on_gpu = [op.is_on_gpu for op in made if "like" in op.name or "new_" in op.name]
    assert on_gpu == [True, True, True, True, False, False]


@pytest.mark.parametrize("beside", BESIDE)
def test_cuda_calls_without_gpu_time(beside: str, tmp_path: Path) -> None:
    """Streams, events and ranges of `torch.cuda` work and add no ops."""
    usual = recorded(tmp_path)
    assert ops(recorded(tmp_path, after=BESIDE[beside])) == ops(usual)


@pytest.mark.parametrize(
    ("after", "waiters"),
    [
        ("e = torch.cuda.Event(); e.record(); e.synchronize()", ["", "host"]),
        ("torch.cuda.Event().synchronize()", []),
        ("torch.cuda.current_stream().synchronize()", ["host for stream"]),
    ],
)
def test_the_host_waits_for_events_and_streams(
    after: str, waiters: list[str], tmp_path: Path
) -> None:
    """As CUDA does: an event that was never recorded is not waited for."""
    waiting = recorded(tmp_path, after=after)
    orders = [op.ordering for op in waiting.fake.ops.values()]
    assert [order.waiter for order in orders if order is not None] == waiters


def test_ranges_of_nvtx_are_annotations(tmp_path: Path) -> None:
    """They are recorded like the profiler does."""
    ranged = recorded(tmp_path, after='with torch.cuda.nvtx.range("mine"): x + 1')
    (mine,) = [node for node in ranged.nodes if node.name == "mine"]
    assert [child.name for child in mine.children] == ["aten::add"]


def test_copies_in_any_spelling(tmp_path: Path) -> None:
    """Copies to the host and back; none if the tensor is there already."""
    ways = {
        'x.to("cpu").to("cuda", non_blocking=True)': ["DtoH", "HtoD async"],
        "x.to(torch.device('cpu'), torch.float16, True).to(x)": ["DtoH async", "HtoD"],
        "x.to(0).to('cuda').cuda()": [],
        "x.cpu().to(device=0, dtype=torch.float16)": ["DtoH", "HtoD"],
    }
    for way, copies in ways.items():
        moved = recorded(tmp_path, after=way)
        found = [op.transfer for op in moved.fake.ops.values() if op.transfer]
        assert found == copies, way
    copied = len(recorded(tmp_path, after="x.to('cuda', copy=True)").fake.ops)
    assert copied == len(recorded(tmp_path, after="x.to('cuda')").fake.ops) + 1
