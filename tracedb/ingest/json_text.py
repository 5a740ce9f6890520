"""Inspect text that may be JSON, without raising errors."""

from __future__ import annotations

import json
import re

import msgspec
from msgspec import Raw

REPEATED = "left out: repeated fields"
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r"\(byte (\d+)\)")
_object = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder(Raw)


def parts(text: bytes) -> dict[str, Raw] | None:
    """The fields of an object as raw text; None if the text is not one."""
    try:
        return _object.decode(text)
    except NOT_JSON:
        return None


def field_count(text: bytes) -> int:
    """The number of fields of an object, including repeated ones."""
    counts = [0]
    try:
        json.loads(
            text, object_pairs_hook=lambda f: counts.append(len(f)), parse_int=str
        )
    except (ValueError, RecursionError):
        return 0
    return counts[-1]  # the outermost object ends last


def entries(text: bytes) -> list[bytes] | None:
    """The entries of a list as raw text; None if the text is not one."""
    try:
        return [bytes(entry) for entry in _list.decode(text)]
    except NOT_JSON:
        return None


def joined(texts: list[bytes]) -> bytes:
    """The text of a list of entries."""
    return b"[" + b",".join(texts) + b"]"


def why_no_object(text: bytes) -> str:
    """Why a text is not a JSON object."""
    try:
        msgspec.json.decode(text)
    except NOT_JSON as error:
        return str(error)
    return "a JSON value that is not an object"


def value_end(text: bytes, start: int) -> int | None:
    """The end of the JSON value at `start`; None if there is none."""
    return read_value(text, start)[0]


def read_value(text: bytes, start: int) -> tuple[int | None, int]:
    """The end of the value at `start`, or None, and the number of bytes parsed."""
    try:
        _any.decode(memoryview(text)[start:])
    except RecursionError:
        return None, len(text) - start
    except msgspec.DecodeError as error:
        behind = place_behind(str(error))
        if behind is not None:
            return _end(text, start, start + behind), behind
        found = _BYTE.search(str(error))
        return None, int(found[1]) if found else len(text) - start
    return _end(text, start, len(text)), len(text) - start


def place_behind(error: str) -> int | None:
    """The offset after a whole value, if an error says that text follows it."""
    found = _TRAILING.search(error)
    # The reported offset is one byte after the end of the value.
    return int(found[1]) - 1 if found else None


def _end(text: bytes, start: int, stop: int) -> int:
    return start + len(text[start:stop].rstrip())


def is_utf8(text: bytes) -> bool:
    """Whether a whole text is UTF-8, which JSON readers do not check."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
