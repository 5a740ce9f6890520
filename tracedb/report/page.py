"""The page: what it shows as JSON between its own style and scripts.

Names in a trace may be anything. They are data in a block that no browser runs, with
no `<` in it, and the page's scripts show them as text alone; should one of them forget
that, the page's policy still lets no other script run and nothing be fetched.
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
# What would end the block or begin another, and line ends that only JavaScript knows.
_ESCAPED = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def page(content: dict[str, Any], *, is_live: bool = False) -> bytes:
    """The page with its content, without the line that it begins with.

    One that `is_live` may ask the server that it comes from, and no other.
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
    """What the policy knows a script or a style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
