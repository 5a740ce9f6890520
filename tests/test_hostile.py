"""A few of the files of `hostile.py`, which tries hundreds."""

from __future__ import annotations

import hostile
import pytest
from hostile import AFTER_INGEST, MAKERS, attempt
from support import sampled

FEW = (
    "cyclic flows",
    "surrogates in names",
    "3,000 steps of no length",
    "device ids as text",
)
REFUSED = ("fifo", "link to itself", "gzip in gzip", "git pointer", "nested objects")


@pytest.mark.until("question")
@pytest.mark.parametrize("name", sampled(FEW, 2))
def test_every_command_answers_or_refuses(name: str) -> None:
    """No command fails otherwise on what was ingested."""
    outcome = attempt(name)
    assert outcome.broken == []
    assert outcome.exit_code == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_trace_is_refused(name: str) -> None:
    """In one line, and no database is left behind."""
    outcome = attempt(name)
    assert outcome.broken == []
    assert outcome.exit_code == hostile.REFUSED


def test_there_are_hundreds() -> None:
    """Cases are not lost by equal names, and each command is tried once."""
    assert len(MAKERS) > 400
    assert len(set(AFTER_INGEST)) == len(AFTER_INGEST)
