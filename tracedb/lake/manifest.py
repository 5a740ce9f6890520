"""What a lake holds: the manifest, which alone says which partitions count.

A folder of small JSON files, each there whole or not at all (`storage.py`):

    _manifest/<sha256>.json        a trace that is in the lake: an `Entry`
    _manifest/failed-<n>.json      a file that could not be ingested: a `Failure`
    _manifest/numbers.json         which number each run, and each file, has

An entry is named by the content of its file, so the same content is there once, whoever
puts it in. A file that has changed has its number still: of two entries of one number
the younger counts, so a partition is replaced at the moment at which the entry of the
new one is there. Nothing is read that no entry names: what a worker that was killed
left behind, or is writing still.

Numbers are given by who hands out the work, one after the other, in the order of the
files: so a lake has the same ones whoever does it. All numbers of events of a trace
have its own in their upper half (`EVENTS`), so that rows of all traces can stand in one
table.
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
"""How many numbers of events each trace has. Up to two million traces all are within
53 bits, so that what takes them for floating-point numbers takes them exactly."""
_NUMBERS = f"{MANIFEST}/numbers.json"
_FAILED = f"{MANIFEST}/failed-"

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
    options: str = ""
    """A digest of the options of the ingest that rows follow from; none where none."""
    files: dict[str, tuple[str, ...]] = {}
    """Its Parquet files: of which relations each has the rows. Entries of other
    versions, which are refused by their fingerprint, have none."""

    @property
    def made_with(self) -> str:
        """As `Task.made_with` says it."""
        return "-".join(filter(None, (self.fingerprint, self.options)))


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

    def __init__(self, root: str | Path) -> None:
        """Take the lake's folder, or its URI."""
        self.storage = storage(root)

    def make(self) -> None:
        """Make the lake, where there is none.

        Raises `LakeError` where the folder has other things in it.
        """
        if not self.storage.is_lake() and not self.storage.is_free():
            raise LakeError(
                f"{self.storage.name}: a folder with other files, not a lake; choose "
                "another folder"
            )
        self.storage.make()

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
        return next(iter(self._read([_entry(sha256)], Entry)), None)

    def failures(self) -> list[Failure]:
        """What could not be ingested, by number."""
        names = [name for name in self._names() if _FAILED in name]
        return sorted(self._read(names, Failure), key=lambda failure: failure.number)

    def numbered(self, paths: Iterable[str], run: str | None) -> list[Numbered]:
        """The numbers of files of a run, by default that of their folder.

        New ones are given, and noted. Raises `LakeError` where they cannot be.
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
        """The numbers given so far; raises `LakeError` where they were lost."""
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
        """Let a partition count, in place of all that the file had before."""
        self.storage.write(_entry(entry.sha256), _encoded(entry))
        self.storage.remove(_failed(entry.number))

    def fail(self, failure: Failure) -> None:
        """Note that a file could not be ingested; what there is of it stays."""
        self.storage.write(_failed(failure.number), _encoded(failure))

    def forget(self, failure: Failure) -> None:
        """Note that a file which failed is there no more."""
        self.storage.remove(_failed(failure.number))

    def tidy(self) -> None:
        """Remove what has been replaced, and what those who were killed left."""
        replaced = self.drop_replaced()
        self.storage.clear(self._partitions, [entry.partition for entry in replaced])

    def _partitions(self) -> set[str]:
        return {entry.partition for entry in self.entries()}

    def drop_replaced(self) -> list[Entry]:
        """Remove the entries that count no more; returns them."""
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
        """What files of the manifest say, of those that are there."""
        for name, content in self.storage.read(names).items():
            yield _decoded(f"{self.storage.name}/{name}", content, kind)


def _entry(sha256: str) -> str:
    return f"{MANIFEST}/{sha256}.json"


def _failed(number: int) -> str:
    return f"{_FAILED}{number}.json"


def _age(entry: Entry) -> tuple[int, str]:
    return entry.written_ns, entry.sha256


def _encoded(said: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(said))


def _decoded(name: str, content: bytes, kind: type[T]) -> T:
    """What a file says; raises `LakeError` where that is nothing that can be read."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise LakeError(
            f"{name}: not part of a manifest ({error}); remove it and ingest again"
        ) from error
