"""Read other profilers' formats as if their events were Kineto's.

A reader converts a file into rows of `raw.event`, so that all layers above work
unchanged. Execution graphs of MLCommons Chakra have nodes instead of events; `chakra`
reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tracedb.ingest.foreign import (
    ascend,
    chakra,
    flight_recorder,
    nccl_inspector,
    nsight,
    operations,
    perfetto,
    rocprof,
    rpd,
    xla,
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
    "parts_of",
    "perfetto",
    "reader_of",
    "xla",
]

# The size of the `head` that `recognises` gets.
HEAD_BYTES = 64


class ForeignReader(Protocol):
    """The interface of this folder's modules."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file has this format, by its first 64 bytes, name or schema.

        For a folder, `head` is empty. It never raises.
        """

    def read(self, path: Path) -> ForeignTrace:
        """Read a file; its batches are read lazily.

        Raises `IngestError` if the file is broken, also while batches are read.
        """


class DividedReader(ForeignReader, Protocol):
    """The interface of modules whose files may have several traces."""

    def parts(self, path: Path) -> list[int]:
        """The parts that are traces of their own, if there are several.

        It never raises.
        """

    def read(self, path: Path, part: int | None = None) -> ForeignTrace:
        """Read one part, or the whole file as one trace; see `ForeignReader`."""


@dataclass(frozen=True)
class _PartReader:
    """A reader of one part of a file."""

    whole: DividedReader
    part: int

    def recognises(self, path: Path, head: bytes) -> bool:
        """See `ForeignReader`."""
        return self.whole.recognises(path, head)

    def read(self, path: Path) -> ForeignTrace:
        """See `ForeignReader`."""
        return self.whole.read(path, self.part)


_DIVIDED: tuple[DividedReader, ...] = (nsight, rpd, rocprof)
_READERS: tuple[ForeignReader, ...] = (
    *_DIVIDED,
    operations,
    flight_recorder,
    nccl_inspector,
    perfetto,
    xla,
    ascend,
)


def reader_of(path: Path, head: bytes, part: int | None = None) -> ForeignReader | None:
    """The reader that recognises a file or folder, if any; of a part, its own."""
    if part is not None:
        whole = _divided(path, head)
        return whole and _PartReader(whole, part)
    return next((r for r in _READERS if r.recognises(path, head)), None)


def parts_of(path: Path, head: bytes) -> list[int]:
    """The parts of a file that are traces of their own, if there are several."""
    divided = _divided(path, head)
    return divided.parts(path) if divided else []


def _divided(path: Path, head: bytes) -> DividedReader | None:
    return next((r for r in _DIVIDED if r.recognises(path, head)), None)
