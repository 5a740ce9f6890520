"""Read files of rows: CSV with a header, JSON or TOML."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracedb.json_file import decode, read_text

if TYPE_CHECKING:
    from tracedb.errors import TracedbError


def read_rows(path: str | Path, error: type[TracedbError]) -> list[dict[str, Any]]:
    """The rows of a file as dictionaries; empty cells of a CSV are left out.

    JSON holds an object or a list of objects; TOML holds a list of tables. Raises the
    given error for anything else.
    """
    text = read_text(path, error)
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        return _of_csv(path, text, error)
    is_toml = suffix == ".toml"
    found = _of_toml(path, text, error) if is_toml else decode(path, text, error)
    rows: list[Any] = found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows):
        raise error(f"{path}: neither an object nor a list of objects")
    return rows


def _of_csv(
    path: str | Path, text: str, error: type[TracedbError]
) -> list[dict[str, Any]]:
    """The rows of a CSV text."""
    try:
        header, *rows = list(csv.reader(text.splitlines())) or [[]]
    except csv.Error as problem:
        raise error(f"{path}: not CSV: {problem}") from problem
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise error(f"{path}: column {twice} occurs twice; remove one")
    for number, cells in enumerate(rows, 1):
        if len(cells) > len(header):
            raise error(
                f"{path}, row {number}: {len(cells)} cells for {len(header)} columns"
            )
    named = (dict(zip(header, cells, strict=False)) for cells in rows if cells)
    return [{name: cell for name, cell in row.items() if cell} for row in named]


def _of_toml(path: str | Path, text: str, error: type[TracedbError]) -> object:
    """The list of tables in a TOML text, or its whole value."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise error(f"{path}: not TOML: {problem}") from problem
    lists = [value for value in found.values() if isinstance(value, list)]
    return lists[0] if len(found) == len(lists) == 1 else found
