"""What the programs that measure share: clocks, tasks, processes, traces, peers.

Every figure comes from a process of its own, which says what it took (`work_if_asked`)
while this one watches its memory (`measure`). Files that take long to make lie in a
cache. Needs Linux.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, get_type_hints

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import duckdb

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"
SCALE = Path(__file__).with_name("scale.py")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
MB, GB = 10**6, 10**9
CONTROL = "hta/trace_diff_control.json.gz"


# A measurement: a child process that works, and this process, which watches its memory.


class Clock:
    """Measures a `with` block, including child processes that it waited for."""

    cpu_s = wall_s = 0.0

    def __enter__(self) -> None:
        """Start."""
        self.cpu_s -= _cpu_seconds()
        self.wall_s -= time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.cpu_s += _cpu_seconds()
        self.wall_s += time.perf_counter()


def _cpu_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class NotThereError(Exception):
    """The measured feature does not exist in this version."""


class Outcome(NamedTuple):
    """Cost of a piece of work; after a failure, only the reason."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    result: int = 0
    """The result, for comparison: events, nanoseconds."""
    part: str = ""
    """Which piece, if a process does several."""
    failure: str = ""

    @classmethod
    def of(cls, clock: Clock, result: int = 0, part: str = "") -> Outcome:
        """The cost since the process, or its last piece of work, began."""
        peak_bytes = _peak_bytes()
        # Reset the kernel's peak of resident memory.
        Path("/proc/self/clear_refs").write_text("5")
        return cls(clock.cpu_s, clock.wall_s, peak_bytes, result, part)


class Bounds(NamedTuple):
    """Resource limits of a process."""

    memory_bytes: int
    timeout_s: float


def add_bounds(parser: argparse.ArgumentParser, memory: float = 12) -> None:
    """Add options for resource limits."""
    say = parser.add_argument
    say("--memory", type=float, default=memory, help="GB that a process may use")
    say("--timeout", type=float, default=900, help="seconds that a process may take")


def bounds(given: argparse.Namespace) -> Bounds:
    """The resource limits given on the command line."""
    return Bounds(int(given.memory * GB), given.timeout)


@dataclass(frozen=True)
class Task:
    """A child's task; programs subclass it for their own needs."""

    path: Path
    memory_bytes: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a task written by `dump`."""
        kinds = get_type_hints(cls).values()
        found: list[Any] = json.loads(text)
        values = zip(kinds, found, strict=True)
        return cls(*(kind(value) for kind, value in values))

    def dump(self) -> str:
        """Write it for `parse`.

        >>> Task.parse(Task(Path("/a.json"), 10).dump())
        Task(path=PosixPath('/a.json'), memory_bytes=10)
        """
        return json.dumps(astuple(self), default=str)


SomeTask = TypeVar("SomeTask", bound=Task)
_WORK = "--work"


def work_if_asked(
    kind: type[SomeTask], tools: Mapping[str, Callable[[SomeTask], Iterable[Outcome]]]
) -> None:
    """Work and exit, if `measure` started this process as a child."""
    if sys.argv[1:2] != [_WORK]:
        return
    tool, text = sys.argv[2:]
    print(json.dumps(_outcomes(tools[tool], kind.parse(text))))
    sys.exit()


def _outcomes(
    work: Callable[[SomeTask], Iterable[Outcome]], task: SomeTask
) -> list[Outcome]:
    """The cost of the work, or why it failed."""
    try:
        return list(work(task))
    except Exception as error:  # noqa: BLE001 (a peer may raise anything)
        return [Outcome(failure=_reason(error, task.memory_bytes))]


def ingest_until(
    layer: str, connection: duckdb.DuckDBPyConnection, *paths: Path
) -> None:
    """Ingest files and compute the layers up to this one."""
    from tracedb.ingest import ingest

    ingest(
        connection,
        paths,
        run=None,
        pair=False,
        progress=lambda _line: None,
        until=layer,
    )


def _peak_bytes() -> int:
    found = re.search(
        r"^VmHWM:\s+(\d+) kB", _text(Path("/proc/self/status")), re.MULTILINE
    )
    return int(found[1]) * 1024 if found else 0


def _reason(error: Exception, memory_bytes: int) -> str:
    """The error in one line, without paths of this machine."""
    if isinstance(error, NotThereError):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, MemoryError) or kind == "OutOfMemoryException":
        return _out_of_memory(memory_bytes)
    line = re.sub(r"/\S+", "...", (str(error).splitlines() or [""])[0])
    return f"{kind}: {line[:100]}"


def _out_of_memory(memory_bytes: int) -> str:
    return f"out of memory at {memory_bytes / GB:g} GB"


def measure(
    program: str,
    tool: str,
    task: Task,
    timeout_s: float,
    python: Path = Path(sys.executable),
) -> list[Outcome]:
    """Run a task in a child process, which is killed if it exceeds its limits."""
    # Isolated from environment variables and user packages.
    command = [str(python), "-sE", program, _WORK, tool, task.dump()]
    bounds = Bounds(task.memory_bytes, timeout_s)
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            command, stdout=out, stderr=subprocess.DEVNULL
        )
        try:
            peak_bytes = _watch(process, bounds)
        except TimeoutError:
            return [Outcome(failure=f"not done in {timeout_s:g} s")]
        except MemoryError:
            return [Outcome(failure=_out_of_memory(task.memory_bytes))]
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        lines = out.read().decode().splitlines()
    if process.returncode:
        return [Outcome(failure=f"ended with code {process.returncode}")]
    outcomes = [Outcome(*outcome) for outcome in json.loads(lines[-1])]
    return list(_with_children(outcomes, peak_bytes))


def _with_children(outcomes: list[Outcome], peak_bytes: int) -> Iterator[Outcome]:
    """Add the children's memory to the piece with the highest memory."""
    highest = max(outcome.peak_bytes for outcome in outcomes)
    for outcome in outcomes:
        if outcome.peak_bytes == highest:
            yield outcome._replace(peak_bytes=max(highest, peak_bytes))
        else:
            yield outcome


def _watch(process: subprocess.Popen[bytes], bounds: Bounds) -> int:
    """Wait for a process; returns its peak memory including children."""
    peak_bytes, started = 0, time.monotonic()
    while process.poll() is None:
        peak_bytes = max(peak_bytes, sum(map(_resident_bytes, _family(process.pid))))
        if peak_bytes > bounds.memory_bytes:
            raise MemoryError
        if time.monotonic() - started > bounds.timeout_s:
            raise TimeoutError
        time.sleep(0.1)
    return peak_bytes


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _text(children).split():
            yield from _family(int(child))


def _resident_bytes(pid: int) -> int:
    pages = _text(Path(f"/proc/{pid}/statm")).split()
    return int(pages[1]) * resource.getpagesize() if pages else 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


def medians(runs: Sequence[Outcome]) -> Outcome:
    """The median of each figure over several runs of one piece of work."""
    cpu_s, wall_s, peak_bytes, results = zip(*(run[:4] for run in runs), strict=True)
    return runs[0]._replace(
        cpu_s=statistics.median(cpu_s),
        wall_s=statistics.median(wall_s),
        peak_bytes=round(statistics.median(peak_bytes)),
        result=round(statistics.median(results)),
    )


def tell(line: str) -> None:
    """Report progress on stderr."""
    print(line, file=sys.stderr, flush=True)


# The traces.


def cache() -> Path:
    """The folder for files that take long to create."""
    folder = CACHE / "tracedb-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Scaled(NamedTuple):
    """A trace repeated up to a number of events."""

    path: Path
    events: int


def scaled(source: Path, events: int) -> Scaled:
    """Scale a trace, unless it is cached."""
    digest = hashlib.sha256(source.read_bytes() + SCALE.read_bytes()).hexdigest()
    path = cache() / f"{source.name.partition('.')[0]}-{events}-{digest[:12]}.json"
    said = path.with_suffix(".txt")
    if not said.exists():
        tell(f"making {path.name}")
        said.write_text(
            quietly(
                sys.executable,
                str(SCALE),
                str(source),
                str(path),
                "--events",
                str(events),
            )
        )
    return Scaled(path, int(said.read_text().split()[0].replace(",", "")))


def is_wanted(title: str, wanted: Sequence[str]) -> bool:
    """Whether a title has one of the words; without words, every title matches."""
    return not wanted or any(word in title for word in wanted)


def text_of(path: Path) -> bytes:
    """The text of a trace file."""
    stored = path.read_bytes()
    return gzip.decompress(stored) if path.suffix == ".gz" else stored


# The environment of the peers, which are not dependencies of tracedb.

# HTA targets pandas 2; with pandas 3, some traces raise a TypeError.
PEERS = ("traceinsight", "pandas<3", "networkx", "orjson")


def peers_python(*, install: bool) -> Path | None:
    """The peers' interpreter, installed on demand; None without it."""
    folder = cache() / "peers"
    done = folder / "installed"
    if not done.exists() and install:
        tell(f"installing {', '.join(PEERS)}")
        quietly(sys.executable, "-m", "venv", str(folder))
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        quietly(str(folder / "bin" / "python"), *pip, *PEERS)
        done.touch()
    return folder / "bin" / "python" if done.exists() else None


def quietly(*command: str) -> str:
    """Run a command that has to succeed, and return its output."""
    done = subprocess.run(  # noqa: S603 (our own program)
        command, check=True, text=True, capture_output=True
    )
    return done.stdout
