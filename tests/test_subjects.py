"""Everyday words lead to the questions that answer them."""

from __future__ import annotations

import click
import pytest

from tracedb import catalog, subjects
from tracedb.cli.main import tracedb as command
from tracedb.errors import QueryError
from tracedb.lookup import find_question

GUESSES = {
    "mfu": "efficiency_by_step",
    "pipeline_stages": "pipeline_bubble",
    "gpu_idle": "idle_cause",
    "starvation": "data_loading",
    "memory_bound": "efficiency",
    "bottleneck": "lever",
    "exposed_comm": "exposed_communication",
    "overlap": "exposed_communication",
    "python": "host_gap",
    "stack": "host_gap",
    "slow_rank": "straggler",
    "imbalance": "straggler",
    "oom": "memory_at_peak",
    "peak_memory": "memory_at_peak",
    "what_if": "tracedb whatif",
    "gemm": "top_kernel",
    "ops": "overhead_by_op",
    "gaps": "idle_cause",
    "cuda_graphs": "replayed_op",
    "graph_breaks": "compiled_region",
    "pcie": "copy",
    "launch_overhead": "launch_bound",
    "h2d": "copy",
    "who_waits": "wait",
    "layers": "module_class",
    "step_time": "period",
    "nccl": "collective",
    "hang": "stuck_collective",
    "regression": "tracedb diff",
}


@pytest.mark.parametrize("guess", GUESSES)
def test_a_guess_leads_to_the_question(guess: str) -> None:
    """What people type first names the question, or the command, in the error."""
    with pytest.raises(QueryError, match=f"did you mean.*{GUESSES[guess]}"):
        find_question(guess)


@pytest.mark.parametrize("guess", ["top_kernels", "critical_pth", "idle_caus"])
def test_a_misspelt_name_leads_to_itself(guess: str) -> None:
    """Words do not hide a name that is almost right."""
    with pytest.raises(QueryError, match=f"did you mean {guess[:6]}"):
        find_question(guess)


def test_words_lead_to_questions_and_commands_that_exist() -> None:
    """No suggestion is a dead end."""
    known = {one.name for one in catalog.relations() if one.layer == "question"}
    named = {answer for answers in subjects.ANSWERS.values() for answer in answers}
    commands = {one for one in named if one.startswith("`tracedb ")}
    assert named - commands <= known
    assert {one.strip("`").split()[1] for one in commands} <= set(
        command.list_commands(click.Context(command))
    )
