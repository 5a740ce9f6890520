"""What is recorded: models at several batch sizes, and pairs that differ in one thing.

Each pair has the edits that predict its second side from a recording of the first,
written from what code and PyTorch's sources say, before either was recorded.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tracedb.record import WORKLOADS, Training

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SMALLER = 16
"""Small runs divide the batch size by this."""


@dataclass(frozen=True)
class Side:
    """A recording: a model, its batch size, and how it is trained."""

    workload: str
    batch_size: int
    training: Training = field(default_factory=Training)

    @property
    def name(self) -> str:
        """The name has all options that differ from the default."""
        usual = asdict(Training())
        unusual = {
            word: value
            for word, value in asdict(self.training).items()
            if word != "learning_rate" and value != usual[word]
        }
        words = [_word(word, value) for word, value in unusual.items()]
        return "_".join([f"{self.workload}_b{self.batch_size}", *words])

    @property
    def facts(self) -> dict[str, Any]:
        """The facts stored with a recording or an estimate."""
        return {
            "workload": self.workload,
            "about": WORKLOADS[self.workload].about,
            "batch_size": self.batch_size,
            "training": asdict(self.training),
        }

    def step(self, device: str, *, small: bool) -> Callable[[], object]:
        """The function of one training step."""
        return WORKLOADS[self.workload].step(
            self.batch_size, device=device, training=self.training, small=small
        )

    def sized(self, *, small: bool) -> Side:
        """The same with the batch size used here."""
        size = max(2, self.batch_size // SMALLER) if small else self.batch_size
        return Side(self.workload, size, self.training)


def _word(name: str, value: object) -> str:
    """A word for what is not as usual.

    >>> _word("dtype", "tf32"), _word("graph", True), _word("workers", 4)
    ('tf32', 'graph', 'workers4')
    >>> _word("reads_loss", False)
    'no_reads_loss'
    """
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    return value if isinstance(value, str) else f"{name}{value}"


@dataclass(frozen=True)
class Pair:
    """Two recordings, the default one first, and the scenario of the difference."""

    about: str
    before: Side
    after: Side
    edits: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    """As for `tracedb whatif --edit` and `--set`."""

    def sized(self, *, small: bool) -> Pair:
        """The same with the batch sizes used here."""
        before, after = (side.sized(small=small) for side in (self.before, self.after))
        settings = (
            (f"batch={after.batch_size} from_batch={before.batch_size}",)
            if before.batch_size != after.batch_size
            else self.settings
        )
        return Pair(self.about, before, after, self.edits, settings)

    @property
    def facts(self) -> dict[str, Any]:
        """The entry in `pairs.json`."""
        return {
            "about": self.about,
            "before": self.before.name,
            "after": self.after.name,
            "edits": self.edits,
            "settings": self.settings,
        }


MIXED, TF32, GRAPH = (
    Training(dtype="bfloat16"),
    Training(dtype="tf32"),
    Training(graph=True),
)
LOOP, FOREACH, FUSED = (
    Training(implementation="loop"),
    Training(implementation="foreach"),
    Training(implementation="fused"),
)
ADAM_FOREACH, ADAM_FUSED = (
    Training("adam", "foreach", learning_rate=1e-3),
    Training("adam", "fused", learning_rate=1e-3),
)
UNREAD = Training(reads_loss=False)
WAITING = Training(reads_loss=False, synchronizes=True)

# Autocast computes the passes in half precision, at the cost of casting weights.
IN_BF16 = (
    "gpu:kernel phase=forward set to_dtype=bf16",
    "gpu:kernel phase=backward set to_dtype=bf16",
)
# For a list of tensors, one op launches what a loop launches per tensor.
JOINED = ("gpu phase=optimizer fuse", "host op=aten::add_ phase=optimizer x0.05")
# After fusing Adam, 2 of 13 list ops are left.
FUSED_ADAM = (
    "gpu phase=optimizer fuse",
    "host op=aten::_foreach* phase=optimizer x0.15",
)

PAIRS: dict[str, Pair] = {
    "batch_size": Pair("twice the batch", Side("resnet50", 32), Side("resnet50", 64)),
    # At 512 and 1024, sizes may be the batch's or the model's.
    "batch_size_dlrm": Pair(
        "twice the batch", Side("dlrm_default", 2048), Side("dlrm_default", 4096)
    ),
    "dtype": Pair(
        "bfloat16 by autocast",
        Side("resnet50", 64),
        Side("resnet50", 64, MIXED),
        IN_BF16,
    ),
    "dtype_transformer": Pair(
        "bfloat16 by autocast",
        Side("transformer", 128),
        Side("transformer", 128, MIXED),
        IN_BF16,
    ),
    "kernel": Pair(
        "kernels of TF32 in the place of fp32 for products",
        Side("transformer", 128),
        Side("transformer", 128, TF32),
        settings=("dtype=tf32:gemm*",),
    ),
    "foreach": Pair(
        "SGD over lists instead of in a loop",
        Side("resnet50", 32, LOOP),
        Side("resnet50", 32, FOREACH),
        JOINED,
    ),
    "fused_optimizer": Pair(
        "fused SGD instead of lists: one op as before, another kernel",
        Side("resnet50", 32, FOREACH),
        Side("resnet50", 32, FUSED),
        ("gpu phase=optimizer fuse",),
    ),
    "fused_adam": Pair(
        "fused Adam instead of lists",
        Side("transformer", 128, ADAM_FOREACH),
        Side("transformer", 128, ADAM_FUSED),
        FUSED_ADAM,
    ),
    "item": Pair(
        "the loss is not read by `.item()` any more",
        Side("dlrm_ddp", 2048),
        Side("dlrm_ddp", 2048, UNREAD),
        ("op:aten::item remove",),
    ),
    "sync": Pair(
        "no wait for the whole device at the end of a step",
        Side("resnet50", 16, WAITING),
        Side("resnet50", 16, UNREAD),
        ("wait:host name=cudaDeviceSynchronize",),
    ),
    "graph": Pair(
        "the step is a CUDA graph",
        Side("resnet50", 16),
        Side("resnet50", 16, GRAPH),
        ("op graph",),
    ),
    "graph_transformer": Pair(
        "the step is a CUDA graph",
        Side("transformer", 64),
        Side("transformer", 64, GRAPH),
        ("op graph",),
    ),
    "batched_tables": Pair(
        "all tables in one: one lookup instead of eight",
        Side("dlrm_ddp", 2048),
        Side("dlrm_ddp_batched", 2048),
        (
            "op:aten::embedding_bag fuse",
            "host op=aten::embedding_bag x0.125",
            "op:*EmbeddingBagBackward0 fuse",
            "host op=*EmbeddingBagBackward0 x0.125",
        ),
    ),
    "workers": Pair(
        "four processes make the batches",
        Side("dlrm_ddp", 4096, Training(workers=0)),
        Side("dlrm_ddp", 4096, Training(workers=4)),
        ("host:wait_data overlap workers=4",),
    ),
}
"""What differs, and the two recordings."""


def pairs(*, small: bool) -> Mapping[str, Pair]:
    """The pairs with the batch sizes used here."""
    return {name: pair.sized(small=small) for name, pair in PAIRS.items()}


def sides(*, small: bool) -> list[Side]:
    """All recordings, each once.

    First one of every model, then pairs, then other batch sizes, since time may run
    out. CUDA graphs come last: they may break the profiler.
    """
    first = [Side(name, work.batch_sizes[0]) for name, work in WORKLOADS.items()]
    paired = [side for pair in PAIRS.values() for side in (pair.before, pair.after)]
    rest = [
        Side(name, size)
        for name, work in WORKLOADS.items()
        for size in work.batch_sizes
    ]
    sized = [side.sized(small=small) for side in (*first, *paired, *rest)]
    return sorted(dict.fromkeys(sized), key=lambda side: side.training.graph)
