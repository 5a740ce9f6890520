"""Format rows and text as safe HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tracedb.words import duration, share, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = 60
_HIDDEN = "\N{REPLACEMENT CHARACTER}"


def table(heading: str, rows: Iterable[dict[str, Any]]) -> str:
    """A table with a heading above it; times and shares have units.

    >>> table("<b>", [{"time_ns": 1_500}])
    '<p>&lt;b&gt;</p><table><tr><th>time</th></tr><tr><td>1.50 us</td></tr></table>'
    """
    found = list(rows)
    heads = [_tag("th", _bare(name)) for name in (found[0] if found else ())]
    lines = [
        _line(_tag("td", _formatted(name, value)) for name, value in row.items())
        for row in found
    ]
    return f"{_tag('p', heading)}<table>{_line(heads)}{''.join(lines)}</table>"


def preformatted(text: str) -> str:
    r"""Lines of text.

    >>> preformatted("a <b>\nc")
    '<pre>a &lt;b&gt;\nc</pre>'
    """
    return f"<pre>{chr(10).join(map(_safe, text.splitlines()))}</pre>"


def _line(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _tag(name: str, text: str) -> str:
    return f"<{name}>{_safe(text)}</{name}>"


def _safe(text: str) -> str:
    # Direction marks would affect text beyond the cell.
    return escape("".join(c if c.isprintable() else _HIDDEN for c in text))


def _bare(column: str) -> str:
    return column.removesuffix("_ns").removesuffix("_share").replace("_", " ")


def _formatted(column: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float) and column.endswith("_ns"):
        return duration(value)
    if isinstance(value, float) and column.endswith("_share"):
        return share(value)
    return f"{value:,}" if type(value) is int else shortened(str(value), _NAME)
