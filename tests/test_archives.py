"""Tar archives of ranks, standard input and odd names."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from support import rows

import tracedb

pytestmark = pytest.mark.until("staging")


def content(name: str) -> bytes:
    """A trace of one event of that name."""
    return json.dumps([{"ph": "X", "name": name}]).encode()


def archive(path: Path, mode: str, *names: str) -> Path:
    """An archive of files, each with one event named after the file."""
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name in names:
            text = content(name)
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return path


def names(database: tracedb.Database) -> list[str]:
    """The names of all events, in order."""
    return [
        n for (n,) in rows(database, "SELECT name FROM raw.event ORDER BY event_id")
    ]


@pytest.mark.parametrize(
    ("ending", "mode"),
    [(".tar", "w"), (".tar.gz", "w:gz"), (".tar.xz", "w:xz"), (".tar.bz2", "w:bz2")],
)
def test_members_are_traces(
    tmp_path: Path, database: tracedb.Database, ending: str, mode: str
) -> None:
    """Members named like traces are read, however long; nested archives are not."""
    inside = ("ranks/rank0.json", f"{'a' * 250}.json", "inner.tar", "notes.txt")
    database.ingest([archive(tmp_path / f"a{ending}", mode, *inside)])
    assert names(database) == sorted(inside[:2])
    ranks = rows(database, "SELECT rank FROM staging.trace ORDER BY trace_id")
    assert ranks == [(None,), (0,)]


def test_nested_archives_and_links_are_reported(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Nested archives and links are skipped."""
    path = archive(tmp_path / "a.tar", "w", "a.json", "inner.tar.gz")
    with tarfile.open(path, "a") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"link{kind.decode()}.json")
            link.type, link.linkname = kind, "a.json"
            tar.addfile(link)
    lines: list[str] = []
    database.ingest([path], progress=lines.append)
    assert names(database) == ["a.json"]
    reported = [line.partition("a.tar/")[2] for line in lines if "skipped" in line]
    assert reported == [
        "inner.tar.gz: skipped: an archive within an archive",
        "link1.json: skipped: a link or a device, not a file",
        "link2.json: skipped: a link or a device, not a file",
    ]


def test_an_archive_without_a_trace_is_refused(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """An archive without a trace is refused, like such a folder."""
    path = archive(tmp_path / "a.tar", "w", "notes.txt")
    with pytest.raises(tracedb.IngestError, match=r"a\.tar: no traces in this archive"):
        database.ingest([path])


@pytest.mark.parametrize(("ending", "mode"), [(".tar.gz", "w:gz"), (".tar.xz", "w:xz")])
def test_a_broken_archive_is_one_line(
    tmp_path: Path, database: tracedb.Database, ending: str, mode: str
) -> None:
    """The error is one line, whichever decompressor raised it."""
    path = archive(
        tmp_path / f"a{ending}", mode, *(os.urandom(90).hex() for _ in "abc")
    )
    packed = bytearray(path.read_bytes())
    middle = len(packed) // 2
    packed[middle : middle + 40] = bytes(byte ^ 0x5A for byte in packed[middle:][:40])
    path.write_bytes(packed)
    with pytest.raises(tracedb.IngestError, match="broken archive") as caught:
        database.ingest([path])
    assert str(caught.value).isprintable()
    assert names(database) == []


@pytest.mark.parametrize(
    ("ending", "mode", "place"),
    [(".tar.gz", "w:gz", -8), (".tar.bz2", "w:bz2", -12)],
)
def test_an_archive_with_a_wrong_checksum_is_broken(
    tmp_path: Path, database: tracedb.Database, ending: str, mode: str, place: int
) -> None:
    """Decompressors raise an `OSError` without a number for that."""
    path = archive(tmp_path / f"a{ending}", mode, "a.json")
    packed = bytearray(path.read_bytes())
    packed[place] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(tracedb.IngestError, match=r"broken archive: [^N]"):
        database.ingest([path])
    assert names(database) == []


def test_names_that_are_not_utf8(tmp_path: Path, database: tracedb.Database) -> None:
    """Bytes of a file name that are no characters are shown as escapes."""
    path = tmp_path / os.fsdecode(b"a\xff.json")
    path.write_bytes(content("x"))
    database.ingest([path], run=os.fsdecode(b"\xffrun"))
    ((found,),) = rows(database, "SELECT path FROM raw.trace")
    assert found.endswith("a\ufffd.json")
    assert rows(database, "SELECT name FROM raw.run") == [("\ufffdrun",)]
