"""Measure a plan into a file, for the command, the module and the GPU scripts."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from . import results
from .backend import Backend, Place
from .errors import MicrobenchError
from .journal import Journal
from .run import Plan, Run, Tell
from .timing import Effort


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    path: Path
    place: Place
    rows: int
    is_whole: bool
    """Whether all cases of the plan have been measured, or failed."""
    failures: dict[str, int]
    noise: dict[str, dict[str, float]]

    def lines(self) -> list[str]:
        """The summary as lines of text."""
        reported = [f"{self.path}: {self.rows:,} cases on {self.place.device}"]
        if score := self.noise.get("all"):
            reported.append(
                f"repeated measurements of {score['case_count']:,} cases differ by "
                f"{score['gmae_share']:.1%} (geometric mean), "
                f"{score['mape_share']:.1%} (mean)"
            )
        reported += [f"left out {count}: {why}" for why, count in self.failures.items()]
        if not self.is_whole:
            reported.append("incomplete: run the same command again to resume")
        return reported


def measure(  # noqa: PLR0913 (callers name them, and most have a default)
    output: str | Path,
    plan: Plan,
    backend: Backend,
    *,
    minutes: float | None = None,
    effort: Effort | None = None,
    tell: Tell = lambda _line: None,
) -> Summary:
    """Measure a plan into a Parquet file, resuming an earlier run.

    The journal is next to it (`FILE.journal`). After `minutes` the run ends with the
    measurements so far. Raises MicrobenchError if the file cannot be written, or the
    journal belongs to another run.
    """
    path = Path(output)
    place = backend.place()
    journal = _journal(path, plan, place)
    until_s = None if minutes is None else monotonic() + 60 * minutes
    run = Run(backend, plan, journal, effort=effort, tell=tell)
    is_whole = run.measure(until_s)
    measured = results.rows(journal.lines, plan, place)
    provenance = _provenance(plan, place, journal, measured)
    results.write(path, measured, provenance)
    return Summary(
        path,
        place,
        len(measured),
        is_whole,
        dict(results.failures(journal.lines)),
        results.noise_by_family(measured),
    )


def _journal(path: Path, plan: Plan, place: Place) -> Journal:
    run = {
        "device": place.device,
        "software": place.software,
        "source": plan.name,
        "rounds": plan.rounds,
    }
    beside = path.with_name(f"{path.name}.journal")
    if path.exists() and not beside.exists():
        raise MicrobenchError(
            f"{path}: exists, without the journal of its run; choose another name"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return Journal(beside, run)
    except OSError as error:
        raise MicrobenchError(f"{path}: {error.strerror}; choose another") from error


def _provenance(
    plan: Plan, place: Place, journal: Journal, measured: Sequence[dict[str, Any]]
) -> dict[str, object]:
    """Metadata about the creation of the file."""
    words = [Path(word).name or word for word in sys.argv]
    return {
        "plan": plan.name,
        "cases": len(plan.cases),
        "rounds": plan.rounds,
        "command": shlex.join(words),
        "place": dict(place.facts) | ({"cache": "cold"} if plan.is_cold else {}),
        "drift": list(results.drift(journal.lines)),
        "noise": results.noise_by_family(measured),
        "failures": dict(results.failures(journal.lines)),
    }
