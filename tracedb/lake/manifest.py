"""The manifest of a lake, which alone determines its contents.

A folder of small JSON files, which are written atomically (`storage.py`):

    _manifest/<sha256>.json        a trace in the lake: an `Entry`
    _manifest/failed-<n>.json      a file that could not be ingested: a `Failure`
    _manifest/numbers.json         the number of each run and each file

An entry is named by the content of its file, so the same content is stored once. A
changed file keeps its number: of two entries with one number the newer counts, so
writing an entry replaces the partition atomically. Data without an entry (of killed or
running workers) is never read.

The process that distributes the work assigns numbers in the order of the files, so they
do not depend on the workers. Event ids of a trace have its number in their upper half
(`EVENTS`), so that rows of all traces fit in one table.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tracedb.errors import LakeError
from tracedb.ingest import Numbers
from tracedb.lake.storage import MANIFEST, storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

EVENTS = 1 << 32
"""Number of event ids per trace. Up to two million traces, all ids are within 53 bits,
and exact as doubles."""
_NUMBERS = f"{MANIFEST}/numbers.json"
_FAILED = f"{MANIFEST}/failed-"

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True):
    """A trace in the lake."""

    number: int
    run: str
    run_id: int
    rank: int | None
    format: str
    source: str
    """The path of its source file."""
    sha256: str
    event_count: int
    partition: str
    """Its folder in the lake."""
    fingerprint: str
    """The version of the relations that it was made with: `worker.fingerprint`."""
    written_ns: int
    """[ns] When it was written, since 1970."""
    options: str = ""
    """A digest of the ingest options that affect rows; empty without any."""
    files: dict[str, tuple[str, ...]] = {}
    """The relations in each of its Parquet files. Empty in entries of other versions,
    which the fingerprint rejects."""

    @property
    def made_with(self) -> str:
        """Comparable to `Task.made_with`."""
        return "-".join(filter(None, (self.fingerprint, self.options)))


class Failure(msgspec.Struct, frozen=True):
    """A file that could not be ingested; it may succeed later."""

    number: int
    run: str
    source: str
    detail: str


class Numbered(msgspec.Struct, frozen=True):
    """The number of a file, and its run with the run's number."""

    number: int
    run: str
    run_id: int


class _Known(msgspec.Struct):
    """The assigned numbers, and the run names of folders."""

    runs: dict[str, int] = {}
    folders: dict[str, str] = {}
    traces: dict[str, dict[str, int]] = {}
    """The numbers of files, by run and path."""

    def numbered(self, path: str, run: str | None) -> Numbered:
        run = run or self._of_folder(PurePath(path).parent)
        run_id = self.runs.setdefault(run, len(self.runs) + 1)
        of_run = self.traces.setdefault(run, {})
        if path not in of_run:
            of_run[path] = 1 + sum(map(len, self.traces.values()))
        return Numbered(of_run[path], run, run_id)

    def _of_folder(self, folder: PurePath) -> str:
        """The run of a folder: its name, or more of its path if that is taken."""
        if str(folder) not in self.folders:
            parts = folder.parts
            names = ("/".join(parts[-n:]) for n in range(1, len(parts) + 1))
            free = (name for name in names if name not in self.runs)
            self.folders[str(folder)] = next(free, str(folder))
        return self.folders[str(folder)]


def numbers_of(run_id: int, number: int) -> Numbers:
    """The first ids of a trace's database."""
    return Numbers(run_id, number, number * EVENTS + 1)


class Manifest:
    """The manifest of a lake."""

    def __init__(self, root: str | Path) -> None:
        """Take the lake's folder, or its URI."""
        self.storage = storage(root)

    def make(self) -> None:
        """Create the lake if it does not exist.

        Raises `LakeError` if the folder contains something else.
        """
        if not self.storage.is_lake() and not self.storage.is_free():
            raise LakeError(
                f"{self.storage.name}: a folder with other files, not a lake; choose "
                "another folder"
            )
        self.storage.make()

    def entries(self) -> list[Entry]:
        """The entries of the lake, by number."""
        newest: dict[int, Entry] = {}
        for entry in self._all():
            other = newest.get(entry.number)
            if other is None or _age(other) < _age(entry):
                newest[entry.number] = entry
        return [newest[number] for number in sorted(newest)]

    def entry(self, sha256: str) -> Entry | None:
        """The entry of a content, if there is one."""
        return next(iter(self._read([_entry(sha256)], Entry)), None)

    def failures(self) -> list[Failure]:
        """The failures, by number."""
        names = [name for name in self._names() if _FAILED in name]
        return sorted(self._read(names, Failure), key=lambda failure: failure.number)

    def numbered(self, paths: Iterable[str], run: str | None) -> list[Numbered]:
        """The numbers of files of a run, by default that of their folder.

        New numbers are assigned and stored. Raises `LakeError` if that fails.
        """
        paths = [*paths]
        found: list[Numbered] = []

        def given(content: bytes | None) -> bytes:
            known = self._known(content)
            found[:] = [known.numbered(path, run) for path in paths]
            return _encoded(known)

        self.storage.change(_NUMBERS, given)
        return found

    def _known(self, content: bytes | None) -> _Known:
        """The numbers assigned so far; raises `LakeError` if they were lost."""
        name = f"{self.storage.name}/{_NUMBERS}"
        if content is not None:
            return _decoded(name, content, _Known)
        if self._all():
            raise LakeError(
                f"{name}: missing, so the numbers of existing traces are unknown; "
                "ingest all files into a new lake"
            )
        return _Known()

    def commit(self, entry: Entry) -> None:
        """Add an entry, which replaces earlier ones of its file."""
        self.storage.write(_entry(entry.sha256), _encoded(entry))
        self.storage.remove(_failed(entry.number))

    def fail(self, failure: Failure) -> None:
        """Store a failure; earlier entries of the file stay."""
        self.storage.write(_failed(failure.number), _encoded(failure))

    def forget(self, failure: Failure) -> None:
        """Remove a failure, because its file no longer exists."""
        self.storage.remove(_failed(failure.number))

    def tidy(self) -> None:
        """Remove replaced partitions, and remains of killed workers."""
        replaced = self.drop_replaced()
        self.storage.clear(self._partitions, [entry.partition for entry in replaced])

    def _partitions(self) -> set[str]:
        return {entry.partition for entry in self.entries()}

    def drop_replaced(self) -> list[Entry]:
        """Remove replaced entries, and return them."""
        valid = {entry.sha256 for entry in self.entries()}
        replaced = [entry for entry in self._all() if entry.sha256 not in valid]
        for entry in replaced:
            self.storage.remove(_entry(entry.sha256))
        return replaced

    def _names(self) -> list[str]:
        names = self.storage.names(MANIFEST)
        return [name for name in names if name.endswith(".json") and name != _NUMBERS]

    def _all(self) -> list[Entry]:
        names = [name for name in self._names() if _FAILED not in name]
        return [*self._read(names, Entry)]

    def _read(self, names: Sequence[str], kind: type[T]) -> Iterator[T]:
        """The decoded files of the manifest; missing ones are skipped."""
        for name, content in self.storage.read(names).items():
            yield _decoded(f"{self.storage.name}/{name}", content, kind)


def _entry(sha256: str) -> str:
    return f"{MANIFEST}/{sha256}.json"


def _failed(number: int) -> str:
    return f"{_FAILED}{number}.json"


def _age(entry: Entry) -> tuple[int, str]:
    return entry.written_ns, entry.sha256


def _encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value))


def _decoded(name: str, content: bytes, kind: type[T]) -> T:
    """Decode a file; raises `LakeError` if that fails."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise LakeError(
            f"{name}: not part of a manifest ({error}); remove it and ingest again"
        ) from error
