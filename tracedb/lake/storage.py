"""Storage of a lake's files: a folder or an object store.

Both guarantee that files of the manifest are written atomically, and that no concurrent
change is lost. A trace's folder may be incomplete, because nobody reads it before the
manifest lists it.

A folder (`Folder`) has atomic moves and locks; an object store (`Objects`) has neither.
There each file is written in one piece. A file that several processes change is a
sequence of versions, each of which can be created once: the second writer reads again.
Jobs use separate names, so they never overwrite each other's files.
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
"""The folder that identifies a lake; engines skip names that begin with `_`."""
ATTEMPTS = "_attempts"
_LOCK = ".lock"
_TRACES = "run=*/rank=*/trace=*"
_OVER_S = 7 * 24 * 3600
"""[s] Without locks, a job is considered dead after this time."""


class GoneError(LakeError):
    """A file to read is missing, because it was replaced in the meantime."""


class Storage(Protocol):
    """The interface of a lake's storage; names are relative to the lake."""

    @property
    def name(self) -> str:
        """Its path or URI."""

    def is_lake(self) -> bool:
        """Whether there is a manifest."""

    def is_free(self) -> bool:
        """Whether it is empty, so that a lake can be created."""

    def make(self) -> None:
        """Create what must exist before anything is written."""

    def names(self, folder: str) -> list[str]:
        """The files of a folder; none where there is no folder."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of files; missing ones are left out."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""

    def change(self, name: str, made: Callable[[bytes | None], bytes]) -> None:
        """Replace a file by a function of its content; no concurrent change is lost."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def job(self) -> AbstractContextManager[str]:
        """A job; yields its name for the workers."""

    def scratch(self, job: str) -> str | None:
        """The folder in which a job's workers create files; None for any."""

    def put(self, folder: Path, place: str, job: str) -> str:
        """Move a complete folder to its place; returns its name there."""

    def clear(
        self, named: Callable[[], Collection[str]], replaced: Collection[str]
    ) -> None:
        """Remove replaced folders, and folders that nothing refers to or will."""

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Which of these files are not there."""

    def at_hand(self, names: Sequence[str]) -> AbstractContextManager[dict[str, str]]:
        """Local paths of files, within the block.

        Raises `GoneError` if a file is missing, where that is known by then.
        """

    def address(self, name: str) -> str:
        """How Spark names a file."""


def storage(root: str | Path) -> Storage:
    """The storage of a lake at a path or a URI."""
    if isinstance(root, str) and remote.is_remote(root):
        return Objects(root)
    return Folder(Path(root).absolute())


class Folder:
    """A lake in a folder that all workers can access."""

    def __init__(self, root: Path) -> None:
        """Take the folder."""
        self._root = root
        self._manifest = root / MANIFEST

    @property
    def name(self) -> str:
        """Its path or URI."""
        return str(self._root)

    def is_lake(self) -> bool:
        """Whether there is a manifest."""
        return self._manifest.is_dir()

    def is_free(self) -> bool:
        """Whether there are only hidden files."""
        return not self._root.is_dir() or all(
            path.name.startswith(".") for path in self._root.iterdir()
        )

    def make(self) -> None:
        """Create the folder of the manifest."""
        make_folder(self._manifest, LakeError)

    def names(self, folder: str) -> list[str]:
        """The complete files of a folder; empty if there is no folder."""
        found = (self._root / folder).glob("[!.]*")
        return sorted(f"{folder}/{path.name}" for path in found)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of files; missing ones are left out."""
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
        """Write a file next to its place and move it there."""
        path = self._root / name
        beside = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            beside.write_bytes(content)
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise LakeError(f"{path}: cannot be written: {error.strerror}") from error

    def change(self, name: str, made: Callable[[bytes | None], bytes]) -> None:
        """Replace a file by a function of its content, under the lake's lock."""
        with self._locked():
            self.write(name, made(self.read([name]).get(name)))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._root / name).unlink(missing_ok=True)

    @contextmanager
    def job(self) -> Iterator[str]:
        """A folder for a job; if the job dies, others remove it."""
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
        """The folder of the job, from which folders can be moved."""
        return str(self._root / ATTEMPTS / job)

    def put(self, folder: Path, place: str, _job: str) -> str:
        """Move a folder to its place; if one is there, only add its missing files."""
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
        """Remove unreferenced folders, unless a running job may still refer to them."""
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
        """Spark's name of a file: its path."""
        return str(self._root / name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _lock(self._manifest / _LOCK):
            yield


def _is_over(job: Path) -> bool:
    """Whether a job is over; its folder is then removed."""
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
    """Hold a lock, which is released at the end of the process at the latest.

    Raises `BlockingIOError` if it is held, unless `is_patient`.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
        yield


class Objects:
    """A lake in an object store, accessed by fsspec; all errors are `LakeError`s."""

    def __init__(self, uri: str) -> None:
        """Take the URI, without accessing the store."""
        self._uri = uri.rstrip("/")
        self._fs, self._root = remote.opened(self._uri, LakeError)

    @property
    def name(self) -> str:
        """Its path or URI."""
        return self._uri

    def is_lake(self) -> bool:
        """Whether there is a manifest."""
        return self._is_there(MANIFEST)

    def is_free(self) -> bool:
        """Whether it is empty."""
        return not self._list("")

    def make(self) -> None:
        """Do nothing: folders are only parts of names."""

    def names(self, folder: str) -> list[str]:
        """The files of a folder; none where there is no folder."""
        return [f"{folder}/{name}" for name in self._list(folder)]

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of files, read in parallel; missing ones are left out."""
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
        """Write a file; stores do so atomically."""
        with self._store_errors():
            self._fs.pipe_file(self._path(name), content)

    def change(self, name: str, made: Callable[[bytes | None], bytes]) -> None:
        """Write the next version of a file, made from the last one.

        A version can be created only once. Old ones are emptied but never removed, so
        that a slow process cannot create one again. A lake that was copied from a
        folder has the unversioned file.
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
        """A name for all folders of a job; its file shows whether the job is alive."""
        job = uuid4().hex[:12]
        name = f"{ATTEMPTS}/{job}"
        self.write(name, str(int(time())).encode())
        try:
            yield job
        finally:
            self.remove(name)

    def scratch(self, _job: str) -> None:
        """None: files are uploaded from any folder."""

    def put(self, folder: Path, place: str, job: str) -> str:
        """Upload the files of a folder; existing ones are of the same job."""
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
        """Remove replaced folders, and remains of jobs that died long ago."""
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
        """Local copies, fetched in parallel: a lake's files are read as a whole."""
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
        """Spark's name of a file, with `s3a` for S3."""
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
        """The names of files and folders in a folder."""
        with self._store_errors():
            try:
                found = self._fs.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
        return sorted(name for one in found if (name := str(one).rpartition("/")[2]))

    def _created(self, name: str, content: bytes) -> bool:
        """Create a file; return False if it exists already."""
        with self._store_errors():
            try:
                self._fs.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def _store_errors(self) -> AbstractContextManager[None]:
        return remote.store_errors(self._uri, LakeError)
