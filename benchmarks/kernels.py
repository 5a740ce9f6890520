"""How well kernel models predict public measurements, and how fast: docs/kernels.md.

    python benchmarks/kernels.py --write docs/kernels.md

Each file of the data is evaluated on its own, part by part; what was evaluated before,
with the same data and code, lies in a cache: a run can be ended and gone on with, and
where one family has changed the others are not evaluated anew. The section of
`kernel_ranges.py` stays on the page.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from measure import Clock, cache, tell
from pages import machine, parser, publish, publish_section, table, words

import tracedb.kernels as models_of
from tracedb import kernels
from tracedb.kernels.evaluate import MOST_ROWS, SCORES, parts_of
from tracedb.kernels.families import FAMILIES
from tracedb.kernels.measurements import read_measurements
from tracedb.kernels.public import LICENCES, READERS
from tracedb.kernels.published import PUBLISHED
from tracedb.kernels.splits import SEED, SPLITS
from tracedb.kernels.transfer import NEAREST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracedb.kernels.evaluate import Part

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "kerneldata"
OWN = Path(__file__).with_name("measured")
CODE = Path(models_of.__file__).parent
MEMORY_BOUND = ("elementwise", "embedding", "normalisation", "softmax", "reduction")
BULK = 100_000
ASIDE = ("__init__", "describe", "model", "models", "store", "train")
"""Modules that do not affect scores."""
PREDICTORS = ("model", "roofline", "datasheet", "mlp")


# What is measured.


def evaluated(path: Path, *, is_cached: bool) -> pl.DataFrame | None:
    """Scores of one file, cached until something changes.

    With `is_cached`, None if some are missing from the cache.
    """
    parts = [(part, kept_at(path, part)) for part in parts_of([path])]
    if is_cached and not all(kept.exists() for _, kept in parts):
        return None
    for number, (part, kept) in enumerate(parts, 1):
        if not kept.exists():
            tell(f"{path.name} [{number}/{len(parts)}] {part.name}")
            scores = pl.DataFrame(list(part.scores()), schema=SCORES)
            scores.with_columns(file=pl.lit(path.name)).write_parquet(kept)
    return pl.concat(pl.read_parquet(kept) for _, kept in parts)


def kept_at(path: Path, part: Part) -> Path:
    """The cache file of a part's scores."""
    digest = hashlib.sha256(part.digest().encode() + code(part.families))
    name = f"kernels-{path.name.partition('.')[0]}-{digest.hexdigest()[:16]}.parquet"
    return cache() / name


def code(families: Iterable[str]) -> bytes:
    """The code that scores of families depend on: all except other families' code."""
    wanted = [CODE / "families" / f"{family}.py" for family in families]
    for module in wanted:
        wanted += [path for path in _imported(module) if path not in wanted]
    shared = [path for path in CODE.glob("*.py") if path.stem not in ASIDE]
    if "collective" not in families:
        shared.remove(CODE / "collective_table.py")
    return b"".join(path.read_bytes() for path in sorted([*shared, *wanted]))


def _imported(module: Path) -> list[Path]:
    """Modules of the same folder that a module imports."""
    lines = re.findall(r"(?m)^from \.(\w*) import (.+)$", module.read_text())
    names = [name for own, names in lines for name in (own or names).split(", ")]
    return [path for name in names if (path := module.with_stem(name)).exists()]


def data_files() -> list[Path]:
    """The data files, and tracedb's own measurements."""
    files = [*sorted(DATA.glob("*.csv*")), *sorted(OWN.glob("*.parquet"))]
    return [path for path in files if path.name != "neusight_devices.csv"]


def speed(models: kernels.Models, *unmeasured: str) -> list[list[str]]:
    """Shapes per CPU second over several families, and on unmeasured GPUs."""
    random = np.random.default_rng(SEED)

    def sizes(*names: str, least: int = 16, most: int = 8192) -> dict[str, object]:
        return {name: random.integers(least, most, BULK) for name in names}

    asked = {
        **{
            f"gemm, bfloat16, {hardware}": {
                "hardware": hardware,
                "family": "gemm",
                "op": "mm",
                "dtype": "bfloat16",
                **sizes("m", "n", "k"),
            }
            for hardware in ("A100 80GB", *unmeasured)
        },
        "embedding, float16, H100": {
            "hardware": "H100",
            "family": "embedding",
            "op": "embedding",
            "dtype": "float16",
            **sizes("rows", "width", "table_rows"),
        },
        "all_reduce, H100": {
            "hardware": "H100",
            "family": "collective",
            "op": "all_reduce",
            "dtype": "float16",
            **sizes("bytes", least=512, most=10**9),
            "ranks": np.full(BULK, 8),
            "ranks_per_node": np.full(BULK, 8),
        },
    }
    rows = []
    for name, columns in asked.items():
        frame = pl.DataFrame(columns)
        models.predict(frame.head(1))
        clock = Clock()
        with clock:
            models.predict(frame)
        rows.append(
            [name, f"{BULK:,}", f"{clock.cpu_s:.2f}", f"{BULK / clock.cpu_s:,.0f}"]
        )
    return rows


# The page.


def page(
    scores: pl.DataFrame,
    absent: list[str],
    training: dict[str, Any] | None,
    shipped: list[str],
) -> str:
    """The whole page."""
    parts = [
        "# Kernel models",
        f"Written by `python benchmarks/kernels.py {words()}` on {machine(None)}.",
        _INTRODUCTION,
        "## Goals",
        _GOALS,
        *goals(scores),
        *_absent(absent),
        "## Every op",
        _EVERY_OP,
        *every_op(scores),
        "## Hardware that was not measured",
        _UNSEEN,
        *unseen(scores),
        "## Harnesses that were not seen",
        _OTHER_HARNESS,
        *other_harness(scores),
        "## Training and speed",
        *training_section(training),
        *shipped,
        "## Data",
        *data_section(),
    ]
    return "\n".join(_spaced(parts)) + "\n"


def _absent(names: list[str]) -> list[str]:
    """A sentence about files that were not evaluated."""
    return [f"Not evaluated: {', '.join(names)}."] if names else []


def _spaced(parts: Iterable[str]) -> Iterable[str]:
    """Add blank lines around everything except rows of a table."""
    before = ""
    for part in parts:
        if before and not (part.startswith("|") and before.startswith("|")):
            yield ""
        yield part
        before = part


_RULES = "\n".join(
    f"- `{name}`: {' '.join((split.__doc__ or '').split())}"
    for name, split in SPLITS.items()
)
_INTRODUCTION = f"""\
A model is a calibrated roofline with forests on the logarithm of its residual; for
collectives, a table. All scores are on rows that the model had not seen. Errors are
|predicted / measured - 1|, GMAE their geometric mean (each at least 0.0001), MAPE their
mean, P90 their ninth decile. Equal shapes of one key count once, with the median of
their times; at most {MOST_ROWS:,} shapes of a key are used. Seed {SEED}.

Splits:

{_RULES}
- `hardware`: all rows of one piece of hardware

For comparison: the roofline of the data sheet, the calibrated roofline without forests
(for collectives, the table), and a neural network on log sizes, as in Lin et al. 2022:
three layers of 128, 60 epochs, at most 2,000 rows, one configuration. How far a model
trusts its forests, and how wide its bands are, is learned from the rows of its own
split that are not held out; a shipped model learns it from all rows."""

_GOALS = """\
GMAE / MAPE in %, median over the named GPUs. The held-out shapes of NeuSight are not
its official test split, which the data here lack: they are a fifth of its training
shapes. The CPU rows are our own measurements (`benchmarks/measured/`), whose repeats
differ by 1.9 / 5.6 %.

Two goals, rank counts and a table's gradient, are missed for lack of data. One of the
two clusters with three rank counts also spans two nodes: there a byte takes four ranks
as long as two, and 3.6 times as long as eight, which no other rank count reveals
(`docs/kernel-transfer.md` has 34 rank counts within a node, of published tables). The
gradient of a table, allocated anew by each call, is on fresh pages of the system if
it is larger than 32 MiB (glibc returns such memory): 51 MB take 26 ms, 26 MB
take 1.6 ms, and with one width held out
no size in between is left."""


_EVERY_OP = """\
GMAE / MAPE / P90 in %, medians over keys (hardware and harnesses); `band holds` is the
share of rows, in %, inside the band P10..P90; the target is 80."""

_PUBLISHED = """\
`tracedb kernels train FOLDER -o MODELS` reads their files as published, anywhere below
the folder, CSV and Parquet; units in brackets may follow a column's name. If no column
names the measured GPU, the nearest folder does (`a100`, `h100_sxm`), so keep the
project's folders. aiconfigurator's files are also in its wheel (`aiconfigurator-core`).
Files without a corresponding PyTorch op are not read: mixtures of experts, latent
attention, custom all-reduces, keys in fp8, four-bit types. A Git LFS pointer is
reported as such. These are other people's measurements: their licences cover what is
derived from them."""

_UNSEEN = """\
Models of the nearest three other pieces of hardware in the same data, none of which has
seen a random fifth of it, with the band that the others required when they were held
out. For comparison: the roofline that is used where no model is, whose shares of the
peaks were fitted to these data, and the data sheet's roofline. If times include the
launch (NeuSight, MLPredict), no roofline accounts for it."""

_OTHER_HARNESS = """\
Rows in the range of the models of other harnesses in the same file on the same
hardware, with the band that other pairs of harnesses required. Harnesses of different
projects are in `docs/kernel-transfer.md`."""


GOAL_SETS = (
    # what, filter, split, GMAE, MAPE
    *(
        ("bf16 GEMM, A100 H100 B200", ("gemm", "gemm", "bfloat16"), split, *goal)
        for split, goal in (
            ("random", (2.5, 4.5)),
            ("shape", (2.7, 4.8)),
            ("largest", (3.5, 5.5)),
        )
    ),
    ("fp32 linear, P100 V100 T4 A100", ("gemm", "linear", "float32"), "shape", 6, 10),
    ("fp32 bmm, P100 V100 T4 A100", ("gemm", "bmm", "float32"), "shape", 7, 12),
)
"""Rows of the table of goals, except memory-bound ops and collectives."""

CPU_FAMILIES = (
    *("gemm", "embedding", "embedding_backward"),
    *("embedding_bag", "embedding_bag_backward"),
)
"""Those of tracedb's own measurements that have a goal."""
_ASIDE = ("L40S", "P4", "A40", "CPU")
"""Hardware that is listed, but not part of a goal's median."""


def goals(scores: pl.DataFrame) -> list[str]:
    """Each goal and result, with the network's result on the same split."""
    rows = []
    counted = scores.filter(~pl.col("hardware").is_in(_ASIDE))
    for what, (family, op, dtype), split, gmae, mape in GOAL_SETS:
        chosen = counted.filter(
            (pl.col("family") == family)
            & (pl.col("op") == op)
            & (pl.col("dtype") == dtype)
            & (pl.col("source") != "pipeweave")
            & (pl.col("split") == split)
        )
        rows += _goal_row(f"{what}: {split}", chosen, gmae, mape)
    l40s = scores.filter((pl.col("hardware") == "L40S") & (pl.col("op") == "gemm"))
    for split in SPLITS:
        rows += _goal_row(f"bf16 GEMM, L40S: {split}", _of(l40s, split))
    memory = counted.filter(pl.col("family").is_in(MEMORY_BOUND))
    rows += _goal_row("memory-bound ops: random", _of(memory, "random"), 1.5)
    rows += _goal_row(
        "memory-bound ops: held-out dimension", _of(memory, "shape"), 3, 5
    )
    nccl = counted.filter(
        (pl.col("family") == "collective") & (pl.col("source") == "aiconfigurator")
    )
    rows += _goal_row("NCCL: random, in range", _of(nccl, "random"), 3.5)
    ranks = counted.filter(pl.col("family") == "collective")
    rows += _goal_row("collectives: held-out rank count", _of(ranks, "shape"), 5)
    own = _of(scores.filter(pl.col("hardware") == "CPU"), "shape")
    for family in CPU_FAMILIES:
        chosen = own.filter(pl.col("family") == family)
        rows += _goal_row(f"{family} on this CPU: shape", chosen, 10)
    head = ["split", "goal", "model", "band holds", "roofline", "data sheet", "MLP"]
    return table([*head, "met"], rows, left=1)


def _of(scores: pl.DataFrame, split: str) -> pl.DataFrame:
    return scores.filter(pl.col("split") == split)


def _goal_row(
    what: str,
    scores: pl.DataFrame,
    gmae: float | None = None,
    mape: float | None = None,
) -> list[list[str]]:
    """One row, if the split was evaluated."""
    if scores.is_empty():
        return []
    found = {name: _medians(scores, name) for name in PREDICTORS}
    reached = found["model"]
    bounds = zip(("gmae", "mape"), (gmae, mape), strict=True)
    met = all(b is None or reached[n] <= b for n, b in bounds)
    goal = " / ".join(f"{b:g}" for b in (gmae, mape) if b is not None)
    pairs = [
        f"{found[name]['gmae']:.1f} / {found[name]['mape']:.1f}"
        for name in ("roofline", "datasheet", "mlp")
    ]
    return [
        [
            what,
            goal,
            f"{reached['gmae']:.1f} / {reached['mape']:.1f}",
            f"{reached['coverage']:.0f}",
            *pairs,
            ("yes" if met else "no") if goal else "",
        ]
    ]


def _medians(scores: pl.DataFrame, predictor: str) -> dict[str, float]:
    """[%] Medians over a predictor's keys."""
    chosen = scores.filter(pl.col("predictor") == predictor)
    names = ("gmae", "mape", "p90", "coverage")
    found = {}
    for name in names:
        median = chosen[f"{name}_share"].median()
        found[name] = float("nan") if median is None else 100 * float(str(median))
    return found


def every_op(scores: pl.DataFrame) -> list[str]:
    """A row for each family, op, dtype, source and split."""
    within = scores.filter(pl.col("split").is_in(list(SPLITS)))
    rows = []
    keys = ["family", "op", "dtype", "source", "split"]
    order = pl.col("split").replace_strict({n: i for i, n in enumerate(SPLITS)})
    for key, part in within.sort(*keys[:4], order).group_by(keys, maintain_order=True):
        found = {name: _medians(part, name) for name in PREDICTORS}
        rows.append(
            [
                *(str(word) for word in key),
                str(part.filter(pl.col("predictor") == "model").height),
                _three(found["model"]),
                f"{found['model']['coverage']:.0f}",
                *(_three(found[name]) for name in PREDICTORS[1:]),
            ]
        )
    head = ["family", "op", "dtype", "source", "split", "keys", "model", "band holds"]
    return table([*head, "roofline", "data sheet", "MLP"], rows, left=5)


def _three(found: dict[str, float]) -> str:
    return " / ".join(f"{found[name]:.1f}" for name in ("gmae", "mape", "p90"))


def unseen(scores: pl.DataFrame) -> list[str]:
    """A row for each family, op and source with several kinds of hardware."""
    return _across(scores.filter(pl.col("split") == "hardware"), "held out in turn")


def other_harness(scores: pl.DataFrame) -> list[str]:
    """A row for each family, op and source measured by several harnesses."""
    return _across(scores.filter(pl.col("split") == "campaign"), "on")


def _across(scores: pl.DataFrame, what: str) -> list[str]:
    rows = []
    keys = ["family", "op", "dtype", "source"]
    names = ("model", "usual", "datasheet")
    for key, part in scores.sort(*keys).group_by(keys, maintain_order=True):
        model, *others = (_medians(part, name) for name in names)
        hardware = ", ".join(part["hardware"].unique().sort().to_list())
        row = [_three(model), f"{model['coverage']:.0f}", *map(_three, others)]
        rows.append([*(str(word) for word in key), hardware, *row])
    head = [*keys, what, "model", "band holds", "usual roofline", "data sheet"]
    return table(head, rows, left=5)


def data_section() -> list[str]:
    """Supported formats, and rows dropped from these files."""
    licences = [[name, *text.rsplit(", ", 1)] for name, text in LICENCES.items()]
    lines = ["Public data come from these projects on GitHub:"]
    lines += table(["source", "repository", "licence"], licences, left=3)
    lines += [_PUBLISHED]
    published = [[f.project, f.files, f"`{f.columns}`"] for f in PUBLISHED]
    lines += table(["source", "files", "columns, at least"], published, left=3)
    formats = [[r.source, f"`{r.columns}`"] for r in READERS]
    lines += ["Tables of their shapes, recognized by exactly these columns:"]
    lines += table(["source", "columns"], formats, left=2)
    dropped = read_measurements([DATA]).dropped
    rows = [[*name.split(": ", 1), f"{count:,}"] for name, count in dropped.items()]
    lines += ["Rows known to be wrong, which are dropped:"]
    return lines + table(["file", "why", "rows"], rows, left=2)


def train_all(*, is_cached: bool) -> dict[str, Any] | None:
    """Cost of training on all files and of bulk prediction (cached)."""
    digest = hashlib.sha256(code(FAMILIES)).hexdigest()[:16]
    kept = cache() / f"kernels-training-{digest}.json"
    if is_cached and not kept.exists():
        return None
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            kept.write_text(json.dumps(_trained(Path(folder))))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def _trained(folder: Path) -> dict[str, Any]:
    started = time.perf_counter()
    clock = Clock()
    with clock:
        done = kernels.train([DATA], folder, tell)
    sizes = [path.stat().st_size for path in done.paths]
    return {
        "models": len(sizes),
        "minutes": (time.perf_counter() - started) / 60,
        "cpu_minutes": clock.cpu_s / 60,
        "megabytes": sum(sizes) / 1e6,
        "largest_megabytes": max(sizes) / 1e6,
        "speeds": speed(kernels.load(folder)),
    }


def training_section(found: dict[str, Any] | None) -> list[str]:
    """Cost of training, and prediction speed."""
    if found is None:
        return ["Not measured."]
    sentence = (
        f"All {found['models']} models of these files were trained in "
        f"{found['minutes']:.0f} minutes ({found['cpu_minutes']:.1f} CPU minutes; with "
        f"other work on the machine). Their files take "
        f"{found['megabytes']:.0f} MB, the largest {found['largest_megabytes']:.1f} MB."
    )
    return [sentence, *_speed_table(found["speeds"])]


def shipped_section() -> list[str]:
    """Cost of reading the shipped models, and of predicting with them."""
    opening, reading = Clock(), Clock()
    with opening:
        models = kernels.shipped()
    with reading:
        number = len(models.models)
    sentence = (
        f"The {number} models that ship with tracedb are opened in {opening.cpu_s:.2f} "
        f"CPU seconds. Predictions read those they need; all are read in "
        f"{reading.cpu_s:.2f}. A GPU that was not measured asks up to {NEAREST} others:"
    )
    return [sentence, *_speed_table(speed(models.serving(), "A100 PCIe"))]


def _speed_table(speeds: list[list[str]]) -> list[str]:
    head = ["shapes, all different", "number", "CPU seconds", "per CPU second"]
    return table(head, speeds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate, train, and write the page."""
    asked = parser(__doc__)
    asked.add_argument("--only", metavar="FILE", help="evaluate files named so")
    asked.add_argument(
        "--cached", action="store_true", help="write what was evaluated before alone"
    )
    asked.add_argument(
        "--data", action="store_true", help="write the section on data alone"
    )
    chosen = asked.parse_args(arguments)
    if not DATA.exists():
        asked.exit(message=f"{DATA.name} is absent: nothing to evaluate\n")
    if chosen.data:
        section = "\n".join(_spaced(["## Data", *data_section()])) + "\n"
        publish_section(section, chosen.write)
        return
    shipped = shipped_section()  # First: later they are open already.
    files = [path for path in data_files() if (chosen.only or "") in path.name]
    found = {path.name: evaluated(path, is_cached=chosen.cached) for path in files}
    scores = pl.concat(score for score in found.values() if score is not None)
    if chosen.write is None:
        print(scores.write_csv())
        return
    absent = [name for name, score in found.items() if score is None]
    trained = train_all(is_cached=chosen.cached)
    publish(page(scores, absent, trained, shipped), chosen.write)


if __name__ == "__main__":
    main()
