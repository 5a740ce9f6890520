"""Which row of `prediction.hardware` a device is, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import relations

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

    from .families import Hardware


@dataclass(frozen=True)
class HardwareRow:
    """One model of hardware: its name, and its figures by their column."""

    name: str
    pattern: str
    is_fallback: bool
    figures: Hardware
    kind: str = "gpu"
    """`gpu` or `cpu`."""
    vendor: str | None = None
    """Who makes it; None where its generation is not known."""

    def is_related(self, other: HardwareRow) -> bool:
        """Whether both are of known generations of one vendor."""
        return self.vendor is not None and self.vendor == other.vendor

    @property
    def is_generic(self) -> bool:
        """Whether it stands for many models, and its figures for none of them."""
        return self.is_fallback or bool(self.figures.get("is_generic", 0.0))


@dataclass(frozen=True)
class HardwareTable:
    """The rows of `prediction.hardware`, the first that fits first."""

    rows: tuple[HardwareRow, ...]

    def find(self, device: str) -> HardwareRow:
        """The row of a device, by a row's own name or by the driver's.

        A device that is not listed keeps its name, and has the fallback's figures.
        """
        for row in self.rows:
            if row.name == device:
                return row
        for row in self.rows:
            if not row.is_fallback and re.search(row.pattern, device, re.IGNORECASE):
                return row
        fallback = next(row for row in self.rows if row.is_fallback)
        return HardwareRow(device, "", is_fallback=True, figures=fallback.figures)

    def over_network(self, hardware: str, bytes_per_second: float) -> HardwareTable:
        """The same table, with another network between nodes of that hardware."""
        rate = {"network_bytes_per_second": bytes_per_second}
        return HardwareTable(
            tuple(
                replace(row, figures={**row.figures, **rate})
                if row.name == hardware
                else row
                for row in self.rows
            )
        )


def hardware_table(
    connection: duckdb.DuckDBPyConnection | None = None,
) -> HardwareTable:
    """The table as declared, or as a database has it, with what its user added."""
    if connection is None:
        return _table(relations.declared("prediction.hardware"))
    return _table(relations.rows_of(connection, "prediction.hardware"))


def _table(rows: Iterable[dict[str, Any]]) -> HardwareTable:
    ordered = sorted(rows, key=lambda row: row["ordinal"])
    return HardwareTable(tuple(map(_row, ordered)))


def _row(row: dict[str, Any]) -> HardwareRow:
    """A row as models know it: what is reached of a peak they find out themselves."""
    figures = {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, int | float)
        and name not in ("ordinal", "is_fallback")
        and not name.startswith("reached_")
    }
    return HardwareRow(
        row["hardware"],
        row["name_pattern"],
        row["is_fallback"],
        figures,
        row["kind"],
        row["vendor"],
    )
