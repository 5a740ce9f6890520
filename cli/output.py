"""How all commands write rows: `--format table|json|csv|parquet`.

A table is for reading: it has units and fits the terminal. The other formats are for
programs: raw integers, full names, every row.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import click

from tracedb.words import wrapped

from .errors import Failure
from .terminal import printable, tell, width_of, write_bytes, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

TABLE_ROWS = 100
_LABEL = re.compile(r"\S+  +")
"""The beginning of a line whose text is in a column of its own."""


@dataclass(frozen=True)
class Output:
    """Writes a command's rows in the requested format."""

    format: str

    def rows(
        self,
        frame: pl.DataFrame,
        brief: Sequence[str] = (),
        most: int | None = TABLE_ROWS,
    ) -> None:
        """Write rows to stdout; a table has only the columns in `brief`.

        A table has at most `most` rows; None means all.
        """
        if self.format == "table":
            names = [name for name in brief if name in frame.columns]
            _write_table(frame.select(names) if names else frame, most)
        else:
            from tracedb.encode import encode

            _write(encode(frame, self.format))

    def questions(self, known: pl.DataFrame) -> None:
        """List the questions, by subject if they have one; only tables shorten them."""
        if self.format != "table":
            self.rows(known)
        elif "subject" in known.columns:
            write_text("\n".join(_by_subject(known.rows())))
        else:
            import polars as pl

            asked = pl.col("meaning").str.extract(r"^([^?]*\?)")
            self.rows(known.with_columns(asked), most=None)

    def text(self, text: str) -> None:
        """Write text that goes with a table; other formats leave it out.

        Lines break between words.
        """
        if self.format == "table":
            lines = map(printable, text.split("\n"))
            write_text("\n".join(part for line in lines for part in _broken(line)))


def _by_subject(questions: list[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the lines of a list of questions, with a heading for each subject."""
    width = width_of(sys.stdout)
    first = max(len(question) for _, question, _ in questions) + 4
    for subject, group in groupby(questions, key=itemgetter(0)):
        yield f"{subject}:"
        for _, question, meaning in group:
            asked = meaning.partition("?")[0] + "?"
            yield from wrapped(asked, width, f"  {question:<{first - 2}}", " " * first)
        yield ""


def _broken(line: str) -> list[str]:
    words, label = line.lstrip(), _LABEL.match(line)
    rest = label.end() if label else len(line) - len(words) + 2
    return wrapped(line, width_of(sys.stdout), rest=" " * rest) or [line]


def to_stdout(name: str) -> Output:
    """The output to stdout in a format; raises `Failure` if that cannot work."""
    if sys.stdout is None:
        raise Failure("stdout is closed; redirect it: `> rows.txt`")
    if name == "parquet" and sys.stdout.isatty():
        raise Failure(
            "parquet cannot go to a terminal; redirect it to a file: `> x.parquet`"
        )
    return Output(name)


def _chosen(_context: click.Context, _parameter: click.Parameter, name: str) -> Output:
    return to_stdout(name)


option = click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv", "parquet"]),
    default="table",
    show_default=True,
    callback=_chosen,
    help="Output format on stdout.",
)


def _write(data: bytes) -> None:
    if sys.stdout.isatty():
        lines = data.decode().split("\n")
        data = "\n".join(printable(line) for line in lines).encode()
    write_bytes(data)


def _write_table(frame: pl.DataFrame, most: int | None) -> None:
    from . import table

    shown = frame if most is None else frame.head(most)
    hidden = table.write(shown)
    if hidden and not frame.is_empty():
        tell(f"columns that did not fit: {', '.join(hidden)}; --format csv has them")
    if frame.height > shown.height:
        tell(f"first {shown.height} of {frame.height:,} rows; --format csv has all")
    elif frame.is_empty():
        tell("no rows")
