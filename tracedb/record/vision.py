"""Image networks to record: ResNet (He 2016), and one like Inception-v3."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn

_CLASSES = 1000
_Kernel = int | tuple[int, int]


@dataclass(frozen=True)
class Images:
    """A batch of images with their classes."""

    pixels: Tensor
    classes: Tensor

    @classmethod
    def random(cls, count: int, side: int, classes: int = _CLASSES) -> Self:
        """Make random images in three colours."""
        return cls(torch.rand(count, 3, side, side), torch.randint(classes, (count,)))

    @property
    def inputs(self) -> tuple[Tensor]:
        """The images."""
        return (self.pixels,)

    @property
    def target(self) -> Tensor:
        """The classes."""
        return self.classes

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Images and classes."""
        return self.pixels, self.classes

    def to(self, device: torch.device) -> Self:
        """Copy the batch to a device."""
        return type(self)(self.pixels.to(device), self.classes.to(device))


def _conv(inputs: int, outputs: int, kernel: _Kernel, stride: int = 1) -> nn.Sequential:
    """A convolution with same padding, batch norm and ReLU."""
    return nn.Sequential(*_normalised(inputs, outputs, kernel, stride), nn.ReLU())


def _normalised(
    inputs: int, outputs: int, kernel: _Kernel, stride: int = 1
) -> tuple[nn.Module, nn.Module]:
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (sides[0] // 2, sides[1] // 2)
    convolution = nn.Conv2d(inputs, outputs, sides, stride, padding, bias=False)
    return convolution, nn.BatchNorm2d(outputs)


class _Bottleneck(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        """Build the block, whose output has four times its width."""
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, width, 1),
            _conv(width, width, 3, stride),
            *_normalised(width, 4 * width, 1),
        )
        is_straight = inputs == 4 * width and stride == 1
        shortcut = () if is_straight else _normalised(inputs, 4 * width, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x: Tensor) -> Tensor:
        """Add the body and the shortcut."""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet(
    blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = _CLASSES
) -> nn.Sequential:
    """Build a ResNet of bottlenecks; the default is ResNet-50 (25.6 M weights)."""
    layers: list[nn.Module] = [_conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(blocks):
        for place in range(count):
            stride = 2 if stage and not place else 1
            layers.append(_Bottleneck(inputs, width << stage, stride))
            inputs = 4 * width << stage
    return nn.Sequential(*layers, *_head(inputs, classes))


def _head(inputs: int, classes: int) -> Iterable[nn.Module]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)


class _Branches(nn.Module):
    """Parallel branches on one input, whose channels are concatenated."""

    def __init__(self, *branches: nn.Module) -> None:
        """Take the branches."""
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Run all branches."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def _chain(inputs: int, *steps: tuple[int, _Kernel], stride: int = 1) -> nn.Sequential:
    """Chain convolutions of (channels, kernel); the last one has the stride."""
    widths = (inputs, *(outputs for outputs, _ in steps))
    strides = [1] * (len(steps) - 1) + [stride]
    return nn.Sequential(
        *(
            _conv(before, after, kernel, step)
            for (before, after), (_, kernel), step in zip(
                pairwise(widths), steps, strides, strict=True
            )
        )
    )


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(inputs, outputs, 1))


def inception(
    blocks: Sequence[int] = (3, 4, 2), scale: int = 1, classes: int = _CLASSES
) -> nn.Sequential:
    """Build a network like Inception-v3, for images of side 299.

    Its three kinds of block (5 x 5; 7 x 1 and 1 x 7; 3 x 1 and 1 x 3) with the channels
    of Szegedy et al. (2016), divided by `scale`. Convolutions keep the side, there is
    no auxiliary classifier, and blocks of a kind have one width.
    """

    def c(channels: int) -> int:
        return max(1, channels // scale)

    layers: list[nn.Module] = [
        *(_conv(3, c(32), 3, 2), _conv(c(32), c(32), 3), _conv(c(32), c(64), 3)),
        *(nn.MaxPool2d(3, 2), _conv(c(64), c(80), 1), _conv(c(80), c(192), 3)),
        nn.MaxPool2d(3, 2),
    ]
    width = c(192)
    for _ in range(blocks[0]):
        layers.append(_square(width, c(32)))
        width = 9 * c(32)
    layers.append(_reduction(width, c(96)))
    width += 8 * c(96)
    for _ in range(blocks[1]):
        layers.append(_crossed(width, c(192)))
        width = 4 * c(192)
    layers.append(_reduction(width, c(64)))
    width += 8 * c(64)
    for _ in range(blocks[2]):
        layers.append(_spread(width, c(192)))
        width = 2 * c(192) + 8 * c(192)
    return nn.Sequential(*layers, *_head(width, classes))


def _square(inputs: int, unit: int) -> _Branches:
    """Three by three and five by five, side by side: 9 units wide."""
    return _Branches(
        _chain(inputs, (2 * unit, 1)),
        _chain(inputs, (2 * unit, 1), (2 * unit, 5)),
        _chain(inputs, (2 * unit, 1), (4 * unit, 3), (4 * unit, 3)),
        _pooled(inputs, unit),
    )


def _reduction(inputs: int, unit: int) -> _Branches:
    """Halve the side: 8 units wider."""
    return _Branches(
        _chain(inputs, (4 * unit, 3), stride=2),
        _chain(inputs, (unit, 1), (2 * unit, 3), (4 * unit, 3), stride=2),
        nn.MaxPool2d(3, 2, 1),
    )


def _crossed(inputs: int, unit: int) -> _Branches:
    """Seven by one and one by seven, in chains: 4 units wide."""
    across, down = (1, 7), (7, 1)
    narrow = max(1, 3 * unit // 4)
    return _Branches(
        _chain(inputs, (unit, 1)),
        _chain(inputs, (narrow, 1), (narrow, across), (unit, down)),
        _chain(inputs, (narrow, 1), *[(narrow, down), (narrow, across)] * 2, (unit, 1)),
        _pooled(inputs, unit),
    )


def _spread(inputs: int, unit: int) -> _Branches:
    """One by three beside three by one: 10 units wide."""
    return _Branches(
        _chain(inputs, (unit, 1)),
        nn.Sequential(_chain(inputs, (2 * unit, 1)), _fork(2 * unit)),
        nn.Sequential(_chain(inputs, (2 * unit, 1), (2 * unit, 3)), _fork(2 * unit)),
        _pooled(inputs, unit),
    )


def _fork(width: int) -> _Branches:
    return _Branches(_chain(width, (width, (1, 3))), _chain(width, (width, (3, 1))))
