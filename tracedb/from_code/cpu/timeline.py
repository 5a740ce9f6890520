"""Lay a step on a CPU out in time, one op after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracedb.from_code.cpu.host import inside, part_of
from tracedb.from_code.events import MAIN, on_host, shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracedb.from_code.cpu.host import HostModel
    from tracedb.from_code.cpu.op_times import OpTime
    from tracedb.from_code.program import Node


@dataclass
class CpuTimeline:
    """The events of a step's only thread: an op's Python time precedes it."""

    host: HostModel
    times: Mapping[int, OpTime]
    pages_ns: Mapping[int, float]
    """[ns] The time for new pages, by `id(node)`."""
    now: float = 0.0
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    def step(self, root: Node, number: int) -> None:
        """Append one step."""
        begin = self.now
        self.now += self.host.of("step")
        for child in root.children:
            self._lay(child, "step")
        self._write("user_annotation", f"ProfilerStep#{number}", begin)

    def _lay(self, node: Node, within: str) -> None:
        part = part_of(node, within)
        own = self.host.of(part) if part else 0.0
        is_python = part in {"module", "call", "optimizer"}
        self.now += own * is_python
        begin = self.now
        self.number += 1
        number = self.number
        self.now += own * (not is_python)
        for child in node.children:
            self._lay(child, inside(node, within))
        computed = self.times.get(id(node))
        if computed is not None:
            self.now += computed.expected
        self.now += self.pages_ns.get(id(node), 0.0)
        self._write(*_kind(node), begin, self._given(node, number))

    def _given(self, node: Node, number: int) -> dict[str, Any] | None:
        if node.kind != "op":
            return None
        arguments = node.dispatched.arguments if node.dispatched else []
        return {"External id": number, **node.arguments, **shapes(arguments)}

    def _write(
        self, cat: str, name: str, begin: float, given: dict[str, Any] | None = None
    ) -> None:
        first, last = round(begin), max(round(self.now), round(begin) + 1)
        self.events.append(on_host(cat, name, first, last, MAIN, given))


def _kind(node: Node) -> tuple[str, str]:
    """The category and name of a node's event."""
    cat = {"op": "cpu_op", "module": "python_function"}.get(
        node.kind, "user_annotation"
    )
    return cat, node.name
