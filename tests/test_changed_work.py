"""GPU work on another GPU or of another dtype, compared with programs that have it.

The models' predictions are taken as true: a program whose kernels take the predicted
times of their shapes is simulated with the edit. The result has to equal, to the
nanosecond, the program whose kernels take what is predicted there.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from executed import assert_foretold, case, predict, warm_up
from msgspec import structs
from support import CORPUS, Ingested, needs_corpus, rows

import tracedb
from tracedb import Edit
from tracedb.errors import ScenarioError
from tracedb.synthetic import (
    Copy,
    Delays,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    Thread,
    execute,
    step,
)
from tracedb.whatif.edit_line import parse, parse_setting
from tracedb.whatif.scenario import Change, of_scenario

BATCH, WIDTH, DEEP = 384, 512, 1000
GEMM = "sm90_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x32_cublas"
MIXED = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
RELU = "void at::native::vectorized_elementwise_kernel<4, float>(int, float)"
SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()"
UNKNOWN = "void my_own_kernel<float>(float*)"
COPY = "Memcpy HtoD (Pinned -> Device)"
USUAL_NS = 20_000
STEPS = 3


def training(
    times: Sequence[int], batch: int = BATCH, dtype: str | None = None
) -> tuple[Op, ...]:
    """Forward, backward and optimizer of two layers, with one kernel per op.

    The op of the last kernel has no shapes. All elements have one dtype, or all but one
    product are fp32.
    """
    x, h, out = (batch, WIDTH), (batch, DEEP), (batch, WIDTH)
    w1, w2 = (WIDTH, DEEP), (DEEP, WIDTH)
    ops: list[tuple[str, str, tuple[tuple[int, ...], ...]]] = [
        ("aten::addmm", GEMM, ((DEEP,), x, w1)),
        ("aten::relu", RELU, (h,)),
        ("aten::addmm", GEMM, ((WIDTH,), h, w2)),
        ("aten::mse_loss", SUM, (out, out)),
        ("aten::mse_loss_backward", RELU, ((), out, out)),
        ("aten::mm", GEMM, ((DEEP, batch), out)),
        ("aten::mm", GEMM, (out, (WIDTH, DEEP))),
        ("aten::threshold_backward", RELU, (h, h)),
        ("aten::mm", MIXED, ((WIDTH, batch), h)),
        ("aten::add_", RELU, (w1, w1)),
        ("aten::add_", RELU, (w2, w2)),
        ("aten::unknown", UNKNOWN, ()),
    ]
    return tuple(
        Op(
            name,
            (Launch(7, time, kernel),),
            dims,
            (dtype or ("c10::BFloat16" if kernel == MIXED else "float"),) * len(dims),
        )
        for (name, kernel, dims), time in zip(ops, times, strict=True)
    )


KERNELS = 12


def program_of(*steps: tuple[Op, ...]) -> Program:
    """A thread that runs steps and waits for each."""
    marks = [
        step(number, Gap(1_000), *ops, Copy(7, 3_000), StreamSync(7))
        for number, ops in enumerate(steps, 1)
    ]
    return Program((Rank((Thread("main", (step(0, *warm_up((7,))), *marks)),)),))


def written(path: Path, *steps: tuple[Op, ...], gpu: str | None = None) -> Path:
    """The trace of a program, possibly on another GPU."""
    execute(program_of(*steps), Delays())[0].write(path)
    if gpu is not None:
        trace = json.loads(path.read_text())
        for device in trace["deviceProperties"]:
            device["name"] = gpu
        path.write_text(json.dumps(trace))
    return path


def settings(scenario: str, *texts: str) -> list[Edit]:
    """Settings (`--set`) of a scenario."""
    return [of_scenario(scenario, parse_setting(text)) for text in texts]


USUAL = (USUAL_NS,) * KERNELS


SAME = ("gpu=h100", "dtype=bf16:*bf16bf16*")
"""What the trace has already."""
HALF = "gpu=V100 dtype=fp16"
LINES = {
    "set": ["gpu:kernel set to_gpu=V100", f'gpu name="{UNKNOWN}" =5us'],
    "product": ["gpu:kernel set to_gpu=V100", f'gpu name="{UNKNOWN}" x0.5'],
    "fused": ["gpu:kernel fuse"],
    "fused here": ["gpu:kernel fuse", "gpu set to_gpu=H100"],
    "fused there": ["gpu:kernel fuse", "gpu set to_gpu=A100"],
}
EDITS = [
    *[edit for text in SAME for edit in settings(text, text)],
    *settings("gpu=V100", "gpu=V100"),
    *settings("dtype=bf16", "dtype=bf16"),
    *settings(HALF, *HALF.split()),
    *[of_scenario(name, parse(line)) for name, of in LINES.items() for line in of],
]
ON_V100 = 2100 + (USUAL_NS - 1600) * 3350 / 900
"""[ns] Time of the unknown kernel there: another floor, scaled by bandwidth."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A few training steps on an H100."""
    folder = tmp_path_factory.mktemp("trained")
    with tracedb.open() as db:
        db.ingest([written(folder / "trace.json", *[training(USUAL)] * STEPS)])
        yield db


@pytest.fixture(scope="module")
def elsewhere(database: tracedb.Database) -> Iterator[tracedb.Database]:
    """Everything predicted for it in all scenarios."""
    with database.simulate(["replay"], EDITS) as beside:
        yield beside


ESTIMATES = f"""
    SELECT
        time.scenario,
        CASE
            WHEN gpu_op.name = '{UNKNOWN}' THEN measured_ns
            WHEN basis = 'model' THEN usual.model_ns
            ELSE usual.roofline_ns
        END,
        CASE
            WHEN gpu_op.name = '{UNKNOWN}' THEN round(measured_ns * ratio)::BIGINT
            WHEN basis = 'model' THEN changed.model_ns
            ELSE changed.roofline_ns
        END
    FROM prediction.changed_time AS time
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    INNER JOIN staging.step_work USING (gpu_op_id)
    INNER JOIN staging.step USING (step_id)
    LEFT JOIN reference.changed_estimate AS usual
        ON time.gpu_op_id = usual.gpu_op_id AND usual.change = ''
    LEFT JOIN reference.changed_estimate AS changed
        ON time.gpu_op_id = changed.gpu_op_id AND time.change = changed.change
    WHERE step = 1
    ORDER BY time.scenario, gpu_op.start_ns
"""
CHANGES = {
    "another GPU": ("gpu=V100",),
    "another type": ("dtype=bf16",),
    "both": ("gpu=H200", "dtype=bf16"),
    "TF32, on another GPU": ("gpu=A100", "dtype=tf32"),
}


def test_work_elsewhere_equals_a_program_that_runs_there(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """All GPU ops, steps and periods agree to the nanosecond."""
    scenarios = {
        name: [_fields(parse_setting(f"{text}:kernel step=1..2")) for text in texts]
        for name, texts in CHANGES.items()
    }
    edits = [Edit(scenario=n, **edit) for n, of in scenarios.items() for edit in of]
    usual: dict[str, list[int]] = defaultdict(list)
    there: dict[str, list[int]] = defaultdict(list)
    with database.simulate(["replay"], edits) as beside:
        for name, usual_ns, changed_ns in rows(beside, ESTIMATES):
            usual[name].append(usual_ns)
            there[name].append(changed_ns)
    # Identical traces are ingested once.
    named = {tuple(times): name for name, times in usual.items()}
    cases = {
        name: case(name, twice(times), Delays(), recorded=True)
        for times, name in named.items()
    }
    predicted = predict(tmp_path, [*cases.values()], scenarios)
    assert len(usual) == len(CHANGES)
    for name, times in usual.items():
        assert len(times) == KERNELS
        assert times != there[name]
        one = cases[named[tuple(times)]]
        assert_foretold(one, name, predicted, twice(there[name]), one.delays)


def twice(times: Sequence[int]) -> Program:
    """Two training steps."""
    return program_of(training(times), training(times))


def _fields(change: Change) -> dict[str, Any]:
    return {k: v for k, v in structs.asdict(change).items() if v is not None}


def test_shapes_equal_those_of_a_trace_from_there(
    elsewhere: tracedb.Database, tmp_path: Path
) -> None:
    """Models are asked for the shapes of a trace with that GPU and dtype."""
    path = written(
        tmp_path / "there.json",
        *[training(USUAL, dtype="c10::Half")] * STEPS,
        gpu="Tesla V100-SXM2-32GB",
    )
    query = """
        SELECT roofline_ns, {}
        FROM {} AS told
        INNER JOIN staging.gpu_op AS gpu_op ON told.gpu_op_id = gpu_op.gpu_op_id
        LEFT JOIN reference.kernel_estimate AS estimate
            ON
                told.gpu_op_id = estimate.gpu_op_id
                AND likeness IN ('alike', 'transferred')
        WHERE
            kind = 'kernel'
            AND gpu_op.op_id IN (SELECT op_id FROM prediction.op_problem)
            AND {}
        ORDER BY start_ns
    """
    with tracedb.open() as there:
        there.ingest([path])
        own = ("estimate.predicted_ns", "prediction.kernel_roofline", "true")
        told = rows(there, query.format(*own))
    assert len(told) == STEPS * (KERNELS - 1)
    table = ("model_ns", "reference.changed_estimate", "change = 'gpu=V100 dtype=fp16'")
    assert rows(elsewhere, query.format(*table)) == told


@pytest.mark.parametrize("text", SAME)
def test_setting_the_recorded_values_changes_nothing(
    text: str, elsewhere: tracedb.Database
) -> None:
    """With the recorded GPU and dtype, no time changes and no band remains."""
    assert rows(
        elsewhere,
        "SELECT DISTINCT ratio, low_ratio, high_ratio FROM prediction.changed_time "
        f"WHERE scenario = '{text}'",
    ) == [(1, 1, 1)]
    summary = elsewhere.ask("scenario_summary").filter(scenario=text)
    assert summary["baseline_ns"].to_list() == summary["predicted_ns"].to_list()


def kernels(elsewhere: tracedb.Database, scenario: str) -> dict[str, dict[str, Any]]:
    """Basis and time of each kernel name in a scenario."""
    found = elsewhere.ask("scenario_kernel").filter(scenario=scenario)
    return {row["name"]: row for row in found.to_dicts()}


def test_every_kernel_states_its_basis(elsewhere: tracedb.Database) -> None:
    """A model, a roofline or a bandwidth; copies scale with the link."""
    found = kernels(elsewhere, "gpu=V100")
    assert found[UNKNOWN]["basis"] == "bandwidth"
    assert found[SUM]["basis"] == "roofline"
    assert found[COPY]["basis"] == "roofline"
    assert kernels(elsewhere, "gpu=h100")[MIXED]["basis"] == "model"
    for row in found.values():
        assert row["low_ns"] <= row["changed_ns"] <= row["high_ns"]


def test_unknown_work_scales_with_bandwidth_above_its_floor(
    elsewhere: tracedb.Database,
) -> None:
    """Of 20 us, what exceeds an H100's floor scales with the memory of a V100."""
    found = kernels(elsewhere, "gpu=V100")[UNKNOWN]
    assert found["changed_ns"] == STEPS * round(ON_V100)


def test_the_band_of_unknown_work_reaches_over_all_that_may_bound_it(
    database: tracedb.Database,
) -> None:
    """An H200 only has a faster memory; of two equal GPUs, something may differ."""
    texts = ("gpu=H200", "gpu=H100 NVL", "gpu=H800")
    edits = [edit for text in texts for edit in settings(text, text)]
    query = (
        "SELECT DISTINCT basis, ratio, low_ratio, high_ratio "
        "FROM prediction.changed_time INNER JOIN staging.gpu_op USING (gpu_op_id) "
        f"WHERE name = '{UNKNOWN}' AND scenario = "
    )
    with database.simulate(["replay"], edits) as beside:
        found = {text: rows(beside, f"{query}'{text}'")[0] for text in texts}
        bounds = {
            there: tuple(map(float, limits))
            for there, *limits in rows(
                beside,
                "SELECT 'gpu=' || to_hardware, least_ratio, greatest_ratio "
                "FROM prediction.gpu_ratio WHERE hardware = 'H100'",
            )
        }
    for text, (basis, ratio, low, high) in found.items():
        least, greatest = bounds[text]
        assert basis == "bandwidth"
        assert least <= ratio <= greatest
        assert (low, high) == pytest.approx((least / 1.2, greatest * 1.2))
    assert found["gpu=H200"][2:] == pytest.approx((3350 / 4800 / 1.2, 1.2), rel=1e-3)
    assert found["gpu=H800"][1] == 1


def test_a_collective_of_unknown_size_follows_the_links(tmp_path: Path) -> None:
    """An H200 has an H100's links, an A100 slower ones; the memory is no matter."""
    kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"
    step_ = (Op("my::exchange", (Launch(7, USUAL_NS, kernel),)),)
    texts = ("gpu=H200", "gpu=A100 80GB")
    edits = [edit for text in texts for edit in settings(text, text)]
    with tracedb.open() as db:
        db.ingest([written(tmp_path / "trace.json", *[step_] * STEPS)])
        with db.simulate(["replay"], edits) as beside:
            found = rows(
                beside,
                "SELECT DISTINCT scenario, basis, ratio, low_ratio, high_ratio "
                "FROM prediction.changed_time INNER JOIN staging.gpu_op "
                "USING (gpu_op_id) WHERE is_collective ORDER BY scenario DESC",
            )
    assert [row[:3] for row in found] == [
        ("gpu=H200", "links", 1),
        ("gpu=A100 80GB", "links", 1.5),
    ]
    assert [row[3:] for row in found] == [
        pytest.approx((1 / 1.6, 1.6)),
        pytest.approx((1 / 1.6, 1.5 * 1.6)),
    ]


def test_unknown_products_of_16_bits_follow_no_fp32_arithmetic(tmp_path: Path) -> None:
    """By the kernel's name; activations of such types use fp32 arithmetic."""
    half = ["Cijk_Alik_Bljk_BBS_BH_MT64x32x256", "void attention_kernel<__half>()"]
    others = ["Cijk_Alik_Bljk_SB_MT64x32x256", "void relu_kernel<__hip_bfloat16>()"]
    step_ = tuple(Op("a", (Launch(7, USUAL_NS, name),)) for name in half + others)
    with tracedb.open() as db:
        db.ingest([written(tmp_path / "trace.json", *[step_] * STEPS)])
        with db.simulate(["replay"], settings("there", "gpu=MI300X")) as beside:
            query = """
                SELECT DISTINCT name, low_ratio * 1.2
                FROM prediction.changed_time INNER JOIN staging.gpu_op USING (gpu_op_id)
            """
            found = dict(map(tuple, rows(beside, query)))
    memory, arithmetic = 3350 / 5300, 66.9 / 163.4
    assert {name: found[name] for name in half + others} == pytest.approx(
        dict.fromkeys(half, memory) | dict.fromkeys(others, arithmetic)
    )


@pytest.mark.parametrize("gpu", ["B200", "GH200"])
def test_bands_of_models_are_of_both_predictions(
    gpu: str, database: tracedb.Database
) -> None:
    """What both may be off by adds by squares, also on a GPU that nobody measured."""
    query = (
        "SELECT ratio, low_ratio, high_ratio, usual.model_low_ns / usual.model_ns, "
        "usual.model_high_ns / usual.model_ns, "
        "changed.model_low_ns / changed.model_ns, "
        "changed.model_high_ns / changed.model_ns "
        "FROM prediction.changed_time AS time "
        "INNER JOIN staging.gpu_op USING (gpu_op_id) "
        "INNER JOIN reference.changed_estimate AS usual "
        "ON time.gpu_op_id = usual.gpu_op_id AND usual.change = '' "
        "INNER JOIN reference.changed_estimate AS changed "
        "ON time.gpu_op_id = changed.gpu_op_id AND time.change = changed.change "
        f"WHERE basis = 'model' AND name = '{MIXED}'"
    )
    with database.simulate(["replay"], settings("there", f"gpu={gpu}")) as beside:
        found = rows(beside, query)
    assert len(found) == STEPS
    for ratio, low, high, low_here, high_here, low_there, high_there in found:
        assert ratio < 1
        least = math.hypot(math.log(low_there), math.log(high_here))
        most = math.hypot(math.log(high_there), math.log(low_here))
        assert low == pytest.approx(ratio / math.exp(least))
        assert high == pytest.approx(ratio * math.exp(most))


def test_products_in_half_precision_are_faster_and_copies_stay(
    elsewhere: tracedb.Database,
) -> None:
    """A dtype applies to ops with shapes and dtypes; the rest is left, and reported."""
    found = kernels(elsewhere, "dtype=bf16")
    assert found[GEMM]["changed_ns"] < 0.7 * found[GEMM]["measured_ns"]
    for name in (UNKNOWN, COPY):
        assert found[name]["basis"] == "unchanged"
        assert found[name]["changed_ns"] == found[name]["measured_ns"]


def test_settings_combine_with_other_edits(elsewhere: tracedb.Database) -> None:
    """Factors multiply the time elsewhere; a fixed time stays as set."""
    found = rows(
        elsewhere,
        "SELECT DISTINCT scenario, predicted_ns FROM prediction.gpu_time "
        "INNER JOIN prediction.variant USING (variant_id) "
        "INNER JOIN staging.gpu_op USING (gpu_op_id) "
        f"WHERE name = '{UNKNOWN}' AND scenario IN ('set', 'product') ORDER BY ALL",
    )
    assert found == [("product", round(ON_V100 / 2)), ("set", 5_000)]


def periods(database: tracedb.Database) -> list[tuple[Any, ...]]:
    """The periods of all steps in all scenarios."""
    return rows(
        database,
        "SELECT scenario, step_id, predicted_ns FROM question.scenario_effect "
        "ORDER BY ALL",
    )


def test_fused_work_on_another_gpu(elsewhere: tracedb.Database) -> None:
    """On the recorded GPU, fused work takes what it takes without the setting."""
    times = {(name, step_id): ns for name, step_id, ns in periods(elsewhere)}
    fused = {step_id: ns for (name, step_id), ns in times.items() if name == "fused"}
    assert fused
    for step_id, ns in fused.items():
        assert times["fused here", step_id] == ns
        assert times["fused there", step_id] > ns


def test_parts_of_a_band_are_families(
    elsewhere: tracedb.Database, database: tracedb.Database
) -> None:
    """The three with the widest bands take their ends alone, all others together."""
    query = (
        "SELECT gpu_op_id, family, measured_ns, ratio, low_ratio, high_ratio "
        "FROM prediction.changed_time WHERE scenario = 'gpu=V100'"
    )
    known = rows(elsewhere, query)
    doubts: defaultdict[str, float] = defaultdict(float)
    for _, family, time_ns, _, low, high in known:
        doubts[family] += time_ns * (high - low)
    families = sorted(doubts, key=lambda family: (-round(doubts[family]), family))
    assert len(families) > 4
    bounds = [f"{end} {part}" for part in (1, 2, 3, 4) for end in ("low", "high")]
    edits = [
        structs.replace(edit, bound=edit.scenario)
        for bound in bounds
        for edit in settings(bound, "gpu=V100")
    ]
    with database.simulate(["replay"], edits, only_steps=True) as beside:
        query = "SELECT scenario, gpu_op_id, ratio FROM prediction.bounded_time"
        found = {(scenario, op): ratio for scenario, op, ratio in rows(beside, query)}
    assert len(found) == len(bounds) * len(known)
    for op, family, _, *ratios in known:
        part = min(families.index(family), 3) + 1
        for bound in bounds:
            end = bound.split()[0] if bound.endswith(str(part)) else "ratio"
            assert found[bound, op] == ratios[("ratio", "low", "high").index(end)]


def test_arrays_and_sql_agree(
    elsewhere: tracedb.Database, database: tracedb.Database
) -> None:
    """The vectorised simulation gives the same periods."""
    some = ("gpu=V100", "product", "baseline")
    edits = [edit for edit in EDITS if edit.scenario in some]
    with database.simulate(["replay"], edits, only_steps=True) as beside:
        found = periods(beside)
    assert found == [row for row in periods(elsewhere) if row[0] in some]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu=H300", "unknown GPU H300; did you mean H"),
        ("gpu=H1000", "unknown GPU H1000; did you mean H100"),
        ("gpu=CPU", "unknown GPU CPU; known: V100S, "),
        ("dtype=bf16:memcpy", "nothing that it selects has known shapes and types"),
        ("gpu=A100:conv*", "no GPU work with family conv* in this database; nearest"),
        ("gpu=H200 gpu=A100:gemm*", "two edits change the GPU, the type, the batch"),
    ],
)
def test_impossible_settings_are_refused(
    text: str, said: str, database: tracedb.Database
) -> None:
    """Unknown GPUs, work without shapes, and two GPUs for one kernel give one line."""
    edits = settings("elsewhere", *text.split())
    with (
        pytest.raises(ScenarioError) as refused,
        database.simulate(["replay"], edits),
    ):
        pass
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["gpu", "gpu=", "speed=3", "dtype=int8"])
def test_malformed_settings_are_refused(text: str) -> None:
    """The error says what is expected."""
    with pytest.raises(ScenarioError, match=r"setting '.*(expected|must be)"):
        parse_setting(text)


def test_a_setting_is_shorthand_for_an_edit() -> None:
    """After the colon come a dtype, a family or a name pattern, then fields."""
    assert parse_setting("gpu=H200") == parse("gpu set to_gpu=H200")
    assert parse_setting("gpu=H200:kernel") == parse("gpu:kernel set to_gpu=H200")
    assert parse_setting("dtype=bf16:gemm* step=2") == parse(
        "gpu family=gemm* step=2 set to_dtype=bf16"
    )
    assert parse_setting("dtype=bf16:*cutlass*") == parse(
        "gpu:*cutlass* set to_dtype=bf16"
    )


BERT = "gaunernst_bert-small-uncased__1016001.json.gz"


@needs_corpus
def test_a_recording_predicts_another_gpu(ingested: Ingested) -> None:
    """BERT on H100 and on MI300X: GPU time within 15 %, each from the other."""
    folder = CORPUS / "tracelens"
    path = ingested(folder / "h100" / BERT, folder / "mi300" / BERT)
    names = ["H100", "MI300X"]
    edits = [edit for name in names for edit in settings(name, f"gpu={name}")]
    with (
        tracedb.open(path, read_only=True) as db,
        db.simulate(["replay"], edits) as beside,
    ):
        found = {
            (scenario, hardware): (int(measured), int(changed))
            for scenario, hardware, measured, changed in rows(
                beside,
                "SELECT scenario, hardware, sum(measured_ns), sum(measured_ns * ratio) "
                "FROM prediction.changed_time "
                "INNER JOIN staging.gpu_op USING (gpu_op_id, trace_id) "
                "INNER JOIN prediction.kernel_device USING (trace_id, device) "
                "GROUP BY ALL",
            )
        }
    for here, there in (names, names[::-1]):
        measured, _ = found[here, there]
        _, predicted = found[there, here]
        assert predicted == pytest.approx(measured, rel=0.15)
