"""Batch dimensions inferred from one recording, compared with a second recording.

Real steps are recorded on the CPU at two batch sizes. What is inferred from the first
has to hold in the second, op by op; sizes may be unknown, but never wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import nn

from tracedb.batch.calls import Call, shapes
from tracedb.batch.dimensions import (
    BATCH,
    BOTH,
    CONSTANT,
    UNKNOWN,
    Dimensions,
    reshaped,
)
from tracedb.batch.recorded import recorded_batch
from tracedb.batch.rules import inferred_dimensions

HERE, THERE = 8, 24
"""Many sizes of the models are multiples of the first batch size."""
OF_CPU = ("aten::fill_",)
"""For small tensors, another op does it."""
Error = Callable[[int], torch.Tensor]


def perceptron() -> tuple[nn.Module, Error]:
    """Two linear layers with a norm between them."""
    model = nn.Sequential(
        nn.Linear(64, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 10)
    )

    def error(batch: int) -> torch.Tensor:
        wanted = torch.zeros(batch, dtype=torch.long)
        return nn.functional.cross_entropy(model(torch.randn(batch, 64)), wanted)

    return model, error


def recommender() -> tuple[nn.Module, Error]:
    """Embedding bags, pairwise products and the triangle of these."""
    tables = nn.ModuleList([nn.EmbeddingBag(n, 16, mode="sum") for n in (1000, 200)])
    bottom, top = nn.Linear(40, 16), nn.Linear(16 + 3, 1)
    model = nn.ModuleList([tables, bottom, top])
    row, column = torch.tril_indices(3, 3, -1)

    def error(batch: int) -> torch.Tensor:
        dense = bottom(torch.randn(batch, 40)).relu()
        indices = torch.zeros(4 * batch, dtype=torch.long)
        offsets = torch.arange(0, 4 * batch, 4)
        found = torch.cat([dense, *(table(indices, offsets) for table in tables)], 1)
        vectors = found.view(batch, -1, 16)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2))[:, row, column]
        answer = top(torch.cat([dense, pairs], 1)).sigmoid()
        return nn.functional.binary_cross_entropy(answer, torch.ones(batch, 1))

    return model, error


def convolutions() -> tuple[nn.Module, Error]:
    """Convolutions of images whose sides are multiples of the batch size."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(24, 10),
    )  # fmt: skip

    def error(batch: int) -> torch.Tensor:
        wanted = torch.zeros(batch, dtype=torch.long)
        return nn.functional.cross_entropy(model(torch.randn(batch, 3, 32, 32)), wanted)

    return model, error


def words() -> tuple[nn.Module, Error]:
    """Attention over a sequence whose length is a multiple of the batch size."""
    table, head = nn.Embedding(100, 48), nn.Linear(48, 100)
    inner = nn.TransformerEncoderLayer(48, 2, 64, dropout=0.0, batch_first=True)
    model = nn.ModuleList([table, inner, head])

    def error(batch: int) -> torch.Tensor:
        given = torch.zeros(batch, 40, dtype=torch.long)
        found = head(inner(table(given)))
        return nn.functional.cross_entropy(found.view(-1, 100), given.view(-1))

    return model, error


def pairs() -> tuple[nn.Module, Error]:
    """Similarities of all pairs of a batch, from two towers."""
    towers = [nn.Linear(44, 30), nn.Linear(36, 30)]

    def error(batch: int) -> torch.Tensor:
        one, other = (
            nn.functional.normalize(tower(torch.randn(batch, tower.in_features)))
            for tower in towers
        )
        wanted = torch.arange(batch)
        return nn.functional.cross_entropy(one @ other.T, wanted)

    return nn.ModuleList(towers), error


MODELS = (perceptron, recommender, convolutions, words, pairs)


def recorded(make: Callable[[], tuple[nn.Module, Error]], batch: int) -> list[Call]:
    """The ops of a training step, in order."""
    torch.manual_seed(0)
    model, error = make()
    optimizer = torch.optim.Adam(model.parameters())
    for is_last in (False, True):
        with torch.profiler.profile(record_shapes=True) as profiler:
            optimizer.zero_grad()
            torch.autograd.backward(error(batch))
            optimizer.step()
        del is_last
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return list(_calls(json.loads(path.read_text())["traceEvents"]))


def _calls(events: Sequence[dict[str, Any]]) -> Iterator[Call]:
    updates = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if str(event["name"]).startswith("Optimizer.") and "dur" in event
    ]
    ops = [event for event in events if event.get("cat") == "cpu_op"]
    for event in sorted(ops, key=lambda e: (e["ts"], -e["dur"])):
        if not event["name"].startswith("aten::") or event["name"] in OF_CPU:
            continue
        given = event["args"]
        yield Call(
            event["name"],
            shapes(json.dumps(given.get("Input Dims", []))),
            tuple(map(str, given.get("Concrete Inputs", []))),
            is_update=any(low <= event["ts"] < high for low, high in updates),
        )


@pytest.mark.parametrize("make", MODELS)
def test_inferred_sizes_match_another_recording(
    make: Callable[[], tuple[nn.Module, Error]],
) -> None:
    """No inferred size is wrong; nearly all sizes that grow are inferred."""
    here, there = (recorded(make, batch) for batch in (HERE, THERE))
    assert [call.name for call in here] == [call.name for call in there]
    assert recorded_batch(here) == HERE
    found = inferred_dimensions(here, HERE)
    counts: Counter[tuple[str, bool]] = Counter()
    for one, other in zip(here, there, strict=True):
        for dims, wanted in zip(one.tensors, other.tensors, strict=True):
            for at, (size, then) in enumerate(zip(dims, wanted, strict=True)):
                kind = found.kind((dims, at))
                counts[kind, size != then] += 1
                if kind == CONSTANT:
                    assert then == size, (one, at)
                if kind == BATCH:
                    assert then * HERE == size * THERE, (one, at)
    assert counts[BATCH, True] > 20
    missed = sum(n for (kind, _), n in counts.items() if kind in {UNKNOWN, BOTH})
    assert missed <= 0.05 * sum(counts.values())


def inferred(*calls: Call, batch: int = 64) -> Dimensions:
    """What is inferred from ops."""
    return inferred_dimensions(calls, batch)


def of(name: str, *dims: tuple[int, ...], is_update: bool = False) -> Call:
    """An op of tensors."""
    arguments = tuple((one,) if one else () for one in dims)
    return Call(name, arguments, is_update=is_update)


def test_ambiguous_sizes_are_not_guessed() -> None:
    """With as many features as examples, neither is taken for the batch size."""
    found = inferred(of("aten::linear", (64, 64), (64, 64)))
    assert found.kind(((64, 64), 0)) == BOTH


def test_sizes_without_evidence_are_unknown() -> None:
    """A multiple of the batch size may be independent; other sizes are the model's."""
    found = inferred(of("custom::op", (128, 100)))
    assert found.kind(((128, 100), 0)) == UNKNOWN
    assert found.kind(((128, 100), 1)) == CONSTANT


def test_sizes_of_updated_tensors_belong_to_the_model() -> None:
    """A table with twice as many rows as the batch does not grow."""
    found = inferred(of("aten::_foreach_add_", (128, 16), is_update=True))
    assert found.kind(((128, 16), 0)) == CONSTANT


def test_offsets_grow_with_the_batch() -> None:
    """Offsets have one element more than the batch and grow, and so do differences."""
    assert inferred().kind(((65,), 0)) == UNKNOWN
    assert inferred().kind(((63,), 0)) == UNKNOWN
    assert inferred().kind(((66,), 0)) == CONSTANT


def test_which_collectives_grow_with_the_batch() -> None:
    """A gradient bucket belongs to the model; embeddings sent to examples grow."""
    found = inferred(
        Call("record_param_comms", (((6400,),),), collective="all_reduce"),
        Call("record_param_comms", (((12800,),),), collective="all_to_all"),
    )
    assert found.kind(((6400,), 0)) == CONSTANT
    assert found.kind(((12800,), 0)) == BATCH


def test_old_convolutions_name_their_gradients() -> None:
    """What the gradient of the weights is computed from are images, not weights."""
    images, gradient, weight = (64, 3, 8, 8), (64, 16, 8, 8), (16, 3, 3, 3)
    found = inferred(
        of("aten::cudnn_convolution_backward_weight", (), gradient, images),
        of("aten::cudnn_convolution_backward_input", (), gradient, weight),
    )
    assert found.kind((images, 0)) == found.kind((gradient, 0)) == BATCH
    assert found.kind((weight, 0)) == CONSTANT


@pytest.mark.parametrize("place", [0, 1])
def test_recurrent_layers_of_cudnn(place: int) -> None:
    """Their inputs may begin with the batch or the length; states show which."""
    inputs = (64, 128, 10) if place == 0 else (128, 64, 10)
    states, weights = (2, 64, 20), ((1280, 20), (1280,))
    call = Call("aten::_cudnn_rnn", ((inputs,), weights, (), (), (states,), (states,)))
    found = inferred(call)
    assert [found.kind((inputs, at)) == BATCH for at in range(2)] == [
        place == 0,
        place == 1,
    ]
    assert [found.kind((states, at)) for at in range(3)] == [CONSTANT, BATCH, CONSTANT]
    assert found.kind(((1280, 20), 0)) == CONSTANT


def test_lookups_in_several_tables() -> None:
    """FBGEMM's indices and offsets follow the vectors of the tables."""
    name = "fbgemm::split_embedding_codegen_lookup_adagrad_function"
    found = inferred(of(name, (6400,), (3,), (4,), (), (4,), (1536,), (193,)))
    assert found.kind(((6400,), 0)) == CONSTANT
    assert found.kind(((1536,), 0)) == found.kind(((193,), 0)) == BATCH


def test_lengths_of_several_tables() -> None:
    """Of lengths [tables, batch], the second dimension grows, and so do indices."""
    found = inferred(of("fbgemm::permute_2D_sparse_data", (128,), (128, 64), (4096,)))
    assert found.kind(((128, 64), 0)) == CONSTANT
    assert found.kind(((128, 64), 1)) == found.kind(((4096,), 0)) == BATCH


def test_dimensions_without_an_index_are_kept() -> None:
    """Pairs of features are selected for each example."""
    call = Call("aten::index", (((64, 27, 27),), ((), (128,), (128,))))
    found = inferred(call, of("aten::linear", (64, 128), (3, 128)))
    assert found.kind(((64, 27, 27), 0)) == BATCH


PARTS = {
    "select": (("", "1", "3"), (64, 30, 7)),
    "slice": (("", "1", "2", "9223372036854775807", "2"), (64, 9, 30, 7)),
    "sum": (("", "[1, -1]", "True", ""), (64, 1, 30, 1)),
    "mean": (("", "[1]", "False", ""), (64, 30, 7)),
    "split": (("", "10", "2"), (64, 20, 10, 7)),
    "chunk": (("", "4", "2"), (64, 20, 8, 7)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_keep_the_other_dimensions(name: str) -> None:
    """What an op takes of a tensor belongs to the same examples."""
    values, result = PARTS[name]
    call = Call(f"aten::{name}", (((64, 20, 30, 7),),), values)
    found = inferred_dimensions([call, of("aten::conv2d", (64, 20, 30, 7))], 64)
    assert found.kind((result, 0)) == BATCH


def test_stacked_tensors_keep_their_dimensions() -> None:
    """Along a new dimension."""
    rows = (64, 20)
    call = Call("aten::stack", ((rows, rows, rows), ()), ("", "1"))
    found = inferred(call, of("aten::linear", rows, (3, 20)))
    assert found.kind(((64, 3, 20), 0)) == BATCH


def test_odd_calls_tell_nothing() -> None:
    """A norm of a vector, and attention without heads, as a broken file may have."""
    found = inferred(
        of("aten::native_batch_norm", (1,), (1,)),
        Call("aten::_transform_bias_rescale_qkv", (((64, 3, 9),),), ("", "", "0")),
    )
    assert found.kind(((64, 3, 9), 0)) == UNKNOWN


def test_results_of_all_to_all_grow() -> None:
    """A rank receives other sizes than it sends."""
    call = Call(
        "record_param_comms",
        (((640,),),),
        collective="all_to_all",
        results=((1280,),),
    )
    assert inferred(call).kind(((1280,), 0)) == BATCH


def test_one_example_is_told_from_other_sizes_of_one() -> None:
    """The first dimension is the batch's where an op says so; others are not."""
    found = inferred(
        of("aten::conv1d", (1, 3, 9), (5, 3, 1)),
        of("aten::mul", (95, 1), (95, 1)),
        of("aten::mul", (1,), (1,)),
        batch=1,
    )
    assert [found.kind(((1, 3, 9), at)) for at in range(3)] == [
        BATCH,
        CONSTANT,
        CONSTANT,
    ]
    assert found.kind(((95, 1), 1)) == found.kind(((1,), 0)) == UNKNOWN


def test_one_example_in_reshaped_tensors() -> None:
    """A dimension that one of size 1 was folded into grows; others do not."""
    found = Dimensions(1)
    found.rows((1, 8, 16, 4))
    reshaped(found, (1, 8, 16, 4), (8, 16, 4))
    reshaped(found, (1, 8, 16, 4), (1, 128, 4))
    found.settle()
    assert found.kind(((8, 16, 4), 0)) == BATCH
    assert found.kind(((1, 128, 4), 0)) == BATCH


def test_rows_that_others_divide_are_no_batch() -> None:
    """A product of examples and words is not the batch size."""
    words, rows = (8, 19, 66), (152, 66)
    layer = Call("aten::addmm", (((5,),), (rows,), ((66, 5),)))
    head = Call("aten::addmm", (((5,),), ((8, 66),), ((66, 5),)))
    assert recorded_batch([layer]) == 152
    assert recorded_batch([layer, of("aten::mul", words)]) is None
    assert recorded_batch([layer, of("aten::mul", words), head]) == 8


def test_a_single_row_is_no_batch_size() -> None:
    """With one example, another dimension may come first; images have it first."""
    assert recorded_batch([of("aten::linear", (1, 8), (8, 8))]) is None
    assert recorded_batch([of("aten::conv2d", (1, 3, 8, 8), (5, 3, 1, 1))]) == 1


def test_inconsistent_inputs_give_no_batch_size() -> None:
    """The batch size then has to be given."""
    assert recorded_batch([of("aten::linear", (n, 8), (8, 8)) for n in (4, 12)]) is None
