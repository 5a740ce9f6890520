"""Generated traces: times follow from causes, types tile steps, text is exact."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from tracedb.synthetic import (
    OVERHEAD_TYPES,
    Annotation,
    Await,
    Collective,
    Copy,
    Delays,
    DeviceSync,
    EventRecord,
    EventSync,
    Form,
    Gap,
    GeneratedTrace,
    Launch,
    Notify,
    Op,
    Program,
    ProgramError,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    execute,
    random_program,
    step,
    training_job,
)
from tracedb.synthetic.execution import START_NS
from tracedb.synthetic.program import seeded
from tracedb.synthetic.truth import EdgeKind

if TYPE_CHECKING:
    from tracedb.synthetic import Edge, HostEvent, Kernel, Truth
    from tracedb.synthetic.program import Action, DelayName

SAMPLE = Path(__file__).parent.parent / "sample_traces" / "generated_gpu"
JITTERY = Delays(jitter=0.2)
CALLS = {"launch", "wait", "other"}


@cache
def job(seed: int, delays: Delays = JITTERY) -> list[GeneratedTrace]:
    """A random program, whose size follows from the seed, executed."""
    return execute(
        random_program(
            seed,
            threads=1 + seed % 3,
            streams=1 + seed // 3 % 4,
            steps=1 + seed % 2,
            ops=6 + seed % 30,
            ranks=1 + seed // 2 % 3,
        ),
        delays,
        seed,
    )


def truths(seeds: int) -> list[Truth]:
    """The truth of every rank of the first jobs."""
    return [trace.truth for seed in range(seeds) for trace in job(seed)]


def run(*threads: Thread, delays: Delays | None = None) -> Truth:
    """The truth of a program of one rank."""
    return execute(Program((Rank(threads),)), delays)[0].truth


def main_thread(*body: Action) -> Thread:
    """A thread of the given actions."""
    return Thread("main", body)


def by_target(truth: Truth) -> dict[int, list[Edge]]:
    """The edges that lead to each event."""
    edges = defaultdict(list)
    for edge in truth.edges:
        edges[edge.target].append(edge)
    return edges


def slices(text: str, *categories: str) -> list[dict[str, Any]]:
    """The events of some categories, with times as exact decimals."""
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    return [event for event in events if event.get("cat") in categories]


# By eye


def relative(event: HostEvent | Kernel) -> tuple[int, int]:
    """Begin and end of an event, relative to the program's begin."""
    return event.start_ns - START_NS, event.end_ns - START_NS


EYE = Delays(
    launch_latency_ns=20,
    launch_call_ns=40,
    queue_gap_ns=5,
    sync_return_ns=7,
    copy_return_ns=9,
    stream_wait_ns=11,
    thread_switch_ns=13,
    sync_call_ns=20,
    event_call_ns=3,
)


def test_times_of_a_small_program_by_hand() -> None:
    """Kernels queue, streams wait for events, waits end after what they wait for."""
    body = (
        Launch(7, 1000),  # call 0-40, kernel 60-1060
        Launch(7, 100),  # call 40-80, queued behind: 1065-1165
        EventRecord("e", 7),  # 80-83
        StreamWait(20, "e"),  # 83-86
        Launch(20, 50),  # call 86-126, waits for the event: 1176-1226
        EventSync("e"),  # 126 until 1165 + 7 = 1172
        StreamSync(7),  # 1172, nothing to wait for: 20
        DeviceSync(),  # 1192 until 1226 + 7 = 1233
        Copy(7, 30, "DtoH", 4, blocking=True),  # call 1233, copy 1293-1323, until 1332
    )
    truth = run(main_thread(*body), delays=EYE)
    assert [relative(event) for event in truth.host_events] == [
        (0, 40),
        (40, 80),
        (80, 83),
        (83, 86),
        (86, 126),
        (126, 1172),
        (1172, 1192),
        (1192, 1233),
        (1233, 1332),
    ]
    assert [relative(kernel) for kernel in truth.kernels] == [
        (60, 1060),
        (1065, 1165),
        (1176, 1226),
        (1293, 1323),
    ]
    binding = [edge.kind for edge in truth.edges if edge.binding]
    assert Counter(binding) == Counter(
        {"launch": 2, "stream": 1, "stream_wait": 1, "sync_event": 1}
        | {"sync_device": 1, "copy": 1}
    )


def test_types_of_a_small_step_by_hand() -> None:
    """T1 to T5, waits and idle time, for ops with two launches, one, and none."""
    inner = Op("inner", (Gap(2), Launch(7, 500), Gap(4)))
    first = Op("first", (Gap(8), inner, Gap(16), StreamSync(7), Gap(32), Launch(7, 1)))
    second = Op("second", (Gap(64),))
    third = Op("third", (Gap(2), Copy(7, 30, "HtoD", 4, blocking=True), Gap(3)))
    ops = first, Gap(256), second, Gap(512), third
    marked = step(3, Gap(128), *ops, DeviceSync(), Gap(1024))
    truth = run(main_thread(Gap(5), marked), delays=EYE)
    # The op starts at 133 and its first launch at 143, so that its kernel runs 203-703.
    # The stream wait lasts from 203 (143 + 40 + 4 + 16) to 710. The second launch is
    # 742-782, its kernel 802-803. The copy is called at 1616 and runs 1676-1706, so
    # that its call ends at 1715; the device wait after it has nothing to wait for.
    (totals,) = truth.overheads.values()
    assert {name: ns for name, ns in totals.items() if ns} == {
        "idle": 128 + 1024,
        "T1": 256 + 512,
        "T2": 8 + 2 + 2,
        "T3": 3,
        "T4": 40 + 40 + 40,
        "T5": 4 + 16 + 32 + 64,
        "wait_stream": 710 - 203,
        "wait_copy": 1715 - 1656,
        "wait_device": 20,
    }
    assert [(found.number, found.start_ns - START_NS) for found in truth.steps] == [
        (3, 5)
    ]


def test_handing_over_between_threads_by_hand() -> None:
    """A flag wakes a thread after a switch; main waits from its arrival on."""
    op = Op("op", (Gap(100),))
    wait = Gap(1), Notify("go"), Gap(2), Await("done", "join"), Gap(4)
    main = step(1, op, *wait, op, op)
    other = (Await("go", "fork"), Gap(30), op, Gap(50), Notify("done"))
    truth = run(main_thread(main), Thread("autograd", other), delays=EYE)
    # go at 101, other wakes at 114, its op is 144-244, done at 294, main wakes at 307.
    _, first, theirs, last, _ = truth.host_events
    assert relative(theirs) == (144, 244)
    assert relative(last) == (311, 411)
    found = [(e.kind, e.source, e.target, e.ready_ns - START_NS) for e in truth.edges]
    assert found == [
        ("fork", first.id, theirs.id, 114),
        ("join", theirs.id, last.id, 307),
    ]
    mine, others = truth.overheads.values()
    assert (mine["wait_thread"], mine["T1"], mine["idle"]) == (307 - 103, 1 + 2 + 4, 0)
    assert (others["idle"], others["wait_thread"]) == (511 - 100, 0)


def test_a_flag_raised_earlier_is_not_waited_for() -> None:
    """A thread that arrives after the switch continues; the edge is not binding."""
    main = Op("outer", (Op("inner", (Gap(10),)), Notify("go"), Gap(10)))
    other = Op("busy", (Gap(200),)), Await("go", "fork"), Op("theirs", (Gap(1),))
    truth = run(main_thread(main), Thread("autograd", other), delays=EYE)
    outer, theirs = (
        next(event for event in truth.host_events if event.name == name)
        for name in ("outer", "theirs")
    )
    assert relative(theirs) == (200, 201)
    (edge,) = truth.edges
    assert (edge.source, edge.target, edge.binding) == (outer.id, theirs.id, False)
    assert edge.ready_ns - START_NS == 10 + 13


def test_a_collective_waits_for_the_last_rank() -> None:
    """All ranks end the longest duration after the last start, which is binding."""
    late, early = Gap(500), Gap(0)
    threads = (
        main_thread(late, Collective(40, 900)),
        main_thread(early, Collective(40, 1000)),
    )
    program = Program(tuple(Rank((thread,)) for thread in threads))
    first, second = (trace.truth for trace in execute(program, EYE))
    assert relative(first.kernels[0]) == (560, 1560)
    assert relative(second.kernels[0]) == (60, 1560)
    edges = [
        e for truth in (first, second) for e in truth.edges if e.kind == "collective"
    ]
    assert [(e.source_rank, e.binding) for e in edges] == [(1, False), (0, True)]


def test_an_event_includes_what_its_stream_waits_for() -> None:
    """Waits through a stream without kernels still hold the last stream."""
    body = (
        Launch(7, 1000),  # kernel 60-1060
        EventRecord("a", 7),
        StreamWait(20, "a"),
        EventRecord("b", 20),
        StreamWait(24, "b"),
        Launch(24, 10),
        Launch(24, 10),
    )
    truth = run(main_thread(*body), delays=EYE)
    first, second, third = truth.kernels
    assert relative(second) == (1071, 1081)
    edges = {(e.kind, e.source, e.target) for e in truth.edges if e.kind != "launch"}
    assert edges == {
        ("stream_wait", first.id, second.id),
        ("stream", second.id, third.id),
    }


def test_a_thread_is_idle_before_its_first_flag() -> None:
    """Between hand-overs a thread waits; before and after them it is idle."""
    op = Op("op", (Gap(100),))
    flags: list[Action] = [
        Notify("a"),
        Await("b", "join"),
        Notify("c"),
        Await("d", "join"),
    ]
    other = (Await("a", "fork"), op, Notify("b"), Await("c", "fork"), op, Notify("d"))
    threads = main_thread(step(1, op, *flags, op)), Thread("autograd", other)
    _, theirs = run(*threads, delays=EYE).overheads.values()
    assert (theirs["idle"], theirs["wait_thread"]) == (113 + 113, 26)


def test_waits_are_cut_out_of_ops_but_not_of_data_loading() -> None:
    """Blocked time in an op is a wait for a thread; in data loading it is not."""
    fetch = Annotation(
        "enumerate(DataLoader)#next", (Gap(10), Await("a", "join"), Gap(20))
    )
    op = Op("op", (Gap(40), Await("b", "join"), Gap(80)))
    other = Gap(500), Notify("a"), Gap(500), Notify("b")
    threads = main_thread(step(1, fetch, op)), Thread("other", other)
    (totals,) = run(*threads, delays=EYE).overheads.values()
    # Flags are raised at 500 and 1000; main arrives at 10 and 573 (513 + 20 + 40).
    assert {name: ns for name, ns in totals.items() if ns} == {
        "wait_data": 513 + 20,
        "T5": 40 + 80,
        "wait_thread": 1013 - 573,
    }


# Laws, on random programs


def test_two_hundred_random_programs_end() -> None:
    """No program deadlocks, and no time stays open."""
    for truth in truths(200):
        assert all(event.end_ns >= event.start_ns > 0 for event in truth.host_events)
        assert all(kernel.end_ns > kernel.start_ns > 0 for kernel in truth.kernels)


def test_random_programs_have_every_kind_of_edge_and_time() -> None:
    """Otherwise the other laws would test nothing; each kind of edge binds at times."""
    found = {edge.kind for truth in truths(200) for edge in truth.edges if edge.binding}
    assert found == set(get_args(EdgeKind))
    spent: Counter[str] = Counter()
    for truth in truths(200):
        for totals in truth.overheads.values():
            spent.update(totals)
    assert min(spent[name] for name in OVERHEAD_TYPES) > 0


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Program and execution follow from their seeds, and differ for others."""

    def texts(seed: int, jitter_seed: int) -> list[str]:
        program = random_program(seed, threads=3, streams=3, ranks=2)
        return [trace.json_text() for trace in execute(program, JITTERY, jitter_seed)]

    assert texts(1, 1) == texts(1, 1)
    assert texts(1, 1) != texts(2, 1)
    assert texts(1, 1) != texts(1, 2)
    assert training_job(5) == training_job(5) != training_job(6)


def test_a_kernel_starts_when_its_last_cause_allows() -> None:
    """Its start is the latest `ready_ns` of its edges; those edges are binding."""
    for truth in truths(60):
        edges = by_target(truth)
        for kernel in truth.kernels:
            starts = [e for e in edges[kernel.id] if e.kind != "collective"]
            assert kernel.start_ns == max(edge.ready_ns for edge in starts)
            for edge in starts:
                assert edge.binding == (edge.ready_ns == kernel.start_ns)


def test_every_edge_bounds_the_time_of_its_target() -> None:
    """Nothing happens before an edge allows it, and binding edges are exact."""
    for truth in truths(60):
        for edge in truth.edges:
            target = truth.by_id[edge.target]
            if edge.kind in {"launch", "stream", "stream_wait", "fork", "join"}:
                assert edge.ready_ns <= target.start_ns
            elif edge.binding:
                assert edge.ready_ns == target.end_ns
            else:
                assert edge.ready_ns < target.end_ns


def test_times_agree_with_a_replay_of_calls() -> None:
    """A loop over the calls, given the ends of kernels, gives the same times."""
    delays = Delays()
    for seed in range(60):
        for truth in (trace.truth for trace in job(seed, delays)):
            known = {kernel.id: kernel.start_ns for kernel in truth.kernels}
            known |= {e.id: e.end_ns for e in truth.host_events if e.blocked_from_ns}
            assert Replay(truth, delays).times == known


class Replay:
    """Starts of kernels and ends of waits, from the calls in order."""

    def __init__(self, truth: Truth, delays: Delays) -> None:
        """Compute all times."""
        self.delays = delays
        self.kernels = {kernel.launch: kernel for kernel in truth.kernels}
        self.end: dict[int, int] = defaultdict(int)  # of the last kernel, by stream
        self.reported: dict[int, dict[int, int]] = defaultdict(dict)  # ends, by stream
        self.marked: dict[str, dict[int, int]] = {}  # ends, by event
        self.times: dict[int, int] = {}
        for event in sorted(truth.host_events, key=self.acts_ns):
            self.see(event)

    def acts_ns(self, call: HostEvent) -> int:
        """When a call does something: a launch at its end, all others at the start."""
        launches = call.id in self.kernels
        return call.start_ns + launches * self.delays.launch_call_ns

    def see(self, call: HostEvent) -> None:
        """Process one call."""
        match call.action:
            case EventRecord(event, stream):
                self.marked[event] = self.so_far(stream)
            case StreamWait(stream, event):
                for source, ns in self.marked[event].items():
                    if source != stream:
                        past = self.reported[stream].get(source, 0)
                        self.reported[stream][source] = max(ns, past)
            case StreamSync(stream):
                self.wait(call, self.so_far(stream))
            case EventSync(event):
                self.wait(call, self.marked[event])
            case DeviceSync():
                self.wait(call, self.end)
        if call.id in self.kernels:
            self.start(call, self.kernels[call.id])

    def so_far(self, stream: int) -> dict[int, int]:
        """What has to end before all work on a stream is over."""
        return self.reported[stream] | {stream: self.end[stream]}

    def wait(self, call: HostEvent, ends: dict[int, int]) -> None:
        """The end of a wait."""
        over = max(ends.values(), default=0) + self.delays.sync_return_ns
        self.times[call.id] = max(over, call.start_ns + self.delays.sync_call_ns)

    def start(self, call: HostEvent, kernel: Kernel) -> None:
        """The start of a kernel, and the end of a blocking copy's call."""
        awaited = max(self.reported.pop(kernel.stream, {}).values(), default=0)
        self.times[kernel.id] = max(
            call.start_ns + self.delays.launch_call_ns + self.delays.launch_latency_ns,
            self.end[kernel.stream] + self.delays.queue_gap_ns,
            awaited + self.delays.stream_wait_ns,
        )
        self.end[kernel.stream] = kernel.end_ns
        if isinstance(call.action, Copy) and call.action.blocking:
            over = kernel.end_ns + self.delays.copy_return_ns
            self.times[call.id] = max(over, call.start_ns + self.delays.launch_call_ns)


def test_collectives_end_together() -> None:
    """The n-th collective ends together on all ranks, and moves after all started."""
    found = 0
    for seed in range(60):
        ranks = [
            [kernel for kernel in trace.truth.kernels if kernel.kind == "collective"]
            for trace in job(seed)
        ]
        for works in zip(*ranks, strict=True):
            found += 1
            assert len({(kernel.name, kernel.end_ns) for kernel in works}) == 1
            last_ns = max(kernel.start_ns for kernel in works)
            assert works[0].end_ns - last_ns == works[0].action.kernel_ns
    assert found > 50


def test_events_are_recorded_before_they_are_waited_for() -> None:
    """Random programs leave no wait for an event without its record."""
    for truth in truths(200):
        for call in truth.host_events:
            if isinstance(call.action, StreamWait | EventSync):
                record = truth.by_id[call.recorded_by or 0]
                assert isinstance(record.action, EventRecord)
                assert record.action.event == call.action.event
                assert record.start_ns < call.start_ns


def test_kernels_of_a_stream_do_not_overlap() -> None:
    """Streams run in launch order."""
    for truth in truths(60):
        last: dict[int, int] = {}
        for kernel in truth.kernels:
            assert last.get(kernel.stream, 0) <= kernel.start_ns
            last[kernel.stream] = kernel.end_ns


def test_host_events_nest_and_calls_do_not_overlap() -> None:
    """Sorted by time, an event is within its parent and after its siblings."""
    for truth in truths(60):
        siblings = defaultdict(list)
        starts = [event.start_ns for event in truth.host_events]
        assert starts == sorted(starts)
        for event in truth.host_events:
            siblings[event.thread, event.parent].append(event)
            if event.parent is not None:
                parent = truth.by_id[event.parent]
                assert (
                    parent.start_ns <= event.start_ns <= event.end_ns <= parent.end_ns
                )
        for group in siblings.values():
            assert all(left.end_ns <= right.start_ns for left, right in pairwise(group))


@pytest.mark.parametrize("jitter", [0.0, {"queue_gap_ns": 0.5, "launch_call_ns": 0.1}])
def test_jitter_stays_within_bounds(
    jitter: float | dict[DelayName, float],
) -> None:
    """A delay without jitter is constant; otherwise it varies within its share."""
    drawn, random = Delays(queue_gap_ns=1000, jitter=jitter), seeded(1)
    gaps = [drawn.draw("queue_gap_ns", random) for _ in range(200)]
    share = drawn.share("queue_gap_ns")
    assert 1000 * (1 - share) <= min(gaps) <= max(gaps) <= 1000 * (1 + share)
    assert (min(gaps) < 600 and max(gaps) > 1400) == bool(share)
    assert drawn.draw("sync_return_ns", random) == drawn.sync_return_ns


# Parts of a step


def test_parts_tile_every_step_of_every_thread() -> None:
    """They follow each other from the begin of the step to its end."""
    for truth in truths(200):
        threads = {event.thread for event in truth.host_events}
        for found in truth.steps:
            for thread in threads:
                parts = [
                    part
                    for part in truth.intervals
                    if (part.step, part.thread) == (found.number, thread)
                ]
                ends = [found.start_ns, *(part.end_ns for part in parts)]
                assert [part.start_ns for part in parts] == ends[:-1]
                assert ends[-1] == found.end_ns
                total = sum(truth.overheads[found.number, thread].values())
                assert total == found.duration_ns


def test_types_agree_with_their_definition_at_sampled_times() -> None:
    """A time's type follows from the events around it."""
    random = seeded(0)
    for truth in truths(40):
        for part in random.sample(truth.intervals, min(60, len(truth.intervals))):
            ns = random.randrange(part.start_ns, part.end_ns)
            assert defined(truth, part.step, part.thread, ns) == part.type


WAITS = {StreamSync: "wait_stream", DeviceSync: "wait_device", EventSync: "wait_event"}


def defined(truth: Truth, number: int, thread: int, ns: int) -> str:
    """The type of a thread's time, by the definitions."""
    events = [event for event in truth.host_events if event.thread == thread]
    around = [event for event in events if event.start_ns <= ns < event.end_ns]
    for event in around:
        if event.kind == "wait":
            return WAITS[type(event.action)]
        if event.kind == "launch":
            blocked = event.blocked_from_ns is not None and ns >= event.blocked_from_ns
            return "wait_copy" if blocked else "T4"
    if any("DataLoader" in event.name for event in around):
        return "wait_data"
    ops = [event for event in around if event.kind == "op"]
    if ops:
        return in_op(events, ops[0], ns)
    (around_step,) = (found for found in truth.steps if found.number == number)
    active = [
        event
        for event in events
        if event.kind in {"op", "launch", "wait"}
        and event.start_ns < around_step.end_ns
        and event.end_ns > around_step.start_ns
    ]
    between = any(e.start_ns > ns for e in active) and any(
        e.end_ns <= ns for e in active
    )
    waits = [wait for wait in truth.thread_waits if wait.thread == thread]
    for wait in waits:
        if wait.start_ns <= ns < wait.end_ns and (wait.kind == "join" or between):
            return "wait_thread"
    return "T1" if between else "idle"


def in_op(events: list[HostEvent], op: HostEvent, ns: int) -> str:
    """The type of a time within a top-level op, outside calls."""
    launches = [
        event
        for event in events
        if event.kind == "launch" and op.start_ns <= event.start_ns < op.end_ns
    ]
    before = sum(launch.end_ns <= ns for launch in launches)
    if launches and before == 0:
        return "T2"
    return "T3" if launches and before == len(launches) else "T5"


# The file


def test_times_in_the_file_are_exact() -> None:
    """Begin and end of every event are in the file, to the nanosecond."""
    categories = ["cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"]
    categories += ["kernel", "gpu_memcpy", "gpu_memset"]
    for trace in (trace for seed in range(20) for trace in job(seed)):
        text = trace.json_text()
        base_ns = json.loads(text)["baseTimeNanoseconds"]
        expected: Counter[tuple[Any, ...]] = Counter(
            (e.name, e.thread, e.start_ns, e.end_ns) for e in trace.truth.host_events
        )
        expected.update(
            (k.name, k.stream, k.start_ns, k.end_ns) for k in trace.truth.kernels
        )
        found: Counter[tuple[Any, ...]] = Counter()
        for event in slices(text, *categories):
            start_ns = base_ns + int(event["ts"] * 1000)
            end_ns = start_ns + int(event["dur"] * 1000)
            found[event["name"], event["tid"], start_ns, end_ns] += 1
        assert found == expected


def test_correlations_are_unique_and_join_kernels_to_their_launch() -> None:
    """A correlation belongs to one call; a kernel has that of its launch."""
    for trace in (trace for seed in range(20) for trace in job(seed)):
        calls = slices(trace.json_text(), "cuda_runtime", "cuda_driver")
        numbers = [call["args"]["correlation"] for call in calls]
        assert len(set(numbers)) == len(numbers)
        call_of = dict(zip(numbers, calls, strict=True))
        kernels = slices(trace.json_text(), "kernel", "gpu_memcpy", "gpu_memset")
        truth = {(k.correlation, k.name) for k in trace.truth.kernels}
        assert {(k["args"]["correlation"], k["name"]) for k in kernels} == truth
        for kernel in kernels:
            call = call_of[kernel["args"]["correlation"]]
            assert kernel["args"].get("External id") == call["args"].get("External id")


def test_external_ids_name_the_innermost_op_of_a_call() -> None:
    """A call has the External id of the innermost op around it, or none."""
    for trace in (trace for seed in range(20) for trace in job(seed)):
        text = trace.json_text()
        ops = slices(text, "cpu_op")
        for call in slices(text, "cuda_runtime", "cuda_driver"):
            around = [
                op
                for op in ops
                if op["tid"] == call["tid"]
                and op["ts"] <= call["ts"]
                and call["ts"] + call["dur"] <= op["ts"] + op["dur"]
            ]
            around.sort(key=lambda op: op["dur"])
            expected = around[0]["args"]["External id"] if around else None
            assert call["args"].get("External id") == expected


def test_external_ids_as_in_files_of_2022() -> None:
    """In that format calls and kernels have their correlation, ops their own id."""
    for trace in job(5):
        text = trace.json_text(Form(external_id="correlation"))
        for event in slices(
            text, "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy"
        ):
            assert event["args"]["External id"] == event["args"]["correlation"]
        ids = [op["args"]["External id"] for op in slices(text, "cpu_op")]
        truth = [e.external_id for e in trace.truth.host_events if e.kind == "op"]
        assert ids == truth


def test_whole_microseconds_still_nest() -> None:
    """In the older format times are absolute integers, and still nest."""
    trace = job(5)[0]
    text = trace.json_text(Form(time_unit="us_integer"))
    assert "baseTimeNanoseconds" not in json.loads(text)
    found = slices(text, "cpu_op", "user_annotation")
    scopes = [e for e in trace.truth.host_events if e.kind not in CALLS]
    span_of = {}
    for event, truth in zip(found, scopes, strict=True):
        assert event["ts"] == truth.start_ns // 1000
        assert event["ts"] + event["dur"] == truth.end_ns // 1000
        span_of[truth.id] = event["ts"], event["ts"] + event["dur"]
        if truth.parent is not None:
            start, end = span_of[truth.parent]
            assert start <= event["ts"] <= event["ts"] + event["dur"] <= end


def test_sync_events_name_what_is_waited_for() -> None:
    """Each wait has one, with the stream, and the record of the awaited event."""
    body = (
        Launch(7, 1000),
        EventRecord("other", 20),
        EventRecord("e", 7),
        StreamWait(20, "e"),
        EventSync("e"),
        StreamSync(20),
        DeviceSync(),
    )
    trace = execute(Program((Rank((main_thread(*body),)),)), EYE)[0]
    assert slices(trace.json_text(), "cuda_sync") == []
    events = slices(trace.json_text(Form(sync_events=True)), "cuda_sync")
    record = trace.truth.host_events[2].correlation
    waited = {
        "wait_on_stream": 7,
        "wait_on_cuda_event_record_corr_id": record,
        "wait_on_cuda_event_id": 2,
    }
    names = ["Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"]
    assert [event["name"] for event in events] == names
    assert [event["tid"] for event in events] == [20, -1, 20, -1]
    for event in events[:2]:
        assert waited.items() <= event["args"].items()
    calls = trace.truth.host_events[3:]
    numbers = [event["args"]["correlation"] for event in events]
    assert numbers == [call.correlation for call in calls]


def test_flows_start_at_launches_and_end_at_kernels() -> None:
    """An `ac2g` flow leads from the start of each launch to that of its kernel."""
    trace = job(7)[0]
    flows = slices(trace.json_text(), "ac2g")
    base_ns = trace.truth.base_ns
    starts = {e["id"]: base_ns + int(e["ts"] * 1000) for e in flows if e["ph"] == "s"}
    ends = {e["id"]: base_ns + int(e["ts"] * 1000) for e in flows if e["ph"] == "f"}
    launches = {launch.id: launch for launch in trace.truth.launches}
    assert trace.truth.kernels
    for kernel in trace.truth.kernels:
        assert starts[kernel.correlation] == launches[kernel.launch].start_ns
        assert ends[kernel.correlation] == kernel.start_ns


def test_compressed_files_are_reproducible(tmp_path: Path) -> None:
    """A name ending in `.gz` gives gzip without a time; others give plain text."""
    trace = job(3)[0]
    plain = trace.write(tmp_path / "trace.json").read_bytes()
    first = trace.write(tmp_path / "a.json.gz").read_bytes()
    assert plain.decode() == trace.json_text()
    assert gzip.decompress(first) == plain
    assert first[4:8] == bytes(4)
    assert trace.write(tmp_path / "b.json.gz").read_bytes() == first


# The training job


@cache
def dlrm() -> list[GeneratedTrace]:
    """Two ranks of the DLRM job."""
    return execute(training_job(1), Delays(jitter=0.15), 1)


def test_the_training_job_has_every_kind_of_wait() -> None:
    """Every step of main waits for data, threads, copies and ranks; autograd never."""
    waits = {"wait_data", "wait_thread", "wait_copy", "wait_stream"}
    for trace in dlrm():
        for (_, thread), totals in trace.truth.overheads.items():
            spent = {name for name, ns in totals.items() if name in waits and ns}
            assert spent == (waits if thread == trace.truth.pid else set())
    binding = [edge for trace in dlrm() for edge in trace.truth.edges if edge.binding]
    assert {"collective", "stream_wait", "stream", "launch"} <= {
        e.kind for e in binding
    }


def test_flows_join_forward_and_backward() -> None:
    """Flows lead from ops of main to autograd nodes, one per sequence number."""
    for trace in dlrm():
        text = trace.json_text()
        flows = slices(text, "fwdbwd")
        starts = [flow for flow in flows if flow["ph"] == "s"]
        ends = [flow for flow in flows if flow["ph"] == "f"]
        numbers = {op["args"].get("Sequence number") for op in slices(text, "cpu_op")}
        assert len(starts) == len(ends) == len(numbers - {None})
        main, autograd = trace.truth.threads
        assert {flow["tid"] for flow in starts} == {main}
        assert {flow["tid"] for flow in ends} == {autograd}
        nodes = {op["ts"]: op["name"] for op in slices(text, "cpu_op")}
        names = {nodes[flow["ts"]] for flow in ends}
        assert not any(name.startswith("autograd::engine") for name in names)


def test_collectives_have_their_message() -> None:
    """Kernel and op of a collective have the same name, size and group."""
    for trace in dlrm():
        text = trace.json_text()
        nccl = [k for k in slices(text, "kernel") if "nccl" in k["name"]]
        ops = {
            op["args"]["External id"]: op["args"]
            for op in slices(text, "cpu_op")
            if op["name"] == "record_param_comms"
        }
        assert len(nccl) == len(ops) == 4 * 3
        for kernel in nccl:
            args = kernel["args"]
            for name in ("Collective name", "In msg nelems", "Process Group Name"):
                assert args[name] == ops[args["External id"]][name]
        assert json.loads(text)["distributedInfo"]["rank"] == trace.truth.rank


def test_samples_are_the_generators_output() -> None:
    """The committed traces are reproducible, and small."""
    for trace in dlrm():
        path = SAMPLE / f"rank{trace.truth.rank}.kineto.json.gz"
        assert gzip.decompress(path.read_bytes()).decode() == trace.json_text()
        assert path.stat().st_size < 200_000


# Examples, and programs that cannot be executed


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[Await("never", "join")]], "rank 0 thread 'main' in join on flag 'never'"),
        ([[Collective(40, 1)], []], "incomplete collectives"),
        ([[Collective(40, 1)], [Collective(40, 1, "broadcast")]], "in one order"),
        ([[Notify("a"), Notify("a")]], "raised twice"),
    ],
)
def test_deadlocks_are_errors(ranks: list[list[Action]], message: str) -> None:
    """The error names what is blocked, or which collective is not on all ranks."""
    threads = [main_thread(*body) for body in ranks]
    program = Program(tuple(Rank((thread,)) for thread in threads))
    with pytest.raises(ProgramError, match=message):
        execute(program)
