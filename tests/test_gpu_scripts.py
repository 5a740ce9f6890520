"""What is to run on a GPU runs small on a CPU: goes on, is whole, is ingested."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from support import ROOT

import tracedb

torch = pytest.importorskip("torch", reason="measuring needs tracedb[record]")
torch.set_num_threads(1)  # other tests run beside these

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

FOLDER = ROOT / "benchmarks" / "gpu"


def load(name: str) -> ModuleType:
    """Import a script from its file: its name is that of a package, too."""
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


microbench, record = load("microbench"), load("record")


def measured_at(folder: Path) -> dict[str, Any]:
    """When each row of each file was measured."""
    return {
        file.name: pq.read_table(file).to_pylist() for file in folder.glob("*.parquet")
    }


def test_plans_run_one_after_another(tmp_path: Path) -> None:
    """A file a plan; what is done is not done again."""
    words = [str(tmp_path), "--device", "cpu", "--small", "--plans", "reduction,concat"]
    assert microbench.main(words) == 0
    files = measured_at(tmp_path)
    assert {name: len(rows) for name, rows in files.items()} == {
        "reduction.parquet": 6,
        "concat.parquet": 6,
    }
    assert microbench.main(words) == 0
    assert measured_at(tmp_path) == files


def test_plans_end_with_their_minutes(tmp_path: Path) -> None:
    """Exit code 3 says that something is left."""
    words = [str(tmp_path), "--device", "cpu", "--small", "--plans", "softmax"]
    assert microbench.main([*words, "--minutes", "0"]) == 3
    assert microbench.main(words) == 0


@pytest.mark.parametrize("script", ["microbench", "record"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_a_missing_gpu_is_one_line(script: str, tmp_path: Path) -> None:
    """Exit code 2; the scripts run as they lie, without tracedb installed."""
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


def test_recordings_are_ingested(tmp_path: Path) -> None:
    """A model and its pair become traces with steps and their graphs."""
    words = [str(tmp_path), "--device", "cpu", "--small", "--only", "transformer_b8"]
    assert record.main(words) == 0
    names = {file.name.split(".")[0] for file in tmp_path.glob("*.measured.json")}
    assert names == {
        *("transformer_b8", "transformer_b8_bfloat16"),
        *("transformer_b8_adam_foreach", "transformer_b8_adam_fused"),
    }
    measured = json.loads((tmp_path / "transformer_b8.measured.json").read_text())
    assert measured["training"]["optimizer"] == "sgd"
    assert measured["median_step_ns"] > 0
    for file in tmp_path.glob("*.gz"):
        assert file.stat().st_size < record.MOST_BYTES
    with tracedb.open() as db:
        db.ingest([tmp_path / "transformer_b8.kineto.json.gz"])
        assert db.sql("FROM staging.step").height == record.STEPS
    assert list(record.missing(record.options().parse_args(words))) == []


@pytest.mark.parametrize("small", [False, True])
def test_pairs_name_recordings_that_are_made(tmp_path: Path, *, small: bool) -> None:
    """Both sides of every pair are among the recordings, and differ."""
    record.write_pairs(tmp_path / "pairs.json", small=small)
    pairs = json.loads((tmp_path / "pairs.json").read_text())
    made = {side.name for side in record.sides(small=small)}
    assert {"batch_size", "dtype", "fused_optimizer", "graph", "batched_tables"} <= set(
        pairs
    )
    for first, second in pairs.values():
        assert {first, second} <= made
        assert first != second


def test_every_model_is_recorded_at_every_size() -> None:
    """Recommenders from 512 to 4096 examples, networks for images from 16 to 128."""
    names = [side.name for side in record.sides(small=False)]
    assert len(set(names)) == len(names)
    assert {"dlrm_default_b512", "rmc3_b4096", "resnet50_b16", "inception_b128"} <= set(
        names
    )


def test_large_traces_are_recorded_with_fewer_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to two, and then it is said that the file is too large."""
    monkeypatch.setattr(record, "MOST_BYTES", 10)
    reported: list[str] = []
    monkeypatch.setattr(record, "tell", reported.append)
    words = [str(tmp_path), "--device", "cpu", "--small", "--only", "rmc1_b32"]
    assert record.main(words) == 0
    assert reported[-1] == "rmc1_b32: over 10 bytes, even with 2 steps"
    with tracedb.open() as db:
        db.ingest([tmp_path / "rmc1_b32.kineto.json.gz"])
        assert db.sql("FROM staging.step").height == 2


def test_graphs_are_left_out_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said."""
    reported: list[str] = []
    monkeypatch.setattr(record, "tell", reported.append)
    words = [str(tmp_path), "--device", "cpu", "--small", "--only", "resnet50_b2_graph"]
    assert record.main(words) == 0
    assert reported == ["resnet50_b2_graph: left out: CUDA graphs need a GPU"]
