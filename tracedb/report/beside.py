"""The sections of a report that compare its run with another run and scenarios."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracedb.report.sections import Section, shown, with_rows

if TYPE_CHECKING:
    import duckdb

    from tracedb.diff import Difference
    from tracedb.part import Part
    from tracedb.report.sections import Shown

_NAMES = {"a": "against", "b": "here"}
"""The prefixes of both sides' columns, and their names in a report."""

_DIFFERENCE = (
    Section(
        "difference_period",
        "Compared with the other run",
        "Step times of this run (here) and of the other (against): {other}. A rank "
        "test over steps decides whether the difference is significant.",
        "period",
    ),
    Section(
        "difference_kind",
        "Critical path by kind, compared",
        "Mean time of a step's critical path by kind. Red: more than in the other run; "
        "blue: less.",
        "kind",
        picture="changes",
        empty="The critical paths are the same.",
    ),
    Section(
        "difference_path",
        "Critical path by place, compared",
        "The same by place: op, call, or Python function between ops.",
        "path",
        picture="changes",
        empty="The critical paths are the same.",
    ),
    Section(
        "difference_work",
        "Ops and GPU work, compared",
        "Matched by module, pass, op, shape and order, not by the name of GPU work. "
        "Times are means per step.",
        "work",
        empty="All ops and GPU work take the same time.",
    ),
)
_SCENARIOS = (
    Section(
        "scenarios",
        "Scenarios",
        "The mean period of a step with the edits of each scenario (tick) and without "
        "them (dot). The bar shows where four of five steps are expected. `tracedb "
        "whatif` shows more.",
        """
SELECT
    scenario, method, step_count, baseline_ns, predicted_ns, low_ns, high_ns,
    change_ns, change_share, change_low_ns, change_high_ns
FROM question.scenario_summary
WHERE run_id = $run
ORDER BY predicted_ns, scenario""",
        picture="ranges",
    ),
    Section(
        "scenario_path",
        "What bounds the steps then",
        "The mean critical path of a step by kind and name, with and without the "
        "edits.",
        """
SELECT scenario, kind, name, baseline_ns, predicted_ns, change_ns
FROM question.scenario_path
WHERE run_id = $run
ORDER BY scenario, abs(change_ns) DESC, kind, name""",
        empty="The critical paths do not change.",
    ),
)


def difference_sections(found: Difference) -> list[Shown]:
    """The sections of a difference, whose first side is the other run."""
    sides = "\n".join(f"-- {side}" for side in found.sides)
    made = []
    for section in _DIFFERENCE:
        frame = found[section.query]
        if "run_a" in frame.columns:
            frame = frame.drop("run_a", "run_b")
        elif "change_ns" in frame.columns:
            frame = frame.filter(frame["change_ns"] != 0)
        columns = [_named(name) for name in frame.columns]
        query = f"{sides}\nFROM question.diff_{section.query}(1, 2)"
        words = section.words.format(other=found.sides[0])
        named = replace(section, words=words)
        made.append(with_rows(named, query, columns, frame.rows()))
    return made


def _named(column: str) -> str:
    side, _, rest = column.partition("_")
    return f"{_NAMES[side]}_{rest}" if side in _NAMES else column


def scenario_sections(
    connection: duckdb.DuckDBPyConnection, run: int, part: Part
) -> list[Shown]:
    """The sections on the effect of scenarios, which the connection has simulated."""
    return [shown(connection, section, run, part=part) for section in _SCENARIOS]
