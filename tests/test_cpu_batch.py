"""CPU ops at another batch size, compared with programs that have it.

Op times in programs without GPU work are affine in their work, computed here from
shapes. A prediction for another batch size has to equal the program of that size.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs
from support import Ingested, rows

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.errors import ScenarioError
from tracedb.synthetic import Delays, Gap, Op, Program, Rank, Thread, execute, step
from tracedb.whatif.edit_line import parse, parse_setting
from tracedb.whatif.scenario import UNPROFILED, of_scenario

BATCH, WIDTH, DEEP = 96, 512, 1_000
STEPS = 2
FLOPS_PER_NS, BYTES_PER_NS = 64, 4
FLOORS_NS = {
    "aten::addmm": 9_000,
    "aten::mm": 7_000,
    "aten::relu": 3_000,
    "aten::mse_loss": 6_000,
    "aten::threshold_backward": 3_500,
    "aten::add_": 2_500,
}
"""[ns] An op's time without any work."""
ANY_NS = 4_750
"""[ns] Their median: the floor of ops about which nothing else is known."""
SHORT_NS = 50_000
"""[ns] An op without shapes, short enough to be left unchanged."""
Dims = tuple[tuple[int, ...], ...]
FLOATS = ("float",) * 3


def forward_and_backward(batch: int) -> list[tuple[str, Dims]]:
    """The ops of training two layers, and of the optimizer."""
    x, h, out = (batch, WIDTH), (batch, DEEP), (batch, WIDTH)
    w1, w2 = (WIDTH, DEEP), (DEEP, WIDTH)
    return [
        ("aten::addmm", ((DEEP,), x, w1)),
        ("aten::relu", (h,)),
        ("aten::addmm", ((WIDTH,), h, w2)),
        ("aten::mse_loss", (out, out)),
        ("aten::mm", ((DEEP, batch), out)),
        ("aten::mm", (out, (WIDTH, DEEP))),
        ("aten::threshold_backward", (h, h)),
        ("aten::mm", ((WIDTH, batch), h)),
        ("aten::add_", (w1, w1)),
        ("aten::add_", (w2, w2)),
    ]


TINY: list[tuple[str, Dims]] = [
    ("aten::addmm", ((7, 5), (7, 5), (5, 5))),
    ("aten::mm", ((7, 5), (5, 5))),
    ("aten::relu", ((7,),)),
    ("aten::mse_loss", ((7,), (7,))),
    ("aten::threshold_backward", ((7,), (7,))),
    ("aten::add_", ((7,), (7,))),
]
"""One of each op, with almost no work."""


def took_ns(name: str, dims: Dims, *, is_tiny: bool = False) -> int:
    """[ns] Affine in the FLOPs of products, and in the bytes of other ops."""
    if is_tiny:
        return FLOORS_NS[name]
    if name.endswith("mm"):
        a, b = dims[-2:]
        return FLOORS_NS[name] + 2 * a[0] * a[1] * b[1] // FLOPS_PER_NS
    read = sum(4 * prod(one) for one in dims)
    written = 4 if name == "aten::mse_loss" else 4 * prod(dims[0])
    return FLOORS_NS[name] + (read + written) // BYTES_PER_NS


def op(name: str, dims: Dims, time_ns: int) -> Op:
    """An op that computes for some time."""
    return Op(name, (Gap(time_ns),), dims, ("float",) * len(dims))


def program(batch: int, *others: Op, steps: int = STEPS) -> Program:
    """Training steps, with a gap after each op, all within one op."""
    ops = [
        *(op(n, dims, took_ns(n, dims, is_tiny=True)) for n, dims in TINY),
        *(op(n, dims, took_ns(n, dims)) for n, dims in forward_and_backward(batch)),
        op("mine::op", ((batch, WIDTH),), ANY_NS + 10 * batch * WIDTH),
        Op("mine::unknown", (Gap(SHORT_NS),)),
        *others,
    ]
    # Nested ops count like consecutive ones.
    linear: Dims = ((batch, WIDTH), (DEEP, WIDTH), (DEEP,))
    nested = Op("aten::linear", (Gap(300), ops[6], Gap(200)), linear, ("float",) * 3)
    body = [
        action for one in (*ops[:6], nested, *ops[7:]) for action in (one, Gap(900))
    ]
    marks = tuple(step(number, *body) for number in range(1, steps + 1))
    return Program((Rank((Thread("main", marks),)),))


def written(path: Path, one: Program) -> Path:
    """The trace of a program."""
    execute(one, Delays())[0].write(path)
    return path


def step_times(one: Program) -> list[int]:
    """[ns] Steps of a program when it is executed."""
    truth = execute(one, Delays())[0].truth
    return [mark.end_ns - mark.start_ns for mark in truth.steps]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """The recorded training."""
    trace = tmp_path_factory.mktemp("cpu") / "trace.json"
    return ingested(written(trace, program(BATCH)))


@pytest.fixture(scope="module")
def database(path: Path) -> Iterator[tracedb.Database]:
    """The same, opened."""
    with tracedb.open(path, read_only=True) as db:
        yield db


SCENARIOS = {
    "48": ("batch=48",),
    "96": ("batch=96",),
    "192": ("batch=192",),
    "768": ("batch=768",),
    "one step": ("batch=192 step=2",),
}
ONE_NAME = "one name"


@pytest.fixture(scope="module")
def elsewhere(database: tracedb.Database) -> Iterator[tracedb.Database]:
    """Everything predicted for it."""
    edits = [
        of_scenario(name, parse_setting(text))
        for name, texts in SCENARIOS.items()
        for text in texts
    ]
    edits.append(of_scenario(ONE_NAME, parse("op:aten::addmm set to_batch=192")))
    with database.simulate(["replay"], edits) as beside:
        yield beside


def steps_of(db: tracedb.Database, scenario: str) -> list[int]:
    """[ns] The steps of a scenario."""
    query = (
        "SELECT predicted_host_ns FROM question.scenario_effect "
        f"WHERE scenario = '{scenario}' ORDER BY trace_id, step"
    )
    return [time_ns for (time_ns,) in rows(db, query)]


def predicted(db: tracedb.Database, *texts: str) -> list[int]:
    """[ns] The steps with some settings."""
    edits = [of_scenario("then", parse_setting(text)) for text in texts]
    steps = db.scenarios(edits).sort("trace_id", "step")
    return list(steps["predicted_host_ns"])


@pytest.mark.parametrize("batch", [48, 96, 192, 768])
def test_steps_equal_a_program_with_that_batch(
    elsewhere: tracedb.Database, batch: int
) -> None:
    """They are equal to the nanosecond for smaller, equal and larger batches."""
    assert steps_of(elsewhere, str(batch)) == step_times(program(batch))


def test_more_examples_never_take_less(
    database: tracedb.Database, elsewhere: tracedb.Database
) -> None:
    """Steps are monotone in the batch size, also where weights dominate.

    They are computed by arrays here, which agree with SQL.
    """
    sizes = (1, 2, 7, 48, 96, 100, 192, 100_000)
    edits = [of_scenario(str(n), parse_setting(f"batch={n}")) for n in sizes]
    steps = database.scenarios(edits).filter(step=1)
    times = {
        n: steps.filter(scenario=str(n))["predicted_host_ns"].item() for n in sizes
    }
    assert [*times.values()] == sorted({*times.values()})
    assert times[192] == steps_of(elsewhere, "192")[0]


def test_one_step_only(elsewhere: tracedb.Database) -> None:
    """Fields select steps, as for GPU work."""
    usual, then = step_times(program(BATCH)), step_times(program(192))
    assert steps_of(elsewhere, "one step") == [usual[0], then[1]]


def test_ops_of_one_name_only(elsewhere: tracedb.Database) -> None:
    """Ops within the chosen ops follow the batch, all others stay."""
    grown = sum(
        took_ns(name, dims) - took_ns(name, before)
        for (name, dims), (_, before) in zip(
            forward_and_backward(192), forward_and_backward(BATCH), strict=True
        )
        if name == "aten::addmm"
    )
    usual = step_times(program(BATCH))
    assert steps_of(elsewhere, ONE_NAME) == [time_ns + grown for time_ns in usual]


def test_two_sizes_for_one_op_are_refused(database: tracedb.Database) -> None:
    """The error is one line."""
    with pytest.raises(ScenarioError, match="change the batch size of") as refused:
        predicted(database, "batch=192", "batch=48 step=1")
    assert "\n" not in str(refused.value)


def test_names_of_gpu_work_match_nothing(database: tracedb.Database) -> None:
    """The trace has no GPU work, and the error says so."""
    with pytest.raises(ScenarioError, match="no GPU work"):
        predicted(database, "batch=192:gemm*")


def test_every_op_states_its_basis(elsewhere: tracedb.Database) -> None:
    """Work, sizes or unknown; floors are those of the program."""
    found = elsewhere.ask("scenario_op").filter(scenario="192")
    floors = dict(rows(elsewhere, "SELECT name, floor_ns FROM prediction.op_floor"))
    told = {(row["name"], row["basis"]) for row in found.to_dicts()}
    assert {
        one for one in told if one[0] in ("aten::mm", "mine::op", "mine::unknown")
    } == {
        ("aten::mm", "roofline"),
        ("aten::mm", "unchanged"),
        ("mine::op", "size"),
        ("mine::unknown", "unknown"),
    }
    assert ("aten::add_", "roofline") not in told
    assert {name: floors[name] for name in FLOORS_NS} == FLOORS_NS
    known = found.filter(found["recorded_batch"].is_not_null())
    assert set(known["recorded_batch"]) == {BATCH}
    assert set(known["sizes_from"]) == {"inferred"}


def test_too_much_unknown_time_is_refused(tmp_path: Path) -> None:
    """The error names a long op without shapes."""
    strange = Op("mine::long", (Gap(80 * SHORT_NS),))
    trace = written(tmp_path / "trace.json", program(BATCH, strange))
    with tracedb.open() as db:
        db.ingest([trace])
        with pytest.raises(ScenarioError, match="mine::long") as refused:
            predicted(db, "batch=192")
    assert "\n" not in str(refused.value)
    assert "of the time of ops on the CPU" in str(refused.value)


def test_a_second_recording_resolves_an_ambiguity(tmp_path: Path) -> None:
    """As many examples as features are refused until a second batch size is there."""
    first = written(tmp_path / "512.json", program(WIDTH))
    second = written(tmp_path / "768.json", program(768))
    with tracedb.open() as db:
        db.ingest([first])
        with pytest.raises(
            ScenarioError, match="may be the batch size or a size of the model"
        ):
            predicted(db, "batch=1024")
        db.ingest([second])
        assert predicted(db, "batch=1024") == 2 * step_times(program(1024))


def test_floors_are_fitted_by_a_line(tmp_path: Path) -> None:
    """A fit is made for op names without an almost empty op."""

    def filters(images: int) -> list[Op]:
        found = []
        for channels in (16, 32, 64):
            x, w = (images, channels, 32, 32), (channels, channels, 3, 3)
            flops = 2 * images * 32 * 32 * channels * channels * 9
            dims = (x, w, (), (), (), (), ())
            ns = 40_000 + flops // FLOPS_PER_NS
            found.append(
                Op("aten::mkldnn_convolution", (Gap(ns),), dims, ("float",) * 2)
            )
        return found

    trace = written(tmp_path / "trace.json", program(BATCH, *filters(BATCH)))
    with tracedb.open() as db:
        db.ingest([trace])
        truth = step_times(program(192, *filters(192)))
        assert predicted(db, "batch=192") == pytest.approx(truth, rel=1e-3)


def test_an_op_around_the_one_that_computes_takes_as_long(tmp_path: Path) -> None:
    """What an op of PyTorch or of autograd spends around another one is dispatch."""

    def around(batch: int) -> list[Op]:
        x, weight, out = (batch, WIDTH), (DEEP, WIDTH), (batch, DEEP)
        first: dict[str, Op] = {}
        for name, dims in forward_and_backward(batch):
            first.setdefault(name, op(name, dims, took_ns(name, dims)))
        added, multiplied = first["aten::addmm"], first["aten::mm"]
        return [
            Op("aten::linear", (Gap(40_000), added), (x, weight, (DEEP,)), FLOATS),
            Op("AddmmBackward0", (Gap(50_000), multiplied), (out,), FLOATS[:1]),
        ]

    trace = written(tmp_path / "trace.json", program(BATCH, *around(BATCH)))
    with tracedb.open() as db:
        db.ingest([trace])
        assert predicted(db, "batch=384") == step_times(program(384, *around(384)))


def test_unknown_work_around_a_small_op_grows(tmp_path: Path) -> None:
    """A recurrent layer adds two biases: its work grows, its weights do not."""

    def layer(batch: int) -> list[Op]:
        bias = Op("aten::add", (Gap(4_000),), ((DEEP,), (DEEP,)), FLOATS[:2])
        dims: Dims = (
            (batch, WIDTH),
            (WIDTH, DEEP),
            (WIDTH, DEEP),
            (DEEP,),
            (batch, DEEP),
        )
        time_ns = ANY_NS + 8_000 * batch
        body = (Gap(time_ns // 2), bias, Gap(time_ns - time_ns // 2))
        return [Op("aten::rnn_layer", body, dims, ("float",) * 5)]

    trace = written(tmp_path / "trace.json", program(BATCH, *layer(BATCH)))
    with tracedb.open() as db:
        db.ingest([trace])
        truth = step_times(program(384, *layer(384)))
        assert predicted(db, "batch=384") == pytest.approx(truth, rel=0.01)


def test_the_profilers_cost_does_not_grow(database: tracedb.Database) -> None:
    """It is the same per event at every batch size, so as much is subtracted."""
    usual = step_times(program(BATCH))
    grown = predicted(database, "batch=768")
    edits = {
        "then": of_scenario("then", parse_setting("batch=768")),
        "now": structs.replace(UNPROFILED, scenario="now"),
    }
    both = structs.replace(UNPROFILED, scenario="then")
    steps = database.scenarios([*edits.values(), both]).sort("trace_id", "step")
    now, then = (
        list(steps.filter(scenario=name)["predicted_host_ns"])
        for name in ("now", "then")
    )
    saved = [a - b for a, b in zip(usual, now, strict=True)]
    assert [a - b for a, b in zip(grown, then, strict=True)] == saved
    assert min(saved) > 10_000


def test_floors_are_no_longer_than_their_ops(tmp_path: Path) -> None:
    """Of one size half the time is work; so it is if times do not follow the work."""
    sizes = (1_000, 2_000, 4_000)
    odd = [
        op("aten::exp", ((size,),), time_ns)
        for size, time_ns in zip(sizes, (9_000, 12_000, 8_000), strict=True)
    ]
    trace = written(
        tmp_path / "trace.json",
        program(BATCH, *odd, op("aten::gelu", ((BATCH, 40),), 3_000)),
    )
    with tracedb.open() as db:
        db.ingest([trace])
        edits = [of_scenario("then", parse_setting("batch=192"))]
        with db.simulate(["replay"], edits) as beside:
            floors = dict(
                rows(beside, "SELECT name, floor_ns FROM prediction.op_floor")
            )
            (least,) = rows(beside, "SELECT least_floor_ns FROM prediction.host_peak")
    assert floors["aten::gelu"] == 1_500
    assert floors["aten::exp"] == pytest.approx((least[0] + 8_000) / 2, abs=1)
    assert floors["aten::mm"] == FLOORS_NS["aten::mm"]


def test_the_command_describes_the_batch(path: Path) -> None:
    """It prints the recorded batch size, how sizes follow it, and each op's basis."""
    told = CliRunner().invoke(command, ["whatif", str(path), "--set", "batch=192"])
    assert told.exit_code == 0, told.output
    assert "recorded batch 96; which sizes follow it was inferred" in told.output
    assert "does not depend on their work" in told.output


def test_the_band_has_what_ops_may_be_off_by(tmp_path: Path) -> None:
    """Each part of the work takes both ends of its band; squares are summed.

    All steps are equal, so nothing else is in the band.
    """
    steps = 4
    trace = written(tmp_path / "trace.json", program(BATCH, steps=steps))
    edit = of_scenario("then", parse_setting("batch=768"))
    query = f"""
        SELECT
            part,
            sum(op.changed_ns - op.low_ns) / {steps},
            sum(op.high_ns - op.changed_ns) / {steps}
        FROM prediction.changed_op_time AS op
        INNER JOIN prediction.band_part USING (scenario, family)
        GROUP BY part
        ORDER BY part
    """
    with tracedb.open() as db:
        db.ingest([trace])
        with db.simulate(["replay"], [edit]) as beside:
            parts = rows(beside, query)
            [mean] = beside.ask("scenario_summary").to_dicts()
    assert [part for part, *_ in parts] == [1, 2, 3, 4]
    below, above = (sum(one[at] ** 2 for one in parts) ** 0.5 for at in (1, 2))
    assert below > 0
    for name, far in (("low_ns", -below), ("high_ns", above)):
        assert mean[name] == pytest.approx(mean["predicted_ns"] + far, abs=2)


def test_the_band_grows_with_the_factor(elsewhere: tracedb.Database) -> None:
    """The recorded batch size has none, and unknown work may grow with the batch."""
    query = """
        SELECT
            scenario,
            basis,
            bool_and(low_ns <= changed_ns AND changed_ns <= high_ns),
            sum(high_ns)::DOUBLE / sum(low_ns)
        FROM prediction.changed_op_time
        WHERE scenario IN ('48', '96', '192', '768')
        GROUP BY ALL
    """
    found = {
        (name, basis): (has, wide) for name, basis, has, wide in rows(elsewhere, query)
    }
    assert all(has for has, _ in found.values())
    assert {wide for (name, _), (_, wide) in found.items() if name == "96"} == {1}
    assert found["768", "roofline"][1] > found["192", "roofline"][1] > 1
    assert found["768", "unknown"][1] > 4
    assert {
        wide for (_, basis), (_, wide) in found.items() if basis == "unchanged"
    } == {1}
