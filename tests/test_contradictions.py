"""Files that contradict themselves: numbers that recur, other clocks, ranks twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb
from tracedb.summary.words import doubts as doubts_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Event = dict[str, Any]

STEPS, OPS = 3, 4


def program() -> Iterator[Event]:
    """Steps of ops that each launch a kernel, and wait for it in the end."""
    for step in range(STEPS):
        begin = 10_000 * step
        yield event("user_annotation", f"ProfilerStep#{step}", begin, 9000)
        for op in range(OPS):
            at, number = begin + 100 + 2000 * op, step * OPS + op + 1
            yield event("cpu_op", f"aten::op{op}", at, 1500)
            for call in ("cudaLaunchKernel", "cuLaunchKernel"):
                inner = call == "cuLaunchKernel"
                length = 40 if inner else 60
                yield event("cuda_runtime", call, at + 100 + 10 * inner, length, number)
            kernel = event("kernel", f"k{step}.{op}", at + 200, 1600, number)
            kernel |= {"pid": 0, "tid": 7}
            kernel["args"] |= {"stream": 7, "device": 0}
            yield kernel
        yield event(
            "cuda_runtime", "cudaDeviceSynchronize", begin + 8100, 100, 900 + step
        )


def event(cat: str, name: str, ts: int, dur: int, number: int | None = None) -> Event:
    """A complete event of the only thread."""
    args = {} if number is None else {"args": {"correlation": number}}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts} | {
        "dur": dur,
        **args,
    }


def recurring(event: Event) -> Event:
    """Each step counts from 1 again."""
    number = event.get("args", {}).get("correlation", 900)
    if number >= 900:
        return event
    return event | {"args": event["args"] | {"correlation": (number - 1) % OPS + 1}}


def waits_too(event: Event) -> Event:
    """The waits of all steps have one number."""
    if "Synchronize" not in event["name"]:
        return event
    return event | {"args": {"correlation": 900}}


def early(event: Event) -> Event:
    """The GPU's clock is half a second late."""
    return behind(event, 500_000)


def late(event: Event) -> Event:
    """The GPU's clock is half a second early."""
    return behind(event, -500_000)


def late_for_streams(event: Event) -> Event:
    """Waits are for the only stream."""
    name = event["name"].replace("DeviceSync", "StreamSync")
    return late(event) | {"name": name}


def late_for_a_stream(event: Event) -> Event:
    """There is only one wait, which may be for a stream that is not recorded."""
    event = late_for_streams(event)
    is_dropped = "Sync" in event["name"] and event["ts"] < 20_000
    return event | {"name": "cudaGetDevice"} if is_dropped else event


def stepping(event: Event) -> Event:
    """The host's clock is set forward by 5 ms during the last step."""
    return behind(event, 5_000) if event["name"] in ("k2.2", "k2.3") else event


def identified(event: Event) -> Event:
    """Ops have ids, and launches those of their ops."""
    args = dict(event.get("args", {}))
    if event["cat"] == "cpu_op":
        args["External id"] = 1 + event["ts"] // 2000
    elif args.get("correlation", 900) < 900:
        args["External id"] = 1 + (args["correlation"] - 1) // OPS * 5
        args["External id"] += (args["correlation"] - 1) % OPS
    return event | {"args": args}


def moved_calls(event: Event, by: int = 1450) -> Event:
    """Calls and GPU work are later by a clock of their own [us]."""
    is_call = event["cat"] in ("kernel", "cuda_runtime")
    return identified(event) | {"ts": event["ts"] + by * is_call}


def drifting_calls(event: Event) -> Event:
    """They are in the first half of the recording, and not in the second."""
    return moved_calls(event, 1450 if event["ts"] < 15_000 else 0)


def timeless(event: Event) -> Event:
    """The ends of the kernels of step 1 were lost; others have quarters of a us."""
    if event["cat"] != "kernel":
        return event
    return event | {"dur": 0 if event["name"].startswith("k1.") else 1600.25}


def rounded(event: Event) -> Event:
    """The kernels of step 1 took less than a us, in which all times are."""
    event = timeless(event)
    return event | {"dur": int(event["dur"])}


def drifting(event: Event) -> Event:
    """The GPU's clock is half a millisecond early during the last step."""
    return behind(event, -500) if event["name"].startswith("k2.") else event


def behind(event: Event, by: int) -> Event:
    """A kernel starts earlier by the GPU's clock [us]."""
    return event | {"ts": event["ts"] - by * (event["cat"] == "kernel")}


def overrunning(event: Event, *names: str) -> Event:
    """The ends of some kernels are half a second late."""
    late = event["name"] in (names or ("k1.1",))
    return event | {"dur": event["dur"] + 500_000 * late}


def many_overrunning(event: Event) -> Event:
    """Those of a quarter of the kernels: they run side by side."""
    return overrunning(event, "k0.0", "k1.1", "k2.0")


def graph_overrunning(event: Event) -> Event:
    """A CUDA graph launches the kernels of step 1, side by side."""
    if event["cat"] == "kernel" and event["name"].startswith("k1."):
        event = event | {"args": event["args"] | {"correlation": OPS + 1}}
        return event | {"dur": 6000 if event["name"] == "k1.0" else event["dur"]}
    return event


def collective_overrunning(event: Event) -> Event:
    """A collective runs beside what other streams have on its hardware queue."""
    if event["name"] == "k1.1":
        return overrunning(event) | {"name": "ncclDevKernel_AllReduce"}
    return event


def same(event: Event) -> Event:
    """Nothing is changed."""
    return event


OVERRUNNING = (
    overrunning,
    many_overrunning,
    graph_overrunning,
    collective_overrunning,
)


CHANGES = (
    same,
    recurring,
    waits_too,
    early,
    late,
    late_for_streams,
    late_for_a_stream,
    stepping,
    drifting,
    *OVERRUNNING,
    identified,
    moved_calls,
    drifting_calls,
    timeless,
    rounded,
)


def write(path: Path, change: Callable[[Event], Event], **header: object) -> Path:
    """A trace of the program, with each event changed."""
    events = [change(event) for event in program()]
    path.write_text(json.dumps({"traceEvents": events, **header}))
    return path


@pytest.fixture(scope="module")
def contradictory(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tracedb.Database]:
    """A database of all files, each a run of its own but for two of rank 0."""
    folder = tmp_path_factory.mktemp("contradictory")
    info = {"backend": "nccl", "world_size": 2}
    with tracedb.open(allow_files=True) as database:
        for change in CHANGES:
            database.ingest([write(folder / change.__name__, change)])
        for rank in (-1, 5):
            path = folder / f"{rank}"
            database.ingest([write(path, same, distributedInfo=info | {"rank": rank})])
        again = [*program(), *program()]
        (folder / "again").write_text(json.dumps({"traceEvents": again}))
        once = [identified(one) for one in program()]
        later = [one | {"ts": one["ts"] + 100_000} for one in once]
        (folder / "later").write_text(json.dumps({"traceEvents": once + later}))
        database.ingest([folder / "later"])
        ranges = [event("user_annotation", "range", 0, 5)] * 2 + [again[1]]
        ranges += [again[2], again[2] | {"cat": "cuda_driver"}]
        (folder / "ranges").write_text(json.dumps({"traceEvents": ranges}))
        database.ingest([folder / "again"])
        database.ingest([folder / "ranges"], one_step=True)
        zero = info | {"rank": 0}
        twice = [
            write(folder / f"{n}", same, distributedInfo=zero, n=n) for n in range(2)
        ]
        database.ingest(twice, run="twice")
        yield database


def of_file(name: str) -> str:
    """A condition on the trace of a file."""
    return f"parse_filename(path) = '{name}'"


@pytest.mark.parametrize("name", ["same", "recurring", "waits_too"])
def test_work_belongs_to_the_last_launch_of_its_number(
    contradictory: tracedb.Database, name: str
) -> None:
    """Not to the first one, of another step; nor to the driver's call within it."""
    found = rows(
        contradictory,
        "SELECT gpu_op.name, call.name, gpu_op.start_ns - call.start_ns, op.name "
        "FROM staging.gpu_op AS gpu_op INNER JOIN staging.trace USING (trace_id) "
        "LEFT JOIN staging.call AS call USING (call_id) "
        "LEFT JOIN staging.op AS op ON gpu_op.op_id = op.op_id "
        f"WHERE {of_file(name)} ORDER BY gpu_op.start_ns",
    )
    assert found == [
        (f"k{step}.{op}", "cudaLaunchKernel", 100_000, f"aten::op{op}")
        for step in range(STEPS)
        for op in range(OPS)
    ]


def issues(database: tracedb.Database, name: str) -> list[tuple[str, int]]:
    """What ingest counted in a file."""
    return rows(
        database,
        "SELECT kind, occurrences FROM staging.ingest_issue "
        f"INNER JOIN staging.trace USING (trace_id) WHERE {of_file(name)}",
    )


def test_what_is_not_used_is_counted(contradictory: tracedb.Database) -> None:
    """Waits of one number, and ranks that cannot be."""
    kind = "read as none: correlation of a wait that another one had before"
    assert issues(contradictory, "recurring") == []
    assert issues(contradictory, "waits_too") == [(kind, STEPS - 1)]
    assert issues(contradictory, "-1") == [("read as none: rank", 1)]
    assert issues(contradictory, "5") == [("read as none: world_size", 1)]
    assert rows(
        contradictory,
        "SELECT rank, world_size FROM staging.trace "
        f"WHERE {of_file('-1')} OR {of_file('5')} ORDER BY trace_id",
    ) == [(None, 2), (5, None)]


def test_events_that_a_file_has_twice_count_once(
    contradictory: tracedb.Database,
) -> None:
    """Only what numbers tell to be the same, not ranges or other categories."""
    kind = "left out: events that the file has twice"
    assert issues(contradictory, "again") == [(kind, len([*program()]))]
    assert issues(contradictory, "ranges") == []
    for relation in ("staging.gpu_op", "staging.op", "staging.call", "staging.step"):
        once, still_once = (
            rows(
                contradictory,
                f"SELECT count(*) FROM {relation} "
                f"INNER JOIN staging.trace USING (trace_id) WHERE {of_file(name)}",
            )
            for name in ("same", "again")
        )
        assert once == still_once
    assert rows(
        contradictory,
        "SELECT count(*) FROM staging.slice "
        f"INNER JOIN staging.trace USING (trace_id) WHERE {of_file('ranges')}",
    ) == [(5,)]


def doubts(database: tracedb.Database, name: str, aspect: str) -> list[tuple[Any, ...]]:
    """An aspect of how far a file's run can be trusted."""
    return rows(
        database,
        "SELECT occurrences, all_count, time_ns FROM question.trust WHERE run_id IN "
        f"(SELECT run_id FROM staging.trace WHERE {of_file(name)}) "
        f"AND aspect = '{aspect}'",
    )


def test_work_before_its_launch_is_doubted(contradictory: tracedb.Database) -> None:
    """By how much, and in how many cases; where one clock cannot have been off."""
    all_work = STEPS * OPS
    for name in ("same", "early", "late"):
        assert doubts(contradictory, name, "early_work") == []
    assert doubts(contradictory, "stepping", "gpu_clock") == []
    found = doubts(contradictory, "stepping", "early_work")
    assert found == [(2, all_work, 4_900_000)]
    row = {"aspect": "early_work", "occurrences": all_work, "all_count": all_work}
    ((mark, said),) = doubts_in_words([row | {"time_ns": 499_900_000}])
    assert mark == "!"
    assert said.startswith(
        "12 of 12 GPU ops start before their launch, by up to 500 ms"
    )


@pytest.mark.parametrize(
    ("name", "clock_ns", "latency_ns"),
    [
        ("early", -499_905_000, 5_000),
        ("late", 499_705_000, 395_000),
        ("late_for_streams", 499_705_000, 395_000),
    ],
)
def test_the_clock_of_a_gpu_is_corrected(
    contradictory: tracedb.Database, name: str, clock_ns: int, latency_ns: int
) -> None:
    """Work starts 5 us after its launch, or a wait returns 5 us after its work."""
    shift = "gpu_op.start_ns - call.start_ns"
    assert rows(
        contradictory,
        f"SELECT DISTINCT clock_ns, {shift} FROM staging.gpu_op AS gpu_op "
        "INNER JOIN staging.call AS call USING (call_id) "
        "INNER JOIN staging.trace ON call.trace_id = staging.trace.trace_id "
        f"WHERE {of_file(name)}",
    ) == [(clock_ns, latency_ns)]
    assert doubts(contradictory, name, "gpu_clock") == [(1, 1, abs(clock_ns))]
    row = {"aspect": "gpu_clock", "occurrences": 1, "all_count": 1}
    ((mark, said),) = doubts_in_words([row | {"time_ns": 499_905_000}])
    assert mark == "!"
    assert said == (
        "the clocks of 1 of 1 GPUs differ from the host's, by up to 500 ms: corrected, "
        "as far as launches and waits tell"
    )


def test_one_wait_for_a_stream_tells_nothing(contradictory: tracedb.Database) -> None:
    """It may be for another stream."""
    assert doubts(contradictory, "late_for_a_stream", "gpu_clock") == []


@pytest.mark.parametrize(
    ("name", "latest_us", "is_told"),
    [("identified", 100, False), ("moved_calls", 720, True)],
)
def test_launches_are_in_their_ops(
    contradictory: tracedb.Database, name: str, latest_us: int, *, is_told: bool
) -> None:
    """By their ids, which tell that calls and GPU work have another clock than ops."""
    assert rows(
        contradictory,
        "SELECT DISTINCT call.start_ns - op.start_ns, gpu_op.start_ns - call.start_ns, "
        "op.external_id = call.external_id FROM staging.gpu_op AS gpu_op "
        "INNER JOIN staging.call AS call USING (call_id) "
        "INNER JOIN staging.op AS op ON gpu_op.op_id = op.op_id "
        "INNER JOIN staging.trace ON call.trace_id = staging.trace.trace_id "
        f"WHERE {of_file(name)}",
    ) == [(latest_us * 1000, 100_000, True)]
    kind = "corrected: the clock of runtime calls and GPU work"
    assert issues(contradictory, name) == [(kind, 1)] * is_told


def test_clocks_that_drift_apart_are_told(contradictory: tracedb.Database) -> None:
    """No difference makes all launches lie in their ops."""
    kind = "kept: launches outside of the ops that their External ids name"
    assert issues(contradictory, "drifting_calls") == [(kind, 2 * OPS - 1)]


def test_ids_of_several_ops_tell_no_clock(contradictory: tracedb.Database) -> None:
    """Two recordings in one file have the same ids; launches stay with their ops."""
    kind = "read as none: correlation of a wait that another one had before"
    assert issues(contradictory, "later") == [(kind, STEPS)]
    assert rows(
        contradictory,
        "SELECT DISTINCT call.start_ns - op.start_ns FROM staging.call AS call "
        "INNER JOIN staging.op AS op ON call.op_id = op.op_id "
        "INNER JOIN staging.trace ON call.trace_id = staging.trace.trace_id "
        f"WHERE {of_file('later')} AND call.kind = 'launch' ORDER BY ALL",
    ) == [(100_000,)]


def test_work_without_a_duration_is_doubted(contradictory: tracedb.Database) -> None:
    """Unless short work takes none, as in whole microseconds."""
    assert doubts(contradictory, "rounded", "untimed") == []
    assert doubts(contradictory, "timeless", "untimed") == [(OPS, STEPS * OPS, None)]
    row = {"aspect": "untimed", "occurrences": OPS, "all_count": STEPS * OPS}
    ((mark, said),) = doubts_in_words([row])
    assert mark == "!"
    assert said.startswith("4 of 12 GPU ops are recorded to take no time")


@pytest.mark.parametrize("change", [early, late, overrunning])
def test_exports_have_the_times_that_answers_have(
    change: Callable[[Event], Event], tmp_path: Path
) -> None:
    """Nothing is left to correct in them."""
    times = "SELECT name, start_ns, end_ns FROM staging.gpu_op ORDER BY ALL"
    with tracedb.open() as own, tracedb.open() as again:
        own.ingest([write(tmp_path / "recorded.json", change)])
        own.export(tmp_path / "exported.json")
        again.ingest([tmp_path / "exported.json"])
        earlier = rows(own, "SELECT min(start_ns) FROM staging.op")[0][0]
        earlier -= rows(again, "SELECT min(start_ns) FROM staging.op")[0][0]
        moved = [
            (name, start + earlier, end + earlier)
            for name, start, end in rows(again, times)
        ]
        assert rows(own, times) == moved
        found = "SELECT DISTINCT clock_ns, overrun_ns FROM staging.gpu_op"
        assert rows(again, found) == [(0, 0)]


def test_waits_that_return_early_are_doubted(contradictory: tracedb.Database) -> None:
    """Work ends after a wait for it returns, if the GPU's clock is off for a while."""
    assert doubts(contradictory, "drifting", "gpu_clock") == []
    for name in ("same", "early", "late", "overrunning"):
        assert doubts(contradictory, name, "early_return") == []
    # The last kernel ends 300 us before the wait returns.
    found = doubts(contradictory, "drifting", "early_return")
    assert found == [(1, STEPS, 200_000)]


def late_ends(database: tracedb.Database, name: str) -> list[tuple[Any, ...]]:
    """Kernels of a file that take longer than those of `same`, and their ends."""
    return rows(
        database,
        "SELECT gpu_op.name, end_ns, overrun_ns FROM staging.gpu_op AS gpu_op "
        f"INNER JOIN staging.trace USING (trace_id) WHERE {of_file(name)} "
        "AND end_ns - start_ns <> 1_600_000 ORDER BY gpu_op_id",
    )


def test_an_end_after_later_work_of_the_stream_is_none(
    contradictory: tracedb.Database,
) -> None:
    """The next op's start is; the step takes what it did, and the doubt is told."""
    late = 500_000_000 - 400_000
    assert late_ends(contradictory, "overrunning") == [("k1.1", 14_300_000, late)]
    took, takes = (
        rows(
            contradictory,
            "SELECT step, method, measured_ns, predicted_ns "
            "FROM critical_path.step_time INNER JOIN staging.trace USING (trace_id) "
            f"WHERE {of_file(name)} ORDER BY ALL",
        )
        for name in ("same", "overrunning")
    )
    assert len(took) >= STEPS
    assert took == takes
    assert doubts(contradictory, "same", "overrun") == []
    all_work = STEPS * OPS
    assert doubts(contradictory, "overrunning", "overrun") == [(1, all_work, late)]
    assert doubts(contradictory, "overrunning", "overlapping") == [(0, all_work, 0)]
    row = {"aspect": "overrun", "occurrences": 1, "all_count": all_work}
    ((mark, said),) = doubts_in_words([row | {"time_ns": late}])
    assert mark == "!"
    assert said == (
        "1 of 12 GPU ops are recorded to end after later work of their stream, by "
        "500 ms in all: they are taken to end where the next one starts"
    )


@pytest.mark.parametrize("change", OVERRUNNING[1:])
def test_work_that_may_run_side_by_side_ends_as_recorded(
    contradictory: tracedb.Database, change: Callable[[Event], Event]
) -> None:
    """That of a CUDA graph, collectives on AMD's queues, and where it often does."""
    found = late_ends(contradictory, change.__name__)
    assert found
    assert {overrun for *_, overrun in found} == {0}
    assert doubts(contradictory, change.__name__, "overrun") == []


def test_a_rank_that_occurs_twice_is_no_other_rank(
    contradictory: tracedb.Database,
) -> None:
    """Two traces of rank 0 are not the two ranks of the job."""
    assert doubts(contradictory, "0", "repeated_rank") == [(1, 2, None)]
    assert doubts(contradictory, "0", "absent_rank") == [(1, 2, None)]
    assert doubts(contradictory, "same", "repeated_rank") == []
