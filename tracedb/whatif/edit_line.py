"""Parse edits that users type, one line each, on the command line or in a file.

    edit      = target [":" (type | pattern)] {field "=" value} {change}
    change    = "x" number | ("+" | "-" | "=") number unit | "=" statistic | action
    unit      = "ns" | "us" | "ms" | "s"
    value     = a word, a text in double quotes, or an expression between slashes

For example, `gpu:*gemm* x0.5` halves the time of GPU work with such names, `host:T2
-2us` shortens each span of that type by 2 us, `gpu:kernel =5us` sets kernels to 5 us,
`gpu =rank_min` to the time of the fastest rank, and `op:aten::item phase=optimizer
remove` removes ops. Fields and actions are those of `tracedb.Edit`, in any order after
the target.

    setting   = name "=" value [":" chosen] {field "=" value}
    name      = "gpu" | "dtype" | "batch" | "ranks"
    chosen    = type | family | pattern

A setting is short for an edit of GPU work: `gpu=H200` is `gpu set to_gpu=H200`,
`dtype=bf16:gemm*` is `gpu family=gemm* set to_dtype=bf16`, `batch=4096 from_batch=512`
is `gpu set to_batch=4096 from_batch=512`, and `ranks=64 process_group=1*` is
`gpu:collective process_group=1* set to_ranks=64`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tracedb.errors import ScenarioError
from tracedb.near import closest, meant
from tracedb.whatif.action import ACTIONS, STATISTICS
from tracedb.whatif.scenario import FIELDS, Change
from tracedb.whatif.selection import FIELDS as SELECTING
from tracedb.whatif.selection import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_NUMBER = r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+"
_FACTOR = re.compile(rf"x({_NUMBER})")
_TIME = re.compile(rf"([-+=])({_NUMBER})(ns|us|ms|s)?")
# A word ends at a space outside of double quotes and of expressions. An expression ends
# before the next field at the latest.
_WORD = re.compile(
    rf"""
    (?P<key>[a-z_]+[:=])?
    (?:
        "(?P<quoted>(?:[^"\\]|\\.)*)"
        | (?P<expression>/(?:(?!\s(?:{"|".join(FIELDS)})=).)*?/)
        | (?P<plain>[^\s"]+)
    )
    (?=\s|$)
    """,
    re.VERBOSE,
)
_CHANGES = "a change (x0.5, +2us, -2us, =5us, =rank_min, {}) or field=value"


class _Line:
    """A line that is read word by word, with the current position for errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, wanted: str, hint: str = "") -> ScenarioError:
        """An error at the current position."""
        rest = self.text[self.at :].split(maxsplit=1)
        found = f'"{rest[0]}"' if rest else "the end"
        place = f"edit '{self.text}', column {self.at + 1}"
        return ScenarioError(f"{place}: expected {wanted}, found {found}{hint}")

    def words(self) -> Iterator[tuple[str | None, str, bool]]:
        """Each word: its key before `:` or `=`, its value, whether it is unquoted."""
        while self._skip():
            word = _WORD.match(self.text, self.at)
            if word is None:
                raise self.error('a word, or a text with a closing "')
            key, bare = word["key"], word["quoted"] is None
            quoted = word["quoted"] or ""
            value = (
                word["expression"] or word["plain"] or re.sub(r"\\(.)", r"\1", quoted)
            )
            if key is None and bare and value.endswith((":", "=")):
                self.at = word.end()
                raise self.error("a value")
            yield key, value, bare
            self.at = word.end()

    def _skip(self) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)


def parse(text: str) -> Change:
    """Parse a line into an edit.

    >>> parse("gpu:*gemm* x0.5").factor
    0.5
    >>> parse("host:T2 -2us").add_ns
    -2000
    >>> parse('gpu name="Memcpy HtoD*" stream=7..9 x0').stream
    '7..9'

    Raises `ScenarioError` with the column and what was expected there.
    """
    line = _Line(text)
    fields: dict[str, Any] = {}
    for key, value, is_bare in line.words():
        given = (
            _first(line, key, value) if not fields else _next(line, key, value, is_bare)
        )
        for name, one in given.items():
            if not _takes(name, one):
                raise line.error(f"{name}, which is {FIELDS[name]}")
            if name in fields:
                raise line.error(f"another field ({name} is already given)")
            fields[name] = one
    if not fields:
        raise line.error(f"a target ({', '.join(TYPES)})")
    return msgspec.convert(fields, Change)


SETTINGS = {
    "gpu": "to_gpu",
    "dtype": "to_dtype",
    "batch": "to_batch",
    "ranks": "to_ranks",
}
"""The fields that settings set, by the settings' names."""
# A value, which may contain spaces, a selection, and fields.
_SETTING = re.compile(r"(?P<value>[^:=]+?)(?::(?P<chosen>\S.*)|\s+(?P<rest>\w+=.*))?")


def parse_setting(text: str) -> Change:
    """Parse a setting into an edit.

    >>> parse_setting("gpu=H200").to_gpu
    'H200'
    >>> parse_setting("dtype=bf16:gemm* phase=backward").family
    'gemm*'

    Raises `ScenarioError` for an invalid setting.
    """
    name, _, given = text.partition("=")
    parts = _SETTING.fullmatch(given)
    if name not in SETTINGS or parts is None:
        settings = ", ".join(f"{setting}=..." for setting in SETTINGS)
        raise ScenarioError(
            f"setting '{text}': expected {settings}, such as gpu=H200 or "
            "dtype=bf16:gemm*"
        )
    field = SETTINGS[name]
    value = next((v for v in _readings(parts["value"]) if _takes(field, v)), None)
    if value is None:
        raise ScenarioError(f"setting '{text}': {name} must be {FIELDS[field]}")
    chosen = f":{parts['chosen']}" if parts["chosen"] else f" {parts['rest'] or ''}"
    change = parse(f"gpu{chosen}")
    if change.name is not None and _is_of_family(change.name):
        change = structs.replace(change, name=None, family=change.name)
    if field == "to_ranks":
        change = structs.replace(change, type="collective")
    return structs.replace(change, action="set", **{field: value})


def _is_of_family(pattern: str) -> bool:
    """Whether a pattern matches a kernel family; otherwise it is for names."""
    from tracedb.kernels.relations import declared

    rows = declared("prediction.kernel_efficiency")
    return any(fnmatchcase(row["family"], pattern) for row in rows)


def _first(line: _Line, key: str | None, value: str) -> dict[str, Any]:
    """The target, with the type or name after the colon."""
    target = value if key is None else key[:-1]
    if target not in TYPES or (key is not None and not key.endswith(":")):
        raise line.error(f"a target ({', '.join(TYPES)})", _target_hint(key, value))
    if key is None:
        return {"target": target}
    return {"target": target, "type" if value in TYPES[target] else "name": value}


def _target_hint(key: str | None, value: str) -> str:
    """How to write a type, field or op that stands where a target is expected."""
    word = f"{key or ''}{value}"
    targets = [target for target, types in TYPES.items() if word in types]
    if targets:
        return f"; write {' or '.join(f'{target}:{word}' for target in targets)}"
    if key is not None and key[:-1] in SELECTING:
        return f"; write a target before the field, as in host {key[:-1]}={value}"
    return f"; write op:{word} for an op of that name" if "::" in word else ""


def _next(line: _Line, key: str | None, value: str, is_bare: bool) -> dict[str, Any]:  # noqa: FBT001 (of a word)
    """The fields that a word after the target sets."""
    if key is not None:
        return _field(line, key, value)
    factor, time = _FACTOR.fullmatch(value), _TIME.fullmatch(value)
    if factor and is_bare:
        return {"factor": float(factor[1])}
    if time and is_bare:
        return _time(line, *time.groups())
    if is_bare and value[:1] == "=" and value[1:] in STATISTICS:
        return {"action": "set", "set_to": value[1:]}
    if is_bare and value in ACTIONS:
        return {"action": value}
    hint = '; write a text with spaces in double quotes: name="..."'
    raise line.error(
        _CHANGES.format(", ".join(a for a in ACTIONS if a != "scale")), hint
    )


def _time(line: _Line, sign: str, number: str, unit: str | None) -> dict[str, Any]:
    if unit is None:
        raise line.error(f"a time with its unit ({', '.join(_UNITS)})")
    time_ns = round(float(number) * _UNITS[unit])
    if sign == "=":
        return {"action": "set", "set_ns": time_ns}
    return {"add_ns": -time_ns if sign == "-" else time_ns}


def _field(line: _Line, key: str, value: str) -> dict[str, Any]:
    """A field by its name, with a value of its type."""
    name = key[:-1]
    if key.endswith(":") or name not in FIELDS or name == "target":
        known = [field for field in FIELDS if field != "target"]
        near = closest(name, known)
        listed = "" if near else f" ({', '.join(known)})"
        raise line.error(f"a field{listed}", meant(near))
    for one in _readings(value):
        if _takes(name, one):
            return {name: one}
    raise line.error(f"{name}={FIELDS[name]}")


def _takes(name: str, value: object) -> bool:
    """Whether a field takes a value."""
    try:
        msgspec.convert({"target": "gpu", name: value}, Change)
    except msgspec.ValidationError:
        return False
    return True


def _readings(value: str) -> Iterator[str | int | float]:
    """The values that a text may stand for: a number, itself, or a time in ns."""
    if re.fullmatch(r"-?\d{1,18}", value):
        yield int(value)
    yield value
    if re.fullmatch(rf"-?(?:{_NUMBER})", value):
        yield float(value)
    time = re.fullmatch(rf"(-?)({_NUMBER})(ns|us|ms|s)", value)
    if time:
        yield round(float(f"{time[1]}{time[2]}") * _UNITS[time[3]])
