"""Formats rows as a table: with units, and with lines that fit the terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from os.path import commonprefix
from statistics import median
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracedb.words import (
    cut_distinct,
    frame_within,
    heading_of_count,
    path_end,
    shortened,
)

from .terminal import IN_A_PIPE, printable, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import polars as pl

# The units of columns by the suffix of their name. The first scale that the largest
# value reaches is used for the column. Times that may be parts or sums of one another
# share a unit, so that they compare by eye: all of a table, apart from `_APART`.
_SCALES: dict[str, list[tuple[float, str]]] = {
    "_ns": [(1e6, "{:,.3f} ms"), (1e3, "{:,.3f} us")],
    "_bytes": [
        (2**30, "{:,.2f} GiB"),
        (2**20, "{:,.2f} MiB"),
        (2**10, "{:,.2f} KiB"),
        (1, "{:,.0f} B"),
    ],
    "flops_per_second": [
        (1e12, "{:,.2f} TFLOP/s"),
        (1e9, "{:,.2f} GFLOP/s"),
        (1e6, "{:,.2f} MFLOP/s"),
    ],
    "bytes_per_second": [
        (1e9, "{:,.2f} GB/s"),
        (1e6, "{:,.2f} MB/s"),
        (1e3, "{:,.2f} kB/s"),
    ],
    "samples_per_second": [(1, "{:,.0f}/s")],
    "flops": [
        (1e12, "{:,.3f} TFLOP"),
        (1e9, "{:,.3f} GFLOP"),
        (1e6, "{:,.3f} MFLOP"),
    ],
    "error_share": [(0.01, "{:+.2f} %")],
    "change_share": [(0.01, "{:+.2f} %")],
    "_share": [(0.01, "{:.2f} %")],
}
_APART = {
    "position": re.compile(r"(^|_)(start|end|offset|at)_ns$"),
    "clock": re.compile(r"^clock_"),
    "slack beside duration_ns": re.compile(r"slack_ns$"),
    "one beside time_ns": re.compile(r"^(mean|median|shortest|longest)_"),
}
"""Times that are no parts or sums of others, by their names.

Each of these kinds has a unit of its own: when something is, how clocks differ, how
much longer something could last than it does, and the time of one beside that of all.
"""
_SINCE_1970_NS = 1 << 59
"""[ns] Larger values (from 1988 on) are not durations but times since 1970."""
_TOO_SMALL = 0.1
_TWO_DIGITS = 0.01
_LEAST = 0.001
"""The smallest time that its three decimals show."""
_SAID_BY_THE_CELLS = ("_ns", "_bytes", "_bytes_per_second", "_flops_per_second")
_PROSE = ("meaning", "pairing")
_NARROWEST_TEXT = 12
_NARROWEST_PROSE = 24
_NARROWEST = {"frame": 28, "module": 20}
"""Columns of places, which tell nothing if they are narrower."""
_GAP = 2


def _frame(frame: str, width: int) -> str:
    """A Python function with as much of its path as fits; of long names, the middle."""
    shown = frame_within(frame, width)
    return shortened(shown if len(shown) <= width else shown.replace("(…/", "("), width)


_WAYS = {"frame": _frame, "module": path_end}
"""How columns are cut, other than in the middle."""


@dataclass(frozen=True)
class _Column:
    """A column ready to print."""

    name: str
    heading: str
    cells: list[str]
    is_number: bool

    @property
    def width(self) -> int:
        """Terminal cells that the full column takes."""
        return max(cell_len(cell) for cell in [self.heading, *self.cells])

    @property
    def least_width(self) -> int:
        """Fewest terminal cells for the column: numbers are never cut."""
        if self.is_number:
            return self.width
        if self.is_prose:
            return min(self.width, _NARROWEST_PROSE)
        return min(self.width, _NARROWEST.get(self.name, _NARROWEST_TEXT))

    @property
    def is_prose(self) -> bool:
        """Whether the cells are sentences, which are wrapped."""
        return self.name in _PROSE

    @property
    def texts(self) -> Iterator[Text]:
        """Cells as rich lays them out."""
        return map(Text if self.is_prose else _one_line, self.cells)

    @property
    def is_constant(self) -> bool:
        return len(self.cells) > 1 and len(set(self.cells)) == 1


def write(frame: pl.DataFrame) -> list[str]:
    """Print rows to stdout; return the names of columns that did not fit.

    A table fits the terminal, or 100 columns in a pipe. If that is too narrow, columns
    with the same value in all rows move to a line above the table, names are cut, prose
    is wrapped, and the rightmost columns are left out.
    """
    console = Console(highlight=False)
    columns = list(_columns(frame))
    full_width = _together(column.width for column in columns)
    if not console.is_terminal:
        console.width = IN_A_PIPE
    if full_width > console.width:
        columns = _lift_constants(columns, console.width)
    shown = _cut(_fitting(columns, console.width), console.width)
    _print(console, _table(shown))
    return [column.name for column in columns[len(shown) :]]


def _print(console: Console, table: Table) -> None:
    with console.capture() as printed:
        console.print(table)
    lines = printed.get().splitlines()
    write_text("\n".join(lines if console.is_terminal else map(str.rstrip, lines)))


def _columns(frame: pl.DataFrame) -> Iterator[_Column]:
    headings = [_heading(name) for name in frame.columns]
    usual = _usual_times(frame)
    for column, heading in zip(frame.iter_columns(), headings, strict=True):
        yield _Column(
            column.name,
            printable(heading if headings.count(heading) == 1 else column.name),
            _cells(column, usual.get(_kind(column.name, frame.columns), 0)),
            column.dtype.is_numeric(),
        )


def _heading(name: str) -> str:
    for suffix in _SAID_BY_THE_CELLS:
        name = name.removesuffix(suffix)
    return heading_of_count(name)


def _kind(name: str, names: Sequence[str]) -> str:
    """Which times of a table share the unit of a column; empty for its parts and sums.

    >>> _kind("end_ns", []), _kind("mean_ns", ["time_ns"]), _kind("mean_ns", ["a_ns"])
    ('position', 'one beside time_ns', '')
    """
    kind = next((kind for kind, form in _APART.items() if form.search(name)), "")
    _, _, other = kind.partition(" beside ")
    return kind if not other or other in names else ""


def _usual_times(frame: pl.DataFrame) -> dict[str, float]:
    """[ns] What decides on the unit of times of a kind, by kind.

    Most times of the column of the largest ones have two digits or more.
    """
    usual: dict[str, float] = {}
    for column in frame.iter_columns():
        if column.name.endswith("_ns") and column.dtype.is_numeric():
            largest, middle = _extent(column)
            if largest < _SINCE_1970_NS:
                kind = _kind(column.name, frame.columns)
                own = min(largest, middle / _TWO_DIGITS)
                usual[kind] = max(usual.get(kind, 0), own)
    return usual


def _extent(column: pl.Series) -> tuple[float, float]:
    """The largest absolute value and the median of those that are not 0."""
    values = [abs(float(value)) for value in column.drop_nulls().to_list() if value]
    return max(values, default=0), median(values or [0])


def _cells(column: pl.Series, usual_ns: float = 0) -> list[str]:
    form = _number_form(column, usual_ns) if column.dtype.is_numeric() else _text
    return ["" if value is None else form(value) for value in column.to_list()]


def _number_form(column: pl.Series, usual_ns: float) -> Callable[[float], str]:
    for suffix, scales in _SCALES.items():
        if column.name.endswith(suffix):
            largest, _ = _extent(column)
            if suffix == "_ns" and largest >= _SINCE_1970_NS:
                return _date
            return partial(_scaled, scales, usual_ns if suffix == "_ns" else largest)
    if column.name.endswith("_count"):
        return _count
    return "{:.6g}".format if column.dtype.is_float() else str


def _count(value: float) -> str:
    """A count, or a mean of counts.

    >>> _count(12_345), _count(12_345.5), _count(0.0625)
    ('12,345', '12,345.5', '0.0625')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.3f}".rstrip("0") if abs(value) >= 1 else f"{value:.3g}"


def _scale(largest: float, scales: list[tuple[float, str]]) -> tuple[float, str]:
    return next((scale for scale in scales if largest >= scale[0]), scales[-1])


def _scaled(scales: list[tuple[float, str]], largest: float, value: float) -> str:
    unit, form = _scale(largest, scales)
    if scales is _SCALES["_ns"]:
        return _time(form, float(value) / unit)
    # A size of less than two digits has a unit of its own; times never do.
    if 0 < abs(value) < _TOO_SMALL * unit:
        unit, form = _scale(abs(value), scales)
    return form.format(float(value) / unit)


def _time(form: str, amount: float) -> str:
    """A time in the unit of its column; what rounds to nothing is not written so.

    >>> _time("{:,.3f} ms", 0.0003), _time("{:,.3f} ms", -0.0003), _time("{:.3f} ms", 0)
    ('<0.001 ms', '>-0.001 ms', '0.000 ms')
    """
    if 0 < abs(amount) < _LEAST / 2:
        return ("<" if amount > 0 else ">-") + form.format(_LEAST)
    return form.format(amount)


def _date(since_1970_ns: float) -> str:
    """Date and time (UTC), to the millisecond."""
    seconds, rest_ns = divmod(int(since_1970_ns), 10**9)
    when = datetime.fromtimestamp(seconds, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{rest_ns // 10**6:03}"


def _text(value: object) -> str:
    return printable(str(value))


def _lift_constants(columns: list[_Column], width: int) -> list[_Column]:
    """Print first what all rows share: equal values, and the folder of paths."""
    constants = [c for c in columns if c.is_constant]
    others = [_lift_folder(c) for c in columns if not c.is_constant]
    shared = [_shared(c, width) for c in constants if c.cells[0]]
    shared += [f"{c.heading} in {folder}" for c, folder in others if folder]
    if shared:
        write_text("\n".join(_joined(shared, width)))
    return [column for column, _ in others]


def _shared(column: _Column, width: int) -> str:
    return f"{column.heading} {shortened(column.cells[0], width)}"


def _joined(values: list[str], width: int) -> list[str]:
    """Lines of values with commas, which break between values."""
    lines = values[:1]
    for value in values[1:]:
        if cell_len(f"{lines[-1]}, {value},") <= width:
            lines[-1] += f", {value}"
        else:
            lines[-1] += ","
            lines.append(value)
    return lines


def _lift_folder(column: _Column) -> tuple[_Column, str]:
    is_path = column.name == "path" and len(set(column.cells)) > 1
    shared = commonprefix(column.cells) if is_path else ""  # noqa: RUF071 (cut below)
    folder = shared.rpartition("/")[0]
    if not folder:
        return column, ""
    cells = [cell.removeprefix(f"{folder}/") for cell in column.cells]
    return replace(column, cells=cells), folder


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    count = len(columns)
    while count > 1 and width < _together(c.least_width for c in columns[:count]):
        count -= 1
    return columns[:count]


def _cut(columns: list[_Column], width: int) -> list[_Column]:
    """Cut names in the middle to fit; prose is wrapped instead."""
    names = [c for c in columns if not (c.is_number or c.is_prose)]
    others = (0 if c in names else c.least_width for c in columns)
    room = width - _together(others)
    cut = {}
    least = sum(column.least_width for column in names)
    # The narrowest first: others get what they leave of their share.
    for left, column in enumerate(sorted(names, key=lambda c: c.width)):
        least -= column.least_width
        share = max(room // (len(names) - left), column.least_width)
        own = max(min(column.width, share, room - least), 1)
        room -= own
        way = _WAYS.get(column.name, shortened)
        cut[column.name] = replace(column, cells=cut_distinct(column.cells, own, way))
    return [cut.get(column.name, column) for column in columns]


def _together(widths: Iterable[int]) -> int:
    return sum(width + _GAP for width in widths) - _GAP


def _table(columns: list[_Column]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for column in columns:
        table.add_column(
            _one_line(column.heading),
            justify="right" if column.is_number else "left",
            no_wrap=not column.is_prose,
            min_width=column.least_width,
        )
    for row in zip(*(column.texts for column in columns), strict=True):
        table.add_row(*row)
    return table


def _one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
