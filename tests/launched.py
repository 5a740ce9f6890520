"""Traces of ops that launch GPU work, written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

H100 = "NVIDIA H100 80GB HBM3"
FLOAT, HALF, LONG = "float", "c10::Half", "long int"


@dataclass(frozen=True)
class Op:
    """An op as a profiler records it, and the GPU work that it launches."""

    name: str
    dims: Sequence[Any]
    types: Sequence[str]
    concrete: Sequence[str] = ()
    kernels: Sequence[str] = ("kernel",)
    copied_bytes: int | None = None
    more: tuple[tuple[str, Any], ...] = ()

    def events(self, number: int, kernel_us: float) -> Iterator[dict[str, Any]]:
        """Yield the `number`th op of a trace, its launches and its kernels."""
        start = 1000 * number
        args = {
            "External id": number,
            "Input Dims": self.dims,
            "Input type": self.types,
        }
        if self.concrete:
            args["Concrete Inputs"] = self.concrete
        yield event("cpu_op", self.name, start, 900, args | dict(self.more))
        for place, kernel in enumerate(self.kernels):
            link = {"correlation": 100 * number + place}
            at = start + 10 + 20 * place
            yield event("cuda_runtime", "cudaLaunchKernel", at, 5, link)
            yield self._work(kernel, at + 10, kernel_us, link)

    def _work(
        self, kernel: str, at: float, duration: float, link: dict[str, int]
    ) -> dict[str, Any]:
        place: dict[str, Any] = {"device": 0, "stream": 7, **link}
        if self.copied_bytes is not None:
            place["bytes"] = self.copied_bytes
        kind = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
        cat = kind.get(kernel.split(maxsplit=1)[0], "kernel")
        return event(cat, kernel, at, duration, place) | {"pid": 0, "tid": 7}


def event(
    cat: str, name: str, at: float, duration: float, args: dict[str, Any]
) -> dict[str, Any]:
    """A complete event (`ph: X`) of Kineto; times are in microseconds."""
    place = {"pid": 1, "tid": 1}
    times = {"ts": at, "dur": duration}
    return {"ph": "X", "cat": cat, "name": name, "args": args, **place, **times}


def write(
    path: Path, ops: Sequence[Op], device: str = H100, kernel_us: float = 5
) -> Path:
    """Write a trace of ops, one after the other."""
    events = [one for n, op in enumerate(ops, 1) for one in op.events(n, kernel_us)]
    page = {"deviceProperties": [{"id": 0, "name": device}], "traceEvents": events}
    path.write_text(json.dumps(page))
    return path


def tensors(*dims: Sequence[int], dtype: str = FLOAT) -> dict[str, Any]:
    """Dimensions and types of tensor arguments of one dtype."""
    return {"dims": [list(d) for d in dims], "types": [dtype] * len(dims)}
