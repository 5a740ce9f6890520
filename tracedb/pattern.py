"""Check that users' regular expressions are valid, and cheap enough to match.

DuckDB matches in linear time (RE2), but expands counted repeats first; for patterns in
a table, again for each row.
"""

from __future__ import annotations

import re
from functools import cache

import duckdb

from tracedb.duck import one_line

_MOST_COST = 5000
"""The largest cost; a match takes some microseconds per 100."""
_TOKEN = re.compile(
    r"""
    (?P<class>\\[pP](?:\{\^?\w+\}|\w) | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^]\\])*\])
    | (?P<repeat>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})
    | (?P<open>\()
    | (?P<close>\))
    | (?P<any>\.)
    | (?P<atom>\\.|[^*+?|^$])
    """,
    re.VERBOSE | re.DOTALL,
)
_COSTS = {"class": 50, "any": 10, "atom": 1}


@cache
def wrong_pattern(pattern: str) -> str | None:
    """What is wrong with a regular expression, if anything.

    >>> wrong_pattern("(a|b{3}).*")
    >>> wrong_pattern("((a{100}){100}){100}")
    'repeats too much: 1,000,000 places, more than 5,000'
    """
    cost = _cost(pattern)
    if cost > _MOST_COST:
        return f"repeats too much: {cost:,} places, more than {_MOST_COST:,}"
    with _nothing().cursor() as connection:
        try:
            connection.execute("SELECT regexp_full_match('', ?)", [pattern])
        except (duckdb.Error, UnicodeEncodeError) as error:
            reason = one_line(error).partition(": ")[2].partition(":")[0]
            return f"is not a regular expression: {reason}"
    return None


@cache
def _nothing() -> duckdb.DuckDBPyConnection:
    """An empty database, shared by all patterns: opening one takes 30 ms."""
    return duckdb.connect()


def _cost(pattern: str) -> int:
    """The cost of a pattern once its repeats are expanded."""
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "open":
            groups.append(0)
            continue
        if kind == "close":
            last = groups.pop() if len(groups) > 1 else 0
        elif token["repeat"]:
            times = max(int(token["most"] or token["least"]), 1)
            groups[-1] -= last
            last *= times
        else:
            last = _COSTS[str(kind)]
        groups[-1] += last
    return sum(groups)
