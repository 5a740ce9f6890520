"""Coding assistants read a database over the Model Context Protocol, read only.

One session of the official SDK's client, over the pipes of the real command.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, Ingested

import tracedb
from tracedb import live
from tracedb.tools import TOOLS

GPU = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"
SLOW = (
    """
    SELECT count(*) FROM range(1000000) a, range(1000000) b
    WHERE a.range % 7 = b.range % 5
    """,
    # A single value, during which DuckDB heeds no interrupt.
    "SELECT list_sum(range(200000000))",
)
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "summary": ("summary", {}),
    "summary of a step": ("summary", {"rank": 0, "step": 2}),
    "questions": ("questions", {}),
    "top": ("ask", {"question": "top_kernel", "limit": 2}),
    "step": ("ask", {"question": "overhead", "step": 2}),
    "part": ("ask", {"question": "copy", "run": 1, "device": 0, "step": 1}),
    "no step": ("ask", {"question": "overhead", "step": 99}),
    "no rows": ("ask", {"question": "straggler"}),
    "no question": ("ask", {"question": "top_kernels"}),
    "nothing like it": ("ask", {"question": "zzzz"}),
    "value": ("ask", {"question": "ancestor(5)"}),
    "no step marks": ("ask", {"question": "step_mark"}),
    "no ranking": ("ask", {"question": "ranking"}),
    "relations": ("relations", {}),
    "relation": ("relations", {"name": "question.lever"}),
    "rows": ("sql", {"query": "FROM staging.op ORDER BY start_ns", "limit": 3}),
    "count": ("sql", {"query": "SELECT count(*) AS n FROM staging.op"}),
    "names": ("sql", {"query": "SELECT repeat('x', 9000) AS a, chr(27) || '[2J' AS b"}),
    "numbers": (
        "sql",
        {"query": "SELECT 'inf'::DOUBLE AS a, 2::HUGEINT AS b, [1, 2] AS c"},
    ),
    "file": ("sql", {"query": "FROM read_text('/etc/hostname')"}),
    "write": ("sql", {"query": "DELETE FROM raw.trace"}),
    "limit": ("sql", {"query": "SELECT 1", "limit": 100_000}),
    "beyond": ("sql", {"query": "SELECT timestamp 'infinity' AS at"}),
    "large": ("sql", {"query": "SELECT repeat('x', 40 << 20)"}),
    "kinds": ("sql", {"query": 5, "limit": "many"}),
    "argument": ("ask", {"question": "lever", "column": 1}),
    "ranking": ("whatif", {}),
    "edit": ("whatif", {"edits": ["gpu:* x0.5", "host:T2 x0.5"]}),
    "edit of a step": ("whatif", {"edits": ["gpu:* x0.5"], "rank": 0, "step": 2}),
    "wrong edit": ("whatif", {"edits": ["gpu"]}),
    "after": ("sql", {"query": "SELECT 2 AS n"}),
}


def digest(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def path(ingested: Ingested) -> Path:
    """A database of one rank with a GPU."""
    return ingested(GPU)


@pytest.fixture(scope="module")
def answers(path: Path) -> dict[str, Any]:
    """Answers to all calls of one session, and the offered tools."""
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    before = digest(path)
    found = asyncio.run(_session(path))
    assert digest(path) == before
    return found


async def _session(path: Path) -> dict[str, Any]:
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(
        command=sys.executable, args=["-Im", "tracedb", "mcp", str(path)]
    )
    async with Client(command) as client:
        found: dict[str, Any] = {"tools": (await client.list_tools()).tools}
        for name, (tool, values) in CALLS.items():
            found[name] = await client.call_tool(tool, values)
    return found


def said(answer: Any) -> str:  # noqa: ANN401 (of the SDK)
    """The text of an answer, as a model reads it."""
    return str(answer.content[0].text)


def value(answer: Any) -> dict[str, Any]:  # noqa: ANN401 (of the SDK)
    """The value of an answer that is no error."""
    assert not answer.is_error, said(answer)
    return dict(json.loads(said(answer)))


def test_tools_are_described_and_read_only(answers: dict[str, Any]) -> None:
    """Each tool has a description, and the read-only hint."""
    tools = answers["tools"]
    assert {tool.name for tool in tools} == set(TOOLS)
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert all(len(tool.description) > 40 for tool in tools)


def test_the_summary_equals_the_command(answers: dict[str, Any], path: Path) -> None:
    """The assistant gets the text that the command prints, with calls of tools."""
    shown = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-Im", "tracedb", "summary", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    text = shown.stdout.rstrip("\n")
    for question in re.findall(r"-> tracedb ask \S+ (\w+)$", text, re.MULTILINE):
        words = f"tracedb ask {path} {question}"
        text = text.replace(words, f'ask(question="{question}")')
    assert 'ask(question="' in text
    assert f"-> tracedb whatif {path}\n" in text
    text = text.replace(f"tracedb whatif {path}", "whatif()")
    assert said(answers["summary"]) == text
    assert "only rank 0, step 2" in said(answers["summary of a step"])


def test_questions_are_listed_and_answered(answers: dict[str, Any], path: Path) -> None:
    """An answer has the first rows, in order, and their total number."""
    questions = value(answers["questions"])
    name = questions["columns"].index("question")
    assert "top_kernel" in {row[name] for row in questions["rows"]}
    with tracedb.open(path, read_only=True) as database:
        whole = database.ask("top_kernel")
        of_step = database.relation("question.overhead", 2)
        of_part = database.ask("copy", run=1, device=0, step=1)
    top = value(answers["top"])
    assert top["columns"] == whole.columns
    assert [row[0] for row in top["rows"]] == whole.to_series(0).to_list()[:2]
    assert top["note"] == f"first 2 rows of {whole.height}"
    assert len(value(answers["step"])["rows"]) == of_step.height
    assert len(value(answers["part"])["rows"]) == of_part.height
    assert "\n" not in said(answers["top"])
    none = value(answers["no rows"])
    assert none["rows"] == []
    assert none["note"] == (
        "no rows; the run has only one rank, so there is nothing to compare"
    )


def test_relations_are_listed_and_described(answers: dict[str, Any]) -> None:
    """A relation is described by its columns, their meaning, and its SQL."""
    listed = {row[1] for row in value(answers["relations"])["rows"]}
    assert {"question.lever", "staging.gpu_op"} <= listed
    told = value(answers["relation"])
    assert "time_share" in {row[0] for row in told["rows"]}
    assert "SELECT" in told["sql"]


def test_sql_answers_are_limited(answers: dict[str, Any]) -> None:
    """Rows beyond the limit are left out, and that is said."""
    assert len(value(answers["rows"])["rows"]) == 3
    assert value(answers["rows"])["note"] == "first 3 rows; there are more"
    assert "note" not in value(answers["count"])


def test_values_as_json(answers: dict[str, Any]) -> None:
    """Long texts are cut, control characters escaped, large sums are numbers."""
    long, control = value(answers["names"])["rows"][0]
    assert len(long) == 500
    assert "\x1b" not in said(answers["names"])
    assert control == "\x1b[2J"
    assert value(answers["numbers"])["rows"] == [[None, 2, [1, 2]]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no step", "no step 99; available:"),
        ("no question", "did you mean top_kernel"),
        ("nothing like it", "`questions()` lists the questions"),
        ("value", 'the name: `ask(question="ancestor", values=[5])`'),
        ("file", "here, queries read relations only, and no files"),
        ("write", "DELETE is not allowed"),
        ("limit", "choose 1 to 1,000"),
        ("beyond", "column at: a data frame cannot hold a time beyond"),
        ("large", "the answer has 40 MiB, more than 32"),
        ("kinds", "query: Input should be a valid string; limit: Input should be"),
        (
            "argument",
            "no argument column; available: question, values, step, rank, run",
        ),
        ("wrong edit", "the edit changes nothing"),
    ],
)
def test_misuse_is_one_line(answers: dict[str, Any], name: str, words: str) -> None:
    """The assistant gets the error, and the session continues."""
    assert answers[name].is_error
    assert words in said(answers[name])
    assert "\n" not in said(answers[name])
    assert value(answers["after"])["rows"] == [[2]]


def test_notes_speak_of_tools(answers: dict[str, Any]) -> None:
    """Not of commands, which an assistant cannot run."""
    notes = {
        "no step marks": 'the traces have steps: `ask(question="period")`',
        "no ranking": "`whatif()` ranks the candidates",
    }
    for name, words in notes.items():
        assert words in value(answers[name])["note"]
    assert "tracedb" not in said(answers["summary"])


def test_whatif_answers_for_a_step(answers: dict[str, Any], path: Path) -> None:
    """Its period, and what bounds it."""
    with tracedb.open(path, read_only=True) as database:
        (time,) = database.predict("replay", step=2)["predicted_ns"]
    told = value(answers["edit of a step"])["summary"]
    summary = dict(zip(told["columns"], told["rows"][0], strict=True))
    assert (summary["step_count"], summary["baseline_ns"]) == (1, time)


def test_whatif_predicts_and_ranks(answers: dict[str, Any]) -> None:
    """Edits change step times; without edits, candidates are ranked."""
    assert value(answers["ranking"])["ranking"]["rows"]
    told = value(answers["edit"])
    summary = dict(
        zip(told["summary"]["columns"], told["summary"]["rows"][0], strict=True)
    )
    assert summary["predicted_ns"] < summary["baseline_ns"]
    assert len(told["hit"]["rows"]) == 2


@pytest.mark.parametrize("query", SLOW)
def test_a_call_that_takes_too_long_is_stopped(path: Path, query: str) -> None:
    """The time limit is kept within seconds, and later calls work."""
    worker = live.Worker()
    worker.call(path, 60, live.query, "SELECT 1 AS n", 1)
    begun = time.monotonic()
    with pytest.raises(tracedb.QueryError, match=r"stopped after 0\.3 seconds"):
        worker.call(path, 0.3, live.query, query, 1)
    assert time.monotonic() - begun < 5
    found = worker.call(path, 60, live.query, "SELECT 1 AS n", 1)
    assert found["rows"] == [[1]]


@pytest.mark.parametrize(
    "query",
    [
        # A single value, which DuckDB's own limit does not count.
        "SELECT length(repeat('x', 3000000000))",
        # What DuckDB itself refuses.
        "SELECT list(hash(range)) FROM range(100000000)",
    ],
)
def test_a_call_that_takes_too_much_memory_is_stopped(path: Path, query: str) -> None:
    """Whoever notices it first; later calls work."""
    worker = live.Worker(600_000_000)
    with pytest.raises(tracedb.QueryError, match="600 MB of memory is not enough"):
        worker.call(path, 60, live.query, query, 1)
    found = worker.call(path, 60, live.query, "SELECT 1 AS n", 1)
    assert found["rows"] == [[1]]


def test_a_call_that_ends_its_process_is_one_line(path: Path) -> None:
    """As when the system runs out of memory; the next call gets a new process."""
    worker = live.Worker()
    with pytest.raises(tracedb.QueryError, match=r"ended \(exit code 1\); there may"):
        worker.call(path, 60, sys.exit)  # type: ignore[arg-type]  # it never returns
    found = worker.call(path, 60, live.query, "SELECT 1 AS n", 1)
    assert found["rows"] == [[1]]


def test_without_the_package_one_line_says_how_to_install_it(path: Path) -> None:
    """The error names the extra that the command needs."""
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from tracedb.cli.main import tracedb; tracedb(sys.argv[1:])"
    )
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-Ic", program, "mcp", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install 'tracedb[mcp]'" in done.stderr


@pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed")
def test_a_missing_database_is_reported_at_once(tmp_path: Path) -> None:
    """The error comes before the session begins."""
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-Im", "tracedb", "mcp", str(tmp_path / "none.duckdb")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no such database" in done.stderr
