"""Hostile and odd files, and what every command does with each.

python tests/hostile.py --jobs 2

Each file is ingested, and what was ingested is asked by the other commands. Every
command must answer, or refuse in one line with exit code 2, within a time limit; a
refused file leaves no database behind, and what was repaired or left out is counted.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import io
import json
import lzma
import os
import random
import re
import signal
import sqlite3
import sys
import tarfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import everything
from click.testing import CliRunner, Result
from support import CORPUS, SAMPLES

from tracedb.cli.main import tracedb as command

Event = dict[str, Any]
Trace = dict[str, Any]
Maker = Callable[[Path], Path]

MOST_SECONDS = 60
"""For one command on a loaded machine; most take a few seconds."""
REFUSED = 2
AFTER_INGEST = (
    ("summary", "{db}"),
    ("info", "{db}"),
    ("critical-path", "{db}"),
    ("overheads", "{db}"),
    ("slack", "{db}"),
    ("predict", "{db}"),
    ("whatif", "{db}", "--edit", "gpu:* x0.5"),
    ("whatif", "{db}"),
    ("diff", "{db}", "{db}"),
    ("check", "{db}", "--baseline", "{db}", "--tolerance", "0.05"),
    ("report", "{db}", "-o", "{folder}/report.html"),
    ("export", "{db}", "-o", "{folder}/run.json"),
)
MAKERS: dict[str, Maker] = {}
"""All cases by name: each writes a file (or folder) and returns what to ingest."""


def trace() -> Trace:
    """A small valid trace with every kind of event."""
    return copy.deepcopy(_valid())


@cache
def _valid() -> Trace:
    return everything.trace(steps=2)


def _case(name: str) -> Callable[[Maker], Maker]:
    def known(make: Maker) -> Maker:
        assert name not in MAKERS, name
        MAKERS[name] = make
        return make

    return known


# ---- Bytes


def _written(folder: Path, content: bytes, name: str = "t.json") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _bytes(name: str, content: Callable[[bytes], bytes], file: str = "t.json") -> None:
    MAKERS[name] = lambda folder: _written(
        folder, content(json.dumps(trace()).encode()), file
    )


def _noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)  # noqa: S311 (the same each time)


def _shuffle(events: list[Event]) -> None:
    random.Random(3).shuffle(events)  # noqa: S311 (the same each time)


def _cut(text: bytes, share: float) -> bytes:
    return text[: int(len(text) * share)]


def _flipped(text: bytes, seed: int, count: int) -> bytes:
    rng, content = random.Random(seed), bytearray(text)  # noqa: S311
    for _ in range(count):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def _cut_gzip(text: bytes, share: float) -> bytes:
    return _cut(gzip.compress(text), share)


def _flipped_gzip(text: bytes, seed: int) -> bytes:
    return _flipped(gzip.compress(text), seed, 1 + seed)


for share in (0.0005, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999):
    _bytes(f"cut at {share}", partial(_cut, share=share))
    _bytes(
        f"gzip cut at {share}",
        partial(_cut_gzip, share=share),
        "t.json.gz",
    )
for seed in range(12):
    _bytes(f"flips {seed}", partial(_flipped, seed=seed, count=1 + 5 * seed))
    _bytes(
        f"gzip flips {seed}",
        partial(_flipped_gzip, seed=seed),
        "t.json.gz",
    )
_bytes("bom", lambda text: b"\xef\xbb\xbf" + text)
_bytes("utf-16", lambda text: text.decode().encode("utf-16"))
_bytes("utf-16-le without mark", lambda text: text.decode().encode("utf-16-le"))
_bytes("utf-16-be without mark", lambda text: text.decode().encode("utf-16-be"))
_bytes("utf-32", lambda text: text.decode().encode("utf-32"))
_bytes("gzip in gzip", lambda t: gzip.compress(gzip.compress(t)), "t.json.gz")
_bytes("gzip without its suffix", gzip.compress)
_bytes("plain with gzip's suffix", lambda text: text, "t.json.gz")
_bytes("xz", lzma.compress, "t.json.xz")
_bytes("xz named json", lzma.compress)
_bytes("gzip then garbage", lambda t: gzip.compress(t) + b"\0" * 999, "t.json.gz")
_bytes("empty", lambda _: b"")
_bytes("empty gzip", lambda _: gzip.compress(b""), "t.json.gz")
_bytes("one brace", lambda _: b"{")
_bytes("null", lambda _: b"null")
_bytes("number", lambda _: b"1e999")
_bytes("empty list", lambda _: b"[]")
_bytes("empty object", lambda _: b"{}")
_bytes("no events", lambda _: b'{"traceEvents": []}')
_bytes("events null", lambda _: b'{"traceEvents": null}')
_bytes("events a string", lambda _: b'{"traceEvents": "many"}')
_bytes("events an object", lambda _: b'{"traceEvents": {"a": 1}}')
_bytes("events of wrong type", lambda _: b'{"traceEvents": [1, "a", null, [], {}]}')
_bytes("zero bytes", lambda _: b"\0" * 100_000)
_bytes("random bytes", lambda _: _noise(100_000))
_bytes("html", lambda _: b"<!DOCTYPE html><html><body>404</body></html>")
_bytes("crlf", lambda text: text.replace(b", ", b",\r\n"))
_bytes("json lines", lambda _: b"\n".join(map(_line, trace()["traceEvents"])))
_bytes("two traces in one file", lambda text: text + text)
_bytes("nested lists", lambda _: b"[" * 10_000 + b"]" * 10_000)
_bytes("nested objects", lambda _: b'{"a":' * 10_000 + b"1" + b"}" * 10_000)
_bytes("git pointer", lambda _: b"version https://git-lfs.github.com/spec/v1\noid 1\n")


def _line(event: Event) -> bytes:
    return json.dumps(event).encode()


# ---- Events


def _events(name: str, change: Callable[[list[Event]], object]) -> None:
    def make(folder: Path) -> Path:
        whole = trace()
        change(whole["traceEvents"])
        return _written(folder, json.dumps(whole).encode("utf-8", "surrogatepass"))

    MAKERS[name] = make


def _set(field: str, value: object, *, each: int = 1) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        for event in events[::each]:
            event[field] = value

    return change


def _set_argument(field: str, value: object) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        for event in events:
            if field in event.get("args", {}):
                event["args"][field] = value

    return change


def _argument_as_text(field: str, events: list[Event]) -> None:
    for event in events:
        if field in event.get("args", {}):
            event["args"][field] = str(event["args"][field])


def _without(field: str, events: list[Event]) -> None:
    for event in events:
        event.pop(field, None)


def _as(field: str, convert: Callable[[Any], object]) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        for event in events:
            if field in event:
                event[field] = convert(event[field])

    return change


ODD = {
    "null": None,
    "true": True,
    "text": "soon",
    "empty": "",
    "list": [1, [2]],
    "object": {"a": {"b": 1}},
    "negative": -5,
    "zero": 0,
    "nan": float("nan"),
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "beyond int64": 1 << 70,
    "int64": (1 << 63) - 1,
    "least int64": -(1 << 63),
    "huge": 1e300,
    "tiny": 5e-324,
    "digits": "1" * 400,
}
for odd, value in ODD.items():
    for field in ("ts", "dur", "pid", "tid", "name", "cat", "args", "ph", "id"):
        _events(f"{field} {odd}", _set(field, value, each=3))
    for argument in ("correlation", "stream", "device", "Input Dims", "External id"):
        _events(f"{argument} {odd}", _set_argument(argument, value))
for field in ("ts", "dur", "pid", "tid"):
    _events(f"{field} as text", _as(field, str))
    _events(f"{field} missing", partial(_without, field))
for argument in ("correlation", "stream", "device"):
    _events(
        f"{argument} as text",
        partial(_argument_as_text, argument),
    )
_events("device ids as text", _set_argument("device", "cuda:0"))
_events("stream ids as text", _set_argument("stream", "stream main"))
_events("one correlation for all", _set_argument("correlation", 7))
_events("all at one time", _set("ts", 1000.0))
_events("all of no length", _set("dur", 0))
_events("all of one length", _set("dur", 777.7))
_events("times reversed", _as("ts", lambda ts: 10_000_000 - ts))
_events("shuffled", _shuffle)
_events("twice", lambda events: events.extend(copy.deepcopy(events)))
_events("far apart", _as("ts", lambda ts: ts * 1e9))
_events("one far away", lambda e: e[-1].update(ts=9e15))
_events("before the epoch", _as("ts", lambda ts: ts - 1e15))
_events("one thread for all", _set("tid", 1))
_events("one process for all", _set("pid", 1))
_events("all metadata", _set("ph", "M"))
_events("all begins", _set("ph", "B"))
_events("all ends", _set("ph", "E"))
_events("all instants", _set("ph", "i"))
_events("all flows", _set("ph", "s"))
_events("an unknown phase", _set("ph", "Q"))
_events("all kernels", _set("cat", "kernel"))
_events("all ops", _set("cat", "cpu_op"))
_events("all annotations", _set("cat", "user_annotation"))
_events("all python", _set("cat", "python_function"))
_events("all steps", _set("name", "ProfilerStep#1"))
_events("nul in names", _as("name", lambda name: f"{name}\0{name}"))
_events("surrogates in names", _as("name", lambda name: f"{name}\ud800"))
_events("escapes in names", _as("name", lambda name: f"\x1b[31m{name}\x1b]0;x\x07"))
_events("right to left names", _as("name", lambda name: f"\u202e{name}\n\r\u2028"))
_events("markup in names", _as("name", lambda name: f"</script><script>{name}"))
_events("percent in names", _as("name", lambda name: f"%s{{0}}{name}%n"))
_events("patterns in names", _as("name", lambda name: f"*[{name}](?"))
_events(
    "quotes in names", _as("name", lambda name: f"'; DROP TABLE raw.event; --{name}")
)
_events("formulas in names", _as("name", lambda name: f"=1+1,{name}"))
_events("wide names", _as("name", lambda name: "\U0001f525" * 50 + name))
_events("10 MB name", lambda e: e[10].update(name="n" * 10_000_000))
_events("1 MB names", lambda e: [x.update(name="n" * 1_000_000) for x in e[::40]])
_events("deep arguments", lambda e: e[10].update(args=_nest(900)))
_events("deep dims", _set_argument("Input Dims", [[[[[[[[1]]]]]]]]))
_events("huge dims", _set_argument("Input Dims", [[1 << 62, 1 << 62], [1 << 62]]))
_events("negative dims", _set_argument("Input Dims", [[-4, -4], [-4]]))
_events(
    "10,000 arguments", lambda e: e[10].update(args={f"a{i}": i for i in range(10_000)})
)


def _nest(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def _slice(name: str, ts: float, dur: float, **fields: object) -> Event:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur}
    return {**event, "pid": 10, "tid": 1, "args": {}, **fields}


def _flow(number: int, phase: str, ts: float, tid: object) -> Event:
    own = {"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", "ts": ts}
    return {**own, "pid": 10, "tid": tid, "bp": "e"}


@partial(_events, "cyclic flows")
def _cyclic(events: list[Event]) -> None:
    ends = [e for e in events if e.get("ph") == "X"][:40]
    for number, (one, other) in enumerate(zip(ends, ends[1:] + ends[:1], strict=True)):
        events.append(_flow(9000 + number, "s", one["ts"], one["tid"]))
        events.append(_flow(9000 + number, "f", other["ts"], other["tid"]))


@partial(_events, "flows to themselves")
def _to_themselves(events: list[Event]) -> None:
    for number, event in enumerate([e for e in events if e.get("ph") == "X"]):
        events.append(_flow(number, "s", event["ts"], event["tid"]))
        events.append(_flow(number, "f", event["ts"], event["tid"]))


@partial(_events, "ranges that overlap without nesting")
def _overlapping(events: list[Event]) -> None:
    for number in range(200):
        cat = ("cpu_op", "user_annotation", "python_function")[number % 3]
        events.append(_slice(f"r{number}", 1000 + 7 * number, 100, cat=cat))


@partial(_events, "python frames in a circle")
def _circle(events: list[Event]) -> None:
    for number in range(50):
        own = {"Python id": number, "Python parent id": (number + 1) % 50}
        frame = _slice(f"a.py({number}): f", 1000 + number, 9, args=own)
        events.append({**frame, "cat": "python_function"})


@partial(_events, "an op 5,000 deep")
def _deep_ops(events: list[Event]) -> None:
    events += [
        _slice("deep", 1000 + depth / 10, 1_100 - depth / 5) for depth in range(5_000)
    ]


@partial(_events, "20,000 threads")
def _threads(events: list[Event]) -> None:
    events += [
        _slice("aten::add", 1000 + tid / 100, 1, tid=tid) for tid in range(20_000)
    ]


@partial(_events, "100,000 threads")
def _more_threads(events: list[Event]) -> None:
    events += [
        _slice("aten::add", 1000 + tid / 100, 1, tid=tid) for tid in range(100_000)
    ]


@partial(_events, "100,000 streams")
def _streams(events: list[Event]) -> None:
    for stream in range(100_000):
        own = {"device": 0, "stream": stream, "correlation": 10**6 + stream}
        work = _slice("k", 1000 + stream / 100, 1, pid=0, tid=stream, args=own)
        events.append({**work, "cat": "kernel"})


@partial(_events, "1,000 devices")
def _devices(events: list[Event]) -> None:
    for device in range(1_000):
        own = {"device": device, "stream": 7, "correlation": 10**6 + device}
        work = _slice("k", 1000 + device, 1, pid=device, tid=7, args=own)
        events.append({**work, "cat": "kernel"})


@partial(_events, "5,000 processes")
def _processes(events: list[Event]) -> None:
    events += [
        _slice("aten::add", 1000 + pid, 1, pid=f"p{pid}") for pid in range(5_000)
    ]


@partial(_events, "3,000 steps of no length")
def _steps(events: list[Event]) -> None:
    for step in range(3_000):
        mark = _slice(f"ProfilerStep#{10 + step}", 8000, 0)
        events.append({**mark, "cat": "user_annotation"})


@partial(_events, "3,000 steps within each other")
def _nested_steps(events: list[Event]) -> None:
    for step in range(3_000):
        mark = _slice(f"ProfilerStep#{10 + step}", 1000 + step / 10, 900 - step / 5)
        events.append({**mark, "cat": "user_annotation"})


@partial(_events, "steps with odd numbers")
def _odd_steps(events: list[Event]) -> None:
    for place, text in enumerate(("-1", "", "x", "9" * 30, "1.5", "1" * 400)):
        mark = _slice(f"ProfilerStep#{text}", 8000 + 100 * place, 90)
        events.append({**mark, "cat": "user_annotation"})


@partial(_events, "memory beyond all bounds")
def _memory(events: list[Event]) -> None:
    for number, size in enumerate((1 << 62, -(1 << 62), "x", None, 1e300, 1 << 70)):
        own: Event = {"Bytes": size, "Total Allocated": size, "Addr": number}
        own |= {"Total Reserved": size, "Device Type": 1, "Device Id": 0}
        mark = {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event"}
        events.append({**mark, "pid": 10, "tid": 1, "ts": 1100 + number, "args": own})


# ---- Headers


def _header(name: str, **fields: object) -> None:
    MAKERS[name] = lambda folder: _written(
        folder, json.dumps({**trace(), **fields}).encode()
    )


for odd, value in ODD.items():
    for key in ("deviceProperties", "distributedInfo", "baseTimeNanoseconds"):
        _header(f"{key} {odd}", **{key: value})
    _header(f"rank {odd}", distributedInfo={"rank": value, "world_size": value})
    _header(f"gpu name {odd}", deviceProperties=[{"id": value, "name": value}])
_header(
    "10,000 GPUs", deviceProperties=[{"id": i, "name": "A100"} for i in range(10**4)]
)
_header("world of billions", distributedInfo={"rank": 10**9, "world_size": 10**10})


# ---- Files and folders


def _text() -> bytes:
    return json.dumps(trace()).encode()


@_case("zip")
def _zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "t.zip", "w") as archive:
        archive.writestr("a/rank0.json", _text())
    return folder / "t.zip"


@_case("zip named json")
def _zip_json(folder: Path) -> Path:
    return _zip(folder).rename(folder / "t.json")


def _tar(folder: Path, name: str, members: dict[str, bytes], mode: str = "w") -> Path:
    path = folder / name
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member, content in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@_case("tar")
def _plain_tar(folder: Path) -> Path:
    return _tar(folder, "t.tar", {"a/rank0.json": _text(), "b.txt": b"x"})


@_case("tar with paths upwards")
def _upward_tar(folder: Path) -> Path:
    return _tar(folder, "t.tar", {"../../up.json": _text(), "/abs.json": _text()})


@_case("tar cut")
def _cut_tar(folder: Path) -> Path:
    whole = _tar(folder, "t.tar.gz", {"a.json": _text()}, "w:gz").read_bytes()
    return _written(folder, whole[: len(whole) // 2], "t.tar.gz")


@_case("tar of nothing")
def _empty_tar(folder: Path) -> Path:
    return _tar(folder, "t.tar", {})


@_case("tar in tar")
def _tar_in_tar(folder: Path) -> Path:
    inner = _plain_tar(folder).read_bytes()
    return _tar(folder, "outer.tar", {"t.tar": inner, "u.json": _text()})


@_case("zst")
def _zst(folder: Path) -> Path:
    import pyarrow as pa

    return _written(folder, pa.compress(_text(), "zstd", asbytes=True), "t.json.zst")


@_case("folder")
def _folder(folder: Path) -> Path:
    place = folder / "traces"
    place.mkdir()
    _written(place, _text(), "a.json")
    _written(place, b"", "empty.json")
    _written(place, _text()[:5000], "cut.json")
    _written(place, b'{"model": 1}', "config.json")
    return place


@_case("folder of nothing")
def _empty_folder(folder: Path) -> Path:
    (folder / "traces").mkdir()
    return folder / "traces"


@_case("folder in a circle of links")
def _circular(folder: Path) -> Path:
    place = _folder(folder)
    (place / "again").symlink_to(place)
    (place / "loop.json").symlink_to(place / "loop.json")
    return place


@_case("link to itself")
def _loop(folder: Path) -> Path:
    (folder / "t.json").symlink_to(folder / "t.json")
    return folder / "t.json"


@_case("fifo")
def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "t.json")
    return folder / "t.json"


@_case("no file")
def _no_file(folder: Path) -> Path:
    return folder / "none.json"


@_case("a name with a line feed")
def _line_feed(folder: Path) -> Path:
    return _written(folder, _text(), "a\nb\x1b[31m.json")


@_case("a name that is not UTF-8")
def _not_utf8(folder: Path) -> Path:
    path = os.fsencode(folder) + b"/\xff\xfe.json"
    Path(os.fsdecode(path)).write_bytes(_text())
    return Path(os.fsdecode(path))


@_case("a file that grows meanwhile")
def _growing(folder: Path) -> Path:
    path = _written(folder, _text())
    if os.fork() == 0:
        with path.open("ab") as file:
            for _ in range(200):
                file.write(_text())
                file.flush()
                time.sleep(0.01)
        os._exit(0)
    return path


@_case("a file that shrinks meanwhile")
def _shrinking(folder: Path) -> Path:
    path = _written(folder, json.dumps(trace()["traceEvents"] * 50).encode())
    if os.fork() == 0:
        for share in range(50, 0, -1):
            os.truncate(path, share * 20_000)
            time.sleep(0.02)
        os._exit(0)
    return path


# ---- Files of other profilers


def _sqlite(folder: Path, *statements: str) -> Path:
    with sqlite3.connect(folder / "t.sqlite") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return folder / "t.sqlite"


KERNELS = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, shortName)"
MAKERS["sqlite of nothing"] = _sqlite
MAKERS["sqlite of something else"] = lambda f: _sqlite(f, "CREATE TABLE a (b)")
MAKERS["nsight without rows"] = lambda f: _sqlite(f, KERNELS)
MAKERS["nsight with text as times"] = lambda f: _sqlite(
    f, KERNELS, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('a', x'00', 'b', 1.5)"
)
MAKERS["sqlite cut"] = lambda f: _written(
    f, _sqlite(f, KERNELS, *("CREATE TABLE b (c)",)).read_bytes()[:5000], "u.sqlite"
)
MAKERS["parquet of nothing"] = lambda f: _written(f, b"PAR1" + b"\0" * 99, "t.parquet")
MAKERS["perfetto of noise"] = lambda f: _written(
    f, b"\x0a\x99\x01" + _noise(9_999), "t.pftrace"
)
MAKERS["xplane of noise"] = lambda f: _written(
    f, b"\x0a\x99\x01" + _noise(9_999), "t.xplane.pb"
)
MAKERS["pickle"] = lambda f: _written(
    f, b"cos\nsystem\n(S'touch was-here'\ntR.", "nccl_trace_rank_0"
)
MAKERS["graph without nodes"] = lambda f: _written(
    f, b'{"schema": "1.1.1", "nodes": []}'
)
MAKERS["graph in a circle"] = lambda f: _written(
    f, json.dumps({"schema": "1.0.4", "nodes": [_node(i) for i in range(50)]}).encode()
)


def _node(number: int) -> dict[str, Any]:
    tensors: dict[str, Any] = {"values": [], "shapes": [], "types": []}
    own = {"id": number + 2, "name": f"n{number}", "ctrl_deps": (number + 1) % 50 + 2}
    return {**own, "inputs": tensors, "outputs": tensors, "attrs": []}


def _mutated(path: Path, kind: str, seed: int, folder: Path) -> Path:
    """A file of another profiler, cut or with flipped bits, under its own name."""
    content = path.read_bytes()
    share = (0.02, 0.3, 0.6, 0.9, 0.999)[seed % 5]
    is_cut = kind == "cut"
    new = _cut(content, share) if is_cut else _flipped(content, seed, 1 + 10 * seed)
    return _written(folder, new, path.name)


def _foreign_files(*folders: Path) -> Iterator[Path]:
    """Files that are no traces of PyTorch's profiler."""
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if path.name.startswith("nccl_") or path.suffix in {".sqlite", ".parquet"}:
                yield path


for foreign in _foreign_files(
    SAMPLES / "stuck_gloo", CORPUS / "nsys", CORPUS / "stragglers"
):
    for seed in range(5):
        for kind in ("flips", "cut"):
            MAKERS[f"{foreign.name}, {kind} {seed}"] = partial(
                _mutated, foreign, kind, seed
            )


# ---- What the commands do


class Outcome(NamedTuple):
    """What happened to one file."""

    name: str
    exit_code: int
    said: str
    broken: list[str]
    seconds: float


class _TooLongError(Exception):
    """A command exceeded the time limit."""


def _interrupt(_number: int, _frame: object) -> None:
    raise _TooLongError


def _run(*arguments: str) -> Result:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(MOST_SECONDS)
    try:
        return CliRunner().invoke(command, arguments)
    finally:
        signal.alarm(0)


def _faults(arguments: tuple[str, ...], done: Result) -> Iterator[str]:
    """What is wrong with a command's end."""
    what = " ".join(arguments[:1] + arguments[2:])
    error = done.exception
    if error is not None and not isinstance(error, SystemExit):
        at = "".join(traceback.format_exception(error))
        yield f"{what}: {type(error).__name__}: {error}\n{at[-1500:]}"
    elif done.exit_code == REFUSED:
        lines = done.stderr.strip().splitlines()
        if len([line for line in lines if line.startswith("tracedb: error:")]) != 1:
            yield f"{what}: refused in {len(lines)} lines: {lines[:3]}"
    elif done.exit_code not in {0, 1, 3}:
        yield f"{what}: exit code {done.exit_code}"


def attempt(name: str, commands: int = len(AFTER_INGEST)) -> Outcome:
    """Ingest a file, and run the first of the commands on what was ingested."""
    begun = time.monotonic()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = MAKERS[name](folder)
        db = folder / "out" / "run.duckdb"
        db.parent.mkdir()
        ingest = ("ingest", str(path), "--db", str(db))
        done = _run(*ingest)
        broken = list(_faults(ingest, done))
        if done.exit_code == REFUSED and any(db.parent.iterdir()):
            broken.append(f"left behind: {[p.name for p in db.parent.iterdir()]}")
        if db.exists() and not broken:
            for template in AFTER_INGEST[:commands]:
                filled = tuple(part.format(db=db, folder=folder) for part in template)
                broken += _faults(filled, _run(*filled))
            left = sorted(p.name for p in db.parent.iterdir())
            if left != ["run.duckdb"]:
                broken.append(f"beside the database: {left}")
    said = (done.stderr + done.stdout).strip().replace("\n", " | ")
    seconds = time.monotonic() - begun
    return Outcome(name, done.exit_code, said, broken, seconds)


def main() -> int:
    """Try all files, or those whose names contain a text; 1 if a law was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--commands", type=int, default=len(AFTER_INGEST))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    chosen = parser.parse_args()
    names = [name for name in MAKERS if re.search(chosen.only, name)]
    names = names[chosen.first : chosen.first + chosen.count]
    failed = 0
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        for done in pool.map(partial(attempt, commands=chosen.commands), names):
            failed += bool(done.broken)
            line = f"{done.seconds:5.1f} s  {done.exit_code}  {done.name}: {done.said}"
            sys.stdout.write(f"{line[:300]}\n")
            for fault in done.broken:
                sys.stdout.write(f"    BROKEN {fault}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(names)} files, {failed} with a broken law\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
