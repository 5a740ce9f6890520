"""Find what to ingest: files, folders, patterns, archives of ranks, standard input."""

from __future__ import annotations

import glob
import hashlib
import lzma
import os
import shutil
import sys
import tarfile
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING, cast

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest import other_formats
from tracedb.ingest.decompress import Text, bomb, most_text, unreadable
from tracedb.ingest.foreign import (
    HEAD_BYTES,
    flight_recorder,
    nccl_inspector,
    parts_of,
    perfetto,
    reader_of,
    xla,
)
from tracedb.ingest.foreign.operations import siblings
from tracedb.near import meant, near_path
from tracedb.remote import fetched, found_at, is_remote
from tracedb.words import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_ENDINGS = (
    ".json",
    ".json.gz",
    ".json.zst",
    ".et",
    ".et.gz",
    ".parquet",
    ".sqlite",
    ".db",
    ".rpd",
    *perfetto.ENDINGS,
    *xla.ENDINGS,
    *_ARCHIVES,
)
_ENDINGS_OF_LOGS = ("", ".log", ".jsonl", ".pickle", ".pkl")
"""Suffixes of logs such as `nccl_trace_rank_0` and `host-pid17.log`."""


@dataclass(frozen=True)
class Source:
    """Something to ingest: its name for people, and the path of its bytes."""

    name: str
    path: Path
    is_named: bool
    """Whether the user named it; files found in folders need not be traces."""
    why_not: str = ""
    """Why it is skipped, if that is known without reading it."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """The user's names of a table's columns and operations."""
    part: int | None = None
    """The process whose trace it is, of a file with several."""


def expand(
    paths: Iterable[str | Path | Source], scratch: Path, without: str | None = None
) -> list[Source]:
    """List the sources that paths name, in order; sources are kept.

    A folder stands for the traces below it, a pattern for its matches, a tar archive
    for its members (unpacked to `scratch`), `-` for standard input, a URI for files in
    an object store (fetched to `scratch`). `without` is the database that is written,
    which a folder may contain. These are in the order of their numbers, and so are
    paths in the order of a shell's pattern, which puts `rank10` before `rank2`.

    Raises `IngestError` if a path does not exist or has nothing to ingest.
    """
    found = [
        source
        for path in _together(_ordered([*paths]))
        for source in (
            [path] if isinstance(path, Source) else _readable(str(path), scratch)
        )
    ]
    own = None if without is None else Path(without).resolve()
    return [s for s in found if s.is_named or s.path.resolve() != own]


def _ordered(paths: list[str | Path | Source]) -> list[str | Path | Source]:
    """The paths, in natural order if they are in that of text."""
    names = [str(path) for path in paths if not isinstance(path, Source)]
    is_text_order = len(names) == len(paths) and names == sorted(names)
    return (
        sorted(paths, key=lambda path: natural(str(path))) if is_text_order else paths
    )


def _together(paths: list[str | Path | Source]) -> list[str | Path | Source]:
    """The paths, with the folder for files that are one table if all are named."""
    named = {Path(path) for path in paths if not isinstance(path, Source)}
    found: list[str | Path | Source] = []
    for path in paths:
        files = siblings(Path(path)) if not isinstance(path, Source) else frozenset()
        if len(files) < 2 or not files <= named:  # noqa: PLR2004 (one is itself)
            found.append(path)
        elif (folder := next(iter(files)).parent) not in found:
            found.append(folder)
    return found


def _readable(name: str, scratch: Path) -> list[Source]:
    try:
        return list(_expand(name, scratch))
    except OSError as error:
        raise unreadable(name, error) from error


def _expand(name: str, scratch: Path) -> Iterator[Source]:
    path = Path(name)
    if not name:
        raise IngestError("a path is empty; name a file or folder")
    if name == "-":
        yield _standard_input(scratch)
    elif is_remote(name):
        for uri, is_named in below_uri(name):
            place = fetched(uri, Path(mkdtemp(dir=scratch)))
            yield from _file(place, uri, scratch, is_named=is_named)
    elif path.is_dir() and not _is_export(path):
        yield from _below(path, scratch)
    elif path.exists():
        yield from _file(path, name, scratch, is_named=True)
    elif matches := _matches(name):
        for match in matches:
            yield from _expand(match, scratch)
    else:
        raise IngestError(f"{name}: no such file or folder{meant(near_path(name))}")


def below_uri(uri: str) -> list[tuple[str, bool]]:
    """The traces that a URI names, each with whether it is itself named.

    A folder stands for the files below it with known suffixes, a pattern for its
    matches. Raises `IngestError` if there are none.
    """
    found, is_named = found_at(uri)
    wanted = [name for name in found if is_named or name.endswith(_ENDINGS)]
    if not wanted:
        raise _no_trace(uri)
    return [(name, is_named) for name in wanted]


def _no_trace(folder: str | Path, skipped: Sequence[Source] = ()) -> IngestError:
    kinds = ", ".join(_ENDINGS)
    first = f"; {skipped[0].name} {skipped[0].why_not}" if skipped else ""
    return IngestError(f"{folder}: no traces below this folder ({kinds}){first}")


def _matches(pattern: str) -> list[str]:
    """The matches of a pattern, without itself, as which a broken link matches."""
    found = sorted(glob.glob(pattern, recursive=True), key=natural)  # noqa: PTH207 (any path)
    return [match for match in found if match != pattern]


def _file(path: Path, name: str, scratch: Path, *, is_named: bool) -> Iterator[Source]:
    if not path.is_dir() and not path.is_file():
        raise IngestError(f"{name}: not a regular file; use `-` for a stream")
    why_not = other_formats.what_is_named(path)
    if why_not and is_named:
        raise ForeignFileError(f"{name}: {why_not}")
    if is_archive(name) and path.is_file():
        yield from sorted(_members(path, name, scratch), key=lambda s: natural(s.name))
    else:
        why_not = why_not or ("" if is_named else _why_repeated(path))
        source = Source(decoded_name(name), path, is_named, why_not)
        yield from [source] if why_not else _parts(source)


def _parts(source: Source) -> Iterator[Source]:
    """A source, or one for each of its parts."""
    parts = parts_of(source.path, head(source))
    for part in parts:
        yield replace(source, name=f"{source.name}#{part}", part=part)
    if not parts:
        yield source


def _why_repeated(path: Path) -> str:
    """Why a file is skipped, if another one in its folder has the same recording."""
    return "repeats the .xplane.pb beside it" if xla.is_repeated(path) else ""


def is_archive(name: str) -> bool:
    """Whether a file is an archive to unpack, by its name."""
    return name.endswith(_ARCHIVES)


def _ending(name: str) -> str:
    """The suffix of a trace's name; empty if it is not a trace's."""
    return max((e for e in _ENDINGS if name.endswith(e)), key=len, default="")


def decoded_name(name: str) -> str:
    """A file name as text: bytes that are not UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _below(folder: Path, scratch: Path) -> list[Source]:
    found = [
        source
        for path in sorted(_walk(folder), key=_in_folders)
        if _may_be_trace(path)
        for source in _file(path, str(path), scratch, is_named=False)
    ]
    if all(source.why_not for source in found):
        raise _no_trace(folder, found)
    return found


def _in_folders(path: Path) -> list[tuple[str, str]]:
    """The natural order of paths: files of one folder are together."""
    return [natural(part) for part in path.parts]


def _may_be_trace(path: Path) -> bool:
    if path.is_dir():
        return True  # `_walk` yields only folders that are one export
    return path.is_file() and (
        path.name.endswith((*_ENDINGS, *other_formats.ENDINGS)) or _is_log(path)
    )


def _is_log(path: Path) -> bool:
    """Whether it is a log of collectives, whose suffixes are not specific."""
    if path.suffix not in _ENDINGS_OF_LOGS:
        return False
    head = _head(path, str(path))
    return any(log.recognises(path, head) for log in (flight_recorder, nccl_inspector))


def _walk(folder: Path) -> Iterator[Path]:
    """All files below a folder, and folders that are one export each.

    Raises `IngestError` for an unreadable folder.
    """
    for place, folders, names in os.walk(folder, onerror=_refuse):
        yield from (Path(place) / name for name in names)
        exports = {one for one in folders if _is_export(Path(place) / one)}
        yield from (Path(place) / name for name in exports)
        folders[:] = [one for one in folders if one not in exports]


def _is_export(folder: Path) -> bool:
    """Whether a folder is one recording, as a file is."""
    is_known = other_formats.what_is_named(folder) or reader_of(folder, b"")
    return bool(is_known)


def _refuse(error: OSError) -> None:
    raise unreadable(str(error.filename), error) from error


def _standard_input(scratch: Path) -> Source:
    path = scratch / "standard-input"
    if path.exists():
        raise IngestError("-: standard input can be read only once")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Source("<standard input>", path, is_named=True)


def _members(path: Path, name: str, scratch: Path) -> Iterator[Source]:
    """Unpack an archive's files one after another, each to a generated name."""
    folder = scratch / str(len(list(scratch.iterdir())))
    folder.mkdir()
    budget = most_text(path.stat().st_size)
    found = 0
    try:
        with tarfile.open(path) as archive:
            for number, member in enumerate(archive):
                ending = _ending(member.name)
                if not ending or member.isdir():
                    continue
                place = folder / f"{number}{ending}"
                name_of = decoded_name(f"{name}/{member.name}")
                why_not = _why_not(member, ending)
                if not why_not:
                    found += 1
                    content = cast("IO[bytes]", archive.extractfile(member))
                    budget = _unpack(content, place, budget, name)
                source = Source(name_of, place, is_named=False, why_not=why_not)
                yield from [source] if why_not else _parts(source)
            _verify_end(archive)
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # from the system; errors of decompressors have no errno
        why = str(error).splitlines()[0].rstrip(":")
        raise IngestError(f"{name}: broken archive: {why}") from error
    if not found:
        raise IngestError(f"{name}: no traces in this archive ({', '.join(_ENDINGS)})")


def _why_not(member: tarfile.TarInfo, ending: str) -> str:
    """Why a member is skipped; empty if it is unpacked."""
    if not member.isfile():
        return "a link or a device, not a file"
    return "an archive within an archive" if ending in _ARCHIVES else ""


def _verify_end(archive: tarfile.TarFile) -> None:
    """Raise `tarfile.TarError` if the members do not end with the archive's end.

    `tarfile` takes a broken header as the end.
    """
    stream = cast("IO[bytes]", archive.fileobj)
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise tarfile.TarError(f"no member at byte {archive.offset:,}")
    while stream.read(1 << 20):
        pass  # the checksum is at the end


def _unpack(content: IO[bytes], place: Path, budget: int, name: str) -> int:
    with place.open("wb") as file:
        while block := content.read(1 << 20):
            budget -= len(block)
            if budget < 0:
                raise bomb(name)
            file.write(block)
    return budget


def head(source: Source) -> bytes:
    """The first bytes of a file; none of a folder."""
    return b"" if source.path.is_dir() else _head(source.path, source.name)


def _head(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise unreadable(name, error) from error


def digest(source: Source) -> str:
    """The SHA-256 of a file's decompressed text, or a folder's files, and the part."""
    whole = hashlib.sha256()
    if source.part is not None:
        whole.update(f"part {source.part} of ".encode())
    try:
        if source.path.is_dir():
            for path in sorted(p for p in source.path.rglob("*") if p.is_file()):
                with path.open("rb") as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
        else:
            with source.path.open("rb") as file:
                for block in Text(source.name, file).blocks():
                    whole.update(block)
    except OSError as error:
        raise unreadable(source.name, error) from error
    return whole.hexdigest()
