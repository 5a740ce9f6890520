"""Where the command begins: a Ctrl-C is one line even while modules are imported."""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def tracedb() -> None:
    """Run the command; the process ends in it."""
    try:
        from .main import tracedb as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("tracedb: interrupted\n")
        sys.stderr.flush()
        os._exit(_INTERRUPTED)
    except SystemExit as end:
        # Python would go on to end threads, and itself by the signal.
        if end.code == _INTERRUPTED:
            os._exit(_INTERRUPTED)
        raise
