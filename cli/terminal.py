"""Writes text without control characters to stdout or stderr."""

from __future__ import annotations

import errno
import sys

import click

IN_A_PIPE = 100
"""The columns of a list or table that is not written to a terminal."""


def printable(text: str) -> str:
    r"""Write control characters as escapes: a name in a trace may hold anything.

    >>> printable("\x1b[31mred\u202e")
    '\\x1b[31mred\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def write_text(text: str) -> None:
    """Write to stdout, escaping characters that its encoding lacks.

    Raises `OSError` if stdout is closed.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, "closed; redirect it: `> answer.txt`")
    data = f"{text}\n".encode(sys.stdout.encoding, "backslashreplace")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def tell(line: str) -> None:
    """Write a line to stderr."""
    click.echo(printable(line), err=True)
