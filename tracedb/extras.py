"""Packages that some parts need and an ordinary installation does not have."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tracedb.errors import MissingPackageError


def import_extra(module: str, extra: str, feature: str) -> Any:  # noqa: ANN401 (a module is anything)
    """Import a module of an extra.

    Raises `MissingPackageError`, which says what to install, where it is not there.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{feature} needs the package {package}: {_problem(error)}; "
            f"pip install 'tracedb[{extra}]'"
        ) from error


def _problem(error: ImportError) -> str:
    """Whether it is not there at all, or not as it is needed."""
    return "it is not installed" if error.name is None else str(error).lower()
