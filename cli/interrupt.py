"""Ctrl-C: the first one stops the command, including a running DuckDB query."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

EXIT_CODE = 130
_MOMENT_SECONDS = 0.05
"""Python delivers a Ctrl-C to the main thread within this time, except in a query."""
_PATIENCE_SECONDS = 3.0
"""Another Ctrl-C within this time counts as the same one: cleanup takes a while."""


class Interrupt:
    """Records whether Ctrl-C was pressed since the command began."""

    def __init__(self) -> None:
        """Start without an interrupt."""
        self._at: float | None = None
        self._place: tuple[int, int] | None = None
        self.is_over = False

    @property
    def happened(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._at is not None

    @property
    def is_heeded(self) -> bool:
        """Whether the main thread has left the frame in which it received the signal.

        DuckDB checks for signals rarely, and may continue its query.
        """
        frames = sys._current_frames()  # noqa: SLF001 (the documented name)
        return self.happened and self._place != _place(
            frames.get(main_thread().ident or 0)
        )

    def receive(self, _number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt` the first time; later, exit if cleanup hangs."""
        if self._at is None:
            self._place = _place(frame)
            self._at = monotonic()
            raise KeyboardInterrupt
        if monotonic() - self._at > _PATIENCE_SECONDS:
            os._exit(EXIT_CODE)


def _place(frame: FrameType | None) -> tuple[int, int] | None:
    return frame and (id(frame), frame.f_lasti)


@contextmanager
def watched() -> Iterator[Interrupt]:
    """Let the first Ctrl-C stop what the block does.

    Python delivers the signal when the main thread runs Python code again, which may be
    never during a DuckDB query. So another thread waits for it and ends the query.
    """
    interrupt = Interrupt()
    if current_thread() is not main_thread():
        yield interrupt
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = Thread(target=_watch, args=(reader, interrupt), daemon=True)
    watcher.start()
    usual = signal.signal(signal.SIGINT, interrupt.receive)
    usual_writer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield interrupt
    finally:
        signal.set_wakeup_fd(usual_writer)
        signal.signal(signal.SIGINT, usual)
        interrupt.is_over = True
        os.close(writer)
        watcher.join()
        os.close(reader)


def _watch(reader: int, interrupt: Interrupt) -> None:
    """Interrupt all queries at a Ctrl-C, until the main thread has reacted.

    Later queries belong to its cleanup.
    """
    while numbers := os.read(reader, 64):
        while signal.SIGINT in numbers and not interrupt.is_over:
            sleep(_MOMENT_SECONDS)
            if interrupt.is_heeded:
                break
            _stop_queries()


def _stop_queries() -> None:
    duck = sys.modules.get("tracedb.duck")
    for connection in list(duck.connections) if duck else []:
        # A connection may have been closed by now.
        with suppress(Exception):
            connection.interrupt()
