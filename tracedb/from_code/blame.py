"""Whose an error is: the user's code, or the fake tensors that it runs on."""

from __future__ import annotations

import dis
import re
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracedb.errors import TracedbError
from tracedb.from_code import place
from tracedb.from_code.unknown import is_about

if TYPE_CHECKING:
    from types import TracebackType

_RAISING = frozenset(("RAISE_VARARGS", "RERAISE"))
"""Instructions of Python by which code raises an error of its own."""
_FAKE_KINDS = ("torch._subclasses", "torch.fx.experimental")
"""Modules of PyTorch whose errors are about fake tensors only."""
_FAKE_WORDS = re.compile(
    r"\b[Ff]ake ?[Tt]ensor|\bfake\b|[Mm]eta (tensor|backend|kernel)|'Meta'"
    r"|data pointer|data-dependent|SymInt|doesn't have storage|Cannot access storage"
    r"|for 'meta' device|not allocated yet|only available on CPU"
)
"""Words of errors that PyTorch raises about tensors without values."""
_UNEXPECTED = (AssertionError, AttributeError, KeyError, NotImplementedError)
"""Errors that a check of arguments, which real tensors have too, does not raise."""
_TENSORS = "_subclasses/"
"""The part of PyTorch that has fake tensors."""


def first(error: BaseException) -> BaseException:
    """The error that matters: one of fake tensors, also where the code replaced it.

    The error itself, if it came from no other such.
    """
    found: BaseException | None = error
    while found is not None and not is_of_fakes(found):
        inner = None if found.__suppress_context__ else found.__context__
        found = found.__cause__ or inner
    return error if found is None else found


def is_own(error: BaseException) -> bool:
    """Whether a line of the user's code, or of another library, raises the error."""
    last = _last(error)
    if last is None or place.is_ours_or_torchs(last.tb_frame.f_code.co_filename):
        return False
    code = last.tb_frame.f_code
    return dis.opname[code.co_code[last.tb_lasti]] in _RAISING


def is_missing(error: BaseException) -> bool:
    """Whether code asks a tensor for an attribute that real tensors lack, too."""
    return (
        isinstance(error, AttributeError)
        and isinstance(error.obj, torch.Tensor)
        and not hasattr(torch.Tensor, error.name or "")
    )


def is_of_fakes(error: BaseException) -> bool:
    """Whether an error would not occur with real tensors."""
    if isinstance(error, TracedbError) or is_about(error):
        return True
    if type(error).__module__.startswith(_FAKE_KINDS):
        return True
    if is_own(error) or is_missing(error):
        return False
    if _FAKE_WORDS.search(said(error)):
        return True
    last = _last(error)
    return (
        last is not None
        and isinstance(error, _UNEXPECTED)
        and _is_fakes(last.tb_frame.f_code.co_filename)
    )


def _is_fakes(file: str) -> bool:
    return place.is_ours(file) or place.is_torchs(file, _TENSORS)


def _last(error: BaseException) -> TracebackType | None:
    """The innermost entry of an error's traceback."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return found


def named(error: BaseException) -> str:
    """The type of an error and what it says, in one line.

    >>> named(ValueError("no such option"))
    'ValueError: no such option'
    """
    kind = type(error).__name__
    text = error.msg if isinstance(error, SyntaxError) else said(error)
    if is_missing(error):
        text = text.replace(f"'{FakeTensor.__name__}'", f"'{torch.Tensor.__name__}'")
    first, _, more = text.strip().partition("\n")
    if first.endswith(":"):
        first = f"{first} {' '.join(more.split())}"
    return f"{kind}: {first}" if first else kind


def said(error: BaseException) -> str:
    """The text of an error of the user's code; empty where it has none."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (the user's code makes the text, too)
        return ""
