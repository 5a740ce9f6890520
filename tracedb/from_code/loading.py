"""Data loaders load for real, and none of it is recorded.

What they read is the user's own data, whose values decide what they do (samplers,
padding). So their code runs on real tensors, in this process, whatever the number of
workers; only what the step does with a batch is estimated.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, dataloader

from tracedb.from_code.changed import changed
from tracedb.from_code.fake_mesh import really
from tracedb.from_code.tensors import tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.from_code.recorder import Recorder

_IN_THIS_PROCESS = {"num_workers": 0, "timeout": 0, "pin_memory": False}


def _tensors(batch: object) -> Iterator[torch.Tensor]:
    """The tensors of a batch, which may be an object of the user's own."""
    if isinstance(batch, (torch.Tensor, list, tuple, dict)):
        yield from tensors_of(batch)
    elif hasattr(batch, "__dict__"):
        for value in vars(batch).values():
            yield from _tensors(value)


@contextmanager
def loading(recorder: Recorder) -> Iterator[None]:
    """Let data loaders load for real within the block."""
    following = dataloader._BaseDataLoaderIter.__next__  # noqa: SLF001 (it has no public name)

    def started(loader: DataLoader[Any]) -> object:
        with really(), recorder.apart(), changed(loader, _IN_THIS_PROCESS):
            return dataloader._SingleProcessDataLoaderIter(loader)  # noqa: SLF001

    def following_one(iterator: Any) -> object:  # noqa: ANN401 (it has no public name)
        with really(), recorder.apart():
            batch: object = following(iterator)
            for tensor in _tensors(batch):
                recorder.load(tensor)
        return batch

    with (
        changed(DataLoader, {"_get_iterator": started}),
        changed(dataloader._BaseDataLoaderIter, {"__next__": following_one}),  # noqa: SLF001
    ):
        yield
