"""Files that commands write: one rule for all of them.

Folders that are missing are made. A file is written beside its place and moved there
when it is whole; until then, what was there stays. A command writes over what is of
its own kind alone: a library over a library, a model over that of the same key,
measurements where their journal lies.
"""

from __future__ import annotations

import gzip
import os
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import duckdb

from tracedb.errors import ReportError, TracedbError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GZIP = b"\x1f\x8b"
EXPORT = "an export of tracedb"
"""What exports are called where another file is in their place."""


def make_folder(folder: Path, error: type[TracedbError]) -> None:
    """Make a folder and those above it; raises the error where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(
            f"{folder}: cannot create the folder: {problem.strerror}; choose another"
        ) from problem


def check_place(path: Path, mark: bytes, what: str) -> None:
    """Raise `ReportError` where something else than `what` would be written over.

    The mark is what a file of that kind begins with.
    """
    if path.is_dir():
        raise ReportError(f"{path}: a folder; name a file in it")
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(_GZIP)) == _GZIP
        with (gzip.open if is_packed else Path.open)(path, "rb") as file:
            head = file.read(len(mark))
    except (OSError, EOFError, zlib.error):
        head = b""
    if head != mark:
        raise ReportError(f"{path}: exists and is not {what}; choose another name")


@contextmanager
def written(path: Path, error: type[TracedbError]) -> Iterator[Path]:
    """A place to write to, of which `path` is made when the block ends.

    Raises the error where it cannot be written; then nothing has changed.
    """
    make_folder(path.parent, error)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(path)
    except TracedbError:
        # Some are errors of the system's kind, too, and say already what is wrong.
        raise
    except (OSError, duckdb.IOException) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).partition("\n")[0]
        raise error(
            f"{path}: cannot be written: {reason.replace(str(beside), str(path))}; "
            "choose another place"
        ) from problem
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def written_bytes(path: Path, error: type[TracedbError]) -> Iterator[IO[bytes]]:
    """A file that becomes `path` when the block ends; `.gz` compresses it."""
    with written(path, error) as place:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(place, "wb", compresslevel=5, mtime=0) as packed:
                yield cast("IO[bytes]", packed)
        else:
            with place.open("wb") as plain:
                yield plain
