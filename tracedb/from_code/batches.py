"""A step as a function of its batch size, from recordings at a few of them.

All recordings must have the same ops and allocations in the same order, and each size
must be an affine function of the batch size. Two recordings give the functions; the
others check them. Errors name the op and the line of the user's code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError
from tracedb.from_code.memory import peak
from tracedb.from_code.sizes import (
    evaluate,
    fitted,
    join_op,
    join_text,
    split_holding,
    split_op,
    split_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracedb.from_code.memory import Holding, Memory
    from tracedb.from_code.ops import Dispatched
    from tracedb.from_code.program import Node
    from tracedb.from_code.recordings import Recording
    from tracedb.from_code.sizes import Form, Function, Number, Parts

_MOST_PLACES = 3
"""An error lists at most this many sizes that are not affine in the batch size."""
_ALONE = "estimate these batch sizes one by one (--batch)"


@dataclass(frozen=True)
class Template:
    """An op whose sizes and other numbers are functions of the batch size."""

    op: Dispatched
    numbers: tuple[Function, ...]

    @property
    def is_constant(self) -> bool:
        """Whether the op is the same at all batch sizes."""
        return all(isinstance(number, (int, float)) for number in self.numbers)

    def at(self, batch: int) -> Dispatched:
        """The op at a batch size."""
        return join_op(self.op, [evaluate(number, batch) for number in self.numbers])


@dataclass(frozen=True)
class Batches:
    """A step at any batch size.

    `templates` are its distinct ops. `places` gives each node of the tree the index of
    its template, or None. `names` are the numbers in each node's name.
    """

    first: Recording
    templates: tuple[Template, ...]
    places: tuple[int | None, ...]
    names: tuple[tuple[Function, ...], ...]
    held: tuple[tuple[Holding, tuple[Function, ...]], ...]

    @classmethod
    def of(cls, recordings: Sequence[Recording]) -> Batches:
        """Fit to recordings at different batch sizes; from one, only its own is known.

        Raises `EstimateError` with the op and its line where sizes are not affine.
        """
        batches = [recording.batch or 0 for recording in recordings]
        rows = [_parts(recording.nodes) for recording in recordings]
        for recording, row in zip(recordings[1:], rows[1:], strict=True):
            _check_alike(recordings[0], rows[0], recording, row)
        templates, places = _templates(batches, recordings[0].nodes, rows)
        return cls(
            recordings[0],
            templates,
            places,
            tuple(
                _names(batches, nodes)
                for nodes in zip(*(r.nodes for r in recordings), strict=True)
            ),
            _held(batches, [recording.fake.held for recording in recordings]),
        )

    def at(self, batch: int) -> Node:
        """The step's tree at a batch size."""
        ops = [template.at(batch) for template in self.templates]
        left = iter(zip(self.first.nodes, self.places, self.names, strict=True))

        def made() -> Node:
            node, place, numbers = next(left)
            given = iter([evaluate(number, batch) for number in numbers])
            name = join_text(node.name, given) if numbers else node.name
            op = None if place is None else ops[place]
            children = [made() for _ in node.children]
            return replace(
                node, name=name, dispatched=op, launching=None, children=children
            )

        return made()

    def memory(self, batch: int) -> Memory:
        """The step's peak memory at a batch size."""
        held = []
        for holding, numbers in self.held:
            if isinstance(numbers[0], int):
                held.append(holding)
                continue
            size, *dims = [int(evaluate(number, batch) or 0) for number in numbers]
            held.append(replace(holding, size_bytes=size, dims=tuple(dims)))
        return peak(held, self.first.fake.names)


def _parts(nodes: Iterable[Node]) -> list[Parts | None]:
    return [
        None if node.dispatched is None else split_op(node.dispatched) for node in nodes
    ]


def _check_alike(
    first: Recording,
    row: Sequence[Parts | None],
    other: Recording,
    other_row: Sequence[Parts | None],
) -> None:
    """Raise `EstimateError` unless both recordings have the same ops in one order."""
    sides = (_ops(first, row), _ops(other, other_row))
    for one, two in zip_longest(*sides):
        if one is None or two is None or one[1] != two[1]:
            there = [
                (side[0].line, f"{_words(side[0])} at {recording.batch:,}")
                for side, recording in ((one, first), (two, other))
                if side is not None
            ]
            raise _otherwise(there, is_end=len(there) == 1)
    for node, twin in zip_longest(first.nodes, other.nodes):
        if node is None or twin is None or _frame(node) != _frame(twin):
            at = f"{_name(node)} at {first.batch:,}, {_name(twin)} at {other.batch:,}"
            raise _otherwise([("the step", at)])


def _ops(
    recording: Recording, row: Sequence[Parts | None]
) -> list[tuple[Dispatched, Form]]:
    pairs = zip(recording.nodes, row, strict=True)
    return [(n.dispatched, part[0]) for n, part in pairs if n.dispatched and part]


def _otherwise(there: list[tuple[str, str]], *, is_end: bool = False) -> EstimateError:
    """The error for a step that does different things at different batch sizes.

    The earlier line comes first: the branch or loop is there.
    """
    there = sorted(there, key=lambda side: _line_key(side[0]))
    found = ", ".join(f"{line}: {what}" for line, what in there)
    end = ", and nothing more at the other" if is_end else ""
    return EstimateError(f"{found}{end}: not a function of the batch size; {_ALONE}")


def _line_key(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number) if number.isdigit() else 0


def _frame(node: Node) -> tuple[object, ...]:
    """What must be equal at all batch sizes, besides the op."""
    is_named = node.kind == "op"
    name = node.name if is_named else split_text(node.name, [])
    return node.kind, name, len(node.children)


def _name(node: Node | None) -> str:
    if node is None:
        return "nothing more"
    return f"{node.name or 'the step'} with {len(node.children)} in it"


def _words(op: Dispatched) -> str:
    return f"{op.name} of {[list(shape.dims) for shape in op.tensors]}"


def _templates(
    batches: Sequence[int],
    nodes: Sequence[Node],
    rows: Sequence[Sequence[Parts | None]],
) -> tuple[tuple[Template, ...], tuple[int | None, ...]]:
    """The distinct ops as functions of the batch size, and each node's index."""
    known: dict[object, int] = {}
    templates: list[Template] = []
    places: list[int | None] = []
    wrong: dict[str, None] = {}
    for node, *several in zip(nodes, *rows, strict=True):
        parts = [part for part in several if part is not None]
        if node.dispatched is None or not parts:
            places.append(None)
            continue
        key = (parts[0][0], *(numbers for _, numbers in parts))
        if key not in known:
            known[key] = len(templates)
            numbers = _functions(batches, node.dispatched, parts, wrong)
            templates.append(Template(node.dispatched, numbers))
        places.append(known[key])
    if wrong:
        raise EstimateError(_not_affine(list(wrong)))
    return tuple(templates), tuple(places)


def _functions(
    batches: Sequence[int],
    op: Dispatched,
    parts: Sequence[Parts],
    wrong: dict[str, None],
) -> tuple[Function, ...]:
    """An op's numbers as functions; the first without one goes to `wrong`."""
    found: list[Function] = []
    for values in zip(*(numbers for _, numbers in parts), strict=True):
        try:
            found.append(fitted(batches, values))
        except ValueError:
            given = zip(values, batches, strict=True)
            sizes = ", ".join(f"{value:,} at {batch:,}" for value, batch in given)
            wrong[f"{op.line}: a size of {op.name} is {sizes}"] = None
            break
    return tuple(found)


def _not_affine(wrong: Sequence[str]) -> str:
    others = "".join(f"; {place}" for place in wrong[1:_MOST_PLACES])
    left = len(wrong) - _MOST_PLACES
    counted = f"; and {left} more" if left > 0 else ""
    return (
        f"{wrong[0]}, which is not an affine function of the batch "
        f"size{others}{counted}; {_ALONE}"
    )


def _names(batches: Sequence[int], nodes: Sequence[Node]) -> tuple[Function, ...]:
    """The numbers in a node's name: range names may contain the batch size."""
    if len({node.name for node in nodes}) == 1:
        return ()
    rows: list[list[Number]] = [[] for _ in nodes]
    for node, numbers in zip(nodes, rows, strict=True):
        split_text(node.name, numbers)
    found: list[Function] = []
    for values in zip(*rows, strict=True):
        try:
            found.append(fitted(batches, values))
        except ValueError:
            # Names do not affect times.
            found.append(values[0])
    return tuple(found)


def _held(
    batches: Sequence[int], held: Sequence[Sequence[Holding]]
) -> tuple[tuple[Holding, tuple[Function, ...]], ...]:
    """Allocations with sizes as functions; raises `EstimateError` if they differ."""
    found = []
    for column in zip_longest(*held):
        there = [holding for holding in column if holding is not None]
        try:
            functions = _sizes(batches, [split_holding(holding) for holding in there])
        except ValueError:
            sizes = ", ".join(f"{batch:,}" for batch in batches)
            raise EstimateError(
                f"{there[0].words} is not held in the same way at the batch sizes "
                f"{sizes}; {_ALONE}"
            ) from None
        found.append((there[0], functions))
    return tuple(found)


def _sizes(batches: Sequence[int], parts: Sequence[Parts]) -> tuple[Function, ...]:
    if len(parts) < len(batches) or any(form != parts[0][0] for form, _ in parts):
        raise ValueError("not the same storage")
    columns = zip(*(numbers for _, numbers in parts), strict=True)
    return tuple(fitted(batches, values) for values in columns)
