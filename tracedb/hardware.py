"""Read devices that users add to `prediction.hardware`, and check them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracedb import renamed
from tracedb.duck import scalar, transaction
from tracedb.errors import HardwareError
from tracedb.estimates import recompute
from tracedb.pattern import wrong_pattern
from tracedb.row_file import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

_TABLE = "reference.hardware"
_KINDS = ("gpu", "cpu")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class _Figure:
    """A figure of a device, with its unit and range of plausible values."""

    unit: str
    least: float
    most: float
    is_needed: bool = False
    is_whole: bool = False

    def read(self, value: object) -> float:
        """Parse the value; raises `ValueError` that says what it must be."""
        try:
            number = float(str(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a number") from None
        if not self.least <= number <= self.most:
            raise ValueError(
                f"{value} is not between {self.least:g} and {self.most:g}; the unit is "
                f"{self.unit}"
            )
        if self.is_whole and number != int(number):
            raise ValueError(f"{value} is not a whole number")
        return int(number) if self.is_whole else number


def _flops(*, is_needed: bool = False) -> _Figure:
    return _Figure("FLOP/s", 1e9, 1e18, is_needed)


def _bandwidth(*, is_needed: bool = False) -> _Figure:
    return _Figure("B/s", 1e8, 1e15, is_needed)


_FIGURES = {
    "peak_fp32_flops_per_second": _flops(is_needed=True),
    "peak_tf32_flops_per_second": _flops(),
    "peak_half_flops_per_second": _flops(),
    "peak_fp64_flops_per_second": _flops(),
    "peak_fp64_matrix_flops_per_second": _flops(),
    "matrix_share": _Figure("1", 0.01, 2),
    "dram_bytes_per_second": _bandwidth(is_needed=True),
    "l2_bytes": _Figure("B", 1 << 10, 1 << 40, is_needed=True, is_whole=True),
    "l2_bytes_per_second": _bandwidth(),
    "sm_count": _Figure("1", 1, 1e6, is_needed=True, is_whole=True),
    "clocks_per_second": _Figure("1/s", 1e8, 1e11, is_needed=True),
    "pcie_bytes_per_second": _bandwidth(),
    "pageable_bytes_per_second": _bandwidth(),
    "nvlink_bytes_per_second": _bandwidth(),
    "network_bytes_per_second": _bandwidth(),
    "network_latency_ns": _Figure("ns", 1, 1e9, is_whole=True),
    "devices_per_node": _Figure("1", 1, 1e6, is_whole=True),
    "linked_devices": _Figure("1", 1, 1e6, is_whole=True),
    "floor_ns": _Figure("ns", 1, 1e9, is_whole=True),
    "reached_fp32_flops_per_second": _flops(),
    "reached_half_flops_per_second": _flops(),
    "reached_dram_bytes_per_second": _bandwidth(),
}
_WORDS = ("hardware", "name_pattern", "kind", "generation")
COLUMNS = (*_WORDS, *_FIGURES)
"""The columns of a row; the name and some figures are required."""


_DERIVED = ("ordinal", "is_fallback", "is_generic", "source", "vendor")
"""Derived columns of `prediction.hardware`, which are ignored in a row."""


def add(connection: duckdb.DuckDBPyConnection, path: str | Path) -> list[str]:
    """Add the devices of a file, and recompute predictions; return their names.

    The file is JSON (an object, or a list of objects), TOML, or CSV with a header; keys
    are `COLUMNS`. `name_pattern` defaults to the name. An error leaves the database
    unchanged. Raises `HardwareError`.
    """
    rows = [
        _checked(connection, row, f"{path}, row {number}")
        for number, row in enumerate(_read(Path(path)), 1)
    ]
    known = connection.execute(f"SELECT hardware FROM {_TABLE}").fetchall()
    _refuse_doubles(path, [name for (name,) in known], rows)
    first = scalar(connection, f"SELECT coalesce(max(ordinal), 0) + 1 FROM {_TABLE}")
    with transaction(connection):
        for place, row in enumerate(rows, first):
            _insert(connection, row | {"ordinal": place})
        recompute(connection, _TABLE)
    return [str(row["hardware"]) for row in rows]


def _insert(connection: duckdb.DuckDBPyConnection, row: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO {_TABLE} ({', '.join(row)}) VALUES ({marks})", [*row.values()]
    )


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file."""
    rows = read_rows(path, HardwareError)
    if not rows:
        raise HardwareError(f"{path}: no rows; a device needs {', '.join(_needed())}")
    yield from rows


def _needed() -> list[str]:
    return ["hardware", *(name for name, f in _FIGURES.items() if f.is_needed)]


def _checked(
    connection: duckdb.DuckDBPyConnection, row: dict[str, Any], place: str
) -> dict[str, Any]:
    """The given values of a row, checked and converted."""
    given = {
        key: value
        for key, value in row.items()
        if value is not None and key not in _DERIVED
    }
    for key in given:
        if key not in COLUMNS:
            raise HardwareError(f"{place}: no column {key}{_nearest(key)}")
    for key in _needed():
        if key not in given:
            raise HardwareError(f"{place}: {key} is missing")
    for key in _WORDS:
        if not isinstance(given.get(key, ""), str):
            raise HardwareError(
                f"{place}: {key} is {given[key]!r}, which is not a text"
            )
    name = str(given["hardware"]).strip()
    checked: dict[str, Any] = {
        "hardware": name,
        "name_pattern": str(given.get("name_pattern", re.escape(name))),
        "kind": str(given.get("kind", "gpu")),
        "generation": given.get("generation"),
    }
    _refuse_wrong_words(connection, checked, place)
    for key, figure in _FIGURES.items():
        if key in given:
            try:
                checked[key] = figure.read(given[key])
            except ValueError as error:
                raise HardwareError(f"{place}: {key} {error}") from error
    return checked


def _nearest(key: object) -> str:
    new = renamed.COLUMNS.get(str(key))
    if new:
        return f"; it was renamed to {new}"
    near = get_close_matches(str(key), COLUMNS, n=1)
    return (
        f"; did you mean {near[0]}?"
        if near
        else f"; the columns are {', '.join(COLUMNS)}"
    )


def _refuse_wrong_words(
    connection: duckdb.DuckDBPyConnection, row: dict[str, Any], place: str
) -> None:
    name = row["hardware"]
    if name in {"", "unknown"} or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise HardwareError(f"{place}: hardware {name!r} is not a name")
    if row["kind"] not in _KINDS:
        raise HardwareError(f"{place}: kind {row['kind']!r} is neither gpu nor cpu")
    _refuse_unknown_generation(connection, row["generation"], place)
    pattern = row["name_pattern"]
    wrong = wrong_pattern(pattern)
    if wrong:
        raise HardwareError(f"{place}: name_pattern {pattern!r} {wrong}")
    is_empty = scalar(connection, "SELECT regexp_matches('', ?)", [pattern])
    if is_empty:
        raise HardwareError(f"{place}: name_pattern {pattern!r} matches any name")


def _refuse_unknown_generation(
    connection: duckdb.DuckDBPyConnection, name: str | None, place: str
) -> None:
    query = "SELECT DISTINCT generation FROM prediction.hardware ORDER BY ALL"
    known = [listed for (listed,) in connection.execute(query).fetchall() if listed]
    if name is not None and name not in known:
        raise HardwareError(
            f"{place}: generation {name!r} is none of {', '.join(known)}; leave it out "
            "for any other"
        )


def _refuse_doubles(
    path: str | Path, known: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    seen = set(known)
    for number, row in enumerate(rows, 1):
        if row["hardware"] in seen:
            raise HardwareError(
                f"{path}, row {number}: {row['hardware']} is already there; give it "
                "another name"
            )
        seen.add(row["hardware"])
