"""Write trace events as PyTorch's profiler does, for a step that never ran."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.from_code.ops import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracedb.from_code.launches import Work
    from tracedb.from_code.ops import Argument


class Machine(NamedTuple):
    """A node of a job: its GPUs, the number of ranks of the job, and this one's."""

    gpus: int
    world: int
    rank: int = 0


PROCESS = 1
MAIN, AUTOGRAD = 1, 2
STREAM, COLLECTIVES, SIDE = 7, 20, 100
"""Streams: the default one, the first of those that communicate, and of others."""
AGAIN = "same memory as an earlier argument"
"""The value of such a tensor, which has none otherwise."""


def stream_number(stream: int) -> int:
    """The number by which a stream of the code is shown."""
    return SIDE + stream if stream else STREAM


def on_host(  # noqa: PLR0913, PLR0917 (the fields of an event)
    cat: str,
    name: str,
    begin: int,
    end: int,
    thread: int,
    arguments: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An event on a host thread, from `begin` to `end` [ns]."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": PROCESS, "tid": thread,
        "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": arguments or {},
    }  # fmt: skip


def on_gpu(
    work: Work, begin: int, end: int, given: dict[str, Any], stream: int = STREAM
) -> dict[str, Any]:
    """An event on a stream, from `begin` to `end` [ns]."""
    given = {**given, "device": 0, "context": 1, "stream": stream}
    cat = "kernel"
    if work.kind == "memcpy":
        cat, given["bytes"] = "gpu_memcpy", work.moved_bytes
    return {
        "ph": "X", "cat": cat, "name": work.name, "pid": 0, "tid": stream,
        "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": given,
    }  # fmt: skip


def awaited(  # noqa: PLR0913, PLR0917 (the fields of an event)
    kind: str,
    begin: int,
    end: int,
    correlation: int,
    stream: int,
    record: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """What the profiler records of a wait, if asked to (`cuda_sync`).

    `record` is the stream and the correlation of the call that recorded the event.
    """
    given: dict[str, Any] = {
        "cuda_sync_kind": kind, "stream": stream, "correlation": correlation,
        "device": 0, "context": 1,
    }  # fmt: skip
    if record is not None:
        given["wait_on_stream"], given["wait_on_cuda_event_record_corr_id"] = record
    return {
        "ph": "X", "cat": "cuda_sync", "name": kind, "pid": 0, "tid": stream,
        "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": given,
    }  # fmt: skip


def shapes(arguments: Sequence[Argument]) -> dict[str, Any]:
    """An op's arguments as the profiler records them."""
    if not arguments:
        return {}
    return {
        "Input Dims": [_dims(argument) for argument in arguments],
        "Input type": [_type(argument) for argument in arguments],
        "Concrete Inputs": [_value(argument) for argument in arguments],
    }


def _dims(argument: Argument) -> list[Any]:
    if isinstance(argument, Shape):
        return list(argument.dims)
    if isinstance(argument, list):
        return [list(shape.dims) for shape in argument]
    return []


def _type(argument: Argument) -> str:
    if isinstance(argument, Shape):
        return argument.dtype
    if isinstance(argument, list):
        return f"GenericList[{','.join(f'Tensor({s.dtype})' for s in argument)}]"
    return "Scalar" if argument else ""


def _value(argument: Argument) -> str:
    if isinstance(argument, Shape) and argument.is_again:
        return AGAIN
    return argument if isinstance(argument, str) else ""


def trace_text(
    events: list[dict[str, Any]], gpu: str | None, machine: Machine | None = None
) -> str:
    """The text of a trace file, marked as estimated.

    `machine` gives the GPUs of a node and the world size of a multi-node job. Without
    `gpu`, the trace lists no device.
    """
    count, world, rank = (1, None, 0) if machine is None else machine
    job = {"backend": "nccl", "rank": rank, "world_size": world}
    gpus = [] if gpu is None else [{"id": n, "name": gpu} for n in range(count)]
    named = [
        {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": thread,
         "args": {"name": name}}
        for thread, name in ((MAIN, "main"), (AUTOGRAD, "autograd"))
    ]  # fmt: skip
    return json.dumps(
        {
            "schemaVersion": 1,
            "estimated": True,
            "source": {"tool": "tracedb estimate (never ran)"},
            "deviceProperties": gpus,
            **({"distributedInfo": job} if world else {}),
            "traceEvents": [*named, *events],
        }
    )
