"""Statements of the documents hold: files exist, command lines parse."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from support import ROOT

from tracedb import METHODS
from tracedb.cli.main import COMMANDS, tracedb
from tracedb.summary.words import KINDS, LEVERS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# A folder with a slash, a file with folder and suffix, or a page by its name; not paths
# outside the repository.
PATH = re.compile(
    r"`(?!\.\./|\.venv/)((?:[\w.-]+/)+(?:[\w-]+\.\w[\w.]*)?|[\w-]+\.(?:md|toml))`"
)
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def named_paths() -> Iterator[tuple[str, str]]:
    """Yield page and path for every path in backquotes."""
    for page in [*PAGES, *ROOT.glob("sample_traces/*.md")]:
        for path in PATH.findall(page.read_text()):
            yield str(page.relative_to(ROOT)), path


def documented_lines(program: str) -> Iterator[tuple[str, str]]:
    """Yield page and line for every command line in a fenced block."""
    call = re.compile(rf"(?:\$ )?(?:\S+/)?({program} .*)")
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            lines = map(call.fullmatch, block.replace("\\\n", " ").splitlines())
            yield from ((page.name, line[1]) for line in lines if line)


def helped_lines() -> Iterator[tuple[str, str]]:
    """Yield command and line for every example in a help text."""
    context = click.Context(tracedb)
    commands = [tracedb, *(tracedb.get_command(context, name) for name in COMMANDS)]
    for command in commands:
        for line in command.epilog.splitlines()[2:]:
            yield f"tracedb {command.name} --help", line.strip()


def parse(line: str) -> None:
    """Let click parse a command line without running it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    words: list[Any] = []
    for word in lexer:
        if set(word) <= set("|;&<>"):
            break
        words.append(word)
    with tracedb.make_context("tracedb", words[1:]) as context:
        name, command, rest = tracedb.resolve_command(context, words[1:])
        command.make_context(name, rest, parent=context)


@pytest.mark.parametrize(("page", "path"), sorted(set(named_paths())))
def test_named_path_exists(page: str, path: str) -> None:
    """A path in backquotes exists in the repository, or beside the page."""
    beside = (ROOT / page).parent / path
    assert (ROOT / path).exists() or beside.exists(), f"{page} names {path}"


@pytest.mark.parametrize(
    ("page", "line"), [*documented_lines("tracedb"), *helped_lines()]
)
def test_command_line_parses(page: str, line: str) -> None:
    """Command and options of every documented line exist."""
    try:
        parse(line)
    except click.exceptions.Exit:
        pass  # --help and --version end here
    except click.UsageError as error:
        pytest.fail(f"{page}: {line}: {error.format_message()}")


@pytest.mark.parametrize(
    "line", ["tracedb predcit run.duckdb", "tracedb info run.duckdb --colour"]
)
def test_false_command_lines_are_found(line: str) -> None:
    """The test above fails for unknown commands and options."""
    with pytest.raises(click.UsageError):
        parse(line)


@pytest.mark.parametrize(("page", "line"), [*documented_lines("make")])
def test_make_target_exists(page: str, line: str) -> None:
    """Targets that pages name are in the Makefile."""
    known = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = line.partition("#")[0].split()[1:]
    assert set(targets) <= set(known), f"{page}: {line}"


def test_schema_page_is_current() -> None:
    """docs/schema.md is what `make docs` writes."""
    page = CliRunner().invoke(tracedb, ["schema", "--markdown"]).stdout
    assert (ROOT / "docs" / "schema.md").read_text() == page, "run `make docs`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    """Help ends with examples of that command."""
    lines = [line for page, line in helped_lines() if page == f"tracedb {name} --help"]
    assert name in {line.split()[1] for line in lines}


def explained() -> Iterator[str]:
    """Yield every kind of time and method that answers contain."""
    yield from (*METHODS, "measured", *LEVERS, *KINDS)
    yield from ("kernel", "memcpy", "memset")


@pytest.mark.parametrize("word", sorted(set(explained())))
def test_the_glossary_has_the_words_of_answers(word: str) -> None:
    """Each kind of time, lever and method has a row in docs/glossary.md."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE)
    assert word in {name for name, _ in rows}
