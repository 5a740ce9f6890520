"""Whole training steps on a CPU: the ops that they dispatch, real and estimated.

    python tests/whole_ops.py [STEP ...]

The steps are those of `whole_steps.py`. Of a real step, PyTorch's profiler records the
ops; of an estimate, they are what reached the dispatcher. Ops that compute have the
same names, shapes and types, in the same order; the differences are listed.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from allocator import estimated
from torch.profiler import ProfilerActivity, profile
from whole_steps import STEPS

from tracedb.errors import EstimateError
from tracedb.from_code.ops import Dispatched, Shape

Op = tuple[str, tuple[tuple[int, ...], ...], tuple[str, ...]]
"""An op that computes: its name, and the shapes and types of its tensors."""
_NOT_COMPUTING = (
    *("detach", "alias", "empty", "resize", "set_", "lift_fresh", "is_", "_sync"),
    *("broadcast_tensors", "_local_scalar_dense", "cudnn_is_acceptable", "new_empty"),
    *("_nnz", "sparse_dim", "dense_dim", "_coalesced_", "transpose_", "unsqueeze_"),
)
"""Beginnings of the names of ops that compute nothing, besides views."""
_NUMBERS = {"aten::full", "aten::scalar_tensor"}
"""How numbers become tensors, which real code does in other ways as well."""


@cache
def _overloads(name: str) -> list[Any]:
    """The overloads of an op."""
    space, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, space, None), base, None)
    found = [getattr(packet, o) for o in packet.overloads()] if packet else []
    exists = torch._C._dispatch_has_kernel  # noqa: SLF001 (it has no public name)
    return [one for one in found if exists(one.name())]


@cache
def computes(name: str) -> bool:
    """Whether an op computes: it is no view and allocates more than memory."""
    base = name.partition("::")[2]
    if name in _NUMBERS or base.startswith(_NOT_COMPUTING):
        return False
    schemas = [str(o._schema).partition("(")[2] for o in _overloads(name)]  # noqa: SLF001 (the same)
    return not schemas or not all("(a)" in s or "(a ->" in s for s in schemas)


def real_ops(
    make: Callable[[], Callable[[], None]], folder: Path, known: set[str]
) -> list[Op]:
    """The ops of a second step, by the profiler; see `_outermost`."""
    run = make()
    run()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        run()
    profiler.export_chrome_trace(str(folder / "ops.json"))
    events = json.loads((folder / "ops.json").read_text())["traceEvents"]
    kept = [
        e
        for e in events
        if e.get("cat") == "cpu_op" and re.fullmatch(r"\w+::\w+", e["name"])
    ]
    return list(_outermost(sorted(kept, key=lambda e: (e["ts"], -e["dur"])), known))


def _outermost(events: list[dict[str, Any]], known: set[str]) -> Iterator[Op]:
    """The ops that are in no other one, of those whose names are known.

    An op with an unknown name stands for the ops within; if there are none, it is kept.
    """
    done: dict[int, float] = {}
    for place, event in enumerate(events):
        name, thread, end = str(event["name"]), event["tid"], event["ts"] + event["dur"]
        if event["ts"] < done.get(thread, 0):
            continue
        inner = any(
            e["tid"] == thread for e in events[place + 1 :][:1] if e["ts"] < end
        )
        if name not in known | _NUMBERS and inner:
            continue
        done[thread] = end
        if computes(name):
            yield name, *_recorded(event["args"])


def _recorded(given: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The shapes and types of the tensors among recorded arguments."""
    shapes: list[tuple[int, ...]] = []
    types: list[str] = []
    for dims, kind in zip(
        given.get("Input Dims", []), given.get("Input type", []), strict=True
    ):
        # Numbers among arguments are recorded as tensors without dimensions.
        if (
            dims
            and dims != [0]
            and not isinstance(dims[0], list)
            and "List" not in kind
        ):
            shapes.append(tuple(dims))
            types.append(kind)
    return _without_repeats(shapes, types)


def _without_repeats(
    shapes: Iterable[tuple[int, ...]], types: Iterable[str]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Tensors that differ from those before: `out=` records the result as well."""
    pairs = [pair for pair, _ in groupby(zip(shapes, types, strict=True))]
    return tuple(shape for shape, _ in pairs), tuple(kind for _, kind in pairs)


def estimated_ops(make: Callable[[], Callable[[], None]]) -> list[Op]:
    """The ops that an estimate dispatches."""
    found = estimated(make)
    return [
        (op.name, *_given(op))
        for op in found.ops.values()
        if op.called is None and computes(op.name)
    ]


def _given(op: Dispatched) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The shapes and types of an op's tensors, but for those in lists."""
    found = [one for one in op.arguments if isinstance(one, Shape) and one.dims]
    return _without_repeats([s.dims for s in found], [s.dtype for s in found])


def differences(real: list[Op], said: list[Op]) -> Iterator[str]:
    """What differs, in order."""
    for kind, a, b, c, d in SequenceMatcher(
        None, real, said, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            for op in real[a:b]:
                yield f"  - {op}"
            for op in said[c:d]:
                yield f"  + {op}"


def main() -> None:
    """Compare the steps named, or all."""
    names = sys.argv[1:] or [*STEPS]
    same = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            torch.manual_seed(0)
            try:
                said = estimated_ops(STEPS[name])
            except EstimateError as error:
                sys.stdout.write(f"{name}: refused: {error}\n")
                continue
            real = real_ops(STEPS[name], Path(folder), {name for name, *_ in said})
            lines = list(differences(real, said))
            same += not lines
            sys.stdout.write(f"{name}: {len(real)} ops, {len(lines)} differ\n")
            sys.stdout.writelines(f"{line}\n" for line in lines[:40])
            sys.stdout.flush()
    sys.stdout.write(f"{same} of {len(names)} steps dispatch the same ops\n")


if __name__ == "__main__":
    main()
