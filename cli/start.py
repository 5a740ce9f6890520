"""Entry point of the command: prints one line on Ctrl-C even during imports."""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130
# If memory is limited, the allocator of polars writes a line to stderr each time that
# it cannot start its thread.
_ALLOCATOR, _NO_THREADS = "_RJEM_MALLOC_CONF", "background_thread:false"


def tracedb() -> None:
    """Run the command and end the process."""
    chosen = os.environ.get(_ALLOCATOR)
    os.environ[_ALLOCATOR] = f"{chosen},{_NO_THREADS}" if chosen else _NO_THREADS
    try:
        from .main import tracedb as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("tracedb: interrupted\n")
        sys.stderr.flush()
        os._exit(_INTERRUPTED)
    except SystemExit as end:
        # All work is done: ignore a Ctrl-C while Python cleans up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Exit now: Python would join threads, and then end itself by the signal.
        if end.code == _INTERRUPTED:
            os._exit(_INTERRUPTED)
        raise
