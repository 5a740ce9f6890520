"""A Transformer that predicts the next word, to be recorded."""

from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes; the defaults are those of the base model of Vaswani et al. (2017)."""

    layers: int = 6
    width: int = 512
    heads: int = 8
    hidden: int = 2048
    words: int = 32_000
    length: int = 64
    dropout: float = 0.1


@dataclass(frozen=True)
class Sentences:
    """A batch of sentences, one word longer than the model's input."""

    words: Tensor

    @classmethod
    def random(cls, count: int, config: TransformerConfig) -> Self:
        """Make sentences of random words."""
        return cls(torch.randint(config.words, (count, config.length + 1)))

    @property
    def inputs(self) -> tuple[Tensor]:
        """All words but the last."""
        return (self.words[:, :-1],)

    @property
    def target(self) -> Tensor:
        """The next word after each of them."""
        return self.words[:, 1:].flatten()

    @property
    def tensors(self) -> tuple[Tensor]:
        """The words."""
        return (self.words,)

    def to(self, device: torch.device) -> Self:
        """Copy the batch to a device."""
        return type(self)(self.words.to(device))


class Transformer(nn.Module):
    """Layers of masked self-attention over word and position embeddings."""

    mask: Tensor
    places: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        """Build the layers that `config` describes."""
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            config.width,
            config.heads,
            config.hidden,
            config.dropout,
            activation="gelu",
            batch_first=True,
        )
        self.words = nn.Embedding(config.words, config.width)
        self.position = nn.Embedding(config.length, config.width)
        self.body = nn.TransformerEncoder(
            layer, config.layers, enable_nested_tensor=False
        )
        self.head = nn.Linear(config.width, config.words)
        mask = nn.Transformer.generate_square_subsequent_mask(config.length)
        self.register_buffer("mask", mask, persistent=False)
        self.register_buffer("places", torch.arange(config.length), persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        """Score every word as the next one, for each position of each sentence."""
        x = self.words(words) + self.position(self.places)
        x = self.body(x, mask=self.mask, is_causal=True)
        return cast("Tensor", self.head(x)).flatten(0, 1)
