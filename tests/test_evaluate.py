"""Evaluation of recordings: its tables agree with the database."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import evaluate
import pytest
from recorded import recordings, scores
from support import SAMPLES

import tracedb
from tracedb.whatif.scenario import UNPROFILED

if TYPE_CHECKING:
    from support import Ingested

FACTOR = 2


PAIRS: dict[str, tuple[str, list[str], list[str]]] = {
    "loop": ("dlrm", [f"host x{FACTOR}"], []),
    "kernels": ("dlrm", ["gpu:*gemm* x0.5"], []),
    "missing": ("elsewhere", ["host x1"], []),
}
"""For each pair: what follows the DLRM sample, and the edits."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two separate models: DLRM on a CPU, and a rank of a job with GPUs."""
    folder = tmp_path_factory.mktemp("recorded")
    for sample, name in (("dlrm_cpu/dlrm", "dlrm"), ("generated_gpu/rank0", "gpu")):
        source = SAMPLES / f"{sample}.kineto.json.gz"
        (folder / f"{name}.kineto.json.gz").write_bytes(source.read_bytes())
    facts = json.loads((SAMPLES / "dlrm_cpu" / "dlrm.measured.json").read_text())
    (folder / "dlrm.measured.json").write_text(json.dumps(facts))
    facts |= {"workload": "gpu", "execution_graph_step": None, "gpu": {}}
    facts |= {"peak_bytes": 1700, "bytes_before": 500, "workspace_bytes": 200}
    facts |= {"back_to_back_step_ns": 2_000_000, "back_to_back_ns": [2_100_000]}
    (folder / "gpu.measured.json").write_text(json.dumps(facts))
    pairs = {
        name: {
            "about": name,
            "before": "dlrm",
            "after": after,
            "edits": edits,
            "settings": settings,
        }
        for name, (after, edits, settings) in PAIRS.items()
    }
    (folder / "pairs.json").write_text(json.dumps(pairs))
    said = {"step_ns": 2_200_000, "peak_bytes": 1010}
    told = {"code": {"refused": "train.py:3: no"}, "graph": said}
    (folder / "gpu.estimated.json").write_text(json.dumps(told))
    return folder


def cells(text: str, name: str) -> list[str]:
    """The cells of a table's row, by the row's name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def page(recorded: Path) -> str:
    """The page of these recordings."""
    path = recorded / "page.md"
    words = [str(recorded), "--estimated", str(recorded), "--write", str(path)]
    assert evaluate.main(words) == 0
    return path.read_text()


def test_errors_are_relative_to_the_unprofiled_step(page: str, recorded: Path) -> None:
    """Own: the `statistics` median step, less profiler cost, over the measured step."""
    facts = json.loads((recorded / "dlrm.measured.json").read_text())
    with tracedb.open() as database:
        database.ingest([recorded / "dlrm.kineto.json.gz"])
        rows = database.scenarios([UNPROFILED], "statistics").iter_rows(named=True)
        times = [row["predicted_ns"] for row in rows if row["step"] != 8]
    error = median(times) / facts["back_to_back_step_ns"] - 1
    own = cells(page, "dlrm")
    assert own[2] == f"{facts['back_to_back_step_ns'] / 1e6:.3f}"
    assert own[4] == f"{100 * error:+.2f}"


def test_every_method_is_scored(page: str) -> None:
    """Each has two recordings; one has kernels."""
    for name in evaluate.WAYS:
        assert cells(page, name)[1] == "2"
    assert cells(page, "GPU active, shapes")[1] == "1"


def test_family_scores_equal_a_plain_loop(
    page: str, ingested: Ingested, recorded: Path
) -> None:
    """GMAE over a family's problems (all kernels of an op), from shapes alone."""
    query = """
    SELECT family, coalesce(op_id, -gpu_op_id), end_ns - start_ns, uncalibrated_ns
    FROM prediction.kernel_time INNER JOIN staging.gpu_op USING (gpu_op_id)
    """
    problems: dict[tuple[str, int], list[float]] = {}
    with tracedb.open(ingested(recorded / "gpu.kineto.json.gz"), read_only=True) as db:
        for family, problem, measured, predicted in db.connection.sql(
            query.replace("op_id, -gpu_op_id", "kernel_time.op_id, -gpu_op_id")
        ).fetchall():
            sums = problems.setdefault((family, problem), [0, 0])
            sums[0] += measured
            sums[1] += predicted
    errors = [
        abs(predicted / measured - 1)
        for (family, _), (measured, predicted) in problems.items()
        if family == "gemm"
    ]
    row = cells(page, "gemm")
    assert row[1] == f"{len(errors):,}"
    assert float(row[3]) == pytest.approx(100 * scores(errors)[0], abs=0.02)


def test_pairs_are_compared_with_the_real_change(page: str) -> None:
    """After over before, both unprofiled; edits that match nothing are reported."""
    row = cells(page, "loop")
    assert row[3] == "+0.00"
    # The profiler's cost is not doubled with the rest.
    assert 90 < float(row[4]) <= 100 * (FACTOR - 1)
    assert float(row[5]) == pytest.approx(float(row[4]), abs=0.01)
    refused = cells(page, "kernels")
    assert refused[4:6] == ["", ""]
    assert "- kernels: " in page
    assert "no GPU work" in page
    assert "| missing |" not in page
    assert cells(page, "pairs without a prediction")[2] == "50.00"


def test_estimates_are_compared_with_measurements(page: str) -> None:
    """Measured memory is the peak less prior memory and cuBLAS workspaces."""
    section = page.partition("## Estimates")[2]
    assert cells(section, "gpu")[1:] == ["2.000", "", "+10.00", "0.0", "", "+1.00"]
    assert "- gpu, code: train.py:3: no" in section
    assert cells(page, "estimate: memory from graph, median")[1:] == [
        *("2.00", "1.00", "yes"),
    ]


def test_learning_from_others_needs_another_model(
    recorded: Path, tmp_path: Path
) -> None:
    """With one model only, the column is empty."""
    for file in recorded.glob("dlrm.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    ((found,),) = [list(evaluate.evaluate(recordings(tmp_path), tmp_path, None))]
    assert "shared" not in found.errors
    assert "own" in found.errors


def test_a_folder_without_recordings_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2."""
    assert evaluate.main([str(tmp_path)]) == 2
    assert "no recording; record.py makes them" in capsys.readouterr().err
