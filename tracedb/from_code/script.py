"""Load the step of a script, `train.py:step`, and call it with a batch size."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.changed import changed
from tracedb.from_code.converting import Finder, Loader
from tracedb.near import closest, meant, near_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

_BATCH = ("batch", "batch_size")
"""Accepted names of the batch size parameter."""


@dataclass
class Script:
    """A script, which runs as if it were started with the given arguments."""

    path: Path
    arguments: Sequence[str] = ()
    _modules: dict[str, ModuleType] = field(default_factory=dict)
    """The modules of its own folder that it has imported."""
    _folder: Path | None = None
    """The folder that it has changed to."""

    @property
    def name(self) -> str:
        """The name of its module, with the packages that it is in."""
        return ".".join((*self._packages, self.path.stem))

    @property
    def package(self) -> str:
        """The package that it is in; empty if none."""
        return ".".join(self._packages)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the block as its code: with its arguments, and modules from its folder.

        They are its own: others in this process have tensors of other runs.
        """
        others = self._taken()
        before = Path.cwd()
        if self._folder is not None:
            os.chdir(self._folder)
        sys.modules.update(self._modules)
        sys.path.insert(0, str(self._root))
        finder = Finder(self._root)
        sys.meta_path.insert(0, finder)
        argv = {"argv": [str(self.path), *self.arguments]}
        try:
            with (
                changed(sys, argv),
                changed(argparse.ArgumentParser, _PARSER),
                changed(os, {"_exit": _ending(os.getpid(), os._exit)}),
            ):
                yield
        finally:
            self._folder = Path.cwd()
            os.chdir(before)
            sys.meta_path.remove(finder)
            sys.path.remove(str(self._root))
            self._modules = self._taken()
            sys.modules.update(others)

    @cached_property
    def _packages(self) -> list[str]:
        found: list[str] = []
        folder = self.path.parent.resolve()
        while (folder / "__init__.py").is_file() and folder.name.isidentifier():
            found.insert(0, folder.name)
            folder = folder.parent
        return found

    @cached_property
    def _root(self) -> Path:
        """The folder that its imports start from."""
        return self.path.resolve().parents[len(self._packages)]

    def _taken(self) -> dict[str, ModuleType]:
        """The modules from its folder, taken out of those of the process."""
        root = self._root
        found = {
            name: module
            for name, module in list(sys.modules.items())
            if name != "__main__"
            and (file := getattr(module, "__file__", None))
            and place.is_users(file)
            and _resolved(file).is_relative_to(root)
        }
        for name in found:
            del sys.modules[name]
        return found


@lru_cache(maxsize=4096)
def _resolved(file: str) -> Path:
    return Path(file).resolve()


def _refused(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Report arguments that a script does not take, or misses."""
    del parser
    raise EstimateError(
        f"{place.of_caller()}: {message}; give the script's own arguments after --"
    )


_PARSER = {"error": _refused}


def _ending(
    process: int, leave: Callable[[int], NoReturn]
) -> Callable[[int], NoReturn]:
    """What ends a process at once: refused in this one, but not in its copies."""

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        raise EstimateError(
            f"{place.of_caller()}: the code ends itself: os._exit({status!r})"
        )

    return refuse


@dataclass(frozen=True)
class Step:
    """A function that runs one step, and its arguments."""

    function: Callable[..., object]
    inputs: tuple[object, ...] = ()
    batch: int | None = None
    script: Script | None = None

    def __call__(self) -> object:
        """Run the step."""
        given: dict[str, Any] = {}
        if self.batch is not None:
            given[self.batch_parameter()] = self.batch
        elif self.script is not None and {*_BATCH} & {*self.needed}:
            raise EstimateError(
                f"{self.name}() needs a batch size: --batch N (`batch=`)"
            )
        with self.script.running() if self.script else nullcontext():
            result = self.function(*self.inputs, **given)
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
            raise EstimateError(
                f"{self.name}() is a coroutine or a generator, which does nothing "
                "when it is called; give a function that runs one step"
            )
        return result

    def with_batch(self, batch: int | None) -> Step:
        """The step with another batch size; `EstimateError` if it takes none."""
        found = replace(self, batch=batch)
        if batch is not None:
            found.batch_parameter()
        return found

    @property
    def takes_batch(self) -> bool:
        """Whether it has a batch size parameter."""
        return any(name in _BATCH for name in self._parameters())

    @property
    def usual_batch(self) -> int | None:
        """The batch size: the given one, else the parameter's default."""
        if self.batch is not None:
            return self.batch
        for name, parameter in self._parameters().items():
            if name in _BATCH and isinstance(parameter.default, int):
                return parameter.default
        return None

    def batch_parameter(self) -> str:
        """The name of the batch size parameter."""
        found = next((name for name in self._parameters() if name in _BATCH), None)
        if found is None:
            raise EstimateError(
                f"{self.name}() takes no batch size; give it a parameter `batch`"
            )
        return found

    def _parameters(self) -> dict[str, inspect.Parameter]:
        try:
            return dict(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            return {}

    @property
    def needed(self) -> list[str]:
        """The parameters without a default."""
        return [
            p.name
            for p in self._parameters().values()
            if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
        ]

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", "the step")


def split(text: str) -> tuple[Path, str]:
    """Split `train.py:step`; raises `EstimateError` if malformed or no such file."""
    path, colon, name = text.rpartition(":")
    if not colon or not all(part.isidentifier() for part in name.split(".")):
        raise EstimateError(f"{text}: give a file and a function in it: train.py:step")
    if not Path(path).is_file():
        raise EstimateError(f"{path}: no such file{meant(near_path(path))}")
    return Path(path), name


def load(path: Path, name: str, arguments: Sequence[str] = ()) -> Step:
    """Run a script and return its function of that name (`step`, `trainer.step`).

    Raises `EstimateError` if there is none, or if it has other required parameters.
    """
    script = Script(path, arguments)
    spec = spec_from_file_location(script.name, path)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        raise EstimateError(f"{path}: not a Python file")
    spec.loader = Loader(script.name, spec.loader.path)
    module = module_from_spec(spec)
    with script.running():
        if script.package:
            import_module(script.package)
        sys.modules[script.name] = module
        spec.loader.exec_module(module)
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        known = [one for one, value in vars(module).items() if callable(value)]
        near = meant(closest(name, known))
        raise EstimateError(f"{path}: has no function {name}{near}")
    step = Step(function, script=script)
    others = [parameter for parameter in step.needed if parameter not in _BATCH]
    if others:
        raise EstimateError(
            f"{path}: {name}() needs {', '.join(others)}; it may take only a batch "
            "size, and must create its own inputs"
        )
    return step
