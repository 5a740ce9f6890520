"""Whether errors and bands are as stated for unseen rows: a section of docs/kernels.md.

    python benchmarks/kernel_ranges.py --each 10 --write docs/kernels.md

Trains a model of each key on some of its rows, as a user's measurements may be, and
predicts the others, most of which lie between measured sizes. `--each` takes one key in
so many, because all take half an hour. Rows of other campaigns and GPUs are in
`kernel_transfer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from kernels import DATA
from measure import Clock, tell
from pages import machine, parser, publish_section, table, words
from shipped_models import MORE

from tracedb.kernels.groups import groups_of
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.predictor import fit_predictor
from tracedb.kernels.residual import LEAST_ROWS, SMALL
from tracedb.kernels.scores import scores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from tracedb.kernels.groups import Group
    from tracedb.kernels.model import Key
    from tracedb.kernels.predictor import Predictor
    from tracedb.kernels.rows import Rows

    Mask = NDArray[np.bool_]

MOST_ROWS = 1_500
LEAST_SCORED = 20
"""Fewer rows tell no share."""
FEW = 60
SHARE = 5
"""One in so many rows or combinations is held out."""
LEAST_SIZES = 6
"""Different values of a size between which there can be a gap."""

ABOUT = """\
## Rows between measured ones

Written by `python benchmarks/kernel_ranges.py {words}`
on {machine},
in {seconds:.0f} CPU seconds. Small forests, at most {rows:,} rows per key, {keys} keys.

Are errors and bands as stated? Each model is trained on part of the rows of a key, and
predicts the others:

{rules}

*In range* (`in_range`) are rows between the measured sizes with a measured shape so
near that bands are at most 1.5 times as wide as the stated ones, as held-out gaps and
corners of the training rows show; *between* are the others between measured sizes.
`measured` is GMAE / MAPE in %, median over keys, `times stated` its GMAE as a multiple
of the model's own score, median and ninth decile of the keys, and `band holds` the
share of rows in the band, in %: mean over the keys, and first decile. The target is 80.
`half width` is that of the band, as a log error in %, median over keys. Gaps and
corners of one key differ: {draws} of each are held out, one after another.
"""
DRAWS = {"gap": 3, "corner": 3}
"""How many times rows are held out of a key; once where not listed."""


# What is held out: True is a row to train on; None where rows cannot be divided so.


def random_rows(rows: Rows, random: np.random.Generator) -> Mask | None:
    """A fifth of the rows, at random."""
    return random.permutation(len(rows)) % SHARE > 0


def most_rows(rows: Rows, random: np.random.Generator) -> Mask | None:
    """All but sixty rows, at random."""
    return random.permutation(len(rows)) < FEW if len(rows) > 2 * FEW else None


def combinations(rows: Rows, random: np.random.Generator) -> Mask | None:
    """A fifth of the combinations of sizes that belong together."""
    kinds, kind = np.unique(rows.codes(rows.family.group), return_inverse=True)
    if len(kinds) < SHARE:
        return None
    is_kept: Mask = (random.permutation(len(kinds)) % SHARE > 0)[kind]
    return is_kept


def gap(rows: Rows, random: np.random.Generator) -> Mask | None:
    """A quarter of the values of one size, side by side, with others around them."""
    sizes = varied(rows)
    if not sizes:
        return None
    values = rows.shapes[sizes[random.integers(len(sizes))]]
    known = np.unique(values)
    width = len(known) // 4
    start = random.integers(1, len(known) - width)
    is_kept: Mask = (values < known[start]) | (values > known[start + width - 1])
    return is_kept


def corner(rows: Rows, random: np.random.Generator) -> Mask | None:
    """A quarter of the range: one size in its upper or lower half with another one."""
    sizes = varied(rows)
    if len(sizes) < 2:  # noqa: PLR2004 (a corner has two sides)
        return None
    is_held = np.ones(len(rows), np.bool_)
    for name in random.choice(sizes, 2, replace=False):
        values = rows.shapes[name]
        middle, is_upper = np.median(values), random.random() < 0.5  # noqa: PLR2004
        is_held &= values >= middle if is_upper else values <= middle
    return ~is_held


WAYS: dict[str, Callable[[Rows, np.random.Generator], Mask | None]] = {
    "random": random_rows,
    "few": most_rows,
    "combinations": combinations,
    "gap": gap,
    "corner": corner,
}


def varied(rows: Rows) -> list[str]:
    """Sizes with enough different values."""
    return [
        name
        for name in rows.family.columns
        if len(np.unique(rows.shapes[name])) >= LEAST_SIZES
        and not np.isnan(rows.shapes[name]).any()
    ]


# How well they are predicted.


@dataclass(frozen=True)
class Scored:
    """Held-out rows of one key, all in range or all in between."""

    key: Key
    way: str
    place: str
    """`in range` or `between`."""
    rows: int
    gmae: float
    mape: float
    held: float
    """[1] Share of rows in their band."""
    width: float
    """[1] Half the band, as a logarithm."""
    stated: float
    """[1] What the model says that its error is."""

    @property
    def ratio(self) -> float:
        """The error as a multiple of the stated one."""
        return self.gmae / self.stated


def scored(key: Key, rows: Rows, seed: int = 0) -> Iterator[Scored]:
    """Each way to hold rows out of a key."""
    draws = ((way, n) for way in WAYS for n in range(DRAWS.get(way, 1)))
    for way, draw in draws:
        is_kept = WAYS[way](rows, np.random.default_rng([seed, draw]))
        if is_kept is None or is_kept.sum() < LEAST_ROWS or is_kept.all():
            continue
        predictor = fit_predictor(rows.take(is_kept), (SMALL,))
        yield from judged(key, way, predictor, rows.take(~is_kept))


def judged(key: Key, way: str, predictor: Predictor, test: Rows) -> Iterator[Scored]:
    """Rows in range, and rows in between."""
    predicted = predictor.predict(test)
    stated = stated_gmae(predictor)
    is_inside = predictor.core.outside(test) == 0
    places = {
        "in range": predicted.away == 0,
        "between": is_inside & (predicted.away > 0),
    }
    for place, chosen in places.items():
        if chosen.sum() < LEAST_SCORED:
            continue
        part, found = test.take(chosen), predicted.take(chosen)
        score = scores_of(found.ns, part.time_ns, (found.low_ns, found.high_ns))
        errors = score.gmae_share, score.mape_share, score.coverage_share or 0.0
        width = float(np.median(np.log(found.high_ns / found.low_ns))) / 2
        yield Scored(key, way, place, score.rows, *errors, width, stated)


def stated_gmae(predictor: Predictor) -> float:
    """[1] The largest error that a model states of rows in range."""
    inside = [s for name, s in predictor.scores.items() if name != "beyond"]
    return max(s.gmae_share for s in inside or predictor.scores.values())


# The section.


def lines(
    found: Iterable[Scored], by: Callable[[Scored], tuple[str, ...]]
) -> list[list[str]]:
    """A line for each group of scores."""
    return [
        [*name, *summed([*part])] for name, part in groupby(sorted(found, key=by), by)
    ]


def summed(part: Sequence[Scored]) -> list[str]:
    """The cells of a line."""
    ratios, held = [s.ratio for s in part], [100 * s.held for s in part]
    gmae, mape = (
        f"{100 * np.median([getattr(s, name) for s in part]):.1f}"
        for name in ("gmae", "mape")
    )
    return [
        str(len(part)),
        f"{gmae} / {mape}",
        f"{np.median(ratios):.1f} / {np.quantile(ratios, 0.9):.1f}",
        f"{np.mean(held):.0f} / {np.quantile(held, 0.1):.0f}",
        f"{100 * np.median([s.width for s in part]):.1f}",
    ]


def section(found: Sequence[Scored], seconds: float) -> str:
    """The text of the section."""
    rules = "\n".join(
        f"- `{n}`: {(way.__doc__ or '').strip()}" for n, way in WAYS.items()
    )
    about = ABOUT.format(
        words=words(),
        machine=machine(None),
        seconds=seconds,
        rows=MOST_ROWS,
        keys=len({s.key for s in found}),
        draws=DRAWS["gap"],
        rules=rules,
    )
    head = ["held out", "measured", "times stated", "band holds", "half width"]
    by_way = lines(found, lambda s: (s.place, s.way))
    inside = [s for s in found if s.place == "in range"]
    by_kind = lines(inside, lambda s: (s.key.family, s.key.dtype, s.key.hardware))
    parts = [about, *table(["rows", "how", *head], by_way, left=2), ""]
    parts += ["By family, type and GPU, in range:", ""]
    parts += table(["family", "dtype", "GPU", *head], by_kind, left=3)
    return "\n".join(parts) + "\n"


def keyed() -> list[Group]:
    """The keys of the data beside the checkout that have enough rows."""
    folders = [path for path in (DATA, MORE) if path.exists()]
    groups = groups_of(read_measurements(folders).frame)
    return [group for group in groups if len(group.rows) >= FEW]


def some(rows: Rows) -> Rows:
    """A random sample of the required size."""
    chosen = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return rows.take(np.sort(chosen))


def main() -> None:
    """Print the section, or write it."""
    asked = parser(__doc__)
    asked.add_argument("--each", type=int, default=1, metavar="N")
    chosen = asked.parse_args()
    if not DATA.exists():
        asked.exit(message=f"{DATA.name} is absent: nothing to evaluate\n")
    found: list[Scored] = []
    clock = Clock()
    with clock:
        for seed, group in enumerate(keyed()[:: chosen.each]):
            tell(group.key.name)
            found += scored(group.key, some(group.rows), seed)
    publish_section(section(found, clock.cpu_s), chosen.write)


if __name__ == "__main__":
    main()
