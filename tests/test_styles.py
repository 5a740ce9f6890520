"""Training scripts as people write them: they are estimated, or refused in one line."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from click.testing import CliRunner

from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError
from tracedb.from_code.fake_run import FakeStep
from tracedb.from_code.job import Job
from tracedb.from_code.recordings import Source
from tracedb.from_code.script import Script

START = """
import argparse, copy, math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

gpu = "cuda"
model = nn.Linear(8, 4).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def trained(given):
    loss = model(given.to(gpu)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


def recorded(folder: Path, code: str, name: str = "step", *given: str) -> FakeStep:
    """The step of a script that begins with `START`."""
    path = folder / "train.py"
    path.write_text(START + dedent(code))
    source = Source(f"{path}:{name}", given, "NVIDIA H100")
    try:
        return source.at(None).fake
    finally:
        source.close()


LOADER = "loader = DataLoader(TensorDataset(torch.randn(64, 8)), 16, shuffle=True"
RUN = {
    "a data loader that shuffles": f"""
        {LOADER}, drop_last=True)
        def step():
            for (given,) in loader:
                trained(given)
        """,
    "the GPU's own numbers": """
        def step():
            with torch.cuda.device(0):
                trained(torch.randn(2, 8))
            torch.cuda.init()
            torch.cuda.memory._record_memory_history()
            torch.cuda.set_per_process_memory_fraction(0.5)
            free, total = torch.cuda.mem_get_info()
            print(torch.cuda.utilization(), free / total, torch.cuda.initial_seed())
            print(torch.accelerator.memory_allocated())
        """,
    "a profiler": """
        from torch.profiler import profile, schedule
        def step():
            with torch.autograd.profiler.profile():
                pass
            plan = schedule(wait=0, warmup=1, active=1)
            with profile(schedule=plan, on_trace_ready=print) as profiler:
                trained(torch.randn(2, 8))
                profiler.step()
            profiler.export_chrome_trace("")
        """,
    "a traced layer and a branch": """
        traced = torch.jit.trace(model, torch.randn(2, 8, device=gpu))
        def step():
            given = torch.randn(2, 8)
            given = torch.cond(given.sum() > 0, torch.sin, torch.cos, (given,))
            trained(given)
            traced(given.to(gpu))
        """,
    "workers and pinned memory": f"""
        {LOADER}, num_workers=2, pin_memory=True)
        def step():
            trained(next(iter(loader))[0])
        """,
    "a formatted tensor": """
        def step():
            loss = trained(torch.randn(16, 8))
            print(f"{loss:.3f}", "{:.3f}".format(loss), loss.tolist())
            print(round(loss.item(), 3), f"{(loss > 0).sum().item():d}")
        """,
    "numpy": """
        def step():
            found = model(torch.randn(16, 8, device=gpu)).detach().cpu().numpy()
            return found.mean(), trained(torch.randn(16, 8))
        """,
    "checks for overflow": """
        def step():
            loss = trained(torch.randn(16, 8)).item()
            if not math.isfinite(loss) or math.isnan(math.exp(loss)):
                raise SystemExit("overflow")
        """,
    "a scaler's scale": """
        scaler = torch.amp.GradScaler("cuda")
        def step():
            before = scaler.get_scale()
            scaler.scale(model(torch.randn(16, 8).to(gpu)).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            assert scaler.get_scale() == before
        """,
    "distributions": """
        def step():
            logits = model(torch.ones(2, 8).to(gpu))
            chosen = torch.distributions.Categorical(logits=logits)
            chosen.log_prob(chosen.sample()).sum().backward()
        """,
    "an exponential average": """
        average = copy.deepcopy(nn.Sequential(model, nn.BatchNorm1d(4).to(gpu)))
        def step():
            average(torch.randn(16, 8).to(gpu)).mean().backward()
        """,
    "torch.func": """
        from torch.func import functional_call, grad
        held = {k: v.detach() for k, v in model.named_parameters()}
        def step():
            given = torch.randn(16, 8, device=gpu)
            grad(lambda p: functional_call(model, p, (given,)).mean())(held)
        """,
    "a generator of the GPU, and pinned tensors": """
        numbers = torch.Generator(device=gpu).manual_seed(3)
        def step():
            torch.randn(16, 8, generator=numbers, device=gpu)
            trained(torch.randn(16, 8, pin_memory=True))
        """,
    "a learning rate on the GPU": """
        adam = torch.optim.Adam(
            model.parameters(), lr=torch.tensor(0.1, device=gpu), capturable=True
        )
        def step():
            trained(torch.randn(16, 8))
            adam.step()
        """,
    "DataParallel, old types, capability": """
        parallel = nn.DataParallel(model)
        def step():
            assert torch.cuda.get_device_capability() == (9, 0)
            assert torch.cuda.get_device_properties(0).major == 9
            parallel(torch.cuda.FloatTensor(16, 8).normal_()).sum().backward()
        """,
    "modules of the script's folder": """
        from beside import VALUE
        def step():
            import beside
            assert beside.VALUE is VALUE
            trained(torch.randn(16, 8) + VALUE.cpu())
        """,
}


@pytest.mark.parametrize("style", RUN)
def test_it_is_estimated(style: str, tmp_path: Path) -> None:
    """The step runs on fake tensors, and has GPU work."""
    (tmp_path / "beside.py").write_text("import torch\nVALUE = torch.ones(8)\n")
    step = recorded(tmp_path, RUN[style])
    assert any(op.is_on_gpu for op in step.ops.values())
    assert "beside" not in sys.modules


def test_loading_is_not_recorded(tmp_path: Path) -> None:
    """A step has as many ops with a data loader as without, shapes known alike."""
    without = recorded(tmp_path, "def step():\n    trained(torch.randn(16, 8))\n")
    step = recorded(tmp_path, RUN["workers and pinned memory"])
    names = [op.name for op in step.ops.values()]
    assert names == [op.name for op in without.ops.values()][1:]
    events = [e["name"] for e in step.events]
    assert "aten::randperm" not in events


def test_recurrent_layers_are_expanded(tmp_path: Path) -> None:
    """A GPU's recurrent layers are not one op of oneDNN."""
    code = """
        cells = nn.LSTM(8, 8).to(gpu)
        def step():
            cells(torch.randn(4, 2, 8, device=gpu))[0].sum().backward()
        """
    names = {op.name for op in recorded(tmp_path, code).ops.values()}
    assert not any("mkldnn" in name for name in names)
    assert "aten::addmm" in names


def test_statistics_of_all_ranks(tmp_path: Path) -> None:
    """`SyncBatchNorm` launches CUDA's ops, and gathers each rank's statistics."""
    path = tmp_path / "train.py"
    path.write_text(
        START
        + dedent("""
        torch.distributed.init_process_group("nccl")
        norm = nn.SyncBatchNorm(4).cuda()
        def step():
            norm(model(torch.randn(16, 8, device=gpu))).sum().backward()
        """)
    )
    source = Source(f"{path}:step", (), "NVIDIA H100", Job(4, 8))
    try:
        found = source.at(None).fake
    finally:
        source.close()
    names = [op.name for op in found.ops.values()]
    assert {"aten::batch_norm_stats", "aten::batch_norm_backward_elemt"} <= {*names}


def test_a_checkpoint_overwrites_nothing(tmp_path: Path) -> None:
    """`torch.save` copies to the host; the file is left as it is."""
    kept = tmp_path / "kept.pt"
    kept.write_text("kept")
    code = f"""
        def step():
            trained(torch.ones(2, 8))
            torch.save({{"model": model.state_dict()}}, {str(kept)!r})
        """
    step = recorded(tmp_path, code)
    assert [op.transfer for op in step.ops.values() if op.transfer] == [
        "HtoD",
        *["DtoH"] * 2,
    ]
    assert kept.read_text() == "kept"


@pytest.mark.parametrize("where", ["io.BytesIO()", "'kept.pt'"])
def test_what_was_saved_is_loaded(where: str, tmp_path: Path) -> None:
    """A checkpoint has its tensors, its numbers and its types; loading copies it."""
    code = f"""
        import io
        def step():
            loss = trained(torch.ones(2, 8))
            file = {where}
            kept = {{"model": model, "state": optimizer.state_dict(), "epoch": 3}}
            torch.save(kept | {{"loss": loss.item()}}, file)
            if hasattr(file, "seek"):
                file.seek(0)
            found = torch.load(file, weights_only=False)
            assert found["epoch"] == 3 and type(found["model"]) is nn.Linear
            assert found["model"].weight is not model.weight
            assert found["model"].weight.is_cuda
            model.load_state_dict(found["model"].state_dict())
        """
    names = [op.name for op in recorded(tmp_path, code).ops.values()]
    assert names[-2:] == ["aten::copy_"] * 2
    assert not (tmp_path / "kept.pt").exists()


def test_a_method_and_the_script_s_own_arguments(tmp_path: Path) -> None:
    """`trainer.step` is found, and the script parses its own command line."""
    code = """
        parser = argparse.ArgumentParser()
        parser.add_argument("--rows", type=int, required=True)
        class Trainer:
            def step(self):
                trained(torch.randn(parser.parse_args().rows, 8))
        parser.parse_args()
        trainer = Trainer()
        """
    step = recorded(tmp_path, code, "trainer.step", "--rows", "24")
    assert any(s.dims == (24, 8) for op in step.ops.values() for s in op.tensors)


def test_modules_of_other_folders_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules of a folder whose name only begins alike are not those of a script."""
    other = ModuleType("other_of_a_neighbour")
    other.__file__ = str(tmp_path / "job_2" / "other.py")
    own = ModuleType("own_of_a_run_before")
    own.__file__ = str(tmp_path / "job" / "own.py")
    for module in (other, own):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with Script(tmp_path / "job" / "train.py").running():
        assert other.__name__ in sys.modules
        assert own.__name__ not in sys.modules
    assert {other.__name__, own.__name__} <= sys.modules.keys()


def test_a_script_in_a_package(tmp_path: Path) -> None:
    """Relative imports work, as with `python -m`."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "layers.py").write_text("from torch import nn\nmake = nn.Linear\n")
    step = recorded(
        package,
        "from .layers import make\ndef step():\n    trained(torch.ones(2, 8))\n",
    )
    assert step.ops
    assert "package.layers" not in sys.modules


REFUSED = {
    "async def step():\n    trained(torch.ones(2, 8))": "step() is a coroutine",
    "def step():\n    yield trained(torch.ones(2, 8))": "or a generator",
    "raise SystemExit(3)": "train.py:18: the code ends itself: exit(3)",
    "argparse.ArgumentParser().parse_args(['x'])": "train.py:18: unrecognized",
    "def step()\n    pass": "train.py:18: SyntaxError: expected",
    "graph = torch.cuda.CUDAGraph()": "train.py:18: a CUDA graph cannot be captured",
    "def step():\n    n = torch.randint(9, (3,)).max()\n"
    "    torch.arange(n)": "train.py:20: a size depends on a value",
    "def step():\n    model(torch.ones(2, 9))": "19: RuntimeError: a and b must",
    "from threading import Thread\ndef step():\n"
    "    other = Thread(target=lambda: trained(torch.ones(2, 8)))\n"
    "    other.start()\n    other.join()": "13: it computes on a thread of its",
    "from torch.profiler import profile\ndef step():\n    with profile() as found:\n"
    "        trained(torch.ones(2, 8))\n"
    "    found.key_averages()": "train.py:22: a profiler in the step records nothing",
    "@torch.library.custom_op('tests::twice', mutates_args=())\n"
    "def twice(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n"
    "def step():\n    twice(torch.ones(2))": "22: the custom op tests::twice has",
    "kept = torch.library.Library('tests_old', 'FRAGMENT')\n"
    "kept.define('f(Tensor x) -> Tensor')\nkept.impl('f', lambda x: x, 'CPU')\n"
    "def step():\n    torch.ops.tests_old.f(torch.ones(2))": "22: the op tests_old.f",
    "def step():\n    torch.eye(4).to_sparse() @ torch.ones(4)": "sparse tensors are",
    "def step():\n    torch.export.export(model, (torch.ones(8),))": "is exported",
    "def step():\n    chosen = model(torch.ones(2, 8)).argmax(1).tolist()\n"
    "    torch.eye(8)[chosen[0]]": "20: an index depends on a value",
    "class Own(torch.Tensor): pass\n"
    "torch.ones(2).as_subclass(Own)": "19: `as_subclass` of an own class",
    "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor() as pool:\n"
    "    list(pool.map(lambda _: torch.ones(2, device=gpu), [1]))": "thread of its own",
    "nn.parallel.DistributedDataParallel(model)": "give their number: --ranks N",
    "import pickle\npickle.dumps(model)": "train.py:19: what an estimate has is not",
}


@pytest.mark.parametrize("code", REFUSED)
def test_it_is_refused_in_one_line(code: str, tmp_path: Path) -> None:
    """What cannot be estimated is told with the line, and nothing else is printed."""
    with pytest.raises(EstimateError) as found:
        recorded(tmp_path, code)
    assert REFUSED[code] in str(found.value)


def test_an_error_of_shapes_prints_no_traceback(tmp_path: Path) -> None:
    """PyTorch's log of it is not shown; the command line has arguments after `--`."""
    path = tmp_path / "train.py"
    path.write_text(START + "def step():\n    model(torch.ones(2, 9))\n")
    given = ["estimate", f"{path}:step", "--gpu", "H100", "--", "--rows", "2"]
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
