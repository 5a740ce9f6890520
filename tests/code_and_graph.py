"""Estimate steps from their code and from the execution graph that PyTorch records.

    python tests/code_and_graph.py [STEP ...]
    python tests/code_and_graph.py attention 500

Both must launch the same GPU work: the same kernels, as often, by ops with tensors of
the same sizes and types. The graph is recorded on this CPU. Without steps, all are
compared; with a number, so many random calls of attention. Differences are printed:
`-` is launched by the code only, `+` by the graph only.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, record_function
from torch.utils.checkpoint import checkpoint

import tracedb
from tracedb.from_code.graph import read
from tracedb.from_code.graph_program import subject
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.ops import Argument, Shape
from tracedb.from_code.pricing import launched
from tracedb.from_code.program import launch
from tracedb.from_code.recordings import Source

if TYPE_CHECKING:
    from tracedb.from_code.subject import Subject

Make = Callable[[], Callable[[], object]]
F = nn.functional
SDPA = F.scaled_dot_product_attention
WORDS, IMAGES = "torch.randn(16, 32)", "torch.randn(2, 8, 8, 8)"
TOKENS, SENTENCES = "torch.zeros(4, 6, dtype=torch.long)", "torch.randn(4, 16, 32)"
FORMS = {
    WORDS: """
        LayerNorm(32) RMSNorm(32) BatchNorm1d(32) GroupNorm(4,32) GELU() GELU("tanh")
        SiLU() Mish() ELU() SELU() CELU() LeakyReLU() LeakyReLU(inplace=True) ReLU6()
        ReLU(inplace=True) Hardswish() Hardsigmoid() Hardtanh() Softplus() Softsign()
        Tanh() Sigmoid() LogSigmoid() PReLU() GLU() Softmax(-1) LogSoftmax(-1)
        Softmin(-1) Softshrink() Hardshrink() Tanhshrink() Threshold(0.1,0.0)
        Dropout(0.3) Dropout(0.3,inplace=True) AlphaDropout() FeatureAlphaDropout()
        Linear(32,8) Linear(32,8,bias=False) LSTMCell(32,8) GRUCell(32,8) RNNCell(32,8)
    """,
    IMAGES: """
        Conv2d(8,4,3) Conv2d(8,8,3,groups=8,bias=False) Conv2d(8,4,3,dilation=2)
        Conv2d(8,4,1) ConvTranspose2d(8,4,2,stride=2) BatchNorm2d(8) GroupNorm(2,8)
        InstanceNorm2d(8,affine=True) MaxPool2d(2) AvgPool2d(2) AdaptiveAvgPool2d(2)
        AdaptiveAvgPool2d(1) AdaptiveMaxPool2d(2) Upsample(scale_factor=2)
        Upsample(scale_factor=2,mode="bilinear") PixelShuffle(2) PixelUnshuffle(2)
        ReflectionPad2d(1) ReplicationPad2d(1) ZeroPad2d(1) CircularPad2d(1) Dropout2d()
        Unfold(2) LocalResponseNorm(3) LPPool2d(2,2) ChannelShuffle(2)
        FractionalMaxPool2d(2,output_size=3)
    """,
    "torch.randn(2, 8, 16)": "Conv1d(8,4,3) LSTM(16,8) GRU(16,8,bidirectional=True)",
    "torch.randn(2, 2, 6, 6, 6)": "Conv3d(2,4,3) BatchNorm3d(2) MaxPool3d(2)",
    TOKENS: """
        Embedding(50,8) Embedding(50,8,padding_idx=0) Embedding(50,8,max_norm=1.0)
        EmbeddingBag(50,8,mode="sum") EmbeddingBag(50,8) EmbeddingBag(50,8,mode="max")
    """,
    SENTENCES: """
        TransformerEncoderLayer(32,4,64,dropout=0.1,batch_first=True)
        TransformerEncoderLayer(32,4,64,dropout=0.0,norm_first=True,activation="gelu")
    """,
}
"""Inputs, and modules that take them, as in `torch.nn`."""
FUNCTIONS = """
    w.std()  w.var(0).sum()  w.norm()  torch.linalg.vector_norm(w,dim=1).sum()
    w.logsumexp(1).sum()  w.amax(1).sum()  w.max(1)[0].sum()  w.max()  w.median()
    w.sort(1)[0].sum()  w.topk(3,1)[0].sum()  w.cumsum(1).sum()  w.cumprod(1).sum()
    w.prod(1).sum()  w.gather(1,rows[:8,:2]).sum()  w[rows[0]].sum()
    w[:,rows[0]].sum()  w.index_select(0,rows[0]).sum()
    torch.zeros(8,16).scatter(1,rows,w).sum()
    torch.zeros(8,16).scatter_add(1,rows,w).sum()
    torch.zeros(8,16).index_add(0,rows[:,0],w).sum()  w.masked_fill(mask,0.0).sum()
    torch.where(mask,w,0.0).sum()  w.clamp(0.6,1.0).sum()  w.clamp(min=0.6).sum()
    torch.cat([w,w*2],1).sum()  torch.stack([w,w*2]).sum()  w.chunk(2,1)[0].exp().sum()
    w.roll(1,0).sum()  w.flip(0).sum()  F.pad(w,(1,1)).sum()  w.repeat(2,2).exp().sum()
    w.repeat_interleave(2,0).exp().sum()  (w[:,:1].expand(8,16)*w).sum()
    torch.einsum("ij,kj->ik",w,w).sum()  (w.view(2,4,16)@w.view(2,16,4)).sum()
    (w@w[0]).sum()  w[0]@w[1]  torch.outer(w[0],w[1]).sum()
    torch.baddbmm(torch.ones(2,4,4),w.view(2,4,16),w.view(2,16,4)).sum()
    torch.addcmul(w,w,w,value=2).sum()  torch.lerp(w,w*2,0.3).sum()  w.pow(3).sum()
    (2**w).sum()  w.sqrt().rsqrt().sum()  (w.exp()+w.log()+w.log1p()+w.expm1()).sum()
    (w.sin()+w.cos()+w.atan()+w.sinh()).sum()  w.erf().sum()  (w.abs()+w.sign()*w).sum()
    (w/(w+1)+1/w).sum()  (1-w).sum()  (w%0.3).sum()  torch.maximum(w,w*2).sum()
    (w.tril()+w.triu()).sum()  w.diagonal().exp().sum()  (w@w.T).trace()
    torch.linalg.inv(w@w.T+torch.eye(8)).sum()  F.normalize(w).sum()
    torch.linalg.solve(w@w.T+torch.eye(8),w).sum()  torch.cdist(w,w+1).sum()
    torch.fft.rfft(w).abs().sum()  w.unfold(1,4,2).exp().sum()
    F.interpolate(w.view(1,1,8,16),scale_factor=2,mode="bicubic").sum()
    F.grid_sample(w.view(1,1,8,16),torch.zeros(1,4,4,2)).sum()
    (F.one_hot(rows[:,0],16)*w).sum()  (w*torch.rand(8,16)+torch.randn(8,16)).sum()
    (w*torch.bernoulli(torch.full((8,16),0.5))).sum()
    (w*2).add_(1).mul_(3).relu_().sum()  (w*2).mul_(w).exp_().sum()
    w.bfloat16().exp().float().sum()  w.double().exp().sum()
    torch.kron(w[:2,:2],w).sum()  torch.addmm(w[:,:8],w,w.T).sum()
    torch.logaddexp(w,w+1).sum()
    torch.nan_to_num(w).sum()  w.cummax(1)[0].sum()  w.kthvalue(2,1)[0].sum()
    w.view(2,4,16).movedim(0,2).contiguous().sum()  F.gumbel_softmax(w).sum()
    w.quantile(0.5,1).sum()  torch.var_mean(w,1)[0].sum()
    checkpoint(lambda x: x.exp().sin(), w, use_reentrant=False).sum()
    torch.autograd.grad((w**3).sum(),w,create_graph=True)[0].square().sum()
    F.cross_entropy(w,rows[:,0])  F.cross_entropy(w,rows[:,0],label_smoothing=0.1)
    F.nll_loss(w.log_softmax(1),rows[:,0])  F.mse_loss(w,ones)  F.l1_loss(w,ones)
    F.smooth_l1_loss(w,ones)  F.huber_loss(w,ones)
    F.binary_cross_entropy(w.sigmoid(),ones)  F.soft_margin_loss(w,ones)
    F.binary_cross_entropy_with_logits(w,ones)  F.kl_div(w.log_softmax(1),ones)
    F.cosine_embedding_loss(w,ones,torch.ones(8))  F.multi_margin_loss(w,rows[:,0])
    F.multilabel_soft_margin_loss(w,ones)  F.triplet_margin_loss(w,ones,ones+1)
    F.poisson_nll_loss(w,ones)  F.gaussian_nll_loss(w,ones,ones)
    F.hinge_embedding_loss(w,ones)  F.cosine_similarity(w,ones).mean()
    F.pairwise_distance(w,ones).mean()
"""
"""Losses of one parameter `w`, with integers `rows`, a `mask` and `ones` beside it."""
OPTIMIZERS = """
    SGD(momentum=0.9,nesterov=True,weight_decay=0.1)  SGD(maximize=True)
    SGD(fused=True)  SGD(foreach=True)  Adam(amsgrad=True)  Adam(weight_decay=0.1)
    Adam(fused=True)  Adam(foreach=True)  AdamW()  AdamW(fused=True)  Adagrad()
    Adagrad(weight_decay=0.1)  Adagrad(fused=True)  Adagrad(foreach=True)
    RMSprop(momentum=0.9,centered=True)  RMSprop(foreach=True)  Adadelta()  Adamax()
    NAdam()  NAdam(foreach=True)  Adafactor()  RAdam()  Rprop()  ASGD()
"""
"""Optimizers of two linear layers. A graph does not show `foreach=False`."""


def of_module(text: str, inputs: str) -> Make:
    """A training step of a module that takes the inputs, behind a linear layer."""

    def make() -> Callable[[], None]:
        given = _value(inputs)
        first = nn.Linear(given.shape[-1], given.shape[-1])
        model = _value(f"nn.{text}")
        both = nn.ModuleList([first, model])
        optimizer = torch.optim.SGD(both.parameters(), lr=0.01)

        def step() -> None:
            optimizer.zero_grad()
            taken = _value(inputs)
            made = model(first(taken) if taken.is_floating_point() else taken)
            made = made[0] if isinstance(made, tuple) else made
            torch.autograd.backward(made.square().mean())
            optimizer.step()

        return step

    return make


def of_function(text: str) -> Make:
    """The gradient of a function of one parameter."""

    def make() -> Callable[[], None]:
        known = {
            "w": nn.Parameter(torch.rand(8, 16) + 0.5),
            "rows": torch.zeros(8, 16, dtype=torch.long),
            "mask": torch.ones(8, 16, dtype=torch.bool),
            "ones": torch.ones(8, 16),
        }

        def step() -> None:
            known["w"].grad = None
            torch.autograd.backward(_value(text, known))

        return step

    return make


def of_optimizer(text: str) -> Make:
    """A training step of two linear layers."""

    def make() -> Callable[[], None]:
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8))
        called = text.replace("(", "(model.parameters(), lr=0.01, ", 1)
        optimizer = _value(f"torch.optim.{called}", {"model": model})

        def step() -> None:
            optimizer.zero_grad()
            torch.autograd.backward(model(torch.randn(4, 16)).square().mean())
            optimizer.step()

        return step

    return make


def _value(text: str, known: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
    names = {"torch": torch, "nn": nn, "F": F, "checkpoint": checkpoint}
    return eval(text, names | (known or {}))  # noqa: S307 (texts of this file)


STEPS: dict[str, Make] = {
    **{
        text: of_module(text, inputs)
        for inputs, texts in FORMS.items()
        for text in texts.split()
    },
    **{text: of_function(text) for text in re.split(r"\s\s+", FUNCTIONS.strip())},
    **{text: of_optimizer(text) for text in OPTIMIZERS.split()},
}


def recorded(make: Make, path: Path) -> Path:
    """The execution graph of the second and third step."""
    step = make()
    step()
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    for number in range(2):
        with record_function(f"ProfilerStep#{number}"):
            step()
    observer.stop()
    observer.unregister_callback()
    return path


def shipped_table() -> LaunchTable:
    """The launch rules, with PyTorch's defaults for TF32."""
    with tracedb.open() as empty:
        return LaunchTable.of(
            empty.connection, tf32_products=False, tf32_convolutions=True
        )


def priced(step: Subject, table: LaunchTable) -> Counter[str]:
    """The launched work, with what decides its time: the sizes that its op has."""
    found: Counter[str] = Counter()
    for node in launch(step.root, table):
        _, given, works = launched(node)
        sized = ", ".join(f"{t.dtype}{list(t.dims)}" for t in _tensors(given) if t.dims)
        found.update(f"{work.name} {work.moved_bytes or ''}({sized})" for work in works)
    return found


def _tensors(given: Iterable[Argument]) -> Iterator[Shape]:
    for one in given:
        if isinstance(one, Shape):
            yield one
        elif isinstance(one, list):
            yield from one


def differences(make: Make, table: LaunchTable, *gpus: str) -> list[str]:
    """What only the code launches (-), and only the graph (+), on each GPU."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        graph = read(recorded(make, Path(folder, "graph.json")))
    for gpu in gpus:
        code = priced(Source(make(), (), gpu).at(None), table)
        shown = priced(subject(graph, gpu=gpu), table)
        for sign, more in (("-", code - shown), ("+", shown - code)):
            lines += [f"{gpu}: {sign}{n} {work}" for work, n in sorted(more.items())]
    return lines


def attention(draw: random.Random) -> Make:
    """A random call of attention, and maybe its gradients."""
    kind = draw.choice(["float32", "float32", "bfloat16", "float16", "float64"])
    length, size = draw.choice([16, 24]), draw.choice([8, 16, 20, 6, 64])
    keys = draw.choice([length, length, 32])
    layout = draw.choice(["rows", "rows", "words first", "columns"])
    is_grouped, is_trained = draw.random() < 0.2, draw.random() < 0.8
    masked = draw.choice(["", "", "bool", "float", "broadcast"])
    options = {
        "dropout_p": draw.choice([0.0, 0.0, 0.1]),
        "is_causal": not masked and draw.random() < 0.3,
        "enable_gqa": is_grouped,
    }

    def heads(count: int, words: int) -> torch.Tensor:
        sizes = {
            "rows": (2, count, words, size),
            "words first": (2, words, count, size),
            "columns": (2, count, size, words),
        }
        made = torch.randn(sizes[layout], dtype=getattr(torch, kind))
        turned = {"words first": (1, 2), "columns": (2, 3)}.get(layout)
        made = made.transpose(*turned) if turned else made
        return made.requires_grad_(is_trained)

    def mask() -> torch.Tensor | None:
        if masked == "bool":
            return torch.ones(length, keys, dtype=torch.bool)
        sizes = (2, 1, 1, keys) if masked == "broadcast" else (2, 4, length, keys)
        return torch.zeros(sizes, dtype=getattr(torch, kind)) if masked else None

    def make() -> Callable[[], None]:
        shared = 2 if is_grouped else 4
        given = heads(4, length), heads(shared, keys), heads(shared, keys)
        added: Any = mask()

        def step() -> None:
            for one in given:
                one.grad = None
            made = SDPA(*given, attn_mask=added, **options)  # type: ignore[arg-type]
            if is_trained:
                torch.autograd.backward(made.square().mean())

        return step

    return make


def main(names: list[str]) -> None:
    """Compare the steps."""
    if names[:1] == ["attention"]:
        draw = random.Random(0)  # noqa: S311 (not for secrets)
        steps = {f"attention {n}": attention(draw) for n in range(int(names[1]))}
    else:
        steps = {name: STEPS[name] for name in names or STEPS}
    table = shipped_table()
    same = 0
    for name, make in steps.items():
        lines = differences(make, table, "A100", "V100")
        same += not lines
        for line in [name, *lines] if lines else []:
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{same} of {len(steps)} steps are the same\n")


if __name__ == "__main__":
    main(sys.argv[1:])
