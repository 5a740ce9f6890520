"""Files that commands write: one rule for all of them.

Folders that are missing are made. A file is written beside its place and moved there
when it is whole; until then, what was there stays. A command writes over what is of
its own kind alone: a library over a library, a model over that of the same key,
measurements where their journal lies.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tracedb.errors import TracedbError


def make_folder(folder: Path, error: type[TracedbError]) -> None:
    """Make a folder and those above it; raises the error where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(
            f"{folder}: no folder can be made there: {problem.strerror}; choose another"
        ) from problem


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
    except (OSError, duckdb.IOException) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).partition("\n")[0]
        raise error(
            f"{path}: cannot be written: {reason.replace(str(beside), str(path))}; "
            "choose another place"
        ) from problem
    finally:
        beside.unlink(missing_ok=True)
