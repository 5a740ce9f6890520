"""Make the kernel models that the wheel carries, of public measurements.

    pip download --no-deps aiconfigurator-core==0.12.0
    unzip -q aiconfigurator_core-*.whl 'aiconfigurator_core/systems/data/*'
    python benchmarks/shipped_models.py --published aiconfigurator_core \
        --write tracedb/kernels/shipped

Trains small forests on the public data beside the checkout (`measure.py`) and on those
of a wheel that NVIDIA publishes, leaves out what no op of a PyTorch trace is, and
writes a file for each model and `index.json`. Which data, whose, and under which
licence each model has is in its provenance.
"""

from __future__ import annotations

import argparse
import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from kernels import DATA
from measure import Clock, tell

from tracedb.errors import KernelModelError
from tracedb.kernels import read_measurements, summary
from tracedb.kernels.groups import LEAST_ROWS, groups_of
from tracedb.kernels.models import INDEX
from tracedb.kernels.quantised import LAYER, PRODUCT, SCALE, SCALED
from tracedb.kernels.residual import SMALL
from tracedb.kernels.store import save
from tracedb.kernels.train import models_of
from tracedb.outputs import make_folder, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracedb.kernels.groups import Group
    from tracedb.kernels.model import Key, Model
    from tracedb.kernels.rows import Rows

MORE = DATA.with_name("kerneldata-more")
_NO_TRACES = ("rope", LAYER, SCALE, SCALED)
"""Ops of inference servers' own kernels, which are not PyTorch ops."""
_NOT_NEEDED = ("mul", "pow", "tanh")
"""Rare ops, or ones that take the time of another."""
_NO_SOURCES = ("mlpredict",)
"""TensorFlow layers, including framework overhead."""


_AREAS = ("attention", "encoder_attention", "gemm")
_VLLM = tuple(f"{area}/vllm/0.24.0" for area in _AREAS)
_FP8 = ("gemm/trtllm/1.3.0rc20", "quantize/trtllm/1.3.0rc20")
"""The only layers that `tracedb.kernels.quantised` can take apart."""
_NEW = ("h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "rtx_pro_6000_server")
PUBLISHED = {
    "a100_sxm": ("attention/vllm/0.14.0", "comm/nccl/2.27.3"),
    "l40s": (*_VLLM, *_FP8, "comm/nccl/2.27.3"),
    **dict.fromkeys(_NEW, (*_VLLM, *_FP8, "comm/nccl/2.29.2")),
}
"""Folders of the aiconfigurator-core wheel below `systems/data`, by GPU."""


def published(wheel: Path) -> list[Path]:
    """The unpacked wheel's folders from which models are trained."""
    data = wheel / "systems" / "data"
    return [data / gpu / folder for gpu, kept in PUBLISHED.items() for folder in kept]


def is_shipped(group: Group) -> bool:
    """Whether traces have such ops, and enough rows of listed hardware exist."""
    return (
        not group.hardware.is_fallback
        and group.key.source not in _NO_SOURCES
        and group.key.op not in (*_NO_TRACES, *_NOT_NEEDED)
        and not is_twice(group.key)
        and not is_of_one_width(group.rows)
        and len(group.rows) >= LEAST_ROWS
    )


def is_of_one_width(rows: Rows) -> bool:
    """Whether only the rows vary, so that nothing is known of other widths."""
    width = rows.shapes.sizes.get("width")
    return width is not None and "width" in rows.family.group and np.ptp(width) == 0


def is_twice(key: Key) -> bool:
    """Whether another campaign with the same libraries has such products: vLLM's."""
    is_half = (key.op, key.dtype) == (PRODUCT, "bfloat16")
    return is_half and key.software == "trtllm/1.3.0rc20"


def slim(model: Model) -> Model:
    """The model without measured combinations: every row counts as new."""
    core = replace(model.predictor.core, known=model.predictor.core.known[:0])
    return replace(model, predictor=replace(model.predictor, core=core))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--published", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args(arguments)
    folder = given.write.resolve()
    wheel = given.published.resolve()
    clock = Clock()
    # Provenance names files from the wheel's folder on, wherever that is.
    with clock, chdir(wheel.parent):
        found = [path for path in (DATA, MORE) if path.exists()]
        measured = read_measurements([*found, *published(Path(wheel.name))])
        groups = [g for g in groups_of(measured.frame) if is_shipped(g)]
        make_folder(folder, KernelModelError)
        for old in folder.glob("*.npz"):
            old.unlink()
        listed = []
        for model in models_of(groups, measured, tell, (SMALL,)):
            path = save(slim(model), folder)
            row = summary(model) | {"file": path.name}
            row.pop("trained_at")
            listed.append(row)
    with written(folder / INDEX, KernelModelError) as beside:
        beside.write_text(json.dumps(listed, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    tell(f"{len(listed)} models, {size / 1e6:.1f} MB, {clock.cpu_s:.0f} CPU seconds")


if __name__ == "__main__":
    main()
