"""Write single events of a Chrome trace as text, with exact times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Args = dict[str, Any]
TimeUnit = Literal["ns_decimal", "us_integer"]


class Lane(NamedTuple):
    """The lane of an event: a host thread, or a device and a stream."""

    pid: int | str
    tid: int | str


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes events; times are relative to `base_ns` unless whole microseconds.

    >>> Writer("ns_decimal", base_ns=1_000_000).ts(1_002_030)
    '2.030'
    >>> Writer("us_integer", base_ns=0).ts(2_999)
    '2'
    """

    time_unit: TimeUnit
    base_ns: int

    def ts(self, ns: int) -> str:
        """Return a time in microseconds; rounding keeps the order."""
        if self.time_unit == "us_integer":
            return str(ns // 1000)
        return _decimal(ns - self.base_ns)

    def dur(self, start_ns: int, end_ns: int) -> str:
        """Return the time between two instants as they are written."""
        if self.time_unit == "us_integer":
            return str(end_ns // 1000 - start_ns // 1000)
        return _decimal(end_ns - start_ns)

    def slice(
        self, category: str, name: str, lane: Lane, span: tuple[int, int], args: Args
    ) -> str:
        """Return a complete event."""
        return (
            f'  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, '
            f"{_where(lane)},\n"
            f'    "ts": {self.ts(span[0])}, "dur": {self.dur(*span)},\n'
            f'    "args": {json.dumps(args)}\n  }}'
        )

    def flow_start(self, name: str, number: int, lane: Lane, ns: int) -> str:
        """Return the start of a flow."""
        return f"{self._flow('s', name, number, lane, ns)}\n  }}"

    def flow_end(self, name: str, number: int, lane: Lane, ns: int) -> str:
        """Return the end of a flow."""
        return f'{self._flow("f", name, number, lane, ns)}, "bp": "e"\n  }}'

    def _flow(self, phase: str, name: str, number: int, lane: Lane, ns: int) -> str:
        return (
            f'  {{\n    "ph": "{phase}", "id": {number}, {_where(lane)}, '
            f'"ts": {self.ts(ns)},\n    "cat": "{name}", "name": "{name}"'
        )

    def instant(self, name: str, lane: Lane, ns: int) -> str:
        """Return a global mark."""
        return (
            f'  {{\n    "name": "{name}", "ph": "i", "s": "g", {_where(lane)}, '
            f'"ts": {self.ts(ns)}\n  }}'
        )

    def metadata(self, name: str, lane: Lane, ns: int, args: Args) -> str:
        """Return a metadata event: the name or sort index of a process or thread."""
        return (
            f'  {{\n    "name": "{name}", "ph": "M", "ts": {self.ts(ns)}, '
            f'{_where(lane)},\n    "args": {json.dumps(args)}\n  }}'
        )


def _where(lane: Lane) -> str:
    return f'"pid": {json.dumps(lane.pid)}, "tid": {json.dumps(lane.tid)}'


def _decimal(ns: int) -> str:
    """Return nanoseconds as microseconds with three digits, exactly."""
    return f"{ns // 1000}.{ns % 1000:03}"
