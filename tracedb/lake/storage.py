"""Where the files of a lake lie: in a folder, or in a store of objects.

What the rest of a lake asks for is the same of both: that a file of the manifest is
there whole or not at all, that of two who change one neither is lost, and that a folder
of a trace may be written half, since nobody reads it before the manifest names it.

A folder (`Folder`) moves what is whole to its place, and has locks. A store (`Objects`)
has neither. There each file is put whole, and what several change is a sequence of
versions, of which each can be made once: who comes second reads anew. Nothing is ever
put where another's may lie: each job has names of its own.
"""

from __future__ import annotations

import fcntl
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from tracedb import remote
from tracedb.errors import LakeError
from tracedb.outputs import make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

MANIFEST = "_manifest"
"""The folder by which a lake is known; engines pass over names that begin so."""
ATTEMPTS = "_attempts"
_LOCK = ".lock"
_TRACES = "run=*/rank=*/trace=*"
_OVER_S = 7 * 24 * 3600
"""After so long nobody is taken to be at work still, where no lock tells."""


class GoneError(LakeError):
    """A file is not there that was to be read: somebody has replaced it since."""


class Storage(Protocol):
    """What a lake asks of where it lies; names are of files below it."""

    @property
    def name(self) -> str:
        """How people, and workers, name it."""

    def is_lake(self) -> bool:
        """Whether there is a manifest."""

    def is_free(self) -> bool:
        """Whether nothing is there, so that a lake can be made."""

    def make(self) -> None:
        """Make what has to be there before anything is written."""

    def names(self, folder: str) -> list[str]:
        """The files of a folder; none where there is no folder."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """What is in files, of those that are there."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""

    def change(self, name: str, made: Callable[[bytes | None], bytes]) -> None:
        """Write a file that is made of what was there; nobody's change is lost."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def job(self) -> AbstractContextManager[str]:
        """A job of one who hands out work: a word for its workers."""

    def scratch(self, job: str) -> str | None:
        """Where a worker of a job makes files first; None for anywhere."""

    def put(self, folder: Path, place: str, job: str) -> str:
        """Put a folder that is whole to its place; returns the name that it has got."""

    def clear(
        self, named: Callable[[], Collection[str]], replaced: Collection[str]
    ) -> None:
        """Remove folders that have been replaced, and what nobody names or will."""

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Which of these files are not there."""

    def at_hand(self, names: Sequence[str]) -> AbstractContextManager[dict[str, str]]:
        """Paths of this machine by which files can be read meanwhile.

        Raises `GoneError` where one is not there, if that is known by then.
        """

    def address(self, name: str) -> str:
        """How Spark names a file."""


def storage(root: str | Path) -> Storage:
    """Where a lake lies that a path or a URI names."""
    if isinstance(root, str) and remote.is_remote(root):
        return Objects(root)
    return Folder(Path(root).absolute())


class Folder:
    """A lake in a folder that all its workers see."""

    def __init__(self, root: Path) -> None:
        """Take the folder."""
        self._root = root
        self._manifest = root / MANIFEST

    @property
    def name(self) -> str:
        """How people, and workers, name it."""
        return str(self._root)

    def is_lake(self) -> bool:
        """Whether there is a manifest."""
        return self._manifest.is_dir()

    def is_free(self) -> bool:
        """Whether nothing is there but hidden files."""
        return not self._root.is_dir() or all(
            path.name.startswith(".") for path in self._root.iterdir()
        )

    def make(self) -> None:
        """Make the folder of the manifest."""
        make_folder(self._manifest, LakeError)

    def names(self, folder: str) -> list[str]:
        """The files of a folder that are whole; none where there is no folder."""
        found = (self._root / folder).glob("[!.]*")
        return sorted(f"{folder}/{path.name}" for path in found)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """What is in files, of those that are there."""
        found = {}
        for name in names:
            path = self._root / name
            try:
                found[name] = path.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                why = f"cannot be read: {error.strerror}"
                raise LakeError(f"{path}: {why}") from error
        return found

    def write(self, name: str, content: bytes) -> None:
        """Write a file beside its place and move it there."""
        path = self._root / name
        beside = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            beside.write_bytes(content)
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise LakeError(f"{path}: cannot be written: {error.strerror}") from error

    def change(self, name: str, made: Callable[[bytes | None], bytes]) -> None:
        """Write a file that is made of what was there, under the lake's lock."""
        with self._locked():
            self.write(name, made(self.read([name]).get(name)))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._root / name).unlink(missing_ok=True)

    @contextmanager
    def job(self) -> Iterator[str]:
        """A folder for who hands out work; should they die, others remove it."""
        folder = self._root / ATTEMPTS / uuid4().hex
        with ExitStack() as stack:
            with self._locked():
                make_folder(folder, LakeError)
                stack.enter_context(_lock(folder / _LOCK))
            try:
                yield folder.name
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def scratch(self, job: str) -> str:
        """The folder of the job: from there a folder can be moved to its place."""
        return str(self._root / ATTEMPTS / job)

    def put(self, folder: Path, place: str, _job: str) -> str:
        """Move a folder to its place; where one is already, another was as good.

        But for files that somebody has removed since.
        """
        path = self._root / place
        make_folder(path.parent, LakeError)
        try:
            folder.rename(path)
        except OSError:
            if not path.is_dir():
                raise
            for file in folder.iterdir():
                if not (path / file.name).exists():
                    file.rename(path / file.name)
            shutil.rmtree(folder)
        return place

    def clear(
        self, named: Callable[[], Collection[str]], _replaced: Collection[str]
    ) -> None:
        """Remove what nobody names, unless somebody is at work, who may name it yet."""
        with self._locked():
            at_work = [not _is_over(job) for job in (self._root / ATTEMPTS).glob("*/")]
            if any(at_work):
                return
            stay = named()
            for folder in self._root.glob(_TRACES):
                if str(folder.relative_to(self._root)) not in stay:
                    shutil.rmtree(folder, ignore_errors=True)

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Which of these files are not there."""
        return [name for name in names if not (self._root / name).exists()]

    @contextmanager
    def at_hand(self, names: Sequence[str]) -> Iterator[dict[str, str]]:
        """The paths themselves."""
        for name in self.lacking(names):
            raise GoneError(
                f"{self.address(name)}: missing from the lake; ingest its trace again"
            )
        yield {name: self.address(name) for name in names}

    def address(self, name: str) -> str:
        """How Spark names a file: by its path."""
        return str(self._root / name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _lock(self._manifest / _LOCK):
            yield


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


class Objects:
    """A lake in a store of objects, as fsspec has it; all errors are `LakeError`s."""

    def __init__(self, uri: str) -> None:
        """Take the URI; nothing is asked of the store yet."""
        self._uri = uri.rstrip("/")
        self._fs, self._root = remote.opened(self._uri, LakeError)

    @property
    def name(self) -> str:
        """How people, and workers, name it."""
        return self._uri

    def is_lake(self) -> bool:
        """Whether there is a manifest."""
        return self._is_there(MANIFEST)

    def is_free(self) -> bool:
        """Whether nothing is there."""
        return not self._list("")

    def make(self) -> None:
        """Nothing has to be there: folders are but names."""

    def names(self, folder: str) -> list[str]:
        """The files of a folder; none where there is no folder."""
        return [f"{folder}/{name}" for name in self._list(folder)]

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """What is in files, of those that are there; many at a time."""
        if not names:
            return {}
        with self._store_errors():
            by_path = {self._path(name): name for name in names}
            found: dict[str, Any] = self._fs.cat([*by_path], on_error="return")
            contents = {}
            for path, content in found.items():
                if isinstance(content, bytes):
                    contents[by_path[path]] = content
                elif not isinstance(content, FileNotFoundError):
                    raise content
        return contents

    def write(self, name: str, content: bytes) -> None:
        """Write a file; a store shows none before it is whole."""
        with self._store_errors():
            self._fs.pipe_file(self._path(name), content)

    def change(self, name: str, made: Callable[[bytes | None], bytes]) -> None:
        """Make the next version of a file, of the last one.

        A version can be made once. Old ones are emptied and never removed: else who is
        slow could make one again. A lake that was copied from a folder has the file.
        """
        folder = name.removesuffix(".json")
        while True:
            last = max(self.names(folder), default=name)
            content = self.read([last]).get(last)
            if content == b"":
                continue
            number = 1 if last == name else 1 + int(last.rpartition("/")[2])
            new = made(content)
            if new == content or self._created(f"{folder}/{number:012}", new):
                break
        if last != name and new != content:
            self.write(last, b"")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._store_errors():
            try:
                self._fs.rm_file(self._path(name))
            except FileNotFoundError:
                return

    @contextmanager
    def job(self) -> Iterator[str]:
        """A word for all folders of a job; should it die, that is known by its file."""
        job = uuid4().hex[:12]
        name = f"{ATTEMPTS}/{job}"
        self.write(name, str(int(time())).encode())
        try:
            yield job
        finally:
            self.remove(name)

    def scratch(self, _job: str) -> None:
        """Anywhere: what is whole is sent from there."""

    def put(self, folder: Path, place: str, job: str) -> str:
        """Send the files of a folder; what is there already is of the same job."""
        name = f"{place}-{job}"
        paths = sorted(folder.iterdir())
        with self._store_errors():
            self._fs.put(
                [str(path) for path in paths],
                [self._path(f"{name}/{path.name}") for path in paths],
            )
        return name

    def clear(
        self, named: Callable[[], Collection[str]], replaced: Collection[str]
    ) -> None:
        """Remove what has been replaced, and what jobs left that died long ago."""
        jobs = self.read(self.names(ATTEMPTS))
        over = {n for n, began in jobs.items() if int(began) < time() - _OVER_S}
        endings = tuple("-" + name.rpartition("/")[2] for name in over)
        left = [*replaced]
        with self._store_errors():
            if over:
                found = self._fs.glob(self._path(_TRACES))
                below = (str(one).removeprefix(f"{self._root}/") for one in found)
                stay = named()
                left += [n for n in below if n.endswith(endings) and n not in stay]
            for name in left:
                if self._is_there(name):
                    self._fs.rm(self._path(name), recursive=True)
        for name in over:
            self.remove(name)

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Which of these files are not there."""
        with self._store_errors():
            return [name for name in names if not self._fs.exists(self._path(name))]

    @contextmanager
    def at_hand(self, names: Sequence[str]) -> Iterator[dict[str, str]]:
        """Copies, many fetched at a time: all that is read of a lake is whole files."""
        with TemporaryDirectory(prefix="tracedb-") as folder:
            copies = {n: f"{folder}/{at}.parquet" for at, n in enumerate(names)}
            if names:
                with self._store_errors():
                    try:
                        self._fs.get([*map(self._path, names)], [*copies.values()])
                    except FileNotFoundError as error:
                        raise GoneError(f"{self._uri}: {error}: not found") from error
            yield copies

    def address(self, name: str) -> str:
        """How Spark names a file: its readers know S3 as `s3a`."""
        scheme, _, path = f"{self._uri}/{name}".partition("://")
        return f"{'s3a' if scheme == 's3' else scheme}://{path}"

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def _is_there(self, name: str) -> bool:
        with self._store_errors():
            try:
                self._fs.info(self._path(name))
            except FileNotFoundError:
                return False
        return True

    def _list(self, folder: str) -> list[str]:
        """The names in a folder, of files and folders."""
        with self._store_errors():
            try:
                found = self._fs.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
        return sorted(name for one in found if (name := str(one).rpartition("/")[2]))

    def _created(self, name: str, content: bytes) -> bool:
        """Write a file, unless there is one: then somebody else was first."""
        with self._store_errors():
            try:
                self._fs.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def _store_errors(self) -> AbstractContextManager[None]:
        return remote.store_errors(self._uri, LakeError)
