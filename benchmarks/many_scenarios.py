"""Measure how long many scenarios of one trace take, all asked at once.

    python benchmarks/many_scenarios.py TRACE --write docs/benchmarks.md

Scenarios scale kernels, T2, T4 or all host time, each by another factor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from measure import (
    GB,
    Bounds,
    Clock,
    Outcome,
    machine,
    measure,
    medians,
    report,
    table,
    tell,
    words,
    write_section,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = (1, 100, 1_000)
CHOSEN: tuple[tuple[Literal["gpu", "host"], str | None], ...] = (
    ("gpu", "kernel"),
    ("host", "T2"),
    ("host", "T4"),
    ("host", None),
)
PAGE = """\
## Many scenarios

What `Database.scenarios` takes, all scenarios at once. Written by

```
python benchmarks/many_scenarios.py {words}
```

{about}

"""
ABOUT = (
    "The machine has {machine}. Each figure is the median of {runs} run(s), each in a "
    "process of its own, from the open database to the times of all steps; the machine "
    "was shared. Scenarios scale kernels, T2, T4 or all host time."
)


def evaluate(database: Path, count: int) -> Iterator[Outcome]:
    """Ask so many scenarios of a database."""
    import tracedb

    edits = [
        tracedb.Edit(
            scenario=f"{number}",
            target=CHOSEN[number % 4][0],
            type=CHOSEN[number % 4][1],
            factor=1 - number / (2 * count),
        )
        for number in range(count)
    ]
    with tracedb.open(database, read_only=True) as opened:
        clock = Clock()
        with clock:
            found = opened.scenarios(edits)
    yield Outcome.of(clock, found.height)


def section(given: argparse.Namespace) -> str:
    """Measure all counts, and put them into a table."""
    import tracedb

    bounds = Bounds(int(8 * GB), 900)
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "run.duckdb"
        with tracedb.open(database) as opened:
            opened.ingest([given.trace])
        for count in COUNTS:
            runs = []
            for _ in range(given.runs):
                task = ("--work", str(database), str(count))
                runs += measure(Path(sys.executable), __file__, task, bounds)
            found = medians(runs)
            tell(f"{count} scenarios: {found.cpu_s:.2f} s of CPU")
            cells.append([f"{count:,}", f"{found.cpu_s:.2f}", f"{found.wall_s:.2f}"])
    about = ABOUT.format(machine=machine(None), runs=given.runs)
    page = PAGE.format(words=words(), about=textwrap.fill(about, 88))
    rows = table(["scenarios", "CPU s", "wall s"], cells, left=0)
    return "\n".join([page.rstrip(), "", *rows, ""])


def main() -> None:
    """Measure, and print the section; or be a process that works."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    say = parser.add_argument
    say("trace", type=Path, nargs="?", help="the trace that is asked")
    say("--write", type=Path, help="write the section into this page too")
    say("--runs", type=int, default=3, help="how often each count is asked")
    say("--work", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        database, count = given.work
        report(lambda: evaluate(Path(database), int(count)), 8 * GB)
        return
    text = section(given)
    if given.write:
        write_section(given.write, text)
    print(text)


if __name__ == "__main__":
    main()
