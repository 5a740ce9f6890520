"""Run the plans of microbenchmarks one after another, a Parquet file each.

    python benchmarks/gpu/microbench.py measured/ --minutes 9

Needs PyTorch (or CuPy), NumPy and pyarrow; tracedb need not be installed. Ends after
its minutes; called again with the same folder it goes on where it ended. Cases are
visited once, a tenth of them again later, which tells the noise.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tracedb.microbench import (
    BACKENDS,
    COUNTS,
    DEVICES,
    Backend,
    MicrobenchError,
    Plan,
    measure,
    open_backend,
    plan,
    thin,
)

SMALL_CASES, SMALL_BYTES = 6, 2**20


def main(words: list[str] | None = None) -> int:
    """Run the plans; 0: complete, 3: out of time, 2: an error."""
    asked = options().parse_args(words)
    try:
        backend = open_backend(asked.backend, asked.device)
        return 0 if run(asked, backend) else 3
    except MicrobenchError as error:
        tell(f"microbench: error: {error}")
        return 2


def options() -> argparse.ArgumentParser:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plans", default=",".join(COUNTS), help="their names")
    parser.add_argument("--device", choices=DEVICES, default="cuda")
    backends = sorted({name for names in BACKENDS.values() for name in names})
    parser.add_argument("--backend", choices=["auto", *backends], default="auto")
    parser.add_argument("--minutes", type=float, default=9.0, help="for all together")
    parser.add_argument("--small", action="store_true", help="a few tiny cases of each")
    return parser


def run(asked: argparse.Namespace, backend: Backend) -> bool:
    """Run the plans; returns whether all are complete."""
    until_s = monotonic() + 60 * asked.minutes
    is_whole = True
    for name in asked.plans.split(","):
        done = measure(
            asked.folder / f"{name}.parquet",
            chosen(name, small=asked.small),
            backend,
            minutes=max(0.0, until_s - monotonic()) / 60,
            tell=tell,
        )
        is_whole &= done.is_whole
        for line in done.lines():
            tell(line)
    return is_whole


def chosen(name: str, *, small: bool) -> Plan:
    """A plan; if small, a few quick cases of each."""
    found = plan(name)
    if not small:
        return found
    tiny = [case for case in found.cases if case.memory_bytes <= SMALL_BYTES]
    return replace(found, cases=thin(tiny, SMALL_CASES), rounds=1)


def tell(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
