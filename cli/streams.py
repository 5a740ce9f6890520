"""stdin, stdout and stderr as they are given: closed, full, or read no further."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def open_missing() -> None:
    """Open what was closed, so that no database is opened in its place.

    stdin and stdout stay None for Python, which is told to who uses them; without a
    stderr there is nobody to tell.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def drop_unwritten() -> None:
    """Drop what stdout does not take: Python would complain of it at its end."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
