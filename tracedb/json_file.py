"""Read JSON files that people write, and report errors with their place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from tracedb.near import meant, near_path

if TYPE_CHECKING:
    from tracedb.errors import TracedbError

_TWICE = 2
# Messages of the parser, by their first words, in plainer words.
_WORDS = {
    "Expecting property name": "expected a name in double quotes",
    "Expecting value": "expected a value",
    "Expecting ','": "expected a comma or a closing bracket",
    "Expecting ':'": "expected a colon",
    "Extra data": "text after the end of the JSON",
    "Illegal trailing comma": "trailing comma",
    "Invalid \\": "a backslash in a string must be doubled",
    "Invalid control character": "string not closed on its line",
    "Unterminated string": "the string that starts here is not closed",
}


def read_text(path: str | Path, error: type[TracedbError]) -> str:
    """The text of a file; raises the given error if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "not UTF-8 text"
        near = meant(near_path(str(path)))
        raise error(f"{path}: cannot be read: {reason}{near}") from problem


def decode(path: str | Path, text: str, error: type[TracedbError]) -> Any:  # noqa: ANN401 (JSON)
    """Parse a JSON text; no object may have a name twice.

    Raises the given error with line and column for invalid JSON.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
        # A lone surrogate such as `\\uD83D` is not a character, and cannot be encoded.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as problem:
        half = ascii(problem.object[problem.start])[1:-1]
        raise error(f"{path}: not JSON: {half} is half a character") from problem
    except json.JSONDecodeError as problem:
        place = f"{path}: line {problem.lineno}, column {problem.colno}"
        raise error(f"{place}: not JSON: {_plain(problem.msg)}") from problem
    except _RepeatedError as problem:
        lines = _lines(text, str(problem))
        raise error(
            f'{path}: "{problem}" occurs twice in one object{lines}; rename or remove '
            "one"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise error(f"{path}: not JSON: {problem}") from problem
    return value


def _plain(message: str) -> str:
    return next(
        (w for start, w in _WORDS.items() if message.startswith(start)), message
    )


class _RepeatedError(Exception):
    """An object has a name twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedError(next(name for name in names if names.count(name) > 1))
    return found


def _lines(text: str, name: str) -> str:
    """The lines of a name, if it occurs exactly twice in the text."""
    found = re.finditer(rf"{re.escape(json.dumps(name))}\s*:", text)
    lines = [text.count("\n", 0, match.start()) + 1 for match in found]
    if len(lines) != _TWICE:
        return ""
    first, second = lines
    return f", in line{'' if first == second else f's {first} and'} {second}"


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not a JSON number")
