"""Scripts for GPU machines, run small on a CPU: resumable, complete, ingestible."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pair_errors
import pyarrow.parquet as pq
import pytest
from support import ROOT

import tracedb
from tracedb.whatif.scenario import check

torch = pytest.importorskip("torch", reason="measuring needs tracedb[record]")
torch.set_num_threads(1)  # other tests run beside these

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path
    from types import ModuleType

FOLDER = ROOT / "benchmarks" / "gpu"


def load(name: str) -> ModuleType:
    """Import a script from its file, since a package has its name."""
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


microbench, record, beforehand = map(load, ("microbench", "record", "beforehand"))


def measured_at(folder: Path) -> dict[str, Any]:
    """When each row of each file was measured."""
    return {
        file.name: pq.read_table(file).to_pylist() for file in folder.glob("*.parquet")
    }


def test_plans_run_in_turn(tmp_path: Path) -> None:
    """There is one file per plan; a finished plan does not run again."""
    words = [str(tmp_path), "--device", "cpu", "--small", "--plans", "reduction,concat"]
    assert microbench.main(words) == 0
    files = measured_at(tmp_path)
    assert {name: len(rows) for name, rows in files.items()} == {
        "reduction.parquet": 6,
        "concat.parquet": 6,
    }
    assert microbench.main(words) == 0
    assert measured_at(tmp_path) == files


def test_plans_stop_at_their_time_limit(tmp_path: Path) -> None:
    """Exit code 3 says that work is left."""
    words = [str(tmp_path), "--device", "cpu", "--small", "--plans", "softmax"]
    assert microbench.main([*words, "--minutes", "0"]) == 3
    assert microbench.main(words) == 0


@pytest.mark.parametrize("script", ["microbench", "record"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_a_missing_gpu_is_one_line(script: str, tmp_path: Path) -> None:
    """Exit code 2; scripts run from the checkout, without tracedb installed."""
    command = [
        sys.executable,
        "-I",
        str(FOLDER / f"{script}.py"),
        str(tmp_path / "new"),
    ]
    done = subprocess.run(  # noqa: S603 (our own program)
        command, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no CUDA GPU" in done.stderr


SMALL = ["--device", "cpu", "--small", "--only"]


def phases(folder: Path, only: str) -> list[int]:
    """Time and trace in this process: importing PyTorch in others takes seconds."""
    words = [str(folder), *SMALL, only]
    return [record.main([*words, "--phase", phase]) for phase in record.PHASES]


def test_recordings_are_ingested(tmp_path: Path) -> None:
    """A model and its pair give traces with steps and graphs."""
    assert phases(tmp_path, "dlrm_ddp_b128") == [0, 0]
    names = {file.name.split(".")[0] for file in tmp_path.glob("*.measured.json")}
    assert names == {"dlrm_ddp_b128", "dlrm_ddp_b128_no_reads_loss"}
    assert not list(tmp_path.glob("*.timed.json"))
    assert not list(tmp_path.glob("*.failed.txt"))
    measured = json.loads((tmp_path / "dlrm_ddp_b128.measured.json").read_text())
    assert measured["training"]["optimizer"] == "sgd"
    assert measured["median_step_ns"] > 0
    assert {"recorded_at", "processor", "command", "torch"} <= measured.keys()
    for file in tmp_path.glob("*.gz"):
        assert file.stat().st_size < record.MOST_BYTES
    with tracedb.open() as db:
        db.ingest([tmp_path / "dlrm_ddp_b128.kineto.json.gz"])
        assert db.sql("FROM staging.step").height == record.STEPS
        db.ingest([tmp_path / "dlrm_ddp_b128.stacks.kineto.json.gz"])
        steps = db.sql("FROM staging.step WHERE trace_id = 2")
        assert steps.height == 1
        assert db.sql("FROM staging.python_frame WHERE trace_id = 2").height
        assert db.sql("FROM staging.memory_event WHERE trace_id = 2").height
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.measured*")}
    assert phases(tmp_path, "dlrm_ddp_b128") == [0, 0]
    assert before == {file: file.stat().st_mtime_ns for file in before}


def test_times_are_taken_where_nothing_is_recorded(tmp_path: Path) -> None:
    """Each phase has its own process; unprofiled times are kept with the recording."""
    assert record.main([str(tmp_path), *SMALL, "rmc3_b128", "--minutes", "5"]) == 0
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [
        "pairs.json",
        *(f"rmc3_b128.{kind}.json.gz" for kind in ("et", "kineto")),
        "rmc3_b128.measured.json",
        "rmc3_b128.stacks.kineto.json.gz",
    ]


def test_scripts_do_not_need_tracedb(tmp_path: Path) -> None:
    """A GPU machine has PyTorch, but no DuckDB and no polars."""
    lacking = dict.fromkeys(("duckdb", "polars", "msgspec", "sklearn", "click"))
    for script in ("record", "microbench"):
        program = (
            f"import runpy, sys; sys.modules.update({lacking}); "
            f"sys.argv = ['{script}', {str(tmp_path)!r}, '--device', 'cpu', '--small', "
            "'--minutes', '0']; "
            f"runpy.run_path({str(FOLDER / f'{script}.py')!r}, run_name='__main__')"
        )
        words = ["--phase", "time"] if script == "record" else ["--plans", "concat"]
        done = subprocess.run(  # noqa: S603 (our own program)
            [sys.executable, "-c", program.replace("'0']", f"'0', *{words}]")],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 3, done.stderr


def test_a_failure_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is in a file. It is not tried again, but a crash is, once."""
    reported: list[str] = []
    monkeypatch.setattr(record, "tell", reported.append)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: something\nmore")

    with monkeypatch.context() as patched:
        patched.setattr(record, "measure", broken)
        assert phases(tmp_path, "rmc3_b64") == [0, 0]
    failed = tmp_path / "rmc3_b64.failed.txt"
    assert "CUDA error: something" in failed.read_text()
    assert "rmc3_b64: failed: RuntimeError: CUDA error: something" in reported
    assert list(record.missing(asked(tmp_path, "rmc3_b64"), ".timed.json")) == []
    failed.write_text(record.ENDED)
    left = record.missing(asked(tmp_path, "rmc3_b64"), ".timed.json")
    assert [side.name for side in left] == ["rmc3_b64"]


def asked(folder: Path, only: str) -> Namespace:
    """The output of the command line."""
    found: Namespace = record.options().parse_args([str(folder), *SMALL, only])
    return found


def test_a_process_that_ends_early_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarts continue while each process makes progress."""
    called: list[str] = []

    def child(_: object, phase: str, minutes: float) -> int:
        assert minutes > 0
        called.append(phase)
        if called.count(phase) < 3:
            (tmp_path / f"{phase}{len(called)}").touch()
        return -11

    monkeypatch.setattr(record, "child", child)
    assert record.main([str(tmp_path), *SMALL, "rmc3_b64"]) == record.TIME_OVER
    assert called == ["time"] * 3 + ["trace"] * 3


def test_timing_leaves_time_for_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first phase has half of the minutes; the second has all that are left."""
    given: list[float] = []

    def child(_: object, __: str, minutes: float) -> int:
        given.append(minutes)
        return int(record.TIME_OVER)

    monkeypatch.setattr(record, "child", child)
    record.main([str(tmp_path), "--device", "cpu", "--minutes", "8"])
    assert given == pytest.approx([4, 8], rel=0.01)


@pytest.mark.parametrize("small", [False, True])
def test_pairs_name_recordings_that_are_made(tmp_path: Path, *, small: bool) -> None:
    """Both sides of every pair are among the recordings, and its edits are valid."""
    record.write_pairs(tmp_path / "pairs.json", small=small)
    pairs = json.loads((tmp_path / "pairs.json").read_text())
    made = {side.name for side in record.sides(small=small)}
    assert {
        *("batch_size", "dtype", "foreach", "fused_optimizer", "item", "sync"),
        *("graph", "batched_tables", "workers", "kernel"),
    } <= set(pairs)
    for pair in pairs.values():
        assert {pair["before"], pair["after"]} <= made
        assert pair["before"] != pair["after"]
        check(pair_errors.edits_of(pair))
        assert pair["edits"] or pair["settings"]


def test_estimates_are_made_beforehand(tmp_path: Path) -> None:
    """From code and from a CPU's graph; refusals are reported, without paths."""
    words = [str(tmp_path), "--gpu", "H100", "--small", "--only"]
    assert beforehand.main([*words, "dlrm_ddp_b32", "--no-graphs"]) == 0
    assert beforehand.main([*words, "rmc3_b32"]) == 0
    code, graph = (
        json.loads((tmp_path / f"{name}.estimated.json").read_text())
        for name in ("dlrm_ddp_b32", "rmc3_b32")
    )
    assert "graph" not in code
    for way in (code["code"], graph["code"], graph["graph"]):
        assert way["low_ns"] < way["step_ns"] < way["high_ns"]
        assert way["peak_bytes"] > 0

    def refuse() -> tracedb.Estimate:
        message = f"{ROOT}/train.py:3: not supported"
        raise tracedb.TracedbError(message)

    assert beforehand.told_of(refuse) == {"refused": "train.py:3: not supported"}


def test_every_model_is_recorded_at_every_size() -> None:
    """Recommenders from 512 to 4096 examples, image networks from 16 to 128."""
    names = [side.name for side in record.sides(small=False)]
    assert len(set(names)) == len(names)
    assert {"dlrm_default_b512", "rmc3_b4096", "resnet50_b16", "inception_b128"} <= set(
        names
    )


def test_large_traces_are_recorded_with_fewer_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to two steps; then the file is reported as too large."""
    monkeypatch.setattr(record, "MOST_BYTES", 10)
    reported: list[str] = []
    monkeypatch.setattr(record, "tell", reported.append)
    assert phases(tmp_path, "rmc1_b32") == [0, 0]
    assert reported[-2] == "rmc1_b32: over 10 bytes, even with 2 steps"
    assert reported[-1] == "rmc1_b32: its trace with stacks is over 10 bytes"
    with tracedb.open() as db:
        db.ingest([tmp_path / "rmc1_b32.kineto.json.gz"])
        assert db.sql("FROM staging.step").height == 2


def test_graphs_are_left_out_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message says so."""
    reported: list[str] = []
    monkeypatch.setattr(record, "tell", reported.append)
    assert phases(tmp_path, "resnet50_b2_graph") == [0, 0]
    assert set(reported) == {"resnet50_b2_graph: left out: CUDA graphs need a GPU"}
