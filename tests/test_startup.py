"""Help comes at once: nothing heavy is imported before there is something to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"duckdb", "msgspec", "numpy", "polars", "pyarrow", "rich", "sklearn", "torch"}
PROGRAM = """
import sys
from tracedb.cli.main import tracedb

try:
    tracedb({arguments!r})
except SystemExit as stop:
    assert stop.code == 0, stop.code
print(*sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["predict", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Help needs click and the standard library alone."""
    program = PROGRAM.format(arguments=arguments)
    command = [sys.executable, "-Ic", program]
    done = subprocess.run(  # noqa: S603 (our own program)
        command, capture_output=True, text=True, check=True
    )
    imported = set(done.stderr.split())
    assert "click" in imported
    assert not imported & HEAVY
