"""A measured CPU: a folder with measurements, models of ops, and host times."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracedb.errors import EstimateError
from tracedb.from_code.cpu.host import PARTS, HostModel
from tracedb.outputs import written

if TYPE_CHECKING:
    from tracedb.kernels.models import Models

OPS, MODELS, HOST = "ops.parquet", "models", "host.json"
"""The contents of the folder: measured ops, their models, and host times."""
_FORMAT = 3
"""Before 2, models of batch norms were by channel and had other names; before 3, new
pages of memory were not measured."""


@dataclass(frozen=True)
class MeasuredCpu:
    """The measurements of a CPU, and facts on how they were made."""

    folder: Path
    host: HostModel
    facts: dict[str, Any]
    """Processor, threads, versions, memory, when it was measured."""

    @property
    def name(self) -> str:
        """The processor and its number of threads, as text."""
        threads = int(self.facts["threads"])
        return f"{self.facts['processor']}, {threads} thread{'s'[threads == 1 :]}"

    @cached_property
    def models(self) -> Models:
        """The models of its ops."""
        from tracedb import kernels

        return kernels.load(self.folder / MODELS)

    def save(self) -> None:
        """Write the host times beside the models."""
        text = json.dumps(
            {"format": _FORMAT, **asdict(self.host), "facts": self.facts}, indent=1
        )
        with written(self.folder / HOST, EstimateError) as beside:
            beside.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> MeasuredCpu:
        """Read a folder; raises `EstimateError` if it is not one or is incomplete."""
        folder = Path(folder)
        try:
            read = json.loads((folder / HOST).read_text("utf-8"))
            is_current = read["format"] == _FORMAT
            part_ns = {part: float(read["part_ns"][part]) for part in PARTS}
            page_ns = float(read["page_ns"]) if is_current else 0.0
            host = HostModel(part_ns, float(read["spread"]), page_ns)
            found = cls(folder, host, dict(read["facts"]))
            _ = found.name, int(found.facts["memory_bytes"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EstimateError(
                f"{folder}: no CPU was measured there, or not to the end; "
                f"`tracedb kernels cpu -o {folder}` does"
            ) from error
        if not is_current:
            raise EstimateError(
                f"{folder}: another version of tracedb measured this CPU; "
                f"`tracedb kernels cpu -o {folder}` measures what is missing"
            )
        return found
