"""The pages that the programs here write: tables, goals, what was measured on.

A page is a program's own, or has a section (`## Title`) of each of several.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from measure import PEERS, quietly

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

HEADING = "# Benchmarks"
WIDTH = 88
"""Line width of pages."""
_WRITER = re.compile(r"Written by\s+`+\s*python benchmarks/(?:\w+/)*(\w+\.py)")


def parser(about: str | None) -> argparse.ArgumentParser:
    """A command line described by a program's docstring, with `--write`."""
    given = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    given.add_argument("--write", type=Path, metavar="PAGE", help="else stdout has it")
    return given


def publish(text: str, page: Path | None) -> None:
    """Write a whole page, or print it; sections of other programs stay on it."""
    if page is None:
        print(text, end="")
        return
    before = page.read_text() if page.exists() else ""
    page.write_text(with_sections_of_others(text, before))


def publish_section(text: str, page: Path | None) -> None:
    """Replace a section of a page, leaving the others as they are, or print it."""
    if page is None:
        print(text, end="")
        return
    before = page.read_text() if page.exists() else ""
    page.write_text(replace_section(before, text))


def filled(text: str, **facts: object) -> str:
    """A paragraph with its facts, wrapped."""
    return textwrap.fill(text.format(**facts), WIDTH)


def middle_of(runs: int) -> str:
    """What a figure is, of so many runs.

    >>> middle_of(1), middle_of(3)
    ('of one run', 'the median of 3 runs')
    """
    return "of one run" if runs == 1 else f"the median of {runs} runs"


def written_by() -> str:
    """The command that writes the page."""
    program = Path(sys.argv[0]).name
    return f"Written by\n\n```\npython benchmarks/{program} {words()}\n```"


def machine(peers: Path | None) -> str:
    """The machine that was measured on: processor, memory, versions."""
    processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts = [
        f"{os.cpu_count()} cores ({processor[1] if processor else platform.machine()})",
        f"{memory / 2**30:.0f} GiB of memory",
        f"Python {platform.python_version()}",
        *(f"{name} {metadata.version(name)}" for name in ("tracedb", "duckdb")),
    ]
    names = [re.split("[<>=]", peer)[0] for peer in PEERS]
    if peers is not None:
        code = (
            "from importlib.metadata import version as v;"
            f"print(*(f'{{n}} {{v(n)}}' for n in {names}), sep=',')"
        )
        facts += quietly(str(peers), "-c", code).strip().split(",")
    return ", ".join(facts)


def words() -> str:
    """The command line, without folders of this machine."""
    shown = (Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:])
    return shlex.join(shown)


def table(
    head: list[str],
    rows: Iterable[list[str]],
    *,
    left: int = 1,
    texts: Container[str] = (),
) -> list[str]:
    """A Markdown table; the first columns and text are left-aligned."""
    rule = [
        "---" if at < left or name in texts else "---:" for at, name in enumerate(head)
    ]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def ratio(dividend: float, divisor: float) -> str:
    """A factor, with two significant digits."""
    value = dividend / divisor
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def goal(text: str, measured: float, bound: float) -> list[str]:
    """A table row with a goal and whether it was met."""
    met = "yes" if measured <= bound else "no"
    return [text, f"{bound:,.2f}", f"{measured:,.2f}", met]


def goal_table(rows: list[list[str]]) -> str:
    """The goals of some traces; empty if there are none."""
    head = ["trace", "goal", "bound", "measured", "met"]
    return "\n".join(["### Goals\n", *table(head, rows, left=2), ""]) if rows else ""


def with_sections_of_others(page: str, before: str) -> str:
    r"""A page, followed by the sections of its old text that other programs wrote.

    >>> other = "## B\n\nWritten by `python benchmarks/other.py`.\n"
    >>> with_sections_of_others("# A\n", f"# A\n\n## Old\n\n{other}")
    '# A\n\n## B\n\nWritten by `python benchmarks/other.py`.\n'
    """
    own = Path(sys.argv[0]).name
    for section in _sections(before)[1:]:
        writer = _WRITER.search(section)
        if writer and writer[1] != own:
            page = replace_section(page, section)
    return page


def _sections(page: str) -> list[str]:
    """What is before the first section, and each section."""
    return re.split(r"^(?=## )", page, flags=re.MULTILINE)


def replace_section(page: str, section: str) -> str:
    r"""Put a section, which begins with its `## Title`, in the place of the old one.

    >>> replace_section("# A\n\n## B\n\nold\n\n## C\n", "## B\n\nnew\n")
    '# A\n\n## B\n\nnew\n\n## C\n'
    """
    title = section.partition("\n")[0]
    head, *sections = _sections(page or HEADING)
    titles = [old.partition("\n")[0] for old in sections]
    place = titles.index(title) if title in titles else len(sections)
    sections[place : place + 1] = [section]
    return "\n\n".join(part.strip() for part in (head, *sections)) + "\n"
