"""GPU work at another batch size, compared with programs of that batch size.

The models' predictions are taken as true, as in `test_changed_work`: a program whose
kernels take the predicted times of its shapes is simulated with the edit. The result
has to equal, to the nanosecond, the program with the other shapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from executed import assert_foretold, case, predict
from launched import FLOAT, Op, event, write
from msgspec import structs
from support import Ingested, rows
from test_changed_work import (
    BATCH,
    KERNELS,
    SUM,
    UNKNOWN,
    USUAL_NS,
    program_of,
    settings,
    training,
    written,
)

import tracedb
from tracedb import Edit
from tracedb.cli.main import tracedb as command
from tracedb.errors import ScenarioError
from tracedb.synthetic import Delays, Program
from tracedb.whatif.edit_line import parse, parse_setting

STEPS = 2
OF_STEPS = ":kernel step=1..2"
"""GPU work before that has unknown shapes."""
SHORT_NS = 2_000
"""GPU work without shapes is short enough to stay as it is."""
TIMES = (*(USUAL_NS,) * (KERNELS - 1), SHORT_NS)
SAME, TWICE, BACK = BATCH, 2 * BATCH, BATCH // 2
CHANGES = {
    "twice the batch": ("batch=768:kernel step=1..2",),
    "half of it": ("batch=192:kernel step=1..2",),
    "also another GPU and type": tuple(
        f"{text}:kernel step=1..2" for text in ("gpu=H200", "dtype=bf16", "batch=768")
    ),
}
SHAPES = f"""
    SELECT roofline_ns, model_ns
    FROM reference.changed_estimate
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    WHERE change = '{{}}' AND kind = 'kernel' AND name <> '{UNKNOWN}'
    ORDER BY start_ns
"""
OWN = """
    SELECT roofline_ns, estimate.predicted_ns
    FROM prediction.kernel_roofline AS roofline
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    LEFT JOIN reference.kernel_estimate AS estimate
        ON roofline.gpu_op_id = estimate.gpu_op_id AND likeness = 'alike'
    WHERE kind = 'kernel'
    ORDER BY start_ns
"""
TIMES_OF = """
    SELECT
        scenario,
        CASE basis
            WHEN 'model' THEN usual.model_ns
            WHEN 'roofline' THEN usual.roofline_ns
            ELSE measured_ns
        END,
        CASE basis
            WHEN 'model' THEN changed.model_ns
            WHEN 'roofline' THEN changed.roofline_ns
            ELSE round(measured_ns * ratio)::BIGINT
        END
    FROM prediction.changed_time AS time
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    INNER JOIN staging.step_work USING (gpu_op_id)
    INNER JOIN staging.step USING (step_id)
    LEFT JOIN reference.changed_estimate AS usual
        ON time.gpu_op_id = usual.gpu_op_id AND usual.change = ''
    LEFT JOIN reference.changed_estimate AS changed
        ON time.gpu_op_id = changed.gpu_op_id AND time.change = changed.change
    WHERE step = 1 AND kind = 'kernel'
    ORDER BY scenario, gpu_op.start_ns
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """A few training steps on an H100."""
    trace = tmp_path_factory.mktemp("batches") / "trace.json"
    return ingested(written(trace, *[training(TIMES)] * STEPS))


@pytest.fixture(scope="module")
def database(path: Path) -> Iterator[tracedb.Database]:
    """The same, opened."""
    with tracedb.open(path, read_only=True) as db:
        yield db


@pytest.fixture(scope="module")
def elsewhere(database: tracedb.Database) -> Iterator[tracedb.Database]:
    """Everything predicted for it at other batch sizes."""
    edits = [
        edit
        for name, texts in {
            **CHANGES,
            "as it is": ("batch=384",),
            "of products": ("batch=768:gemm*",),
            "given": ("batch=768:kernel step=1..2 from_batch=192",),
        }.items()
        for edit in settings(name, *texts)
    ]
    with database.simulate(["replay"], edits) as beside:
        yield beside


def test_another_batch_equals_a_program_that_has_it(
    elsewhere: tracedb.Database, tmp_path: Path
) -> None:
    """All GPU ops, steps and periods agree to the nanosecond."""
    usual: dict[str, list[int]] = {}
    there: dict[str, list[int]] = {}
    for name, usual_ns, changed_ns in rows(elsewhere, TIMES_OF):
        if name in CHANGES:
            usual.setdefault(name, []).append(usual_ns)
            there.setdefault(name, []).append(changed_ns)
    assert usual.keys() == CHANGES.keys()
    # Identical traces are ingested once.
    named = {tuple(times): name for name, times in usual.items()}
    cases = {
        name: case(name, repeated(times), Delays(), recorded=True)
        for times, name in named.items()
    }
    scenarios = {
        name: [_fields(text) for text in texts] for name, texts in CHANGES.items()
    }
    predicted = predict(tmp_path, [*cases.values()], scenarios)
    for name, times in there.items():
        assert times != usual[name]
        one = cases[named[tuple(usual[name])]]
        assert_foretold(one, name, predicted, repeated(times), one.delays)


def repeated(times: Sequence[int]) -> Program:
    """Training steps."""
    return program_of(*[training(times)] * STEPS)


def _fields(text: str) -> dict[str, Any]:
    change = structs.asdict(parse_setting(text))
    return {key: value for key, value in change.items() if value is not None}


def test_shapes_are_those_of_a_trace_with_that_batch(
    elsewhere: tracedb.Database, tmp_path: Path
) -> None:
    """Models are asked for the shapes of a trace with that batch size."""
    for name, batch in (("batch=768", TWICE), ("batch=192", BACK)):
        trace = written(tmp_path / f"{batch}.json", *[training(TIMES, batch)] * STEPS)
        with tracedb.open() as there:
            there.ingest([trace])
            assert rows(elsewhere, SHAPES.format(name)) == rows(there, OWN)


def test_the_recorded_batch_changes_nothing(elsewhere: tracedb.Database) -> None:
    """No time changes, and no band remains."""
    assert rows(
        elsewhere,
        "SELECT DISTINCT ratio, low_ratio, high_ratio FROM prediction.changed_time "
        "WHERE scenario = 'as it is'",
    ) == [(1, 1, 1)]
    summary = elsewhere.ask("scenario_summary").filter(scenario="as it is")
    assert summary["baseline_ns"].to_list() == summary["predicted_ns"].to_list()


def test_which_work_grows_with_the_batch(elsewhere: tracedb.Database) -> None:
    """Optimizer kernels stay as they are; the loss has twice the examples."""
    found = elsewhere.ask("scenario_kernel").filter(scenario="twice the batch")
    by_name = {(row["name"], row["basis"]): row for row in found.to_dicts()}
    loss = by_name[SUM, "roofline"]
    assert loss["changed_ns"] > loss["measured_ns"]
    assert by_name[UNKNOWN, "unknown"]["changed_ns"] == STEPS * SHORT_NS
    assert {row["recorded_batch"] for row in found.to_dicts()} == {BATCH}


def test_there_and_back_changes_nothing(
    elsewhere: tracedb.Database, tmp_path: Path
) -> None:
    """Doubling and halving the batch size are inverse."""
    trace = written(tmp_path / "twice.json", *[training(TIMES, TWICE)] * STEPS)
    query = (
        "SELECT ratio FROM prediction.changed_time INNER JOIN staging.gpu_op "
        "USING (gpu_op_id) WHERE scenario = '{}' ORDER BY start_ns"
    )
    with tracedb.open() as there:
        there.ingest([trace])
        with there.simulate(
            ["replay"], settings("back", f"batch=384{OF_STEPS}")
        ) as beside:
            back = [ratio for (ratio,) in rows(beside, query.format("back"))]
    ratios = [ratio for (ratio,) in rows(elsewhere, query.format("twice the batch"))]
    assert [a * b for a, b in zip(ratios, back, strict=True)] == pytest.approx(
        [1.0] * len(ratios)
    )


def test_a_second_batch_size_resolves_an_ambiguity(tmp_path: Path) -> None:
    """As many examples as features are refused until a second recording is there."""
    first = written(tmp_path / "512.json", *[training(TIMES, 512)] * STEPS)
    second = written(tmp_path / "768.json", *[training(TIMES, 768)] * STEPS)
    with tracedb.open() as db:
        db.ingest([first])
        edits = settings("more", f"batch=1024{OF_STEPS}")
        with pytest.raises(ScenarioError) as refused, db.simulate(["replay"], edits):
            pass
        assert "may be the batch size or a size of the model" in str(refused.value)
        assert "\n" not in str(refused.value)
        db.ingest([second])
        with db.simulate(["replay"], edits) as beside:
            told = rows(
                beside,
                "SELECT DISTINCT recorded_batch, sizes_from "
                "FROM reference.scaled_argument ORDER BY ALL",
            )
            assert told == [(512, "runs"), (768, "runs")]
            found = set(
                rows(
                    beside,
                    "SELECT name, from_json(coalesce(scaled.input_dims, "
                    "own.input_dims), '[\"BIGINT[]\"]')::VARCHAR "
                    "FROM reference.scaled_argument AS scaled "
                    "INNER JOIN prediction.op_argument AS own USING (op_id) "
                    "WHERE own.input_dims IS NOT NULL",
                )
            )
    wanted = {
        (op.name, str([list(dims) for dims in op.dims]))
        for op in training(TIMES, 1024)[:-1]
    }
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch=0", "batch must be a whole number from 1"),
        ("batch=many", "batch must be a whole number from 1"),
    ],
)
def test_bad_batch_sizes_are_refused(text: str, said: str) -> None:
    """The error says what is expected."""
    with pytest.raises(ScenarioError, match=said):
        parse_setting(text)


def test_the_batch_setting_is_shorthand_for_an_edit() -> None:
    """Other fields may follow the batch size."""
    assert parse_setting("batch=4096") == parse("gpu set to_batch=4096")
    assert parse_setting("batch=4096 from_batch=512") == parse(
        "gpu set to_batch=4096 from_batch=512"
    )


def test_a_recorded_batch_needs_another(database: tracedb.Database) -> None:
    """The recorded batch size alone changes nothing."""
    edit = Edit(scenario="none", target="gpu", action="set", set_ns=5, from_batch=3)
    with (
        pytest.raises(ScenarioError, match="add to_batch"),
        database.simulate(["replay"], [edit]),
    ):
        pass


def test_work_from_before_the_recording_is_no_objection(tmp_path: Path) -> None:
    """GPU work without a launch concerns no recorded step, however long it takes."""
    path = tmp_path / "trace.json"
    write(path, [Op("aten::addmm", [[4], [8, 4], [4, 4]], [FLOAT] * 3)] * 3)
    page = json.loads(path.read_text())
    place = {"device": 0, "stream": 7, "correlation": 99_999}
    early = event("kernel", "other", 0, 900, place) | {"pid": 0, "tid": 7}
    page["traceEvents"].append(early)
    path.write_text(json.dumps(page))
    with tracedb.open() as db:
        db.ingest([path])
        edits = settings("more", "batch=32 from_batch=8")
        with db.simulate(["replay"], edits) as beside:
            counted = "SELECT count(*) FROM reference.scaled_argument"
            assert rows(beside, counted) == [(3,)]


def test_ops_with_odd_sizes_have_unknown_ones(tmp_path: Path) -> None:
    """A size that is no whole number hides those of its op; the others grow."""
    sizes = [["?", 3], [-4, 3], [None, 3], [1.5, 3], [[2], "x"], "x", 7]
    product = Op("aten::addmm", [[4], [8, 4], [4, 4]], [FLOAT] * 3)
    odd = [Op("aten::mul", [[8, 4], dims], [FLOAT] * 2) for dims in sizes]
    write(tmp_path / "trace.json", [*[product] * 200, *odd])
    with tracedb.open() as db:
        db.ingest([tmp_path])
        edits = settings("more", "batch=32 from_batch=8")
        with db.simulate(["replay"], edits) as beside:
            found = rows(
                beside,
                "SELECT name, unknown IS NOT NULL, size_share, count(*) "
                "FROM reference.scaled_argument INNER JOIN staging.op USING (op_id) "
                "GROUP BY ALL ORDER BY name",
            )
    assert found == [
        ("aten::addmm", False, (4 + 32 * 4 + 16) / (4 + 8 * 4 + 16), 200),
        ("aten::mul", True, 1, len(sizes)),
    ]


def test_the_command_describes_the_batch(path: Path) -> None:
    """It prints the recorded batch size, which sizes follow it, and what stays."""
    told = CliRunner().invoke(
        command, ["whatif", str(path), "--set", f"batch=768{OF_STEPS}"]
    )
    assert told.exit_code == 0, told.output
    assert "recorded batch 384; which sizes follow it was inferred" in told.output
    said = " ".join(told.output.split())
    assert "nothing (how it follows the batch is unknown) 0.9 %" in said
