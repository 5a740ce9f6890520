"""Ranks of a job on this machine, each a fork of this process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def run_ranks(count: int, run: Callable[[int], None]) -> None:
    """Run a function as each of the ranks; exit with a message if one of them fails."""
    ranks = []
    for rank in range(count):
        child = os.fork()
        if not child:
            status = 1
            try:
                run(rank)
                status = 0
            except Exception as error:  # noqa: BLE001 (whatever a step raises)
                sys.stderr.write(f"rank {rank}: {error!r}\n")
            finally:
                sys.stderr.flush()
                os._exit(status)
        ranks.append(child)
    failed = [os.waitpid(child, 0)[1] for child in ranks]
    if any(failed):
        sys.exit(f"ranks ended with {failed}")
