"""`int(x)` and `float(x)` of unknown numbers in the user's own code.

Python makes plain numbers of what these return, so what is unknown would be forgotten.
In the files of a script they are compiled as calls of functions that remember it.
"""

from __future__ import annotations

import ast
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tracedb.from_code import place
from tracedb.from_code.unknown import Count, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

_NAMES = {"int": "_tracedb_int", "float": "_tracedb_float"}


def _int(*given: Any, **more: Any) -> Any:  # noqa: ANN401
    """An integer; `Count` of an unknown number."""
    found = _read(given)
    return Count() if isinstance(found[0], Unknown) else int(*found, **more)


def _float(*given: Any) -> Any:  # noqa: ANN401
    """A number; `Unknown` of an unknown one."""
    found = _read(given)
    return Unknown() if isinstance(found[0], Unknown) else float(*found)


def _read(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is converted, with the number in a tensor."""
    first, *others = given or (0,)
    return first.item() if isinstance(first, torch.Tensor) else first, *others


class _Converting(ast.NodeTransformer):
    """Replaces the names of functions that are called."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Call another function in the same place."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            other = ast.Name(_NAMES[node.func.id], ast.Load())
            node.func = ast.copy_location(other, node.func)
        return node


class Loader(SourceFileLoader):
    """Loads a file of the user's, always from its source."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file; others may use what Python keeps compiled."""
        path = self.get_filename(fullname)
        parsed = ast.parse(self.get_data(path), path)
        return compile(_Converting().visit(parsed), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run it with the functions that it calls."""
        vars(module).update(_tracedb_int=_int, _tracedb_float=_float)
        super().exec_module(module)


class Finder(MetaPathFinder):
    """Finds the modules of the user's in a folder."""

    def __init__(self, root: Path) -> None:
        """Take the folder."""
        self._root = root

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The module, if it is a source file there."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        file = Path(spec.loader.path)
        if not place.is_users(str(file)) or not file.is_relative_to(self._root):
            return None
        spec.loader = Loader(fullname, str(file))
        return spec
