"""Jobs whose ranks do different work: compared with real ranks, and by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pipeline_oracle
import pipelined_job
import pytest
from pipelined_job import MICROBATCHES, RANKS

import tracedb
from tracedb.cli.estimate import lines
from tracedb.errors import EstimateError
from tracedb.from_code.clock import Course, Entry
from tracedb.from_code.collectives import Message
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.job import Job
from tracedb.from_code.job_layout import JobLayout
from tracedb.from_code.job_recording import JobRecording
from tracedb.from_code.job_run import RankRecording, record_job
from tracedb.from_code.joint import Call, Solved, solve
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.layout import STEPS, last_step
from tracedb.from_code.pricing import Device, KernelTime
from tracedb.from_code.program import launch

TOGETHER = ("interleaved", "by_hand", "ring")
"""What needs no recording of its own is recorded as one step."""
SCRIPT = """
import pipelined_job
from torch import distributed

distributed.init_process_group("nccl")
steps = [pipelined_job.step_of(kind, "cuda") for kind in {kinds!r}]


def step(batch: int = pipelined_job.BATCH):
    for one in steps:
        one()
"""
LARGE = """
import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

distributed.init_process_group("nccl")
rank, world = distributed.get_rank(), distributed.get_world_size()
device = torch.device("cuda", rank)
net = nn.Linear(4096, 4096).to(device)
stage = PipelineStage(net, rank, world, device)
schedule = Schedule1F1B(stage, 6, loss_fn=nn.functional.mse_loss)


def step(batch: int = 12288):
    target = torch.randn(batch, 4096, device=device)
    given = [torch.randn(batch, 4096, device=device)] if rank == 0 else []
    schedule.step(*given, **({"target": target} if rank == world - 1 else {}))
"""
SENT = """
import torch
from torch import distributed

distributed.init_process_group("nccl")
rank = distributed.get_rank()
given, made = torch.ones(8).cuda(), torch.ones(8).cuda()


def step():
    {calls}
"""


def script(folder: Path, text: str) -> str:
    """Write a program to a file, and name its function."""
    path = folder / "train.py"
    path.write_text(text)
    return f"{path}:step"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the real ranks did."""
    folder = tmp_path_factory.mktemp("job")
    program = [sys.executable, pipelined_job.__file__, str(folder)]
    subprocess.run(program, check=True, timeout=300)  # noqa: S603 (a program of the tests)
    files = [Path(folder, f"{rank}.json") for rank in range(RANKS)]
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., JobRecording]:
    """The same steps on fake GPU tensors, by all ranks; each is recorded once."""
    known: dict[tuple[str, ...], JobRecording] = {}

    def record(*kinds: str) -> JobRecording:
        if kinds not in known:
            step = script(tmp_path_factory.mktemp("fake"), SCRIPT.format(kinds=kinds))
            known[kinds] = record_job(step, (), "NVIDIA H100", Job(RANKS), None)
        return known[kinds]

    return record


@pytest.fixture(scope="module")
def estimated(tmp_path_factory: pytest.TempPathFactory) -> tracedb.Estimate:
    """An estimate of 1F1B with large layers, with its database."""
    step = script(tmp_path_factory.mktemp("estimated"), LARGE)
    return tracedb.estimate(step, gpu="H100", ranks=RANKS)


@pytest.mark.parametrize("kinds", [("gpipe",), ("1f1b",), TOGETHER])
def test_ops_and_messages_match_real_ranks(
    kinds: tuple[str, ...],
    real: list[dict[str, Any]],
    recorded: Callable[..., JobRecording],
) -> None:
    """Each rank runs the same ops, and sends and receives the same, in order."""
    for rank in recorded(*kinds).ranks:
        assert isinstance(rank, RankRecording)
        done: list[list[Any]] = []
        for op in rank.fake.ops.values():
            if op.called is None and op.name.startswith("aten::") and not op.is_view:
                done.append([op.name])
            elif op.called is not None and op.called.is_between_two:
                sent, size = op.called, op.results[0].elements
                done.append([sent.kind, sent.sender, sent.receiver, size])
        assert done == [one for kind in kinds for one in real[rank.rank][kind]]
        assert any(len(one) > 1 for one in done)


def without_host(course: Course) -> Course:
    """The same course on a host, and between kernels, that takes no time."""

    def kept(entry: Entry) -> Entry:
        of_host = entry.kind in {"host", "call", "wait", "reach"}
        return entry._replace(first=0 if of_host else entry.first, second=0)

    return Course(tuple(tuple(map(kept, of)) for of in course.steps))


def solved(recording: JobRecording, time: Callable[[str, int], int]) -> Solved:
    """All ranks, where the work of an op takes a given time on a rank."""
    with tracedb.open() as empty:
        table = LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=False
        )
    durations = [
        [time(node.name, rank.rank) for node in nodes for _ in node.work]
        for rank in recording.ranks
        for nodes in [launch(rank.root, table)]
    ]
    work = [[KernelTime(one, one, one) for one in of] for of in durations]
    device = Device("NVIDIA H100", "H100", 1, None)
    laid = JobLayout(recording.ranks, HostTimes.shipped(), work, device)
    return solve(
        [without_host(Course.of(one.clock.log, STEPS)) for one in laid.plain],
        [one.calls for one in laid.plain],
        durations,
    )


ORACLES = {
    "gpipe": pipeline_oracle.gpipe,
    "1f1b": pipeline_oracle.one_forward_one_backward,
}


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [
        ([100, 100, 100], [200, 200, 200], 0),
        ([100, 100, 100], [200, 200, 200], 7),
        ([100, 113, 126], [210, 199, 188], 17),
        ([126, 113, 100], [188, 199, 210], 5),
        ([10, 10, 10], [20, 20, 20], 55),
    ],
)
def test_steps_take_as_long_as_worked_out_by_hand(
    kind: str,
    forward: list[int],
    backward: list[int],
    message: int,
    recorded: Callable[..., JobRecording],
) -> None:
    """To the nanosecond, for constant times of passes and messages."""
    times = {"aten::addmm": forward, "aten::threshold_backward": backward}
    times["record_param_comms"] = [message] * RANKS
    found = solved(
        recorded(kind), lambda name, rank: times.get(name, [0] * RANKS)[rank]
    )
    passes = {"F": forward, "B": backward}
    expected = pipeline_oracle.ends(
        [ORACLES[kind](rank, RANKS, MICROBATCHES) for rank in range(RANKS)],
        lambda way, rank: passes[way][rank], message, STEPS,
    )  # fmt: skip
    begin = found.ends[0] - expected[0]
    assert [end - begin for end in found.ends] == expected
    if message == 0:
        slots = MICROBATCHES + RANKS - 1
        assert found.last_step_ns == slots * (forward[0] + backward[0])
        busy = MICROBATCHES * (forward[0] + backward[0])
        bubbles = 1 - busy / found.last_step_ns
        assert bubbles == pytest.approx((RANKS - 1) / slots)


def test_an_estimate_has_the_stages(estimated: tracedb.Estimate) -> None:
    """Each rank has its busy time and its memory; the highest is that of the step."""
    assert [stage.rank for stage in estimated.stages] == [*range(RANKS)]
    peaks = [stage.memory.peak_bytes for stage in estimated.stages]
    assert estimated.memory.peak_bytes == max(peaks)
    for stage in estimated.stages:
        idle = 1 - stage.computing_ns / estimated.step_ns
        assert stage.idle_share == pytest.approx(idle)
        assert 0 < stage.idle_share < 1
    assert estimated.gpu_active_ns == max(s.computing_ns for s in estimated.stages)
    assert estimated.low_ns < estimated.step_ns < estimated.high_ns
    assert estimated.unsure == ()


def test_its_database_has_all_ranks(estimated: tracedb.Estimate) -> None:
    """Sends meet their receives, and only waiting for the other rank is left out."""
    database = estimated.database
    kernels = database.ask("collective_kernel")
    assert set(kernels["rank"]) == {*range(RANKS)}
    assert kernels["number"].null_count() == 0
    found = database.ask("collective")
    of_each = 2 * STEPS * MICROBATCHES * (RANKS - 1)
    for kind in ("send", "recv"):
        of_kind = found.filter(kind=kind)
        assert of_kind["kernel_count"].sum() == of_each
        assert of_kind["waiting_ns"].sum() > 0
    assert set(found["group_size"]) == {2}
    # The edges of messages: each ends only after both ends have started.
    (late,) = database.connection.execute(
        "SELECT count(*) FROM graph.edge"
        " INNER JOIN staging.gpu_op AS last ON source_node_id = last.gpu_op_id"
        " INNER JOIN staging.gpu_op AS met ON target_node_id = met.gpu_op_id"
        " WHERE edge.kind = 'collective' AND last.start_ns > met.end_ns"
    ).fetchall()[0]
    assert late == 0
    periods = database.relation("critical_path.step_time")
    found = periods.filter(step=STEPS - 1, method="replay")
    assert max(found["measured_ns"]) == estimated.step_ns
    assert set(found["predicted_ns"]) == set(found["measured_ns"])


def test_edits_of_one_rank_move_all(estimated: tracedb.Estimate) -> None:
    """The simulation in SQL gives the time of the joint clock, to the nanosecond."""
    laid: Any = estimated._layout  # noqa: SLF001 (the other implementation)
    slower = [[work.expected for work in works] for works in laid.work]
    events = last_step(laid.timelines[1].events, len(slower[1]))
    for number, event in enumerate(events):
        slower[1][number] *= 3 if "gemm" in event["name"] else 1
    courses = [Course.of(one.clock.log, STEPS).slowed(1.0) for one in laid.plain]
    expected = solve(courses, [one.calls for one in laid.plain], slower)
    assert expected.last_step_ns > estimated.step_ns
    edit = tracedb.Edit(
        scenario="slow", target="gpu", name="*gemm*", rank="1", factor=3
    )
    with estimated.database.simulate(["replay"], [edit], only_steps=True) as slow:
        found = slow.ask("scenario_effect").filter(step=STEPS - 1)
    assert set(found["predicted_ns"]) == {expected.last_step_ns}


def refused(folder: Path, calls: str, **more: Any) -> str:  # noqa: ANN401
    """The line that says why a step of two ranks cannot be estimated."""
    step = script(folder, SENT.format(calls=calls))
    with pytest.raises(EstimateError) as error:
        tracedb.estimate(step, gpu="H100", ranks=2, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_messages_that_nobody_receives_are_refused(tmp_path: Path) -> None:
    """The line names the call."""
    told = refused(tmp_path, "if rank == 0: distributed.isend(given, 1).wait()")
    assert told.endswith(
        "train.py:11: send from rank 0 to 1: the other rank never calls it"
    )


def test_a_batch_is_one_by_any_name(tmp_path: Path) -> None:
    """Two ranks that send to each other in a batch do not wait for each other."""
    calls = """ends = distributed.isend, distributed.irecv
    {name}([distributed.P2POp(end, given, 1 - rank) for end in ends])"""
    names = ("distributed", "distributed.distributed_c10d")
    steps = [
        tracedb.estimate(script(tmp_path, SENT.format(calls=text)), gpu="H100", ranks=2)
        for text in (calls.format(name=f"{name}.batch_isend_irecv") for name in names)
    ]
    assert steps[0].step_ns == steps[1].step_ns


def test_cuda_graphs_are_refused(tmp_path: Path) -> None:
    """A graph does not say which of its kernels wait for other ranks."""
    told = refused(tmp_path, "distributed.isend(given, 1)", cuda_graph=True)
    assert "CUDA graphs" in told


def test_an_error_of_another_rank_is_reported(tmp_path: Path) -> None:
    """With the line of that rank's code."""
    calls = "distributed.isend(given, 1) if rank == 0 else given[0].tolist()[3]"
    assert "train.py:11: " in refused(tmp_path, calls)


def test_the_command_lists_the_stages(estimated: tracedb.Estimate) -> None:
    """A line each."""
    text = [*lines(estimated)]
    assert "        3 ranks that do different work; each has been run" in text
    assert [one.partition(":")[0] for one in text if "at the peak" in one][:-1] == [
        f"        rank {rank}" for rank in range(RANKS)
    ]


def call(kind: str, sender: int, receiver: int, batch: int | None = None) -> Call:
    """A call of a message."""
    message = Message(kind, 2, "0", (0, 1), sender, receiver, batch)
    return Call(message, f"train.py:{sender}{receiver}")


def test_kernels_that_wait_for_one_another_are_refused() -> None:
    """Two ranks that send first, on the one stream that they share, never finish."""
    sent = Entry("communicate", 5)
    course = Course(((sent, sent, Entry("drain")),))
    calls = [
        [call("send", me, other), call("recv", other, me)]
        for me, other in ((0, 1), (1, 0))
    ]
    with pytest.raises(EstimateError, match=r"train\.py:01: .* wait for one another"):
        solve([course, course], calls, [[5, 5], [5, 5]])


def test_a_batch_cannot_wait_for_itself() -> None:
    """The same messages as batches run together."""
    sent = Entry("communicate", 5)
    course = Course(((sent, sent, Entry("drain")),))
    calls = [
        [call("send", me, other, 1), call("recv", other, me, 1)]
        for me, other in ((0, 1), (1, 0))
    ]
    found = solve([course, course], calls, [[5, 5], [5, 5]])
    assert len({start for of in found.spans for start, _ in of}) == 1
