"""The shapes that `batch=` gives ops, compared with a second recording.

Models of many kinds run on the CPU at two batch sizes. The shapes that a database
infers from the first recording have to be those of the second, op by op; they may be
unknown where this concerns little time, but never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import rows
from torch import Tensor, nn
from torch.nn import functional

import tracedb
from tracedb.batch.calls import shapes
from tracedb.errors import ScenarioError
from tracedb.whatif.batch_change import RecordedTrace, scaled_rows

HERE, THERE = 6, 15
OF_CPU = ("aten::fill_", "aten::zero_")
"""For small tensors, another op does it."""
ROUNDED = "aten::mkldnn_rnn_layer_backward"
"""Its intermediate results have a size that oneDNN rounds."""
Loss = Callable[[int], Tensor]
Model = tuple[nn.Module, Loss]


def classified(head: nn.Module, features: Tensor) -> Tensor:
    """The loss of a classifier."""
    found = head(features)
    wanted = torch.zeros(len(found), dtype=torch.long)
    return functional.cross_entropy(found, wanted)


def attention_with_weights() -> Model:
    """Self-attention that gives its weights back: products of examples and heads."""
    layer = nn.MultiheadAttention(44, 4, batch_first=True)
    head = nn.Linear(44, 5)

    def loss(batch: int) -> Tensor:
        x = torch.randn(batch, 19, 44)
        return classified(head, layer(x, x, x)[0].mean(1))

    return nn.ModuleList([layer, head]), loss


def attention_to_others() -> Model:
    """Attention to another sequence; the length comes first."""
    layer = nn.MultiheadAttention(44, 4, dropout=0.1)
    head = nn.Linear(44, 5)

    def loss(batch: int) -> Tensor:
        x, y = torch.randn(7, batch, 44), torch.randn(19, batch, 44)
        padding = torch.zeros(batch, 19, dtype=torch.bool)
        return classified(head, layer(x, y, y, key_padding_mask=padding)[0].mean(0))

    return nn.ModuleList([layer, head]), loss


def language_model() -> Model:
    """A layer as in Llama: RMS norms, rotated queries, a gated MLP."""
    table, inwards = nn.Embedding(101, 44), nn.Linear(44, 132, bias=False)
    gate, up, down = nn.Linear(44, 70), nn.Linear(44, 70), nn.Linear(70, 44)
    norm, head = nn.RMSNorm(44), nn.Linear(44, 101, bias=False)
    angles = torch.randn(13, 11)

    def turned(x: Tensor) -> Tensor:
        one, other = x.chunk(2, -1)
        return torch.cat([one * angles - other, other * angles + one], -1)

    def loss(batch: int) -> Tensor:
        words = torch.zeros(batch, 13, dtype=torch.long)
        x = table(words)
        parts = inwards(norm(x)).chunk(3, -1)
        q, k, v = (one.view(batch, 13, 2, 22).transpose(1, 2) for one in parts)
        seen = functional.scaled_dot_product_attention(
            turned(q), turned(k), v, is_causal=True
        )
        x = x + seen.transpose(1, 2).reshape(batch, 13, 44)
        y = norm(x)
        x = x + down(functional.silu(gate(y)) * up(y))
        return functional.cross_entropy(head(norm(x)).view(-1, 101), words.view(-1))

    return nn.ModuleList([table, inwards, gate, up, down, norm, head]), loss


def recurrent() -> Model:
    """Two layers of an LSTM that reads both ways."""
    layers = nn.LSTM(23, 31, 2, bidirectional=True, batch_first=True)
    head = nn.Linear(62, 5)

    def loss(batch: int) -> Tensor:
        return classified(head, layers(torch.randn(batch, 11, 23))[0][:, -1])

    return nn.ModuleList([layers, head]), loss


def packed() -> Model:
    """A GRU over sequences without padding."""
    layers, head = nn.GRU(23, 31, batch_first=True), nn.Linear(31, 5)

    def loss(batch: int) -> Tensor:
        lengths = torch.full((batch,), 7)
        sequences = nn.utils.rnn.pack_padded_sequence(
            torch.randn(batch, 7, 23), lengths, batch_first=True
        )
        return classified(head, layers(sequences)[1][-1])

    return nn.ModuleList([layers, head]), loss


def norms() -> Model:
    """Convolutions with group and instance norms."""
    one, other = nn.Conv2d(3, 22, 3), nn.Conv2d(22, 22, 3)
    groups, instances = nn.GroupNorm(11, 22), nn.InstanceNorm2d(22, affine=True)
    head = nn.Linear(22, 5)

    def loss(batch: int) -> Tensor:
        x = groups(one(torch.randn(batch, 3, 17, 17))).relu()
        return classified(head, instances(other(x)).relu().mean((2, 3)))

    return nn.ModuleList([one, other, groups, instances, head]), loss


def speech() -> Model:
    """Scores that are aligned with a text."""
    inwards, head = nn.Conv1d(17, 31, 3), nn.Linear(31, 29)

    def loss(batch: int) -> Tensor:
        found = head(inwards(torch.randn(batch, 17, 25)).transpose(1, 2))
        scores = found.log_softmax(-1).transpose(0, 1)
        words = torch.ones(batch, 5, dtype=torch.long)
        length, count = (torch.full((batch,), n) for n in (23, 5))
        return functional.ctc_loss(scores, words, length, count)

    return nn.ModuleList([inwards, head]), loss


def penalties() -> Model:
    """A penalty for large weights: many sums that are one number."""
    layers = nn.Sequential(*[nn.Linear(23, 23) for _ in range(9)], nn.PReLU())

    def loss(batch: int) -> Tensor:
        large = sum(((one**2).sum() for one in layers.parameters()), torch.zeros([]))
        return classified(layers, torch.randn(batch, 23)) + 1e-4 * large

    return layers, loss


def interactions() -> Model:
    """Pairwise products of embeddings, and offsets with the end of the last bag."""
    table = nn.EmbeddingBag(101, 16, mode="sum", include_last_offset=True)
    dense, head = nn.Linear(23, 16), nn.Linear(19, 1)
    row, column = torch.tril_indices(3, 3, -1)

    def loss(batch: int) -> Tensor:
        bottom = dense(torch.randn(batch, 23)).relu()
        words = torch.zeros(4 * batch, dtype=torch.long)
        offsets = torch.arange(0, 4 * batch + 1, 4)
        vectors = torch.stack([bottom, *(table(words, offsets) for _ in range(2))], 1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2))[:, row, column]
        found = head(torch.cat([bottom, pairs], 1))
        return functional.mse_loss(found, torch.zeros(batch, 1))

    return nn.ModuleList([table, dense, head]), loss


MODELS = (
    attention_with_weights,
    attention_to_others,
    language_model,
    recurrent,
    packed,
    norms,
    speech,
    penalties,
    interactions,
)


def record(make: Callable[[], Model], batch: int, path: Path, *, trains: bool) -> None:
    """Record a step; without training, the forward pass only."""
    torch.manual_seed(0)
    model, loss = make()
    optimizer = torch.optim.SGD(model.parameters())
    model.train(trains)
    for _ in range(2):
        with torch.profiler.profile(record_shapes=True) as profiler:
            if trains:
                optimizer.zero_grad()
                torch.autograd.backward(loss(batch))
                optimizer.step()
            else:
                with torch.no_grad():
                    loss(batch)
    profiler.export_chrome_trace(str(path))


def recorded_ops(path: Path) -> list[tuple[str, str]]:
    """The ops of a recording with their shapes, in order."""
    events = json.loads(path.read_text())["traceEvents"]
    ops = [event for event in events if event.get("cat") == "cpu_op"]
    return [
        (op["name"], json.dumps(op["args"].get("Input Dims", [])))
        for op in sorted(ops, key=lambda op: (op["ts"], -op["dur"]))
        if op["name"].startswith("aten::") and op["name"] not in OF_CPU
    ]


def inferred_ops(
    path: Path, *, from_batch: int, to_batch: int
) -> list[tuple[str, str | None]]:
    """The same at another batch size as inferred; `None` for unknown shapes."""
    with tracedb.open() as db:
        db.ingest([path])
        [[trace_id]] = rows(db, "SELECT trace_id FROM staging.trace")
        trace = RecordedTrace(db.connection, trace_id)
        found = scaled_rows(trace, to_batch, from_batch)
        scaled = {op_id: one for _, _, op_id, *one in found}
        ops = rows(
            db,
            "SELECT op_id, op.name, argument.input_dims::VARCHAR "
            "FROM prediction.op_argument AS argument "
            "INNER JOIN staging.op AS op USING (op_id) "
            "WHERE op.name LIKE 'aten::%' ORDER BY start_ns, end_ns DESC, op_id",
        )
    told = []
    for op_id, name, dims in ops:
        _, _, _, unknown, new_dims, *_ = scaled[op_id]
        told.append((name, None if unknown else new_dims or dims))
    return [one for one in told if one[0] not in OF_CPU]


def assert_right(
    inferred: list[tuple[str, str | None]], recorded: list[tuple[str, str]]
) -> None:
    """No inferred shape is wrong, and nine of ten ops with tensors have one."""
    assert [name for name, _ in inferred] == [name for name, _ in recorded]
    known, missing = 0, []
    for (name, dims), (_, wanted) in zip(inferred, recorded, strict=True):
        if dims is None:
            missing += [(name, wanted)] if any(shapes(wanted)) else []
            continue
        known += any(shapes(wanted))
        found, right = shapes(dims), shapes(wanted)
        if name == ROUNDED:
            found, right = found[:-1], right[:-1]
        assert found == right, (name, dims, wanted)
    assert len(missing) <= 0.1 * known, missing


@pytest.mark.parametrize("make", MODELS)
def test_inferred_shapes_are_those_of_another_recording(
    make: Callable[[], Model], tmp_path: Path
) -> None:
    """Every kind of layer that is trained at another batch size."""
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    record(make, HERE, here, trains=True)
    record(make, THERE, there, trains=True)
    assert_right(
        inferred_ops(here, from_batch=HERE, to_batch=THERE), recorded_ops(there)
    )


def test_one_example_is_a_batch(tmp_path: Path) -> None:
    """Inference is often recorded with one example; all sizes are multiples of that."""
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    record(language_model, 1, here, trains=False)
    record(language_model, 3, there, trains=False)
    assert_right(inferred_ops(here, from_batch=1, to_batch=3), recorded_ops(there))


def test_without_shapes_the_recording_is_refused(tmp_path: Path) -> None:
    """The error says how to record them."""
    path = tmp_path / "trace.json"
    with torch.profiler.profile() as profiler:
        torch.ones(4) @ torch.ones(4)
    profiler.export_chrome_trace(str(path))
    with pytest.raises(ScenarioError, match="has shapes; record with"):
        inferred_ops(path, from_batch=1, to_batch=3)
