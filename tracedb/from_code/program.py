"""A step as a tree: ranges, modules and ops, with what each op dispatches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracedb.from_code.ops import HIDDEN, MARK, MODULE, SYNCHRONIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tracedb.from_code.launches import Launching, LaunchTable, Work
    from tracedb.from_code.ops import Dispatched, Ordering

BACKWARD = "autograd::engine::evaluate_function: "
"""Prefix of ops that autograd executes, on a thread of its own in traces."""

PASSED_OVER = ("PythonDispatchMode", "PythonSubclass", "PythonTLSSnapshot")
"""Events of dispatch to Python, which do not occur in a GPU run."""


@dataclass
class Node:
    """An op, a range or a module call, with its children in order."""

    name: str
    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    dispatched: Dispatched | None = None
    launching: Launching | None = None
    children: list[Node] = field(default_factory=list)
    is_autograd: bool = False
    """Whether it was recorded on an autograd thread."""
    is_part: bool = False
    """Whether its parent op also has a kernel of its own."""

    @property
    def is_backward(self) -> bool:
        """Whether an autograd thread executes it."""
        is_named = self.name.startswith(BACKWARD)
        return self.kind == "op" and (is_named or self.is_autograd)

    @property
    def message(self) -> dict[str, Any]:
        """What the profiler records with a collective's call and kernel."""
        return self.dispatched.message if self.dispatched else {}

    @property
    def ordering(self) -> Ordering | None:
        """How it orders streams, if that is all it does."""
        return self.dispatched.ordering if self.dispatched else None

    @property
    def work(self) -> tuple[Work, ...]:
        """The GPU work that it launches itself, in order."""
        return self.launching.work if self.launching else ()

    def walk(self) -> Iterator[Node]:
        """The node and its descendants."""
        yield self
        for child in self.children:
            yield from child.walk()

    def in_order(self) -> Iterator[Node]:
        """The node and its descendants by their ends: inner ops launch first."""
        for child in self.children:
            if child.kind == "op" or self.kind != "op":
                yield from child.in_order()
        yield self


def launch(root: Node, table: LaunchTable) -> list[Node]:
    """Set what each op launches; return the nodes that launch something, in order."""
    launching = []
    for node in root.in_order():
        if node.dispatched is not None:
            node.launching = table.launching(
                node.dispatched, launched=tuple(_launched(node))
            )
            if node.launching.work:
                launching.append(node)
    return launching


def _launched(node: Node) -> Iterator[str]:
    """The parts of an op that launch something; their launches are already set."""
    for part in node.children:
        if part.is_part:
            yield from _launched(part)
            if part.work:
                yield part.name


def tree(events: list[dict[str, Any]], ops: Mapping[int, Dispatched]) -> Node:
    """Nest the events of a profiled step, and attach dispatched ops to their nodes."""
    root = Node("", "step")
    opened: list[tuple[float, Node]] = [(float("inf"), root)]
    known = [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]
    for event in sorted(known, key=lambda e: (e["ts"], -e["dur"])):
        while opened[-1][0] <= event["ts"]:
            opened.pop()
        end, around = event["ts"] + event["dur"], opened[-1][1]
        name = str(event["name"])
        if name in PASSED_OVER:
            continue
        if name.startswith(MARK):
            _attach(around, ops.get(int(name.removeprefix(MARK))))
            continue
        if name == HIDDEN:
            opened[-2][1].children.remove(around)
            opened[-1] = opened[-1][0], opened[-2][1]
            continue
        if around.kind == "op" and event["cat"] == "user_annotation":
            # A range within an op belongs to the op.
            continue
        node = _node(name, event)
        around.children.append(node)
        opened.append((min(end, opened[-1][0]), node))
    return root


def _node(name: str, event: dict[str, Any]) -> Node:
    if name == SYNCHRONIZE:
        return Node(name, "synchronize")
    if name.startswith(MODULE):
        return Node(name, "module")
    if event["cat"] == "user_annotation":
        return Node(name, "annotation")
    kept = ("Sequence number", "Fwd thread id")
    given = event.get("args", {})
    return Node(name, "op", {key: given[key] for key in kept if key in given})


def _attach(around: Node, dispatched: Dispatched | None) -> None:
    """Attach a dispatched op to the node around it, or else add a node for it."""
    if dispatched is None:
        return
    if around.kind == "op" and around.name == dispatched.name:
        around.dispatched = dispatched
    else:
        around.children.append(Node(dispatched.name, "op", dispatched=dispatched))
