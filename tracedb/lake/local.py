"""The local runner: processes on this machine, each with one file at a time.

A worker reads tasks from stdin and answers on stdout, as one line of JSON each. If it
dies, its file is tried again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, cast

import msgspec

from tracedb.lake.runner import MOST_TRIES
from tracedb.lake.worker import Outcome, Task, failed, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Not `-m`, because the package imports this module, and Python would warn.
_COMMAND = (
    *(sys.executable, "-P", "-c"),
    "from tracedb.lake.local import serve; serve()",
)


@dataclass(frozen=True)
class Local:
    """A `Runner` with processes on this machine."""

    workers: int
    is_elsewhere = False

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run all tasks; yield each outcome when it is known."""
        processes = _Processes()
        with ThreadPoolExecutor(self.workers) as threads:
            asked = [threads.submit(processes.do, task) for task in tasks]
            try:
                for answer in as_completed(asked):
                    yield answer.result()
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                processes.end()


class _Processes:
    """Reusable worker processes, one per thread."""

    def __init__(self) -> None:
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        self._is_over = False

    def do(self, task: Task) -> Outcome:
        """Run a task in a worker process."""
        for _ in range(MOST_TRIES):
            process = self._some()
            answer = _ask(process, msgspec.json.encode(task))
            if answer:
                self._idle.put(process)
                return msgspec.json.decode(answer, type=Outcome)
            code = process.wait()
            if self._is_over:
                # The run is ending; the file is not at fault.
                return Outcome(task.number, task.source, "failed", "ended early")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return failed(
            task,
            f"its worker ended {MOST_TRIES} times ({how}); there may be too little "
            "memory (`--memory`, fewer `--workers`)",
        )

    def end(self) -> None:
        """Kill all processes."""
        self._is_over = True
        for process in self._all:
            process.kill()
            process.communicate()

    def _some(self) -> subprocess.Popen[bytes]:
        try:
            return self._idle.get_nowait()
        except Empty:
            pipe = subprocess.PIPE
            process = subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe)  # noqa: S603 (our own words)
            self._all.append(process)
            return process


def _ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """The answer of a process; empty if it dies."""
    asked = cast("IO[bytes]", process.stdin)
    answers = cast("IO[bytes]", process.stdout)
    try:
        asked.write(line + b"\n")
        asked.flush()
        return answers.readline()
    except OSError:
        return b""


def serve() -> None:
    """Run the tasks on stdin until it ends."""
    # Ctrl-C reaches all processes of a terminal; the parent ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Keep output of libraries out of the answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for line in sys.stdin.buffer:
            outcome = work(msgspec.json.decode(line, type=Task))
            answers.write(msgspec.json.encode(outcome) + b"\n")
            answers.flush()
