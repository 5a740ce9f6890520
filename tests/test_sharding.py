"""Sharding embedding tables over ranks: plans, their cost, and what is refused."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from launched import H100, LONG, Op, write
from support import rows

import tracedb
from tracedb import Sharding, kernels
from tracedb.cli.main import tracedb as command
from tracedb.kernels.shape_times import shape_times
from tracedb.sharding.cuts import Cut, Shards
from tracedb.sharding.plans import Exchange, Goal, plans
from tracedb.sharding.run import OPTIMIZERS
from tracedb.sharding.search import Plan, searched
from tracedb.sharding.tables import Table, read_tables
from tracedb.synthetic.program import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support import Ingested

    from tracedb.sharding.cuts import Cuts, Numbers

# Latency, then bandwidth; integer bytes and nanoseconds.
EXCHANGE = Exchange(np.array([0.0, 1, 1000, 10**9]), np.array([0.0, 50, 60, 10**6]))
SEEDS = range(40)


class NoCuts:
    """Tables that cannot be split."""

    def finer(self, _cut: Cut) -> Iterator[Cut]:
        """No way to split."""
        return iter(())


CUTS: Cuts = NoCuts()  # type: ignore[assignment] # as much of it as is asked


def made(takes: Sequence[Sequence[int]]) -> Shards:
    """Whole tables with given costs, one row each."""
    array = np.array(takes, np.int64).T
    count = array.shape[1]
    cuts = tuple(Cut(number) for number in range(count))
    return Shards(cuts, np.zeros(count, np.int64), array[0] + 1, array)


def random_shards(seed: int, count: int) -> Shards:
    """Tables of all sizes, some of them equal."""
    random = seeded("shards", seed)
    kinds = [
        [round(10 ** random.uniform(1, 4)) for _ in range(5)]
        for _ in range(max(count * 3 // 4, 1))
    ]
    return made([random.choice(kinds) for _ in range(count)])


def goal_of(shards: Shards, ranks: int, share: float = 2.0) -> Goal:
    """A goal with memory for a multiple of the ranks' mean."""
    room = int(shards.takes[4].sum() / ranks * share) + int(shards.takes[4].max())
    return Goal(ranks, room, EXCHANGE, sends_indices=True)


def best_of(shards: Shards, goal: Goal) -> Plan:
    """The search's result, started from the best heuristic plan."""
    found = [
        Plan(goal.time_ns(shards, rank), shards, rank)
        for name, rank in plans(shards, goal)
        if name != "naive" and goal.fits(shards, rank)
    ]
    start = min(found, key=lambda plan: plan.time_ns)
    return searched(start, CUTS, goal, may_split=True)


def exhausted(shards: Shards, goal: Goal) -> int:
    """[ns] The best of all plans, by enumeration."""
    every = product(range(goal.ranks), repeat=len(shards))
    ranks = (np.array(rank, np.int64) for rank in every)
    return min(goal.time_ns(shards, r) for r in ranks if goal.fits(shards, r))


def by_hand(shards: Shards, rank: Numbers, goal: Goal) -> int:
    """[ns] A plan's time, summed rank by rank."""
    most = [0] * 5
    for one in range(goal.ranks):
        there = [place for place in range(len(shards)) if rank[place] == one]
        for kind in range(5):
            load = sum(int(shards.takes[kind, place]) for place in there)
            most[kind] = max(most[kind], load)
    sums, indices = (
        int(np.floor(np.interp(size, EXCHANGE.message_bytes, EXCHANGE.taken_ns) + 0.5))
        for size in (most[2], most[3])
    )
    return most[0] + most[1] + 2 * sums + indices


def test_the_search_is_close_to_the_optimum() -> None:
    """It is never better, and in most small cases equal."""
    gaps = []
    for seed in SEEDS:
        shards = random_shards(seed, 3 + seed % 4)
        goal = goal_of(shards, 2 + seed % 2)
        gaps.append(best_of(shards, goal).time_ns / exhausted(shards, goal) - 1)
    assert min(gaps) >= 0
    assert sorted(gaps)[len(gaps) * 9 // 10] < 0.02
    assert max(gaps) < 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_search_never_makes_a_plan_worse(seed: int) -> None:
    """The result costs at most the start, fits, and has every shard once."""
    shards = random_shards(seed, 5 + 2 * seed)
    goal = goal_of(shards, 1 + seed % 9, share=1.2)
    for _, rank in plans(shards, goal):
        time = goal.time_ns(shards, rank)
        assert time == by_hand(shards, rank, goal)
        if goal.fits(shards, rank):
            start = Plan(time, shards, rank)
            found = searched(start, CUTS, goal, may_split=True)
            assert found.time_ns <= time
            assert found.time_ns == by_hand(found.shards, found.rank, goal)
            assert goal.fits(found.shards, found.rank)
            assert sorted(found.shards.cut) == sorted(shards.cut)


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_the_order_of_tables_does_not_matter(seed: int) -> None:
    """Heuristic plans and the search cost the same for any order."""
    shards = random_shards(seed, 20)
    goal = goal_of(shards, 3)
    order = np.array(seeded("order", seed).sample(range(20), 20), np.int64)
    assert best_of(shards.take(order), goal).time_ns == best_of(shards, goal).time_ns
    balanced = [
        [
            goal.time_ns(some, rank)
            for name, rank in plans(some, goal)
            if name != "naive"
        ]
        for some in (shards, shards.take(order))
    ]
    assert balanced[0] == balanced[1]


@pytest.mark.parametrize(("ranks", "each"), [(1, 3), (4, 1), (4, 5)])
def test_equal_tables_are_spread_evenly(ranks: int, each: int) -> None:
    """All plans give each rank the same number, and nothing is better."""
    shards = made([[70, 110, 512, 64, 4096]] * (ranks * each))
    goal = goal_of(shards, ranks)
    for _, rank in plans(shards, goal):
        assert np.bincount(rank, minlength=ranks).tolist() == [each] * ranks
    assert best_of(shards, goal).time_ns == goal.time_ns(shards, rank)


TABLES = [
    Table("a", 10_000_000, 128, 1.0, "float32"),
    Table("b", 5_000_000, 128, 20.0, "float32"),
    Table("c", 1000, 64, 3.5, "float32"),
    Table("d", 40_000_000, 100, 1.0, "float16"),
    Table("e", 300, 6, 50.0, "float32"),
    Table("f", 2_000_000, 256, 4.0, "float32"),
    Table("g", 7, 32, 0.3, "bfloat16"),
]
RANKS, BATCH = 4, 2048


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of stored plans."""
    return tmp_path_factory.mktemp("sharding") / "plans.duckdb"


@pytest.fixture(scope="module")
def found(kept: Path) -> Sharding:
    """Plans for a few tables, which are stored."""
    return tracedb.shard(
        TABLES, ranks=RANKS, gpu="H100", batch=BATCH, memory="8GB", database=kept
    )


@pytest.fixture(scope="module")
def opened(found: Sharding, kept: Path) -> Iterator[tracedb.Database]:
    """The database with the plans, opened."""
    assert found.plans.height
    with tracedb.open(kept, read_only=True) as db:
        yield db


def test_shards_sum_to_their_table(opened: tracedb.Database) -> None:
    """Their sizes sum to the table's, and are almost equal."""
    shards = opened.sql("FROM prediction.embedding_shard")
    assert {*shards["way"]} == {"none", "column", "row"}
    for (ordinal, way, parts), sizes in shards.group_by("ordinal", "way", "parts"):
        table = TABLES[ordinal]
        count = sizes["shard_count"]
        assert count.sum() == parts
        assert sorted(sizes["first_part"]) == [0, *count[:-1].cum_sum()]
        rows_there = (sizes["rows"] * count).sum()
        width = (sizes["width"] * count).sum()
        assert rows_there == table.rows * (parts if way == "column" else 1)
        assert width == table.width * (parts if way == "row" else 1)
        pooling = (sizes["pooling"] * count).sum()
        assert pooling == pytest.approx(
            table.pooling * (parts if way == "column" else 1)
        )
        assert max(sizes["width"]) - min(sizes["width"]) <= 4
        if table.width % 4 == 0:
            assert (sizes["width"] % 4 == 0).all()


def test_memory_of_shards_by_hand(opened: tracedb.Database) -> None:
    """Bytes of weights, optimizer state, sums and indices."""
    examples = RANKS * BATCH
    size = {"float32": 4, "float16": 2, "bfloat16": 2}
    for row in opened.sql("FROM prediction.embedding_shard").iter_rows(named=True):
        weights = row["rows"] * row["width"] * size[row["dtype"]]
        assert row["memory_bytes"] == weights + 4 * row["rows"]
        assert row["sent_bytes"] == examples * row["width"] * size[row["dtype"]]
        assert row["index_bytes"] == pytest.approx(8 * examples * row["pooling"], abs=1)


def test_costs_sum_up(found: Sharding, opened: tracedb.Database) -> None:
    """Costs of tables sum to ranks, and those of ranks to plans."""
    estimate = "SELECT direction, estimate_ns FROM reference.shard_estimate"
    launch = dict(rows(opened, f"{estimate} WHERE rows = 0"))
    knots = "SELECT message_bytes, estimate_ns FROM reference.exchange_estimate"
    asked, taken = np.array(rows(opened, f"{knots} ORDER BY 1"), float).T
    for plan in found.plans.iter_rows(named=True):
        name = {"plan": plan["plan"], "split": plan["split"]}
        tables, ranks = found.tables.filter(**name), found.ranks.filter(**name)
        assert ranks["rank"].to_list() == [*range(RANKS)]
        for rank in ranks.iter_rows(named=True):
            there = tables.filter(rank=rank["rank"])
            assert rank["shard_count"] == there.height
            for column in ("sent_bytes", "index_bytes", "memory_bytes"):
                assert rank[column] == there[column].sum()
            for way in ("forward", "backward"):
                added = there[f"{way}_ns"].sum() + launch[way] * (there.height > 0)
                assert rank[f"{way}_ns"] == added
            assert rank["fits"] == (rank["memory_bytes"] <= 8_000_000_000)
        sums, indices = (
            int(np.floor(np.interp(max(ranks[sent]), asked, taken) + 0.5))
            for sent in ("sent_bytes", "index_bytes")
        )
        assert plan["exchange_ns"] == 2 * sums
        assert plan["index_exchange_ns"] == indices
        slowest = max(ranks["forward_ns"]) + max(ranks["backward_ns"])
        assert plan["added_ns"] == slowest + 2 * sums + indices
        time = (ranks["forward_ns"] + ranks["backward_ns"]).to_list()
        idle = 1 - sum(time) / len(time) / max(time)
        assert plan["imbalance_share"] == pytest.approx(idle)
        assert plan["slowest_rank"] == time.index(max(time))
        assert plan["low_ns"] <= plan["added_ns"] <= plan["high_ns"]


def test_every_plan_has_all_of_every_table(found: Sharding) -> None:
    """No element of a table is missing or duplicated."""
    for (_, _, ordinal), shards in found.tables.group_by("plan", "split", "ordinal"):
        table = TABLES[ordinal]
        assert (shards["rows"] * shards["width"]).sum() == table.rows * table.width
        assert sorted(shards["part"]) == [*range(shards["parts"][0])]


def test_the_searched_plan_is_the_best(found: Sharding) -> None:
    """No other plan is faster; plans that do not fit come last, with one line each."""
    best = found.plans.filter(plan="searched")["added_ns"].item()
    assert best == found.plans["added_ns"][0]
    assert found.plans["place"].drop_nulls().is_sorted()
    fitting = found.plans.filter(pl.col("place").is_not_null())
    assert fitting["added_ns"].is_sorted()
    full = found.plans.height - fitting.height
    assert len(found.refused) == full > 0
    assert set(found.plans["plan"]) == {
        *("naive", "size", "lookups", "cost", "searched")
    }
    assert set(found.plans["split"]) == {"none", "column", "row", "any"}
    assert found.of_best(found.ranks).height == RANKS


def test_the_search_agrees_with_the_questions(
    found: Sharding, opened: tracedb.Database
) -> None:
    """Its cost equals `question.sharding`'s, except for launches."""
    from tracedb.sharding.cuts import Cuts
    from tracedb.sharding.run import _exchange

    goal = Goal(RANKS, None, _exchange(opened.connection), sends_indices=True)
    cuts = Cuts(opened.connection)
    ((launches,),) = rows(
        opened,
        "SELECT sum(estimate_ns)::BIGINT FROM reference.shard_estimate WHERE rows = 0",
    )
    for plan in found.plans.iter_rows(named=True):
        there = found.tables.filter(plan=plan["plan"], split=plan["split"])
        there = there.sort("ordinal", "part")
        columns = there.select("ordinal", "way", "parts").unique(maintain_order=True)
        shards = cuts.shards([Cut(*row) for row in columns.rows()])
        time = goal.time_ns(shards, there["rank"].to_numpy())
        assert time + launches == plan["added_ns"]


def test_equal_tables_per_rank_take_one_fused_launch() -> None:
    """With the mean number of tables on each rank, it is exact to a nanosecond."""
    tables = [Table(f"t{n}", 100_000, 64, 8.0, "float32") for n in range(6)]
    fused, each = (
        tracedb.shard(tables, ranks=2, gpu="H100", batch=512, launch=launch)
        for launch in ("fused", "table")
    )
    sizes = {"table_rows": 100_000, "width": 64, "bags": 1024, "pooling": 8}
    asked = pl.DataFrame(
        [
            {"hardware": "H100", "family": family, "op": "sum", "dtype": "float32"}
            | sizes
            | {"tables": count}
            for family in ("embedding_bag", "embedding_bag_backward")
            for count in (3, 1)
        ]
    )
    whole = shape_times(kernels.shipped(), asked)["ns"].to_list()
    for way, (three, one) in (("forward", whole[:2]), ("backward", whole[2:])):
        assert fused.ranks[f"{way}_ns"].to_list() == pytest.approx(
            [three] * fused.ranks.height, abs=3
        )
        assert set(each.ranks[f"{way}_ns"]) == {3 * one}


def test_stored_plans_are_listed(found: Sharding, kept: Path, tmp_path: Path) -> None:
    """Plans stay in a database, and a user's plan is shown beside them."""
    own = f"""
        INSERT INTO reference.shard_placement
        SELECT 'mine', 'none', ordinal, 'none', 1, 0, ordinal % {RANKS}
        FROM reference.sharded_table
    """
    with tracedb.open(shutil.copy(kept, tmp_path)) as db:
        assert db.ask("sharding").equals(found.plans)
        db.connection.execute(own)
        plan = db.ask("sharding").filter(plan="mine").drop("plan", "place")
    naive = found.plans.filter(plan="naive", split="none").drop("plan", "place")
    assert plan.equals(naive)


def test_optimizer_state_has_to_fit(found: Sharding) -> None:
    """Adam needs twice the weights more; without memory for that, it is one line."""
    assert OPTIMIZERS["adam"] == (0, 8)
    with pytest.raises(tracedb.ShardingError, match=r"no plan fits.*46\.1 GB"):
        tracedb.shard(
            TABLES[:2] * 2, ranks=2, gpu="H100", batch=16,
            memory="14GB", optimizer="adam", split="none",
        )  # fmt: skip
    assert found.notes


BAD = {
    "missing.csv": ("rows,width\n5,4\n", "pooling is missing"),
    "other.csv": ("num_embeddings,width,pooling\n5,4,1\n", "here it is called rows"),
    "unknown.csv": ("rows,width,pooling,colour\n5,4,1,red\n", "no column colour"),
    "nan.csv": ("rows,width,pooling\n5,4,nan\n", "row 1: pooling is 'nan'"),
    "inf.csv": ("rows,width,pooling\n5,inf,1\n", "width is 'inf'"),
    "negative.csv": ("rows,width,pooling\n5,4,1\n-5,4,1\n", "row 2: rows is -5"),
    "half.csv": ("rows,width,pooling\n5,4.5,1\n", "width is 4.5"),
    "none.csv": ("rows,width,pooling\n5,4,0\n", "pooling is 0"),
    "text.csv": ("rows,width,pooling\nmany,4,1\n", "rows is 'many'"),
    "huge.csv": ("rows,width,pooling\n1e14,4,1\n", "more than 2^46"),
    "type.csv": ("rows,width,pooling,dtype\n5,4,1,int3\n", "unknown dtype int3"),
    "empty.csv": ("rows,width,pooling\n", "no tables"),
    "twice.csv": ("rows,rows,pooling\n5,4,1\n", "occurs twice"),
    "cells.csv": ("rows,width,pooling\n5,4,1,9\n", "4 cells"),
    "bad.json": ('[{"rows": 5,}]', "line 1"),
    "list.json": ("[1, 2]", "neither an object"),
    "true.json": ('[{"rows": true, "width": 4, "pooling": 1}]', "rows is True"),
    "none.json": ('[{"rows": null, "width": 4, "pooling": 1}]', "rows is missing"),
    "bad.toml": ("[[table]\n", "not TOML"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_table_files_are_refused(name: str, tmp_path: Path) -> None:
    """One line gives the place and the reason."""
    text, expected = BAD[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(tracedb.ShardingError) as error:
        read_tables(path)
    assert expected in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_table_files_in_three_formats(tmp_path: Path) -> None:
    """CSV, JSON and TOML agree; names and dtypes are optional."""
    row = {"rows": 5, "width": 8, "pooling": 1.5}
    texts = {
        "t.csv": "rows,width,pooling,name\n5,8,1.5,\n5,8,1.5,x\n",
        "t.json": json.dumps([row, row | {"name": "x"}]),
        "t.toml": "[[table]]\nrows = 5\nwidth = 8\npooling = 1.5\n"
        '[[table]]\nrows = 5\nwidth = 8\npooling = 1.5\nname = "x"\n',
    }
    expected = [Table(name, 5, 8, 1.5, "float32") for name in ("table 1", "x")]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert read_tables(tmp_path / name) == expected


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """A file of one table of 100 GB."""
    path = tmp_path / "tables.csv"
    path.write_text("rows,width,pooling\n200000000,128,2\n")
    return path


def ask(*words: object) -> Any:  # noqa: ANN401 (click's result)
    """The output of the command."""
    return CliRunner().invoke(command, ["shard", *map(str, words)])


REFUSED = [
    (("--ranks", 0), "0 ranks"),
    (("--ranks", 10**6), "1000000 ranks"),
    (("--ranks", 12), "do not fill whole nodes of 8"),
    (("--ranks", 2, "--batch", 0), "batch is 0"),
    (("--ranks", 2, "--memory", "lots"), "lots"),
    (("--ranks", 2, "--gpu", "abacus"), "abacus"),
    (("--ranks", 2, "--batch", 10**13), "2^46"),
    (("--ranks", 2, "--split", "none"), "no plan fits: the tables take 103.2 GB"),
    (("--ranks", 2, "--network", -1), "network is -1"),
]


@pytest.mark.parametrize(("words", "expected"), REFUSED)
def test_impossible_plans_are_refused(
    words: tuple[object, ...], expected: str, csv_file: Path, tmp_path: Path
) -> None:
    """One line, exit code 2, and nothing is written."""
    usual = {"--gpu": "H100", "--batch": 64}
    more = [x for pair in usual.items() if pair[0] not in words for x in pair]
    done = ask(csv_file, *more, *words, "--db", tmp_path / "new.duckdb")
    assert done.exit_code == 2, done.output
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
    assert not (tmp_path / "new.duckdb").exists()


@pytest.mark.parametrize("missing", ["--gpu", "--batch"])
def test_required_options(missing: str, csv_file: Path) -> None:
    """Neither GPU nor batch size is assumed."""
    words = {"--gpu": "H100", "--batch": "64"}
    words.pop(missing)
    (pair,) = words.items()
    done = ask(csv_file, "--ranks", 2, *pair)
    assert done.exit_code == 2
    assert missing in done.stderr


def test_a_table_too_large_for_a_rank_is_split(csv_file: Path) -> None:
    """Every format says so; across nodes, traffic over the network decides."""
    words = (csv_file, "--ranks", 2, "--gpu", "H100", "--batch", 64)
    shown = ask(*words, "--by", "table")
    assert shown.exit_code == 0, shown.stderr
    assert "does not fit" in shown.stderr
    done = ask(*words, "--by", "table", "--format", "json")
    placed = [r for r in json.loads(done.stdout) if r["plan"] == "searched"]
    assert {row["parts"] for row in placed} == {2}
    assert {row["rank"] for row in placed} == {0, 1}
    done = ask(*words, "--format", "csv", "--ranks-per-node", 1, "--network", 0.001)
    best = pl.read_csv(done.stdout_bytes).row(0, named=True)
    # Half of what a rank sends goes to the other node, in both directions.
    assert best["exchange_ns"] >= best["sent_bytes"] / 2 / 1e6 * 1e9 * 2
    done = ask(*words, "--format", "csv", "--ranks-per-node", 1)
    listed = pl.read_csv(done.stdout_bytes).row(0, named=True)
    # By default, each GPU has a 400 Gb/s port of its own.
    assert listed["exchange_ns"] >= best["sent_bytes"] / 2 / 45e9 * 1e9 * 2
    assert listed["exchange_ns"] < best["exchange_ns"] / 1000


def bag(table_rows: int, width: int, found: int, bags: int) -> Op:
    """A lookup in one table, as PyTorch records it."""
    dims = [[table_rows, width], [found], [bags], *[[]] * 6]
    types = ["float", LONG, LONG, *["Scalar"] * 6]
    return Op("aten::_embedding_bag", dims, types)


def test_tables_from_a_trace(
    tmp_path_factory: pytest.TempPathFactory, ingested: Ingested
) -> None:
    """GPU and batch size also come from the recording."""
    folder = tmp_path_factory.mktemp("bags")
    trace = write(folder / "trace.json", [bag(1000, 64, 96, 32), bag(50, 8, 32, 32)])
    path = ingested(trace)
    with tracedb.open(path, read_only=True) as db:
        seen = db.ask("embedding_table").select("rows", "width", "bags", "pooling")
        assert seen.rows() == [(1000, 64, 32, 3.0), (50, 8, 32, 1.0)]
    found = tracedb.shard(path, ranks=2)
    assert any(f"2 ranks of {H100.split()[1]}, 32 examples" in n for n in found.notes)
    searched_tables = found.of_best(found.tables)
    assert (searched_tables["pooling"].is_in([3.0, 1.0, 1.5, 0.5])).all()
    with pytest.raises(tracedb.ShardingError, match="no embedding lookups"):
        tracedb.shard(path, ranks=2, rank=7)
