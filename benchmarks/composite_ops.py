"""List the ops that PyTorch implements by other ops, whose children count in graphs.

    python benchmarks/composite_ops.py

rewrites `tracedb/from_code/composite_ops.json` with the ops of the PyTorch that is
installed. Names of other releases that it does not know stay in it.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

FILE = Path(__file__).parent.parent / "tracedb" / "from_code" / "composite_ops.json"
_KEY = "CompositeImplicitAutograd"


def main() -> None:
    """Write the file."""
    names = torch._C._dispatch_get_all_op_names()  # noqa: SLF001 (it has no public name)
    composite = {
        name
        for name in names
        if name.startswith("aten::")
        and torch._C._dispatch_has_kernel_for_dispatch_key(name, _KEY)  # noqa: SLF001
    }
    before = json.loads(FILE.read_text())["names"] if FILE.exists() else []
    kept = composite | (set(before) - set(names))
    told = {"torch": torch.__version__, "names": sorted(kept)}
    FILE.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
