"""Twice as much takes twice as long, whatever it is twice of."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from time import process_time

import pytest

from tracedb.errors import IngestError
from tracedb.ingest.decompress import Text
from tracedb.ingest.events import Cutter
from tracedb.ingest.repair import mend, requote

# Work that grows by the square takes four times as long; what is linear, and measured
# beside others on a busy machine, takes less than three.
MOST_GROWTH = 3.0
LEAST_SECONDS = 0.05
MOST_SECONDS = 5.0
EVENT = b'{"ph": "X", "name": "a", "ts": 1, "dur": 1}'


def _header(text: bytes) -> bytes:
    return b'{"x": %b, "traceEvents": [%b]}' % (text, EVENT)


def _list(text: bytes) -> bytes:
    return b'{"traceEvents": [%b, %b, %b]}' % (EVENT, text, EVENT)


# Mended at one go up to 64 KB, event by event above, which takes five times as long:
# there one doubling may show that step. A square goes on growing.
STEPPED = ("events with a quote too many",)

# What is repeated, and the whole that it is put into.
READ: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "lists in a value before the list": (
        b'{"traceEvents":[{}]},',
        lambda text: _header(b"[%b 0]" % text),
    ),
    "lists that open and never close": (b'"traceEvents":[', _header),
    "lists that open in a broken header": (b'"traceEvents":[ ]x', _header),
    "an opening brace before each key": (b'{"a":', _list),
    "objects within objects": (b'{"a": {"b": 1}, "c": ', _list),
    "braces": (b"{", _list),
    "brackets": (b"[", _list),
    "brackets that close": (b"],", _list),
    "quotes": (b'"', _list),
    "escaped quotes": (b'\\"', lambda text: _list(b'{"ph": "%b' % text)),
    "names that do not end": (b'"name":"', lambda text: _list(b"{%b" % text)),
    "events with a quote too many": (
        b'{"ph": "X", "name": "a "b" c"}, ',
        lambda text: _list(text + EVENT),
    ),
    "events without their end": (b'{"ph": "X", "name": "a", ', _list),
    "events without a comma": (EVENT, _list),
    "numbers that are not finite": (b"nan(", lambda text: _list(b"{%b" % text)),
    "commas": (b",", _list),
    "blanks": (b"} ,  ", _list),
    "a string with a byte that is none": (
        b"a",
        lambda text: _list(b'{"ph": "X", "name": "%b\xff"}' % text),
    ),
    "lists within the list": (b"[%b]," % EVENT, lambda text: _list(text + EVENT)),
    "fields behind the list": (
        b', "a": [{"ph": 1}]',
        lambda text: b'{"traceEvents": [%b]%b}' % (EVENT, text),
    ),
    "members of a gzip file": (
        gzip.compress(b"", mtime=0),
        lambda text: gzip.compress(_list(EVENT)) + text,
    ),
}


def read(content: bytes) -> None:
    """Read a file to its end, or to what is wrong with it."""
    cutter = Cutter(Text("a.json", io.BytesIO(content)))
    try:
        for _ in cutter.chunks():
            pass
    except IngestError:
        return


def seconds(work: Callable[[int], object], size: int) -> float:
    """The CPU time of some work of a size, the less of two tries."""
    tries = []
    for _ in range(2):
        begun = process_time()
        work(size)
        tries.append(process_time() - begun)
    return min(tries)


def assert_linear(work: Callable[[int], object], *, is_stepped: bool = False) -> None:
    """Twice the size takes no more than twice as long, at a size that takes long.

    Of what is stepped, one doubling may take longer.
    """
    size, before = 1 << 14, 0.0
    while before < LEAST_SECONDS and size < 1 << 22:
        size *= 2
        before = seconds(work, size)
    assert before < MOST_SECONDS, size
    after = seconds(work, 2 * size)
    if is_stepped and after >= MOST_GROWTH * before + LEAST_SECONDS:
        size, before = 2 * size, after
        after = seconds(work, 2 * size)
    assert after < MOST_GROWTH * before + LEAST_SECONDS, (size, before, after)


@pytest.mark.parametrize("shape", READ)
def test_reading_grows_with_the_file(shape: str) -> None:
    """A file of a megabyte is no reason to wait, whatever is in it."""
    piece, whole = READ[shape]

    def work(size: int) -> None:
        read(whole(piece * (size // len(piece))))

    assert_linear(work, is_stepped=shape in STEPPED)


@pytest.mark.parametrize("repair", [mend, requote], ids=["mend", "requote"])
@pytest.mark.parametrize("piece", [b'"name":"', b'\\"', b'"\\"', b", nan(", b',"a" '])
def test_mending_grows_with_the_text(
    repair: Callable[[bytes], object], piece: bytes
) -> None:
    """Each rule goes through a text once."""
    assert_linear(lambda size: repair(piece * (size // len(piece))))
