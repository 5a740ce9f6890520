"""Where the numbers of a trace begin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Numbers:
    """From which numbers on an empty database counts what is new."""

    run_id: int = 1
    trace_id: int = 1
    event_id: int = 1
    """Of events, and of the nodes of execution graphs."""
