"""What a lake holds: the manifest, which alone says which partitions count.

A folder of small JSON files, each written beside its place and moved there:

    _manifest/<sha256>.json        a trace that is in the lake: an `Entry`
    _manifest/failed-<n>.json      a file that could not be ingested: a `Failure`
    _manifest/numbers.json         which number each run, and each file, has

An entry is named by the content of its file, so the same content is there once, whoever
puts it in. A file that has changed has its number still: of two entries of one number
the younger counts, so a partition is replaced at the moment at which the entry of the
new one is there. Nothing is read that no entry names: what a worker that was killed
left behind, or is writing still.

Numbers are given by who hands out the work, under a lock, in the order of the files: so
a lake has the same ones whoever does it. All numbers of events of a trace have its own
in their upper half (`EVENTS`), so that rows of all traces can stand in one table.
"""

from __future__ import annotations

import fcntl
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import msgspec

from tracedb.errors import LakeError
from tracedb.ingest import Numbers
from tracedb.lake.place import ATTEMPTS, MANIFEST
from tracedb.outputs import make_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EVENTS = 1 << 32
"""How many numbers of events each trace has. Up to two million traces all are within
53 bits, so that what takes them for floating-point numbers takes them exactly."""
_NUMBERS = "numbers.json"
_FAILED = "failed-"
_LOCK = ".lock"

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True):
    """A trace that is in the lake."""

    number: int
    run: str
    run_id: int
    rank: int | None
    format: str
    source: str
    """The path of the file that it was made from."""
    sha256: str
    event_count: int
    partition: str
    """Its folder, below the lake."""
    fingerprint: str
    """Of the relations and files that it was made with: `worker.fingerprint`."""
    written_ns: int
    """[ns] When it came in, since 1970."""
    files: dict[str, tuple[str, ...]] = {}
    """Its Parquet files: of which relations each has the rows. Entries of other
    versions, which are refused by their fingerprint, have none."""


class Failure(msgspec.Struct, frozen=True):
    """A file that could not be ingested; its next try may end otherwise."""

    number: int
    run: str
    source: str
    detail: str


class Numbered(msgspec.Struct, frozen=True):
    """The number of a file, and its run with that one's number."""

    number: int
    run: str
    run_id: int


class _Known(msgspec.Struct):
    """Which numbers are given, and which names runs got from folders."""

    runs: dict[str, int] = {}
    folders: dict[str, str] = {}
    traces: dict[str, dict[str, int]] = {}
    """Of files, by run and path."""

    def numbered(self, path: str, run: str | None) -> Numbered:
        run = run or self._of_folder(PurePath(path).parent)
        run_id = self.runs.setdefault(run, len(self.runs) + 1)
        of_run = self.traces.setdefault(run, {})
        if path not in of_run:
            of_run[path] = 1 + sum(map(len, self.traces.values()))
        return Numbered(of_run[path], run, run_id)

    def _of_folder(self, folder: PurePath) -> str:
        """The run of a folder: its name, or more of its path where that is taken."""
        if str(folder) not in self.folders:
            parts = folder.parts
            names = ("/".join(parts[-n:]) for n in range(1, len(parts) + 1))
            free = (name for name in names if name not in self.runs)
            self.folders[str(folder)] = next(free, str(folder))
        return self.folders[str(folder)]


def numbers_of(run_id: int, number: int) -> Numbers:
    """Where a trace's database begins to count."""
    return Numbers(run_id, number, number * EVENTS + 1)


class Manifest:
    """The manifest of a lake."""

    def __init__(self, root: Path) -> None:
        """Take the lake's folder."""
        self.root = root
        self._folder = root / MANIFEST

    def make(self) -> None:
        """Make the lake, where there is none.

        Raises `LakeError` where the folder has other things in it.
        """
        if not self._folder.is_dir() and self.root.is_dir() and any(self._visible()):
            raise LakeError(
                f"{self.root}: a folder with other things in it, and no lake; "
                "name another for the lake"
            )
        make_folder(self._folder, LakeError)

    def _visible(self) -> Iterable[Path]:
        return (path for path in self.root.iterdir() if not path.name.startswith("."))

    def entries(self) -> list[Entry]:
        """What is in the lake, by number."""
        newest: dict[int, Entry] = {}
        for entry in self._all():
            other = newest.get(entry.number)
            if other is None or _age(other) < _age(entry):
                newest[entry.number] = entry
        return [newest[number] for number in sorted(newest)]

    def entry(self, sha256: str) -> Entry | None:
        """The trace of that content, if it is there."""
        return _read(self._folder / f"{sha256}.json", Entry)

    def failures(self) -> list[Failure]:
        """What could not be ingested, by number."""
        paths = self._folder.glob(f"{_FAILED}*.json")
        found = (_read(path, Failure) for path in paths)
        return sorted((f for f in found if f), key=lambda failure: failure.number)

    def numbered(self, paths: Iterable[str], run: str | None) -> list[Numbered]:
        """The numbers of files of a run, by default that of their folder.

        New ones are given, and noted. Raises `LakeError` where they cannot be.
        """
        path = self._folder / _NUMBERS
        with self._locked():
            known = _read(path, _Known) or _Known()
            found = [known.numbered(name, run) for name in paths]
            _write(path, known)
        return found

    def commit(self, entry: Entry) -> None:
        """Let a partition count, in place of all that the file had before."""
        _write(self._folder / f"{entry.sha256}.json", entry)
        self._failed(entry.number).unlink(missing_ok=True)

    def fail(self, failure: Failure) -> None:
        """Note that a file could not be ingested; what there is of it stays."""
        _write(self._failed(failure.number), failure)

    def _failed(self, number: int) -> Path:
        return self._folder / f"{_FAILED}{number}.json"

    def tidy(self) -> None:
        """Remove what has been replaced, and what those who were killed left."""
        with self._locked():
            self.drop_replaced()
            named = {entry.partition for entry in self.entries()}
            at_work = [not _is_over(job) for job in (self.root / ATTEMPTS).glob("*/")]
            if any(at_work):
                return  # what no entry names yet may be about to be named
            for folder in self.root.glob("run=*/rank=*/trace=*"):
                if str(folder.relative_to(self.root)) not in named:
                    shutil.rmtree(folder, ignore_errors=True)

    def drop_replaced(self) -> None:
        """Remove the entries that count no more."""
        valid = {entry.sha256 for entry in self.entries()}
        for entry in self._all():
            if entry.sha256 not in valid:
                (self._folder / f"{entry.sha256}.json").unlink(missing_ok=True)

    @contextmanager
    def job(self) -> Iterator[Path]:
        """A folder for who hands out work; should they die, others remove it."""
        folder = self.root / ATTEMPTS / uuid4().hex
        with ExitStack() as stack:
            with self._locked():
                make_folder(folder, LakeError)
                stack.enter_context(_lock(folder / _LOCK))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _all(self) -> Iterator[Entry]:
        for path in sorted(self._folder.glob("*.json")):
            if not path.name.startswith((_FAILED, _NUMBERS)):
                entry = _read(path, Entry)
                if entry is not None:
                    yield entry

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _lock(self._folder / _LOCK):
            yield


def _age(entry: Entry) -> tuple[int, str]:
    return entry.written_ns, entry.sha256


def _is_over(job: Path) -> bool:
    """Whether nobody works in a folder any more; it is then removed."""
    try:
        with _lock(job / _LOCK, is_patient=False):
            shutil.rmtree(job, ignore_errors=True)
    except BlockingIOError:
        return False
    except OSError:
        return not job.exists()
    return True


@contextmanager
def _lock(path: Path, *, is_patient: bool = True) -> Iterator[None]:
    """Hold a lock, which ends with the process at the latest.

    Raises `BlockingIOError` where it is held, unless one is patient.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
        yield


def _read(path: Path, kind: type[T]) -> T | None:
    """What a file of the manifest says; None where it is gone.

    Raises `LakeError` where it says nothing that can be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise LakeError(
            f"{path}: no part of a manifest ({error}); remove it, and ingest again"
        ) from error


def _write(path: Path, said: msgspec.Struct) -> None:
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(said)))
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise LakeError(f"{path}: cannot be written: {error.strerror}") from error
