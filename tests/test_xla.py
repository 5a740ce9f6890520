"""Recordings of JAX and TensorFlow answer as the Kineto trace of the same program."""

from __future__ import annotations

import gzip
import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb
from tracedb.errors import IngestError
from tracedb.ingest.foreign import HEAD_BYTES, reader_of, xla
from tracedb.protobuf import message, number, text
from tracedb.synthetic import Delays, execute, random_program

if TYPE_CHECKING:
    from pathlib import Path

Event = dict[str, Any]
Lines = dict[tuple[int, str], list[Event]]

COPIES = {"HtoD": "MemcpyH2D", "DtoH": "MemcpyD2H", "DtoD": "MemcpyD2D"}
HOST, CALLS = "/host:CPU", "/host:CUPTI"
LAUNCH = "cuLaunchKernel"
BEGAN_NS = 1_700_000_000_000_000_000


class Names(dict[str, int]):
    """Interned names of a plane, numbered from 1 on."""

    def __missing__(self, name: str) -> int:
        """Number a new name."""
        self[name] = len(self) + 1
        return self[name]


def plane(name: str, lines: Lines, **facts: str | int) -> bytes:
    """A plane; events have `name`, `ts`, `dur` [ns], and `args`."""
    events, stats = Names(), Names()

    def stat(key: str, value: str | int) -> bytes:
        if isinstance(value, int):
            content = number(4, value)
        elif key == "hlo_module":  # names that recur are interned
            content = number(7, stats[value])
        else:
            content = text(5, value)
        return number(1, stats[key]) + content

    def event(one: Event) -> bytes:
        parts = [number(1, events[one["name"]]), number(2, one["ts"] * 1_000)]
        parts += [number(3, one["dur"] * 1_000)] if one.get("dur") else []
        found = one.get("args", {}).items()
        return message(4, parts + [message(4, stat(*pair)) for pair in found])

    body = [
        message(3, [number(1, tid), text(2, line), *(event(one) for one in found)])
        for (tid, line), found in lines.items()
    ]
    body += [message(6, stat(key, value)) for key, value in facts.items()]
    entries = [interned(4, events), interned(5, stats)]
    return message(1, [text(2, name), *body, *entries])


def interned(field: int, names: Names) -> bytes:
    """The entries of a plane's map of names."""
    return b"".join(
        message(field, [number(1, n), message(2, [number(1, n), text(2, name)])])
        for name, n in names.items()
    )


def environment() -> bytes:
    """The plane that tells when the recording began."""
    return plane("Task Environment", {}, profile_start_time=BEGAN_NS)


def spoken(event: Event) -> tuple[str, tuple[int, str], Event] | None:
    """The plane, the line and the event as XLA's profiler has it."""
    args, cat = event.get("args", {}), event.get("cat")
    span = {"name": event["name"], "ts": event["ts"], "dur": event["dur"]}
    correlation = {"correlation_id": args.get("correlation")}
    if cat in ("kernel", "gpu_memcpy", "gpu_memset"):
        given = {"hlo_module": "jit_step", **correlation}
        if cat == "gpu_memcpy":
            way = next(way for way in COPIES if way in span["name"])
            span["name"] = COPIES[way]
            given["memcpy_details"] = f"kind_src:pageable size:{args['bytes']} dest:0"
        elif cat == "gpu_memset":
            given["memset_details"] = f"kind:device size:{args['bytes']} async:1"
        else:
            given["kernel_details"] = "regs:32 grid:8,2,1 block:128,1,1 occ_pct:50"
        line = (args["stream"] + 5_000, f"Stream #{args['stream']}(Compute)")
        return f"/device:GPU:{args['device']}", line, span | {"args": given}
    line = (event["tid"], "python")
    if cat in ("cuda_runtime", "cuda_driver"):
        # XLA's profiler gives a launch the name of its kernel.
        span["name"] = args.get("kernel", span["name"])
        return CALLS, line, span | {"args": correlation}
    if cat == "user_annotation" and span["name"].startswith("ProfilerStep#"):
        step = int(span["name"].removeprefix("ProfilerStep#"))
        return HOST, line, span | {"name": "train", "args": {"step_num": step}}
    return (HOST, line, span) if cat == "cpu_op" else None


def program(seed: int) -> list[Event]:
    """The spans of a generated program, in nanoseconds, without what XLA lacks."""
    made = random_program(seed, threads=1, streams=1 + seed % 3, ops=14)
    (trace,) = execute(made, Delays(jitter=0.2), seed)
    events = json.loads(trace.json_text(), parse_float=Decimal)["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X" and spoken(event)]
    began = min(event["ts"] for event in spans)
    kernels = {
        event["args"]["correlation"]: event["name"]
        for event in spans
        if event["cat"] == "kernel"
    }
    for event in spans:
        if event["name"].startswith("cudaLaunchKernel"):
            kernel = kernels[event["args"]["correlation"]]
            event |= {"name": LAUNCH, "cat": "cuda_driver"}
            event["args"]["kernel"] = kernel
    kept = ("correlation", "device", "stream", "bytes", "kernel")
    return [
        event
        | {"ts": int((event["ts"] - began) * 1_000), "dur": int(event["dur"] * 1_000)}
        | {"args": {k: v for k, v in event["args"].items() if k in kept}}
        for event in spans
    ]


def as_kineto(events: list[Event]) -> str:
    """A program's spans as PyTorch's profiler has them."""
    times = ({key: event[key] / 1_000 for key in ("ts", "dur")} for event in events)
    found = [event | time for event, time in zip(events, times, strict=True)]
    return json.dumps({"schemaVersion": 1, "traceEvents": found})


def space(events: list[Event]) -> bytes:
    """A program's spans as an XSpace."""
    found: dict[str, Lines] = {}
    for event in events:
        where, line, span = spoken(event) or pytest.fail("not a span")
        found.setdefault(where, {}).setdefault(line, []).append(span)
    return b"".join([*(plane(*one) for one in found.items()), environment()])


def as_json(events: list[Event]) -> str:
    """A program's spans as TensorBoard's trace viewer gets them: all arguments text."""
    numbers: dict[str, int] = {}
    names: dict[tuple[int, int | None], Event] = {}
    spans = []
    for event in events:
        where, (tid, line), span = spoken(event) or pytest.fail("not a span")
        pid = numbers.setdefault(HOST if where == CALLS else where, len(numbers) + 1)
        shown = HOST if where == CALLS else where
        names[pid, None] = _named("process_name", pid, None, shown)
        names[pid, tid] = _named("thread_name", pid, tid, line)
        args = {key: str(value) for key, value in span.get("args", {}).items()}
        times = {key: span[key] / 1_000 for key in ("ts", "dur")}
        spans.append(span | {"ph": "X", "pid": pid, "tid": tid, "args": args} | times)
    found = [*names.values(), *spans, {}]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": found})


def _named(kind: str, pid: int, tid: int | None, name: str) -> Event:
    whole = {} if tid is None else {"tid": tid}
    return {"ph": "M", "pid": pid, **whole, "name": kind, "args": {"name": name}}


ANSWERS = {
    "calls": """
        SELECT name, kind, target, start_ns, end_ns FROM staging.call ORDER BY ALL
    """,
    "work": """
        SELECT kind, device, stream, start_ns, end_ns, moved_bytes, correlation
        FROM staging.gpu_op ORDER BY ALL
    """,
    "launches": """
        SELECT call.name, call.start_ns, gpu.start_ns FROM staging.gpu_op AS gpu
        INNER JOIN staging.call AS call USING (call_id) ORDER BY ALL
    """,
    "ops": "SELECT name, start_ns, end_ns, is_top_level FROM staging.op ORDER BY ALL",
    "steps": """
        SELECT step, measured_ns, predicted_ns FROM critical_path.step_time
        WHERE method = 'replay' ORDER BY ALL
    """,
    "path": """
        SELECT step_id IS NULL, kind, sum(end_ns - start_ns)
        FROM critical_path.interval GROUP BY ALL ORDER BY ALL
    """,
    "overheads": """
        SELECT type, count(*), sum(end_ns - start_ns)
        FROM overhead.interval GROUP BY ALL ORDER BY ALL
    """,
}


def answers(path: Path) -> dict[str, list[Any]]:
    """All answers about a recording."""
    with tracedb.open() as database:
        database.ingest([path])
        return {name: rows(database, query) for name, query in ANSWERS.items()}


@pytest.mark.parametrize("seed", range(2))
def test_a_program_has_the_same_answers(seed: int, tmp_path: Path) -> None:
    """Whichever profiler recorded it, and in whichever file."""
    events = program(seed)
    assert {event["cat"] for event in events} >= {"cpu_op", "kernel", "cuda_runtime"}
    kineto = tmp_path / "kineto.json"
    kineto.write_text(as_kineto(events))
    recorded = tmp_path / "host.xplane.pb"
    recorded.write_bytes(space(events))
    viewed = tmp_path / "host.trace.json.gz"
    viewed.write_bytes(gzip.compress(as_json(events).encode()))
    wanted = answers(kineto)
    assert all(wanted.values())
    assert answers(recorded) == wanted
    assert answers(viewed) == wanted


def test_kernels_of_a_stream_may_overlap(tmp_path: Path) -> None:
    """They stay kernels in both files; only ops of a TPU enclose each other."""
    events = program(1)
    longest = max((e for e in events if e["cat"] == "kernel"), key=lambda e: e["dur"])
    within = {"ts": longest["ts"] + 100, "dur": longest["dur"] - 200}
    events.append(longest | within)
    recorded = tmp_path / "host.xplane.pb"
    recorded.write_bytes(space(events))
    viewed = tmp_path / "host.trace.json"
    viewed.write_text(as_json(events))
    wanted = sum(event["cat"] == "kernel" for event in events)
    for path in (recorded, viewed):
        cats = [
            cat for each in xla.read(path).batches for cat in each["cat"].to_pylist()
        ]
        assert cats.count("kernel") == wanted


def test_a_folder_has_each_recording_once(tmp_path: Path) -> None:
    """JAX writes a recording up to three times, of which one is read."""
    events = program(1)
    (tmp_path / "host.xplane.pb").write_bytes(space(events))
    for name in ("host.trace.json.gz", "perfetto_trace.json.gz"):
        (tmp_path / name).write_bytes(gzip.compress(as_json(events).encode()))
    (tmp_path / "other.trace.json").write_text(as_kineto(program(2)))
    with tracedb.open() as database:
        database.ingest([tmp_path])
        found = rows(
            database,
            """
            SELECT raw.trace.path, profiler
            FROM staging.recording INNER JOIN raw.trace USING (trace_id)
            """,
        )
    assert sorted((path.rsplit("/")[-1], tool) for path, tool in found) == [
        ("host.xplane.pb", "XLA profiler"),
        ("other.trace.json", "PyTorch profiler"),
    ]


def test_a_host_waits_for_its_workers(tmp_path: Path) -> None:
    """On a CPU as well: the wait is no op, and ends when the worker has."""
    main, worker = [], []
    for step in range(6):
        at, more = 1_000 + 1_000_000 * step, 3_000 * step
        main += [
            {"name": "train", "ts": at, "dur": 900_000, "args": {"step_num": step}},
            {"name": "$train.py:7 step", "ts": at + 1_000, "dur": 890_000},
            {"name": "PjitFunction(step)", "ts": at + 2_000, "dur": 50_000},
            {"name": "np.asarray(jax.Array)", "ts": at + 60_000, "dur": 700_000 + more},
            {"name": "Check", "ts": at + 761_000 + more, "dur": 100_000},
        ]
        op = {"name": "dot.1", "ts": at + 40_000, "dur": 715_000 + more}
        worker.append(op | {"args": {"hlo_op": "dot.1", "hlo_module": "jit_step"}})
    path = tmp_path / "cpu.xplane.pb"
    lines = {(1 << 40, "python"): main, (1 << 62, "tf_XLAEigen"): worker}
    path.write_bytes(plane(HOST, lines, process_id=77) + environment())
    with tracedb.open() as database:
        database.ingest([path])
        names = rows(database, "SELECT pid, name FROM staging.thread ORDER BY ALL")
        frames = rows(database, "SELECT DISTINCT name FROM staging.python_frame")
        path_ns = rows(
            database,
            """
            SELECT op.name, sum(part.end_ns - part.start_ns)::BIGINT
            FROM critical_path.interval AS part
            INNER JOIN staging.step USING (trace_id, step_id)
            INNER JOIN staging.op AS op ON part.node_id = op_id
            WHERE scope = 'step' AND step = 3 GROUP BY ALL
            """,
        )
        begin = rows(database, "SELECT header ->> 'baseTimeNanoseconds' FROM raw.trace")
    assert names == [("77", "python"), ("77", "tf_XLAEigen")]
    assert ("step (train.py:7)",) in frames
    assert dict(path_ns)["dot.1"] > 650_000
    assert begin == [(str(BEGAN_NS),)]


def test_a_host_may_wait_for_computations_without_a_record_of_it(
    tmp_path: Path,
) -> None:
    """On a CPU, the summary does not leave it at code that was not recorded."""
    main, worker = [], []
    for step in range(3):
        at = 1_000 + 1_000_000 * step
        main += [
            {"name": "train", "ts": at, "dur": 900_000, "args": {"step_num": step}},
            {"name": "PjitFunction(step)", "ts": at + 2_000, "dur": 50_000},
            {"name": "CommonPjRtBuffer::Await", "ts": at + 60_000, "dur": 500},
        ]
        late = 40_000 + step * step * 90_000
        worker.append({"name": "dot.1", "ts": at + late, "dur": 400_000})
    path = tmp_path / "cpu.xplane.pb"
    lines = {(1 << 40, "python"): main, (1 << 62, "tf_XLAEigen"): worker}
    path.write_bytes(plane(HOST, lines, process_id=77) + environment())
    with tracedb.open() as database:
        database.ingest([path])
        said = " ".join(repr(database.summary()).split())
    assert "the host may be waiting for XLA's threads" in said
    assert "PyTorch" not in said


def test_batches_of_tensorflow_are_data_loading(tmp_path: Path) -> None:
    """What an iterator takes within an eager call, and what the call takes else."""
    main = []
    for step in range(3):
        at = 1_000 + 1_000_000 * step
        main += [
            {"name": "train", "ts": at, "dur": 900_000, "args": {"step_num": step}},
            {"name": "TFE_Py_FastPathExecute_C", "ts": at, "dur": 620_000},
            {"name": "IteratorGetNextOp::DoCompute", "ts": at + 10_000, "dur": 600_000},
            {"name": "Iterator::Prefetch", "ts": at + 20_000, "dur": 500_000},
            {"name": "step", "ts": at + 650_000, "dur": 250_000},
        ]
    path = tmp_path / "tf.xplane.pb"
    path.write_bytes(plane(HOST, {(1 << 40, "python"): main}) + environment())
    with tracedb.open() as database:
        database.ingest([path])
        found = rows(database, "SELECT step, time_ns FROM question.data_loading")
    assert found == [(step, 600_000) for step in range(3)]


def test_ops_of_a_tpu_run_one_at_a_time(tmp_path: Path) -> None:
    """Loops enclose their ops, and lines that group them are ranges."""
    ops = [
        {"name": "while.2", "ts": 100, "dur": 800},
        {"name": "fusion.1", "ts": 100, "dur": 300},
        {"name": "all-reduce.7", "ts": 400, "dur": 500},
        {"name": "copy.3", "ts": 900, "dur": 100},
    ]
    lines = {
        (1, "Steps"): [{"name": "0", "ts": 50, "dur": 1_000}],
        (2, "XLA Modules"): [{"name": "jit_step(1)", "ts": 90, "dur": 920}],
        (3, "XLA Ops"): ops,
    }
    host = {(5, "python"): [{"name": "train", "ts": 1, "dur": 2_000}]}
    host[5, "python"][0]["args"] = {"step_num": 0}
    path = tmp_path / "tpu.xplane.pb"
    path.write_bytes(
        plane("/device:TPU:2", lines, device_type_string="TPU v5e") + plane(HOST, host)
    )
    with tracedb.open() as database:
        database.ingest([path])
        query = """
            SELECT name, kind, device, start_ns, end_ns, is_collective
            FROM staging.gpu_op ORDER BY start_ns
        """
        assert rows(database, query) == [
            ("fusion.1", "kernel", 2, 100, 400, False),
            ("all-reduce.7", "kernel", 2, 400, 900, True),
            ("copy.3", "kernel", 2, 900, 1_000, False),
        ]
        query = "SELECT device, name, busy_ns FROM staging.device"
        assert rows(database, query) == [(2, "TPU v5e", 900)]
        (busy,) = rows(database, "SELECT count(*) FROM staging.collective")
        assert busy == (1,)


def test_calls_and_copies_of_an_amd_gpu(tmp_path: Path) -> None:
    """As roctracer and rocprofiler name them; allocations are no work of a stream."""

    def called(number: int, **more: str) -> dict[str, Any]:
        return {"args": {"correlation_id": number, **more}}

    copies = "CopyDeviceToHost", "MEMORY_COPY_HOST_TO_DEVICE"
    device = [
        {"name": "Cijk_Ailk_Bljk", "ts": 2_000, "dur": 500, **called(1)},
        {"name": copies[0], "ts": 3_000, "dur": 40, **called(2, memcpy_details="")},
        {"name": copies[1], "ts": 4_000, "dur": 50, **called(3, memcpy_details="")},
        {"name": "MemoryAlloc", "ts": 100, "dur": 90},
        {"name": "hipFree", "ts": 200, "dur": 90, **called(9, memfree_details="")},
    ]
    host = [
        {"name": "Cijk_Ailk_Bljk", "ts": 1_000, "dur": 100, **called(1)},
        {"name": "hipMemcpyDtoHAsync", "ts": 1_200, "dur": 100, **called(2)},
        {"name": "hipMemcpyHtoDAsync", "ts": 1_400, "dur": 100, **called(3)},
    ]
    path = tmp_path / "amd.xplane.pb"
    path.write_bytes(
        plane("/device:GPU:0", {(1, "Stream #1(Kernel)"): device}, device_vendor="AMD")
        + plane(HOST, {(5, "python"): host})
    )
    with tracedb.open() as database:
        database.ingest([path])
        query = """
            SELECT gpu.kind, gpu.name, call.name, launched_name
            FROM staging.gpu_op AS gpu LEFT JOIN staging.call AS call USING (call_id)
            ORDER BY gpu.start_ns
        """
        kernel = "Cijk_Ailk_Bljk"
        assert rows(database, query) == [
            ("kernel", kernel, "hipLaunchKernel", kernel),
            ("memcpy", "Memcpy DtoH (Device -> Host)", "hipMemcpyDtoHAsync", None),
            ("memcpy", "Memcpy HtoD (Host -> Device)", "hipMemcpyHtoDAsync", None),
        ]
        assert rows(database, "FROM staging.op") == []


def test_broken_files_are_refused_in_a_line(tmp_path: Path) -> None:
    """Each prefix, and each changed byte, is read or refused; never more."""
    whole, events = space(program(1)), program(1)
    chance = random.Random(0)  # noqa: S311 (reproducible)
    broken = [whole[: chance.randrange(1, len(whole))] for _ in range(60)]
    for _ in range(240):
        place = chance.randrange(len(whole))
        byte = bytes([chance.randrange(256)])
        broken.append(whole[:place] + byte + whole[place + 1 :])
    path = tmp_path / "host.xplane.pb"
    refused = 0
    for data in [b"", b"\0", b"{}", b"hello", *broken]:
        path.write_bytes(data)
        assert reader_of(path, data[:HEAD_BYTES]) is xla
        refused += _is_refused(path)
    assert refused > 60
    viewed = tmp_path / "host.trace.json.gz"
    packed = gzip.compress(as_json(events).encode())
    for length in range(len(packed) // 2, len(packed), len(packed) // 20):
        viewed.write_bytes(packed[:length])
        assert xla.recognises(viewed, packed[:HEAD_BYTES])
        assert _is_refused(viewed)


def _is_refused(path: Path) -> bool:
    try:
        for batch in xla.read(path).batches:
            assert batch.num_rows
    except IngestError as error:
        return str(error).startswith(f"{path}: ")
    return False


def test_other_traces_are_not_taken(tmp_path: Path) -> None:
    """The first process decides, not the name of the file."""
    path = tmp_path / "rank0.pt.trace.json"
    for text_of, is_own in ((as_kineto, False), (as_json, True)):
        path.write_text(text_of(program(1)))
        head = path.read_bytes()[:HEAD_BYTES]
        assert xla.recognises(path, head) == is_own
