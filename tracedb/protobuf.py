"""Read and write the Protocol Buffers wire format.

MLCommons Chakra and Perfetto use it. A message is a list of fields, each with a number,
a wire type and a value. The format is simple enough to do without a package, and own
code can report the place of broken bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Field = tuple[int, int, Any]

# Wire types: the lowest three bits of a field's key.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_LAST = 0x80
_WORD = 0xFFFFFFFFFFFFFFFF


class BrokenError(ValueError):
    """The bytes are not a message."""


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """The number, wire type and value of each field of a message.

    >>> list(fields(number(1, 300) + text(2, "ab")))
    [(1, 0, 300), (2, 2, b'ab')]
    """
    place = start
    end = len(data) if end is None else end
    while place < end:
        key, place = varint(data, place)
        layout = key & 7
        value: Any
        if layout == VARINT:
            value, place = varint(data, place)
        else:
            length, place = _length(data, place, layout)
            value = part(data, place, length)
            place += length
        yield key >> 3, layout, value


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and bytes of each length-prefixed message."""
    place = 0
    while place < len(data):
        length, start = varint(data, place)
        yield start, part(data, start, length)
        place = start + length


def numbers(layout: int, value: Any) -> Iterator[int]:  # noqa: ANN401 (of any layout)
    """The integers of a field: one, or several packed into bytes."""
    if layout == VARINT:
        yield value
        return
    place = 0
    while place < len(value):
        one, place = varint(value, place)
        yield one


def part(data: bytes, start: int, length: int) -> bytes:
    """`length` bytes from `start`; raises `BrokenError` if there are fewer."""
    found = data[start : start + length]
    if len(found) < length:
        raise BrokenError(f"a message of {length} bytes ends after {len(found)}")
    return found


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Decode a varint; return it and the offset after it."""
    found = 0
    for count in range(_MAX_VARINT_BYTES):
        if place + count >= len(data):
            raise BrokenError("the file ends within a number")
        byte = data[place + count]
        found |= (byte & 0x7F) << (7 * count)
        if byte < _LAST:
            return found & _WORD, place + count + 1
    raise BrokenError("a number of more than ten bytes")


def signed(bits: int, value: int) -> int:
    """Interpret an integer of `bits` bits as signed.

    >>> signed(32, 2**32 - 1)
    -1
    """
    top = 1 << (bits - 1)
    return ((value & (2 * top - 1)) ^ top) - top


def _length(data: bytes, place: int, layout: int) -> tuple[int, int]:
    if layout == BYTES:
        return varint(data, place)
    if layout not in SIZES:
        raise BrokenError(f"a field with the unknown wire type {layout}")
    return SIZES[layout], place


def encoded(value: int) -> bytes:
    """A number of seven bits a byte; a negative one as that of 64 bits."""
    value &= _WORD
    found = bytearray()
    while value >= _LAST:
        found.append(value & 0x7F | _LAST)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A field with a whole number."""
    return encoded(field << 3) + encoded(value)


def double(field: int, value: float) -> bytes:
    """A field with a number of 64 bits."""
    return encoded(field << 3 | FIXED64) + struct.pack("<d", value)


def message(field: int, content: bytes | Iterable[bytes]) -> bytes:
    """A field with a message, or the parts of one."""
    data = content if isinstance(content, bytes) else b"".join(content)
    return encoded(field << 3 | BYTES) + encoded(len(data)) + data


def text(field: int, value: str) -> bytes:
    """A field with a text."""
    return message(field, value.encode(errors="backslashreplace"))
