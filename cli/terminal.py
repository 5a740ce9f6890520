"""Writes text without control characters to stdout or stderr."""

from __future__ import annotations

import errno
import shutil
import sys
from typing import TYPE_CHECKING

import click

from tracedb.words import wrapped

if TYPE_CHECKING:
    from typing import TextIO

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
    write_bytes(f"{text}\n".encode(sys.stdout.encoding, "backslashreplace"))


def write_bytes(data: bytes) -> None:
    """Write all bytes to stdout: unbuffered (`python -u`), one call may take a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def width_of(stream: TextIO) -> int:
    """The columns of a terminal, or of what is not written to one."""
    return shutil.get_terminal_size().columns if stream.isatty() else IN_A_PIPE


def tell(note: str) -> None:
    """Write a note to stderr, in lines that break between words."""
    width = width_of(sys.stderr)
    for line in wrapped(printable(note), width, rest="  ") or [""]:
        tell_line(line)


def tell_line(line: str) -> None:
    """Write one line to stderr, however long it is: for errors, and for programs."""
    click.echo(printable(line), err=True)
