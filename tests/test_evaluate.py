"""The evaluation of recordings: its tables have what the database says."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import evaluate
import pytest
from support import SAMPLES

import tracedb
from tracedb.scenario import UNPROFILED


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models: the DLRM sample, and a rank of the other one, each by itself."""
    folder = tmp_path_factory.mktemp("recorded")
    for sample in ("dlrm_cpu/dlrm", "ddp_gloo/rank0"):
        for kind in ("kineto.json.gz", "measured.json"):
            source = SAMPLES / f"{sample}.{kind}"
            (folder / f"{Path(sample).name}.{kind}").write_bytes(source.read_bytes())
    return folder


def cells(text: str, name: str) -> list[str]:
    """The cells of the table's row that begins with a name."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def page(recorded: Path) -> str:
    """The page of these."""
    path = recorded / "page.md"
    assert evaluate.main([str(recorded), "--write", str(path)]) == 0
    return path.read_text()


def test_errors_are_of_the_unprofiled_step(page: str, recorded: Path) -> None:
    """Own is the median step of statistics without the profiler's cost, over that."""
    facts = json.loads((recorded / "dlrm.measured.json").read_text())
    with tracedb.open() as database:
        database.ingest([recorded / "dlrm.kineto.json.gz"])
        rows = database.scenarios([UNPROFILED], "statistics").iter_rows(named=True)
        times = [row["predicted_ns"] for row in rows if row["step"] != 8]
    error = median(times) / facts["back_to_back_step_ns"] - 1
    own = cells(page, "dlrm")
    assert own[2] == f"{facts['back_to_back_step_ns'] / 1e6:.3f}"
    assert own[4] == f"{100 * error:+.2f}"


def test_every_way_is_scored(page: str) -> None:
    """Two recordings each; without a GPU none has kernels."""
    for name in evaluate.WAYS:
        assert cells(page, name)[1] == "2"
    assert "| GPU active |" not in page


def test_shared_needs_another_model(recorded: Path, tmp_path: Path) -> None:
    """One model alone has nothing to learn from: its column is empty."""
    for file in recorded.glob("dlrm.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    ((found,),) = [
        list(evaluate.evaluate(evaluate.recordings(tmp_path), tmp_path, None))
    ]
    assert "shared" not in found.errors
    assert "own" in found.errors


def test_nothing_recorded_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2."""
    assert evaluate.main([str(tmp_path)]) == 2
    assert "no recording; record.py makes them" in capsys.readouterr().err
