"""Read the neighbours' formats as if the events were Kineto's.

A reader turns what another profiler wrote into rows with the meaning of `raw.event`, so
that every layer above works unchanged. Execution graphs of MLCommons Chakra have a
reader of their own, `chakra`: they hold nodes, no events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tracedb.ingest.foreign import (
    chakra,
    flight_recorder,
    nccl_inspector,
    nsight,
    operations,
    perfetto,
    rocprof,
)
from tracedb.ingest.foreign.event import ForeignTrace

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "HEAD_BYTES",
    "ForeignReader",
    "ForeignTrace",
    "chakra",
    "flight_recorder",
    "nccl_inspector",
    "operations",
    "perfetto",
    "reader_of",
]

# What `recognises` wants to see of a file.
HEAD_BYTES = 64


class ForeignReader(Protocol):
    """What a module of this folder offers."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether it is of this format, by the first 64 bytes and the schema.

        A folder has no bytes. It never raises.
        """

    def read(self, path: Path) -> ForeignTrace:
        """Read it; the batches are read as they are asked for.

        Raises `IngestError`, and so do the batches, where it is broken.
        """


_READERS: tuple[ForeignReader, ...] = (
    nsight,
    rocprof,
    operations,
    flight_recorder,
    nccl_inspector,
    perfetto,
)


def reader_of(path: Path, head: bytes) -> ForeignReader | None:
    """The reader that knows this file or folder, if one does."""
    return next((r for r in _READERS if r.recognises(path, head)), None)
