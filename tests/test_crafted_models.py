"""Untrusted model files: each one loads and predicts, or is refused in one line."""

from __future__ import annotations

import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_kernel_models import asked, measured, write

from tracedb import kernels
from tracedb.errors import KernelModelError

FAMILIES = ("gemm", "collective")
MUTATIONS = 150
"""For each family's model."""
MOST_BYTES = 400 << 20
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308),
    *(-1e308, float("nan"), float("inf"), -float("inf"), "", "a", "\0", "\ud800"),
    *("x" * 10_000, "../../etc/passwd", "[link=x]", "\x1b[2J", [], {}, [[]], [1, 2]),
    *({"a": 1}, {"": {}}, [None], ["known"], {"known": "base"}, [0, 0], [1, 0]),
]
TYPES = (
    "<f8",
    "<f4",
    "<i8",
    "<u8",
    "<i2",
    "|u1",
    "|b1",
    "<c16",
    "<U3",
    "<M8[ns]",
    "|S2",
)

Parts = tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]
"""The header and the arrays."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of each family."""
    made = tmp_path_factory.mktemp("crafted")
    for family in FAMILIES:
        write(measured(family), made / f"{family}.parquet")
    kernels.train([made], made / "models")
    return {f: min((made / "models").glob(f"*_{f}_*.npz")) for f in FAMILIES}


def parts_of(path: Path) -> Parts:
    """Split a model file into header and arrays."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("header").tobytes()), arrays


def put(path: Path, parts: Parts) -> None:
    """Write a model file from its parts."""
    header, arrays = parts
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    arrays = {"header": np.frombuffer(text, np.uint8)} | arrays
    np.savez_compressed(path, allow_pickle=False, **arrays)


def places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 (JSON)
    """Every place in a JSON value: its container and key."""
    if not isinstance(value, (dict, list)):
        return []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    return found + [place for key in keys for place in places(value[key])]


def change_header(rng: random.Random, parts: Parts) -> None:
    """Change a value, or add or remove a key."""
    holder, key = rng.choice(places(parts[0]))
    if rng.random() < 0.3:
        del holder[key]
    else:
        holder[key] = rng.choice(ODD)


def change_value(rng: random.Random, parts: Parts) -> None:
    """Change numbers in an array."""
    name = rng.choice(list(parts[1]))
    array = parts[1][name].copy()
    if not len(array):
        return
    for _ in range(rng.choice((1, 3, 100))):
        odd = rng.choice((0, 1, -1, 7, len(array), 2**15 - 1, -(2**15)))
        floats = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, float(odd))
        is_float = array.dtype.kind == "f"
        with np.errstate(over="ignore"):
            value = np.array(rng.choice(floats) if is_float else odd)
            array[rng.randrange(len(array))] = value.astype(array.dtype)
    parts[1][name] = array


def change_shape(rng: random.Random, parts: Parts) -> None:
    """Make an array longer, shorter, of another type, or drop it."""
    name = rng.choice(list(parts[1]))
    array = parts[1][name]
    with np.errstate(all="ignore"):
        changes: list[Callable[[], np.ndarray[Any, Any]]] = [
            lambda: array[: len(array) // 2],
            lambda: array[:0],
            lambda: np.tile(array, 3),
            lambda: np.flip(array),
            lambda: array.reshape(1, -1),
            lambda: np.array(1.0),
            lambda: array.astype(float).astype(rng.choice(TYPES)),
        ]
        parts[1][name] = rng.choice(changes)()
    if rng.random() < 0.2:
        del parts[1][name]


def change_tree(rng: random.Random, parts: Parts) -> None:
    """Cycles, shared children, chains, children before their parents."""
    names = [name for name in parts[1] if name.endswith((".left", ".right", ".first"))]
    if not names:
        return change_value(rng, parts)
    name = rng.choice(names)
    array = parts[1][name].copy()
    count = len(array)
    how = rng.randrange(5)
    if how == 0:
        array[:] = np.arange(count) + 1
    elif how == 1:
        array[:] = 0
    elif how == 2:
        array[rng.randrange(count)] = rng.randrange(count)
    elif how == 3:
        array[:] = np.roll(array, 1)
    else:
        for other in names:
            parts[1][other] = np.minimum(np.arange(len(parts[1][other])) + 1, 40)
        return None
    parts[1][name] = array
    return None


CHANGES: list[Callable[[random.Random, Parts], None]] = [
    *(change_header, change_header, change_value, change_shape, change_tree),
]


def mutate(rng: random.Random, source: Path, path: Path) -> None:
    """Write a changed model: changed parts, or changed bytes."""
    if rng.random() < 0.2:
        data = bytearray(source.read_bytes())
        for _ in range(rng.choice((1, 10, 1000))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data[: rng.choice((len(data), len(data) // 2))]))
        return
    parts = parts_of(source)
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(CHANGES)(rng, parts)
    put(path, parts)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutated_models(trained: dict[str, Path], tmp_path: Path, family: str) -> None:
    """A mutated file loads and predicts, or one line says that it is broken."""
    path, question, loaded = tmp_path / "model.npz", asked(family, rows=40), 0
    for seed in range(MUTATIONS):
        mutate(random.Random(seed), trained[family], path)  # noqa: S311 (no secret)
        try:
            models = kernels.load(path)
            models.predict(question)
        except KernelModelError:  # one line, as all of tracedb's errors
            continue
        assert list(kernels.described(models.models[0]))
        assert kernels.summary(models.models[0])
        loaded += 1
    assert 0 < loaded < MUTATIONS / 2


def crafted(path: Path, name: str, data: bytes) -> None:
    """A model file in which one array has these bytes."""
    beside = path.with_suffix(".old")
    path.rename(beside)
    with (
        zipfile.ZipFile(beside) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for member in old.namelist():
            new.writestr(member, data if member == name else old.read(member))


def npy(shape: str, dtype: str = "<f8", data: bytes = b"") -> bytes:
    """An array file with the given header."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    head = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data


CRAFTED = {
    "a size that is not there": npy("(400000000,)"),
    "a size beyond all": npy("(9223372036854775807, 9223372036854775807)"),
    "a negative size": npy("(-1,)"),
    "much of nothing": npy("(50000000,)", "<f8", bytes(400_000_000)),
    "objects": npy("(1,)", "|O", b"cos\nsystem\n(S'true'\ntR."),
    "records": npy("(1,)", "|V8", bytes(8)),
    "code": npy("(__import__('os').system('true'),)"),
    "nesting": npy("(" * 50 + "1" + ",)" * 50),
    "nothing": b"",
}


@pytest.mark.parametrize("how", CRAFTED)
def test_crafted_arrays(trained: dict[str, Path], tmp_path: Path, how: str) -> None:
    """Arrays with a false size, or that are none, allocate no memory."""
    path = tmp_path / "model.npz"
    path.write_bytes(trained["gemm"].read_bytes())
    crafted(path, "known.npy", CRAFTED[how])
    tracemalloc.start()
    try:
        with pytest.raises(KernelModelError, match="train it again") as caught:
            kernels.load(path)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES / 4
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"a":' * 200_000, b"1", b"nul"])
def test_crafted_headers(trained: dict[str, Path], tmp_path: Path, text: bytes) -> None:
    """Endless nesting, and headers that are not objects, give one line."""
    path = tmp_path / "model.npz"
    path.write_bytes(trained["gemm"].read_bytes())
    crafted(path, "header.npy", npy(f"({len(text)},)", "|u1", text))
    with pytest.raises(KernelModelError, match="train it again"):
        kernels.load(path)
