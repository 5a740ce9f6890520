"""The overview of a database: the questions that users ask first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.markup import preformatted
from tracedb.part import no_such_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tracedb.database import Database

PARTS = (
    *("recording", "period", "device_time", "host_time", "phase", "lever"),
    *("straggler", "stuck_collective", "step_mark", "job", "trust"),
)
"""The questions (`question.<name>`) of a summary."""


class Summary(dict[str, "pl.DataFrame"]):
    """The answers of a summary by question, displayed as the text of the command."""

    def __init__(self, answers: Mapping[str, pl.DataFrame], path: str) -> None:
        """Keep the answers, and the database that the advice is about."""
        super().__init__(answers)
        self._path = path

    def __repr__(self) -> str:
        """The text that the command prints."""
        from tracedb.summary.text import lines

        return "\n".join(lines(self, self._path))

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return preformatted(repr(self))


def summary(
    database: Database,
    run: int | None = None,
    known: Mapping[str, pl.DataFrame] | None = None,
) -> dict[str, pl.DataFrame]:
    """The answers by question, for all runs or one; those that are `known` are taken.

    Raises `QueryError` for an unknown run.
    """
    known = known or {}
    answers = {
        name: known[name] if name in known else database.ask(name) for name in PARTS
    }
    if run is None:
        return answers
    runs = sorted(set(answers["recording"]["run_id"]))
    if run not in runs:
        raise no_such_number(f"run {run}", runs)
    return {name: rows.filter(rows["run_id"] == run) for name, rows in answers.items()}
