"""Recording a loop into a database: `tracedb.profile`, `tracedb record`."""

from __future__ import annotations

import sys
import tomllib
from inspect import signature
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import click.testing
import pytest

torch = pytest.importorskip("torch", reason="recording needs tracedb[record]")
torch.set_num_threads(1)  # other tests run beside these

import tracedb  # noqa: E402  only where PyTorch is
from tracedb.cli.main import tracedb as command  # noqa: E402
from tracedb.cli.record import record as recorder  # noqa: E402
from tracedb.record import Loop, Plan  # noqa: E402
from tracedb.record.needs_torch import OLDEST  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys, torch
weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight])
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for _ in range(int(sys.argv[1])):
    weight.square().sum().backward()
    optimizer.step()
    scheduler.step()
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset variables that would make this process a rank."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def train(steps: int, end_step: Callable[[], object] = lambda: None) -> Any:  # noqa: ANN401 (an optimizer)
    """Train one weight for some steps."""
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight])
    for _ in range(steps):
        weight.square().sum().backward()
        optimizer.step()
        end_step()
    return optimizer


def record(*words: object) -> click.testing.Result:
    """Run `tracedb record` in this process."""
    return click.testing.CliRunner().invoke(command, ["record", *map(str, words)])


def test_ranks_become_one_run_with_their_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 leaves its files, and rank 0 ingests all; then traces are removed."""
    path = tmp_path / "new" / "run.duckdb"
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        with tracedb.profile(path, steps=2, warmup=2, graph=True, run="both") as prof:
            train(6, prof.step)
        assert path.exists() == (rank == 0)
    with tracedb.open(path, read_only=True) as db:
        rows = db.info().rows(named=True)
        steps = db.relation("staging.step")
    assert {row["run"] for row in rows} == {"both"}
    assert [(r["rank"], r["format"], r["step_count"]) for r in rows] == [
        *((0, "kineto", 2), (0, "et", 0), (1, "kineto", 2), (1, "et", 0)),
    ]
    assert all(row["paired_trace_id"] for row in rows if row["format"] == "et")
    assert steps["step"].to_list() == [2, 3, 2, 3]
    assert list(path.parent.iterdir()) == [path]


def test_a_recording_by_defaults_can_be_checked(tmp_path: Path) -> None:
    """It has enough steps to estimate noise; library and command have one default."""
    first, second = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    with tracedb.profile(first) as prof:
        train(11, prof.step)
    copyfile(first, second)
    with tracedb.open(first, read_only=True) as db, tracedb.open(second) as other:
        assert db.check(other)["is_within"].all()
    usual = signature(tracedb.profile).parameters
    for option in recorder.params:
        if option.name in {"steps", "warmup"}:
            assert option.default == usual[option.name].default


def test_inference_marks_its_steps(tmp_path: Path) -> None:
    """A loop without optimizers is recorded if it calls `step`, and told so if not."""
    model, path = torch.nn.Linear(4, 4), tmp_path / "a.duckdb"
    told = "no step ended, because no optimizer stepped .* each batch or request"
    with (
        pytest.raises(tracedb.RecordError, match=told),
        tracedb.profile(path),
    ):
        model(torch.ones(4))
    with tracedb.profile(path, steps=1, warmup=1) as prof:
        for _ in range(2):
            model(torch.ones(4))
            prof.step()
    assert prof.recorded_steps == 1


INFER = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
for _ in range(int(sys.argv[1])):
    model(torch.ones(4))
if sys.argv[2:]:
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("--step-at", "forward", "--steps", 2, "--warmup", 1, "--", 4), [1, 2]),
        (("--step-at", "exit", "--", 4), [0]),
        (("--step-at", "exit", "--", 4, "interrupted"), [0]),
    ],
)
def test_inference_is_recorded_unchanged(
    tmp_path: Path, words: tuple[object, ...], steps: list[int]
) -> None:
    """A step ends after each call of the model, or with the script, however it ends."""
    script, path = tmp_path / "infer.py", tmp_path / "run.duckdb"
    script.write_text(INFER)
    record(script, "-o", path, *words)
    with tracedb.open(path, read_only=True) as db:
        assert db.relation("staging.step")["step"].to_list() == steps
        (calls,) = db.sql("FROM staging.op WHERE name = 'aten::linear'").shape[:1]
    assert calls == (len(steps) if "forward" in words else 4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--", 2), "or end a step after each call of the model (`--step-at forward`)"),
        (("--step-at", "forward", "--", 0), "because no module was called"),
        (("--step-at", "exit", "--steps", 3, "--", 1), "--steps does not go with"),
    ],
)
def test_inference_that_ends_no_step_is_told_what_to_do(
    tmp_path: Path, words: tuple[object, ...], told: str
) -> None:
    """One line names the other ways to end steps."""
    script, path = tmp_path / "infer.py", tmp_path / "run.duckdb"
    script.write_text(INFER)
    done = record(script, "-o", path, *words)
    assert done.exit_code == 2
    assert told in done.stderr


def test_the_hook_of_a_module_is_removed(tmp_path: Path) -> None:
    """Only the first module has one, until the steps are recorded."""
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    with Loop(tmp_path, Plan(warmup=1, steps=1, step_at="forward")) as loop:
        second(first(torch.ones(4)))
        assert (loop.ended_steps, *map(hooks, (first, second))) == (1, 1, 0)
        first(torch.ones(4))
        assert (loop.is_done, hooks(first)) == (True, 0)


def hooks(module: Any) -> int:  # noqa: ANN401 (a module)
    """The number of hooks of a module."""
    return len(module._forward_hooks)  # noqa: SLF001 (there is no other way)


def test_optimizers_mark_steps_until_the_loop_does(tmp_path: Path) -> None:
    """The first optimizer is hooked and restored; `prof.step()` takes over."""
    with Loop(tmp_path, Plan(warmup=1, steps=2)) as loop:
        optimizer = train(3)
        assert loop.ended_steps == 2
        assert "step" in vars(optimizer)
        loop.step()
        assert "step" not in vars(optimizer)
        optimizer.step()
        assert (loop.ended_steps, loop.is_done) == (3, True)
    assert [file.name for file in loop.files] == ["recording.kineto.json"]


def test_a_script_is_recorded_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets its arguments and exit code; what was recorded before a failure stays."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    script, path = tmp_path / "train.py", tmp_path / "run.duckdb"
    script.write_text(SCRIPT)
    usual = list(sys.path)
    done = record(script, "-o", path, "--steps", 1, "--warmup", 1, "--", 4, 7)
    assert (done.exit_code, sys.path) == (7, usual)
    (trace,) = (tmp_path / "run.duckdb.traces").iterdir()
    assert (trace.name, "ProfilerStep#1" in trace.read_text()) == (
        "rank1.kineto.json",
        True,
    )


@pytest.mark.parametrize(("steps", "code", "exit_code"), [(1, 0, 2), (1, 3, 3)])
def test_an_empty_recording_is_one_line(
    tmp_path: Path, steps: int, code: int, exit_code: int
) -> None:
    """A script that ends too early leaves no database; its own failure comes first."""
    script, path = tmp_path / "train.py", tmp_path / "run.duckdb"
    script.write_text(SCRIPT)
    done = record(script, "-o", path, "--", steps, code)
    assert done.exit_code == exit_code
    told = (
        "nothing was recorded: the loop ran 1 step: the first only shows where steps "
        "end, and warmup takes 5;"
    )
    assert (told in done.stderr) == (not code)
    assert [file.name for file in tmp_path.iterdir()] == ["train.py"]


def test_an_exception_of_the_script_is_shown(tmp_path: Path) -> None:
    """It has its traceback, from the script on, and exit code 1."""
    script = tmp_path / "train.py"
    script.write_text("1 / 0")
    done = record(script, "-o", tmp_path / "run.duckdb")
    assert done.exit_code == 1
    first, place, *_ = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert place == f'  File "{script}", line 1, in <module>'
    assert done.stderr.endswith("\nZeroDivisionError: division by zero\n")
    assert not (tmp_path / "run.duckdb").exists()


def test_missing_steps_and_ranks_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer steps than planned, or a missing rank; the rest is ingested."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    lines: list[str] = []
    path, kept = tmp_path / "run.duckdb", tmp_path / "kept"
    with tracedb.profile(
        path, steps=3, warmup=1, patience=0, traces=kept, tell=lines.append
    ) as prof:
        train(2, prof.step)
    short, missing = lines
    assert short.startswith(
        "the loop ran 2 steps, and warmup takes 1; 1 of 3 were recorded,"
    )
    assert missing == f"{kept}: no trace of rank 1 within 0 s"
    assert [file.name for file in kept.iterdir()] == ["rank0.kineto.json"]
    assert path.exists()


def test_bad_arguments_are_reported_before_the_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is no database, impossible numbers, no PyTorch, no script."""
    (tmp_path / "text").write_text("nothing of tracedb's")
    with pytest.raises(tracedb.DatabaseError), tracedb.profile(tmp_path / "text"):
        pytest.fail("the loop ran")
    with (
        pytest.raises(tracedb.RecordError, match="at least 1 step"),
        tracedb.profile(tmp_path / "run.duckdb", steps=0),
    ):
        pytest.fail("the loop ran")
    assert "no such script" in record("absent.py", "-o", tmp_path / "a.duckdb").stderr
    for name in [n for n in sys.modules if n.startswith("tracedb.record")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = record(__file__, "-o", tmp_path / "a.duckdb")
    assert done.stderr == (
        "tracedb: error: tracedb.record needs PyTorch: pip install 'tracedb[record]'\n"
    )


def test_an_old_pytorch_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the version that the extra `record` declares as its oldest."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extras["optional-dependencies"]["record"] == [f"torch>={OLDEST}"]
    for name in [n for n in sys.modules if n.startswith("tracedb.record")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(torch, "__version__", "2.1.2+cu121")
    path = tmp_path / "a.duckdb"
    done = record(__file__, "-o", path)
    assert done.exit_code == 2
    assert done.stderr == (
        f"tracedb: error: tracedb.record needs PyTorch {OLDEST} or newer, and this is "
        "2.1.2+cu121: pip install --upgrade torch\n"
    )
    assert not path.exists()
