"""Whole training steps on a CPU: their peak of memory, real and estimated.

    python tests/whole_steps.py [STEP ...]

Each step runs with real tensors, where the profiler tells what the allocator holds, and
with fake ones. They were written without knowing how either comes out.
"""

# Steps are as people write them, without types.
# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def"
# mypy: disable-error-code="arg-type, assignment, index, call-overload, misc"

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import torch
from allocator import estimated, real_peak
from torch import nn
from torch.nn import functional as F  # noqa: N812 (as PyTorch's own pages have it)
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tracedb.errors import EstimateError

Tensor = torch.Tensor
Step = Callable[[], None]
GOAL = 0.02
STEPS: dict[str, Callable[[], Step]] = {}


def named(make: Callable[[], Step]) -> Callable[[], Step]:
    """Add a step by the name of the function that makes it."""
    STEPS[make.__name__] = make
    return make


def trained(model: nn.Module, loss: Callable[[], Tensor], **how: Any) -> Step:  # noqa: ANN401
    """The usual step: gradients to None, forward, backward, optimizer."""
    optimizer = how.pop("optimizer", torch.optim.Adam)(model.parameters(), **how)

    def run() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return run


class Attend(nn.Module):
    """Attention over the pixels of an image."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend."""
        b, c, h, w = x.shape
        q, k, v = (
            self.qkv(self.norm(x))
            .reshape(b, 3, 4, c // 4, h * w)
            .transpose(3, 4)
            .unbind(1)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(b, c, h, w))


class UNet(nn.Module):
    """One level down and up."""

    def __init__(self, width: int = 32) -> None:
        """Make the layers."""
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = Attend(2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.time = nn.Sequential(
            nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 2 * width)
        )
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)
        self.width = width

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Predict the noise at a time."""
        freq = torch.exp(-torch.arange(self.width // 2, dtype=torch.float32) / 4)
        angle = t[:, None].float() * freq
        emb = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        a = F.silu(self.first(x))
        b = self.down(a) + emb[:, :, None, None]
        b = F.silu(self.middle(b))
        return self.last(torch.cat([a, self.up(b)], 1))


@named
def ddpm() -> Step:
    """A U-Net with attention learns to remove noise."""
    model = UNet()
    betas = torch.linspace(1e-4, 0.02, 1000)
    alphas = torch.cumprod(1 - betas, 0)
    images = torch.randn(8, 3, 32, 32)

    def loss() -> Tensor:
        t = torch.randint(0, 1000, (8,))
        noise = torch.randn_like(images)
        a = alphas[t][:, None, None, None]
        noisy = a.sqrt() * images + (1 - a).sqrt() * noise
        return F.mse_loss(model(noisy, t), noise)

    return trained(model, loss, optimizer=torch.optim.AdamW)


@named
def wavenet() -> Step:
    """Dilated convolutions over sound, with sums of skips."""

    class Block(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.conv = nn.Conv1d(32, 64, 2, dilation=dilation)
            self.skip = nn.Conv1d(32, 32, 1)
            self.dilation = dilation

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            a, b = self.conv(F.pad(x, (self.dilation, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            s = self.skip(y)
            return x + s, s

    embed = nn.Embedding(256, 32)
    blocks = nn.ModuleList([Block(2**i) for i in range(6)])
    head = nn.Sequential(nn.ReLU(), nn.Conv1d(32, 256, 1))
    model = nn.ModuleList([embed, blocks, head])
    audio = torch.randint(0, 256, (4, 513))

    def loss() -> Tensor:
        x = embed(audio[:, :-1]).transpose(1, 2)
        total = torch.zeros(())
        for block in blocks:
            x, s = block(x)
            total = total + s
        return F.cross_entropy(head(total), audio[:, 1:])

    return trained(model, loss)


@named
def graph_net() -> Step:
    """Messages along edges are added up by `index_add_`."""
    nodes, edges, width = 2000, 10000, 64
    source, target = torch.randint(0, nodes, (2, edges))
    features = torch.randn(nodes, width)
    labels = torch.randint(0, 10, (nodes,))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.other = nn.Linear(width, width), nn.Linear(width, width)

        def forward(self, x: Tensor) -> Tensor:
            messages = self.other(x)[source]
            summed = torch.zeros(nodes, width).index_add_(0, target, messages)
            degree = torch.zeros(nodes).scatter_add(0, target, torch.ones(edges))
            return F.relu(self.own(x) + summed / degree.clamp(min=1)[:, None])

    model = nn.Sequential(Layer(), Layer(), nn.Linear(width, 10))
    return trained(model, lambda: F.cross_entropy(model(features), labels))


@named
def graph_attention() -> Step:
    """Attention over the edges of each node, by `scatter_reduce`."""
    nodes, edges, width = 1000, 8000, 32
    source, target = torch.randint(0, nodes, (2, edges))
    features = torch.randn(nodes, width)
    linear, score = nn.Linear(width, width), nn.Linear(2 * width, 1)
    model = nn.ModuleList([linear, score])

    def loss() -> Tensor:
        h = linear(features)
        e = F.leaky_relu(score(torch.cat([h[source], h[target]], 1)), 0.2).squeeze(1)
        most = torch.full((nodes,), -1e9).scatter_reduce(0, target, e, "amax")
        p = (e - most[target]).exp()
        total = torch.zeros(nodes).index_add(0, target, p)
        alpha = p / total[target]
        out = torch.zeros(nodes, width).index_add(0, target, alpha[:, None] * h[source])
        return out.square().mean()

    return trained(model, loss)


@named
def experts() -> Step:
    """Each expert computes all words, weighted by the two best."""
    count, width, words, k = 4, 64, 512, 2
    gate = nn.Linear(width, count)
    ffn = nn.ModuleList(
        nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        for _ in range(count)
    )
    model = nn.ModuleList([gate, ffn])
    x = torch.randn(words, width)

    def loss() -> Tensor:
        weights, chosen = gate(x).softmax(-1).topk(k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        combine = torch.zeros(words, count).scatter(1, chosen, weights)
        out = torch.zeros_like(x)
        for number, one in enumerate(ffn):
            out = out + combine[:, number, None] * one(x)
        return out.square().mean()

    return trained(model, loss)


@named
def expert_capacity() -> Step:
    """Each expert picks its best words."""
    count, width, words, capacity = 4, 64, 512, 128
    gate = nn.Linear(width, count)
    w1 = nn.Parameter(torch.randn(count, width, 2 * width) * 0.02)
    w2 = nn.Parameter(torch.randn(count, 2 * width, width) * 0.02)
    model = nn.ModuleList([gate, nn.ParameterList([w1, w2])])
    x = torch.randn(words, width)

    def loss() -> Tensor:
        probs = gate(x).softmax(-1)
        scores, picked = probs.t().topk(capacity, -1)
        h = torch.bmm(x[picked], w1).relu()
        y = torch.bmm(h, w2) * scores[..., None]
        out = torch.zeros_like(x).index_add(0, picked.flatten(), y.flatten(0, 1))
        balance = (probs.mean(0) * count).square().sum()
        return out.square().mean() + 0.01 * balance

    return trained(model, loss)


@named
def token_dropping() -> Step:
    """A vision transformer that drops half of its patches."""
    width = 64
    patch = nn.Conv2d(3, width, 8, 8)
    cls = nn.Parameter(torch.zeros(1, 1, width))
    pos = nn.Parameter(torch.randn(1, 64, width))
    layers = nn.ModuleList(
        nn.TransformerEncoderLayer(width, 4, 128, batch_first=True, norm_first=True)
        for _ in range(2)
    )
    head = nn.Linear(width, 10)
    model = nn.ModuleList([patch, layers, head, nn.ParameterList([cls, pos])])
    images, labels = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))

    def loss() -> Tensor:
        x = patch(images).flatten(2).transpose(1, 2) + pos
        kept = torch.rand(16, 64).argsort(1)[:, :32]
        x = x.gather(1, kept[:, :, None].expand(-1, -1, width))
        x = torch.cat([cls.expand(16, -1, -1), x], 1)
        for layer in layers:
            x = layer(x)
        return F.cross_entropy(head(x[:, 0]), labels)

    return trained(model, loss, optimizer=torch.optim.AdamW)


@named
def vq_vae() -> Step:
    """A codebook with a straight-through gradient."""
    encoder = nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1)
    )
    decoder = nn.Sequential(
        nn.ConvTranspose2d(32, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 3, 4, 2, 1),
    )
    book = nn.Embedding(128, 32)
    model = nn.ModuleList([encoder, decoder, book])
    images = torch.rand(8, 3, 32, 32)

    def loss() -> Tensor:
        z = encoder(images).permute(0, 2, 3, 1)
        flat = z.reshape(-1, 32)
        d = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ book.weight.t()
            + book.weight.pow(2).sum(1)
        )
        q = book(d.argmin(1)).view_as(z)
        commit = F.mse_loss(z, q.detach()) * 0.25 + F.mse_loss(q, z.detach())
        q = z + (q - z).detach()
        return F.mse_loss(decoder(q.permute(0, 3, 1, 2)), images) + commit

    return trained(model, loss)


@named
def gan() -> Step:
    """A generator and its critic, with an optimizer each."""
    g = nn.Sequential(
        nn.Linear(32, 128),
        nn.BatchNorm1d(128),
        nn.ReLU(),
        nn.Linear(128, 784),
        nn.Tanh(),
    )
    d = nn.Sequential(
        nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(256, 1)
    )
    og = torch.optim.Adam(g.parameters(), betas=(0.5, 0.999))
    od = torch.optim.RMSprop(d.parameters())
    real = torch.rand(64, 784)

    def run() -> None:
        fake = g(torch.randn(64, 32))
        od.zero_grad()
        loss = F.binary_cross_entropy_with_logits(
            d(real), torch.ones(64, 1)
        ) + F.binary_cross_entropy_with_logits(d(fake.detach()), torch.zeros(64, 1))
        loss.backward()
        od.step()
        og.zero_grad()
        F.binary_cross_entropy_with_logits(d(fake), torch.ones(64, 1)).backward()
        og.step()

    return run


@named
def gradient_penalty() -> Step:
    """A critic whose gradient is part of its loss."""
    d = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2048, 1),
    )
    real, fake = torch.rand(8, 3, 32, 32), torch.rand(8, 3, 32, 32)

    def loss() -> Tensor:
        eps = torch.rand(8, 1, 1, 1)
        mixed = (eps * real + (1 - eps) * fake).requires_grad_()
        (grad,) = torch.autograd.grad(d(mixed).sum(), mixed, create_graph=True)
        penalty = (grad.flatten(1).norm(2, 1) - 1).square().mean()
        return d(fake).mean() - d(real).mean() + 10 * penalty

    return trained(d, loss)


@named
def moco() -> Step:
    """Contrast with a queue and an averaged encoder."""
    import copy

    q = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
    k = copy.deepcopy(q).requires_grad_(requires_grad=False)
    queue = F.normalize(torch.randn(64, 1024), dim=0)
    optimizer = torch.optim.SGD(q.parameters(), lr=0.1, momentum=0.9)
    x1, x2 = torch.randn(128, 256), torch.randn(128, 256)
    place = [0]

    def run() -> None:
        a = F.normalize(q(x1), dim=1)
        with torch.no_grad():
            for p, e in zip(q.parameters(), k.parameters(), strict=True):
                e.mul_(0.99).add_(p, alpha=0.01)
            b = F.normalize(k(x2), dim=1)
        positive = torch.einsum("nc,nc->n", a, b).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", a, queue.clone().detach())
        logits = torch.cat([positive, negative], 1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(128, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue[:, place[0] : place[0] + 128] = b.t()
        place[0] = (place[0] + 128) % 1024

    return run


@named
def ppo() -> Step:
    """Four minibatches of a clipped policy."""
    body = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
    actor, critic = nn.Linear(128, 6), nn.Linear(128, 1)
    model = nn.ModuleList([body, actor, critic])
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-5)
    obs, act = torch.randn(512, 16), torch.randint(0, 6, (512,))
    old, adv, ret = torch.randn(512), torch.randn(512), torch.randn(512)

    def run() -> None:
        for part in torch.randperm(512).split(128):
            h = body(obs[part])
            dist = torch.distributions.Categorical(logits=actor(h))
            ratio = (dist.log_prob(act[part]) - old[part]).exp()
            a = adv[part]
            a = (a - a.mean()) / (a.std() + 1e-8)
            policy = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
            value = F.smooth_l1_loss(critic(h).squeeze(-1), ret[part])
            loss = policy + 0.5 * value - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    return run


@named
def sac() -> Step:
    """A soft actor and two critics, with three optimizers."""
    actor = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 12))
    q1, q2 = (
        nn.Sequential(nn.Linear(22, 128), nn.ReLU(), nn.Linear(128, 1))
        for _ in range(2)
    )
    oa = torch.optim.Adam(actor.parameters())
    oq = torch.optim.Adam([*q1.parameters(), *q2.parameters()])
    alpha = torch.zeros(1, requires_grad=True)
    ot = torch.optim.Adam([alpha])
    s, a, r = torch.randn(256, 16), torch.randn(256, 6), torch.randn(256, 1)

    def act(states: Tensor) -> tuple[Tensor, Tensor]:
        mu, log_std = actor(states).chunk(2, -1)
        normal = torch.distributions.Normal(mu, log_std.clamp(-5, 2).exp())
        u = normal.rsample()
        y = torch.tanh(u)
        return y, (normal.log_prob(u) - torch.log(1 - y.pow(2) + 1e-6)).sum(
            -1, keepdim=True
        )

    def run() -> None:
        with torch.no_grad():
            y, lp = act(s)
            sa = torch.cat([s, y], 1)
            target = r + 0.99 * (torch.minimum(q1(sa), q2(sa)) - alpha.exp() * lp)
        sa = torch.cat([s, a], 1)
        oq.zero_grad()
        (F.mse_loss(q1(sa), target) + F.mse_loss(q2(sa), target)).backward()
        oq.step()
        y, lp = act(s)
        sa = torch.cat([s, y], 1)
        oa.zero_grad()
        (alpha.exp().detach() * lp - torch.minimum(q1(sa), q2(sa))).mean().backward()
        oa.step()
        ot.zero_grad()
        (-(alpha * (lp + 6).detach()).mean()).backward()
        ot.step()

    return run


@named
def sparse_adam() -> Step:
    """An embedding with sparse gradients."""
    table = nn.Embedding(5000, 32, sparse=True)
    mlp = nn.Sequential(nn.Linear(32 * 8, 64), nn.ReLU(), nn.Linear(64, 1))
    o1, o2 = (
        torch.optim.SparseAdam(table.parameters()),
        torch.optim.Adagrad(mlp.parameters()),
    )
    ids, y = torch.randint(0, 5000, (256, 8)), torch.rand(256, 1)

    def run() -> None:
        o1.zero_grad()
        o2.zero_grad()
        F.binary_cross_entropy_with_logits(mlp(table(ids).flatten(1)), y).backward()
        o1.step()
        o2.step()

    return run


def _checkpointed(*, reentrant: bool) -> Step:
    blocks = nn.ModuleList(
        nn.Sequential(
            nn.Linear(128, 512), nn.GELU(), nn.Dropout(0.1), nn.Linear(512, 128)
        )
        for _ in range(4)
    )
    x = torch.randn(256, 128)

    def loss() -> Tensor:
        h = x.clone().requires_grad_()
        for block in blocks:
            h = h + checkpoint(block, h, use_reentrant=reentrant)
        return h.square().mean()

    return trained(blocks, loss)


@named
def checkpoint_reentrant() -> Step:
    """Layers that are computed again, the old way."""
    return _checkpointed(reentrant=True)


@named
def checkpoint_other() -> Step:
    """Layers that are computed again, the new way."""
    return _checkpointed(reentrant=False)


@named
def per_sample_gradients() -> Step:
    """A gradient for each example, by `vmap`."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
    params = dict(model.named_parameters())

    def loss(p: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        out = torch.func.functional_call(model, p, (one[None],))
        return F.cross_entropy(out, label[None])

    def run() -> None:
        detached = {k: v.detach() for k, v in params.items()}
        grads = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(detached, x, y)
        with torch.no_grad():
            for k, v in params.items():
                norm = grads[k].flatten(1).norm(dim=1).clamp(min=1)
                g = (grads[k] / norm.view(-1, *[1] * (grads[k].ndim - 1))).mean(0)
                v.sub_(0.1 * (g + torch.randn_like(g)))

    return run


@named
def maml() -> Step:
    """Gradients through two steps of learning."""
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 5))
    xs, ys = torch.randn(40, 32), torch.randint(0, 5, (40,))
    xq, yq = torch.randn(40, 32), torch.randint(0, 5, (40,))

    def loss() -> Tensor:
        params = dict(model.named_parameters())
        for _ in range(2):
            out = torch.func.functional_call(model, params, (xs,))
            grads = torch.autograd.grad(
                F.cross_entropy(out, ys), list(params.values()), create_graph=True
            )
            params = {
                k: p - 0.1 * g for (k, p), g in zip(params.items(), grads, strict=True)
            }
        return F.cross_entropy(torch.func.functional_call(model, params, (xq,)), yq)

    return trained(model, loss)


@named
def fourier_net() -> Step:
    """Products of complex spectra."""
    width, modes = 32, 8

    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(
                torch.randn(width, width, modes, modes, dtype=torch.cfloat) * 0.02
            )
            self.skip = nn.Conv2d(width, width, 1)

        def forward(self, x: Tensor) -> Tensor:
            f = torch.fft.rfft2(x)
            out = torch.zeros_like(f)
            out[:, :, :modes, :modes] = torch.einsum(
                "bixy,ioxy->boxy", f[:, :, :modes, :modes], self.w
            )
            return F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.skip(x))

    model = nn.Sequential(
        nn.Conv2d(1, width, 1), Spectral(), Spectral(), nn.Conv2d(width, 1, 1)
    )
    x, y = torch.randn(8, 1, 32, 32), torch.randn(8, 1, 32, 32)
    return trained(model, lambda: (model(x) - y).abs().mean())


@named
def stft_loss() -> Step:
    """A loss of spectrograms."""
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, padding=4), nn.PReLU(), nn.Conv1d(16, 1, 9, padding=4)
    )
    x, y = torch.randn(4, 1, 4096), torch.randn(4, 4096)
    window = torch.hann_window(256)

    def spectrum(a: Tensor) -> Tensor:
        return torch.stft(a, 256, 64, window=window, return_complex=True).abs()

    def loss() -> Tensor:
        return F.l1_loss(
            spectrum(model(x).squeeze(1)).clamp(min=1e-5).log(),
            spectrum(y).clamp(min=1e-5).log(),
        )

    return trained(model, loss)


@named
def spectral_and_weight_norm() -> Step:
    """Weights that are functions of parameters."""
    model = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(128, 256)),
        nn.LeakyReLU(0.1),
        parametrizations.weight_norm(nn.Linear(256, 128)),
        nn.ReLU(),
        parametrizations.orthogonal(nn.Linear(128, 128)),
    )
    x = torch.randn(64, 128)
    return trained(model, lambda: model(x).square().mean())


@named
def averaged_weights() -> Step:
    """An average of all weights, and a schedule."""
    model = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 256))
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
    )
    optimizer = torch.optim.NAdam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
    x = torch.randn(64, 256)

    def run() -> None:
        optimizer.zero_grad()
        F.huber_loss(model(x), x).backward()
        optimizer.step()
        schedule.step()
        ema.update_parameters(model)

    return run


@named
def autocast_scaled() -> Step:
    """Half precision with a gradient scaler."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cpu")
    x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))

    def run() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return run


@named
def channels_last() -> Step:
    """Depthwise convolutions and pools in `channels_last`."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU6(inplace=True),
        nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.Hardswish(),
        nn.Conv2d(32, 64, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64 * 64, 10),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    x = torch.randn(8, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (8,))
    return trained(model, lambda: F.cross_entropy(model(x), y))


class Swish(torch.autograd.Function):
    """A function with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401 (as PyTorch has it)
        """Keep the sigmoid."""
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ANN401 (as PyTorch has it)
        """Use it."""
        x, s = ctx.saved_tensors
        return grad * (s + x * s * (1 - s))


@named
def custom_function() -> Step:
    """A gradient of its own, and a hook."""
    a, b = nn.Linear(256, 512), nn.Linear(512, 256)
    model = nn.ModuleList([a, b])
    x = torch.randn(128, 256)

    def hook(grad: Tensor) -> Tensor:
        return grad.clamp(-1, 1)

    def loss() -> Tensor:
        h = Swish.apply(a(x))
        h.register_hook(hook)
        return b(h).pow(2).mean()

    return trained(model, loss, optimizer=torch.optim.Adamax)


@named
def loading_inside() -> Step:
    """A step that is an epoch of a data loader."""
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(256, 64), torch.randint(0, 4, (256,)))
    model = nn.Sequential(nn.Linear(64, 128), nn.ELU(), nn.Linear(128, 4))
    optimizer = torch.optim.Adadelta(model.parameters())

    def run() -> None:
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            F.nll_loss(F.log_softmax(model(x), 1), y).backward()
            optimizer.step()

    return run


@named
def round_trip() -> Step:
    """A checkpoint is saved and loaded."""
    import copy
    import io

    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 16))
    best = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 128)

    def run() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        file = io.BytesIO()
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file
        )
        file.seek(0)
        found = torch.load(file)
        best.load_state_dict(found["model"])

    return run


@named
def gaussian_temporaries() -> Step:
    """A loss that replaces its temporary arguments."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    x = torch.randn(512, 64)

    def loss() -> Tensor:
        return F.gaussian_nll_loss(model(x), torch.zeros(512, 64), torch.ones(512, 64))

    return trained(model, loss)


@named
def packed_lstm() -> Step:
    """Sequences of several lengths."""
    embed, lstm, head = (
        nn.Embedding(500, 32, padding_idx=0),
        nn.LSTM(32, 64, bidirectional=True, batch_first=True),
        nn.Linear(128, 5),
    )
    model = nn.ModuleList([embed, lstm, head])
    words, lengths = torch.randint(1, 500, (16, 20)), torch.arange(20, 4, -1)
    y = torch.randint(0, 5, (16,))

    def loss() -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            embed(words), lengths, batch_first=True
        )
        out, _ = lstm(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return F.cross_entropy(head(padded.mean(1)), y)

    return trained(model, loss)


@named
def speech_ctc() -> Step:
    """A recurrent network with CTC."""
    conv, gru, head = (
        nn.Conv1d(40, 64, 3, 2, 1),
        nn.GRU(64, 64, 2, batch_first=True, dropout=0.1),
        nn.Linear(64, 30),
    )
    model = nn.ModuleList([conv, gru, head])
    x, y = torch.randn(8, 40, 200), torch.randint(1, 30, (8, 20))
    loss_of = nn.CTCLoss(zero_infinity=True)

    def loss() -> Tensor:
        h, _ = gru(F.relu(conv(x)).transpose(1, 2))
        logp = head(h).log_softmax(-1).transpose(0, 1)
        return loss_of(logp, y, torch.full((8,), 100), torch.full((8,), 20))

    return trained(model, loss)


@named
def seq2seq() -> Step:
    """A transformer with masks."""
    model = nn.Transformer(64, 4, 1, 1, 128, 0.1, batch_first=True)
    embed = nn.Embedding(300, 64)
    both = nn.ModuleList([model, embed])
    s, t = torch.randint(1, 300, (8, 24)), torch.randint(1, 300, (8, 20))

    def loss() -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(19)
        h = model(
            embed(s), embed(t[:, :-1]), tgt_mask=mask, src_key_padding_mask=s == 0
        )
        return F.cross_entropy(
            (h @ embed.weight.t()).flatten(0, 1), t[:, 1:].flatten(), ignore_index=0
        )

    return trained(both, loss, optimizer=torch.optim.RAdam)


@named
def llama() -> Step:
    """Rotary positions by complex numbers, and shared heads."""
    width, heads, length = 64, 4, 64

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(width))

        def forward(self, x: Tensor) -> Tensor:
            return self.w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def rotate(x: Tensor, freqs: Tensor) -> Tensor:
        c = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(c * freqs).flatten(3).type_as(x)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = (
                nn.Linear(width, width, bias=False),
                nn.Linear(width, width // 2, bias=False),
            )
            self.v, self.o = (
                nn.Linear(width, width // 2, bias=False),
                nn.Linear(width, width, bias=False),
            )
            self.a, self.b, self.c = (
                (nn.Linear(width, 4 * width, bias=False) for _ in range(2)),
                None,
                nn.Linear(4 * width, width, bias=False),
            )
            self.a = nn.ModuleList(self.a)
            self.n1, self.n2 = Norm(), Norm()

        def forward(self, x: Tensor, freqs: Tensor) -> Tensor:
            b, n, _ = x.shape
            h = self.n1(x)
            q, k, v = (
                self.q(h).view(b, n, heads, -1),
                self.k(h).view(b, n, heads // 2, -1),
                self.v(h).view(b, n, heads // 2, -1),
            )
            q, k = rotate(q, freqs), rotate(k, freqs)
            k, v = k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)
            y = F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
            )
            x = x + self.o(y.transpose(1, 2).reshape(b, n, width))
            h = self.n2(x)
            return x + self.c(F.silu(self.a[0](h)) * self.a[1](h))

    embed, blocks, last = (
        nn.Embedding(1000, width),
        nn.ModuleList(Block() for _ in range(2)),
        Norm(),
    )
    head = nn.Linear(width, 1000, bias=False)
    head.weight = embed.weight
    model = nn.ModuleList([embed, blocks, last, head])
    words = torch.randint(0, 1000, (4, length + 1))
    angles = torch.outer(
        torch.arange(length).float(), 1e4 ** (-torch.arange(0, 16, 2) / 16)
    )
    freqs = torch.polar(torch.ones_like(angles), angles)[None, :, None]

    def loss() -> Tensor:
        x = embed(words[:, :-1])
        for block in blocks:
            x = block(x, freqs)
        return F.cross_entropy(head(last(x)).view(-1, 1000), words[:, 1:].reshape(-1))

    return trained(model, loss, optimizer=torch.optim.AdamW, fused=True)


@named
def lora() -> Step:
    """Two small matrices beside a fixed one."""
    base = nn.Linear(512, 512).requires_grad_(requires_grad=False)
    a, b = nn.Linear(512, 8, bias=False), nn.Linear(8, 512, bias=False)
    x = torch.randn(64, 512)
    optimizer = torch.optim.AdamW([*a.parameters(), *b.parameters()])

    def run() -> None:
        optimizer.zero_grad(set_to_none=False)
        F.kl_div(
            (base(x) + b(a(x))).log_softmax(-1),
            torch.softmax(x, -1),
            reduction="batchmean",
        ).backward()
        optimizer.step()

    return run


@named
def accumulation() -> Step:
    """Gradients of four parts."""
    model = nn.Sequential(nn.Linear(128, 256), nn.Mish(), nn.Linear(256, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(128, 128), torch.randint(0, 16, (128,))

    def run() -> None:
        total = 0.0
        for part, labels in zip(x.chunk(4), y.chunk(4), strict=True):
            loss = F.multi_margin_loss(model(part), labels) / 4
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()

    return run


@named
def triplets() -> Step:
    """Distances of images."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2304, 64),
    )
    a, p, n = torch.randn(3, 32, 1, 28, 28)

    def loss() -> Tensor:
        d = torch.cdist(model(a), model(n))
        return (
            F.triplet_margin_loss(model(a), model(p), model(n)) + d.clamp(max=1).mean()
        )

    return trained(model, loss)


@named
def clip() -> Step:
    """Images against bags of words."""
    image = nn.Sequential(
        nn.Conv2d(3, 32, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(2048, 64)
    )
    text = nn.EmbeddingBag(1000, 64)
    scale = nn.Parameter(torch.tensor(2.6))
    model = nn.ModuleList([image, text, nn.ParameterList([scale])])
    x, t = torch.randn(32, 3, 32, 32), torch.randint(0, 1000, (32, 16))

    def loss() -> Tensor:
        i, w = F.normalize(image(x), dim=-1), F.normalize(text(t), dim=-1)
        logits = scale.exp() * i @ w.t()
        labels = torch.arange(32)
        return (
            F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)
        ) / 2

    return trained(model, loss)


@named
def neural_ode() -> Step:
    """Five steps of Runge and Kutta."""
    f = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))
    x, y = torch.randn(128, 32), torch.randn(128, 32)

    def loss() -> Tensor:
        z, h = x, 0.1
        for _ in range(5):
            k1 = f(z)
            k2 = f(z + h / 2 * k1)
            k3 = f(z + h / 2 * k2)
            k4 = f(z + h * k3)
            z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return F.mse_loss(z, y)

    return trained(f, loss)


@named
def physics_informed() -> Step:
    """Second derivatives in a loss."""
    u = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )
    points = torch.rand(256, 2)

    def loss() -> Tensor:
        xt = points.clone().requires_grad_()
        out = u(xt)
        (d,) = torch.autograd.grad(out, xt, torch.ones_like(out), create_graph=True)
        (dd,) = torch.autograd.grad(d[:, :1], xt, torch.ones(256, 1), create_graph=True)
        return (d[:, 1:] + out * d[:, :1] - 0.01 * dd[:, :1]).square().mean()

    return trained(u, loss)


@named
def flow() -> Step:
    """Couplings, and the density of a Gaussian."""
    nets = nn.ModuleList(
        nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16)) for _ in range(4)
    )
    x = torch.randn(256, 16)

    def loss() -> Tensor:
        z, logdet = x, torch.zeros(256)
        for net in nets:
            a, b = z.chunk(2, 1)
            s, t = net(a).chunk(2, 1)
            s = torch.tanh(s)
            b = b * s.exp() + t
            logdet = logdet + s.sum(1)
            z = torch.cat([b, a], 1)
        prior = torch.distributions.MultivariateNormal(torch.zeros(16), torch.eye(16))
        return -(prior.log_prob(z) + logdet).mean()

    return trained(nets, loss)


@named
def vae() -> Step:
    """A divergence of distributions."""
    enc, dec = (
        nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 40)),
        nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 784)),
    )
    model = nn.ModuleList([enc, dec])
    x = torch.rand(64, 784)

    def loss() -> Tensor:
        mu, logvar = enc(x).chunk(2, 1)
        q = torch.distributions.Normal(mu, (logvar / 2).exp())
        p = torch.distributions.Normal(torch.zeros_like(mu), torch.ones_like(mu))
        z = q.rsample()
        kl = torch.distributions.kl_divergence(q, p).sum(1)
        return (
            F.binary_cross_entropy_with_logits(dec(z), x, reduction="none").sum(1) + kl
        ).mean()

    return trained(model, loss)


@named
def gumbel() -> Step:
    """Discrete codes."""
    enc, dec = nn.Linear(256, 32 * 8), nn.Linear(32 * 8, 256)
    model = nn.ModuleList([enc, dec])
    x = torch.rand(128, 256)

    def loss() -> Tensor:
        z = F.gumbel_softmax(enc(x).view(128, 32, 8), tau=0.5, hard=True)
        return F.l1_loss(dec(z.flatten(1)).sigmoid(), x)

    return trained(model, loss, optimizer=torch.optim.ASGD)


@named
def state_space() -> Step:
    """A recurrence over states, step by step."""
    n, width, length = 16, 32, 32
    a, b = nn.Parameter(-torch.rand(width, n)), nn.Linear(width, n)
    c, dt = nn.Linear(width, n), nn.Linear(width, width)
    model = nn.ModuleList([b, c, dt, nn.ParameterList([a])])
    x = torch.randn(4, length, width)

    def loss() -> Tensor:
        delta = F.softplus(dt(x))
        da = torch.exp(delta.unsqueeze(-1) * a)
        db = delta.unsqueeze(-1) * b(x).unsqueeze(2) * x.unsqueeze(-1)
        h, ys, cs = torch.zeros(4, width, n), [], c(x)
        for t in range(length):
            h = da[:, t] * h + db[:, t]
            ys.append(torch.einsum("bdn,bn->bd", h, cs[:, t]))
        return torch.stack(ys, 1).square().mean()

    return trained(model, loss)


@named
def deformable() -> Step:
    """Images are moved by a learnt map."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 6),
    )
    x, y = torch.randn(8, 3, 48, 48), torch.randn(8, 3, 48, 48)

    def loss() -> Tensor:
        theta = net(x).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.shape, align_corners=False)
        return F.smooth_l1_loss(F.grid_sample(x, grid, align_corners=False), y)

    return trained(net, loss)


@named
def video_net() -> Step:
    """Convolutions of three dimensions."""
    model = nn.Sequential(
        nn.Conv3d(3, 16, 3, padding=1),
        nn.InstanceNorm3d(16, affine=True),
        nn.LeakyReLU(inplace=True),
        nn.MaxPool3d(2),
        nn.Conv3d(16, 16, 3),
        nn.AdaptiveMaxPool3d(2),
        nn.Flatten(),
        nn.Linear(128, 5),
    )
    x, y = torch.randn(2, 3, 8, 24, 24), torch.randint(0, 5, (2,))
    return trained(
        model, lambda: F.cross_entropy(model(x), y), optimizer=torch.optim.Rprop
    )


@named
def set_attention() -> Step:
    """Queries attend to a padded set."""
    attend = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True)
    queries = nn.Parameter(torch.randn(1, 10, 64))
    head = nn.Linear(64, 4)
    model = nn.ModuleList([attend, head, nn.ParameterList([queries])])
    x, y = torch.randn(16, 50, 64), torch.rand(16, 10, 4)
    padding = torch.zeros(16, 50, dtype=torch.bool)

    def loss() -> Tensor:
        h, weights = attend(queries.expand(16, -1, -1), x, x, key_padding_mask=padding)
        return F.l1_loss(head(h).sigmoid(), y) + 0.1 * weights.std()

    return trained(model, loss)


@named
def ranking() -> Step:
    """Pairs of users and items, with a bound of norms."""
    users, items = nn.Embedding(2000, 32), nn.Embedding(3000, 32, max_norm=1.0)
    model = nn.ModuleList([users, items])
    u, i, j = (
        torch.randint(0, 2000, (512,)),
        torch.randint(0, 3000, (512,)),
        torch.randint(0, 3000, (512, 4)),
    )

    def loss() -> Tensor:
        a = users(u)
        p = (a * items(i)).sum(1, keepdim=True)
        n = torch.matmul(items(j), a.unsqueeze(2)).squeeze(2)
        return -F.logsigmoid(p - n).mean() + 1e-4 * (a.norm() + n.abs().max())

    return trained(model, loss)


@named
def gaussian_loss() -> Step:
    """A mean and a variance."""
    model = nn.Sequential(nn.Linear(64, 256), nn.Softplus(), nn.Linear(256, 128))
    x, y = torch.randn(512, 64), torch.randn(512, 64)

    def loss() -> Tensor:
        mean, var = model(x).chunk(2, 1)
        return F.gaussian_nll_loss(mean, y, F.softplus(var) + 1e-3)

    return trained(model, loss)


@named
def in_place_ops() -> Step:
    """Ops that overwrite their inputs."""
    a, b = nn.Linear(128, 512), nn.Linear(512, 128)
    model = nn.ModuleList([a, b])
    x = torch.randn(128, 128)
    mask = torch.rand(128, 128) > 0.5

    def loss() -> Tensor:
        h = a(x)
        h.mul_(0.5).add_(1).sigmoid_()
        out = b(h)
        out[:, :32] = 0
        out = out.masked_fill_(mask, 0.0)
        return out.div_(2).pow(2).sum(1).sqrt_().mean()

    return trained(model, loss)


@named
def mixup_augmented() -> Step:
    """Mixed images and labels."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(32768, 10),
    )
    x, y = torch.rand(16, 3, 32, 32), torch.randint(0, 10, (16,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)

    def run() -> None:
        order = torch.randperm(16)
        images = 0.6 * x + 0.4 * x[order].flip(-1).roll((2, 2), (2, 3))
        labels = F.one_hot(y, 10).float().lerp(F.one_hot(y[order], 10).float(), 0.4)
        optimizer.zero_grad()
        out = model(images)
        loss = F.cross_entropy(out, labels)
        loss.backward()
        optimizer.step()
        out.argmax(1).eq(y).float().mean().item()

    return run


def compared(name: str, folder: Path) -> tuple[float, str]:
    """By how much the estimated peak is off, and a line that says so."""
    make = STEPS[name]
    try:
        step = estimated(make)
    except EstimateError as error:
        return inf, f"refused: {error}"
    gc.collect()
    real, peak = real_peak(make, folder), step.memory.peak_bytes
    off = peak / real - 1
    where = f"of {real:,} B, estimated in {step.memory.peak_op}"
    return off, " ".join([f"{100 * off:+.2f} %", where, *step.assumed])


def main() -> None:
    """Compare the steps named, or all."""
    names = sys.argv[1:] or [*STEPS]
    close = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            torch.manual_seed(0)
            off, line = compared(name, Path(folder))
            close += abs(off) <= GOAL
            sys.stdout.write(f"{name}: {line}\n")
    sys.stdout.write(f"{close} of {len(names)} peaks are within {GOAL:.0%}\n")


if __name__ == "__main__":
    main()
