"""Edits of ranks that send to one another are predicted to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import messages
import pytest


@pytest.mark.parametrize("seed", [1, 3])
def test_messages_are_waited_for_with_edits(seed: int, tmp_path: Path) -> None:
    """Each rank of a pipeline waits for what another one sends, or takes."""
    messages.check(seed, tmp_path)
