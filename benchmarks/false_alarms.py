"""Measure how often `check` and `diff` call equal programs different, and find changes.

    python benchmarks/false_alarms.py --starts 10

Records starts of a small training program on this machine's CPU, each in a process of
its own, and as many of the program with more layers, in turn, so that other work on the
machine meets both. Then compares each start with each other one. Prints, for pairs of
equal programs, how many are called slower (false alarms), and for pairs with the change
before and after, how many are found (power). A baseline of several starts is compared
with those that are not in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from itertools import permutations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from measure import tell

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterable

LAYERS, WIDTH, ROWS = 20, 256, 64
WARMUP = 5
BASELINE_STARTS = 5


def main() -> None:
    """Record and compare; or record one start, as asked by the parent process."""
    given = _arguments()
    if given.record:
        _record(given.record, given.layers, given.steps)
        return
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        equal, changed = _starts(folder, given)
        _compare(equal, changed)
        _compare_baseline(folder, equal, changed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--steps", type=int, default=8, help="recorded, per start")
    parser.add_argument("--change", type=float, default=0.1, help="share of the layers")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, default=LAYERS, help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- Recording


def _record(database: Path, layers: int, steps: int) -> None:
    """Record one start of the program: a chain of equal linear layers."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(ROWS, WIDTH)
    kept = database.with_suffix("")
    with tracedb.profile(
        database, steps=steps, warmup=WARMUP, traces=kept, tell=tell
    ) as profiler:
        for _ in range(WARMUP + steps + 1):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            profiler.step()


def _starts(folder: Path, given: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Databases of the starts of the program, and of the changed one, in turn."""
    more = round(LAYERS * (1 + given.change))
    equal: list[Path] = []
    changed: list[Path] = []
    for number in range(given.starts):
        for kept, layers in ((equal, LAYERS), (changed, more)):
            database = folder / f"{layers}-{number}.duckdb"
            own = [sys.executable, __file__, "--record", str(database)]
            options = ["--layers", str(layers), "--steps", str(given.steps)]
            subprocess.run([*own, *options], check=True)  # noqa: S603 (itself)
            kept.append(database)
        tell(f"{number + 1} of {given.starts} starts, load {os.getloadavg()[0]:.1f}")
    return equal, changed


# ---- Comparing


def _compare(equal: list[Path], changed: list[Path]) -> None:
    """Compare each start with each other one."""
    for name, judge in (("check", _fails), ("diff", _differs)):
        same = [judge(a, b) for a, b in permutations(equal, 2)]
        other = [judge(a, b) for a, b in product(equal, changed)]
        _print(f"{name}, one start", same, other)


def _compare_baseline(folder: Path, equal: list[Path], changed: list[Path]) -> None:
    """Compare the first starts, in one database, with each that is not among them."""
    if len(equal) <= BASELINE_STARTS:
        return
    baseline = folder / "baseline.duckdb"
    with tracedb.open(baseline) as database:
        for one in equal[:BASELINE_STARTS]:
            database.ingest([one.with_suffix("")])
    rest = equal[BASELINE_STARTS:]
    same = [_fails(baseline, one) for one in rest]
    other = [_fails(baseline, one) for one in changed]
    _print(f"check, {BASELINE_STARTS} starts", same, other)


def _fails(before: Path, after: Path) -> bool:
    """Whether `tracedb check` exits with 1."""
    with tracedb.open(before) as one, tracedb.open(after) as other:
        return not other.check(one)["is_within"][0]


def _differs(before: Path, after: Path) -> bool:
    """Whether `tracedb diff` calls the periods significantly different."""
    with tracedb.open(before) as one, tracedb.open(after) as other:
        return bool(one.diff(other)["period"]["is_significant"][0])


def _print(name: str, same: Iterable[bool], other: Iterable[bool]) -> None:
    for what, found in (("false alarms", list(same)), ("found", list(other))):
        part = f"{sum(found)} of {len(found)}"
        share = f"{sum(found) / len(found):.0%}" if found else "no pairs"
        sys.stdout.write(f"{name:16} {what:13} {part:>12} {share:>9}\n")


if __name__ == "__main__":
    main()
