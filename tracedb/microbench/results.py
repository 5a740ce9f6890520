"""The measurements of a journal as a Parquet file: a row per case."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .backend import Place
from .case import COLUMNS, Case
from .journal import Line
from .run import Plan

FORMAT = "1"
_LEAST_SHARE = 1e-4

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("device", "software", "source", "measured")),
        *((name, pa.string()) for name in ("family", "op", "dtype")),
        *((name, pa.int64()) for name in COLUMNS),
        *((name, pa.float64()) for name in ("time_ns", "low_ns", "high_ns")),
        ("repeats", pa.int64()),
        ("again_ns", pa.float64()),
        ("clock_mhz", pa.int64()),
        ("measured_at", pa.string()),
    ]
)


def rows(lines: Iterable[Line], plan: Plan, place: Place) -> list[dict[str, Any]]:
    """Make a row for every measured case of the plan, in order.

    `time_ns` is the median of all samples of all rounds, `low_ns` and `high_ns` their
    P10 and P90, `again_ns` the median of the repeated measurements for the noise.
    """
    of_case: dict[str, list[Line]] = {}
    for line in lines:
        if "samples_ns" in line:
            of_case.setdefault(line["case"], []).append(line)
    where = {
        "device": place.device,
        "software": place.software,
        "source": plan.name,
        "measured": place.measured,
    }
    return [
        where | row
        for case in plan.cases
        if (row := _row(case, of_case.get(case.key, []), plan.rounds))
    ]


def _row(case: Case, lines: Sequence[Line], rounds: int) -> dict[str, Any]:
    """Make the row of a case; empty if it was not measured."""
    first = [line for line in lines if line["visit"] < rounds]
    again = _samples(line for line in lines if line["visit"] >= rounds)
    samples = _samples(first)
    if not samples:
        return {}
    tenths = quantiles(samples, n=10, method="inclusive") if samples[1:] else samples
    return {
        "family": case.family,
        "op": case.op,
        "dtype": case.dtype,
        **case.shape,
        "time_ns": median(samples),
        "low_ns": tenths[0],
        "high_ns": tenths[-1],
        "repeats": len(samples),
        "again_ns": median(again) if again else None,
        "clock_mhz": first[-1]["clock_mhz"],
        "measured_at": first[-1]["measured_at"],
    }


def _samples(lines: Iterable[Line]) -> list[float]:
    return [sample for line in lines for sample in line["samples_ns"]]


def noise(measured: Iterable[dict[str, Any]]) -> dict[str, float]:
    """How much two measurements of a case differ, as shares, over all cases.

    `gmae_share` is the geometric mean of |again / time - 1|, each at least 1e-4.
    """
    differences = sorted(
        abs(row["again_ns"] / row["time_ns"] - 1)
        for row in measured
        if row["again_ns"] is not None
    )
    if not differences:
        return {}
    logs = [math.log(max(share, _LEAST_SHARE)) for share in differences]
    return {
        "case_count": len(differences),
        "gmae_share": math.exp(sum(logs) / len(logs)),
        "mape_share": sum(differences) / len(differences),
        "p90_share": differences[math.ceil(0.9 * len(differences)) - 1],
    }


def noise_by_family(measured: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The noise of each family, and of `all` of them."""
    families = dict.fromkeys(row["family"] for row in measured)
    found = {"all": noise(measured)} | {
        family: noise(row for row in measured if row["family"] == family)
        for family in families
    }
    return {name: score for name, score in found.items() if score}


def failures(lines: Iterable[Line]) -> Counter[str]:
    """Count the cases that could not be measured, by reason."""
    return Counter(
        f"{Case.of_key(line['case']).family} {line['failure'].partition(': ')[0]}"
        for line in lines
        if "failure" in line
    )


def drift(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """Yield each reference with its spread, which shows how steady the machine was."""
    times: dict[str, list[float]] = {}
    for line in lines:
        if "reference" in line:
            times.setdefault(line["reference"], []).append(line["median_ns"])
    for key, found in times.items():
        tenths = quantiles(found, n=10, method="inclusive") if found[1:] else found
        yield {
            "case": key,
            "median_ns": median(found),
            "p10_ns": tenths[0],
            "p90_ns": tenths[-1],
            "measurements": len(found),
        }


def write(
    path: Path,
    measured: Sequence[dict[str, Any]],
    provenance: dict[str, object],
) -> None:
    """Write the file atomically."""
    table = pa.Table.from_pylist(list(measured), schema=SCHEMA)
    table = table.replace_schema_metadata(
        {
            "tracedb.measurements": FORMAT,
            "tracedb.provenance": json.dumps(provenance),
        }
    )
    beside = path.with_name(f"{path.name}.new")
    pq.write_table(table, beside, compression="zstd", write_page_checksum=True)
    beside.replace(path)
