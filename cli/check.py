"""`tracedb check`: has a run become slower than a baseline? For CI."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any
from xml.etree import ElementTree as ET

import click

import tracedb
from tracedb.words import duration, share

from . import options
from . import output as out
from .terminal import printable, tell, tell_line

_SLOWER = 1
_SUITE = "tracedb check"
_BRIEF = ("measure", "a_ns", "b_ns", "change_ns", "limit_ns", "is_within")


class _Check(click.Command):
    """A command whose earlier report is gone whatever becomes of this call."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the earlier report first: a wrong option ends the command here."""
        if not {*args} & {*ctx.help_option_names}:
            for path in _reports(args):
                _remove_report(Path(path))
        return super().parse_args(ctx, args)


def _reports(args: list[str]) -> list[str]:
    """The values of --junit.

    >>> _reports(["a.duckdb", "--junit", "x.xml", "--junit=y.xml", "--junit"])
    ['x.xml', 'y.xml']
    """
    after = [path for option, path in pairwise(args) if option == "--junit"]
    within = [one.partition("=") for one in args]
    return after + [path for option, _, path in within if option == "--junit" and path]


@click.command(
    cls=_Check,
    epilog=options.examples(
        "tracedb check run.duckdb --baseline main.duckdb",
        "tracedb check run.duckdb --baseline main.duckdb --junit check.xml --github",
        "tracedb check run.duckdb --baseline main.duckdb --tolerance 0.05 --each",
    ),
)
@options.database
@click.option(
    "--baseline",
    required=True,
    metavar="DB",
    type=click.Path(),
    help="Database to compare with.",
)
@click.option("--run", type=int, metavar="N", help="The run to check.")
@click.option(
    "--baseline-run",
    type=int,
    metavar="N",
    help="The only run of the baseline to compare with; default: all of them.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    metavar="SHARE",
    help="Allow this share of the period, however low the noise of the baseline; "
    "default 0.01.",
)
@click.option("--each", is_flag=True, help="Also check each kind of time.")
@click.option("--junit", metavar="FILE", help="Also write a JUnit report to FILE.")
@click.option("--github", is_flag=True, help="Write GitHub annotations to stderr.")
@out.option
@click.pass_context
def check(  # noqa: PLR0913 (one parameter an option)
    context: click.Context,
    database: str,
    *,
    baseline: str,
    run: int | None,
    baseline_run: int | None,
    tolerance: float | None,
    each: bool,
    junit: str | None,
    github: bool,
    output: out.Output,
) -> None:
    """Check that steps are not slower than in a baseline.

    Exits with 1 if they are slower. That is the case if the median period grew by more
    than two starts of a program may differ by chance, as far as their steps show
    (question.diff_noise), and by more than the tolerance, and if the rank test of
    `tracedb diff` is below 5 %. If the baseline has several runs, the noise is how much
    these differ (question.start_noise), which is more certain; so record at least
    three, better five. The kinds of time on the critical path are
    shown as well; --each also checks them. `tracedb diff` shows what else changed.
    """
    with (
        tracedb.open(database, read_only=True) as db,
        tracedb.open(baseline, read_only=True) as before,
    ):
        rows = db.check(before, run=(baseline_run, run), tolerance=tolerance)
    output.rows(rows, _BRIEF)
    tell(_largest_passing(rows.row(0, named=True)))
    cases = [row for row in rows.rows(named=True) if each or row["measure"] == "period"]
    failed = [row for row in cases if not row["is_within"]]
    if junit is not None:
        _write_junit(Path(junit), cases)
    for row in cases:
        tell(_words(row))
    for row in failed if github else ():
        tell_line(f"::error title=tracedb check: {row['measure']}::{_words(row)}")
    if failed:
        tell(f"`tracedb diff {quote(baseline)} {quote(database)}` shows what changed")
        context.exit(_SLOWER)


def _words(row: dict[str, Any]) -> str:
    """The time before and after, and the limit, as text."""
    change = row["change_ns"]
    longer = "longer" if change > 0 else "shorter"
    by = f"{_with_share(row, abs(change))} {longer}" if change else "no change"
    return (
        f"{row['measure']}: was {duration(row['a_ns'])}, now {duration(row['b_ns'])}: "
        f"{by}, allowed {_with_share(row, row['limit_ns'])}"
    )


def _with_share(row: dict[str, Any], time_ns: int) -> str:
    """A time, and its share of the baseline's."""
    part = f" ({share(time_ns / row['a_ns'])})" if row["a_ns"] else ""
    return f"{duration(time_ns)}{part}"


def _largest_passing(row: dict[str, Any]) -> str:
    """The largest slowdown that passes, and what decides it."""
    found = f"slowdowns of the period up to {_with_share(row, row['limit_ns'])} pass: "
    if row["limit_ns"] > (row["noise_ns"] or 0):
        return f"{found}the tolerance"
    if "start_count" in row:
        return f"{found}{row['start_count']} starts of the baseline show that noise"
    return (
        f"{found}the baseline is one run, so starts of the program are taken to differ "
        "as much as its steps do; three or more runs in its database show how much"
    )


def _remove_report(path: Path) -> None:
    """Remove an earlier report: CI would take it for that of a check that cannot run.

    Raises `ReportError` for any other file.
    """
    if not path.exists():
        return
    if _SUITE.encode() not in path.read_bytes()[:200]:
        raise tracedb.ReportError(
            f"{path}: exists and is not a report of `tracedb check`; choose "
            "another name"
        )
    path.unlink()


def _write_junit(path: Path, cases: list[dict[str, Any]]) -> None:
    """Write a test case for each measure."""
    from tracedb.outputs import written

    failed = sum(not row["is_within"] for row in cases)
    suite = ET.Element(
        "testsuite", name=_SUITE, tests=str(len(cases)), failures=str(failed)
    )
    for row in cases:
        named = {"classname": "tracedb.check", "name": row["measure"]}
        case = ET.SubElement(suite, "testcase", named)
        words = printable(_words(row))
        if row["is_within"]:
            ET.SubElement(case, "system-out").text = words
        else:
            ET.SubElement(case, "failure", message=words)
    with written(path, tracedb.ReportError) as beside:
        ET.ElementTree(suite).write(beside, encoding="utf-8", xml_declaration=True)
