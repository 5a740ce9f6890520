"""Serve the report of a run with live SQL, on this machine only.

The server is the standard library's, bound to the loopback interface. A request must
contain the token in its URL and the server's own host name; one from a page in a
browser must come from the same origin. All others get 404. Queries run in the sandbox
of `tracedb sql`.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tracedb import live
from tracedb.errors import DatabaseError, QueryError, TracedbError
from tracedb.report import made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tracedb.database import Database

    Words = Callable[[Database, int], Iterable[str]]

LOOPBACK = "127.0.0.1"
_MOST_BYTES = 100_000
"""[B] Largest body of a query."""
_LARGEST_EXACT = 1 << 53
_PAGE_SECONDS = 600.0
"""[s] Time limit of a page or an export."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_JSON, _HTML, _GZIP = "application/json", "text/html; charset=utf-8", "application/gzip"


class Server(ThreadingHTTPServer):
    """Serves one run of a database until it is closed."""

    daemon_threads = True

    def __init__(
        self, path: str, run: int | None, port: int = 0, memory: int | None = None
    ) -> None:
        """Take a port, any free one if it is 0; `memory` limits a query, in bytes.

        Raises `DatabaseError` if the port is in use.
        """
        self.token = secrets.token_urlsafe(24)
        self._path, self._run = path, run
        self._page: tuple[Any, bytes] = None, b""
        self._making = Lock()
        self._worker = live.Worker(memory)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise DatabaseError(
                f"port {port}: {error.strerror}; choose another (--port)"
            ) from error

    @property
    def url(self) -> str:
        """The URL to open, which is secret."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """The valid values of Host; others indicate DNS rebinding."""
        return f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"

    def page(self) -> bytes:
        """The report, rebuilt if the database has changed."""
        with self._making:
            state = Path(self._path).stat()
            mark = (state.st_mtime_ns, state.st_size)
            if self._page[0] != mark:
                text = self._worker.call(self._path, _PAGE_SECONDS, _page, self._run)
                self._page = mark, text
            return self._page[1]

    def answer(self, query: str) -> dict[str, Any]:
        """The first rows of a query, or its error message."""
        try:
            found = self._worker.call(
                self._path,
                live.MOST_SECONDS,
                live.query,
                query,
                live.MOST_ROWS,
                live.WHOLE,
            )
        except TracedbError as error:
            return {"error": str(error)}
        return {**found, "rows": [[*map(_exact, row)] for row in found["rows"]]}

    def trace(self, step: int | None) -> bytes:
        """The run or a step as a trace for Perfetto's UI."""
        with TemporaryDirectory() as folder:
            place = Path(folder) / "trace.json.gz"
            self._worker.call(
                self._path, _PAGE_SECONDS, _export, place, step, self._run
            )
            return place.read_bytes()


def _exact(value: object) -> object:
    """A value as JavaScript keeps it: numbers there are exact up to 2^53."""
    is_long = isinstance(value, int) and abs(value) > _LARGEST_EXACT
    return str(value) if is_long else value


def _page(database: Database, run: int | None) -> bytes:
    return made(database, run, is_live=True)[0]


def _export(database: Database, place: Path, step: int | None, run: int | None) -> None:
    database.export(place, step=step, run=run)


class _Handler(BaseHTTPRequestHandler):
    """Answers authorized requests."""

    server: Server
    server_version, sys_version = "tracedb", ""
    timeout = 60

    def do_GET(self) -> None:
        """Send the page, or a trace."""
        place = self._place()
        if place is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"")
        elif place == "":
            self._made(_HTML, self.server.page)
        elif place == "trace":
            self._made(_GZIP, lambda: self.server.trace(self._step()))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"")

    def do_POST(self) -> None:
        """Answer a query."""
        size = self.headers.get("Content-Length", "")
        # A form of another page cannot send this content type.
        is_json = self.headers.get_content_type() == _JSON
        if self._place() != "sql" or not is_json:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"")
        elif not size.isdecimal() or int(size) > _MOST_BYTES:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"")
        else:
            self._made(_JSON, lambda: self._answer(self.rfile.read(int(size))))

    def _answer(self, body: bytes) -> bytes:
        try:
            query = msgspec.json.decode(body, type=dict[str, str])["query"]
        except (msgspec.DecodeError, KeyError) as error:
            raise QueryError("no query") from error
        return msgspec.json.encode(self.server.answer(query))

    def _step(self) -> int | None:
        wanted = parse_qs(urlsplit(self.path).query).get("step", [""])[0]
        return int(wanted) if wanted.isdecimal() else None

    def _place(self) -> str | None:
        """The path below the token; None for an unauthorized request."""
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin", f"http://{host}")
        from_here = self.headers.get("Sec-Fetch-Site", "none") in (
            "none",
            "same-origin",
        )
        if host not in self.server.hosts or origin != f"http://{host}" or not from_here:
            return None
        _, token, *rest = urlsplit(self.path).path.split("/", 2)
        is_known = compare_digest(token.encode(), self.server.token.encode())
        return rest[0] if is_known and rest else None

    def _made(self, kind: str, make: Callable[[], bytes]) -> None:
        """Send what `make` returns, or the message of a user's error."""
        try:
            data = make()
        except TracedbError as error:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", str(error).encode())
        except Exception:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"")
            raise
        else:
            self._send(HTTPStatus.OK, kind, data)

    def _send(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        # The browser may have closed the connection.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Do not log requests: the URL is secret."""
