"""Four times the input takes about four times as long, for any kind of input."""

from __future__ import annotations

import gc
import gzip
import io
from collections.abc import Callable
from time import process_time

import pytest

from tracedb.errors import IngestError
from tracedb.ingest.decompress import Text
from tracedb.ingest.events import Cutter
from tracedb.ingest.repair import mend, requote

# For four times the size, quadratic work takes 16 times as long. Linear work takes four
# times, or up to eight on a busy machine.
TIMES = 4
MOST_GROWTH = 8.0
TRIES = 20
LEAST_SECONDS = 0.05
MOST_SECONDS = 5.0
# Texts up to 64 KB are repaired at once, larger ones event by event, which is slower:
# sizes start above that step.
LEAST_SIZE, MOST_SIZE = 1 << 17, 1 << 22
EVENT = b'{"ph": "X", "name": "a", "ts": 1, "dur": 1}'


def _header(text: bytes) -> bytes:
    return b'{"x": %b, "traceEvents": [%b]}' % (text, EVENT)


def _list(text: bytes) -> bytes:
    return b'{"traceEvents": [%b, %b, %b]}' % (EVENT, text, EVENT)


# The repeated part, and the document that contains it.
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
    """Read a file to its end, or to its first error."""
    cutter = Cutter(Text("a.json", io.BytesIO(content)))
    try:
        for _ in cutter.chunks():
            pass
    except IngestError:
        return


def seconds(work: Callable[[int], object], size: int) -> float:
    """[s] CPU time of work at a size."""
    gc.collect()
    gc.freeze()
    begun = process_time()
    work(size)
    took = process_time() - begun
    gc.unfreeze()
    return took


def assert_linear(work: Callable[[int], object]) -> None:
    """Four times the size takes at most eight times as long, in the best of some tries.

    The base size is large enough to be measured.
    """
    size = LEAST_SIZE
    while (before := seconds(work, size)) < LEAST_SECONDS and size < MOST_SIZE:
        size *= 2
    assert before < MOST_SECONDS, size
    after = seconds(work, TIMES * size)
    for _ in range(TRIES):
        if after < MOST_GROWTH * before + LEAST_SECONDS:
            return
        before = min(before, seconds(work, size))
        after = min(after, seconds(work, TIMES * size))
    pytest.fail(f"{size} takes {before} s, {TIMES} times that {after} s")


@pytest.mark.thorough
@pytest.mark.parametrize("shape", READ)
def test_reading_grows_with_the_file(shape: str) -> None:
    """Any content of a megabyte is read in linear time."""
    piece, whole = READ[shape]

    def work(size: int) -> None:
        read(whole(piece * (size // len(piece))))

    assert_linear(work)


@pytest.mark.thorough
@pytest.mark.parametrize("repair", [mend, requote], ids=["mend", "requote"])
@pytest.mark.parametrize("piece", [b'"name":"', b'\\"', b'"\\"', b", nan(", b',"a" '])
def test_repair_grows_with_the_text(
    repair: Callable[[bytes], object], piece: bytes
) -> None:
    """Each rule scans a text once."""
    assert_linear(lambda size: repair(piece * (size // len(piece))))
