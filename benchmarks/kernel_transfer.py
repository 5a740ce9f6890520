"""What shipped kernel models say of what they did not measure: a page.

    python benchmarks/kernel_transfer.py --write docs/kernel-transfer.md

Leaves out one campaign at a time (a harness on a GPU), and one GPU at a time: rows are
predicted by the shipped models of other campaigns, or of the nearest other GPU, which
have never seen them. Nothing is trained, so it takes a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from kernels import DATA
from measure import Clock, tell
from pages import machine, parser, publish, table, words
from shipped_models import MORE

from tracedb import kernels
from tracedb.kernels.blend import Answer, blended
from tracedb.kernels.groups import LEAST_ROWS, groups_of
from tracedb.kernels.harnesses import are_alike
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.relations import declared
from tracedb.kernels.scores import Scores, scores_of
from tracedb.kernels.transfer import moved_from, neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tracedb.kernels.families import Floats
    from tracedb.kernels.groups import Group
    from tracedb.kernels.model import Key, Model
    from tracedb.kernels.rows import Rows

MOST_ROWS = 3_000
LEAST_FLOORS = 10
"""Rows that take less tell how long a launch is, which harnesses count differently."""
SEED = 0

ABOUT = """\
# Kernel models of what they did not measure

Written by `python benchmarks/kernel_transfer.py {words}`
on {machine},
in {seconds:.0f} CPU seconds. Errors are |predicted / measured - 1|, GMAE / MAPE / P90
in %, medians over keys; `band holds` is the part of the rows in % inside the band that
a prediction comes with, of which 80 are aimed at. At most {rows:,} rows of a key.
"""
CAMPAIGN = """\
## One campaign left out

All rows that a harness measured on a GPU, as far as they lie in the range of others on
the same GPU, by the shipped models of those. A trace is another campaign still. The
wide band is the one with the harness factor, which estimates of traces that have taught
nothing come with.
"""
HARDWARE = """\
## One GPU left out

All rows of a GPU, by the shipped model of the nearest other one times the ratio of
their rooflines. Beside it the roofline with the usual shares of the peaks, which serves
where no model does (`prediction.kernel_efficiency`; its shares were fitted to these
data), and the data sheet's. Of rows that take at least {floors} floors: below, they
tell how long a launch is, which harnesses count differently. The better one is by the
mean error of the logarithm over all GPUs.
"""


@dataclass(frozen=True)
class Scored:
    """One key, predicted in one or more ways."""

    group: Group
    others: tuple[str, ...]
    """By what it was predicted: harnesses, or hardware."""
    scores: Mapping[str, Scores]
    off: Mapping[str, float]
    """Mean errors of the logarithm."""


def scored(
    group: Group,
    others: Iterable[str],
    ways: Mapping[str, tuple[Floats, Floats, Floats]],
) -> Scored:
    """The scores of times, each with its band."""
    measured = group.rows.time_ns
    return Scored(
        group,
        tuple(sorted({*others})),
        {n: scores_of(w[0], measured, (w[1], w[2])) for n, w in ways.items()},
        {n: float(np.mean(np.abs(np.log(w[0] / measured)))) for n, w in ways.items()},
    )


def campaigns(groups: Sequence[Group], models: Mapping[Key, Model]) -> Iterator[Scored]:
    """Each campaign by the models of the others on its GPU."""
    for group in groups:
        others = [m for key, m in models.items() if are_alike(group.key, key)]
        if not others:
            continue
        answers = [Answer(m.predictor.predict(group.rows), 0.0) for m in others]
        predicted = blended(answers)
        known = predicted.away == 0
        if known.sum() < LEAST_ROWS:
            continue
        part = replace(group, rows=group.rows.take(known))
        narrow = predicted.take(known)
        wide = narrow.widened(max(float(np.exp(m.harness_error)) for m in others))
        ways = {
            name: (found.ns, found.low_ns, found.high_ns)
            for name, found in (("narrow", narrow), ("wide", wide))
        }
        yield scored(part, (m.key.source for m in others), ways)


def hardware(groups: Sequence[Group], models: Mapping[Key, Model]) -> Iterator[Scored]:
    """Each GPU by the model of the nearest other one."""
    known = [group for group in groups if group.key in models]
    for group, other in neighbours(known):
        some = usual_ns(group.rows) > LEAST_FLOORS * group.rows.work.floor_ns
        if some.sum() < LEAST_ROWS:
            continue
        rows = group.rows.take(some)
        model = models[other.key]
        found = moved_from(other, model.predictor, rows)
        found = found.widened(float(np.exp(model.transfer_error)))
        usual, sheet = usual_ns(rows), rows.work.datasheet_ns
        ways = {
            "model": (found.ns, found.low_ns, found.high_ns),
            "usual": (usual, usual, usual),
            "sheet": (sheet, sheet, sheet),
        }
        yield scored(replace(group, rows=rows), [other.key.hardware], ways)


def usual_ns(rows: Rows) -> Floats:
    """[ns] By the roofline that serves where no model does."""
    shares = {str(row["family"]): row for row in declared(_EFFICIENCY)}
    own, work = shares[rows.family.name], rows.work
    memory = own["memory_share"] * work.bandwidth
    cache = np.maximum(own["cache_share"] * work.l2_bandwidth, memory)
    in_cache = np.minimum(work.bytes, work.l2_bytes)
    traffic = 1e9 * (in_cache / cache + (work.bytes - in_cache) / memory)
    compute = work.compute_ns / own["compute_share"]
    found: Floats = own["floors"] * work.floor_ns + np.maximum(traffic, compute)
    return found


_EFFICIENCY = "prediction.kernel_efficiency"


def three(scores: Iterable[Scores]) -> str:
    """Medians of the errors."""
    kept = [*scores]
    names = ("gmae_share", "mape_share", "p90_share")
    return " / ".join(f"{100 * median(getattr(s, n) for s in kept):.1f}" for n in names)


def held(scores: Iterable[Scores]) -> str:
    """The median part of the rows that lie in their band."""
    return f"{100 * median(s.coverage_share or 0.0 for s in scores):.0f}"


def by_family(found: Iterable[Scored]) -> Iterator[tuple[list[str], list[Scored]]]:
    """Those of one family and type together."""

    def kind(one: Scored) -> tuple[str, str, str]:
        return (one.group.key.family, one.group.key.dtype, one.group.key.source)

    for name, part in groupby(sorted(found, key=kind), kind):
        yield [*name], [*part]


def campaign_rows(found: Sequence[Scored]) -> Iterator[list[str]]:
    """A row for each family and harness that was left out."""
    for kind, part in by_family(found):
        yield [
            *kind,
            ", ".join(sorted({o for one in part for o in one.others})),
            str(len(part)),
            three(one.scores["narrow"] for one in part),
            held(one.scores["narrow"] for one in part),
            held(one.scores["wide"] for one in part),
        ]


def hardware_rows(found: Sequence[Scored]) -> Iterator[list[str]]:
    """A row for each family and harness."""
    for kind, part in by_family(found):
        off = {n: np.mean([one.off[n] for one in part]) for n in ("model", "usual")}
        yield [
            *kind,
            ", ".join(sorted({one.group.key.hardware for one in part})),
            str(len(part)),
            three(one.scores["model"] for one in part),
            held(one.scores["model"] for one in part),
            three(one.scores["usual"] for one in part),
            three(one.scores["sheet"] for one in part),
            "model" if off["model"] < off["usual"] else "roofline",
        ]


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__)
    chosen = asked.parse_args()
    if not DATA.exists():
        asked.exit(message=f"{DATA.name} is absent: nothing to evaluate\n")
    clock = Clock()
    with clock:
        folders = [path for path in (DATA, MORE) if path.exists()]
        groups = [
            replace(group, rows=some(group.rows))
            for group in groups_of(read_measurements(folders).frame)
            if len(group.rows) >= LEAST_ROWS and not group.hardware.is_fallback
        ]
        models = {model.key: model for model in kernels.shipped().models}
        tell(f"{len(groups)} keys, {len(models)} models")
        across = [*campaigns(groups, models)]
        moved = [*hardware(groups, models)]
    kinds = ["family", "dtype", "source"]
    about = ABOUT.format(
        words=words(), machine=machine(None), seconds=clock.cpu_s, rows=MOST_ROWS
    )
    head = [
        *kinds,
        "by the models of",
        "keys",
        "model",
        "band holds",
        "wide band holds",
    ]
    left_out = [*kinds, "hardware left out", "keys", "nearest model", "band holds"]
    left_out += ["usual roofline", "data sheet", "better"]
    parts = [about, CAMPAIGN, *table(head, campaign_rows(across), left=4), ""]
    parts += [HARDWARE.format(floors=LEAST_FLOORS)]
    parts += table(left_out, hardware_rows(moved), left=4)
    publish("\n".join(parts) + "\n", chosen.write)


def some(rows: Rows) -> Rows:
    """As many as are needed, at random."""
    chosen = np.random.default_rng(SEED).permutation(len(rows))[:MOST_ROWS]
    return rows.take(np.sort(chosen))


if __name__ == "__main__":
    main()
