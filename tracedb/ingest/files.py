"""Find the files that paths name, and tell whether two are the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENDINGS = (".json", ".json.gz")


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
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error.strerror}") from error
