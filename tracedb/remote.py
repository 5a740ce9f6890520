"""Read files in object stores by URIs such as `s3://bucket/job1`, with fsspec.

The package for a store is an extra (`tracedb[s3]`, `tracedb[gs]`); other packages that
fsspec knows are installed by name. They take credentials and endpoints from the
environment. Listings are never cached, because others write as well.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tracedb.errors import IngestError, TracedbError
from tracedb.extras import import_extra
from tracedb.words import natural

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_PACKAGES = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"),
    "gcs": ("gcsfs", "gs"),
}
"""The package for a scheme, and the extra that installs it."""
_PATTERN = re.compile(r"[*?\[]")


def is_remote(name: str | Path) -> bool:
    """Whether a name is a URI rather than a local path."""
    return isinstance(name, str) and _SCHEME.match(name) is not None


def _local_path(uri: str) -> str:
    """The path of a URI of this machine, as it is or with its escapes.

    >>> _local_path("file:///runs/a%20b.json")
    '/runs/a b.json'
    """
    written = uri.partition("://")[2].removeprefix("localhost")
    return written if Path(written).exists() else unquote(written)


def opened(uri: str, error: type[TracedbError]) -> tuple[Any, str]:
    """The file system of a URI, and the path in it.

    Raises `MissingPackageError` if its package is missing, the given error if the URI
    cannot be resolved.
    """
    scheme = uri.partition("://")[0].lower()
    if scheme in {"file", "local"}:
        raise error(
            f"{uri}: give a path for files on this machine: {quote(_local_path(uri))}"
        )
    package, extra = _PACKAGES.get(scheme, ("fsspec", "s3"))
    import_extra(package, extra, uri)
    core = import_extra("fsspec.core", extra, uri)
    with store_errors(uri, error):
        fs, path = core.url_to_fs(uri, use_listings_cache=False)
    return fs, str(path).rstrip("/")


@contextmanager
def store_errors(name: str, error: type[TracedbError]) -> Iterator[None]:
    """Raise the errors of stores as one line: no bucket, no credentials, ..."""
    try:
        yield
    except TracedbError:
        raise
    except Exception as problem:  # each package has its own
        raise error(f"{name}: {_line(problem)}") from problem


def _line(problem: Exception) -> str:
    line = " ".join(str(problem).split("\n\n")[0].split())
    return line or type(problem).__name__


def found_at(uri: str) -> tuple[list[str], bool]:
    """The files that a URI names, and whether it is a file itself.

    A folder stands for all files below it, a pattern for its matches. Raises
    `IngestError` if there are none.
    """
    fs, path = opened(uri, IngestError)
    with store_errors(uri, IngestError):
        tops = fs.glob(path) if _PATTERN.search(path) else [path]
        paths = sorted({one for top in tops for one in fs.find(top)}, key=natural)
        names = [str(fs.unstrip_protocol(one)) for one in paths]
    if not names:
        raise IngestError(f"{uri}: no such file or folder")
    return names, paths == [path]


def fetched(uri: str, folder: Path) -> Path:
    """Download a file into a folder; raises `IngestError` if that fails."""
    fs, path = opened(uri, IngestError)
    folder.mkdir(exist_ok=True)
    place = folder / path.rpartition("/")[2]
    with store_errors(uri, IngestError):
        fs.get_file(path, str(place))
    return place
