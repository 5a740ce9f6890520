"""Find the file and line of the user's code."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_OURS = str(Path(__file__).parent)
_FOUND = find_spec("torch")  # without importing it: estimates of graphs do without it
_TORCH = (
    str(Path(_FOUND.origin).parent) + os.sep if _FOUND and _FOUND.origin else os.devnull
)
"""PyTorch's own code, wherever it is installed; torchvision's is that of a library."""
_WRAPPERS = (f"{_TORCH}_dynamo", f"{_TORCH}_compile")
"""Code of PyTorch that only passes calls on."""
_MODULES = str(Path(_TORCH, "nn", "modules"))
_ASKING = frozenset(("__init__", "cuda", "to", "to_empty"))
"""Methods of modules by which code names a device."""
_STANDARD = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")
)
_INSTALLED = frozenset(("site-packages", "dist-packages"))
"""Folders of libraries."""


def is_ours(file: str) -> bool:
    """Whether a file belongs to this package."""
    return file.startswith(_OURS)


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a file is the user's: not this package's, nor a library's."""
    return not (
        is_ours(file)
        or file.startswith((_TORCH, *_STANDARD, "<frozen"))
        or _INSTALLED.intersection(Path(file).parts)
    )


@lru_cache(maxsize=4096)
def _passes_on(file: str) -> bool:
    return is_ours(file) or file.startswith(_WRAPPERS)


def is_torchs(file: str, part: str = "") -> bool:
    """Whether a file is PyTorch's own, or of that part of it (`optim/`)."""
    return file.startswith(_TORCH + part)


def is_ours_or_torchs(file: str) -> bool:
    """Whether a file is this package's or PyTorch's."""
    return is_ours(file) or is_torchs(file)


def frame_of_caller() -> FrameType:
    """The innermost frame of the user's code that is being executed."""
    frame = sys._getframe(1)  # noqa: SLF001 (what `inspect` itself uses, without files)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def of_caller() -> str:
    """The innermost line of the user's code that is being executed: `train.py:12`."""
    frame = frame_of_caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def of_error(error: BaseException) -> str:
    """The innermost line of the user's code in an error's traceback; empty if none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if is_users(frame.filename)
    ]
    return lines[-1] if lines else ""


def is_asked_by_user() -> bool:
    """Whether a device that PyTorch is given comes from the user's code or a library's.

    Modules pass on what they are given (`model.cuda()`, `nn.Linear(8, 8, device=...)`).
    """
    frame = torch_frame()
    if frame is None:
        return True
    asked = frame
    while frame is not None and is_ours_or_torchs(frame.f_code.co_filename):
        asked, frame = frame, frame.f_back
    file = asked.f_code.co_filename
    return file.startswith(_MODULES) and asked.f_code.co_name in _ASKING


def is_torch_calling() -> bool:
    """Whether the caller outside this package is PyTorch's own code."""
    return bool(of_torch())


def of_torch() -> str:
    """The file of PyTorch's own code that calls this package; empty for others."""
    frame = torch_frame()
    return "" if frame is None else frame.f_code.co_filename


def torch_frame() -> FrameType | None:
    """The frame of PyTorch's own code that calls this package; None for others."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and _passes_on(frame.f_code.co_filename):
        frame = frame.f_back
    return frame if is_torchs(frame.f_code.co_filename) else None
