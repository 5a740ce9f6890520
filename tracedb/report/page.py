"""Build the page: its content as JSON, with inline style and scripts.

Names in a trace may be malicious. They are in a data block that browsers do not
execute, without `<`, and the scripts insert them only as text. As a second defence, the
page's Content Security Policy blocks other scripts and all requests.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import msgspec

import tracedb

_SCRIPTS = (
    "uPlot.iife.min.js",
    "tools.js",
    "table.js",
    "charts.js",
    "timeline.js",
    "main.js",
)
_LIVE = "live.js"
_STYLES = ("uPlot.min.css", "report.css")
# Characters that could end the block, and line terminators of JavaScript only.
_ESCAPED = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def page(content: dict[str, Any], *, is_live: bool = False) -> bytes:
    """The page with its content, without its first line.

    A page that `is_live` may send requests to its own server.
    """
    scripts = (*_SCRIPTS, _LIVE) if is_live else _SCRIPTS
    script = "\n".join(_asset(name) for name in scripts)
    style = "\n".join(_asset(name) for name in _STYLES)
    text = _asset("page.html")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; "
        f"style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    policy += "; connect-src 'self'" if is_live else ""
    content = {"version": tracedb.__version__, **content}
    for place, part in (
        ("POLICY", policy),
        ("STYLE", style),
        ("SCRIPT", script),
    ):
        text = text.replace(f"@{place}@", part)
    before, _, after = text.partition("@CONTENT@")
    return before.encode() + embedded(content) + after.encode()


def embedded(content: object) -> bytes:
    r"""Data as JSON that cannot leave the block that it stands in.

    >>> embedded("</script>")
    b'"\\u003c/script\\u003e"'
    """
    text = msgspec.json.encode(content)
    for raw, escaped in _ESCAPED.items():
        text = text.replace(raw, escaped)
    return text


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    """The digest of a script or a style for the policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
