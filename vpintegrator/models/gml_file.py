"""The layers in a file of GeometricMachineLearning.jl.

Its HDF5 groups L1, L2, ... hold the parameters of each layer. Julia's arrays are column-major, so
h5py shows them transposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.storage.reading import StoredGroup, open_any, reading


class UnknownNetwork(InputError):
    """A file holds no network that can be read here."""


@dataclass(frozen=True)
class StoredLayer:
    """Group of the file: kind of the layer, and its arrays in Julia's orientation."""

    place: str
    kind: str  # attention, multihead, lower, upper, residual, dense
    arrays: dict[str, Any]
    stiefel: bool = False
    skew: bool = False

    @property
    def has_bias(self) -> bool:
        return "bias" in self.arrays


def read_layers(path: Path) -> list[StoredLayer]:
    """Return the layers in their order.

    Raises
    ------
    InputError
        If there is no such file or it is not HDF5; an ``UnknownNetwork`` if a layer is strange.
    """
    with open_any(path, "a network of GeometricMachineLearning.jl") as file:
        root = StoredGroup(file, path)
        names = [name for name in root.groups if re.fullmatch(r"L[0-9]{1,6}", name)]
        if not names:
            raise UnknownNetwork("it has no groups L1, L2, ...")
        names.sort(key=lambda name: int(name[1:]))
        try:
            return [_read_layer(name, root.group(name)) for name in names]
        except UnknownNetwork:
            raise
        except InputError as error:
            raise UnknownNetwork(f"a layer has an unknown layout ({error})") from None


def _read_layer(name: str, group: StoredGroup) -> StoredLayer:
    if "A" in group.groups:
        if _type(group.group("A")) != "SkewSymMatrix":
            raise UnknownNetwork(f"{name}/A is of type {_type(group.group('A'))!r}")
        return StoredLayer(name, "attention", _triangle(name, group.group("A")), skew=True)
    if "A" in group:
        A = _array(group, "A", 2)
        if A.shape[0] != A.shape[1]:
            raise UnknownNetwork(f"{name}/A has the shape {A.shape}")
        return StoredLayer(name, "attention", {"A": A})
    if all(key in group.groups for key in ("PQ", "PK", "PV")):
        return _read_heads(name, group)
    # dense layers hold W and b, residual ones weight and bias
    weight, bias = ("W", "b") if "W" in group else ("weight", "bias")
    biases = {"bias": _vector(group, bias)} if bias in group else {}
    if weight in group.groups:
        kinds = {"LowerTriangular": "lower", "UpperTriangular": "upper"}
        kind = _type(group.group(weight))
        if kind not in kinds:
            raise UnknownNetwork(f"{name}/{weight} is of type {kind!r}")
        entries = _triangle(name, group.group(weight))
        return StoredLayer(name, kinds[kind], entries | biases)
    if weight in group:
        matrix = _array(group, weight, 2)
        square = matrix.shape[0] == matrix.shape[1]
        kind = "residual" if weight == "weight" and square else "dense"
        return StoredLayer(name, kind, {"weight": matrix} | biases)
    raise UnknownNetwork(f"{name} holds {', '.join(_names(group)) or 'nothing'}")


def _read_heads(name: str, group: StoredGroup) -> StoredLayer:
    arrays, stiefel = {}, False
    for key in ("PQ", "PK", "PV"):
        entries = group.group(key)
        heads = [f"head_{index + 1}" for index in range(len(_names(entries)))]
        on_manifold = [head in entries.groups for head in heads]
        stiefel |= any(on_manifold)
        found = [
            _array(entries.group(head), "A", 2) if inside else _array(entries, head, 2)
            for head, inside in zip(heads, on_manifold, strict=True)
        ]
        if len({matrix.shape for matrix in found}) != 1:
            raise UnknownNetwork(f"the heads in {name}/{key} are not of one shape")
        arrays[key] = np.stack(found)
    if len({array.shape for array in arrays.values()}) != 1:
        raise UnknownNetwork(f"PQ, PK and PV in {name} are not of one shape")
    return StoredLayer(name, "multihead", arrays, stiefel=stiefel)


def _type(group: StoredGroup) -> str:
    return re.sub(r"\{.*", "", group.text("gml_type", "")).rsplit(".", 1)[-1]


def _names(group: StoredGroup) -> list[str]:
    with reading(str(group)):
        return sorted(group.raw)


def _array(group: StoredGroup, name: str, axes: int) -> np.ndarray:
    """Return an array with the axes of Julia, which h5py shows in reverse order."""
    stored = group.dataset(name, [None] * axes)
    single = stored.dtype.kind == "f" and stored.dtype.itemsize == 4
    with reading(f"{group}, {name}"):
        array = np.asarray(stored[()]).astype(np.float32 if single else np.float64).T
    if not np.isfinite(array).all():
        raise InputError(f"{group}: {name} holds numbers that are not finite")
    return array


def _vector(group: StoredGroup, name: str) -> np.ndarray:
    """Return a vector, also where it is stored as a matrix of one column."""
    try:
        return _array(group, name, 1)
    except InputError:
        return _array(group, name, 2).reshape(-1)


def _triangle(name: str, group: StoredGroup) -> dict[str, Any]:
    """Return a triangular or skew-symmetric matrix: its size n, and its entries S."""
    n = int(group.array("n", [], "i")) if "n" in group else group.whole("n")
    S = _array(group, "S", 1)
    if len(S) != n * (n - 1) // 2:
        raise UnknownNetwork(
            f"{name} has an array of shape {S.shape} where one of ({n * (n - 1) // 2},) belongs",
        )
    return {"S": S, "n": n}
