"""`tracedb diff`: what is different in another run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

import tracedb
from tracedb.words import counted, duration, share

from . import options
from . import output as out
from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from tracedb.diff import Difference

_PARTS = {
    "period": (),
    "kind": ("kind", "a_ns", "b_ns", "change_ns", "is_significant"),
    "path": ("change_ns", "a_ns", "b_ns", "kind", "place", "module"),
    "work": ("outcome", "change_ns", "a_ns", "b_ns", "op", "work", "shape"),
}
"""The parts of a difference, with the columns of each table."""
_HEADINGS = {
    "kind": "Critical path by kind, mean per {one}",
    "path": "Places on the critical path",
    "work": "Ops (without nested ops) and GPU work, on the path or not",
}


@click.command(
    epilog=options.examples(
        "tracedb diff before.duckdb after.duckdb",
        "tracedb diff run.duckdb --rank 0 1",
        "tracedb diff run.duckdb --step 3 7 --top 20",
        "tracedb diff before.duckdb after.duckdb --rows work --format csv",
    )
)
@click.argument("one", metavar="A", type=click.Path())
@click.argument("other", metavar="[B]", type=click.Path(), required=False)
@click.option("--run", nargs=2, type=int, metavar="A B", help="Run of each side.")
@click.option(
    "--step", nargs=2, type=int, metavar="A B", help="Compare only these steps."
)
@click.option(
    "--rank", nargs=2, type=int, metavar="A B", help="Compare only these ranks."
)
@click.option(
    "--rows",
    type=click.Choice(list(_PARTS)),
    help="Print one part: the rows of question.diff_period, _kind, _path or _work.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="N",
    help="Maximum rows per table; the largest change comes first.",
)
@out.option
def diff(  # noqa: PLR0913 (one parameter an option)
    one: str,
    other: str | None,
    *,
    run: tuple[int, int] | None,
    step: tuple[int, int] | None,
    rank: tuple[int, int] | None,
    rows: str | None,
    top: int,
    output: out.Output,
) -> None:
    """Show what changed between two runs.

    The runs are in one database or in two. The output shows how much longer steps take
    (their period), which kinds of time on the critical path changed and where, and
    which ops and kernels are slower, faster, added or removed. Ops are matched by
    module, pass, op, shape and order. GPU work is matched by its op and its order
    within that op, whatever its name is. A change is significant if a Mann-Whitney rank
    test over steps says so, which needs four steps on each side, or three and five, and
    if the medians differ by more than those of two starts of one program may. Ranks
    wait for each other, so a step of several ranks is one, by their mean.
    """
    if rows is None and output.format != "table":
        raise click.UsageError(
            f"--format {output.format} needs --rows: it prints one part"
        )
    unset = (None, None)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(tracedb.open(path, read_only=True))
            for path in (one, other)
            if path is not None
        ]
        found = opened[0].diff(
            *opened[1:], run=run or unset, step=step or unset, rank=rank or unset
        )
    for line in () if rows else _head(found):
        output.text(line)
    for line in () if rows else found.caveats:
        tell(line)
    for part in [rows] if rows else list(_HEADINGS):
        if not rows:
            output.text(f"\n{_HEADINGS[part].format(one=_one(found))}")
        _write(found, part, top, output)


def _write(found: Difference, part: str, top: int, output: out.Output) -> None:
    frame = found[part]
    if output.format == "table" and part != "period":
        frame = _shown(frame.filter(frame["change_ns"] != 0)).head(top)
    if frame.is_empty():
        output.text("no difference")
    else:
        output.rows(frame, _PARTS[part])


def _shown(frame: pl.DataFrame) -> pl.DataFrame:
    """Show GPU work by its names on both sides, host work by its op."""
    import polars as pl

    if "a_name" not in frame.columns:
        return frame
    before, after = pl.col("a_name"), pl.col("b_name")
    replaced = pl.concat_str([before, pl.lit(" -> "), after])
    name = pl.when(before != after).then(replaced).otherwise(before.fill_null(after))
    return frame.with_columns(
        pl.when(pl.col("device") == "gpu").then(name).alias("work")
    )


def _one(found: Difference) -> str:
    """What is compared: steps, or traces without steps."""
    return "step" if found.sides[0].has_steps else "trace"


def _head(found: Difference) -> Iterator[str]:
    """The periods of both sides, and whether the change is significant."""
    (period,) = found["period"].iter_rows(named=True)
    for letter, side in zip("ab", found.sides, strict=True):
        count = period[f"{letter}_step_count"]
        steps = counted(count, "step" if side.has_steps else "whole trace")
        ranks = period[f"{letter}_rank_count"]
        steps = f"{steps} of {ranks} ranks" if ranks > 1 else steps
        median = duration(period[f"{letter}_median_ns"])
        yield f"{letter.upper()}  {side}"
        mean = duration(period[f"{letter}_mean_ns"])
        yield f"   {steps}: mean {mean}, median {median}"
    change = period["change_ns"]
    longer = "longer" if change > 0 else "shorter"
    by = f"{duration(abs(change))} ({share(abs(period['change_share'] or 0))}) {longer}"
    than = by if change else "as long"
    yield f"{_one(found).capitalize()}s of B are {than} on average:"
    yield _verdict(period)


def _verdict(period: dict[str, Any]) -> str:
    if period["p_value"] is None:
        return "too few steps for a significance test"
    word = "significant" if period["is_significant"] else "not significant"
    tested = f"p = {period['p_value']:.2g}, rank test over steps"
    return f"{word} ({tested}; starts may differ by {duration(period['chance_ns'])})"
