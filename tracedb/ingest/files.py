"""Find the files that paths name, and read each into memory with its digest."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tracedb.errors import ForeignFileError, IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True)
class TraceFile:
    """A file of a known format, decompressed and cut into its parts."""

    path: str
    sha256: str
    format: str
    header: bytes
    items: list[msgspec.Raw]


def expand(paths: Iterable[str | Path]) -> list[Path]:
    """List the files that paths name; a folder stands for the JSON files below it.

    Raises `IngestError` where a path does not exist or a folder holds no JSON file.
    """
    return [file for path in paths for file in _files_of(Path(path))]


def _files_of(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from _files_below(path)
    else:
        raise IngestError(f"{path}: no such file or folder")


def _files_below(folder: Path) -> list[Path]:
    found = sorted(p for p in folder.rglob("*") if p.name.endswith(_ENDINGS))
    if not found:
        raise IngestError(f"{folder}: no .json or .json.gz file below this folder")
    return found


def digest(path: Path) -> str:
    """The SHA-256 of the file as it lies on disk."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error.strerror}") from error


def read(path: Path) -> TraceFile:
    """Read a trace or an execution graph.

    Raises `IngestError` with the place in the file where it is broken, or with what
    the file looks like if it is neither.
    """
    text = _text(path)
    parts = _parts(path, text)
    format_, key = _format(path, parts)
    items = _decode(path, parts.pop(key), list[msgspec.Raw])
    if text.startswith(b"[") and items and b'"ph"' not in bytes(items[0]):
        raise ForeignFileError(f"{path}: a JSON list, but not of trace events")
    header = msgspec.json.encode(parts)
    return TraceFile(str(path), digest(path), format_, header, items)


def _text(path: Path) -> bytes:
    try:
        stored = path.read_bytes()
        text = gzip.decompress(stored) if stored.startswith(_GZIP) else stored
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error}") from error
    except (EOFError, zlib.error) as error:
        raise IngestError(f"{path}: broken gzip stream: {error}") from error
    return text.removeprefix(_BOM).lstrip()


def _parts(path: Path, text: bytes) -> dict[str, msgspec.Raw]:
    if text.startswith(b"["):
        return {"traceEvents": msgspec.Raw(text)}
    return _decode(path, msgspec.Raw(text), dict[str, msgspec.Raw])


def _decode(path: Path, text: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise IngestError(f"{path}: {error}; not a trace tracedb can read") from error


def _format(path: Path, parts: dict[str, msgspec.Raw]) -> tuple[str, str]:
    if "traceEvents" in parts:
        return "kineto", "traceEvents"
    if "nodes" in parts:
        return "et", "nodes"
    keys = ", ".join(sorted(parts)[:5]) or "none"
    raise ForeignFileError(
        f"{path}: neither a profiler trace (no traceEvents) nor an execution graph "
        f"(no nodes); its keys are: {keys}"
    )
