"""Worked examples run and give the answers on the pages."""

from __future__ import annotations

import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click.testing
import pytest
from support import ROOT, SAMPLES, Ingested, rewrite

from tracedb.cli.main import tracedb as command

PAGES = ("questions", "tutorial")
MOST_LINES = 12
# A question, its command, and its answer, which a new question lacks at first.
EXAMPLE = re.compile(
    r"^## (?P<question>[^\n]+\?)\n(?P<words>.*?)"
    r"```(?P<kind>sql)?\n(?P<asked>.*?)\n```\n"
    r"(?:\n```text\n(?P<answer>.*?)\n```\n)?",
    re.DOTALL | re.MULTILINE,
)
Asked = tuple[str, str]
"""A page, and a question on it."""


def page(name: str) -> Path:
    """The file of a page."""
    return ROOT / "docs" / f"{name}.md"


EXAMPLES = [
    (name, match["question"])
    for name in PAGES
    for match in EXAMPLE.finditer(page(name).read_text())
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """A folder with the databases used by the page."""
    made = tmp_path_factory.mktemp("questions")
    shutil.copy(ingested(SAMPLES / "generated_gpu"), made / "run.duckdb")
    shutil.copy(ingested(SAMPLES / "loop_cpu"), made / "loop.duckdb")
    shutil.copy(ingested(SAMPLES / "stuck_gloo"), made / "hang.duckdb")
    shutil.copy(ingested(SAMPLES / "dlrm_cpu"), made / "dlrm.duckdb")
    shutil.copy(ingested(ROOT / "docs" / "pipeline.csv"), made / "pipeline.duckdb")
    shutil.copy(ROOT / "docs" / "tables.csv", made)
    return made


def answer(example: re.Match[str]) -> str:
    """The first lines of a command's output, as in a terminal."""
    words = ["sql", "run.duckdb", example["asked"]]
    if not example["kind"]:
        words = shlex.split(example["asked"])[1:]
    done = click.testing.CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    more = ["..."] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *more])


def find(asked: Asked) -> re.Match[str]:
    """The example of a question, from the page's current text."""
    name, question = asked
    return next(
        match
        for match in EXAMPLE.finditer(page(name).read_text())
        if match["question"] == question
    )


@pytest.mark.parametrize("asked", EXAMPLES, ids=": ".join)
def test_example(
    asked: Asked,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """An example gives the answer below it."""
    monkeypatch.chdir(folder)
    found = answer(find(asked))
    if request.config.getoption("--update-answers"):
        example = find(asked)[0]
        block = example.partition("\n```text\n")[0].rstrip("\n")
        written = f"{block}\n\n```text\n{found}\n```\n"
        rewrite(page(asked[0]), lambda text: text.replace(example, written))
    assert find(asked)["answer"] == found, "review with --update-answers"


def test_every_question_is_an_example() -> None:
    """Each heading of a page has a command that is run."""
    headings = [
        (name, heading)
        for name in PAGES
        for heading in re.findall(r"^## (.*\?)$", page(name).read_text(), re.MULTILINE)
    ]
    assert headings == EXAMPLES
    assert len(headings) >= 20


def test_answers_may_be_rewritten_at_once(tmp_path: Path) -> None:
    """No worker undoes what another one has written."""
    page = tmp_path / "page.md"
    page.write_text("".join(f"<{number}>" for number in range(40)))

    def change(number: int) -> None:
        rewrite(page, lambda text: text.replace(f"<{number}>", f"[{number}]"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(40)))
    assert page.read_text() == "".join(f"[{number}]" for number in range(40))
