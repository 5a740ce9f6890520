"""A served report answers queries, only to the person who started it."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from threading import Thread
from urllib.parse import urlsplit

import pytest
from browser import CHROMIUM, Page, browser
from click.testing import CliRunner
from support import SAMPLES, Ingested

from tracedb.cli.main import tracedb as command
from tracedb.serve import LOOPBACK, Server

GPU = SAMPLES / "generated_gpu"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(ingested: Ingested) -> Iterator[Server]:
    """A server of two ranks."""
    with Server(str(ingested(GPU)), 1) as made:
        thread = Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(
    server: Server,
    place: str,
    body: str | None = None,
    **headers: str,
) -> tuple[int, bytes, dict[str, str]]:
    """The answer to a request: status, body, headers."""
    link = HTTPConnection(LOOPBACK, server.server_port, timeout=120)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    link.request("GET" if body is None else "POST", place, body, named)
    answer = link.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    link.close()
    return found


def place(server: Server, name: str = "") -> str:
    """A path below the token."""
    return urlsplit(server.url).path + name


def sql(server: Server, query: str) -> dict[str, object]:
    """The answer to a query."""
    status, body, _ = asked(
        server, place(server, "sql"), json.dumps({"query": query}), **JSON
    )
    assert status == 200
    return dict(json.loads(body))


def test_the_server_is_bound_to_loopback(server: Server) -> None:
    """Other machines cannot reach it."""
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.url.startswith(f"http://127.0.0.1:{server.server_port}/")
    assert len(server.token) >= 32


def test_the_page_may_only_contact_its_server(server: Server) -> None:
    """It is the report, with a policy that allows requests to its own origin."""
    status, body, headers = asked(server, place(server))
    assert status == 200
    policy = body.decode().partition('content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.endswith("; connect-src 'self'")
    assert b"is the host running ops" in body
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


def test_queries_read_and_change_nothing(server: Server) -> None:
    """Rows or an error line: the sandbox of `tracedb sql`, and at most 1,000 rows."""
    assert sql(server, "SELECT 1 AS a, '<b>' AS b") == {
        "columns": ["a", "b"],
        "rows": [[1, "<b>"]],
    }
    long = sql(server, "SELECT repeat('x', 9000) AS name")
    assert long["rows"] == [["x" * 9000]]
    many = sql(server, "FROM range(5000)")
    assert many["note"] == "first 1,000 rows; there are more"
    for query, words in (
        ("DELETE FROM raw.trace", "DELETE is not allowed"),
        ("FROM read_text('/etc/passwd')", "no files"),
        ("SELECT x", "x"),
        ("SELECT date 'infinity'", "a time beyond the years 1 to 9999"),
        ("SELECT range(5000000)", "the answer has 38 MiB"),
    ):
        assert words in str(sql(server, query)["error"])


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ({}, "/"),
        ({}, "/wrong/"),
        ({}, "//"),
        ({}, "@../"),
        ({}, "@other"),
        ({"Host": "evil.example"}, "@"),
        ({"Host": "evil.example:80"}, "@"),
        ({"Origin": "http://evil.example"}, "@"),
        ({"Origin": "null"}, "@"),
        ({"Sec-Fetch-Site": "cross-site"}, "@"),
        ({"Sec-Fetch-Site": "same-site"}, "@"),
    ],
)
def test_strangers_are_refused(
    server: Server, headers: dict[str, str], path: str
) -> None:
    """Without the token, by another host name, or from another origin."""
    wanted = path.replace("@", place(server))
    status, body, _ = asked(server, wanted, **headers)
    assert (status, body) == (404, b"")


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "text/plain"}, '{"query": "SELECT 1"}', 404),
        (JSON | {"Origin": "http://evil.example"}, '{"query": "SELECT 1"}', 404),
        (JSON, "[1]", 400),
        (JSON, "\ud83d not JSON".encode("utf-8", "replace").decode(), 400),
        (JSON, "x" * 200_000, 413),
    ],
)
def test_malformed_requests_are_refused(
    server: Server, headers: dict[str, str], body: str, status: int
) -> None:
    """A form from another page, text that is no query, and large bodies."""
    assert asked(server, place(server, "sql"), body, **headers)[0] == status


def test_a_trace_equals_the_export(server: Server) -> None:
    """Of the run or a step, for Perfetto's UI."""
    sizes = []
    for name in ("trace", "trace?step=2"):
        status, body, headers = asked(server, place(server, name))
        assert (status, headers["Content-Type"]) == (200, "application/gzip")
        sizes.append(len(json.loads(gzip.decompress(body))["traceEvents"]))
    assert sizes[0] > sizes[1] > 100
    status, body, _ = asked(server, place(server, "trace?step=99"))
    assert (status, body) == (400, b"no step 99 in run 1; available: 1, 2, 3")


def test_a_port_in_use_is_one_line(server: Server, ingested: Ingested) -> None:
    """The command ends with a hint; likewise without a database."""
    line = ["serve", str(ingested(GPU)), "--port", str(server.server_port)]
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 2
    assert "choose another (--port)" in done.stderr
    assert CliRunner().invoke(command, ["serve", "none.duckdb"]).exit_code == 2


def test_ctrl_c_stops_the_server(ingested: Ingested) -> None:
    """The command prints the address, serves, and ends at once."""
    process = subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-Im", "tracedb", "serve", str(ingested(GPU))],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    url = urlsplit(process.stderr.readline().split()[-1])
    with socket.create_connection((LOOPBACK, int(url.port or 0)), timeout=30) as link:
        link.sendall(f"GET {url.path} HTTP/1.0\r\n\r\n".encode())
        assert b" 404 " in link.recv(100)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


LIVE = "document.querySelector('#live %s')"
HANDED = "sent.filter(one => one[0].perfetto)"


EXACT = (
    "SELECT 'a' AS place, 5 AS place_ns, NULL AS nothing, 9007199254740993 AS id, "
    "0.00012::DOUBLE AS small"
)
"""Equal headings, a column without values, and numbers with their own digits."""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_queries_and_perfetto_in_a_browser(server: Server) -> None:
    """In Chromium: a query, an error, and Perfetto's message protocol."""
    with browser() as page:
        page.send("Page.navigate", url=server.url)
        wait(page, "document.readyState === 'complete' && window.timeline")
        text, run = LIVE % "textarea", LIVE % "button"
        page.run(f"{text}.value = \"SELECT '<img src=x onerror=hacked=1>' AS a\"")
        page.run(f"{run}.click()")
        wait(page, LIVE % "td")
        assert page.run(f"{LIVE % 'td'}.textContent").startswith("<img")
        page.run(f"{text}.value = 'SELECT x'; {run}.click()")
        wait(page, f"{LIVE % '.note'}.textContent.includes('x')")
        assert page.run(f"{LIVE % '.note'}.classList.contains('wrong')")
        page.run(f"{text}.value = {json.dumps(EXACT)}; {run}.click()")
        wait(page, f"{LIVE % '.note'}.textContent === '1 row'")
        assert not page.run(f"{LIVE % '.note'}.classList.contains('wrong')")
        cells = f"[...{LIVE % 'table'}.querySelectorAll('%s')].map(c => c.textContent)"
        assert page.run(cells % "th") == ["place", "place ns", "nothing", "id", "small"]
        assert page.run(cells % "td") == [
            "a",
            "0.005 us",
            "",
            str(2**53 + 1),
            "0.00012",
        ]
        page.run(
            "window.sent = []; window.open = url => { sent.push(url); return "
            "{ postMessage: (what, to) => sent.push([what, to]) }; }"
        )
        page.run(f"{LIVE % '> .tools:last-child button'}.click()")
        wait(page, "sent.some(one => one[0] === 'PING')")
        for origin in ("https://evil.example", "https://ui.perfetto.dev"):
            assert page.run(f"{HANDED}.length") == 0
            told = f"{{ origin: '{origin}', data: 'PONG' }}"
            page.run(f"dispatchEvent(new MessageEvent('message', {told}))")
        given = f"{HANDED}.map(([what, to]) => [what.perfetto.buffer.byteLength, to])"
        ((size, to),) = page.run(given)
        assert size > 1000
        assert to == page.run("sent[0]") == "https://ui.perfetto.dev"
        assert page.run("typeof hacked") == "undefined"
        assert page.errors == []
        here = server.url
        assert set(page.requests) == {here, f"{here}sql", f"{here}trace"}


def wait(page: Page, condition: str, seconds: float = 30) -> None:
    """Wait until a condition holds in the page, but not without a limit."""
    until = time.monotonic() + seconds
    while not page.run(f"Boolean({condition})"):
        if time.monotonic() > until:
            seen = page.errors or "no error"
            pytest.fail(f"after {seconds:g} s, still not: {condition} ({seen})")
        time.sleep(0.05)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_page_that_does_not_answer_fails_soon() -> None:
    """A condition that never holds, or a script that never ends, names itself."""
    with browser() as page:
        page.run("console.error('lost')")
        with pytest.raises(pytest.fail.Exception, match=r"not: 1 > 2 .*lost"):
            wait(page, "1 > 2", seconds=0.1)
        page.patience = 0.5
        with pytest.raises(TimeoutError, match=r"Runtime.evaluate: .* within 0.5 s"):
            page.run("new Promise(() => {})")
