"""Checkpoints: tensors are copied to the host, and no file is written.

What the code has saved it can load again: its objects are kept as `torch.save` pickles
them, and of its tensors their forms. A buffer of the code has a mark in their place.
"""

from __future__ import annotations

import io
import os
import pickle
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tracedb.from_code.changed import changed
from tracedb.from_code.tensors import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.recorder import Recorder

_MARK = b"saved on fake tensors %08d"
_SIZE = len(_MARK % 0)


@dataclass(frozen=True)
class _Form:
    """What a tensor is, but for its values."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    is_parameter: bool
    needs_gradient: bool
    is_on_gpu: bool

    def made(self, where: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """A new tensor of this form, moved to its device."""
        made = where(torch.empty_strided(self.shape, self.strides, dtype=self.dtype))
        if self.is_parameter:
            return torch.nn.Parameter(made, self.needs_gradient)
        return made.requires_grad_(self.needs_gradient)


@dataclass
class _Saved:
    """A pickled object, and the forms of its tensors."""

    text: bytes = b""
    forms: list[_Form] = field(default_factory=list)


class _Pickler(pickle.Pickler):
    """Pickles tensors as numbers, and notes their forms; the same one only once."""

    def __init__(self, file: io.BytesIO, saved: _Saved, recorder: Recorder) -> None:
        super().__init__(file)
        self._saved = saved
        self._recorder = recorder
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, torch.Tensor):
            return None
        if id(obj) not in self._numbers:
            self._numbers[id(obj)] = len(self._saved.forms)
            self._saved.forms.append(self._form(obj))
        return self._numbers[id(obj)]

    def _form(self, tensor: torch.Tensor) -> _Form:
        return _Form(
            tuple(tensor.shape), tensor.stride(), tensor.dtype,
            isinstance(tensor, torch.nn.Parameter), tensor.requires_grad,
            self._recorder.is_on_cuda(tensor),
        )  # fmt: skip


class _Unpickler(pickle.Unpickler):
    """Makes tensors of the noted forms."""

    def __init__(self, saved: _Saved, made: Callable[[_Form], torch.Tensor]) -> None:
        super().__init__(io.BytesIO(saved.text))
        self._forms, self._make = saved.forms, made
        self._made: dict[int, torch.Tensor] = {}

    def persistent_load(self, pid: Any) -> torch.Tensor:  # noqa: ANN401 (as `pickle` has it)
        if pid not in self._made:
            self._made[pid] = self._make(self._forms[pid])
        return self._made[pid]


class _Checkpoints:
    """Replaces `torch.save` and `torch.load`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._load = torch.load
        self._all: dict[str | bytes, _Saved] = {}
        """By the path of the file, or the mark in a buffer."""

    def save(self, obj: object, f: Any, *_: object, **__: object) -> None:  # noqa: ANN401 (a path or a file)
        """Copy tensors to the host and keep their forms."""
        for tensor in tensors_of(obj):
            if self._recorder.is_on_cuda(tensor):
                tensor.cpu()
        saved, text = _Saved(), io.BytesIO()
        _Pickler(text, saved, self._recorder).dump(obj)
        saved.text = text.getvalue()
        name = _name(f)
        mark = _MARK % len(self._all)
        self._all[name or mark] = saved
        if not name:
            f.write(mark)

    def load(
        self,
        f: Any,  # noqa: ANN401 (a path or a file)
        map_location: Any = None,  # noqa: ANN401 (a device, names of some, a function)
        *args: Any,  # noqa: ANN401 (as PyTorch has it)
        **kwargs: Any,  # noqa: ANN401
    ) -> object:
        """Make what was saved anew; whatever else a file has, PyTorch loads."""
        saved = self._found(f)
        if saved is None:
            return self._load(f, map_location, *args, **kwargs)
        return _Unpickler(saved, partial(self._made, map_location)).load()

    def _found(self, f: Any) -> _Saved | None:  # noqa: ANN401
        name = _name(f)
        if name:
            return self._all.get(name)
        begin = f.tell()
        saved = self._all.get(f.read(_SIZE))
        if saved is None:
            f.seek(begin)
        return saved

    def _made(self, location: Any, form: _Form) -> torch.Tensor:  # noqa: ANN401
        """A tensor, made on the host and copied to where it was or is wanted."""
        is_named = isinstance(location, (str, torch.device))
        device = location if is_named else "cuda" if form.is_on_gpu else None
        if device is None or not self._recorder.side.is_gpu_named:
            return form.made(lambda made: made)
        with self._recorder.side.placing(on_gpu=False):
            return form.made(lambda made: made.to(device))


def _name(f: Any) -> str:  # noqa: ANN401 (a path or a file)
    """The absolute path of a file that is given by its path, or is open; or ""."""
    named = getattr(f, "name", f) if hasattr(f, "read") else f
    is_path = isinstance(named, (str, os.PathLike))
    return os.path.abspath(os.fspath(named)) if is_path else ""  # noqa: PTH100 (of any kind)


@contextmanager
def saving(recorder: Recorder) -> Iterator[None]:
    """Let `torch.save` overwrite nothing within the block, and find it again."""
    kept = _Checkpoints(recorder)
    with changed(torch, {"save": kept.save, "load": kept.load}):
        yield
