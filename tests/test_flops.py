"""FLOPs of estimated steps, compared with PyTorch's counter on the steps themselves.

Attention is written out as products, which PyTorch counts on CPUs, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tracedb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whole_steps import Step

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")
whole_steps = pytest.importorskip("whole_steps")
nn, functional = torch.nn, torch.nn.functional

COUNTED = {
    "mm": "gemm",
    "addmm": "gemm",
    "bmm": "gemm",
    "baddbmm": "gemm",
    "convolution": "convolution",
    "convolution_backward": "convolution_backward",
}
"""Ops that PyTorch counts, with the family here."""


def trained(net: Any, loss: Callable[[], Any]) -> Step:  # noqa: ANN401
    """A training step of a network."""
    step: Step = whole_steps.trained(net, loss)
    return step


def layers(*made: Callable[[], Any], shape: Sequence[int]) -> Step:
    """A step of layers, one after another, on an input of that shape."""
    net, x = nn.Sequential(*(make() for make in made)), torch.randn(*shape)
    return trained(net, lambda: net(x).square().mean())


def weights(function: Callable[..., Any], *shapes: Sequence[int]) -> Step:
    """A step of one function of weights."""
    held = nn.ParameterList([nn.Parameter(torch.randn(*shape)) for shape in shapes])
    return trained(held, lambda: function(*held).square().mean())


def attention() -> Step:
    """Attention of a layer with four heads, as products."""
    net, x = nn.MultiheadAttention(16, 4, batch_first=True), torch.randn(2, 12, 16)

    def loss() -> Any:  # noqa: ANN401
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            return net(x, x, x, need_weights=False)[0].square().mean()

    return trained(net, loss)


def checkpointed() -> Step:
    """Two layers whose first pass runs again for their gradients."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    x = torch.randn(8, 16)
    again = torch.utils.checkpoint.checkpoint
    return trained(net, lambda: again(net, x, use_reentrant=False).sum())


def tied() -> Step:
    """An embedding whose table also is the output layer's weight."""
    table, x = nn.Embedding(50, 16), torch.randint(0, 50, (24,))
    loss = functional.cross_entropy
    return trained(table, lambda: loss(table(x) @ table.weight.t(), x))


def frozen() -> Step:
    """A convolution that is trained, after one that is not."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3))
    net[0].requires_grad_(requires_grad=False)
    x = torch.randn(2, 3, 10, 10)
    return trained(net, lambda: net(x).sum())


def forward(layer: Callable[[], Any], shape: Sequence[int]) -> Step:
    """A layer without gradients."""
    net, x = layer(), torch.randn(*shape)

    def run() -> None:
        with torch.inference_mode():
            net(x)

    return run


STEPS: dict[str, Callable[[], Step]] = {
    "strided": lambda: layers(
        lambda: nn.Conv2d(3, 16, 3, padding=1),
        lambda: nn.Conv2d(16, 32, 3, stride=2),
        shape=(4, 3, 20, 20),
    ),
    "dilated": lambda: layers(
        lambda: nn.Conv2d(8, 8, 3),
        lambda: nn.Conv2d(8, 8, 3, dilation=2),
        shape=(2, 8, 30, 24),
    ),
    "transposed": lambda: layers(
        lambda: nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1),
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
        shape=(2, 8, 10, 12),
    ),
    "transposed 1D": lambda: layers(
        lambda: nn.Conv1d(4, 8, 3),
        lambda: nn.ConvTranspose1d(8, 4, 4, stride=4),
        shape=(2, 4, 20),
    ),
    "transposed 3D": lambda: layers(
        lambda: nn.Conv3d(2, 4, 1),
        lambda: nn.ConvTranspose3d(4, 2, 2, stride=2),
        shape=(2, 2, 4, 5, 6),
    ),
    "1D": lambda: layers(
        lambda: nn.Conv1d(8, 16, 5),
        lambda: nn.Conv1d(16, 8, 3, stride=2),
        shape=(3, 8, 50),
    ),
    "3D": lambda: layers(
        lambda: nn.Conv3d(2, 4, 3),
        lambda: nn.Conv3d(4, 4, (1, 3, 3)),
        shape=(2, 2, 8, 10, 10),
    ),
    "without a batch": lambda: layers(
        lambda: nn.Conv2d(3, 4, 3), lambda: nn.Conv2d(4, 4, 3), shape=(3, 12, 12)
    ),
    "padded": lambda: layers(
        lambda: nn.Conv2d(3, 4, 3, padding="same"),
        lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        shape=(2, 3, 12, 12),
    ),
    "groups": lambda: forward(lambda: nn.Conv2d(16, 32, 3, groups=4), (4, 16, 20, 20)),
    "transposed groups": lambda: forward(
        lambda: nn.ConvTranspose2d(8, 16, 3, stride=2, groups=2), (2, 8, 10, 12)
    ),
    "frozen": frozen,
    "linear": lambda: layers(
        lambda: nn.Linear(24, 40),
        lambda: nn.Linear(40, 8, bias=False),
        shape=(3, 5, 24),
    ),
    "checkpointed": checkpointed,
    "tied": tied,
    "attention": attention,
    "bmm": lambda: weights(torch.bmm, (4, 5, 6), (4, 6, 7)),
    "baddbmm": lambda: weights(torch.baddbmm, (4, 5, 7), (4, 5, 6), (4, 6, 7)),
    "matmul": lambda: weights(torch.matmul, (3, 1, 5, 6), (4, 6, 7)),
    "einsum": lambda: weights(
        lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), (4, 5), (5, 6), (6, 7)
    ),
    "tensordot": lambda: weights(torch.tensordot, (4, 5, 6), (5, 6, 7)),
    "products in the best order": lambda: weights(
        lambda *all_: torch.linalg.multi_dot(all_), (4, 50), (50, 6), (6, 7)
    ),
    "distances": lambda: weights(torch.cdist, (40, 8), (50, 8)),
    "unfolded": lambda: weights(
        lambda x, w: w @ functional.unfold(x, 3), (2, 3, 8, 8), (4, 27)
    ),
}


@pytest.fixture(scope="module")
def said() -> dict[str, dict[str, int]]:
    """FLOPs of each step by family, from one estimate of all; the last time it ran."""
    steps = {name: make() for name, make in STEPS.items()}

    def all_steps() -> None:
        for name, step in steps.items():
            with torch.profiler.record_function(f"## {name}"):
                step()

    with tracedb.estimate(all_steps, gpu="H100").database as database:
        found = database.sql("""
            SELECT mark.name, family || if(op.name LIKE '%backward', '_backward', '')
            AS family, sum(flops)::BIGINT AS flops
            FROM prediction.op_problem
            INNER JOIN staging.op AS op USING (op_id)
            INNER JOIN (
                SELECT name, max(start_ns) AS start_ns, max(end_ns) AS end_ns
                FROM staging.annotation
                GROUP BY name
            ) AS mark ON op.start_ns >= mark.start_ns AND op.start_ns < mark.end_ns
            WHERE mark.name LIKE '## %' AND flops > 0
                AND family IN ('gemm', 'convolution', 'attention')
            GROUP BY ALL
        """).rows()
    by_step: dict[str, dict[str, int]] = {name: {} for name in STEPS}
    for mark, family, flops in found:
        by_step[mark.removeprefix("## ")][family] = flops
    return by_step


def counted(step: Step) -> dict[str, int]:
    """FLOPs of a step by family, counted by PyTorch as it runs."""
    with flop_counter.FlopCounterMode(display=False) as counter:
        step()
    found: dict[str, int] = {}
    for op, flops in counter.get_flop_counts()["Global"].items():
        family = COUNTED[str(op).removeprefix("aten.")]
        found[family] = found.get(family, 0) + flops
    return found


@pytest.mark.parametrize("name", STEPS)
def test_flops_are_those_that_pytorch_counts(
    said: dict[str, dict[str, int]], name: str
) -> None:
    """Each family has the FLOPs of the ops that the counter knows."""
    found = counted(STEPS[name]())
    assert found
    assert said[name] == found
