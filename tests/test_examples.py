"""Examples in docstrings and on pages for Python give what they show."""

from __future__ import annotations

import doctest
from importlib import import_module, util
from pathlib import Path

import pytest

import tracedb
import tracedb.cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in sorted(ROOT.glob("docs/*.md")) if ">>>" in page.read_text()]


def modules() -> list[str]:
    """Names of all modules whose docstrings have examples."""
    folders = {"tracedb": tracedb.__file__, "tracedb.cli": tracedb.cli.__file__}
    found = []
    for package, init in folders.items():
        folder = Path(init or "").parent
        for file in folder.rglob("*.py"):
            if ">>>" in file.read_text():
                parts = file.relative_to(folder).with_suffix("").parts
                found.append(".".join([package, *parts]).removesuffix(".__init__"))
    benchmarks = (ROOT / "benchmarks").rglob("*.py")
    found += [file.stem for file in benchmarks if ">>>" in file.read_text()]
    return sorted(found)


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str) -> None:
    """Each docstring example gives the output shown."""
    if "torch" in name and not util.find_spec("torch"):
        pytest.skip("PyTorch is absent")
    failed, tried = doctest.testmod(import_module(name))
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    """Each page example gives the output shown."""
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 0) == (0, True)
