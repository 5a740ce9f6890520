"""A step laid out in time: host threads, launches, a stream, waits; as a trace.

Each op takes its own host time, spread evenly over what lies before, between and after
the ops and launches in it; the work of a stream begins when its launch returns, or when
the work before it is done. Autograd has a thread of its own, as in recordings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracedb.from_code.launches import Launching, Work
from tracedb.from_code.recorder import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.launches import LaunchTable
    from tracedb.from_code.program import Node
    from tracedb.from_code.recorder import Argument

_PROCESS = 1
_MAIN, _AUTOGRAD = 1, 2
_STREAM = 7
_STREAM_GAP_NS = 1_000
"""[ns] Between two kernels of a stream, one of which waited for the other."""

Duration = "Callable[[int, Work], int]"


@dataclass(frozen=True)
class Begin:
    """An op begins."""

    node: Node


@dataclass(frozen=True)
class End:
    """An op ends."""

    node: Node


Token = Begin | End | Work


@dataclass
class Timeline:
    """The clocks of a host thread that changes lanes, and of a stream."""

    host: HostTimes
    table: LaunchTable
    duration: Callable[[int, Work], int]
    now: int = 1_000_000
    stream_free: int = 0
    thread: int = _MAIN
    correlation: int = 0
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    def step(self, root: Node, number: int, phase: str = "ProfilerStep") -> None:
        """Lay out one step after what there is."""
        begin = self.now
        for child in root.children:
            self._lay(child)
        self._return()
        self.now += self.host.gap_ns("")
        self._write("user_annotation", f"{phase}#{number}", begin, self.now, _MAIN)

    def _lay(self, node: Node) -> None:
        if node.kind == "op":
            self._top_level(node)
        elif node.kind == "synchronize":
            self._return()
            self._wait("cudaDeviceSynchronize")
        else:
            self._range(node)

    def _range(self, node: Node) -> None:
        """A range or a module's call, which takes no time of its own."""
        self._return()
        begin, thread = self.now, self.thread
        for child in node.children:
            self._lay(child)
        self._return()
        self.now = max(self.now, begin + 1)
        cat = "python_function" if node.kind == "module" else "user_annotation"
        self._write(cat, node.name, begin, self.now, thread)

    def _top_level(self, node: Node) -> None:
        if node.is_backward != (self.thread == _AUTOGRAD):
            self.now += self.host.handover
            self.thread = _AUTOGRAD if node.is_backward else _MAIN
        self.now += self.host.gap_ns(node.name)
        tokens = list(self._tokens(node))
        gaps = self._gaps(node.name, tokens)
        begins: dict[int, int] = {}
        identifiers: list[int] = []
        for token, gap in zip(tokens, gaps, strict=True):
            self.now += gap
            if isinstance(token, Begin):
                self.number += 1
                identifiers.append(self.number)
                begins[self.number] = self.now
            elif isinstance(token, End):
                number = identifiers.pop()
                self._op(token.node, begins[number], number)
            else:
                self._launch(token, identifiers[-1])

    def _return(self) -> None:
        """Go on with the main thread, which waits for autograd."""
        if self.thread != _MAIN:
            self.now += self.host.handover
            self.thread = _MAIN

    def _tokens(self, node: Node) -> Iterator[Token]:
        """What happens in an op: ops begin and end, work is launched."""
        from tracedb.from_code.program import Node as Op

        yield Begin(node)
        for child in node.children:
            if child.kind == "op":
                yield from self._tokens(child)
        launching = (
            self.table.launching(node.dispatched) if node.dispatched else Launching(())
        )
        around = None
        if launching.name and launching.work:
            given = {"Concrete Inputs": list(launching.arguments)}
            around = Op(launching.name, "op", given)
            yield Begin(around)
        yield from launching.work
        if around is not None:
            yield End(around)
        yield End(node)

    def _gaps(self, name: str, tokens: list[Token]) -> list[int]:
        """[ns] How long before each token the host is busy with the ops around it."""
        gaps = [0] * len(tokens)
        opened: list[tuple[str, list[int]]] = []
        for place, token in enumerate(tokens):
            if opened:
                opened[-1][1].append(place)
            if isinstance(token, Begin):
                opened.append((token.node.name, []))
            elif isinstance(token, End):
                op, places = opened.pop()
                own = self.host.own_ns(op)
                for here in places:
                    gaps[here] += own // len(places)
        return self._as_in_library(name, tokens, gaps)

    def _as_in_library(
        self, name: str, tokens: list[Token], gaps: list[int]
    ) -> list[int]:
        """Stretch what lies before, between and after launches as a library has it."""
        if not self.host.spans:
            return gaps
        launches = [i for i, token in enumerate(tokens) if isinstance(token, Work)]
        if not launches:
            parts = [("T5", range(len(gaps)))]
        else:
            bounds = [0, *(i + 1 for i in launches), len(gaps)]
            kinds = ["T2", *["T5"] * (len(launches) - 1), "T3"]
            parts = [
                (kind, range(begin, end))
                for kind, begin, end in zip(kinds, bounds, bounds[1:], strict=False)
            ]
        for kind, places in parts:
            known = self.host.span_ns(kind, name)
            total = sum(gaps[i] for i in places)
            if known is not None and total:
                for i in places:
                    gaps[i] = gaps[i] * known // total
        return gaps

    def _launch(self, work: Work, op: int) -> None:
        """A call, and what it puts on the stream."""
        self.correlation += 1
        is_kernel = work.kind == "kernel"
        begin = self.now
        self.now += self.host.launch if is_kernel else self.host.copy
        call = "cudaLaunchKernel" if is_kernel else "cudaMemcpyAsync"
        given = {"correlation": self.correlation, "External id": op}
        self._write("cuda_runtime", call, begin, self.now, self.thread, given)
        start = max(self.now, self.stream_free + _STREAM_GAP_NS)
        end = start + self.duration(self.correlation, work)
        self.stream_free = end
        given = {**given, "device": 0, "context": 1, "stream": _STREAM}
        cat = "kernel"
        if not is_kernel:
            cat, given["bytes"] = "gpu_memcpy", work.moved_bytes
        self.events.append(
            {"ph": "X", "cat": cat, "name": work.name, "pid": 0, "tid": _STREAM,
             "ts": start / 1e3, "dur": (end - start) / 1e3, "args": given}
        )  # fmt: skip
        if work.is_waited_for:
            self._wait("cudaStreamSynchronize", op)

    def _wait(self, call: str, op: int | None = None) -> None:
        """Wait for the stream."""
        self.correlation += 1
        begin = self.now
        until = self.stream_free + self.host.return_delay
        self.now = max(begin + self.host.wait, until)
        given = {"correlation": self.correlation}
        if op is not None:
            given["External id"] = op
        self._write("cuda_runtime", call, begin, self.now, self.thread, given)

    def _op(self, node: Node, begin: int, number: int) -> None:
        given: dict[str, Any] = {"External id": number}
        kept = dict(node.arguments)
        arguments: list[Argument] = kept.pop("Concrete Inputs", [])
        if node.dispatched is not None:
            arguments = node.dispatched.arguments
        given |= kept
        if arguments:
            given |= {
                "Input Dims": [_dims(argument) for argument in arguments],
                "Input type": [_type(argument) for argument in arguments],
                "Concrete Inputs": [_value(argument) for argument in arguments],
            }
        self._write("cpu_op", node.name, begin, self.now, self.thread, given)

    def _write(  # noqa: PLR0913, PLR0917 (the fields of an event)
        self,
        cat: str,
        name: str,
        begin: int,
        end: int,
        thread: int,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": _PROCESS, "tid": thread,
             "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": arguments or {}}
        )  # fmt: skip


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
    return argument if isinstance(argument, str) else ""


def trace_text(events: list[dict[str, Any]], gpu: str) -> str:
    """The trace as a file of the profiler's, which says that nothing of it ran."""
    named = [
        {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": thread,
         "args": {"name": name}}
        for thread, name in ((_MAIN, "main"), (_AUTOGRAD, "autograd"))
    ]  # fmt: skip
    return json.dumps(
        {
            "schemaVersion": 1,
            "estimated": True,
            "source": {"tool": "tracedb estimate (never ran)"},
            "deviceProperties": [{"id": 0, "name": gpu}],
            "traceEvents": [*named, *events],
        }
    )
