"""The first ids in an empty database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Numbers:
    """The first ids that are assigned in an empty database."""

    run_id: int = 1
    trace_id: int = 1
    event_id: int = 1
    """The first id of events, and of nodes of execution graphs."""
