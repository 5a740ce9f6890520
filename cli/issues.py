"""Prints what was repaired or left out while files were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Collection

    import polars as pl


def tell_issues(issues: pl.DataFrame, trace_ids: Collection[int] | None = None) -> None:
    """Write a line for each issue; with `trace_ids`, only those of these traces."""
    for issue in issues.iter_rows(named=True):
        if trace_ids is None or issue["trace_id"] in trace_ids:
            tell(f"{issue['path']}: {issue['detail']}")
