"""Files in object stores, named by URIs as `s3://bucket/job1`, read by fsspec.

The package for a store is an extra (`tracedb[s3]`, `tracedb[gs]`); others that fsspec
knows are installed by their names. Credentials, endpoints and the like are those that
the package takes from its environment. Listings are never taken from a cache: others
write as well.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tracedb.errors import IngestError, TracedbError
from tracedb.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_PACKAGES = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"),
    "gcs": ("gcsfs", "gs"),
}
"""The package for a scheme, and the extra that brings it."""
_PATTERN = re.compile(r"[*?\[]")


def is_remote(name: str | Path) -> bool:
    """Whether a name is a URI, and no path of this machine."""
    return isinstance(name, str) and _SCHEME.match(name) is not None


def opened(uri: str, error: type[TracedbError]) -> tuple[Any, str]:
    """The file system of a URI, and what it calls it.

    Raises `MissingPackageError` where its package is missing, the error where there is
    none for it.
    """
    scheme = uri.partition("://")[0].lower()
    if scheme in {"file", "local"}:
        raise error(f"{uri}: give a path for files on this machine")
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
    said = " ".join(str(problem).split("\n\n")[0].split())
    return said or type(problem).__name__


def found_at(uri: str) -> tuple[list[str], bool]:
    """The files that a URI names, and whether it is a file itself.

    A folder stands for all below it, a pattern for what it matches. Raises
    `IngestError` where there is nothing.
    """
    fs, path = opened(uri, IngestError)
    with store_errors(uri, IngestError):
        tops = fs.glob(path) if _PATTERN.search(path) else [path]
        paths = sorted({one for top in tops for one in fs.find(top)})
        names = [str(fs.unstrip_protocol(one)) for one in paths]
    if not names:
        raise IngestError(f"{uri}: no such file or folder")
    return names, paths == [path]


def fetched(uri: str, folder: Path) -> Path:
    """A copy of a file in a folder; raises `IngestError` where there can be none."""
    fs, path = opened(uri, IngestError)
    folder.mkdir(exist_ok=True)
    place = folder / path.rpartition("/")[2]
    with store_errors(uri, IngestError):
        fs.get_file(path, str(place))
    return place
