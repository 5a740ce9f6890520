"""Recording: files belong together and state what ran."""

import ast
import gzip
import json
import re
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="recording needs tracedb[record]")
torch.set_num_threads(1)  # other tests run beside these

from tracedb.record import (  # noqa: E402  only where PyTorch is
    DLRM,
    DLRM_DDP,
    DLRM_DEFAULT,
    DLRM_MLPERF,
    DLRM_SAMPLE,
    RMC1,
    RMC2,
    RMC3,
    WORKLOADS,
    DLRMConfig,
    Images,
    Recording,
    Training,
    inception,
    loss_function,
    random_batch,
    random_model,
    record,
    record_ddp,
    record_dlrm,
    resnet,
    training_step,
)

ROOT = Path(__file__).parents[1]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def dlrm(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Three recorded steps of the small DLRM: numbers 2 to 4."""
    return record_dlrm(
        tmp_path_factory.mktemp("dlrm"), batch_size=32, warmup=2, steps=3, repeats=3
    )


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    """Two recorded steps of two ranks."""
    return record_ddp(
        tmp_path_factory.mktemp("ddp"), batch_size=32, warmup=1, steps=2, repeats=2
    )


def read(path: Path) -> Json:
    """The events of a recorded file."""
    content: Json = json.loads(gzip.decompress(path.read_bytes()))
    return content


def spans(recording: Recording) -> list[Json]:
    """All events with a duration, except the profiler's own."""
    events = read(recording.kineto)["traceEvents"]
    return [e for e in events if e["ph"] == "X" and "External id" in e["args"]]


def marks(recording: Recording) -> list[Json]:
    """The events that mark steps."""
    return [e for e in spans(recording) if e["name"].startswith("ProfilerStep#")]


def names_by(argument: str, recording: Recording) -> dict[int, str]:
    """Event names by one of their ids."""
    return {e["args"][argument]: e["name"] for e in spans(recording)}


def names_by_rf_id(recording: Recording) -> dict[int, str]:
    """Names of the graph's nodes by rf_id, except those before any op."""
    nodes = {
        attribute["value"]: node["name"]
        for node in read(recording.et)["nodes"]
        for attribute in node["attrs"]
        if attribute["name"] == "rf_id" and attribute["value"]
    }
    return {i: n for i, n in nodes.items() if n != "## process_group:init ##"}


def agree(nodes: dict[int, str], events: dict[int, str]) -> bool:
    """Whether every node has an event with its id and name."""
    return nodes.items() <= events.items()


def test_every_step_has_its_mark(dlrm: Recording) -> None:
    """Numbers continue after the warm-up steps."""
    names = [mark["name"] for mark in marks(dlrm)]
    assert names == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]


def test_a_step_holds_a_whole_training_step(dlrm: Recording) -> None:
    """Loading, zero_grad, forward, backward, update and .item() happen once a step."""
    names = Counter(event["name"] for event in spans(dlrm))
    for part in (
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "Optimizer.zero_grad#SGD.zero_grad",
        "aten::bmm",
        "BmmBackward0",
        "Optimizer.step#SGD.step",
        "aten::item",
    ):
        assert names[part] >= 3
    assert names["aten::embedding_bag"] == 3 * len(DLRM_SAMPLE.table_rows)


def test_ops_have_shapes(dlrm: Recording) -> None:
    """A linear layer's event has the shapes of input and weight."""
    shapes = [
        e["args"]["Input Dims"] for e in spans(dlrm) if e["name"] == "aten::linear"
    ]
    assert shapes[0] == [[32, 16], [64, 16], [64]]
    assert len(shapes) == 3 * 5


def test_the_graph_covers_the_first_recorded_step(dlrm: Recording) -> None:
    """Its nodes are exactly the events of the first step, matched by id."""
    nodes = names_by_rf_id(dlrm)
    assert agree(nodes, names_by("Record function id", dlrm))
    first, second, _ = marks(dlrm)
    step = [e for e in spans(dlrm) if first["ts"] <= e["ts"] < second["ts"]]
    assert sorted(nodes) == sorted(e["args"]["Record function id"] for e in step)
    measured = json.loads(dlrm.measured.read_text())
    assert measured["execution_graph_step"] == first["name"]


def test_external_ids_match_the_graph_in_a_process_of_one_thread() -> None:
    """In a process's first recording of one thread, `rf_id` = `External id`."""
    sample = Recording.named(ROOT / "sample_traces" / "dlrm_cpu", "dlrm")
    assert agree(names_by_rf_id(sample), names_by("External id", sample))


def test_measured_times_and_facts(dlrm: Recording) -> None:
    """Unprofiled step times are in nanoseconds, as many as requested."""
    measured = json.loads(dlrm.measured.read_text())
    assert len(measured["step_ns"]) == 3
    assert min(measured["step_ns"]) <= measured["median_step_ns"]
    assert 100_000 < measured["back_to_back_step_ns"] < 10_000_000_000
    assert measured["torch"] == torch.__version__
    assert (measured["device"], measured["rank"]) == ("cpu", None)
    assert measured["threads"] == torch.get_num_threads()


def test_files_do_not_identify_the_machine(dlrm: Recording) -> None:
    """Host name, paths and trace id are blanked; the gzip header has no time."""
    kineto = read(dlrm.kineto)
    assert kineto["host_name"] == "host"
    assert kineto["trace_id"] == ""
    assert kineto["traceName"] == "trace.json"
    for file in (dlrm.kineto, dlrm.et):
        assert file.read_bytes()[4:8] == bytes(4)


def test_a_rank_given_by_the_caller(tmp_path: Path) -> None:
    """It is in the Kineto file and in the measured times."""
    done = record(
        lambda: torch.ones(2).sum(),
        tmp_path,
        name="worker",
        warmup=1,
        steps=1,
        repeats=1,
        rank=3,
    )
    assert done == Recording.named(tmp_path, "worker")
    assert read(done.kineto)["distributedInfo"] == {"rank": 3}
    assert json.loads(done.measured.read_text())["rank"] == 3


def test_recording_works_after_a_failing_step(tmp_path: Path) -> None:
    """`record` raises the error, and releases profiler and observer."""
    calls = iter(range(5))

    def step() -> None:
        next(calls)

    with pytest.raises(StopIteration):
        record(step, tmp_path, name="broken", warmup=1, steps=3, repeats=1)
    done = record(
        lambda: torch.rand(1), tmp_path, name="whole", warmup=1, steps=1, repeats=1
    )
    assert agree(names_by_rf_id(done), names_by("Record function id", done))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_gpu_recording_has_kernels_and_synchronisations(tmp_path: Path) -> None:
    """On a GPU, kernels and synchronization events are recorded too."""
    done = record_dlrm(tmp_path, device="cuda", steps=2)
    events = read(done.kineto)["traceEvents"]
    assert {"kernel", "cuda_runtime", "cuda_sync"} <= {e.get("cat") for e in events}
    assert agree(names_by_rf_id(done), names_by("Record function id", done))


def test_ranks_record_rank_and_world_size(ranks: list[Recording]) -> None:
    """Both are in every rank's Kineto file and measured times."""
    for rank, recording in enumerate(ranks):
        info = read(recording.kineto)["distributedInfo"]
        measured = json.loads(recording.measured.read_text())
        for stated in (info, measured):
            assert (stated["rank"], stated["world_size"]) == (rank, 2)
        assert info["backend"] == "gloo"


def test_ranks_run_the_same_collectives(ranks: list[Recording]) -> None:
    """Every rank all-reduces the same shapes, several of them in each step."""
    reduced = [
        Counter(
            str(event["args"]["Input Dims"])
            for event in spans(recording)
            if event["name"] == "gloo:all_reduce"
        )
        for recording in ranks
    ]
    assert reduced[0] == reduced[1]
    assert reduced[0].total() % len(marks(ranks[0])) == 0
    assert reduced[0].total() >= 2 * len(marks(ranks[0]))


def test_collectives_run_on_other_threads(ranks: list[Recording]) -> None:
    """A collective runs on another thread than the one that waits for it."""
    for recording in ranks:
        main = marks(recording)[0]["tid"]
        others = {e["tid"] for e in spans(recording) if e["name"].startswith("gloo:")}
        assert others
        assert main not in others


def test_graphs_of_ranks_match_by_record_function_id(ranks: list[Recording]) -> None:
    """With several threads, `Record function id` matches events and graph."""
    for recording in ranks:
        nodes = names_by_rf_id(recording)
        assert len(nodes) > 100
        assert agree(nodes, names_by("Record function id", recording))


@pytest.mark.parametrize(
    "config",
    [
        *(DLRM_SAMPLE, DLRM_DEFAULT.capped(50), DLRM_MLPERF.capped(50), DLRM_DDP),
        *(RMC1.capped(50), RMC2.capped(50), RMC3.capped(50)),
    ],
)
def test_forward_gives_a_probability_per_sample(config: DLRMConfig) -> None:
    """A batch of 4 gives 4 probabilities, for any sizes."""
    batch = random_batch(config, 4)
    clicks = random_model(config)(batch.dense, batch.indices, batch.offsets)
    assert clicks.shape == (4, 1)
    assert ((clicks > 0) & (clicks < 1)).all()


def test_tables_sum_their_rows() -> None:
    """A sum by hand over each sample's rows is equal."""
    batch = random_batch(DLRM_SAMPLE, 4)
    for table, index, offset in zip(
        DLRM(DLRM_SAMPLE).tables, batch.indices, batch.offsets, strict=True
    ):
        (weight,) = table.parameters()
        rows = weight[index].view(4, DLRM_SAMPLE.lookups, -1)
        torch.testing.assert_close(table(index, offset), rows.sum(1))


def test_batched_tables_equal_single_ones() -> None:
    """One combined table gives the same result, in one op."""
    batch = random_batch(DLRM_SAMPLE, 4)
    single = random_model(DLRM_SAMPLE)
    batched = random_model(replace(DLRM_SAMPLE, batched_tables=True))
    weights = single.state_dict()
    rows = [weights.pop(f"tables.{number}.weight") for number in range(4)]
    batched.load_state_dict(weights | {"tables.0.weight": torch.cat(rows)})
    torch.testing.assert_close(batched(*batch.inputs), single(*batch.inputs))
    assert len(batched.tables) == 1


@pytest.mark.parametrize(
    ("config", "loss"), [(DLRM_DEFAULT, "MSELoss"), (DLRM_MLPERF, "BCELoss")]
)
def test_the_loss_follows_the_configuration(config: DLRMConfig, loss: str) -> None:
    """The default DLRM uses squared error, MLPerf's cross entropy."""
    assert type(loss_function(config)).__name__ == loss


def test_the_interaction_is_every_pairwise_dot_product() -> None:
    """A plain loop over pairs gives the same."""
    model = DLRM(DLRM_SAMPLE)
    x, *tables = torch.rand(5, 2, DLRM_SAMPLE.embedding_dim)
    features = [x, *tables]
    dots = [
        (features[row] * features[column]).sum(1)
        for row in range(5)
        for column in range(row)
    ]
    expected = torch.cat([x, torch.stack(dots, dim=1)], dim=1)
    torch.testing.assert_close(model.interact(x, tables), expected)


@pytest.mark.parametrize(
    ("config", "width"),
    [(DLRM_DEFAULT, 100), (DLRM_MLPERF, 479), (DLRM_DDP, 164), (DLRM_SAMPLE, 42)],
)
def test_interaction_width_follows_from_tables(config: DLRMConfig, width: int) -> None:
    """The embedding dimension plus one value per pair (MLPerf's 479)."""
    assert config.interaction_width == width


def test_bottom_mlp_has_to_end_in_the_embedding_dimension() -> None:
    """Mismatched sizes are refused, with both numbers."""
    with pytest.raises(ValueError, match="ends in 8 but embedding_dim is 16"):
        DLRMConfig((4, 8), (1,), (10,), embedding_dim=16, lookups=1)


@pytest.mark.parametrize("config", [DLRM_SAMPLE, DLRM_DEFAULT.capped(50)])
def test_training_on_one_batch_lowers_the_loss(config: DLRMConfig) -> None:
    """Both losses fall when one batch is repeated."""
    batch = random_batch(config, 64, torch.Generator().manual_seed(0))
    step = training_step(
        random_model(config), loss_function(config), iter([batch] * 20)
    )
    losses = [step() for _ in range(20)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("network", "weights", "side"),
    [(resnet(), 25_557_032, 32), (inception(scale=8), None, 75)],
    ids=["resnet", "inception"],
)
def test_networks_score_classes(
    network: Any,  # noqa: ANN401 (PyTorch may be missing)
    weights: int | None,
    side: int,
) -> None:
    """A score per class, for any image size; ResNet-50 has 25.6 million weights."""
    batch = Images.random(2, side)
    assert network(*batch.inputs).shape == (2, 1000)
    if weights:
        assert sum(weight.numel() for weight in network.parameters()) == weights


def test_a_block_adds_its_shortcut() -> None:
    """With all weights of its body 0, a ResNet block is its shortcut."""
    block: Any = resnet(width=8)[2]
    for weight in block.body.parameters():
        weight.data.zero_()
    x = torch.rand(2, 8, 5, 5)
    torch.testing.assert_close(block(x), torch.relu(block.shortcut(x)))


def test_inception_is_about_as_large_as_its_model() -> None:
    """Inception-v3 has 23.8 million weights without the auxiliary classifier."""
    count = sum(weight.numel() for weight in inception().parameters())
    assert count == pytest.approx(23.8e6, rel=0.25)


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_run_on_a_cpu(name: str) -> None:
    """Each model to record has a small variant, whose steps run on a CPU."""
    step = WORKLOADS[name].step(4, small=True)
    losses = [step() for _ in range(3)]
    assert all(0 < loss < 100 for loss in losses)


@pytest.mark.parametrize(
    "training",
    [
        Training("adam", "foreach", learning_rate=1e-3),
        Training("adam", "fused", learning_rate=1e-3),
        Training("sgd", "fused"),
        Training(dtype="bfloat16"),
    ],
)
def test_training_options_lower_the_loss(training: Training) -> None:
    """Recordings may vary optimizer and dtype; the loss falls with each."""
    step = WORKLOADS["transformer"].step(4, training=training, small=True)
    losses = [step() for _ in range(24)]
    assert sum(losses[-4:]) < sum(losses[:4])


def test_facts_are_in_the_measured_times(tmp_path: Path) -> None:
    """Facts given by the caller are stored there."""
    done = record(
        lambda: torch.ones(2).sum(),
        tmp_path,
        name="known",
        warmup=1,
        steps=1,
        repeats=1,
        facts={"batch_size": 7},
    )
    assert json.loads(done.measured.read_text())["batch_size"] == 7


def test_without_torch_one_line_says_how_to_install_it() -> None:
    """The import error names the extra."""
    code = "import sys; sys.modules['torch'] = None; import tracedb.record"
    done = subprocess.run(  # noqa: S603  our own words
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    last = done.stderr.splitlines()[-1]
    assert last == (
        "ImportError: tracedb.record needs PyTorch: pip install 'tracedb[record]'"
    )


def test_the_package_stands_alone() -> None:
    """It imports only the standard library, NumPy, PyTorch, and itself."""
    allowed = sys.stdlib_module_names | {"numpy", "torch"}
    for file in (ROOT / "tracedb" / "record").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom):
                top = (node.module or "").split(".")[0]
                assert node.level == 1 or top in allowed


@pytest.mark.parametrize("name", ["dlrm_cpu/dlrm", "ddp_gloo/rank0", "ddp_gloo/rank1"])
def test_sample_traces_are_small_pairs(name: str) -> None:
    """Samples are small, do not identify a machine, and graph and trace match."""
    folder = ROOT / "sample_traces" / name
    sample = Recording.named(folder.parent, folder.name)
    assert agree(names_by_rf_id(sample), names_by("Record function id", sample))
    for file in (sample.kineto, sample.et):
        assert file.stat().st_size < 500_000
        text = gzip.decompress(file.read_bytes()).decode()
        assert not re.search(r'"/|/(home|root|work|tmp)/', text)
        assert f'"{socket.gethostname()}"' not in text
