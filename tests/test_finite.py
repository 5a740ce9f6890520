"""Questions never divide by zero: shares of nothing are NULL."""

from __future__ import annotations

import re

from support import ROOT

# Above 0 by a condition of the same query.
GUARDED = {
    "kernel_error": ("problem_ns", "sum(measured_ns)", "measured_ns"),
    "prediction_guess": ("active_ns", "measured_ns"),
    "prediction_band": ("predicted_ns", "count(*)"),
    "exposed_communication": ("communication_ns",),
    "collective_kernel": ("count(*)", "device_count"),
    # Known hardware has peaks.
    "efficiency_by_step": ("peak_flops_per_second", "peak_bytes_per_second"),
    # Counts of rows that exist.
    "diff_noise": ("a_count", "b_count"),
    "start_noise": ("start_count",),
    # At least 1.
    "phase": ("step_count",),
    "lever": ("any_value(paths.path_count)",),
    # Guarded by its CASE: at least four values.
    "rank_test_p": ("((len(one)", "(1"),
    "scenario_path": ("max(base.path_count)", "max(own.path_count)"),
    "scenario_saving": ("base.predicted_ns", "step_count"),
}
_CODE = re.compile(r"--.*|'[^']*'")
_DIVISOR = re.compile(r"(?<!/)/(?!/)\s*([\w.(*)]+)")


def test_no_question_divides_by_zero() -> None:
    """A step, a period or all GPU work may take 0 ns; DuckDB's 0 / 0 is NaN."""
    wrong = []
    for path in sorted((ROOT / "sql" / "70_question").glob("*.sql")):
        code = _CODE.sub("", path.read_text())
        for divisor in _DIVISOR.findall(code):
            known = divisor.startswith(GUARDED.get(path.stem, "nullif("))
            is_safe = re.match(r"nullif\(|any_value\(nullif\(|[1-9]", divisor)
            if not (is_safe or known):
                wrong.append(f"{path.name}: / {divisor}")
    assert wrong == []
