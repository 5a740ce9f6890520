"""The overview of a database: the questions that users ask first."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tracedb import part as parts
from tracedb.errors import QueryError
from tracedb.markup import preformatted
from tracedb.part import no_such_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tracedb.database import Database
    from tracedb.part import Part

PARTS = (
    *("recording", "period", "device_time", "host_time", "phase", "lever"),
    *("straggler", "stuck_collective", "step_mark", "job", "trust", "lost_work"),
)
"""The questions (`question.<name>`) of a summary."""
OF_STEP = {"device_time": ("idle_share", "idle_cause")}
"""Those that have no steps, and the ones that a summary of a step has instead."""
OF_ALL_RANKS = ("straggler",)
"""Those that compare ranks with each other, also where one is chosen."""


class Summary(dict[str, "pl.DataFrame"]):
    """The answers of a summary by question, displayed as the text of the command."""

    def __init__(
        self, answers: Mapping[str, pl.DataFrame], path: str, part: Part | None = None
    ) -> None:
        """Keep the answers, the database that the advice is about, and the part."""
        super().__init__(answers)
        self._path = path
        self.part: Part = part or {}

    def __repr__(self) -> str:
        """The text that the command prints."""
        from tracedb.summary.text import lines

        return "\n".join(lines(self, self._path, self.part))

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return preformatted(repr(self))


def summary(
    database: Database,
    part: Part | None = None,
    known: Mapping[str, pl.DataFrame] | None = None,
) -> Summary:
    """The answers by question, for everything or a part; those `known` are taken.

    Raises `QueryError` for a part that does not exist.
    """
    part, known = part or {}, known or {}
    of_step = OF_STEP if "step" in part else {}
    names = [one for name in PARTS for one in of_step.get(name, (name,))]
    answers = {
        name: known[name] if name in known else _answer(database, name, part)
        for name in names
    }
    _check(database, part, answers["recording"])
    if "step" in part:
        having = database.relation("staging.step", **part)["trace_id"].implode()
        recorded = answers["recording"]
        answers["recording"] = recorded.filter(recorded["trace_id"].is_in(having))
    if part:
        runs = answers["recording"]["run_id"].unique().implode()
        answers = {
            name: rows.filter(rows["run_id"].is_in(runs))
            if "run_id" in rows.columns
            else rows
            for name, rows in answers.items()
        }
    return Summary(answers, str(database.path), part)


def _answer(database: Database, name: str, part: Part) -> pl.DataFrame:
    """The answer to a question, of as much of the part as it has."""
    from tracedb.catalog import find

    relation = find(f"question.{name}")
    among = {"run"} if name in OF_ALL_RANKS else {*part}
    own = {
        key: n for key, n in part.items() if key in among and parts.has(relation, key)
    }
    return database.ask(name, **cast("Part", own))


def _check(database: Database, part: Part, recordings: pl.DataFrame) -> None:
    """Raise `QueryError` if no trace, or no step, has all numbers of a part."""
    if recordings.is_empty() and part.keys() - {"run"}:
        raise QueryError(
            f"no recording has {parts.in_words(part)}; `tracedb info` lists the traces"
        )
    if "step" in part and database.relation("staging.step", **part).is_empty():
        rest: Part = {**part, "step": None}
        there = database.relation("staging.step", **rest)["step"].unique().sort()
        of = parts.in_words(rest)
        raise no_such_number(
            f"step {part['step']} in {of}", there.to_list(), f"{of} has no steps"
        )
