"""Format times, shares and names for people."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from os.path import commonprefix
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
ELLIPSIS = "…"
_NO_BREAK = "\u00a0"
_COMMAND = re.compile(r"`[^`]+`")
_NUMBER = re.compile(r"\d+")
_MOST_DIGITS = 24
"""More than those of times in nanoseconds."""
_AMOUNT = re.compile(r"([\d.]) (s|ms|us|ns|%)(?!\w)")


def duration(time_ns: float) -> str:
    """Write a time with three digits.

    >>> duration(215_340_000), duration(2_028_017), duration(1_200), duration(90)
    ('215 ms', '2.03 ms', '1.20 us', '90 ns')
    """
    for scale, unit in _UNITS:
        if abs(time_ns) >= scale:
            value = time_ns / scale
            digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0  # noqa: PLR2004 (three digits)
            return f"{value:,.{digits}f} {unit}"
    return f"{time_ns:.0f} ns"


def share(value: float) -> str:
    """Write a share in percent; small shares do not become zero.

    >>> share(0.338), share(0.0004), share(0)
    ('33.8 %', '<0.1 %', '0 %')
    """
    if value == 0:
        return "0 %"
    return "<0.1 %" if abs(value) < 0.0005 else f"{100 * value:.1f} %"  # noqa: PLR2004 (what rounds to 0.0)


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines that begin with `first` and `rest`; numbers stay with their units.

    Commands and words are kept whole: they and paths are there to be copied.

    >>> wrapped("  it takes 3.14 ms", 13, rest="    ")
    ['  it takes', '    3.14 ms']
    """
    kept = _AMOUNT.sub(rf"\1{_NO_BREAK}\2", text)
    kept = _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK), kept)
    lines = wrap(
        kept,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def counted(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> counted(1, "step"), counted(2_000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_THINGS = (
    "allocation block call collective device element event gap interval kernel module "
    "node op operation ordinal other outlier path problem range rank run sample shard "
    "span stage start step stream task thread trace version wait"
)
_ADJECTIVES = "all behind described last late later present resumed short"
COUNTED = {
    **{thing: f"{thing}s" for thing in _THINGS.split()},
    "batch": "batches",
    "copy": "copies",
    "launch": "launches",
    "match": "matches",
    **{word: word for word in _ADJECTIVES.split()},
}
"""What public relations count, by the last word before `_count`, as in headings.

Other words are users' own, and stay: no rule tells that `by_count` counts no things.
"""


def heading_of_count(column: str) -> str:
    """The heading of a column: of a known count, what it counts.

    >>> [*map(heading_of_count, ["gpu_op_count", "late_count", "by_count", "step"])]
    ['gpu_ops', 'late', 'by_count', 'step']
    """
    *before, thing, suffix = f"_{column}".rsplit("_", 2)
    if suffix != "count" or thing not in COUNTED:
        return column
    return "_".join([*before, COUNTED[thing]]).removeprefix("_")


def natural(name: str) -> tuple[str, str]:
    """A key by which names are in the order of the numbers in them.

    >>> sorted(["rank10.json", "rank2.json", "rank.json"], key=natural)
    ['rank.json', 'rank2.json', 'rank10.json']
    """
    return _NUMBER.sub(lambda found: found[0].zfill(_MOST_DIGITS), name), name


def shortened(name: str, width: int) -> str:
    """Cut a name in the middle, because names differ at both ends.

    The return type, parameters and namespaces of a C++ function are dropped first.

    >>> shortened("ampere_sgemm_128x64_tn", 15)
    'ampere_…8x64_tn'
    >>> shortened("aten::mm", 15)
    'aten::mm'
    >>> shortened("void at::native::fill<4, at::Full<float>>(int, float)", 20)
    'fill<4, Full<float>>'
    """
    if len(name) <= width:
        return name
    plain = _without_signature(name)
    return plain if len(plain) <= width else _cut(plain, width)


def frame_within(frame: str, width: int) -> str:
    """A Python frame whose path keeps as many of its last folders as fit.

    >>> frame_within("replay (/workspace/python/sglang/srt/graph_runner.py:1359)", 40)
    'replay (…/srt/graph_runner.py:1359)'
    >>> frame_within("forward (model.py:3)", 10)
    'forward (model.py:3)'
    """
    if len(frame) <= width:
        return frame
    name, bracket, path = frame.partition(" (")
    folders = path.split("/")
    for first in range(1, len(folders)):
        rest = "/".join(folders[first:])
        shorter = f"{name}{bracket}…/{rest}"
        if len(shorter) <= width or first == len(folders) - 1:
            return shorter
    return frame


def path_end(path: str, width: int) -> str:
    """The end of a path of modules: most begin with the same ones.

    >>> path_end("Net_*/Layer_*/Attention_*/Linear_*", 21)
    '…Attention_*/Linear_*'
    """
    return path if len(path) <= width else ELLIPSIS + path[1 - width :]


def cut_distinct(
    names: list[str], width: int, cut: Callable[[str, int], str] = shortened
) -> list[str]:
    """Cut names so that different names stay different, if the width allows.

    >>> cut_distinct(["run<Row<char>, Add<int>, 4>", "run<Row<char>, Mul<int>, 4>"], 20)
    ['run<Ro…>, Add<int>,…', 'run<Ro…>, Mul<int>,…']
    """
    short = {name: cut(name, width) for name in names}
    times = Counter(short.values())
    alike = [name for name in short if times[short[name]] > 1]
    plain = {name: _without_signature(name) for name in alike}
    times = Counter(plain.values())
    # Overloads differ only in their parameters.
    plain = {name: bare if times[bare] == 1 else name for name, bare in plain.items()}
    place = _differences(sorted(plain.values()))
    for name, bare in plain.items():
        short[name] = _cut_around(bare, place[bare], width)
    return [short[name] for name in names]


def _differences(names: list[str]) -> dict[str, int]:
    """The index at which each of the sorted names differs from its neighbours."""
    # Despite its name, `commonprefix` compares characters.
    shared = [0, *(len(commonprefix(pair)) for pair in pairwise(names)), 0]  # noqa: RUF071
    return {name: max(shared[i : i + 2]) for i, name in enumerate(names)}


def _cut(name: str, width: int) -> str:
    tail = (width - 1) // 2
    return name[: width - 1 - tail] + ELLIPSIS + name[len(name) - tail :]


def _cut_around(name: str, place: int, width: int) -> str:
    """Keep the begin of a name, and the part from shortly before `place`."""
    head = width // 3
    begin = max(head, min(place - width // 6, len(name) - (width - 1 - head)))
    end = begin + width - 1 - head
    if len(name) <= width:
        return name
    if end >= len(name):
        return name[:head] + ELLIPSIS + name[begin:]
    return name[:head] + ELLIPSIS + name[begin : end - 1] + ELLIPSIS


# Possessive, so that names of megabytes take linear time.
_SCOPE = re.compile(r"\(anonymous namespace\)::|\b[A-Za-z_]\w*+::")
_TEMPLATE_OR_CALL = re.compile(
    r"^(?:void )?[\w:]*+(?:(?<=\w)|\(anonymous namespace\)::\w++)[<(]"
)


def _without_signature(name: str) -> str:
    """A C++ function without return type, parameters and namespaces."""
    if not _TEMPLATE_OR_CALL.match(name):
        return name
    plain = _SCOPE.sub("", name.removeprefix("void "))
    return plain[: _parameters(plain)]


def _parameters(name: str) -> int:
    """Where the parameters of a function begin: its last top-level bracket."""
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += (name[place] in ")>]") - (name[place] in "(<[")
        if depth == 0:
            return place if name[place] == "(" else len(name)
    return len(name)
