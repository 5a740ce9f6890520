"""What ops of a CPU convert before they compute, against what they really allocate."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tracedb.from_code import casting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ATEN: Any = torch.ops.aten
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
COUNT = 4096
SMALL = 64
"""[B] Numbers, which are converted, too."""
# These call several kernels, or convert to compute a half-precision gradient.
COMPOSED = frozenset(
    (
        *("isfinite", "isinf", "ldexp", "ldexp_", "mvlgamma", "mvlgamma_"),
        *("native_dropout_backward", "gelu_backward", "equal", "rrelu"),
    )
)
REDUCTIONS = (
    *(ATEN.sum.default, ATEN.sum.dim_IntList, ATEN.prod.default, ATEN.mean.dim),
    *(ATEN.mean.default, ATEN.cumsum.default, ATEN.any.default, ATEN.all.dim),
)
Case = tuple[Any, list[Any], dict[str, Any]]


def elementwise() -> Iterator[Any]:
    """Overloads of elementwise ops whose required arguments are tensors or numbers."""
    # `dir(ATEN)` has only those that something in the process has used.
    schemas = torch._C._jit_get_all_schemas()  # noqa: SLF001 (all that there are)
    found = {one.name for one in schemas if one.name.startswith("aten::")}
    for name in sorted(one.removeprefix("aten::") for one in found):
        packet = getattr(ATEN, name, None)
        if name.startswith(("_", "special_")) or name in COMPOSED:
            continue
        for overload in getattr(packet, "overloads", list)():
            func = getattr(packet, overload)
            required = {str(a.type) for a in needed(func)}
            is_plain = required <= {"Tensor", "number", "float"}
            if torch.Tag.pointwise in func.tags and is_plain and "out" not in overload:
                yield func


def needed(func: Any) -> list[Any]:  # noqa: ANN401 (an overload)
    """The arguments that a call must give."""
    return [a for a in func._schema.arguments if not a.has_default_value()]  # noqa: SLF001


def cases() -> Iterator[Case]:
    """Calls with tensors of all pairs of dtypes."""
    for func in elementwise():
        kinds = [str(a.type) for a in needed(func)]
        for dtypes in product(DTYPES, repeat=kinds.count("Tensor")):
            if len({*dtypes}) <= 2:
                each = iter(dtypes)
                args = [
                    torch.ones(COUNT, dtype=next(each)) if kind == "Tensor" else 2
                    for kind in kinds
                ]
                yield func, args, {}
    for func, dtype in product(REDUCTIONS, DTYPES):
        at = [] if len(needed(func)) == 1 else [0]
        yield func, [torch.ones(COUNT, dtype=dtype), *at], {}
        if func in (ATEN.sum.default, ATEN.mean.dim):
            given = torch.ones(COUNT, dtype=dtype)
            yield func, [given, *at], {"dtype": torch.float32}


def test_inputs_are_converted_as_really(tmp_path: Path) -> None:
    """Elementwise ops and reductions of each pair of dtypes hold as much beside."""
    found: dict[str, tuple[str, int]] = {}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for func, args, named in cases():
            number = f"case {len(found)}"
            words = f"{func} {[getattr(a, 'dtype', a) for a in args]} {named}"
            try:
                with record_function(number):
                    result = func(*args, **named)
            except (RuntimeError, NotImplementedError):
                found[number] = words, -1
                continue
            found[number] = words, casting.beside(func, args, result)
            del result
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    memory = sorted(
        (e["ts"], e["args"]["Bytes"]) for e in events if e["name"] == "[memory]"
    )
    times = [at for at, _ in memory]
    wrong = {}
    for event in events:
        words, expected = found.get(event["name"], ("", -1))
        if expected >= 0 and event.get("cat") == "user_annotation":
            first = bisect_left(times, event["ts"])
            last = bisect_right(times, event["ts"] + event["dur"])
            changes = [size for _, size in memory[first:last]]
            real = max(accumulate(changes), default=0) - sum(changes)
            if abs(real - expected) > SMALL:
                wrong[words] = real, expected
    assert wrong == {}
    assert sum(expected > 0 for _, expected in found.values()) > 500
