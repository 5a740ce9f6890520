"""The module tree: totals are sums of the modules' own parts."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from plain_answers import module_class
from support import CORPUS, SAMPLES, DatabaseOf, rows

QWEN = CORPUS / "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
NORMS = CORPUS / "tracelens/normalization_layer_test.json.gz"
RECORDED = [
    pytest.param(SAMPLES / "loop_cpu/loop.kineto.json.gz", id="loop"),
    pytest.param(QWEN, id="qwen"),
    pytest.param(NORMS, id="norms"),
]


def loaded(path: Path) -> list[dict[str, Any]]:
    """The events of a trace with a duration."""
    with gzip.open(path) as file:
        return [
            e
            for e in json.load(file, parse_float=Decimal)["traceEvents"]
            if e.get("ph") == "X"
        ]


def bounds(event: dict[str, Any]) -> tuple[int, int]:
    """Begin and end in nanoseconds."""
    begin = int(1000 * event["ts"])
    return begin, begin + int(1000 * event["dur"])


def calls(path: Path) -> list[tuple[str, int, int]]:
    """Path, begin and end of each module call, by a stack per thread."""
    found, opened = [], dict[str, list[tuple[str, int]]]()
    modules = [e for e in loaded(path) if e["name"].startswith("nn.Module: ")]
    for event in sorted(modules, key=lambda e: (bounds(e)[0], -bounds(e)[1])):
        begin, end = bounds(event)
        stack = opened.setdefault(str(event["tid"]), [])
        while stack and stack[-1][1] <= begin:
            stack.pop()
        around = f"{stack[-1][0]}/" if stack else ""
        name = around + event["name"].removeprefix("nn.Module: ")
        if end > begin:
            stack.append((name, end))
            found.append((name, begin, end))
    return found


@pytest.mark.parametrize("path", RECORDED)
def test_forward_time_against_a_plain_loop(path: Path, database_of: DatabaseOf) -> None:
    """Time of calls, and time outside of inner calls, agree for each module."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    total, count, own = Counter[str](), Counter[str](), Counter[str]()
    for name, begin, end in calls(path):
        total[name] += end - begin
        count[name] += 1
        own[name] += end - begin
        if "/" in name:
            own[name.rpartition("/")[0]] -= end - begin
    found = rows(
        database_of(path),
        "SELECT module, call_count, forward_ns, own_forward_ns "
        "FROM question.module_tree WHERE module IS NOT NULL ORDER BY module",
    )
    assert [row[:2] for row in found] == sorted(count.items())
    for name, _, forward, outside in found:
        assert forward == total[name]
        assert outside == own[name]


@pytest.mark.parametrize("path", RECORDED)
def test_equal_modules_are_summed(path: Path, database_of: DatabaseOf) -> None:
    """Modules with the same classes in their paths are one row; shares sum to one."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    total, count = Counter[str](), Counter[str]()
    modules: dict[str, set[str]] = {}
    for name, begin, end in calls(path):
        class_ = module_class(name)
        total[class_] += end - begin
        count[class_] += 1
        modules.setdefault(class_, set()).add(name)
    database = database_of(path)
    found = rows(
        database,
        "SELECT module, module_count, call_count, forward_ns "
        "FROM question.module_class WHERE module IS NOT NULL ORDER BY module",
    )
    assert found == [
        (class_, len(modules[class_]), count[class_], total[class_])
        for class_ in sorted(total)
    ]
    for share in ("path_share", "gpu_share"):
        whole = f"SELECT sum({share}) FROM question.module_class"
        roots = f"{whole} WHERE module IS NULL OR NOT contains(module, '/')"
        assert rows(database, roots)[0][0] in (None, pytest.approx(1))


@pytest.mark.parametrize("path", RECORDED)
def test_totals_are_sums(path: Path, database_of: DatabaseOf) -> None:
    """A module's total is its own part plus its children; the root's is everything."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(path)
    parts = ("forward", "backward", "gpu_forward", "gpu_backward", "path")
    law = " AND ".join(f"{part}_ns = own_{part}_ns + inner_{part}_ns" for part in parts)
    inner = ", ".join(
        f"coalesce(sum(within.{part}_ns), 0) AS inner_{part}_ns" for part in parts
    )
    query = f"""
        SELECT bool_and({law})
        FROM question.module_tree AS tree
        INNER JOIN (
            SELECT tree.module, {inner}
            FROM question.module_tree AS tree
            LEFT JOIN question.module_tree AS within
                ON
                    starts_with(within.module, tree.module || '/')
                    AND within.depth = tree.depth + 1
            WHERE tree.module IS NOT NULL
            GROUP BY tree.module
        ) AS summed ON tree.module = summed.module
    """
    assert rows(database, query) == [(True,)]
    roots = """
        SELECT sum(gpu_forward_ns + gpu_backward_ns)::BIGINT, sum(path_ns)::BIGINT
        FROM question.module_tree WHERE depth = 0 OR module IS NULL
    """
    whole = """
        SELECT
            (
                SELECT coalesce(sum(end_ns - start_ns), 0)::BIGINT
                FROM staging.gpu_op WHERE kind <> 'other'
            ),
            (SELECT sum(time_ns)::BIGINT FROM question.lever)
    """
    assert rows(database, roots) == rows(database, whole)
