"""List the ops that PyTorch implements by other ops, whose children count in graphs.

`implicit` ops are those and no more; `explicit` ones are ops to autograd, and their
children do the work.

    python benchmarks/composite_ops.py

rewrites `tracedb/from_code/composite_ops.json` with the ops of the PyTorch that is
installed. Names of other releases that it does not know stay in it.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

FILE = Path(__file__).parent.parent / "tracedb" / "from_code" / "composite_ops.json"
_IMPLICIT, _EXPLICIT = "CompositeImplicitAutograd", "CompositeExplicitAutograd"
_OWN = "CPU"


def main() -> None:
    """Write the file."""
    own = _with(_OWN)
    implicit = _with(_IMPLICIT) - own
    explicit = _with(_EXPLICIT) - implicit - own
    found = {"implicit": implicit, "explicit": explicit}
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    known = set(_all())
    kept = {
        kind: sorted(names | (set(before.get(kind, [])) - known))
        for kind, names in found.items()
    }
    FILE.write_text(json.dumps({"torch": torch.__version__, **kept}, indent=1) + "\n")


def _all() -> list[str]:
    """All ops of this PyTorch, with their overloads."""
    names = torch._C._dispatch_get_all_op_names()  # noqa: SLF001 (it has no public name)
    return [name for name in names if name.startswith("aten::")]


def _with(key: str) -> set[str]:
    """The ops that have an implementation for a dispatch key."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
    return {name for name in _all() if has(name, key)}


if __name__ == "__main__":
    main()
