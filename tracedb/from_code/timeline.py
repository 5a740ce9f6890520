"""Lay a step out in time: host threads, launches, streams and waits.

An op's self time is spread evenly before, between and after the ops and launches in it.
GPU work starts when its launch has returned and the work before it is done. Autograd
has its own thread, as in traces.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracedb.from_code.clock import DEFAULT_STREAM, STREAM_GAP_NS, Clock
from tracedb.from_code.collectives import WAIT
from tracedb.from_code.events import (
    AUTOGRAD,
    COLLECTIVES,
    MAIN,
    awaited,
    on_gpu,
    on_host,
    shapes,
    stream_number,
)
from tracedb.from_code.joint import Call
from tracedb.from_code.launches import Launching, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.joint import Key
    from tracedb.from_code.ops import Argument, Dispatched, Ordering
    from tracedb.from_code.program import Node

    Record = tuple[int, int]
    """The stream of an event, and the correlation of the call that recorded it."""

_EVENT_CALL_NS = 1_000
"""[ns] A call that records an event, or lets a stream wait for one."""


@dataclass(frozen=True)
class Begin:
    """An op begins."""

    node: Node


@dataclass(frozen=True)
class End:
    """An op ends."""

    node: Node


@dataclass(frozen=True)
class Join:
    """A stream waits for a collective: the one `before_last` before the last."""

    before_last: int
    stream: int


@dataclass(frozen=True)
class Order:
    """An event is recorded on a stream, or something waits for one or for a stream."""

    ordering: Ordering
    stream: int


Token = Begin | End | Work | Join | Order


@dataclass
class Timeline:
    """Builds the events of steps on one clock.

    `duration` gives the time [ns] of the n-th GPU work of a step. With `is_captured`,
    kernels are replayed from CUDA graphs: their ops take no host time. What waits for
    which event is written as by a profiler that was asked to (`cuda_sync`), except in
    CUDA graphs.
    """

    host: HostTimes
    duration: Callable[[int], int]
    is_captured: bool = False
    clock: Clock = field(default_factory=Clock)
    calls: list[Call] = field(default_factory=list)
    thread: int = MAIN
    correlation: int = 0
    number: int = 0
    work_number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    _captured: list[tuple[Work | Join | Order, Node]] = field(default_factory=list)
    _channels: dict[Key, int] = field(default_factory=dict)
    """The streams of communication, numbered in the order of their use."""
    _shown: dict[Key, int] = field(default_factory=dict)
    """The streams on which communication is shown."""
    _records: list[Record] = field(default_factory=list)
    """The calls that recorded events."""
    _ended: list[Record] = field(default_factory=list)
    """For each collective, the call that recorded its end."""

    def step(self, root: Node, number: int) -> None:
        """Append one step."""
        begin = self.clock.now
        self.work_number = 0
        for child in root.children:
            self._lay(child)
        self._return()
        self._replay()
        self.clock.host(self.host.gap_ns(""))
        self._write("user_annotation", f"ProfilerStep#{number}", begin, MAIN)

    def _lay(self, node: Node) -> None:
        if node.ordering is not None:
            self._lay_order(Order(node.ordering, _stream(node)), node)
        elif node.kind == "op":
            if not self.is_captured or not self._capture(node):
                self._top_level(node)
        elif node.kind == "synchronize":
            self._return()
            self._replay()
            self.clock.drain()
            self._wait("cudaDeviceSynchronize")
        else:
            self._range(node)

    def _capture(self, node: Node) -> bool:
        """Capture an op's kernels; return False if it has copies or host work."""
        within = list(node.in_order())
        tokens = [(token, n) for n in within for token in _launched(n)]
        if any(isinstance(t, Work) and t.kind == "memcpy" for t, _ in tokens):
            self._replay()
            return False
        ops = [n.dispatched for n in within if n.dispatched]
        if not tokens and any(not (op.is_on_gpu or op.is_view) for op in ops):
            return False
        self._captured += tokens
        return True

    def _replay(self) -> None:
        """Launch the graph that has been captured, if any."""
        if not self._captured:
            return
        self.clock.host(self.host.gap_ns(""))
        self.correlation += 1
        begin = self.clock.now
        self.clock.call(self.host.graph_launch)
        given = {"correlation": self.correlation}
        self._write("cuda_runtime", "cudaGraphLaunch", begin, self.thread, given)
        for token, node in self._captured:
            if isinstance(token, Work):
                self._work(token, node, given, self.host.graph_gap)
            else:
                self._order(token)
        self._captured.clear()

    def _range(self, node: Node) -> None:
        """A range or a module call, which has no time of its own."""
        self._return()
        begin, thread = self.clock.now, self.thread
        for child in node.children:
            self._lay(child)
        self._return()
        cat = "python_function" if node.kind == "module" else "user_annotation"
        self._write(cat, node.name, begin, thread)

    def _top_level(self, node: Node) -> None:
        if node.is_backward != (self.thread == AUTOGRAD):
            self.clock.call(self.host.handover)
            self.thread = AUTOGRAD if node.is_backward else MAIN
        self.clock.host(self.host.gap_ns(node.name))
        tokens = list(self._tokens(node))
        gaps = self._gaps(node.name, tokens)
        launching = deque(n for n in node.in_order() for _ in n.work)
        begins: dict[int, int] = {}
        identifiers: list[int] = []
        for token, gap in zip(tokens, gaps, strict=True):
            self.clock.host(gap)
            if isinstance(token, Begin):
                self.number += 1
                identifiers.append(self.number)
                begins[self.number] = self.clock.now
            elif isinstance(token, End):
                number = identifiers.pop()
                self._op(token.node, begins[number], number)
            elif isinstance(token, Work):
                self._launch(token, identifiers[-1], launching.popleft())
            else:
                self._order(token)

    def _return(self) -> None:
        """Return to the main thread, which waits for autograd."""
        if self.thread != MAIN:
            self.clock.call(self.host.handover)
            self.thread = MAIN

    def _tokens(self, node: Node) -> Iterator[Token]:
        """The tokens of an op: begins and ends of ops, and launched work."""
        from tracedb.from_code.program import Node as Op

        if node.ordering is not None:
            yield from _launched(node)
            return
        yield Begin(node)
        for child in node.children:
            if child.kind == "op":
                yield from self._tokens(child)
        launching = node.launching or Launching(())
        launched = list(_launched(node))
        while launched and isinstance(launched[0], Join):
            yield launched.pop(0)
        around = None
        if launching.name not in {"", node.name} and launching.work:
            given = {"Concrete Inputs": list(launching.arguments)}
            around = Op(launching.name, "op", given)
            yield Begin(around)
        yield from launched
        if around is not None:
            yield End(around)
        yield End(node)

    def _gaps(self, name: str, tokens: list[Token]) -> list[int]:
        """[ns] The host time before each token: a share of its op's self time."""
        gaps = [0] * len(tokens)
        opened: list[tuple[Node, list[int]]] = []
        for place, token in enumerate(tokens):
            if opened:
                opened[-1][1].append(place)
            if isinstance(token, Begin):
                opened.append((token.node, []))
            elif isinstance(token, End):
                op, places = opened.pop()
                launches = any(isinstance(tokens[here], Work) for here in places)
                own = self.host.own_ns(op.name, launches=launches)
                for here in places:
                    gaps[here] += own // len(places)
        return self._as_in_library(name, tokens, gaps)

    def _as_in_library(
        self, name: str, tokens: list[Token], gaps: list[int]
    ) -> list[int]:
        """Scale times before, between and after launches to those of a library."""
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

    def _launch(self, work: Work, op: int, node: Node) -> None:
        """A CUDA call, and the work that it launches."""
        communication = _call(work, node)
        if communication is not None:
            record = self._shown_record(stream_number(_stream(node)))
            self._shown_wait(self._shown_on(communication), record)
        self.correlation += 1
        is_kernel = work.kind != "memcpy"
        begin = self.clock.now
        self.clock.call(self.host.launch if is_kernel else self.host.copy)
        call = "cudaLaunchKernel" if is_kernel else "cudaMemcpyAsync"
        given = {"correlation": self.correlation, "External id": op}
        self._write("cuda_runtime", call, begin, self.thread, given)
        self._work(work, node, {**given, **node.message})
        if work.is_waited_for:
            self._wait("cudaStreamSynchronize", op, _stream(node))

    def _work(
        self, work: Work, node: Node, given: dict[str, Any], gap: int = STREAM_GAP_NS
    ) -> None:
        duration = self.duration(self.work_number)
        self.work_number += 1
        stream, call = _stream(node), _call(work, node)
        if call is None:
            span = self.clock.work(duration, gap, stream)
            self.events.append(on_gpu(work, *span, given, stream_number(stream)))
            return
        self.calls.append(call)
        channel = self._channels.setdefault(call.stream, len(self._channels))
        span = self.clock.communicate(duration, gap, stream, channel)
        self.events.append(on_gpu(work, *span, given, self._shown_on(call)))
        self._ended.append(self._shown_record(self._shown_on(call)))

    def _shown_on(self, call: Call) -> int:
        """The number of the stream on which communication is shown."""
        return self._shown.setdefault(call.shown_stream, COLLECTIVES + len(self._shown))

    def _wait(self, call: str, op: int | None = None, stream: int = 0) -> None:
        """Wait for a stream."""
        begin = self.clock.now
        self.clock.wait(self.host.wait, self.host.return_delay, stream)
        self._call(call, begin, op)
        if call == "cudaStreamSynchronize":
            self._awaited("Stream Sync", begin, stream_number(stream))

    def _call(self, name: str, begin: int, op: int | None = None) -> int:
        """A CUDA call that ends now; return its correlation."""
        self.correlation += 1
        given = {"correlation": self.correlation}
        if op is not None:
            given["External id"] = op
        self._write("cuda_runtime", name, begin, self.thread, given)
        return self.correlation

    def _awaited(
        self, kind: str, begin: int, stream: int, record: Record | None = None
    ) -> None:
        """What the last call, a wait, waits for."""
        self.events.append(
            awaited(kind, begin, self.clock.now, self.correlation, stream, record)
        )

    def _lay_order(self, token: Order, node: Node) -> None:
        """A call outside of ops; if streams alone wait, a CUDA graph takes it in."""
        is_of_host = token.ordering.waiter.startswith("host")
        if self.is_captured and not is_of_host:
            self._captured.append((token, node))
            return
        self._return()
        self._replay()
        self._order(token)

    def _order(self, token: Join | Order) -> None:
        """Let streams or the host wait, and record events for that."""
        stream = token.stream
        if isinstance(token, Join):
            self.clock.join(token.before_last, stream)
            record = _before_last(self._ended, token.before_last)
            self._shown_wait(stream_number(stream), record)
            return
        waiter, back = token.ordering.waiter, token.ordering.back
        record, begin = _before_last(self._records, back), self.clock.now
        if waiter == "host for stream":
            self._wait("cudaStreamSynchronize", stream=stream)
        elif waiter == "host":
            self.clock.reach(self.host.wait, self.host.return_delay, back)
            self._call("cudaEventSynchronize", begin)
            self._awaited("Event Sync", begin, stream_number(stream), record)
        elif waiter == "stream":
            self._spend_on_event()
            self.clock.await_event(back, stream)
            self._shown_wait(stream_number(stream), record, begin)
        else:
            self._spend_on_event()
            self.clock.record(stream)
            self._records.append(self._shown_record(stream_number(stream), begin))

    def _spend_on_event(self) -> None:
        if not self.is_captured:
            self.clock.call(_EVENT_CALL_NS)

    def _shown_record(self, stream: int, begin: int | None = None) -> Record:
        """Write the call that records an event."""
        if self.is_captured:
            return stream, 0
        begin = self.clock.now if begin is None else begin
        return stream, self._call("cudaEventRecord", begin)

    def _shown_wait(
        self, stream: int, record: Record | None, begin: int | None = None
    ) -> None:
        """Write the call that lets a stream wait for an event, if that is known."""
        if record is None or self.is_captured:
            return
        begin = self.clock.now if begin is None else begin
        self._call("cudaStreamWaitEvent", begin)
        self._awaited("Stream Wait Event", begin, stream, record)

    def _op(self, node: Node, begin: int, number: int) -> None:
        kept = dict(node.arguments)
        arguments: list[Argument] = kept.pop("Concrete Inputs", [])
        if node.dispatched is not None:
            arguments = node.dispatched.arguments
        given = {"External id": number, **kept, **shapes(arguments), **node.message}
        self._write("cpu_op", node.name, begin, self.thread, given)

    def _write(
        self,
        cat: str,
        name: str,
        begin: int,
        thread: int,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        """Write an event that ends now."""
        # Viewers skip events without duration, such as empty ranges.
        end = (
            self.clock.now if cat == "cuda_runtime" else max(self.clock.now, begin + 1)
        )
        self.events.append(on_host(cat, name, begin, end, thread, arguments))


def _launched(node: Node) -> Iterator[Work | Join | Order]:
    """What an op launches itself: its work, after the collectives that it awaits."""
    op = node.dispatched
    if op is not None and op.ordering is not None:
        yield Order(op.ordering, op.stream)
    elif op is not None:
        for before_last in op.awaits or ((0,) if _is_wait(op) else ()):
            yield Join(before_last, op.stream)
    yield from node.work


def _is_wait(op: Dispatched) -> bool:
    """Whether it only waits for a collective."""
    return op.called is not None and op.called.kind == WAIT


def _call(work: Work, node: Node) -> Call | None:
    """What work communicates, if it does."""
    op = node.dispatched
    if work.kind != "collective" or op is None or op.called is None:
        return None
    return Call(op.called, op.line)


def _stream(node: Node) -> int:
    """The stream that a node launches on."""
    return node.dispatched.stream if node.dispatched else DEFAULT_STREAM


def _before_last(records: list[Record], back: int) -> Record | None:
    """The record `back` before the last; None if it was made before all steps."""
    return records[-1 - back] if back < len(records) else None
