"""Lay a step out in time: host threads, launches, streams and waits.

An op's self time is spread evenly before, between and after the ops and launches in it.
GPU work starts when its launch has returned and the work before it is done. Autograd
has its own thread, as in traces.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracedb.from_code.clock import Clock
from tracedb.from_code.collectives import WAIT
from tracedb.from_code.events import (
    AUTOGRAD,
    COLLECTIVES,
    MAIN,
    on_gpu,
    on_host,
    shapes,
)
from tracedb.from_code.joint import Call
from tracedb.from_code.launches import Launching, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.ops import Argument, Dispatched
    from tracedb.from_code.program import Node


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
    """Later work waits for a collective: the one `before_last` before the last."""

    before_last: int = 0


Token = Begin | End | Work | Join


@dataclass
class Timeline:
    """Builds the events of steps on one clock.

    `duration` gives the time [ns] of the n-th GPU work of a step. With `is_captured`,
    kernels are replayed from CUDA graphs: their ops take no host time. `stream` gives
    the stream of communication.
    """

    host: HostTimes
    duration: Callable[[int], int]
    is_captured: bool = False
    clock: Clock = field(default_factory=Clock)
    stream: Callable[[Call], int] = lambda _call: COLLECTIVES
    calls: list[Call] = field(default_factory=list)
    thread: int = MAIN
    correlation: int = 0
    number: int = 0
    work_number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    _captured: list[tuple[Work | Join, Node]] = field(default_factory=list)

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
        if node.kind == "op":
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
            if isinstance(token, Join):
                self.clock.join(token.before_last)
            else:
                self._work(token, node, given, self.host.graph_gap)
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
            elif isinstance(token, Join):
                self.clock.join(token.before_last)
            else:
                self._launch(token, identifiers[-1], launching.popleft())

    def _return(self) -> None:
        """Return to the main thread, which waits for autograd."""
        if self.thread != MAIN:
            self.clock.call(self.host.handover)
            self.thread = MAIN

    def _tokens(self, node: Node) -> Iterator[Token]:
        """The tokens of an op: begins and ends of ops, and launched work."""
        from tracedb.from_code.program import Node as Op

        yield Begin(node)
        for child in node.children:
            if child.kind == "op":
                yield from self._tokens(child)
        launching = node.launching or Launching(())
        launched = list(_launched(node))
        if launched and isinstance(launched[0], Join):
            yield launched.pop(0)
        around = None
        if launching.name and launching.work:
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
        self.correlation += 1
        is_kernel = work.kind != "memcpy"
        begin = self.clock.now
        self.clock.call(self.host.launch if is_kernel else self.host.copy)
        call = "cudaLaunchKernel" if is_kernel else "cudaMemcpyAsync"
        given = {"correlation": self.correlation, "External id": op}
        self._write("cuda_runtime", call, begin, self.thread, given)
        self._work(work, node, {**given, **node.message})
        if work.is_waited_for:
            self._wait("cudaStreamSynchronize", op)

    def _work(
        self, work: Work, node: Node, given: dict[str, Any], gap: int | None = None
    ) -> None:
        duration = self.duration(self.work_number)
        self.work_number += 1
        gaps = () if gap is None else (gap,)
        op = node.dispatched
        if work.kind == "collective" and op is not None and op.called is not None:
            self.calls.append(Call(op.called, op.line))
            start, end = self.clock.communicate(duration, *gaps)
            event = on_gpu(work, start, end, given, self.stream(self.calls[-1]))
        else:
            event = on_gpu(work, *self.clock.work(duration, *gaps), given)
        self.events.append(event)

    def _wait(self, call: str, op: int | None = None) -> None:
        """Wait for the stream."""
        self.correlation += 1
        begin = self.clock.now
        self.clock.wait(self.host.wait, self.host.return_delay)
        given = {"correlation": self.correlation}
        if op is not None:
            given["External id"] = op
        self._write("cuda_runtime", call, begin, self.thread, given)

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


def _launched(node: Node) -> Iterator[Work | Join]:
    """What an op launches itself: its work, after the collectives that it awaits."""
    op = node.dispatched
    if op is not None and (op.awaits is not None or _is_wait(op)):
        yield Join(op.awaits or 0)
    yield from node.work


def _is_wait(op: Dispatched) -> bool:
    """Whether it only waits for a collective."""
    return op.called is not None and op.called.kind == WAIT
