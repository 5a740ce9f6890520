"""Handles stdin, stdout and stderr that are closed, full, or no longer read."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def open_missing() -> None:
    """Open closed streams, so that no database takes their file descriptor.

    stdin and stdout stay None in Python, and whoever uses them reports that. Without a
    stderr, messages are dropped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def prints_to_stderr() -> AbstractContextManager[object]:
    """Keep what the user's code prints within the block out of the answer."""
    return redirect_stdout(sys.stderr)


def drop_unwritten() -> None:
    """Drop output that stdout does not take: Python would complain at exit."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
