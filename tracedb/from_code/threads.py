"""Threads of the user's code: none computes with tensors of an estimate.

PyTorch's modes are of one thread, so what another one computes is not recorded.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch._subclasses.fake_tensor import FakeTensor

from tracedb.errors import EstimateError
from tracedb.from_code import blame, place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_thread() -> Iterator[None]:
    """Refuse, at the end of the block, what another thread has computed in it."""
    main = threading.get_ident()
    own: Any = FakeTensor.__torch_dispatch__
    refused: list[EstimateError] = []

    def dispatch(_: type, func: Any, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401
        # C++ asks for the device, and would not survive an error.
        if threading.get_ident() == main or func.namespace == "prim":
            return own(func, *args, **kwargs)
        raise _refusal(place.of_caller())

    def failed(given: threading.ExceptHookArgs) -> None:
        """Keep why a thread ended: it also finds no GPU, say."""
        error = given.exc_value
        if isinstance(error, EstimateError):
            refused.append(error)
        elif error is None or blame.is_own(error):
            threading.__excepthook__(given)
        elif isinstance(error, Exception):
            refused.append(_refusal(place.of_error(error) or "the step"))

    with (
        changed(FakeTensor, {"__torch_dispatch__": classmethod(dispatch)}),
        changed(threading, {"excepthook": failed}),
    ):
        yield
    for error in refused[:1]:
        raise error


def _refusal(where: str) -> EstimateError:
    return EstimateError(
        f"{where}: it computes on a thread of its own, which is not estimated; let the "
        "step compute on one thread"
    )
