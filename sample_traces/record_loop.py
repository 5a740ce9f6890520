"""Record `loop_cpu/` anew: a small compiled model, with stacks and memory."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tracedb.record.loop import Loop, Plan
from tracedb.record.recording import scrub, write_gzip

ROOT = Path(__file__).parent.parent
WIDTH = 32
BATCH = 16
ROWS = 24
"""The second batch of an epoch is smaller, so that Dynamo compiles once more."""


class Block(nn.Module):
    """Two layers, between which Dynamo breaks the graph."""

    def __init__(self) -> None:
        """Set up the layers."""
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Pass a batch through both."""
        x = self.first(x).relu()
        torch._dynamo.graph_break()  # noqa: SLF001 (the way to ask for one)
        return torch.as_tensor(self.second(x))


class Net(nn.Module):
    """A compiled block between two layers that are not."""

    def __init__(self) -> None:
        """Set up the layers."""
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.block = torch.compile(Block(), backend="eager")
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Pass a batch through all of them."""
        return torch.as_tensor(self.head(self.block(self.embed(x))))


def batches() -> Iterator[Tensor]:
    """Epochs without end."""
    loader: DataLoader[Tensor] = DataLoader(
        list(torch.randn(ROWS, WIDTH)),  # type: ignore[arg-type]
        batch_size=BATCH,
    )
    while True:
        yield from loader


def record(folder: Path) -> Path:
    """Train for an epoch, and record the next one."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    source = batches()
    with (
        TemporaryDirectory() as place,
        Loop(Path(place), Plan(4, 2, stacks=True, memory=True)) as loop,
    ):
        while not loop.is_done:
            net(next(source)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            loop.step()
        text = scrub(loop.files[0].read_text()).replace(f"{ROOT}/", "")
    file = folder / "loop.kineto.json.gz"
    write_gzip(file, text)
    return file


if __name__ == "__main__":
    torch.manual_seed(0)
    print(record(Path(__file__).with_name("loop_cpu")))
