"""Read execution traces of MLCommons Chakra (`.et`) as PyTorch's execution graphs.

A file holds length-prefixed Protocol Buffers messages: one GlobalMetadata, then Nodes.
The nodes become those of a PyTorch execution graph, schema 1.1.0.
"""

from __future__ import annotations

import ast
import gzip
import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracedb.errors import IngestError
from tracedb.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    SIZES,
    VARINT,
    BrokenError,
    fields,
    messages,
    numbers,
    part,
    signed,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["read_nodes", "recognises"]

_ENDINGS = (".et", ".et.gz")
_GZIP = b"\x1f\x8b"

# Field numbers of the messages, from Chakra's schema (et_def.proto).
_ATTRIBUTE_NAME, _ATTRIBUTE_DOC = 1, 2
_NODE_FIELDS = {
    1: "id",
    6: "start_time_micros",
    7: "duration_micros",
    11: "storage",
}
_IO_FIELDS = {1: "values", 2: "shapes", 3: "types"}
_NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
)


class _Kind(NamedTuple):
    """A type of values: its name, its wire type, and its decoder."""

    name: str
    layout: int
    value: Callable[[Any], Any]


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _unpacked(form: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(form, data)[0]


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


# From field 3 on, each type has a field for one value and a field for a list.
_KINDS = (
    _Kind("double", FIXED64, _unpacked("<d")),
    _Kind("float", FIXED32, _unpacked("<f")),
    _Kind("int32", VARINT, partial(signed, 32)),
    _Kind("int64", VARINT, partial(signed, 64)),
    _Kind("uint32", VARINT, int),
    _Kind("uint64", VARINT, int),
    _Kind("sint32", VARINT, _zigzag),
    _Kind("sint64", VARINT, _zigzag),
    _Kind("fixed32", FIXED32, _unpacked("<I")),
    _Kind("fixed64", FIXED64, _unpacked("<Q")),
    _Kind("sfixed32", FIXED32, _unpacked("<i")),
    _Kind("sfixed64", FIXED64, _unpacked("<q")),
    _Kind("bool", VARINT, bool),
    _Kind("string", BYTES, _text),
    _Kind("bytes", BYTES, bytes.hex),
)
_FIRST_VALUE = 3

Attribute = dict[str, Any]


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is a Chakra trace: by name, as the encoding has no magic bytes."""
    if not path.name.endswith(_ENDINGS):
        return False
    if head.startswith(_GZIP):
        return True
    try:
        length, start = varint(head, 0)
    except BrokenError:
        return False
    return length == 0 or head[start : start + 1] in (b"\x0a", b"\x12")


def read_nodes(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """The header, and the nodes as JSON in PyTorch's form.

    Raises `IngestError` with the offset at which the file is broken.
    """
    data = _content(path)
    messages = _messages(path, data)
    header = _decoded(path, next(messages, (0, b"")), _header)
    nodes = [_decoded(path, message, _node) for message in messages]
    if not nodes:
        raise IngestError(f"{path}: no nodes in this Chakra trace; convert it again")
    return header, [msgspec.json.encode(node) for node in nodes]


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise IngestError(f"{path}: cannot be read: {error}") from error


def _messages(path: Path, data: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and bytes of each message."""
    place = 0
    try:
        for start, content in messages(data):
            yield start, content
            place = start + len(content)
    except BrokenError as error:
        raise _error(path, place, error) from error


def _decoded(
    path: Path, message: tuple[int, bytes], decode: Callable[[bytes], dict[str, Any]]
) -> dict[str, Any]:
    place, data = message
    try:
        return decode(data)
    except (BrokenError, struct.error, TypeError, AttributeError) as error:
        raise _error(path, place, error) from error


def _error(path: Path, place: int, error: Exception) -> IngestError:
    return IngestError(
        f"{path}: byte {place}: {error}; the file is truncated, or not a Chakra trace "
        "of schema 0.0.4 or later; convert it again"
    )


def _header(data: bytes) -> dict[str, Any]:
    """The metadata: attributes, and in newer files a version."""
    header: dict[str, Any] = {}
    for number, _, value in fields(data):
        # Field 1 is the version; in older files it is the attributes.
        if number == 1 and not value.startswith(b"\x0a"):
            header["version"] = _text(value)
        else:
            attribute = _attribute(value)
            header[attribute["name"]] = attribute["value"]
    source = {"tool": "Chakra", "schemaVersion": header.get("version")}
    return {**header, "source": source}


def _node(data: bytes) -> dict[str, Any]:
    node: dict[str, Any] = {"id": 0, "name": ""}
    node |= {"inputs": _io(b""), "outputs": _io(b"")}
    attributes: list[Attribute] = []
    parents: list[int] = []
    data_deps: list[int] = []
    for number, layout, value in fields(data):
        match number:
            case 2:
                node["name"] = _text(value)
            case 3:
                node["type"] = _node_type(value)
            case 4:
                parents.extend(numbers(layout, value))
            case 5:
                data_deps.extend(numbers(layout, value))
            case 8:
                node["inputs"] = _io(value)
            case 9:
                node["outputs"] = _io(value)
            case 10:
                attributes.append(_attribute(value))
            case _:
                node[_NODE_FIELDS.get(number, f"field {number}")] = _plain(value)
    return {**node, **_dependencies(parents, data_deps), "attrs": attributes}


def _dependencies(parents: list[int], data_deps: list[int]) -> dict[str, Any]:
    """PyTorch has one parent, which is the first of Chakra's list."""
    found: dict[str, Any] = {}
    if parents:
        found["ctrl_deps"] = parents[0]
    if parents[1:]:
        found["further_ctrl_deps"] = parents[1:]
    if data_deps:
        found["data_deps"] = data_deps
    return found


def _node_type(value: int) -> str | int:
    return _NODE_TYPES[value] if value < len(_NODE_TYPES) else value


def _io(data: bytes) -> dict[str, Any]:
    """Values, shapes and types, which the converter writes as Python literals."""
    io: dict[str, Any] = {"values": [], "shapes": [], "types": []}
    for number, _, value in fields(data):
        if number in _IO_FIELDS:
            io[_IO_FIELDS[number]] = _literal(_text(value))
    return io


_NO_LITERAL = (
    ValueError,
    SyntaxError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
)


def _literal(text: str) -> object:
    if not text:
        return []
    try:
        value = ast.literal_eval(text)
        msgspec.json.encode(value)
    except _NO_LITERAL:
        return text
    return value


def _attribute(data: bytes) -> Attribute:
    attribute: Attribute = {"name": "", "type": "", "value": None}
    for number, layout, value in fields(data):
        if number == _ATTRIBUTE_NAME:
            attribute["name"] = _text(value)
        elif number == _ATTRIBUTE_DOC:
            attribute["doc_string"] = _text(value)
        else:
            attribute |= _attribute_value(number, layout, value)
    return attribute


def _attribute_value(number: int, layout: int, value: Any) -> Attribute:  # noqa: ANN401
    place, is_list = divmod(number - _FIRST_VALUE, 2)
    if place >= len(_KINDS):
        return {"type": f"field {number}", "value": _plain(value)}
    kind = _KINDS[place]
    if is_list:
        return {"type": f"{kind.name}_list", "value": list(_listed(kind, value))}
    if layout != kind.layout:
        raise BrokenError(f"an attribute of type {kind.name} has another wire type")
    return {"type": kind.name, "value": kind.value(value)}


def _listed(kind: _Kind, data: bytes) -> Iterator[Any]:
    for _, layout, value in fields(data):
        if layout == kind.layout:
            yield kind.value(value)
        elif kind.layout == VARINT:
            yield from (kind.value(number) for number in numbers(layout, value))
        else:
            size = SIZES[kind.layout]
            for start in range(0, len(value), size):
                yield kind.value(part(value, start, size))


def _plain(value: Any) -> object:  # noqa: ANN401 (of any layout)
    return value.hex() if isinstance(value, bytes) else value
