"""The models whose steps on the CPU `cpu_batch.py` and `estimate_cpu.py` predict.

The first three are those of the goals. The others have what these lack: other kinds of
layers and optimizers, sizes that grow with the square of the batch, and tables that no
cache holds. Sizes of models are no multiples of batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from tracedb.record.dlrm import DLRM, DLRMConfig, loss_function, random_batch
from tracedb.record.training import Examples, training_step
from tracedb.record.transformer import Sentences, Transformer, TransformerConfig
from tracedb.record.vision import Images, resnet

Step = Callable[[], object]


class Model(NamedTuple):
    """A model that is trained."""

    batch: int
    """The recorded batch size."""
    build: Callable[[int], Step]
    """Makes the step at a batch size."""


def of_examples(net: nn.Module, loss: nn.Module, examples: Examples) -> Step:
    """Steps that train with the same examples each time."""
    return training_step(net, loss, cycle([examples]))


def trained(
    net: nn.Module, optimizer: optim.Optimizer, loss: Callable[[], Tensor]
) -> Step:
    """Steps that minimize a loss."""
    net.train()

    def step() -> float:
        optimizer.zero_grad()
        found = loss()
        torch.autograd.backward(found)
        optimizer.step()
        return found.item()

    return step


def dlrm(batch: int) -> Step:
    """Eight small tables and two MLPs."""
    form = DLRMConfig(
        (13, 256, 64), (256, 192, 1), (4_000,) * 8, 64, 8, sparse_gradients=False
    )
    return of_examples(DLRM(form), loss_function(form), random_batch(form, batch))


def convnet(batch: int) -> Step:
    """A small ResNet."""
    net = resnet((1, 1, 1, 1), 16, 10)
    return of_examples(net, nn.CrossEntropyLoss(), Images.random(batch, 32, 10))


def transformer(batch: int) -> Step:
    """Two layers of a transformer."""
    words = TransformerConfig(2, 128, 4, 256, words=500, length=20)
    examples = Sentences.random(batch, words)
    return of_examples(Transformer(words), nn.CrossEntropyLoss(), examples)


def autoencoder(batch: int) -> Step:
    """An MLP, trained by Adam to give back its input."""
    net = nn.Sequential(
        *(nn.Linear(786, 301), nn.ReLU(), nn.Linear(301, 37), nn.Tanh()),
        *(nn.Linear(37, 301), nn.ReLU(), nn.Linear(301, 786)),
    )
    x = torch.rand(batch, 786)
    return trained(
        net,
        optim.Adam(net.parameters()),
        lambda: functional.binary_cross_entropy_with_logits(net(x), x),
    )


def lstm(batch: int) -> Step:
    """A recurrent network over 23 words."""
    net = nn.ModuleDict(
        {
            "words": nn.Embedding(907, 70),
            "lstm": nn.LSTM(70, 110, batch_first=True),
            "head": nn.Linear(110, 9),
        }
    )
    x, y = torch.randint(907, (batch, 23)), torch.randint(9, (batch,))

    def loss() -> Tensor:
        states, _ = net["lstm"](net["words"](x))
        return functional.cross_entropy(net["head"](states[:, -1]), y)

    return trained(net, optim.RMSprop(net.parameters()), loss)


def text(batch: int) -> Step:
    """Convolutions over 53 words, and the maximum of each channel."""
    net = nn.ModuleDict(
        {
            "words": nn.Embedding(1_109, 66),
            "short": nn.Conv1d(66, 90, 3),
            "long": nn.Conv1d(66, 90, 5),
            "head": nn.Linear(180, 7),
        }
    )
    x, y = torch.randint(1_109, (batch, 53)), torch.randint(7, (batch,))

    def loss() -> Tensor:
        words = net["words"](x).transpose(1, 2)
        found = [
            net[name](words).relu().max(dim=2).values for name in ("short", "long")
        ]
        return functional.cross_entropy(net["head"](torch.cat(found, 1)), y)

    return trained(net, optim.Adagrad(net.parameters()), loss)


def vision_transformer(batch: int) -> Step:
    """Patches of images, and two layers with GELU, trained by AdamW."""
    layer = nn.TransformerEncoderLayer(
        90, 6, 330, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    net = nn.ModuleDict(
        {
            "patches": nn.Conv2d(3, 90, 7, stride=7),
            "layers": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            "head": nn.Linear(90, 11),
        }
    )
    x, y = torch.rand(batch, 3, 35, 35), torch.randint(11, (batch,))

    def loss() -> Tensor:
        tokens = net["patches"](x).flatten(2).transpose(1, 2)
        return functional.cross_entropy(net["head"](net["layers"](tokens).mean(1)), y)

    return trained(net, optim.AdamW(net.parameters()), loss)


def unet(batch: int) -> Step:
    """Convolutions down and up again, with group norms."""
    net = nn.Sequential(
        *(nn.Conv2d(3, 18, 3, padding=1), nn.GroupNorm(3, 18), nn.SiLU()),
        *(nn.Conv2d(18, 36, 4, stride=2, padding=1), nn.GroupNorm(3, 36), nn.SiLU()),
        *(nn.ConvTranspose2d(36, 18, 4, stride=2, padding=1), nn.SiLU()),
        nn.Conv2d(18, 3, 3, padding=1),
    )
    x = torch.rand(batch, 3, 26, 26)
    return trained(
        net,
        optim.SGD(net.parameters(), lr=0.01, momentum=0.9),
        lambda: functional.mse_loss(net(x), x),
    )


def mobile(batch: int) -> Step:
    """Convolutions by depth and by point, with batch norms."""

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
            *(nn.BatchNorm2d(inputs), nn.Hardswish()),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    net = nn.Sequential(
        *(nn.Conv2d(3, 22, 3, 2, 1), *block(22, 44, 1), *block(44, 66, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(66, 13)),
    )
    x, y = torch.rand(batch, 3, 34, 34), torch.randint(13, (batch,))
    return trained(
        net,
        optim.SGD(net.parameters(), lr=0.01),
        lambda: functional.cross_entropy(net(x), y),
    )


def tables(batch: int) -> Step:
    """Lookups in tables that no cache holds, and one layer."""
    bags = [nn.EmbeddingBag(250_007, 34, mode="sum", sparse=True) for _ in range(3)]
    head = nn.Linear(102, 1)
    net = nn.ModuleList([*bags, head])
    x, y = torch.randint(250_007, (3, batch, 21)), torch.rand(batch, 1)

    def loss() -> Tensor:
        found = [bag(ids) for bag, ids in zip(bags, x, strict=True)]
        return functional.mse_loss(head(torch.cat(found, 1)), y)

    return trained(net, optim.SGD(net.parameters(), lr=0.01), loss)


def graph(batch: int) -> Step:
    """Messages along the edges of batch * 29 nodes, three an edge."""
    net = nn.ModuleList([nn.Linear(54, 54), nn.Linear(54, 54), nn.Linear(54, 5)])
    nodes = batch * 29
    x, y = torch.rand(nodes, 54), torch.randint(5, (nodes,))
    source, target = torch.randint(nodes, (2, 3 * nodes))

    def loss() -> Tensor:
        state = x
        for layer in net[:2]:
            messages = layer(state)[source].relu()
            state = torch.zeros_like(state).index_add(0, target, messages) + state
        return functional.cross_entropy(net[2](state), y)

    return trained(net, optim.Adam(net.parameters()), loss)


def contrast(batch: int) -> Step:
    """Two towers, and the similarities of all pairs in a batch."""
    net = nn.ModuleList([nn.Linear(333, 126), nn.Linear(222, 126)])
    a, b = torch.rand(batch, 333), torch.rand(batch, 222)

    def loss() -> Tensor:
        one, other = (
            functional.normalize(tower(x)) for tower, x in zip(net, (a, b), strict=True)
        )
        return functional.cross_entropy(one @ other.T / 0.07, torch.arange(batch))

    return trained(net, optim.Adam(net.parameters()), loss)


GOAL_MODELS: dict[str, Model] = {
    "dlrm": Model(128, dlrm),
    "convnet": Model(24, convnet),
    "transformer": Model(8, transformer),
}
"""The models of the goals."""
MODELS: dict[str, Model] = GOAL_MODELS | {
    "autoencoder": Model(64, autoencoder),
    "lstm": Model(24, lstm),
    "text": Model(24, text),
    "vision_transformer": Model(12, vision_transformer),
    "unet": Model(8, unet),
    "mobile": Model(24, mobile),
    "tables": Model(256, tables),
    "graph": Model(24, graph),
    "contrast": Model(192, contrast),
}
