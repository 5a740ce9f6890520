"""The wheel has every module of the tree under one import name, and no other."""

from __future__ import annotations

import ast
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from support import ROOT

import tracedb

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETTINGS["package-dir"]


def folder(package: str) -> Path:
    """The folder that pyproject.toml gives for a package."""
    top = max((top for top in FOLDERS if f"{package}.".startswith(f"{top}.")), key=len)
    below = package.removeprefix(top).strip(".").replace(".", "/")
    return ROOT / FOLDERS[top] / below


def test_every_folder_with_code_is_a_listed_package() -> None:
    """A new subpackage is missing from the wheel until pyproject.toml names it."""
    listed = {folder(package) for package in SETTINGS["packages"]}
    found = {
        module.parent
        for top in FOLDERS.values()
        for module in ROOT.glob(f"{top}/**/*.py")
    }
    assert listed == found


def test_every_package_is_a_regular_one() -> None:
    """The editable install finds folders with an `__init__.py` only."""
    folders = [folder(package) for package in SETTINGS["packages"]]
    assert [path for path in folders if not (path / "__init__.py").is_file()] == []


def test_every_file_of_the_tree_is_installed() -> None:
    """Data files are in the wheel too, which `.ci/run` installs."""
    missing = [
        file
        for package, top in FOLDERS.items()
        for file in (ROOT / top).rglob("*")
        if file.is_file()
        and "__pycache__" not in file.parts
        and not files(package).joinpath(*file.relative_to(ROOT / top).parts).is_file()
    ]
    assert missing == []


def test_the_wheel_owns_one_import_name() -> None:
    """`cli` and `sql` are ours only inside `tracedb`."""
    assert {package.split(".")[0] for package in SETTINGS["packages"]} == {"tracedb"}


@pytest.mark.parametrize("name", tracedb.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """A listed name exists and is the stated class or function."""
    assert callable(getattr(tracedb, name))


def test_no_other_name_resolves() -> None:
    """Other names, such as private modules, are no attributes."""
    with pytest.raises(AttributeError, match="no attribute 'open_database'"):
        _ = tracedb.open_database


def test_type_checkers_and_users_see_the_same_names() -> None:
    """What `TYPE_CHECKING` imports is `__all__`."""
    tree = ast.parse((ROOT / "tracedb" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    seen = {alias.asname or alias.name for line in imports for alias in line.names}
    assert seen == set(tracedb.__all__)
