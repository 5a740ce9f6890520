"""Altair charts of a run for notebooks, with the data of a report.

Each chart shows a section of the report (`tracedb/report/sections.py`), whose query
gives the rows. Altair embeds the data unescaped in a script of the page, so names are
changed where they could end that script.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import cycle
from typing import TYPE_CHECKING, Any

from tracedb.errors import QueryError
from tracedb.extras import import_extra
from tracedb.report import find_run
from tracedb.report.colours import COLOURS, MORE_COLOURS
from tracedb.report.sections import SECTIONS
from tracedb.summary.words import WORDS
from tracedb.words import cut_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import duckdb
    import polars as pl

MOST_ROWS = 5000
"""Altair refuses more rows."""
_MOST_NAMES = 20
_NAME = 60
_WIDTH = 640
_LABELS = ("rank", "trace_id", "device", "role", "thread_id")
"""Columns that label a row, where they differ."""
_KINDS = ("kind", "type")
"""Columns with kinds of time, which are shown in words."""
_MARKUP = re.compile(r"<(?=[/!])")
_JOINER = "\N{WORD JOINER}"
"""An invisible character that breaks up HTML tags."""


def plot(connection: duckdb.DuckDBPyConnection, name: str, run: int | None) -> Any:  # noqa: ANN401 (a chart of a package that may be missing)
    """Draw a chart of a run, by default the one with the most events.

    Raises `QueryError` for an unknown name or run, or if there is nothing to draw;
    `MissingPackageError` without Altair.
    """
    if name not in PLOTS:
        raise QueryError(f"no plot {name}; available: {', '.join(PLOTS)}")
    section = next(one for one in SECTIONS if one.name == name)
    altair = import_extra("altair", "notebook", "a plot")
    chosen = find_run(connection, run)
    query = section.query.replace("$run", str(chosen.run_id))
    frame = connection.sql(query).pl()
    if frame.is_empty():
        raise QueryError(f"nothing to draw: {section.empty}")
    title = {"text": section.title, "subtitle": _texts([chosen.name])[chosen.name]}
    return PLOTS[name](altair, _drawable(frame)).properties(title=title, width=_WIDTH)


def _drawable(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows with times in ms, safe names, kinds in words, and a label: `of`."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    times = [name for name in frame.columns if name.endswith("_ns")]
    kinds = [name for name in _KINDS if name in frame.columns]
    labels = [
        pl.format(f"{name.removesuffix('_id')} {{}}", pl.col(name))
        for name in _labels(frame)
    ]
    return frame.with_columns(
        *(pl.col(name).replace(WORDS) for name in kinds),
        *(
            pl.col(name).replace(_texts(frame[name].drop_nulls().unique().sort()))
            for name in texts
            if name not in kinds
        ),
        *(
            (pl.col(name).cast(pl.Float64) / 1e6).alias(f"{name[:-3]}_ms")
            for name in times
        ),
        pl.concat_str([pl.lit(""), *labels], separator=", ", ignore_nulls=True)
        .str.strip_prefix(", ")
        .alias("of"),
    )


def _labels(frame: pl.DataFrame) -> list[str]:
    """The columns that tell rows apart; of traces with ranks, the rank is enough."""
    found = [name for name in _LABELS if name in frame.columns]
    if "rank" in found and "trace_id" in found:
        ranks = frame.select("rank", "trace_id").unique()
        is_told = ranks["rank"].null_count() == 0 and ranks["rank"].is_unique().all()
        found.remove("trace_id" if is_told else "rank")
    told = [name for name in found if frame[name].n_unique() > 1]
    return told or [name for name in ("role", "device") if name in found] or found[:1]


def _texts(names: Iterable[str]) -> dict[str, str]:
    """Names as charts show them: short and safe; different names stay different."""
    every = [*names]
    plain = [
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
        for name in every
    ]
    short = cut_distinct(plain, _NAME)
    # Bars of one text would be one bar.
    times, found = Counter(short), Counter[str]()
    texts = {}
    for name, text in zip(every, short, strict=True):
        found[text] += 1
        number = f" [{found[text]}]" if times[text] > 1 else ""
        texts[name] = _MARKUP.sub(f"<{_JOINER}", text + number)
    return texts


def _periods(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
    """The period of each step, one line per rank."""
    return (
        alt.Chart(frame.head(MOST_ROWS))
        .mark_line(point=True)
        .encode(
            x=alt.X("step:Q", scale=alt.Scale(nice=False), axis=_whole(alt, frame)),
            y=alt.Y("period_ms:Q", title="period [ms]"),
            color=alt.Color("of:N", title=None),
            tooltip=["of", "step", "period_ms", "host_ms"],
        )
    )


def _whole(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
    """An axis of steps with whole numbers only, each once."""
    steps = frame["step"].unique().sort().to_list()
    if len(steps) > _MOST_NAMES:
        return alt.Axis(format="d", tickMinStep=1)
    return alt.Axis(format="d", values=steps)


def _color(alt: Any, kinds: pl.Series) -> Any:  # noqa: ANN401 (of Altair)
    """The colors that kinds have in a report, by their words."""
    known = {WORDS.get(kind, kind): color for kind, color in COLOURS.items()}
    words, more = kinds.unique().sort().to_list(), cycle(MORE_COLOURS)
    colors = [known[word] if word in known else next(more) for word in words]
    scale = alt.Scale(domain=words, range=colors)
    return alt.Color(f"{kinds.name}:N", title=None, scale=scale)


def _bounds(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
    """The critical path of each step by kind: the mean of its ranks."""
    import polars as pl

    # A kind that a rank does not have takes none of its time.
    ranks = frame.group_by("step").agg(pl.col("trace_id").n_unique().alias("ranks"))
    means = (
        frame.group_by("step", "kind")
        .agg(pl.col("time_ms").sum())
        .join(ranks, on="step", nulls_equal=True)
        .with_columns(pl.col("time_ms") / pl.col("ranks"))
        .sort("step", "kind")
    )
    return (
        alt.Chart(means.head(MOST_ROWS))
        .mark_bar()
        .encode(
            x=alt.X("step:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("sum(time_ms):Q", title="critical path [ms], mean of ranks"),
            color=_color(alt, means["kind"]),
            tooltip=["step", "kind", "time_ms"],
        )
    )


def _shares(kind: str, time: str) -> Callable[[Any, Any], Any]:
    """The time of each device or thread by kind, one bar each."""
    import polars as pl

    def draw(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
        totals = frame.group_by("of", kind).agg(pl.col(time).sum()).sort("of", kind)
        return (
            alt.Chart(totals.head(MOST_ROWS))
            .mark_bar()
            .encode(
                x=alt.X(f"sum({time}):Q", stack="normalize", title="share of time"),
                y=alt.Y("of:N", title=None, axis=alt.Axis(labelLimit=400)),
                color=_color(alt, totals[kind]),
                tooltip=["of", kind, f"sum({time}):Q"],
            )
        )

    return draw


def _largest(name: str, time: str) -> Callable[[Any, Any], Any]:
    """The names with the most time, one bar each; time without a name by its kind."""
    import polars as pl

    def draw(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
        given = [pl.col(column) for column in (name, "kind") if column in frame.columns]
        totals = (
            frame.with_columns(pl.coalesce(*given, pl.lit("unknown")).alias(name))
            .group_by(name)
            .agg(pl.col(time).sum())
            .sort(time, name, descending=[True, False])
        )
        return (
            alt.Chart(totals.head(_MOST_NAMES))
            .mark_bar()
            .encode(
                x=alt.X(f"sum({time}):Q", title="time [ms]"),
                y=alt.Y(
                    f"{name}:N", sort="-x", title=None, axis=alt.Axis(labelLimit=400)
                ),
                tooltip=[name, f"sum({time}):Q"],
            )
        )

    return draw


def _roofline(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
    """The roofline plot: FLOP/s over FLOP per byte, with the roofline of each op."""
    import polars as pl

    known = frame.filter(pl.col("flops") > 0, pl.col("traffic_bytes") > 0)
    points = known.with_columns(
        (pl.col("flops") / pl.col("traffic_bytes")).alias("intensity"),
        (pl.col("flops") / pl.col("time_ms") / 1e9).alias("tflops"),
        (pl.col("flops") / pl.col("roofline_ms") / 1e9).alias("roof"),
    ).head(MOST_ROWS)
    log = alt.Scale(type="log")
    x = alt.X("intensity:Q", scale=log, title="FLOP per byte")
    tooltip = ["op", "family", "kernels", "time_ms", "roofline_ms", "tflops"]
    reached = (
        alt.Chart(points)
        .mark_point(filled=True)
        .encode(
            x=x,
            y=alt.Y("tflops:Q", scale=log, title="TFLOP/s"),
            size=alt.Size("time_ms:Q", title="time [ms]"),
            color=alt.Color("family:N"),
            tooltip=tooltip,
        )
    )
    # Of GPUs whose model is unknown, there are none.
    roofs = points.filter(pl.col("roof").is_finite())
    if roofs.is_empty():
        return reached
    ticks = alt.Chart(roofs).mark_tick(color="gray", thickness=2)
    return reached + ticks.encode(x=x, y=alt.Y("roof:Q", scale=log), tooltip=tooltip)


def _predictions(alt: Any, frame: pl.DataFrame) -> Any:  # noqa: ANN401 (of Altair)
    """Predicted over measured step times, with the diagonal."""
    import polars as pl

    frame = frame.head(MOST_ROWS)
    both = pl.concat([frame["measured_ms"], frame["predicted_ms"]]).drop_nulls()
    ends = pl.DataFrame({"time": [both.min(), both.max()]})
    scale = alt.Scale(zero=False)
    points = (
        alt.Chart(frame)
        .mark_point()
        .encode(
            x=alt.X("measured_ms:Q", title="measured [ms]", scale=scale),
            y=alt.Y("predicted_ms:Q", title="predicted [ms]", scale=scale),
            color=alt.Color("method:N"),
            tooltip=["of", "step", "method", "measured_ms", "predicted_ms"],
        )
    )
    same = alt.Chart(ends).mark_line(opacity=0.4, color="gray")
    return points + same.encode(x="time:Q", y="time:Q")


PLOTS: dict[str, Callable[[Any, Any], Any]] = {
    "periods": _periods,
    "bounds": _bounds,
    "path": _largest("name", "time_ms"),
    "idle": _shares("kind", "idle_ms"),
    "overheads": _shares("type", "time_ms"),
    "kernels": _largest("name", "time_ms"),
    "modules": _largest("module", "gpu_time_ms"),
    "roofline": _roofline,
    "predictions": _predictions,
}
"""The function that draws each chart, by the name of the report's section."""
