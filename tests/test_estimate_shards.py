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
from test_estimate_pipelines import without_host

import tracedb
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.job import Job
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.layout import STEPS, Layout, last_step
from tracedb.from_code.memory import peak
from tracedb.from_code.pricing import Device, KernelTime
from tracedb.from_code.program import launch
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


def in_turn(started: list[list[Any]], called: list[list[Any]]) -> list[list[Any]]:
    """Collectives as called: Gloo's two threads may start neighbours turned."""
    found = list(started)
    for n, call in enumerate(called[1:]):
        if found[n : n + 2] == [call, called[n]]:
            found[n : n + 2] = [called[n], call]
    return found


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
    assert called
    assert in_turn(measured[kind]["called"], called) == called
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


def test_edits_of_collectives_move_all_that_waits(tmp_path: Path) -> None:
    """Within 2 % of laying the step out again, also where nothing waited before."""
    recorded("sharded", tmp_path)
    found = tracedb.estimate(f"{tmp_path / 'train.py'}:step", gpu="H100", ranks=8)
    laid: Any = found._layout  # noqa: SLF001 (the other implementation)
    events = last_step(laid._timeline.events, len(laid.work))  # noqa: SLF001
    factors = [200 if "nccl" in event["name"] else 1 for event in events]
    assert max(factors) > min(factors)
    times = zip(laid.work, factors, strict=True)
    longer = [work.expected * factor for work, factor in times]
    expected = laid.course.last_step_ns(longer)
    assert expected > 1.5 * found.step_ns
    edit = tracedb.Edit(scenario="slow", target="gpu", name="nccl*", factor=200)
    with (
        found.database as database,
        database.simulate(["replay"], [edit], only_steps=True) as slow,
    ):
        predicted = slow.ask("scenario_effect").filter(step=STEPS - 1)
    assert predicted["predicted_ns"].item() == pytest.approx(expected, rel=0.02)


LAYERS = """
from torch import distributed, nn, randn, no_grad
from torch.distributed.fsdp import fully_shard

distributed.init_process_group("nccl")
model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range({count}))).cuda()
for layer in model:
    fully_shard(layer)
fully_shard(model)


def step():
    with no_grad():
        model(randn(32, 64, device="cuda"))
"""


@pytest.mark.parametrize(("gather", "compute"), [(70, 100), (100, 70), (100, 100)])
@pytest.mark.parametrize("count", [2, 7])
def test_shards_are_gathered_beside_the_layer_before(
    count: int, gather: int, compute: int, tmp_path: Path
) -> None:
    """Worked out by hand, where hosts and copies take no time.

    The first layer waits for its shards. All others are gathered while the layer before
    computes, one at a time: the buffer of one is copied out before the next is sent.
    """
    path = tmp_path / "train.py"
    path.write_text(LAYERS.format(count=count))
    source = Source(f"{path}:step", (), "NVIDIA H100", Job(8))
    recording = source.at(None)
    source.close()
    with tracedb.open() as empty:
        table = LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=False
        )
    nodes = launch(recording.root, table)
    took = {"record_param_comms": gather, "aten::mm": compute}
    times = [took.get(node.name, 0) for node in nodes for _ in node.work]
    work = [KernelTime(time, time, time) for time in times]
    device = Device("NVIDIA H100", "H100", 1, None)
    laid = Layout(recording.root, HostTimes.shipped(), work, device)
    forward = gather + (count - 1) * max(gather, compute) + compute
    assert without_host(laid.course).last_step_ns(times) == forward
