"""Write output files, by one rule for all commands.

Missing folders are created. A file is written next to its place and moved there when it
is complete; until then, the old file stays. A command overwrites only files of its own
kind: a library a library, a model the model of the same key, measurements those with
their journal.
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
"""The name of exports in errors about a file in their place."""


def make_folder(folder: Path, error: type[TracedbError]) -> None:
    """Create a folder and its parents; raises the given error if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(
            f"{folder}: cannot create the folder: {problem.strerror}; choose another"
        ) from problem


def check_place(path: Path, mark: bytes, what: str) -> None:
    """Raise `ReportError` if a file other than `what` would be overwritten.

    `mark` is the first bytes of a file of that kind.
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
    """Yield a temporary path, which becomes `path` at the end of the block.

    Raises the given error if it cannot be written; then nothing has changed.
    """
    make_folder(path.parent, error)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(path)
    except TracedbError:
        # Some are OSErrors as well, but already have a clear message.
        raise
    except (OSError, duckdb.IOException) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).partition("\n")[0]
        raise error(
            f"{path}: cannot be written: {reason.replace(str(beside), str(path))}; "
            "choose another place"
        ) from problem
    finally:
        # Deleting fails in a read-only folder even if there is no file.
        if beside.exists():
            beside.unlink()


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
