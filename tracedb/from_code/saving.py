"""Checkpoints: tensors are copied to the host, and no file is written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from tracedb.from_code.changed import changed
from tracedb.from_code.tensors import tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.from_code.recorder import Recorder


@contextmanager
def saving(recorder: Recorder) -> Iterator[None]:
    """Let `torch.save` overwrite nothing within the block."""

    def saved(obj: object, *_: object, **__: object) -> None:
        for tensor in tensors_of(obj):
            if recorder.is_on_cuda(tensor):
                tensor.cpu()

    with changed(torch, {"save": saved}):
        yield
