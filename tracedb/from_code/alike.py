"""Functions of PyTorch that run code in another way: here they just run it.

A profiler in the step would end the one that records it. What is traced, and a branch
of `torch.cond`, computes as the same code without.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.autograd import profiler as of_autograd
from torch.profiler import profile

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DOING = "start stop step export_chrome_trace export_stacks export_memory_timeline"
_ANSWERING = "events key_averages"


class Recording(profile):
    """The profiler of the estimate itself."""


@contextmanager
def alike() -> Iterator[None]:
    """Let such functions only run what they are given within the block."""
    answering = dict.fromkeys(_ANSWERING.split(), _asked)
    doing = {name: _done(name) for name in _DOING.split()}
    older = {"__enter__": _entered, "__exit__": _left()}
    with ExitStack() as stack:
        stack.enter_context(changed(profile, {**doing, **answering}))
        stack.enter_context(changed(of_autograd.profile, {**older, **answering}))
        stack.enter_context(changed(torch.jit, {"trace": _traced}))
        stack.enter_context(changed(torch, {"cond": _one_of}))
        yield


def _done(name: str) -> Callable[..., None]:
    """A method that only the estimate's profiler has."""
    own = getattr(profile, name)

    def done(one: profile, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (as PyTorch has it)
        if isinstance(one, Recording):
            own(one, *args, **kwargs)

    return done


def _entered(one: Any) -> Any:  # noqa: ANN401 (as PyTorch has it)
    """Begin nothing: only the user's code calls it."""
    one.is_users = True
    return one


def _left() -> Callable[..., None]:
    """An `__exit__` that ends what PyTorch's own code has begun."""
    own: Callable[..., None] = of_autograd.profile.__exit__

    def left(one: Any, *error: object) -> None:  # noqa: ANN401 (as PyTorch has it)
        if not hasattr(one, "is_users"):
            own(one, *error)

    return left


def _asked(*_: object, **__: object) -> NoReturn:
    raise EstimateError(
        f"{place.of_caller()}: a profiler in the step records nothing here; let the "
        "step not ask for its events"
    )


def _traced(function: Any, *_: object, **__: object) -> Any:  # noqa: ANN401 (as PyTorch has it)
    return function


def _one_of(
    is_true: Any,  # noqa: ANN401 (a tensor or a bool)
    then: Callable[..., object],
    otherwise: Callable[..., object],
    operands: Sequence[object] = (),
) -> object:
    """A branch, chosen as an `if` chooses it."""
    return then(*operands) if is_true else otherwise(*operands)
