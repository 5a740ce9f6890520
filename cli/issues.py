"""What was repaired or left out while files were read, reported to the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Collection

    import polars as pl


def tell_issues(issues: pl.DataFrame, trace_ids: Collection[int] | None = None) -> None:
    """Write a line for each issue; of some traces, if they are named."""
    for issue in issues.iter_rows(named=True):
        if trace_ids is None or issue["trace_id"] in trace_ids:
            tell(f"{issue['path']}: {issue['detail']}")
