"""A trace of GPU work and calls alone: what is empty says why, and hints lead on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from test_cli import ask, run, tiny_trace

from tracedb import catalog, reasons
from tracedb import open as open_database

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Databases of the trace, without steps and as one step."""
    folder = tmp_path_factory.mktemp("without")
    kinds = ("kernel", "cuda_runtime")
    events = [e for e in tiny_trace()["traceEvents"] if e["cat"] in kinds]
    (folder / "a.json").write_text(json.dumps({"traceEvents": events}))
    for name in ("none", "one"):
        with open_database(folder / f"{name}.duckdb") as db:
            db.ingest([folder / "a.json"], one_step=name == "one")
    return folder / "none.duckdb", folder / "one.duckdb"


def test_steps_are_a_reason_only_where_they_help(recorded: tuple[Path, Path]) -> None:
    """What is empty with a step, too, has another reason for being so."""
    found: list[dict[str, str]] = []
    for path in recorded:
        with open_database(path, read_only=True) as db:
            found.append(
                {
                    question.name: reasons._reason(db, question.name)  # noqa: SLF001
                    for question in catalog.relations()
                    if question.layer == "question"
                    and not question.parameters
                    and db.ask(question.name).is_empty()
                }
            )
    without, one = found
    assert {"period", "overhead_by_op"} <= without.keys()
    # What hangs is told apart from what was not recorded; a band takes three steps.
    assert {name for name, why in one.items() if not why} == {"stuck_collective"}
    both = without.keys() & one.keys()
    of_steps = {name for name in both if not without[name]}
    assert of_steps == {"stuck_collective", "prediction_band"}


def test_what_to_type_next_has_an_answer(recorded: tuple[Path, Path]) -> None:
    """Each command that the summary names has rows."""
    for path in recorded:
        said = run("summary", path).stdout.replace("\n", " ").split("-> tracedb ")[1:]
        commands = [text.split("  ")[0].split() for text in said]
        assert ["overheads", str(path)] in commands
        assert all(ask(*command) for command in commands)


def test_unknown_work_has_no_mfu(recorded: tuple[Path, Path]) -> None:
    """Where no FLOPs are known, MFU is not zero."""
    (row,) = ask("ask", recorded[0], "efficiency_by_step")
    assert row["unknown_share"] == 1
    assert row["mfu_share"] is row["flops"] is row["flops_per_second"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ask", "top_kernels"), "no question top_kernels; did you mean top_kernel?"),
        (
            ("ask", "ancestor(5)"),
            "ancestor(5): values follow the name: `tracedb ask DB ancestor 5`",
        ),
        (
            ("ask", "ancestor("),
            "ancestor(: values follow the name: `tracedb ask DB ancestor VALUE`",
        ),
        (
            ("depends", "--node", "aten::mm"),
            "no node aten::mm; graph.node lists the nodes",
        ),
        (("depends", "--node", ""), "no node ; graph.node lists the nodes"),
        (
            ("depends", "--node", "cudaDeviceSyncronise"),
            "no node cudaDeviceSyncronise; did you mean cudaDeviceSynchronize?",
        ),
        (("depends", "--node", "GEM"), "no node GEM; did you mean gemm?"),
    ],
)
def test_suggestions_are_near(
    recorded: tuple[Path, Path], arguments: tuple[str, ...], said: str
) -> None:
    """A name that nothing resembles has none."""
    command, *rest = arguments
    done = run(command, recorded[0], *rest)
    assert done.exit_code == 2
    assert done.stderr == f"tracedb: error: {said}\n"
