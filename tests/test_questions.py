"""The worked examples of `docs/questions.md` run, and their answers are as they say."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click.testing
import pytest
from support import ROOT, SAMPLES, Ingested

from tracedb.cli.main import tracedb as command

PAGE = ROOT / "docs" / "questions.md"
MOST_LINES = 12
# A question, its block, and its answer, which a new question does not have yet.
EXAMPLE = re.compile(
    r"^## (?P<question>[^\n]+\?)\n(?P<words>.*?)"
    r"```(?P<kind>sql)?\n(?P<asked>.*?)\n```\n"
    r"(?:\n```text\n(?P<answer>.*?)\n```\n)?",
    re.DOTALL | re.MULTILINE,
)
EXAMPLES = [match["question"] for match in EXAMPLE.finditer(PAGE.read_text())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """A folder with the databases that the page asks."""
    made = tmp_path_factory.mktemp("questions")
    shutil.copy(ingested(SAMPLES / "generated_gpu"), made / "run.duckdb")
    shutil.copy(ingested(SAMPLES / "loop_cpu"), made / "loop.duckdb")
    shutil.copy(ingested(SAMPLES / "stuck_gloo"), made / "hang.duckdb")
    return made


def answer(example: re.Match[str]) -> str:
    """The first lines of what a block gives, as a person sees it."""
    words = ["sql", "run.duckdb", example["asked"]]
    if not example["kind"]:
        words = shlex.split(example["asked"])[1:]
    done = click.testing.CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    more = ["..."] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *more])


def find(question: str) -> re.Match[str]:
    """The example of a question, as the page has it now."""
    return next(
        match
        for match in EXAMPLE.finditer(PAGE.read_text())
        if match["question"] == question
    )


@pytest.mark.parametrize("question", EXAMPLES)
def test_example(
    question: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """An example gives the answer that stands below it."""
    monkeypatch.chdir(folder)
    found = answer(find(question))
    if request.config.getoption("--update-answers"):
        example, text = find(question), PAGE.read_text()
        block = example[0].partition("\n```text\n")[0].rstrip("\n")
        written = f"{block}\n\n```text\n{found}\n```\n"
        PAGE.write_text(text.replace(example[0], written))
    assert find(question)["answer"] == found, "review with --update-answers"


def test_every_question_is_an_example() -> None:
    """No heading of the page is without a block that is run."""
    headings = re.findall(r"^## (.*\?)$", PAGE.read_text(), re.MULTILINE)
    assert headings == EXAMPLES
    assert len(headings) >= 10
