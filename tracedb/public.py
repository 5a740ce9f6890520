"""The relations that users may rely on: `sql/public.toml`, read without DuckDB."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files


@cache
def by_subject() -> dict[str, tuple[str, ...]]:
    """The names of public relations in reading order, by subject."""
    return {subject: tuple(names) for subject, names in tomllib.loads(text()).items()}


def text() -> str:
    """The list as it is written."""
    return (files("tracedb.sql") / "public.toml").read_text(encoding="utf-8")
