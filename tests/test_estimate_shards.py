"""Sharded models (PyTorch's own code) compared with two real ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sharded_job
from sharded_job import KINDS

import tracedb
from tracedb.from_code.job import Job
from tracedb.from_code.memory import peak
from tracedb.from_code.recordings import Recording, Source

AS_GLOO = {
    "allreduce": "all_reduce",
    "_allgather_base": "all_gather",
    "all_to_all": "all_to_all",
    # Gloo runs a reduce-scatter as an all-reduce.
    "_reduce_scatter_base": "all_reduce",
}
SCRIPT = """
import sharded_job
from torch import distributed

distributed.init_process_group("nccl")
step = sharded_job.step_of({kind!r}, "cuda")
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The collectives and peak memory of two real ranks."""
    file = tmp_path_factory.mktemp("job") / "measured.json"
    program = Path(sharded_job.__file__)
    ranks = [
        subprocess.Popen(  # noqa: S603 (a program of the tests)
            [sys.executable, str(program), str(rank), str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for rank in range(sharded_job.RANKS)
    ]
    told = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def recorded(kind: str, folder: Path, ranks: int = sharded_job.RANKS) -> Recording:
    """The same step of one rank, recorded on fake GPU tensors."""
    path = folder / "train.py"
    path.write_text(SCRIPT.format(kind=kind))
    source = Source(f"{path}:step", (), "NVIDIA H100", Job(ranks))
    try:
        found = source.at(None)
        assert found.nodes
        return found
    finally:
        source.close()


@pytest.mark.parametrize("kind", KINDS)
def test_collectives_and_memory_match_real_ranks(
    kind: str, measured: dict[str, Any], tmp_path: Path
) -> None:
    """Calls, sizes and order are equal; memory is within 2 % of one repeat.

    Peaks vary with when Gloo's threads free tensors. For an all-to-all that is one
    tensor, or 4 % of so small a model.
    """
    found = recorded(kind, tmp_path)
    called = [
        [AS_GLOO[node.message["Collective name"]], node.message["In msg nelems"]]
        for node in found.nodes
        if node.message and node.message["Collective name"] != "wait"
    ]
    assert called == measured[kind]["called"]
    assert called
    held = peak(found.fake.held, found.fake.names, block=1).peak_bytes
    nearest = min(measured[kind]["peaks"], key=lambda real: abs(held - real))
    assert held == pytest.approx(nearest, rel=0.04 if kind == "tables" else 0.02)


def test_shards_shrink_with_the_number_of_ranks(tmp_path: Path) -> None:
    """Eight ranks hold a quarter of what two ranks hold, each."""
    kept = ("parameter", "optimizer")
    held = {
        ranks: recorded("sharded", tmp_path, ranks).memory.by_kind for ranks in (2, 8)
    }
    for kind in kept:
        assert held[8][kind] == pytest.approx(held[2][kind] / 4, rel=0.02)


def test_shard_collectives_overlap_compute(tmp_path: Path) -> None:
    """Kernels run while shards are gathered and scattered."""
    recorded("sharded", tmp_path)
    found = tracedb.estimate(f"{tmp_path / 'train.py'}:step", gpu="H100", ranks=2)
    assert found.unmodelled == {}
    assert found.source == "one of 2 ranks: its own collectives"
    with found.database as database:
        beside = database.sql(
            "SELECT count(*) FROM staging.gpu_op AS one, staging.gpu_op AS other "
            "WHERE one.is_collective AND NOT other.is_collective "
            "AND one.start_ns < other.end_ns AND other.start_ns < one.end_ns"
        )
    assert beside.item() > 0
