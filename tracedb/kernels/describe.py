"""A model in words and numbers, for a person or a program to read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from .predictor import DISTANCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Model
    from .transfer import Verdict

Fact = tuple[str, str, str]
"""A part of the model, a name in it, its value as text."""


def summary(model: Model) -> dict[str, Any]:
    """One row: the key, what it was trained on, its scores on held-out rows.

    Scores are those nearest to the data: at known combinations, else at new ones.
    """
    scores = model.predictor.scores
    nearest = next(iter(sorted(scores, key=_nearness)), None)
    score = asdict(scores[nearest]) if nearest else {}
    return {
        **asdict(model.key),
        "shapes": model.rows,
        "kind": _kind(model),
        "scored": nearest,
        **{name: score.get(name) for name in ("gmae_share", "mape_share", "p90_share")},
        "repeat_noise_share": model.provenance.get("repeat_noise_share"),
        "licence": model.provenance.get("licence"),
        "files": ", ".join(data["file"] for data in model.provenance["data"]),
        "trained_at": model.provenance["trained_at"],
    }


def _nearness(distance: str) -> int:
    return DISTANCES.index(distance)


def _kind(model: Model) -> str:
    """Whether the base stands alone, or forests go with it."""
    base = type(model.predictor.core.base).__name__
    base = {"Roofline": "roofline", "CollectiveTable": "table"}[base]
    return f"{base} and forests" if model.predictor.core.forests else f"{base} alone"


def described(model: Model) -> Iterator[Fact]:
    """Every fact of a model but its trees."""
    predictor = model.predictor
    yield from (("key", name, value) for name, value in asdict(model.key).items())
    yield "model", "kind", _kind(model)
    yield from (("hardware", n, f"{v:g}") for n, v in model.hardware.items())
    for name, value in predictor.core.base.constants().items():
        yield "base", name, f"{value:.6g}"
    for name, forest in predictor.core.forests.items():
        yield "forest", name, f"{len(forest.first)} trees, {len(forest.value):,} nodes"
    for name, (low, high) in predictor.core.range.items():
        yield "range", name, f"{low:.6g} .. {high:.6g}"
    yield "mix", "within range", predictor.mix
    yield "mix", "reach beyond it", f"{predictor.reach:g}"
    for name, band in predictor.bands.items():
        ends = np.exp(band.low.min()), np.exp(band.high.max())
        yield "band", name, f"x {ends[0]:.3f} .. {ends[1]:.3f}"
    errors = model.harness_error.error
    yield "band", "of another harness, short kernels", f"x {_ends(errors[0])}"
    yield "band", "of another harness, long kernels", f"x {_ends(errors[-1])}"
    yield "band", "of other hardware", f"x {_ends(model.transfer.far.error)}"
    yield "band", "of a twin", f"x {_ends(model.transfer.near.error)}"
    yield from _transfer("other hardware", model.transfer.far)
    yield from _transfer("a twin", model.transfer.near)
    for name, score in predictor.scores.items():
        yield "score", name, _reported(asdict(score))
    for name, score in predictor.datasheet_scores.items():
        yield "data sheet's score", name, _reported(asdict(score))
    for name, value in model.provenance.items():
        yield from (("provenance", *fact) for fact in _leaves(name, value))
    for number, name in enumerate(predictor.core.feature_names, 1):
        yield "feature", str(number), name


def _transfer(part: str, verdict: Verdict) -> Iterator[Fact]:
    """What is used for a GPU that was not measured, and why."""
    serving = "such models" if verdict.is_better else "the roofline"
    yield part, "served by", serving
    yield part, "held out in turn", str(verdict.hardware)
    if verdict.hardware:
        yield part, "part of usual shares", f"{verdict.mix.usual_part:g}"
        yield part, "weight of the pooled model", f"{verdict.mix.pooled:.2g}"
        yield part, "mean log error", f"{verdict.mean_error:.3f}"
        of_roofline = f"{verdict.roofline_error:.3f}"
        yield part, "mean log error of the roofline", of_roofline


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 (JSON)
    """What lies in a value of JSON, each with the way to it, as `data.1.file`."""
    if isinstance(value, list):
        value = dict(enumerate(value, 1))
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}", part)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)


def _ends(error: float) -> str:
    return f"{np.exp(-error):.3f} .. {np.exp(error):.3f}"


def _reported(score: dict[str, Any]) -> str:
    shares = {n.removesuffix("_share"): v for n, v in score.items() if n != "rows"}
    reported = (
        f"{name} {100 * v:.2f} %" for name, v in shares.items() if v is not None
    )
    return f"{', '.join(reported)} of {score['rows']:,} held-out rows"
