"""An edit means the same in Python, as a line, in JSON, in TOML and as a stored row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs
from support import SAMPLES, Ingested

import tracedb
from tracedb import Edit
from tracedb.whatif.action import ACTIONS, DTYPES, RULES, STATISTICS, VALUES
from tracedb.whatif.edit_line import parse
from tracedb.whatif.scenario import check, of_scenario, read_scenarios, stored_edits
from tracedb.whatif.selection import FIELDS, NUMBERS, TEXTS, TYPES, Phase

TEXT = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
    st.sampled_from(
        [
            "aten::*",
            "x0.5",
            "=5us",
            "remove",
            "host",
            "T1",
            "5",
            "1e3",
            "5us",
            '"',
            "\\",
        ]
    ),
    st.sampled_from(
        ["/gemm|conv/", "/a b/", "//", "/", "a=b", "op=x", " ", "- 1", "null"]
    ),
)
NUMBER = st.one_of(st.integers(0, 10**6), st.sampled_from(["1", "3..5", "1,3..5"]))
NS = st.integers(0, 10**15)
OF_VALUE: dict[str, st.SearchStrategy[Any]] = {
    "factor": st.one_of(st.floats(0, 1e9), st.sampled_from([0, 1, 1e-300, 1e9])),
    "add_ns": st.integers(-(10**15), 10**15),
    "set_to": st.sampled_from(STATISTICS),
    "from_run": st.integers(0, 10**9),
    "to_gpu": TEXT.filter(bool),
    "to_dtype": st.sampled_from(DTYPES),
    "to_batch": st.integers(1, 10**9),
    "from_batch": st.integers(1, 10**9),
    "to_ranks": st.integers(2, 10**6),
    "ranks_per_node": st.integers(1, 10**6),
    "network": st.floats(1e-3, 1e6),
    "gaps": st.sampled_from(["longest", "all"]),
    "place": st.sampled_from(["before", "after"]),
    "to_stream": st.integers(0, 10**17),
    "until": TEXT,
    "workers": st.integers(1, 1000),
    "ahead": st.integers(1, 1000),
} | dict.fromkeys(("set_ns", "host_ns", "gpu_ns", "gap_ns"), NS)
OF_FIELD: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(TEXTS, TEXT),
    **dict.fromkeys(NUMBERS, NUMBER),
    "part": st.just("self"),
    "phase": st.sampled_from(get_args(Phase)),
    "sql": TEXT,
}


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    """A valid edit with any fields, and any action that its target has."""
    target = draw(st.sampled_from([*TYPES]))
    actions = [name for name in ACTIONS if target in RULES[name].targets]
    action = draw(st.sampled_from(actions))
    rule = RULES[action]
    fields: dict[str, Any] = {"target": target, "action": action}
    fields["type"] = draw(st.sampled_from([None, *TYPES[target]]))
    names = draw(st.sets(st.sampled_from(FIELDS), max_size=3))
    values = {*rule.needs, *draw(st.sets(st.sampled_from(VALUES), max_size=2))}
    if rule.one:
        values.add(draw(st.sampled_from(rule.one)))
    fields |= {name: draw(OF_FIELD[name]) for name in sorted(names)}
    fields |= {name: draw(OF_VALUE[name]) for name in sorted(values & {*rule.values})}
    edit = Edit(scenario="a b", **fields)
    assume(is_valid(edit))
    return edit


def is_valid(edit: Edit) -> bool:
    """Whether the edit may be made."""
    try:
        check([edit])
    except tracedb.ScenarioError:
        return False
    return True


def given_of(edit: Edit) -> dict[str, Any]:
    """The fields that are given."""
    known = structs.asdict(edit)
    return {k: v for k, v in known.items() if v is not None and k != "scenario"}


def line_of(edit: Edit) -> str:
    """The edit as a line, with its texts in quotes."""
    fields = given_of(edit)
    target = fields.pop("target")

    def word(value: object) -> str:
        text = value if isinstance(value, str) else repr(value)
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    return " ".join([target, *(f"{k}={word(v)}" for k, v in fields.items())])


def toml_of(edit: Edit) -> str:
    """The edit as a TOML file of one scenario."""

    def value(of: object) -> str:
        if not isinstance(of, str):
            return repr(of)
        return json.dumps(of, ensure_ascii=False).replace("\x7f", "\\u007f")

    rows = [f"{name} = {value(of)}" for name, of in given_of(edit).items()]
    return "\n".join([f'[["{edit.scenario}"]]', *rows])


def meaning(edit: Edit) -> dict[str, Any]:
    """The fields of an edit, with numbers that select as texts."""
    fields = given_of(edit)
    texts = {name: str(fields[name]) for name in NUMBERS if name in fields}
    return fields | texts | {"scenario": edit.scenario}


@pytest.fixture(scope="module")
def database() -> Iterator[tracedb.Database]:
    """A database to store edits in."""
    with tracedb.open() as opened:
        yield opened


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(edit=edits())
def test_all_forms_of_an_edit_are_the_same(
    edit: Edit, database: tracedb.Database, tmp_path: Path
) -> None:
    """Whatever the names and numbers."""
    fields = given_of(edit)
    (tmp_path / "a.json").write_text(json.dumps({edit.scenario: [fields]}))
    (tmp_path / "a.toml").write_text(toml_of(edit))
    row = database.connection
    row.execute("DELETE FROM reference.scenario")
    names = ["scenario", *fields]
    row.execute(
        f"INSERT INTO reference.scenario ({', '.join(names)}) "
        f"VALUES ({', '.join('?' for _ in names)})",
        [edit.scenario, *fields.values()],
    )
    forms = {
        "line": of_scenario(edit.scenario, parse(line_of(edit))),
        "JSON": read_scenarios(tmp_path / "a.json")[0],
        "TOML": read_scenarios(tmp_path / "a.toml")[0],
        "row": stored_edits(row)[0],
    }
    for form, found in forms.items():
        assert meaning(found) == meaning(edit), form


WRONG = [
    ({"factor": -1}, "factor is -1; it must be a number from 0 to 1e9"),
    ({"factor": "0.5"}, 'factor is "0.5"; it must be a number'),
    ({"factor": float("nan")}, "factor is NaN"),
    ({"add_ns": 0.5}, "add_ns is 0.5; it must be a whole number of nanoseconds"),
    ({"target": "cpu", "factor": 1}, 'target is "cpu"; it must be one of host, gpu'),
    ({"target": None, "factor": 1}, "target is null; it must be one of host, gpu"),
    ({"scenario": 5, "factor": 1}, "the name of a scenario must be a text"),
    ({"action": "sacle", "factor": 1}, 'action is "sacle"; it must be one of scale'),
    ({"action": "set", "set_to": "median"}, 'set_to is "median"; it must be one of'),
    ({"action": "set", "set_ns": -5}, "set_ns is -5; it must be a whole number"),
    ({"action": "set", "to_dtype": "bfloat16"}, 'to_dtype is "bfloat16"'),
    ({"step": [1], "factor": 1}, "step is [1]; it must be a whole number, or a text"),
    ({"name": 5, "factor": 1}, "name is 5; it must be a pattern"),
]


@pytest.mark.parametrize(("fields", "line"), WRONG)
def test_wrong_values_in_python_are_reported(fields: dict[str, Any], line: str) -> None:
    """With the line that a file with them gets; types are not checked otherwise."""
    edit = Edit(**{"scenario": "a", "target": "gpu"} | fields)
    with pytest.raises(tracedb.ScenarioError) as raised:
        check([edit])
    assert line in str(raised.value)


def test_numbers_of_numpy_are_numbers(ingested: Ingested) -> None:
    """As from a sweep with `np.linspace`."""
    own: dict[str, Any] = {"factor": 0.5, "add_ns": 3, "step": 2}
    made: dict[str, Any] = {
        "factor": np.float32(0.5),
        "add_ns": np.int64(3),
        "step": np.int64(2),
    }
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as opened:
        usual, found = (
            opened.scenarios([Edit(scenario="a", target="gpu", **of)])
            for of in (own, made)
        )
    assert usual.equals(found)
