"""Repair text that is almost JSON, as some exporters write it.

Each repair is a pattern over invalid text. Strings are matched separately, and only the
rules for strings apply to them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# An unclosed string extends to the end. Possessive quantifiers (`*+`) prevent
# backtracking: a string of 1 MB would need 135 MB to match, many open ones quadratic
# time.
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
# A non-finite number, which JSON does not have, in place of a value.
_BARE = re.compile(
    rb"(?P<string>" + STRING + rb")"
    rb"|(?<=[:,\[\s])(?P<bare>[+-]?(?:inf(?:inity)?|nan(?:\(\w{0,20}\))?))(?=[\s,}\]])",
    re.IGNORECASE | re.DOTALL,
)
_TRAILING = re.compile(rb"(?P<string>" + STRING + rb")|,(?P<close>\s*[}\]])", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?P<after>u[0-9a-fA-F]{4}|[\"\\/bfnrt]|)")
_KEPT = (b'"', b"\\")
LONE_SURROGATE = re.compile(
    rb"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_NAME = re.compile(rb'"name"\s*:\s*"')
_BEHIND_NAME = re.compile(
    rb'"\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|id|bp|s|args)"\s*:|\})'
)
_ANY_STRING = re.compile(STRING, re.DOTALL)


def mend(text: bytes) -> tuple[bytes, Counter[str]]:
    """Apply all repairs, and count them by kind."""
    done: Counter[str] = Counter()
    for rule in (_utf8, _strings, _bare_numbers, _trailing_commas):
        text = rule(text, done)
    return text, done


def requote(text: bytes) -> bytes:
    """Escape quotes within names; a name ends where another field begins."""
    pieces, place = [], 0
    while (name := _NAME.search(text, place)) and (
        behind := _BEHIND_NAME.search(text, name.end())
    ):
        quoted = text[name.end() : behind.start()].replace(b'"', b'\\"')
        pieces += [text[place : name.end()], quoted, behind[0]]
        place = behind.end()
    return b"".join([*pieces, text[place:]])


def _utf8(text: bytes, done: Counter[str]) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError:
        mended = text.decode(errors="replace")
        done["bytes that are not UTF-8"] += mended.count("\ufffd")
        return mended.encode()
    return text


def _strings(text: bytes, done: Counter[str]) -> bytes:
    return _ANY_STRING.sub(lambda found: _string(found[0], done), text)


def _string(text: bytes, done: Counter[str]) -> bytes:
    if any(not found["after"] for found in _ESCAPE.finditer(text)):
        # An invalid escape means a Windows path, in which no backslash is an escape.
        done["unescaped backslashes"] += 1
        text = _ESCAPE.sub(_literal, text)
    if LONE_SURROGATE.search(text):
        done["halves of characters"] += len(LONE_SURROGATE.findall(text))
        text = LONE_SURROGATE.sub(rb"\\ufffd", text)
    if _CONTROL.search(text):
        done["raw control characters"] += len(_CONTROL.findall(text))
        text = _CONTROL.sub(lambda found: b"\\u%04x" % found[0][0], text)
    return text


def _literal(found: re.Match[bytes]) -> bytes:
    return found[0] if found["after"] in _KEPT else b"\\" + found[0]


def _bare_numbers(text: bytes, done: Counter[str]) -> bytes:
    return _outside(text, _BARE, done, "numbers that are not finite", _quoted)


def _quoted(found: re.Match[bytes]) -> bytes:
    return b'"' + found["bare"] + b'"'


def _trailing_commas(text: bytes, done: Counter[str]) -> bytes:
    return _outside(
        text, _TRAILING, done, "trailing commas", lambda f: bytes(f["close"])
    )


def _outside(
    text: bytes,
    pattern: re.Pattern[bytes],
    done: Counter[str],
    kind: str,
    replacement: Callable[[re.Match[bytes]], bytes],
) -> bytes:
    """Replace matches outside of strings, and count them."""

    def replace(found: re.Match[bytes]) -> bytes:
        if found["string"] is not None:
            return bytes(found[0])
        done[kind] += 1
        return replacement(found)

    return pattern.sub(replace, text)
