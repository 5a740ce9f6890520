"""Collectives among other ranks, compared with programs and traces that have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from math import hypot
from pathlib import Path
from typing import Any

import pytest
from executed import Predicted, assert_foretold, case, predict, warm_up
from support import SAMPLES, Ingested, rows

import tracedb
from tracedb.errors import ScenarioError
from tracedb.synthetic import (
    Collective,
    Delays,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    Thread,
    change,
    execute,
    step,
)
from tracedb.synthetic.program import Action
from tracedb.whatif.edit_line import parse, parse_setting
from tracedb.whatif.scenario import Change, of_scenario

KINDS = (
    *("allreduce", "_allgather_base", "_reduce_scatter_base"),
    *("broadcast", "all_to_all"),
)
ELEMENTS = 4_000_000
SHAPES = ((ELEMENTS,),)
RECORDED = 2
RANKS = (2, 4, 8, 16, 64)
DEVICES = 8


def nccl(kind: str, number: int) -> Collective:
    """A collective, longer than the one before."""
    return Collective(20, 60_000 + 20_000 * number, kind, ELEMENTS)


def body(pace: int) -> tuple[Action, ...]:
    """Compute, and a collective of each kind beside it, in three steps."""
    ops = [
        Op(
            f"c10d::{kind}",
            (
                Launch(7, 40_000 * pace),
                Gap(2_000),
                Op("record_param_comms", (nccl(kind, number),), SHAPES, ("float",)),
                *([StreamSync(20)] if number % 2 else []),
            ),
        )
        for number, kind in enumerate(KINDS)
    ]
    end = (StreamSync(7), StreamSync(20))
    marks = [step(number, Gap(1_000), *ops, *end) for number in (1, 2, 3)]
    return (step(0, *warm_up((7, 20))), *marks)


PROGRAM = Program(
    tuple(Rank((Thread("main", body(pace)),)) for pace in range(1, RECORDED + 1))
)
EDITS = [
    *(of_scenario(f"ranks={n}", parse_setting(f"ranks={n}")) for n in RANKS),
    of_scenario("sums", parse_setting("ranks=16:*AllReduce*")),
    *(of_scenario("both", parse_setting(text)) for text in ("gpu=A100", "ranks=16")),
]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A job of two H100s, among other numbers of ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    with tracedb.open() as database:
        database.ingest(written(folder, PROGRAM), run="job")
        with database.simulate(["replay"], EDITS) as beside:
            yield beside


def written(folder: Path, program: Program) -> list[Path]:
    """The traces of a program's ranks."""
    return [
        trace.write(folder / f"rank{rank}.json")
        for rank, trace in enumerate(execute(program, Delays()))
    ]


def among(path: Path, ranks: int, per_node: int = DEVICES) -> Path:
    """The trace, as a job of this many ranks records it, on nodes of so many GPUs."""
    trace = json.loads(path.read_text())
    members = [*range(ranks)]
    trace["deviceProperties"] = [
        trace["deviceProperties"][0] | {"id": number} for number in range(per_node)
    ]
    info = trace["distributedInfo"]
    info["world_size"] = ranks
    info["pg_config"][0] |= {"pg_size": ranks, "ranks": members}
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        if "Group size" in args:
            args |= {"Group size": ranks, "Process Group Ranks": json.dumps(members)}
    path.write_text(json.dumps(trace))
    return path


TIMES = """
SELECT name, roofline_ns, {}
FROM {} AS told
INNER JOIN staging.gpu_op AS gpu_op ON told.gpu_op_id = gpu_op.gpu_op_id
INNER JOIN staging.trace ON gpu_op.trace_id = staging.trace.trace_id
LEFT JOIN reference.kernel_estimate AS estimate
    ON told.gpu_op_id = estimate.gpu_op_id AND likeness = 'alike'
WHERE is_collective AND rank = 0 AND {}
ORDER BY start_ns
"""
OWN = ("estimate.predicted_ns", "prediction.kernel_roofline", "true")


@pytest.mark.parametrize("ranks", RANKS)
def test_collectives_are_predicted_as_in_a_trace_of_that_job(
    ranks: int, elsewhere: tracedb.Database, tmp_path: Path
) -> None:
    """Rooflines and models answer for the same messages."""
    path = among(written(tmp_path, PROGRAM)[0], ranks)
    with tracedb.open() as there:
        there.ingest([path])
        expected = rows(there, TIMES.format(*OWN))
    assert len(expected) == 3 * len(KINDS)
    table = ("model_ns", "reference.changed_estimate", f"change = 'ranks={ranks}'")
    assert rows(elsewhere, TIMES.format(*table)) == expected


def over_network(path: Path, gigabytes: float) -> list[tuple[Any, ...]]:
    """The rooflines of a trace, with another network between its nodes."""
    with tracedb.open() as there:
        there.connection.execute(
            "INSERT INTO reference.hardware BY NAME SELECT * EXCLUDE (is_fallback, "
            "is_generic, source, vendor) REPLACE (? AS network_bytes_per_second) "
            "FROM prediction.hardware WHERE hardware = 'H100'",
            [1e9 * gigabytes],
        )
        there.ingest([path])
        return [row[:2] for row in rows(there, TIMES.format(*OWN))]


@pytest.mark.parametrize("recorded", [2, 16])
def test_a_network_is_that_of_both_sides(recorded: int, tmp_path: Path) -> None:
    """Of 2 ranks, which have none, and of 16 on two nodes; nodes have four ranks then.

    Models are of other networks, so rooflines serve; the band is hardly wider.
    """
    before, after = written(tmp_path, PROGRAM)
    after.write_bytes(before.read_bytes())
    among(before, recorded)
    text = "ranks=32 ranks_per_node=4 network=2.5"
    with tracedb.open() as database:
        database.ingest([before])
        with simulated(database, text) as beside:
            found = {
                change: [row[:2] for row in rows(beside, TIMES.format(*table))]
                for change in ("network=2.5", text)
                for table in [
                    ("NULL", "reference.changed_estimate", f"change = '{change}'")
                ]
            }
            factors = rows(
                beside,
                "SELECT ratio, basis, high_ratio / ratio FROM prediction.changed_time "
                "INNER JOIN staging.gpu_op USING (gpu_op_id) ORDER BY start_ns",
            )
    expected = over_network(before, 2.5), over_network(among(after, 32, 4), 2.5)
    assert (found["network=2.5"], found[text]) == expected
    assert len(factors) == 3 * len(KINDS)
    wider = 1.4 if recorded == RECORDED else 1
    for (ratio, basis, high), (_, one), (_, other) in zip(
        factors, *expected, strict=True
    ):
        assert (ratio, basis) == (pytest.approx(other / one), "roofline")
        assert high == pytest.approx(1.6 * wider)


def ratios(database: tracedb.Database, scenario: str) -> dict[str, float]:
    """The factor of each collective."""
    found = rows(
        database,
        "SELECT DISTINCT name, ratio FROM prediction.changed_time "
        f"INNER JOIN staging.gpu_op USING (gpu_op_id) WHERE scenario = '{scenario}'",
    )
    assert len(found) == len({name for name, _ in found})
    return dict(found)


def test_only_collectives_change_and_more_ranks_take_longer(
    elsewhere: tracedb.Database,
) -> None:
    """The recorded number changes nothing."""
    found = [ratios(elsewhere, f"ranks={ranks}") for ranks in RANKS]
    assert {*found[0].values()} == {1}
    assert all(len(each) == len(KINDS) for each in found)
    for name in found[0]:
        times = [each[name] for each in found]
        assert times == sorted({*times})
    assert [*ratios(elsewhere, "sums")] == [
        name for name in found[0] if "AllReduce" in name
    ]


def test_collectives_on_another_gpu_use_what_was_measured(tmp_path: Path) -> None:
    """By models of both GPUs; where nobody measured one of them, by the links."""
    edits = [of_scenario(gpu, parse_setting(f"gpu={gpu}")) for gpu in ("H200", "GH200")]
    query = (
        "SELECT DISTINCT scenario, basis FROM prediction.changed_time "
        "INNER JOIN staging.gpu_op USING (gpu_op_id) WHERE name LIKE '%AllReduce%'"
    )
    with tracedb.open() as database:
        database.ingest(written(tmp_path, PROGRAM), run="job")
        with database.simulate(["replay"], edits) as beside:
            found = rows(beside, query)
    assert sorted(found) == [("GH200", "roofline"), ("H200", "model")]


def test_another_gpu_and_other_ranks_together(elsewhere: tracedb.Database) -> None:
    """The links are those of the other GPU, between as many ranks."""
    found = rows(
        elsewhere,
        "SELECT is_collective, change, count(*) FROM prediction.changed_time "
        "INNER JOIN staging.gpu_op USING (gpu_op_id) WHERE scenario = 'both' "
        "GROUP BY ALL ORDER BY ALL",
    )
    of_collectives = RECORDED * 3 * len(KINDS)
    assert [row[:2] for row in found] == [
        (False, "gpu=A100 40GB"),
        (True, "gpu=A100 40GB ranks=16"),
    ]
    assert found[1][2] == of_collectives
    own = ratios(elsewhere, "ranks=16")
    both = rows(
        elsewhere,
        "SELECT DISTINCT name, ratio FROM prediction.changed_time "
        "INNER JOIN staging.gpu_op USING (gpu_op_id) "
        "WHERE scenario = 'both' AND is_collective",
    )
    for name, ratio in both:
        assert ratio > own[name]


RATIOS = """
SELECT path, scenario, name, ratio
FROM prediction.changed_time
INNER JOIN staging.gpu_op USING (gpu_op_id, trace_id)
INNER JOIN staging.trace USING (trace_id)
"""


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """All times of the program's ranks, with each number of ranks."""
    edits = {f"ranks={n}": [fields(f"ranks={n}")] for n in RANKS}
    one = case("job", PROGRAM, Delays(), recorded=True)
    return predict(tmp_path_factory.mktemp("job"), [one], edits, RATIOS)


def test_the_band_of_steps_has_that_of_collectives(tmp_path: Path) -> None:
    """It is as wide as factors at its ends make it, and as steps differ, by squares."""
    columns = "predicted_ns, low_ns, high_ns, change_low_ns, change_high_ns"
    query = f"SELECT scenario, {columns} FROM question.scenario_summary"
    with tracedb.open() as database:
        database.ingest(written(tmp_path, PROGRAM), run="job")
        with database.simulate(["replay"], [EDITS[0], EDITS[3]]) as beside:
            found = {name: numbers for name, *numbers in rows(beside, query)}
            factors = rows(
                beside,
                "SELECT DISTINCT name, ratio, low_ratio, high_ratio "
                "FROM prediction.changed_time INNER JOIN staging.gpu_op "
                "USING (gpu_op_id) WHERE scenario = 'ranks=16'",
            )
        edits = [
            of_scenario(end, Change(target="gpu", name=name, factor=factor))
            for name, *each in factors
            for end, factor in zip(("own", "low", "high"), each, strict=True)
        ]
        edits.append(of_scenario("same", Change(target="gpu", factor=1)))
        with database.simulate(["replay"], edits) as beside:
            plain = {name: numbers for name, *numbers in rows(beside, query)}
    own, low, high, change_low, change_high = plain["own"]
    shorter, longer = own - plain["low"][0], plain["high"][0] - own
    change = (change_low + change_high) / 2
    assert len(factors) == len(KINDS)
    assert min(shorter, longer) > high - own
    assert found["ranks=16"] == pytest.approx(
        [
            own,
            own - hypot(own - low, shorter),
            own + hypot(high - own, longer),
            change - hypot(change - change_low, shorter),
            change + hypot(change_high - change, longer),
        ],
        abs=2,
    )
    # Factors of 1 have no band.
    assert found["ranks=2"] == plain["same"]


def fields(text: str) -> dict[str, Any]:
    """A setting's fields."""
    edit = parse_setting(text)
    return {
        name: value
        for name in edit.__struct_fields__
        if (value := getattr(edit, name)) is not None
    }


@pytest.mark.parametrize("ranks", RANKS)
def test_a_program_with_these_times_is_predicted(
    ranks: int, predicted: Predicted
) -> None:
    """Every kernel, call and step happens when the prediction says."""
    name = f"ranks={ranks}"
    factors = {
        kernel: ratio
        for scenario, kernel, ratio in predicted.answers["job", 0]
        if scenario == name
    }

    def slower(action: Action) -> Action:
        if not isinstance(action, Collective):
            return action
        ratio = factors[action.kernel]
        return replace(action, kernel_ns=round(action.kernel_ns * ratio))

    one = case("job", PROGRAM, Delays(), recorded=True)
    program = change.each_action(PROGRAM, slower)
    assert_foretold(one, name, predicted, program, Delays())


def test_a_group_is_chosen_if_there_are_several(tmp_path: Path) -> None:
    """Groups of different ranks are refused; one of them by its name is not."""
    pairs = ((0, 1), (2, 3))
    ranks = []
    for number in range(4):
        own = pairs[number // 2]
        group = Collective(20, 20_000, group=f"pair{number // 2}", ranks=own)
        both = (Collective(20, 40_000), group)
        ops = [
            Op("c10d::allreduce_", (Op("record_param_comms", (one,), SHAPES),))
            for one in both
        ]
        marks = [step(k, Gap(1_000), *ops, StreamSync(20)) for k in (1, 2)]
        ranks.append(Rank((Thread("main", (step(0, *warm_up((20,))), *marks)),)))

    with tracedb.open() as database:
        database.ingest(written(tmp_path, Program(tuple(ranks))), run="job")
        said = (
            r'different ranks: "0 \[0, 1, 2, 3\]", "pair. \[., .\]"; add process_group'
        )
        with pytest.raises(ScenarioError, match=said), simulated(database, "ranks=8"):
            pass
        with simulated(database, "ranks=8 process_group=pair*") as beside:
            found = rows(
                beside,
                "SELECT process_group, count(*) FROM prediction.changed_time "
                "INNER JOIN staging.collective ON node_id = gpu_op_id "
                "GROUP BY ALL ORDER BY ALL",
            )
    assert found == [("pair0 [0, 1]", 4), ("pair1 [2, 3]", 4)]


def simulated(database: tracedb.Database, text: str) -> Any:  # noqa: ANN401
    """The database with one setting."""
    return database.simulate(["replay"], [of_scenario("more", parse_setting(text))])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu:kernel set to_ranks=8", "to_ranks applies to collectives"),
        ("op:aten::mm set to_ranks=8", "to_ranks applies to collectives"),
        ("host set to_ranks=8", "to_ranks applies to "),
        ("gpu:collective set to_gpu=H200 network=5", "network is about other ranks"),
        ("gpu:collective set to_ranks=8 network=0", "network=a number of GB/s"),
    ],
)
def test_only_collectives_have_ranks(
    text: str, said: str, elsewhere: tracedb.Database
) -> None:
    """Other targets are refused."""
    with (
        pytest.raises(ScenarioError, match=said),
        elsewhere.simulate(["replay"], [of_scenario("more", parse(text))]),
    ):
        pass


def test_collectives_of_unknown_size_are_refused(tmp_path: Path) -> None:
    """Without the call that has the message, nothing is known to change."""
    ops = (Op("c10d::allreduce_", (Collective(20, 40_000),)), StreamSync(20))
    thread = Thread("main", (step(0, *warm_up((20,))), step(1, *ops)))
    with tracedb.open() as database:
        database.ingest(written(tmp_path, Program((Rank((thread,)),) * 2)), run="job")
        said = "the message of no collective that it selects is known"
        with pytest.raises(ScenarioError, match=said), simulated(database, "ranks=8"):
            pass


def test_collectives_on_the_cpu_are_host_time(ingested: Ingested) -> None:
    """The error names the edit for them."""
    with tracedb.open(ingested(SAMPLES / "ddp_gloo"), read_only=True) as database:
        said = r"collectives are on the CPU here.*'host name=gloo:\* x0.5'"
        with pytest.raises(ScenarioError, match=said), simulated(database, "ranks=8"):
            pass
        edit = of_scenario("faster", parse("host name=gloo:* x0.5"))
        with database.simulate(["replay"], [edit]) as beside:
            (row,) = rows(beside, "SELECT match_count FROM question.scenario_hit")
            assert row[0] > 0


def test_a_setting_of_ranks_is_shorthand_for_an_edit() -> None:
    """It selects collectives."""
    assert parse_setting("ranks=64") == parse("gpu:collective set to_ranks=64")
    assert parse_setting("ranks=64 process_group=1*") == parse(
        "gpu:collective process_group=1* set to_ranks=64"
    )
    for text in ("ranks=1", "ranks=", "ranks=all"):
        with pytest.raises(ScenarioError, match=r"setting '.*(expected|must be)"):
            parse_setting(text)


def test_a_network_that_begins_or_ceases_has_a_wide_band(tmp_path: Path) -> None:
    """From two nodes to one, as from one to two; not from two to four."""
    path = among(written(tmp_path, PROGRAM)[0], 16)
    settings = ("ranks=8", "ranks=32")
    edits = [of_scenario(text, parse_setting(text)) for text in settings]
    with tracedb.open() as database:
        database.ingest([path])
        with database.simulate(["replay"], edits) as beside:
            found = dict(
                rows(
                    beside,
                    "SELECT scenario, max(high_ratio / ratio) "
                    "FROM prediction.changed_time GROUP BY ALL",
                )
            )
    assert found["ranks=8"] == pytest.approx(2.2 * found["ranks=32"])
