"""Functions whose results no estimate has: each is refused, with its line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterator

_NESTED = ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "narrow")


def _nested(*_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 (as PyTorch has it)
    raise EstimateError(
        f"{place.of_caller()}: nested tensors are not estimated; pad them to the size "
        "that you expect"
    )


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse such functions within the block."""
    with changed(torch.nested, dict.fromkeys(_NESTED, _nested)):
        yield
