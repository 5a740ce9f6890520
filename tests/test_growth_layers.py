"""Twice as much of anything takes about twice the time: nothing is quadratic.

Each shape is a trace with much of one thing, at one size and at twice that size. CPU
time is compared by stage (reading, and each stored relation), so that one quadratic
stage is not hidden by the others. Stages that are short at twice the size are skipped:
if all are, the smaller trace is not ingested; otherwise up to the last layer with a
long stage.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tracedb
from tracedb.catalog import LAYERS
from tracedb.ingest import ingest

MOST = 2.9
"""Largest allowed growth of a stage's CPU time, in the best of some tries."""
SHORT = 0.2
"""[s] Shorter stages are not compared: noise is as large."""
TRIES = 5

Event = dict[str, Any]
Events = Iterator[Event]
Texts = Iterator[str]


class Shape(NamedTuple):
    """Files with much of one thing."""

    size: int
    texts: Callable[[int], Texts]


def event(cat: str, name: str, start: float, dur: float, **more: object) -> Event:
    """An event on thread 1 of process 1, unless given otherwise."""
    whole = {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": dur}
    return {**whole, "cat": cat, "name": name, **more}


def op(start: float, dur: float, name: str = "aten::relu", **more: object) -> Event:
    """An op."""
    return event("cpu_op", name, start, dur, **more)


def call(start: float, dur: float, number: int, name: str, **more: Any) -> Event:  # noqa: ANN401 (JSON)
    """A call of the CUDA runtime."""
    args = {"correlation": number, **more}
    return event("cuda_runtime", name, start, dur, args=args)


def work(start: float, dur: float, number: int, stream: int, name: str = "k") -> Event:
    """A kernel."""
    args = {"device": 0, "stream": stream, "correlation": number}
    return event("kernel", name, start, dur, pid=0, tid=stream, args=args)


def launched(
    at: float, number: int, stream: int = 7, name: str = "k", late: float = 0
) -> Events:
    """An op of 8 us that launches a kernel, which starts 10 us after it, or later."""
    yield op(at, 8)
    yield call(at + 2, 4, number, "cudaLaunchKernel")
    yield work(at + 10 + late, 5, number, stream, name)


def step(number: int, start: float, dur: float) -> Event:
    """A step's mark."""
    return event("user_annotation", f"ProfilerStep#{number}", start, dur)


def one(events: Callable[[int], Events]) -> Callable[[int], Texts]:
    """One file of these events."""

    def texts(size: int) -> Texts:
        yield json.dumps({"traceEvents": list(events(size))})

    return texts


def steps(size: int) -> Events:
    """Steps with one kernel each."""
    for number in range(size):
        yield step(number, 100 * number, 90)
        yield from launched(100 * number + 5, number + 1)


def overlapping_steps(size: int) -> Events:
    """Steps that all overlap each other."""
    for number in range(size):
        yield step(number, 20 * number, 20 * size)
        yield from launched(20 * number + 5, number + 1)


def nested_steps(size: int) -> Events:
    """Steps within steps."""
    for number in range(size):
        yield step(number, 20 * number, 40 * (size - number))
        yield op(20 * number + 5, 2)


def streams(size: int) -> Events:
    """A stream for each kernel."""
    yield step(1, 0, 20 * size)
    for number in range(size):
        yield from launched(20 * number + 1, number + 1, stream=7 + number)


def threads(size: int) -> Events:
    """A host thread for each op."""
    yield step(1, 0, 20 * size)
    for number in range(size):
        yield op(20 * number + 1, 10, tid=2 + number)


def pool(size: int) -> Events:
    """Threads that all work in each of four turns, one soon after another."""
    for turn in range(4):
        for number in range(size):
            late = 7_919 * (number + 1) * (turn + 1) % 5_003
            yield op(10_000 * turn + late, 50, f"work{number % 5}", tid=number)


def rests(size: int) -> Events:
    """A thread that is idle again and again, beside one that is always busy."""
    yield step(1, 0, 250 * size)
    for number in range(size):
        yield op(250 * number + 7 * number % 19, 20, "aten::add", tid=2)
        for place in range(10):
            yield op(250 * number + 25 * place, 24)


def deep(size: int) -> Events:
    """Each op is within the previous one."""
    yield step(1, 0, 4 * size)
    for number in range(size):
        yield op(1 + number, 3 * size - 2 * number)


def wide(size: int) -> Events:
    """One op around all others."""
    yield op(0, 20 * size + 9, "aten::all")
    for number in range(size):
        yield from launched(20 * number + 1, number + 1)


def flows(size: int) -> Events:
    """Flows between calls and kernels, and between forward and backward ops."""
    yield step(1, 0, 20 * size)
    for number in range(1, size + 1):
        at = 20 * number
        yield from launched(at, number)
        for ph, ts, tid, pid in (("s", at + 2, 1, 1), ("f", at + 10, 7, 0)):
            place = {"ph": ph, "ts": ts, "pid": pid, "tid": tid}
            yield {**place, "cat": "ac2g", "name": "ac2g", "id": number, "bp": "e"}


def sequence(size: int) -> Events:
    """Backward ops on another thread, in reverse order of the forward ops."""
    yield step(1, 0, 40 * size)
    for number in range(size):
        args = {"Sequence number": number, "Fwd thread id": 0}
        yield op(10 * number + 1, 8, args=args)
        args = {"Sequence number": size - number - 1, "Fwd thread id": 1}
        yield op(10 * (size + number) + 1, 8, "ReluBackward0", tid=2, args=args)


def collectives(size: int) -> Events:
    """Collectives on their own stream, with kernels that wait for them."""
    yield step(1, 0, 40 * size)
    for number in range(size):
        at = 40 * number
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        yield from launched(at + 1, 2 * number + 1, stream=20, name=name)
        yield from launched(at + 10, 2 * number + 2, late=8)


def stream_waits(size: int) -> Events:
    """Streams that wait for each other in turn."""
    yield step(1, 0, 40 * size)
    for number in range(size):
        at, first = 40 * number, 4 * number + 1
        yield from launched(at + 1, first, stream=7 + number % 2)
        yield call(at + 10, 2, first + 1, "cudaEventRecord")
        yield call(at + 13, 2, first + 2, "cudaStreamWaitEvent")
        yield from launched(at + 16, first + 3, stream=8 - number % 2)


def host_waits(size: int) -> Events:
    """Kernels on four streams, each followed by a device synchronize."""
    yield step(1, 0, 60 * size)
    for number in range(size):
        at, first = 60 * number, 2 * number + 1
        yield from launched(at + 1, first, stream=7 + number % 4)
        yield call(at + 12, 12, first + 1, "cudaDeviceSynchronize")


def names(size: int) -> Events:
    """All names and shapes are different."""
    yield step(1, 0, 20 * size)
    for number in range(size):
        yield from launched(20 * number + 1, number + 1, name=f"kernel_{number}")
        args = {"Input Dims": [[number, 4]], "Input type": ["float"]}
        yield op(20 * number + 10, 8, f"own::op_{number}", args=args)


def user_ranges(size: int) -> Events:
    """User ranges around ops, nested up to the end of the trace."""
    yield step(1, 0, 40 * size)
    for number in range(size):
        yield event("user_annotation", f"part {number}", 20 * number, 19)
        yield op(20 * number + 1, 8)


def modules(size: int) -> Events:
    """Modules in the Python stack, ten deep."""
    yield step(1, 0, 40 * size)
    for number in range(size):
        args = {"Python id": number + 1, "Python parent id": number + 1 - number % 10}
        start = 40 * (number // 10) + number % 10
        name = f"nn.Module: Linear_{number % 50}"
        yield event("python_function", name, start, 30 - 2 * (number % 10), args=args)
        yield op(start + 0.25, 0.5)


def graph_replays(size: int) -> Events:
    """CUDA graphs that launch ten kernels each."""
    yield step(1, 0, 100 * size)
    for number in range(size // 10):
        at = 100 * number
        yield call(at + 1, 5, number + 1, "cudaGraphLaunch")
        for place in range(10):
            yield work(at + 10 + 6 * place, 5, number + 1, 7, f"part_{place}")


def begins_and_ends(size: int) -> Events:
    """Nested ops, recorded as begin and end events."""
    for number in range(size):
        begin = op(number, 0)
        del begin["dur"]
        yield {**begin, "ph": "B"}
    for number in range(size):
        yield {"ph": "E", "pid": 1, "tid": 1, "ts": size + number, "name": "aten::relu"}


def copies(size: int) -> Events:
    """Blocking copies."""
    yield step(1, 0, 40 * size)
    for number in range(size):
        at = 40 * number
        yield op(at, 30, "aten::copy_")
        yield call(at + 2, 27, number + 1, "cudaMemcpyAsync")
        moved = work(at + 8, 20, number + 1, 7, "Memcpy HtoD (Pageable -> Device)")
        yield {**moved, "cat": "gpu_memcpy"}


def files(size: int) -> Texts:
    """Many files with one op each."""
    for number in range(size):
        yield json.dumps({"traceEvents": [op(number, 1)]})


def ranks(size: int) -> Texts:
    """Many ranks of a job."""
    for rank in range(size):
        reported = {"rank": rank, "world_size": size, "backend": "nccl"}
        events = [step(1, 0, 400)]
        for number in range(10):
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            events += launched(30 * number + 1, number + 1, 20, name, rank / 100)
        yield json.dumps({"distributedInfo": reported, "traceEvents": events})


SHAPES = {
    "steps": Shape(4_000, one(steps)),
    "overlapping steps": Shape(500, one(overlapping_steps)),
    "nested steps": Shape(500, one(nested_steps)),
    "streams": Shape(1_500, one(streams)),
    "threads": Shape(2_000, one(threads)),
    "thread pool": Shape(1_400, one(pool)),
    "rests": Shape(1_500, one(rests)),
    "deep": Shape(2_000, one(deep)),
    "wide": Shape(6_000, one(wide)),
    "flows": Shape(4_000, one(flows)),
    "sequence numbers": Shape(5_000, one(sequence)),
    "collectives": Shape(2_500, one(collectives)),
    "stream waits": Shape(2_000, one(stream_waits)),
    "host waits": Shape(2_000, one(host_waits)),
    "names": Shape(4_000, one(names)),
    "user ranges": Shape(6_000, one(user_ranges)),
    "modules": Shape(6_000, one(modules)),
    "graph replays": Shape(10_000, one(graph_replays)),
    "begins and ends": Shape(8_000, one(begins_and_ends)),
    "copies": Shape(2_000, one(copies)),
    "files": Shape(20, files),
    "ranks": Shape(8, ranks),
}

Costs = dict[str, float]


def written(folder: Path, shape: Shape, size: int) -> list[Path]:
    """The files of a shape."""
    paths = []
    for number, text in enumerate(shape.texts(size)):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(text)
    return paths


def costs(folder: Path, shape: Shape, size: int, until: str | None = None) -> Costs:
    """[s] CPU time of each stage when a shape is ingested."""
    folder.mkdir()
    paths = written(folder, shape, size)
    found: Costs = defaultdict(float)
    stage, begun = "reading", time.process_time()

    def progress(line: str) -> None:
        nonlocal stage, begun
        now = time.process_time()
        found[stage] += now - begun
        is_stage = line.startswith("computing ")
        stage, begun = line if is_stage else "reading", now

    with tracedb.open() as database:
        begun = time.process_time()
        ingest(
            database.connection,
            paths,
            run=None,
            pair=False,
            progress=progress,
            until=until,
        )
        progress("the end")
    return found


def growths(folder: Path, shape: Shape) -> Costs:
    """Growth of each long stage's CPU time when the size doubles."""
    once: Costs = {}
    twice: Costs = {}
    for attempt in range(TRIES):
        keep_least(twice, costs(folder / f"{attempt} twice", shape, 2 * shape.size))
        long = {stage: taken for stage, taken in twice.items() if taken > SHORT}
        if not long:
            return {}
        highest = max(map(layer, long), key=LAYERS.index)
        keep_least(once, costs(folder / f"{attempt}", shape, shape.size, highest))
        found = {
            stage: taken / max(once[stage], SHORT / MOST)
            for stage, taken in long.items()
        }
        if all(growth < MOST for growth in found.values()):
            break
    return found


def keep_least(best: Costs, found: Costs) -> None:
    """Keep the shortest time of each stage."""
    for stage, taken in found.items():
        best[stage] = min(taken, best.get(stage, taken))


def layer(stage: str) -> str:
    """The layer up to which a stage needs an ingest."""
    return stage.removeprefix("computing ").split(".")[0] if "." in stage else "raw"


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_size_is_twice_the_time(tmp_path: Path, name: str) -> None:
    """The CPU time of every stage grows in proportion."""
    found = growths(tmp_path, SHAPES[name])
    assert {stage: growth for stage, growth in found.items() if growth >= MOST} == {}
