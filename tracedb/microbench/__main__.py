"""`python -m microbench`: measure where tracedb is not installed."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from . import COUNTS, DEVICES, MicrobenchError, measure, of_families, plan
from .backend import BACKENDS, open_backend


def main(words: Sequence[str] | None = None) -> int:
    """Measure a plan; for user errors, exit with 2 and one line on stderr."""
    asked = _options().parse_args(words)
    try:
        _measure(asked)
    except MicrobenchError as error:
        _tell(f"microbench: error: {error}")
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser that reports usage errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Write the message, and exit with 2."""
        self.exit(2, f"microbench: error: {message}; see --help\n")


def _options() -> argparse.ArgumentParser:
    parser = _Parser(prog="microbench", description=__doc__)
    parser.add_argument("-o", dest="output", required=True, metavar="FILE.parquet")
    parser.add_argument("--plan", required=True, help=", ".join(COUNTS))
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    backends = sorted({name for names in BACKENDS.values() for name in names})
    parser.add_argument("--backend", choices=["auto", *backends], default="auto")
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--threads", type=int, help="of a CPU")
    parser.add_argument(
        "--minutes", type=float, help="stop after this time; resume later"
    )
    return parser


def _measure(asked: argparse.Namespace) -> None:
    whole = plan(asked.plan)
    wanted = replace(whole, cases=of_families(whole.cases, asked.family))
    backend = open_backend(asked.backend, asked.device, asked.threads)
    done = measure(asked.output, wanted, backend, minutes=asked.minutes, tell=_tell)
    for line in done.lines():
        _tell(line)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
