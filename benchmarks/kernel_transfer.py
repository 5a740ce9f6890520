"""What shipped kernel models say of what they did not measure: a page.

    python benchmarks/kernel_transfer.py --write docs/kernel-transfer.md

Leaves out one campaign at a time (a harness on a GPU), and one GPU at a time: rows are
predicted by the shipped models of other campaigns, or of the nearest other GPUs, which
have never seen them, with bands that they had no part in. Nothing is trained, so it
takes a minute. `--published FOLDER` adds measurements of GPUs that no shipped model is
of, as their projects publish them: for the page, of `systems/data` in the wheel of
`aiconfigurator-core` 0.12.0, the folders `attention`, `encoder_attention` and `gemm` of
vLLM 0.24.0 and `comm/nccl/2.29.2` of `h200_sxm` and `b300_sxm`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from kernels import DATA
from measure import Clock, tell
from pages import machine, parser, publish, table, words
from shipped_models import MORE

from tracedb import kernels
from tracedb.kernels.blend import Answer, blended
from tracedb.kernels.groups import LEAST_ROWS, groups_of
from tracedb.kernels.harnesses import are_alike, compared, harness_error
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.scores import Scores, scores_of
from tracedb.kernels.transfer import HeldOut, transfer_of
from tracedb.kernels.usual import usual_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tracedb.kernels import Models
    from tracedb.kernels.families import Floats
    from tracedb.kernels.groups import Group
    from tracedb.kernels.model import Key
    from tracedb.kernels.predictor import Predictor
    from tracedb.kernels.rows import Rows

MOST_ROWS = 3_000
SEED = 0

ABOUT = """\
# Kernel models beyond their measurements

Written by `python benchmarks/kernel_transfer.py {words}`
on {machine},
in {seconds:.0f} CPU seconds. Errors are |predicted / measured - 1|, GMAE / MAPE / P90
in %, medians over keys. `band holds` is the share of rows, in %, inside the band of the
prediction; the target is 80. At most {rows:,} rows per key.
"""
CAMPAIGN = """\
## One campaign left out

All rows that a harness measured on a GPU, as far as they are in the range of other
harnesses on the same GPU, predicted by the shipped models of those. A trace is one more
campaign. The own band comes from folds of one campaign. The band with the harness
factor, which predictions for a trace without calibration use, is as wide as campaigns
of the family and type require, excluding this campaign; if there are none, as those of
all families require. It holds {held:.0f} % in the mean over these {count} campaigns.
"""
HARDWARE = """\
## One GPU left out

All rows of a GPU, predicted by the shipped models of the vendor's nearest three other
GPUs, each multiplied by the ratio of the rooflines, with the band that the other GPUs
required when they were held out. For comparison: the roofline with the default shares
of the peaks, which is used where no model is (`prediction.kernel_efficiency`; its
shares were fitted to these data), and the data sheet's roofline. Only kernel times are
scored: NeuSight's times include the launch, so a roofline cannot be compared with them.

`Serves` says what a family and type uses on an unmeasured GPU: models if they are
closer than the roofline in the mean over the held-out GPUs, which training determines
and each model file stores. If each GPU is judged only by the others, the chosen one of
the two has a mean log error of {chosen:.3f}; models always {model:.3f}, the roofline
always {usual:.3f}, the better one each time {best:.3f}. The band holds {held:.0f} % in
the mean.
"""
PUBLISHED = """\
## GPUs without a shipped model

Measurements that neither the models nor the rooflines have seen: {files}, as published,
predicted by what ships with tracedb, through the user's interface. GEMMs in fp8 use the
roofline.
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
    is_by_models: bool = True
    """Whether models serve, as other hardware has it."""


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


def campaigns(
    groups: Sequence[Group], predictors: Mapping[Key, Predictor]
) -> Iterator[Scored]:
    """Each campaign by the models of the others on its GPU."""
    known = [group for group in groups if group.key in predictors]
    comparisons = compared(known, predictors)
    for group in groups:
        others = [key for key in predictors if are_alike(group.key, key)]
        if not others:
            continue
        answers = [Answer(predictors[key].predict(group.rows), 0.0) for key in others]
        predicted = blended(answers)
        inside = predicted.away == 0
        if inside.sum() < LEAST_ROWS:
            continue
        part = replace(group, rows=group.rows.take(inside))
        own = predicted.take(inside)
        rest = [each for each in comparisons if not each.has(group.key)]
        wide = own.at_least(float(np.exp(harness_error(group.key, rest))))
        ways = {
            name: (found.ns, found.low_ns, found.high_ns)
            for name, found in (("own", own), ("wide", wide))
        }
        yield scored(part, (key.source for key in others), ways)


def hardware(
    groups: Sequence[Group], predictors: Mapping[Key, Predictor]
) -> Iterator[Scored]:
    """Each GPU by the models of the nearest other ones."""
    known = [g for g in groups if g.key in predictors and g.key.measured == "kernel"]
    held_out = HeldOut(known, predictors)
    for group in known:
        answered = held_out.answered(group)
        if answered is None:
            continue
        rows, predicted = answered
        transfer = transfer_of(group.key, held_out.held(group.key.hardware))
        found = predicted.at_least(float(np.exp(transfer.error)))
        usual, sheet = usual_ns(rows), rows.work.datasheet_ns
        ways = {
            "model": (found.ns, found.low_ns, found.high_ns),
            "usual": (usual, usual, usual),
            "sheet": (sheet, sheet, sheet),
        }
        one = scored(replace(group, rows=rows), [group.key.hardware], ways)
        yield replace(one, is_by_models=transfer.is_better)


def published(folder: Path, models: Models) -> Iterator[Scored]:
    """GPUs without a model of their own, as a user asks for them."""
    for group in groups_of(read_measurements([folder]).frame):
        key = group.key
        if len(group.rows) < LEAST_ROWS or group.hardware.is_fallback:
            continue
        group = replace(group, rows=some(group.rows))  # noqa: PLW2901 (the fewer)
        sizes = {n: group.rows.shapes[n] for n in group.rows.family.columns}
        texts = ("hardware", "family", "op", "dtype", "measured")
        named = {name: pl.lit(getattr(key, name)) for name in texts}
        asked = pl.DataFrame(sizes).fill_nan(None).with_columns(**named)
        found = models.predict(asked)
        usual, sheet = usual_ns(group.rows), group.rows.work.datasheet_ns
        ways = {"usual": (usual, usual, usual), "sheet": (sheet, sheet, sheet)}
        kinds = found["likeness"].unique().drop_nulls().to_list()
        if found["predicted_ns"].null_count() == 0:
            columns = ("predicted_ns", "low_ns", "high_ns")
            ns, low, high = (found[name].to_numpy() for name in columns)
            ways["model"] = (ns, low, high)
        yield scored(group, kinds, ways)


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
            three(one.scores["own"] for one in part),
            held(one.scores["own"] for one in part),
            held(one.scores["wide"] for one in part),
        ]


def hardware_rows(
    found: Sequence[Scored], serving: Mapping[tuple[str, str], bool]
) -> Iterator[list[str]]:
    """A row for each family and harness."""
    for kind, part in by_family(found):
        yield [
            *kind,
            ", ".join(sorted({one.group.key.hardware for one in part})),
            str(len(part)),
            three(one.scores["model"] for one in part),
            held(one.scores["model"] for one in part),
            three(one.scores["usual"] for one in part),
            three(one.scores["sheet"] for one in part),
            "models" if serving[kind[0], kind[1]] else "roofline",
        ]


def published_rows(found: Iterable[Scored]) -> Iterator[list[str]]:
    """A row for each GPU and op."""

    def kind(one: Scored) -> tuple[str, ...]:
        key = one.group.key
        return (key.hardware, key.family, key.op, key.dtype)

    for name, each in groupby(sorted(found, key=kind), kind):
        part = [*each]
        by_models = [one.scores["model"] for one in part if "model" in one.scores]
        yield [
            *name,
            str(len(part)),
            three(by_models) if by_models else "",
            held(by_models) if by_models else "",
            three(one.scores["usual"] for one in part),
            three(one.scores["sheet"] for one in part),
        ]


def about_hardware(found: Sequence[Scored]) -> str:
    """What choosing by other hardware is worth, each GPU with one vote."""
    names = sorted({(*kind_of(one), one.group.key.hardware) for one in found})
    ways = ("model", "usual", "chosen", "best", "held")
    means: dict[str, list[float]] = {way: [] for way in ways}
    for name in names:
        part = [o for o in found if (*kind_of(o), o.group.key.hardware) == name]
        off = {n: float(np.mean([o.off[n] for o in part])) for n in ("model", "usual")}
        means["model"].append(off["model"])
        means["usual"].append(off["usual"])
        means["chosen"].append(off["model" if part[0].is_by_models else "usual"])
        means["best"].append(min(off.values()))
        held = [o.scores["model"].coverage_share or 0.0 for o in part]
        means["held"].append(100 * float(np.mean(held)))
    return HARDWARE.format(**{name: np.mean(kept) for name, kept in means.items()})


def kind_of(one: Scored) -> tuple[str, str]:
    """Family and type."""
    return one.group.key.family, one.group.key.dtype


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__)
    asked.add_argument("--published", type=Path, metavar="FOLDER")
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
        shipped = kernels.shipped()
        models = shipped.models
        predictors = {model.key: model.predictor for model in models}
        tell(f"{len(groups)} keys, {len(models)} models")
        across = [*campaigns(groups, predictors)]
        moved = [*hardware(groups, predictors)]
        others = (
            [*published(chosen.published, shipped.serving())]
            if chosen.published
            else []
        )
    about = ABOUT.format(
        words=words(), machine=machine(None), seconds=clock.cpu_s, rows=MOST_ROWS
    )
    wide = [one.scores["wide"].coverage_share or 0.0 for one in across]
    kinds = ["family", "dtype", "source"]
    errors = ["usual roofline", "data sheet"]
    head = [*kinds, "by the models of", "keys", "model", "own band holds"]
    parts = [about, CAMPAIGN.format(held=100 * np.mean(wide), count=len(wide))]
    parts += table([*head, "with the factor"], campaign_rows(across), left=4)
    head = [*kinds, "hardware left out", "keys", "models", "band holds", *errors]
    serves = {
        (m.key.family, m.key.dtype): m.transfer.is_better
        for m in models
        if m.key.measured == "kernel"
    }
    parts += ["", about_hardware(moved)]
    parts += table([*head, "serves"], hardware_rows(moved, serves), left=4)
    if others:
        files = "`aiconfigurator-core` 0.12.0, vLLM 0.24.0 and NCCL 2.29.2"
        head = ["hardware", "family", "op", "dtype", "keys", "models", "band holds"]
        parts += ["", PUBLISHED.format(files=files)]
        parts += table([*head, *errors], published_rows(others), left=4)
    publish("\n".join(parts) + "\n", chosen.write)


def some(rows: Rows) -> Rows:
    """As many as are needed, at random."""
    chosen = np.random.default_rng(SEED).permutation(len(rows))[:MOST_ROWS]
    return rows.take(np.sort(chosen))


if __name__ == "__main__":
    main()
