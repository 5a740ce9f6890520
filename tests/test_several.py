"""Ops that PyTorch implements by several others, against what it really dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from allocator import estimated, real_peak, step_of
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from tracedb.from_code import parts, several

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    Tensor = torch.Tensor

ATEN: Any = torch.ops.aten
MASKED = torch.full((3, 5), float("-inf"))
MASKED[0] = torch.arange(5)
GIVEN = torch.arange(15.0).view(3, 5)
CASES: list[tuple[Any, list[Any]]] = [
    (ATEN._safe_softmax.default, [MASKED, -1]),  # noqa: SLF001 (its only name)
    (ATEN._safe_softmax.default, [MASKED, 0, torch.float64]),  # noqa: SLF001
    *(
        (ATEN.logsumexp.default, [given, dims, keepdim])
        for given in (GIVEN, MASKED)
        for dims in ([1], [0, 1])
        for keepdim in (True, False)
    ),
    (ATEN.logsumexp.default, [GIVEN.long(), [1]]),
    *(
        (ATEN.constant_pad_nd.default, [GIVEN, pad, 2.0])
        for pad in ([1, 2], [-1, -2], [0, 0], [-1, 2, 1, -1], [1, 0, 0, 3])
    ),
    (ATEN.slice_backward.default, [GIVEN, [9, 5], 0, 1, 9, 3]),
    (ATEN.select_backward.default, [GIVEN, [3, 4, 5], 1, -2]),
    (ATEN.diagonal_backward.default, [GIVEN, [3, 5, 9], 1, 1, 2]),
]
VIEWS = "slice narrow select diagonal squeeze new_empty empty real"
"""What takes no time."""
CALLING = "logsumexp softmax to"
"""What calls the op that does the work."""


class Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The names of the ops that are dispatched."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (an overload of an op)
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Note one."""
        del types
        self.found.append(func._schema.name)  # noqa: SLF001 (it has no public name)
        return func(*args, **(kwargs or {}))


def work(names: Iterable[str]) -> list[str]:
    """Those that do the work."""
    known = {f"aten::{name}" for name in VIEWS.split()}
    return [name for name in names if name not in known]


def real_ops(func: Any, args: list[Any]) -> list[str]:  # noqa: ANN401
    """What PyTorch calls within an op, by its profiler."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        func(*args)
    (op,) = [one for one in profiler.events() or () if one.cpu_parent is None]
    return work(called(op))


def called(op: Any) -> Iterator[str]:  # noqa: ANN401 (an event of the profiler)
    """The names of the ops that an op calls."""
    for child in op.cpu_children:
        if child.name.removeprefix("aten::") in CALLING.split():
            yield from called(child)
        else:
            yield child.name


@pytest.mark.parametrize(("func", "args"), CASES, ids=str)
def test_an_op_is_the_ops_that_pytorch_calls(
    func: Any,  # noqa: ANN401
    args: list[Any],
) -> None:
    """They are the same ops in the same order, and have the same result."""
    made: Any
    with Names() as names:
        made = several.KNOWN[func](*args)
    assert work(names.found) == real_ops(func, args)
    torch.testing.assert_close(made, func(*args), rtol=0, atol=0)


def test_graphs_and_code_divide_the_same_ops() -> None:
    """The names of graphs are those of the functions that code is told by."""
    names = {func._schema.name for func in several.KNOWN}  # noqa: SLF001
    assert names == set(parts.OF_SEVERAL)


@pytest.mark.parametrize(
    "function",
    [
        lambda h: functional.pad(h, (3, 2)).relu(),
        lambda h: functional.pad(h, (-3, 2, 1, -1)).relu(),
        lambda h: functional.pad(h, (-3, -2)).relu(),
        lambda h: h[3].exp() + h[4].exp(),
        lambda h: h.diagonal().exp(),
        lambda h: h[:, 3:60].exp(),
        lambda h: h.logsumexp(0).exp(),
    ],
    ids=["padded", "cut, padded", "cut", "select", "diagonal", "slice", "logsumexp"],
)
def test_the_peak_is_that_of_the_allocator(
    function: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    """The memory of a step is that of PyTorch's ops, one after another."""

    def make() -> Callable[[], None]:
        return step_of(function, 64, 128)

    peak = estimated(make).memory.peak_bytes
    assert peak == pytest.approx(real_peak(make, tmp_path), rel=0.005)
