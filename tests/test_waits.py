"""What GPU work waited for, inferred from calls, order and times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, DatabaseOf, needs_corpus, rows

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Action,
    Copy,
    Delays,
    DeviceSync,
    EventRecord,
    Form,
    Gap,
    Launch,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    execute,
    step,
)

STEP = 100_000
USUAL = 30


class Recording:
    """Events of one host thread and one device, with their links."""

    def __init__(self) -> None:
        """Start with a step, and enough work to learn typical delays."""
        self.events: list[dict[str, Any]] = []
        self.add("user_annotation", "ProfilerStep#1", 1, 0, STEP)
        for number in range(USUAL):
            for stream in (7, 8):
                launched = 100 * number + 10 * stream
                self.work(stream, launched, begin=launched + 6, duration=2)

    def add(
        self, cat: str, name: str, tid: int, begin: float, duration: float, **args: int
    ) -> None:
        """Add an event with a duration in microseconds."""
        fields = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid}
        times = {"ts": begin, "dur": duration}
        self.events.append(fields | times | {"args": args})

    def work(
        self,
        stream: int,
        launched: float,
        begin: float,
        duration: float,
        **how: Any,  # noqa: ANN401 (of its kind)
    ) -> None:
        """Add a launch of a kind and duration, and its GPU work."""
        call, cat = how.get("call", "cudaLaunchKernel"), how.get("cat", "kernel")
        number = len(self.events)
        lasting = how.get("lasting", 4)
        self.add("cuda_runtime", call, 1, launched, lasting, correlation=number)
        link = {"correlation": number, "device": 0, "stream": stream}
        name = f"{cat} at {begin}"
        self.add(cat, name, stream, begin, duration, **link)

    def ingest(self, folder: Path, database: tracedb.Database) -> None:
        """Ingest the recording."""
        file = folder / "a.json"
        file.write_text(json.dumps({"traceEvents": self.events}))
        database.ingest([file])


@pytest.fixture
def recording() -> Recording:
    """A step without anything unusual."""
    return Recording()


WAITS = """
    SELECT work.name, awaited.name, reason, recorded FROM graph.stream_wait
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    INNER JOIN staging.gpu_op AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
"""
UNEXPLAINED = """
    SELECT DISTINCT unexplained_ns FROM critical_path.step_time WHERE method = 'replay'
"""


def test_typical_work_waits_for_nothing(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """The tests below change one thing each."""
    recording.ingest(tmp_path, database)
    assert rows(database, WAITS) == []
    assert rows(database, UNEXPLAINED) == [(0,)]


@pytest.mark.until("graph")
def test_later_launches_do_not_hide_a_wait(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """The last work of the awaited stream was launched too late to matter."""
    recording.work(7, 5_000, begin=5_006, duration=3_000)
    recording.work(8, 5_100, begin=8_030, duration=10)
    recording.work(7, 5_200, begin=8_008, duration=5)
    recording.ingest(tmp_path, database)
    assert rows(database, WAITS) == [
        ("kernel at 8030", "kernel at 5006", "stream_wait", False)
    ]


@pytest.mark.parametrize(
    ("begin", "awaited"),
    [
        (7_990, "kernel at 5006"),  # its last blocks are running
        (8_006.5, "kernel at 5006"),  # an event: it was over
        (6_500, None),  # in the middle of it
    ],
)
def test_a_full_device_delays_work(
    recording: Recording,
    tmp_path: Path,
    database: tracedb.Database,
    begin: float,
    awaited: str | None,
) -> None:
    """Work that begins when a kernel beside it is about to end had waited for it."""
    recording.work(7, 5_000, begin=5_006, duration=3_000)
    recording.work(8, 5_100, begin=begin, duration=10)
    recording.ingest(tmp_path, database)
    reason = "occupancy" if begin < 8_006 else "stream_wait"
    expected = [(f"kernel at {begin}", awaited, reason, False)] if awaited else []
    assert rows(database, WAITS) == expected
    ((unexplained,),) = rows(database, UNEXPLAINED)
    assert (unexplained > 1_000_000) == (awaited is None)
    edge = "SELECT count(*) FROM graph.edge WHERE kind = 'occupancy'"
    assert rows(database, edge) == [(int(reason == "occupancy" and bool(awaited)),)]


@pytest.mark.until("graph")
def test_an_earlier_event_gives_way(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """Of two other streams, the one that filled the device until then is the cause."""
    recording.work(7, 5_000, begin=5_006, duration=3_000)
    recording.work(9, 5_010, begin=5_016, duration=1_000)
    recording.work(8, 5_100, begin=7_990, duration=10)
    recording.ingest(tmp_path, database)
    assert rows(database, WAITS) == [
        ("kernel at 7990", "kernel at 5006", "occupancy", False)
    ]


def test_a_long_launch_delays_its_work(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """A module is loaded: the kernel begins when the call ends."""
    recording.work(7, 5_000, begin=9_002, duration=10, lasting=4_000)
    recording.ingest(tmp_path, database)
    query = "SELECT max(submit_ns) FROM graph.launch_submission"
    assert rows(database, query) == [(4_000_000,)]
    assert rows(database, UNEXPLAINED) == [(0,)]
    query = """
        SELECT max(time.end_ns) - max(work.end_ns)
        FROM simulation.gpu_work_time AS time
        INNER JOIN graph.stream_position AS work USING (gpu_op_id)
        INNER JOIN prediction.variant USING (variant_id)
        WHERE method = 'replay'
    """
    ((late,),) = rows(database, query)
    assert abs(late) < 10_000


def test_a_launch_that_outlasts_the_work_before(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """The stream is free soon, so its work waits for the call, not for the stream."""
    recording.work(7, 4_000, begin=4_006, duration=1_300)
    recording.work(7, 5_000, begin=6_992, duration=10, lasting=2_000)
    recording.ingest(tmp_path, database)
    query = "SELECT max(submit_ns) FROM graph.launch_submission"
    assert rows(database, query) == [(1_990_000,)]
    assert rows(database, UNEXPLAINED) == [(0,)]


@pytest.mark.until("graph")
def test_a_launch_that_stalls_after_its_work_began(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """The kernel had begun when the call stalled, so the stall does not delay it."""
    recording.work(7, 5_000, begin=5_006, duration=10, lasting=4_000)
    recording.ingest(tmp_path, database)
    query = "SELECT max(submit_ns) FROM graph.launch_submission"
    assert rows(database, query) == [(4_000,)]


@pytest.mark.until("graph")
@pytest.mark.parametrize(("after_end", "most"), [(True, 13_000), (False, 0)])
def test_work_follows_the_end_of_its_call_unless_the_trace_says_otherwise(
    after_end: bool,  # noqa: FBT001 (a case)
    most: int,
    recording: Recording,
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """Calls take 4 to 13 us; work starts 2 us after them or 20 us after their start."""
    for number in range(200):
        launched, lasting = 10_000 + 100 * number, 4 + number % 10
        begin = launched + (lasting + 2 if after_end else 20)
        recording.work(7, launched, begin, duration=10, lasting=lasting)
    recording.ingest(tmp_path, database)
    query = "SELECT max(submit_ns) FROM graph.launch_submission"
    assert rows(database, query) == [(most,)]


@pytest.mark.until("graph")
def test_a_stall_tells_nothing_about_other_launches(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """A third of the calls stall for 1 ms after their work has started."""
    recording.events = recording.events[:1]
    for number in range(60):
        launched, usual = 10_000 + 1_500 * number, 4 + number % 7
        stalls = number % 3 == 0
        begin = launched + (6 if stalls else usual + 2)
        lasting = 1_004 if stalls else usual
        recording.work(7, launched, begin, duration=10, lasting=lasting)
    recording.ingest(tmp_path, database)
    query = """
        SELECT max(submit_ns), min(submit_share) FILTER (end_ns - start_ns < 1_000_000)
        FROM graph.launch_submission INNER JOIN staging.call USING (call_id)
    """
    assert rows(database, query) == [(10_000, 1)]


def test_few_launches_do_not_change_the_rule(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """One of four stalls, which looks as if work followed the start of its call."""
    recording.events = recording.events[:1]
    recording.work(7, 0, begin=12, duration=3, lasting=1_414)
    for launched, lasting in ((1_451, 14), (1_591, 12), (1_627, 8)):
        recording.work(7, launched, launched + lasting + 1, duration=3, lasting=lasting)
    recording.ingest(tmp_path, database)
    query = "SELECT submit_ns FROM graph.launch_submission ORDER BY call_id"
    assert rows(database, query) == [(11_000,), (14_000,), (12_000,), (8_000,)]


@pytest.mark.parametrize("behind_ns", [0, 8_000, 20_000])
def test_the_clock_of_the_device_may_be_behind(
    behind_ns: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """Kernels that seem to start before their calls end, or start, are replayed so.

    The host waits for each kernel, so every delay of a launch delays the steps.
    """
    kernels = [
        action
        for number in range(25)
        for action in (Gap(30_000 + 200 * number), Launch(7, 40_000), StreamSync(7))
    ]
    program = Program((Rank((Thread("main", (step(1, *kernels),)),)),))
    written = [
        execute(program, Delays(launch_call_ns=call_ns))[0].json_text()
        for call_ns in (4_500, 2_250)
    ]
    (tmp_path / "a.json").write_text(_shifted(written[0], -behind_ns))
    database.ingest([tmp_path / "a.json"])
    edit = Edit(scenario="fast", target="host", type="T4", factor=0.5)
    query = """
        SELECT predicted_ns FROM critical_path.step_time
        WHERE method = 'replay' ORDER BY scenario
    """
    with database.simulate(["replay"], [edit]) as simulated:
        found = [time for (time,) in rows(simulated, query)]
    assert found == [_step_ns(text) for text in written]


def _shifted(text: str, by_ns: int) -> str:
    """A trace whose GPU work starts at other times."""
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["ts"] = round(event["ts"] + by_ns / 1_000, 3)
    return json.dumps(trace)


def _step_ns(text: str) -> int:
    """[ns] The duration of the step's mark."""
    marks = [
        event["dur"]
        for event in json.loads(text)["traceEvents"]
        if event.get("cat") == "user_annotation"
    ]
    return round(1_000 * float(marks[0]))


def test_a_launch_on_another_thread_may_not_have_returned(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """A wait is for what was submitted before it started."""
    recording.work(7, 5_000, begin=5_006, duration=10_000)
    recording.work(7, 5_005, begin=15_007, duration=1_000, lasting=30)
    recording.events[-2]["tid"] = 2
    recording.add("cuda_runtime", "cudaStreamSynchronize", 1, 5_010, 10_000)
    recording.ingest(tmp_path, database)
    query = """
        SELECT name, is_blocked
        FROM graph.host_wait INNER JOIN staging.gpu_op USING (gpu_op_id)
    """
    assert rows(database, query) == [("kernel at 5006", True)]
    assert rows(database, UNEXPLAINED) == [(0,)]


def test_a_copy_whose_call_takes_long_is_not_launched_last(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """Its call ends after a launch of another thread, whose work is behind it."""
    recording.work(7, 5_000, begin=5_050, duration=10, lasting=100)
    recording.work(7, 5_005, begin=5_061, duration=2_000)
    recording.events[-2]["tid"] = 2
    recording.add("cuda_runtime", "cudaStreamSynchronize", 1, 5_101, 1_962)
    recording.ingest(tmp_path, database)
    query = """
        SELECT name, is_blocked
        FROM graph.host_wait INNER JOIN staging.gpu_op USING (gpu_op_id)
    """
    assert rows(database, query) == [("kernel at 5061", True)]


def test_a_short_wait_is_not_for_work_that_ended_after_it(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Calls return after what they wait for, so it is for the other stream."""
    plain = Launch(7, 100_000), StreamSync(7), Gap(10_000)
    other = Launch(20, 1_000), Gap(20_000), Launch(7, 6_300), Gap(5_000)
    body = *plain, *plain, *plain, *other, StreamSync(20), Gap(50_000)
    program = Program((Rank((Thread("main", (step(1, *body),)),)),))
    (trace,) = execute(program)
    database.ingest([trace.write(tmp_path / "a.json", Form(sync_events=False))])
    query = """
        SELECT stream, wait.end_ns - gpu_op_end_ns
        FROM graph.host_wait AS wait INNER JOIN staging.gpu_op USING (gpu_op_id)
        ORDER BY wait.start_ns DESC
    """
    assert rows(database, query)[:2] == [(20, 28_800), (7, 4_000)]
    query = "SELECT error_share FROM critical_path.step_time WHERE method = 'replay'"
    assert rows(database, query) == [(0,)]


def test_a_launch_in_half_the_time_starts_its_work_sooner(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """Work follows the end of its call, so it starts 2 ms sooner."""
    recording.work(7, 5_000, begin=9_002, duration=10, lasting=4_000)
    recording.ingest(tmp_path, database)
    edit = Edit(scenario="fast", target="host", name="cudaLaunchKernel", factor=0.5)
    query = """
        SELECT max(submit_ns) FROM prediction.gpu_time
        INNER JOIN prediction.variant USING (variant_id)
        WHERE scenario = 'fast' AND method = 'replay'
    """
    with database.simulate(["replay"], [edit]) as simulated:
        assert simulated.sql(query).item() == 2_000_000


def test_a_copy_waits_for_staging(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """A call that stages memory and then copies delays the copy by the first part."""
    call = {"call": "cudaMemcpyAsync", "cat": "gpu_memcpy"}
    for number in range(20):
        launched = 10_000 + 100 * number
        recording.work(7, launched, launched + 6, duration=20, lasting=22, **call)
    recording.work(7, 20_000, begin=49_994, duration=4_000, lasting=33_990, **call)
    recording.ingest(tmp_path, database)
    query = "SELECT max(submit_ns) FROM graph.launch_submission"
    ((submitted,),) = rows(database, query)
    assert submitted == 29_992_000
    assert rows(database, UNEXPLAINED) == [(0,)]


@needs_corpus
@pytest.mark.parametrize(
    "name",
    [
        "hta/nccl_data.json.gz",
        "hta/trace_diff_control.json.gz",
        "kineto/resnet50_w4_2021b.json.gz",
    ],
)
def test_real_work_follows_the_end_of_its_launch(
    name: str, database_of: DatabaseOf
) -> None:
    """On idle streams, starts spread less around the end of the call than its start.

    So nearly all work is submitted at the end.
    """
    ((from_start, from_end, at_end_share),) = rows(
        database_of(CORPUS / name),
        """
        SELECT
            quantile_disc(work.start_ns - launch_start_ns, 0.75)
            - quantile_disc(work.start_ns - launch_start_ns, 0.25),
            quantile_disc(work.start_ns - launch_end_ns, 0.75)
            - quantile_disc(work.start_ns - launch_end_ns, 0.25),
            avg((submit_ns = launch_end_ns - launch_start_ns)::INTEGER)
        FROM graph.stream_position AS work
        INNER JOIN graph.launch_submission USING (call_id)
        WHERE
            work.kind = 'kernel'
            AND coalesce(previous_end_ns <= launch_start_ns, true)
        """,
    )
    assert from_end <= from_start
    assert at_end_share > 0.97


@needs_corpus
@pytest.mark.parametrize(
    ("name", "most_share", "most_error"),
    [
        ("hta/trace_diff_control.json.gz", 0.02, 0.02),
        ("hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 0.01, 0.01),
        ("kineto/resnet50_w4_2021b.json.gz", 0.01, 0.01),
        ("hta/nccl_data.json.gz", 0.01, 0.01),
    ],
)
def test_real_delays_have_causes(
    name: str, most_share: float, most_error: float, database_of: DatabaseOf
) -> None:
    """Delays without a cause are small, and so is replay's error."""
    database = database_of(CORPUS / name)
    ((share, error),) = rows(
        database,
        """
        SELECT max(unexplained_ns / measured_ns), max(abs(error_share))
        FROM critical_path.step_time WHERE method = 'replay' AND measured_ns > 0
        """,
    )
    assert share < most_share
    assert error < most_error


def test_a_launch_waits_for_a_full_queue(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Above about a thousand queued GPU ops, a launch returns when one of them ends."""
    recording = Recording()
    begin = 10_000.0
    for number in range(1_020):
        recording.work(7, 5_000 + 4 * number, begin=begin, duration=20, lasting=3)
        begin += 21
    # 1,019 GPU ops are queued behind the first, which ends at 10,020.
    recording.work(7, 9_100, begin=begin, duration=20, lasting=926)
    recording.work(8, 10_100, begin=10_106, duration=20)
    recording.ingest(tmp_path, database)
    query = """
        SELECT work.name, host_wait.end_ns - gpu_op_end_ns FROM graph.host_wait
        INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
        WHERE host_wait.target = 'queue' AND is_blocked
    """
    assert rows(database, query) == [("kernel at 10000.0", 6_000)]
    query = "SELECT type FROM overhead.timeline WHERE end_ns = 10_026_000"
    assert rows(database, query) == [("wait_queue",)]
    path = """
        SELECT kind FROM critical_path.interval
        WHERE scope = 'step' AND start_ns BETWEEN 9_990_000 AND 10_025_000
        ORDER BY start_ns
    """
    assert ("return",) in rows(database, path)


@pytest.mark.until("graph")
def test_the_first_work_of_a_stream_may_wait_for_an_event(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Without a recorded call, it follows work from before the trace."""
    for has_wait in (False, True):
        recording = Recording()
        recording.work(7, 5_000, begin=5_006, duration=3_000)
        if has_wait:
            recording.add("cuda_runtime", "cudaStreamWaitEvent", 1, 5_050, 2)
        recording.work(20, 5_100, begin=8_008, duration=10)
        folder = tmp_path / str(has_wait)
        folder.mkdir()
        recording.ingest(folder, database)
    awaited = ("kernel at 8008", "kernel at 5006", "stream_wait", False)
    assert rows(database, WAITS) == [awaited]
    query = "SELECT trace_id, cause FROM graph.gpu_cause WHERE cause IN ('none')"
    assert rows(database, query) == [(1, "none")]


@pytest.mark.until("graph")
def test_an_event_of_work_that_had_ended_delays_nothing(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """So what comes late on its stream followed work from before the trace."""
    recording = Recording()
    recording.work(7, 5_000, begin=5_006, duration=30)
    recording.add("cuda_runtime", "cudaStreamWaitEvent", 1, 5_050, 2)
    recording.work(20, 5_100, begin=8_008, duration=10)
    recording.ingest(tmp_path, database)
    query = "SELECT count(*) FROM graph.gpu_cause WHERE cause = 'none'"
    assert rows(database, query) == [(1,)]


@pytest.mark.until("graph")
def test_kernels_of_a_graph_do_not_fill_the_queue(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """They are launched at once: a later launch does not wait for them."""
    recording = Recording()
    recording.add("cuda_runtime", "cudaGraphLaunch", 1, 5_000, 8, correlation=99_999)
    link = {"correlation": 99_999, "device": 0, "stream": 7}
    for number in range(1_500):
        recording.add("kernel", "part", 7, 5_010 + 3 * number, 2, **link)
    for number in range(5):
        recording.work(7, 5_020 + 10 * number, 9_600 + 10 * number, duration=5)
    recording.ingest(tmp_path, database)
    query = "SELECT count(*) FROM graph.host_wait WHERE target = 'queue'"
    assert rows(database, query) == [(0,)]


def test_copies_that_always_wait_have_no_typical_delay(
    recording: Recording, tmp_path: Path, database: tracedb.Database
) -> None:
    """Work that always begins when another stream's ends does not define a delay."""
    copy = {"call": "cudaMemcpyAsync", "cat": "gpu_memcpy"}
    recording.work(20, 9_000, begin=9_006, duration=10, **copy)
    begins = [10_000 + 20_000 * number for number in range(4)]
    for begin in begins:
        recording.work(9, begin, begin + 6, duration=9_180)
        recording.work(20, begin + 100, begin + 9_204, duration=10, **copy)
    recording.ingest(tmp_path, database)
    assert sorted(rows(database, WAITS)) == [
        (
            f"gpu_memcpy at {begin + 9_204}",
            f"kernel at {begin + 6}",
            "stream_wait",
            False,
        )
        for begin in begins
    ]
    assert rows(database, UNEXPLAINED) == [(0,)]


def executed(
    folder: Path, database: tracedb.Database, delays: Delays, *body: Action
) -> None:
    """Ingest the trace of a step with recorded synchronization."""
    program = Program((Rank((Thread("main", (step(1, *body),)),)),))
    (trace,) = execute(program, delays)
    database.ingest([trace.write(folder / "a.json", Form(sync_events=True))])


def test_only_binding_waits_define_their_delay(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Most recorded stream waits are for work that ended long before."""
    body: list[Action] = []
    for number in range(12):
        bound = number % 4 == 0
        awaited = Launch(7, 100_000 if bound else 1_000)
        body += [awaited, EventRecord(f"{number}", 7), Gap(0 if bound else 300_000)]
        body += [StreamWait(20, f"{number}"), Launch(20, 1_000), Gap(400_000)]
    executed(tmp_path, database, Delays(), *body)
    query = """
        SELECT instance_count, median_ns FROM prediction.delay
        WHERE cause = 'stream_wait'
    """
    assert rows(database, query) == [(3, 1_700)]
    assert rows(database, "SELECT count(*) FROM graph.recorded_stream_wait") == [(12,)]


def test_calls_may_return_before_the_recorded_end(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """On AMD, how much earlier is learnt, and copies that block by name are waits."""
    delays = Delays(sync_return_ns=-8_000, copy_return_ns=-6_000)
    copy = Copy(7, 50_000, blocking=True, call="hipMemcpyWithStream")
    work = Launch(7, 100_000), DeviceSync(), Gap(5_000), copy, Gap(5_000)
    executed(tmp_path, database, delays, *work, *work, *work)
    query = "SELECT is_copy, median_ns, early_ns FROM graph.typical_return ORDER BY ALL"
    assert rows(database, query) == [(False, -8_000, 8_000), (True, -6_000, 6_000)]
    query = "SELECT type, count(*) FROM overhead.timeline GROUP BY ALL ORDER BY ALL"
    found = dict(rows(database, query))
    assert (found["wait_device"], found["wait_copy"]) == (3, 3)
    query = "SELECT error_share FROM critical_path.step_time WHERE method = 'replay'"
    assert rows(database, query) == [(0,)]


def test_a_device_wait_is_for_all_streams(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A synchronization waits for the last end on any stream, also after an edit."""
    short = Launch(20, 60_000, "short")
    executed(tmp_path, database, Delays(), Launch(7, 100_000), short, DeviceSync())
    edit = Edit(scenario="slow", target="gpu", name="short", factor=5)
    (row,) = database.scenarios([edit]).iter_rows(named=True)
    # Begin and duration of the second launch, its kernel, and the return.
    assert row["baseline_ns"] == 6_000 + 100_000 + 4_000
    assert row["predicted_ns"] == 4_500 + 6_000 + 300_000 + 4_000


@pytest.mark.parametrize(
    ("return_ns", "short", "taught"),
    [
        # The call ended before the work could have released it.
        (-8_000, (Launch(7, 3_500), Gap(0)), ("return", 0, -8_000)),
        # The work ended before the call, which still returned after it.
        (4_000, (Launch(7, 1_000), Gap(4_500)), ("call", 0, 1_800)),
    ],
)
def test_delays_of_calls_are_learnt_from_binding_waits(
    return_ns: int,
    short: tuple[Action, ...],
    taught: tuple[str, int, int],
    tmp_path: Path,
    database: tracedb.Database,
) -> None:
    """What one device synchronize does not show is known from stream synchronizes."""
    alone = Gap(60_000)
    plain = Launch(7, 100_000), StreamSync(7), alone, StreamSync(7), alone
    delays = Delays(sync_return_ns=return_ns)
    executed(tmp_path, database, delays, *plain, *plain, *plain, *short, DeviceSync())
    query = f"""
        SELECT cause, instance_count, median_ns FROM prediction.delay
        WHERE kind = 'device' AND cause = '{taught[0]}'
    """
    assert rows(database, query) == [taught]


def test_a_device_wait_is_for_one_device(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The device is not recorded: it is the one that explains the call's end."""
    other = Launch(20, 10_000, "other")
    body = step(1, other, Launch(7, 50_000), DeviceSync(), Gap(1_000_000))
    program = Program((Rank((Thread("main", (body,)),), {20: 1}),))
    (trace,) = execute(program, Delays())
    database.ingest([trace.write(tmp_path / "a.json", Form(sync_events=False))])
    edit = Edit(scenario="slow", target="gpu", name="other", factor=50)
    (row,) = database.scenarios([edit]).iter_rows(named=True)
    assert row["baseline_ns"] == 4_500 + 6_000 + 50_000 + 4_000 + 1_000_000
    assert row["predicted_ns"] == row["baseline_ns"]


def test_a_call_split_by_a_step_waits_once(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """It is in two spans, and only the last has the call's own time."""
    main = Thread("main", (step(1, Gap(30_000)), step(2, Gap(300_000))))
    work = Launch(7, 50_000), DeviceSync(), Gap(60_000), DeviceSync(), Gap(60_000)
    program = Program((Rank((main, Thread("beside", work))),))
    (trace,) = execute(program, Delays())
    database.ingest([trace.write(tmp_path / "a.json", Form(sync_events=True))])
    query = """
        SELECT count(*), sum(own_ns)::BIGINT, sum(unexplained_ns)::BIGINT,
            count(awaited_gpu_op_id)
        FROM prediction.host_own
        INNER JOIN overhead.timeline USING (thread_id, position)
        WHERE type = 'wait_device' GROUP BY call_id ORDER BY call_id
    """
    assert rows(database, query) == [(2, 1_800, 0, 1), (1, 1_800, 0, 1)]


def test_a_stream_wait_that_was_removed_holds_no_call(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A call that waits for a stream also waits for what the stream waited for."""
    held = EventRecord("done", 20), StreamWait(7, "done"), StreamSync(7)
    work = Launch(7, 1_000), Launch(20, 100_000), *held
    then = Launch(7, 1_000), Gap(200_000), StreamSync(7)
    executed(tmp_path, database, Delays(), *work, *then)
    edit = Edit(scenario="free", target="wait", type="stream")
    (row,) = database.scenarios([edit]).iter_rows(named=True)
    then_ns = 4_500 + 200_000 + 1_800
    assert row["baseline_ns"] == 4_500 + 6_000 + 100_000 + 4_000 + then_ns
    assert row["predicted_ns"] == 2 * 4_500 + 2 * 700 + 1_800 + then_ns
