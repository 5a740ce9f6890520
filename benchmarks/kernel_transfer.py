"""What shipped kernel models say of what they did not measure: a page.

    python benchmarks/kernel_transfer.py --published aiconfigurator_core \
        --write docs/kernel-transfer.md

Leaves out one campaign at a time (a harness on a GPU), and one GPU at a time: rows are
predicted by the shipped models of other campaigns, or of the nearest other GPUs, which
have never seen them, with bands that they had no part in. Only models of several GPUs
are trained, so it takes some minutes. `shipped_models.py` says what `--published` is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from kernels import DATA
from measure import Clock, tell
from pages import machine, parser, publish, table, words
from shipped_models import MORE, is_twice, published

from tracedb import kernels
from tracedb.kernels.blend import Answer, blended
from tracedb.kernels.collective_table import fit_table
from tracedb.kernels.groups import LEAST_ROWS, groups_of
from tracedb.kernels.harnesses import are_alike, compared, harness_error
from tracedb.kernels.held_out import HeldOut, transfer_of
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.quantised import LAYER
from tracedb.kernels.scores import Scores, scores_of
from tracedb.kernels.usual import usual_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tracedb.kernels.families import Floats
    from tracedb.kernels.groups import Group
    from tracedb.kernels.model import Key
    from tracedb.kernels.predictor import Predicted, Predictor
    from tracedb.kernels.rows import Rows

MOST_ROWS = 1_500
SEED = 0
LARGE = 0.8
"""Quantile of FLOPs from which products are large."""

ABOUT = """\
# Kernel models beyond their measurements

Written by `python benchmarks/kernel_transfer.py {words}`
on {machine},
in {seconds:.0f} CPU seconds. Errors are |predicted / measured - 1|, GMAE / MAPE / P90
in %, medians over keys. `band holds` is the share of rows, in %, inside the band of the
prediction; the target is 80. At most {rows:,} rows per key.
"""
RANKS = """
## One number of ranks left out

All rows of a number of ranks within a node, predicted by the table of the same campaign
with fewer and with more ranks; `worst` is the largest GMAE.
"""
PEAKS = """
## What bounds fp8 products

Share of the peak that the largest fifth of the products of a campaign reach, in the
median; of aiconfigurator's layers, after subtracting the time to quantise their input.
It is the software's as much as the GPU's: H800 has the chip of H100. No data sheet
tells it, so an unseen GPU is off by the difference.
"""
CAMPAIGN = """\
## One campaign left out

All rows that a harness measured on a GPU, as far as they are in the range of other
harnesses on the same GPU, predicted by the shipped models of those, if there are at
least {least} such rows. A trace is one more campaign. The own band comes from folds of
one campaign. The band with the harness factor, which predictions for a trace without
calibration use, is as wide as campaigns of the family and type require for kernels of
the predicted time, excluding this campaign; campaigns of all other families have two
votes together. It holds {held:.0f} % in the mean over these {count} campaigns. Of rows
that are not in range, where the models' own error joins the factor, it holds
{beyond:.0f} %.
"""
TIMES = """
The same by predicted time: the campaigns with at least {rows} rows of it, the share of
their rows within the band with the factor, and half its width as a log error, both in
% and the mean over campaigns.
"""
LEAST_TIMED, LEAST_INSIDE = 10, 25
HARDWARE = """\
## One GPU left out

All rows of a GPU, predicted by the shipped models of the vendor's nearest three other
GPUs, each multiplied by the ratio of the rooflines (with fitted or default shares), and
by a model of all other GPUs of the vendor, which is fitted anew without the GPU. How
both are mixed, and the band, is what the other GPUs required when they were held out;
the GPU itself has no part in either. The other GPUs are those of the same harness, or
of all harnesses if it measured fewer than two. `Twin` says whether the same harness
measured a GPU with nearly the same figures; `worst` is the largest GMAE of a key. For
comparison:
the roofline with the default shares of the peaks, which is used where no model is
(`prediction.kernel_efficiency`; its shares were fitted to many of these data), and the
data sheet's roofline. Only kernel times are scored: NeuSight's times include the
launch, so a roofline cannot be compared with them.

`Serves` says what a family and type uses on an unmeasured GPU: models if they are
closer than the roofline in the mean over the held-out GPUs, which training determines
and each model file stores. If each GPU is judged only by the others, the chosen one of
the two has a mean log error of {chosen:.3f}; models always {model:.3f}, the roofline
always {usual:.3f}, the better one each time {best:.3f}. The band holds {held:.0f} % in
the mean.
"""


NAMED = """
Libraries of attention kernels differ by more than similar GPUs do. Where the kernels'
names tell the library (`prediction.attention_kernel`), its models are preferred:
"""


@dataclass(frozen=True)
class Scored:
    """One key, predicted in one or more ways."""

    group: Group
    others: tuple[str, ...]
    """Harnesses or hardware that it was predicted from."""
    scores: Mapping[str, Scores]
    off: Mapping[str, float]
    """Mean errors of the logarithm."""
    is_by_models: bool = True
    """Whether models replace the roofline, according to other hardware."""
    is_near: bool = False
    """Whether near-identical hardware was measured."""
    beyond: float | None = None
    """Share of the rows that are not in range within their wide band."""
    by_time: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """For each decade of microseconds, the share within the wide band and its width."""


def scored(
    group: Group,
    others: Iterable[str],
    ways: Mapping[str, tuple[Floats, Floats, Floats]],
) -> Scored:
    """Scores of times, with bands."""
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
    """Each campaign, predicted by models of the others on its GPU."""
    known = [group for group in groups if group.key in predictors]
    comparisons = compared(known, predictors)
    for group in groups:
        others = [key for key in predictors if are_alike(group.key, key)]
        if not others:
            continue
        answers = [Answer(predictors[key].predict(group.rows), 0.0) for key in others]
        predicted = blended(answers)
        inside = predicted.away == 0
        if inside.sum() < LEAST_INSIDE:
            continue
        part = replace(group, rows=group.rows.take(inside))
        rest = [each for each in comparisons if not each.has(group.key)]
        error = harness_error(group.key, rest).of(predicted.ns)
        all_wide = predicted.at_least(np.exp(predicted.error_elsewhere(error)))
        own, wide = predicted.take(inside), all_wide.take(inside)
        beyond = None
        if (~inside).sum() >= LEAST_ROWS:
            is_in = within(all_wide, group.rows.time_ns)
            beyond = float(is_in[~inside].mean())
        ways = {
            name: (found.ns, found.low_ns, found.high_ns)
            for name, found in (("own", own), ("wide", wide))
        }
        one = scored(part, (key.source for key in others), ways)
        times = by_time(wide, part.rows.time_ns)
        yield replace(one, beyond=beyond, by_time=times)


def within(predicted: Predicted, measured: Floats) -> NDArray[np.bool_]:
    """Which measured times lie in their band."""
    is_in: NDArray[np.bool_] = (predicted.low_ns <= measured) & (
        measured <= predicted.high_ns
    )
    return is_in


def by_time(predicted: Predicted, measured: Floats) -> dict[int, tuple[float, float]]:
    """How a band holds and how wide it is, by decade of the predicted time."""
    decade = np.floor(np.log10(predicted.ns / 1e3)).astype(int)
    is_in = within(predicted, measured)
    width = np.log(predicted.high_ns / predicted.low_ns) / 2
    parts = {int(one): decade == one for one in np.unique(decade)}
    return {
        one: (float(is_in[part].mean()), float(width[part].mean()))
        for one, part in parts.items()
        if part.sum() >= LEAST_TIMED
    }


def hardware(
    groups: Sequence[Group],
    predictors: Mapping[Key, Predictor],
    *,
    is_implementation_known: bool = False,
) -> Iterator[Scored]:
    """Each GPU, predicted by models of the nearest others."""
    known = [g for g in groups if g.key in predictors and g.key.measured == "kernel"]
    held_out = HeldOut(
        known, predictors, is_implementation_known=is_implementation_known
    )
    for group in known:
        transfer = transfer_of(group.key, held_out.held(group.key.hardware))
        answered = held_out.answered(group, transfer)
        if answered is None:
            continue
        rows, predicted, is_near = answered
        verdict = transfer.of(is_near=is_near)
        found = verdict.banded(predicted)
        usual, sheet = usual_ns(rows), rows.work.datasheet_ns
        ways = {
            "model": (found.ns, found.low_ns, found.high_ns),
            "usual": (usual, usual, usual),
            "sheet": (sheet, sheet, sheet),
        }
        one = scored(replace(group, rows=rows), [group.key.hardware], ways)
        yield replace(one, is_by_models=verdict.is_better, is_near=is_near)


def rank_counts(groups: Iterable[Group]) -> Iterator[tuple[str, Scores]]:
    """Each number of ranks of a node between others, by its campaign's table."""
    for group in groups:
        ranks = group.rows.shapes.sizes.get("ranks")
        if ranks is None:
            continue
        in_node = group.rows.take(group.rows.shapes["ranks_per_node"] >= ranks)
        ranks = in_node.shapes["ranks"]
        for count in np.unique(ranks)[1:-1]:
            rows = in_node.take(ranks == count)
            found = fit_table(in_node.take(ranks != count)).predict_ns(rows)
            yield group.key.source, scores_of(found, rows.time_ns)


def rank_rows(found: Sequence[tuple[str, Scores]]) -> Iterator[list[str]]:
    """A row per project, then of all."""
    for source in [*sorted({name for name, _ in found}), "all"]:
        part = [score for name, score in found if source in (name, "all")]
        yield [source, str(len(part)), three(part), worst(part)]


def three(scores: Iterable[Scores]) -> str:
    """Medians of the errors."""
    kept = [*scores]
    names = ("gmae_share", "mape_share", "p90_share")
    return " / ".join(f"{100 * median(getattr(s, n) for s in kept):.1f}" for n in names)


def worst(scores: Iterable[Scores]) -> str:
    """The largest mean error of a key."""
    return f"{100 * max(s.gmae_share for s in scores):.1f}"


def held(scores: Iterable[Scores]) -> str:
    """The median share of rows within their band."""
    return f"{100 * median(s.coverage_share or 0.0 for s in scores):.0f}"


def by_family(found: Iterable[Scored]) -> Iterator[tuple[list[str], list[Scored]]]:
    """Grouped by family and dtype, and by whether near hardware was measured."""

    def kind(one: Scored) -> tuple[str, str, str, str]:
        twin = "yes" if one.is_near else "no"
        key = one.group.key
        return (key.family, key.dtype, key.source, twin)

    for name, part in groupby(sorted(found, key=kind), kind):
        yield [*name], [*part]


def campaign_rows(found: Sequence[Scored]) -> Iterator[list[str]]:
    """A row per family and left-out harness."""
    for kind, part in by_family(found):
        yield [
            *kind[:3],
            ", ".join(sorted({o for one in part for o in one.others})),
            str(len(part)),
            three(one.scores["own"] for one in part),
            held(one.scores["own"] for one in part),
            held(one.scores["wide"] for one in part),
        ]


def time_rows(found: Sequence[Scored]) -> Iterator[list[str]]:
    """A row per family, type and decade of time; then of all families."""
    kinds = {kind_of(one) for one in found}
    for kind in [*sorted(kinds), ("all", "")]:
        of_kind = [one for one in found if kind in (kind_of(one), ("all", ""))]
        for decade in sorted({d for one in of_kind for d in one.by_time}):
            parts = [one.by_time[decade] for one in of_kind if decade in one.by_time]
            held, width = (f"{100 * mean:.0f}" for mean in np.mean(parts, axis=0))
            least = f"{10**decade:,g} to {10 ** (decade + 1):,g} us"
            yield [*kind, least, str(len(parts)), held, width]


def hardware_rows(
    found: Sequence[Scored], serving: Mapping[tuple[str, str, str], bool]
) -> Iterator[list[str]]:
    """A row per family and harness."""
    for kind, part in by_family(found):
        yield [
            *kind,
            ", ".join(sorted({one.group.key.hardware for one in part})),
            str(len(part)),
            three(one.scores["model"] for one in part),
            worst(one.scores["model"] for one in part),
            held(one.scores["model"] for one in part),
            three(one.scores["usual"] for one in part),
            three(one.scores["sheet"] for one in part),
            "models" if serving[kind[0], kind[1], kind[3]] else "roofline",
        ]


def about_hardware(found: Sequence[Scored]) -> str:
    """The value of choosing by other hardware, with one vote per GPU."""
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


def peak_rows(groups: Iterable[Group]) -> Iterator[list[str]]:
    """The share of the peak that the largest fp8 products of each campaign reach."""
    for group in groups:
        if (group.key.family, group.key.dtype) == ("gemm", "float8"):
            work = group.rows.work
            is_large = work.flops >= np.quantile(work.flops, LARGE)
            share = median(work.compute_ns[is_large] / group.rows.time_ns[is_large])
            yield [group.key.hardware, group.key.source, f"{100 * share:.0f}"]


def kind_of(one: Scored) -> tuple[str, str]:
    """Family and dtype."""
    return one.group.key.family, one.group.key.dtype


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__)
    asked.add_argument("--published", type=Path, required=True, metavar="FOLDER")
    chosen = asked.parse_args()
    if not DATA.exists():
        asked.exit(message=f"{DATA.name} is absent: nothing to evaluate\n")
    clock = Clock()
    with clock:
        beside = [path for path in (DATA, MORE) if path.exists()]
        folders = [*beside, *published(chosen.published)]
        groups = [
            replace(group, rows=some(group.rows))
            for group in groups_of(read_measurements(folders).frame)
            if len(group.rows) >= LEAST_ROWS
            and not group.hardware.is_fallback
            and group.key.op != LAYER
            and not is_twice(group.key)
        ]
        models = kernels.shipped().models
        predictors = {model.key: model.predictor for model in models}
        tell(f"{len(groups)} keys, {len(models)} models")
        across = [*campaigns(groups, predictors)]
        moved = [*hardware(groups, predictors)]
        of_libraries = [g for g in groups if g.rows.family.implementations]
        as_named = [*hardware(of_libraries, predictors, is_implementation_known=True)]
        ranks = [*rank_counts(groups)]
    about = ABOUT.format(
        words=words(), machine=machine(None), seconds=clock.cpu_s, rows=MOST_ROWS
    )
    wide = [one.scores["wide"].coverage_share or 0.0 for one in across]
    kinds = ["family", "dtype", "source"]
    errors = ["usual roofline", "data sheet"]
    head = [*kinds, "by the models of", "keys", "model", "own band holds"]
    beyond = 100 * np.mean([one.beyond for one in across if one.beyond is not None])
    told = {"held": 100 * np.mean(wide), "count": len(wide), "beyond": beyond}
    told["least"] = LEAST_INSIDE
    parts = [about, CAMPAIGN.format(**told)]
    parts += table([*head, "with the factor"], campaign_rows(across), left=4)
    parts.append(TIMES.format(rows=LEAST_TIMED))
    head = ["family", "dtype", "predicted", "campaigns", "band holds", "half width"]
    parts += table(head, time_rows(across), left=3)
    head = [
        *kinds,
        "twin",
        "hardware left out",
        "keys",
        "models",
        "worst",
        "band holds",
        *errors,
    ]
    serves = {
        (m.key.family, m.key.dtype, twin): m.transfer.of(
            is_near=twin == "yes"
        ).is_better
        for m in models
        if m.key.measured == "kernel"
        for twin in ("yes", "no")
    }
    parts += ["", about_hardware(moved)]
    parts += table([*head, "serves"], hardware_rows(moved, serves), left=5)
    parts.append(NAMED)
    parts += table([*head, "serves"], hardware_rows(as_named, serves), left=5)
    head = ["source", "left out", "error", "worst"]
    parts += [RANKS, *table(head, rank_rows(ranks), left=1)]
    parts += [PEAKS, *table(["GPU", "source", "share, %"], peak_rows(groups), left=2)]
    publish("\n".join(parts) + "\n", chosen.write)


def some(rows: Rows) -> Rows:
    """A random sample of the required size."""
    chosen = np.random.default_rng(SEED).permutation(len(rows))[:MOST_ROWS]
    return rows.take(np.sort(chosen))


if __name__ == "__main__":
    main()
