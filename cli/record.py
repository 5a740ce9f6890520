"""`tracedb record`: run a script and record some of its steps."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

import tracedb
from tracedb.words import counted

from . import options
from .terminal import tell

if TYPE_CHECKING:
    from tracedb.record.loop import StepAt


@click.command(
    epilog=options.examples(
        "tracedb record train.py -o run.duckdb",
        "tracedb record train.py -o run.duckdb --steps 10 --stacks -- --epochs 1",
        "tracedb record --module package.train -o run.duckdb",
        "tracedb record infer.py -o run.duckdb --step-at forward",
    )
)
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENT...]")
@click.option(
    *("-o", "--output", "database"),
    required=True,
    metavar="DB",
    help="Database file; created if missing, otherwise the run is added to it.",
)
@click.option("--module", is_flag=True, help="SCRIPT is a module name.")
@click.option(
    "--steps", default=5, show_default=True, help="Number of steps to record."
)
@click.option(
    "--warmup", default=5, show_default=True, help="Number of steps to skip first."
)
@click.option(
    "--stacks", is_flag=True, help="Also record Python functions and modules."
)
@click.option("--memory", is_flag=True, help="Also record memory allocations.")
@click.option(
    "--graph", is_flag=True, help="Also record the execution graph of the first step."
)
@click.option(
    "--step-at",
    type=click.Choice(["optimizer", "forward", "exit"]),
    default="optimizer",
    show_default=True,
    help="What ends a step: the step of the first optimizer; each call of the first "
    "module that is called, such as the model in inference; or the end of the script, "
    "which is then one step without warmup.",
)
@click.option("--run", metavar="NAME", help="Name of the run.")
@click.option(
    "--traces", metavar="FOLDER", help="Keep the profiler's trace files in FOLDER."
)
@click.pass_context
def record(  # noqa: PLR0913 (one parameter an option)
    context: click.Context,
    script: str,
    arguments: tuple[str, ...],
    database: str,
    *,
    module: bool,
    steps: int,
    warmup: int,
    stacks: bool,
    memory: bool,
    graph: bool,
    step_at: StepAt,
    run: str | None,
    traces: str | None,
) -> None:
    """Run a script and record some of its steps.

    The steps go into a database. A script that trains needs no change: a step ends when
    its first optimizer steps. Inference has none: `--step-at forward` ends a step after
    each call of the model, `--step-at exit` records the whole script as one step. To
    end steps elsewhere, use `tracedb.profile`, and call `prof.step()` there. Under
    torchrun, all ranks become one run: `torchrun --nproc-per-node 8 --module tracedb
    record train.py -o run.duckdb`. The script runs to its end. After the recorded
    steps, Ctrl-C loses nothing.
    """
    if not module and not Path(script).is_file():
        raise tracedb.RecordError(f"{script}: no such script")
    _check_counts(context, step_at)
    with tracedb.profile(
        database,
        steps=steps,
        warmup=warmup,
        stacks=stacks,
        memory=memory,
        graph=graph,
        step_at=step_at,
        run=run,
        traces=traces,
        tell=tell,
    ) as loop:
        code = _run(script, arguments, is_module=module)
        if code:
            context.exit(code)
    if loop.rank.number == 0:
        tell(f"{database}: {counted(loop.recorded_steps, 'step')}")
        tell(f"`tracedb summary {quote(database)}` shows where the time goes")


def _check_counts(context: click.Context, step_at: str) -> None:
    """Refuse numbers of steps where the whole script is one."""
    for name in ("steps", "warmup") if step_at == "exit" else ():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} does not go with --step-at exit")


def _run(script: str, arguments: tuple[str, ...], *, is_module: bool) -> int:
    """Run a script as Python does; its exit code."""
    usual = sys.argv, sys.path
    sys.argv = [script, *arguments]
    sys.path = [str(Path.cwd() if is_module else Path(script).parent), *sys.path]
    try:
        if is_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return _code(end.code)
    except Exception as error:  # noqa: BLE001 (the script's own, told as Python does)
        traceback.print_exception(_of_script(error))
        return 1
    finally:
        sys.argv, sys.path = usual
    return 0


def _of_script(error: Exception) -> Exception:
    """The error without the frames that run the script, as Python shows it."""
    outer = error.__traceback__
    while outer and outer.tb_frame.f_globals["__name__"] in {__name__, "runpy"}:
        outer = outer.tb_next
    return error.with_traceback(outer)


def _code(code: object) -> int:
    if isinstance(code, str):
        tell(code)
    return code if isinstance(code, int) else int(code is not None)
