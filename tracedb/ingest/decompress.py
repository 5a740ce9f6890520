"""Read a file as a stream of text: plain, gzip or zstd."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_BLOCK = 1 << 20
_SMALL_BLOCK = 1 << 16
_SMALLEST_PIECE = 1 << 12
_FEW = 64
_WITH_HEADER = 31
# Real traces compress 15 to 20 times, repetitive ones 200 times, bombs 1,000 times.
_LARGEST_RATIO = 500
_HARMLESS = 1 << 28


@dataclass
class Text:
    """The decompressed text of a file in blocks, and any damage found."""

    path: str
    file: IO[bytes]
    read_bytes: int = 0
    text_bytes: int = 0
    damage: str = ""
    _head: bytes = field(default=b"", repr=False)

    def blocks(self) -> Iterator[bytes]:
        """Yield the text; a broken stream ends early and leaves `damage`.

        Raises `IngestError` if the file cannot be read, or is a decompression bomb.
        """
        self._head = self._read()
        if self._head.startswith(_GZIP):
            source = self._gzip()
        elif self._head.startswith(_ZSTANDARD):
            source = self._zstandard()
        else:
            source = self._plain()
        for block in source:
            self.text_bytes += len(block)
            self._refuse_bomb()
            yield block

    def _read(self) -> bytes:
        try:
            block = self.file.read(_BLOCK)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.read_bytes += len(block)
        return block

    def _plain(self) -> Iterator[bytes]:
        block = self._head
        while block:
            yield block
            block = self._read()

    def _gzip(self) -> Iterator[bytes]:
        """Yield the text of all members of a gzip file."""
        member = zlib.decompressobj(_WITH_HEADER)
        packed, size = _Packed(self._head, self._read), _SMALLEST_PIECE
        while piece := packed.take(size):
            before = member.copy()
            try:
                text = member.decompress(piece, 8 * _BLOCK)
            except zlib.error as error:
                self.damage = f"the gzip stream is broken: {error}"
                yield from _up_to_error(before, piece)
                return
            if text:
                yield text
            size = min(_BLOCK, 4 * size)
            # At the end of a member, unconsumed_tail may repeat the unused data.
            left = member.unused_data if member.eof else member.unconsumed_tail
            packed.put_back(len(left))
            if member.eof and packed.skip_zeros():
                member, size = zlib.decompressobj(_WITH_HEADER), _SMALLEST_PIECE
        if not member.eof:
            self.damage = "the gzip stream ends early"

    def _zstandard(self) -> Iterator[bytes]:
        import pyarrow as pa

        self.file.seek(0)
        with pa.CompressedInputStream(pa.PythonFile(self.file), "zstd") as stream:
            while True:
                try:
                    # Small blocks, because a block with an error is lost.
                    block = stream.read(_SMALL_BLOCK)
                except OSError as error:
                    self.damage = f"the zstd stream is broken: {error}"
                    return
                if not block:
                    return
                self.read_bytes = self.file.tell()
                yield block

    def _refuse_bomb(self) -> None:
        if self.text_bytes > most_text(self.read_bytes):
            raise bomb(self.path)


class _Packed:
    """The bytes of a file, in pieces that may be partly put back.

    A file may have very many members, and zlib copies what a member leaves over; so the
    first piece of each member is small.
    """

    def __init__(self, head: bytes, read: Callable[[], bytes]) -> None:
        self._block = memoryview(head)
        self._place = 0
        self._read = read

    def take(self, size: int) -> memoryview:
        """The next bytes, `size` or fewer; empty at the end."""
        if self._place >= len(self._block):
            self._block, self._place = memoryview(self._read()), 0
        piece = self._block[self._place : self._place + size]
        self._place += len(piece)
        return piece

    def put_back(self, count: int) -> None:
        """Put the last bytes of the last piece back."""
        self._place -= count

    def skip_zeros(self) -> bool:
        """Skip zeros between members; return whether more follows."""
        while piece := self.take(_FEW):
            rest = len(bytes(piece).lstrip(b"\0"))
            if rest:
                self.put_back(rest)
                return True
        return False


def most_text(stored_bytes: int) -> int:
    """[B] The largest accepted text of a file of a size [B]."""
    return max(_HARMLESS, _LARGEST_RATIO * stored_bytes)


def bomb(name: str) -> IngestError:
    """The error for a file with more text than that."""
    return IngestError(
        f"{name}: decompresses to more than {_LARGEST_RATIO} times its size; if it is "
        "a trace, decompress it first"
    )


def _up_to_error(member: zlib._Decompress, block: memoryview) -> Iterator[bytes]:
    """The text of a broken block up to the error, byte by byte."""
    for place in range(len(block)):
        try:
            text = member.decompress(block[place : place + 1])
        except zlib.error:
            return
        if text:
            yield text


def unreadable(name: str, error: OSError) -> IngestError:
    """The error for a file that the system cannot read."""
    return IngestError(f"{name}: cannot be read: {error.strerror}")
