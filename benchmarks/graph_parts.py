"""Split the error of an estimate into parts, and replace parts by measured times.

The critical path of a step tiles it, as measured and as estimated: the differences of
its kinds of time add up to the error. Beside them, an estimate is laid out anew with
one part of it as measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from host_traces import learn, read, samples
from recorded_host_times import page

from tracedb.from_code.host_times import HostTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import tracedb
    from tracedb.from_code.layout import Layout
    from tracedb.from_code.pricing import KernelTime

PARTS = {
    "waiting for other ranks": ("rank_wait", "absent_rank_wait"),
    "host in ops": ("host_op",),
    "host between ops": ("host_gap",),
    "launches": ("launch", "launch_delay"),
    "data loading": ("data_loading",),
    "waits, and what follows them": ("wait", "return", "stream_wait", "stream_gap"),
    "kernels, copies, data moved by collectives": (
        *("kernel", "memcpy", "memset", "communication"),
    ),
    "not explained": ("unexplained", "before_trace"),
}
"""Kinds of time on critical paths, and their names here."""

_PATH = """
SELECT kind, sum(end_ns - start_ns)::BIGINT
FROM critical_path.interval
WHERE
    variant_id = 0 AND scope = 'step'
    AND path_id = (SELECT max(step_id) FROM staging.step WHERE trace_id = $trace)
GROUP BY kind
"""
_COLLECTIVES = """
SELECT end_ns - start_ns FROM staging.gpu_op
WHERE is_collective AND trace_id = $trace
ORDER BY start_ns
"""
_COMPUTING = """
SELECT sum(end_ns - start_ns)::BIGINT FROM staging.gpu_op
WHERE NOT is_collective AND call_id IS NOT NULL AND trace_id = $trace
"""


def parts(opened: tracedb.Database, trace: int) -> dict[str, int]:
    """[ns] The parts of the path of a trace's last step."""
    rows = opened.connection.execute(_PATH, {"trace": trace}).fetchall()
    found = dict(rows)
    unnamed = found.keys() - {kind for kinds in PARTS.values() for kind in kinds}
    if unnamed:
        raise ValueError(f"kinds of time that no part has: {sorted(unnamed)}")
    return {
        name: sum(found.get(kind, 0) for kind in kinds) for name, kinds in PARTS.items()
    }


def table(
    names: Sequence[str],
    measured: Sequence[Mapping[str, int]],
    estimated: Sequence[Mapping[str, int]],
) -> Iterator[str]:
    """A row for each part and their sum: measured time, and the estimate's error."""
    columns = " | ".join(f"{name} [ms] | error" for name in names)
    yield f"| part of the critical path | {columns} |"
    yield f"| --- {'| ---: ' * 2 * len(names)}|"
    pairs = list(zip(measured, estimated, strict=True))
    totals = [sum(true.values()) for true in measured]
    for part in PARTS:
        cells = [
            f"{true[part] / 1e6:.2f} | {(said[part] - true[part]) / total:+.1%}"
            for (true, said), total in zip(pairs, totals, strict=True)
        ]
        yield f"| {part} | {' | '.join(cells)} |"
    cells = [
        f"{total / 1e6:.2f} | {sum(said.values()) / total - 1:+.1%}"
        for (_, said), total in zip(pairs, totals, strict=True)
    ]
    yield f"| all of the step | {' | '.join(cells)} |"


@dataclass(frozen=True)
class Swaps:
    """[ns] The estimated step with one part replaced by its measured time."""

    host: int
    collectives: int
    kernels: int
    all: int

    @classmethod
    def of(
        cls, layout: Layout, opened: tracedb.Database, trace: int, file: Path
    ) -> Swaps:
        """Replace host times by name, collectives one by one, kernels as a whole."""
        values = {"trace": trace}
        rows = opened.connection.execute(_COLLECTIVES, values).fetchall()
        computing = opened.connection.execute(_COMPUTING, values).fetchall()[0][0]
        works = [work for node in layout.root.in_order() for work in node.work]
        together = [work.kind == "collective" for work in works]
        said = sum(
            time.expected
            for time, is_one in zip(layout.work, together, strict=True)
            if not is_one
        )
        own = HostTimes(**page(learn({file.name: samples(read(file))})))
        waits = iter([duration for (duration,) in rows])
        moved = [
            next(waits, time.expected) if is_one else time.expected
            for time, is_one in zip(layout.work, together, strict=True)
        ]

        def scaled(times: Sequence[int]) -> list[int]:
            return [
                time if is_one else time * computing // said
                for time, is_one in zip(times, together, strict=True)
            ]

        usual = [time.expected for time in layout.work]
        with_own = replace(layout, host=own)
        return cls(
            host=_step(with_own, usual),
            collectives=_step(layout, moved),
            kernels=_step(layout, scaled(usual)),
            all=_step(with_own, scaled(moved)),
        )


def _step(layout: Layout, durations: Sequence[int]) -> int:
    times: list[KernelTime] = [
        replace(time, expected=duration)
        for time, duration in zip(layout.work, durations, strict=True)
    ]
    return replace(layout, work=times).course.last_step_ns(durations)


SWAPPED: dict[str, Callable[[Swaps], int]] = {
    "host times": lambda swaps: swaps.host,
    "collectives, with their waiting": lambda swaps: swaps.collectives,
    "kernels and copies": lambda swaps: swaps.kernels,
    "all three": lambda swaps: swaps.all,
}
"""What is replaced, and the resulting step."""
