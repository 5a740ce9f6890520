"""A summary as lines for a terminal."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING

from tracedb.summary.statements import statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from tracedb.summary.statements import Statement

_WIDTH = 80
_LABEL = 8
_NO_BREAK = "\u00a0"
_AMOUNT = re.compile(r"([\d.]) (s|ms|us|ns|%)(?!\w)")


def lines(parts: dict[str, pl.DataFrame], database: str) -> Iterator[str]:
    """The summary as lines of at most 80 columns, a paragraph a run."""
    for place, pieces in enumerate(statements(parts, database)):
        yield from [""] * (place > 0)
        before = "run"
        for piece in pieces:
            is_apart = piece.kind == "title" or (piece.kind == "figure" != before)
            yield from [""] * is_apart
            yield from _laid_out(piece)
            before = piece.kind


def _laid_out(piece: Statement) -> Iterator[str]:
    if piece.kind == "command":
        return iter([f"     -> {piece.text}"])
    head = {
        "run": "",
        "title": "",
        "fact": "  ",
        "figure": f"{piece.mark:<{_LABEL}}",
        "item": f"  {piece.mark}. ",
        "doubt": f"  {piece.mark} ",
    }[piece.kind]
    return _filled(head, piece.text)


def _filled(head: str, text: str) -> Iterator[str]:
    """Lines indented to the end of the head; numbers stay with their units."""
    kept = _AMOUNT.sub(rf"\1{_NO_BREAK}\2", text)
    filled = wrap(
        kept,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )
    return (line.replace(_NO_BREAK, " ") for line in filled)
