"""A summary as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.summary.statements import statements
from tracedb.words import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from tracedb.part import Part
    from tracedb.summary.statements import Statement

_WIDTH = 80
_LABEL = 8


def lines(
    parts: Mapping[str, pl.DataFrame], database: str, part: Part | None = None
) -> Iterator[str]:
    """The summary as lines of at most 80 columns, a paragraph a run."""
    for place, pieces in enumerate(statements(parts, database, part)):
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
    return iter(wrapped(piece.text, _WIDTH, head, " " * len(head)))
