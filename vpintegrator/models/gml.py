"""Networks saved by GeometricMachineLearning.jl.

Their HDF5 files hold groups L1, L2, ... with the parameters of each layer. Julia's arrays are
column-major, so h5py shows them transposed. Activations and sizes of windows are not stored.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.base import Integrator
from vpintegrator.models.bounds import bounded_by
from vpintegrator.models.residual_network import ResidualNetwork
from vpintegrator.models.standard_transformer import StandardTransformer
from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer
from vpintegrator.nn.attention import VolumePreservingAttention
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.multihead import MultiHeadAttention
from vpintegrator.nn.triangular import TriangularFeedForward, TriangularLayer
from vpintegrator.reading import StoredGroup, open_any, reading


@dataclass(frozen=True)
class Layer:
    """One group of the file: what kind of layer it is, and its arrays in Julia's orientation."""

    place: str
    kind: str  # attention, multihead, lower, upper, residual, dense
    arrays: dict[str, Any]
    stiefel: bool = False
    skew: bool = False

    @property
    def has_bias(self) -> bool:
        return "bias" in self.arrays


def load_gml(
    path: str | os.PathLike[str],
    *,
    window: int | None = None,
    prediction_window: int | None = None,
    activation: str = "tanh",
    residual: bool = True,
    upscaling: str = "identity",
) -> Integrator:
    """Read a network that GeometricMachineLearning.jl saved, as the equal model of this package.

    Volume-preserving transformers and feed-forward networks, standard transformer integrators and
    residual networks are recognised by their layers.

    Parameters
    ----------
    path : path
        The HDF5 file.
    window, prediction_window : int, optional
        Not stored in the file; by default 3 for transformers and 1 for one-step maps.
    activation : str
        Of the nonlinear layers, not stored either.
    residual : bool
        Whether multihead attention adds its input to its output, not stored either.
    upscaling : str
        Activation of the layer that leads to more components, where a transformer has one
        (``upscaling_activation`` in Julia), not stored either. Only "identity", the default there
        too, has an equal model here.

    Returns
    -------
    Integrator
        In the precision of the stored arrays.

    Raises
    ------
    InputError
        If there is no such file, it is not HDF5, its layers are not one of these networks, or it is
        a transformer with another upscaling.

    Notes
    -----
    Attention with a dense A is the arbitrary weighting with scale 1/sqrt(dim), with a skew-
    symmetric A the skew weighting with scale 1. Scores of multihead attention are
    (PQ^T z_i)^T (PK^T z_j) / sqrt(dim), with softmax over i: PQ makes the keys here and PK the
    queries. Linear pairs with biases between them become one bias after the last, an equal map.
    """
    path = Path(path)
    layers = _read(path)
    kinds = {layer.kind for layer in layers}
    options = {"activation": activation, "prediction_window": prediction_window}
    if "multihead" in kinds and kinds <= {"multihead", "residual", "dense"}:
        if "dense" in kinds and upscaling != "identity":
            raise InputError(
                f"{path} is a transformer with upscaling by {upscaling}, but transformers here "
                "lead to more components linearly; train one with upscaling_activation = identity"
            )
        options |= {"window": 3 if window is None else window, "residual": residual}
        return _standard_transformer(path, layers, options)
    if "attention" in kinds and kinds <= {"attention", "lower", "upper"}:
        options["window"] = 3 if window is None else window
        return _volume_preserving_transformer(path, layers, options)
    if kinds <= {"lower", "upper"}:
        options["window"] = 1 if window is None else window
        return _volume_preserving_feed_forward(path, layers, options)
    if kinds == {"residual"}:
        options["window"] = 1 if window is None else window
        return _residual_network(path, layers, options)
    raise _unknown(path, f"its layers are {', '.join(sorted(kinds))}")


class _Unknown(InputError):
    pass


def _unknown(path: Path, why: str) -> InputError:
    return _Unknown(
        f"{path} is not a network of GeometricMachineLearning.jl that can be read here (volume-"
        f"preserving or standard transformer, volume-preserving feed-forward, residual): {why}"
    )


# ------------------------------------------------------------------------------ reading


def _read(path: Path) -> list[Layer]:
    with open_any(path, "a network of GeometricMachineLearning.jl") as file:
        root = StoredGroup(file, path)
        names = [name for name in root.groups if re.fullmatch(r"L[0-9]{1,6}", name)]
        if not names:
            raise _unknown(path, "it has no groups L1, L2, ...")
        names.sort(key=lambda name: int(name[1:]))
        try:
            return [_read_layer(path, name, root.group(name)) for name in names]
        except _Unknown:
            raise
        except InputError as error:
            raise _unknown(path, f"a layer has an unknown layout ({error})") from None


def _read_layer(path: Path, name: str, group: StoredGroup) -> Layer:
    if "A" in group.groups:
        if _type(group.group("A")) != "SkewSymMatrix":
            raise _unknown(path, f"{name}/A is of type {_type(group.group('A'))!r}")
        return Layer(name, "attention", _triangle(path, name, group.group("A")), skew=True)
    if "A" in group:
        A = _array(group, "A", 2)
        if A.shape[0] != A.shape[1]:
            raise _unknown(path, f"{name}/A has the shape {A.shape}")
        return Layer(name, "attention", {"A": A})
    if all(key in group.groups for key in ("PQ", "PK", "PV")):
        return _read_heads(path, name, group)
    # dense layers hold W and b, residual ones weight and bias
    weight, bias = ("W", "b") if "W" in group else ("weight", "bias")
    biases = {"bias": _vector(group, bias)} if bias in group else {}
    if weight in group.groups:
        kinds = {"LowerTriangular": "lower", "UpperTriangular": "upper"}
        kind = _type(group.group(weight))
        if kind not in kinds:
            raise _unknown(path, f"{name}/{weight} is of type {kind!r}")
        entries = _triangle(path, name, group.group(weight))
        return Layer(name, kinds[kind], entries | biases)
    if weight in group:
        matrix = _array(group, weight, 2)
        square = matrix.shape[0] == matrix.shape[1]
        kind = "residual" if weight == "weight" and square else "dense"
        return Layer(name, kind, {"weight": matrix} | biases)
    raise _unknown(path, f"{name} holds {', '.join(_names(group)) or 'nothing'}")


def _read_heads(path: Path, name: str, group: StoredGroup) -> Layer:
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
            raise _unknown(path, f"the heads in {name}/{key} are not of one shape")
        arrays[key] = np.stack(found)
    if len({array.shape for array in arrays.values()}) != 1:
        raise _unknown(path, f"PQ, PK and PV in {name} are not of one shape")
    return Layer(name, "multihead", arrays, stiefel=stiefel)


def _type(group: StoredGroup) -> str:
    return re.sub(r"\{.*", "", group.text("gml_type", "")).rsplit(".", 1)[-1]


def _names(group: StoredGroup) -> list[str]:
    with reading(str(group)):
        return sorted(group.raw)


def _array(group: StoredGroup, name: str, axes: int) -> np.ndarray:
    """Julia's array: h5py shows the axes in reverse order. In single precision, or else double."""
    stored = group.dataset(name, [None] * axes)
    single = stored.dtype.kind == "f" and stored.dtype.itemsize == 4
    with reading(f"{group}, {name}"):
        array = np.asarray(stored[()]).astype(np.float32 if single else np.float64).T
    if not np.isfinite(array).all():
        raise InputError(f"{group}: {name} holds numbers that are not finite")
    return array


def _vector(group: StoredGroup, name: str) -> np.ndarray:
    """A vector, also where it is stored as a matrix of one column."""
    try:
        return _array(group, name, 1)
    except InputError:
        return _array(group, name, 2).reshape(-1)


def _triangle(path: Path, name: str, group: StoredGroup) -> dict[str, Any]:
    """A triangular or skew-symmetric matrix: its size n, and its entries S."""
    n = int(group.array("n", [], "i")) if "n" in group else group.whole("n")
    S = _array(group, "S", 1)
    if len(S) != n * (n - 1) // 2:
        raise _unknown(
            path,
            f"{name} has an array of shape {S.shape} where one of ({n * (n - 1) // 2},) belongs",
        )
    return {"S": S, "n": n}


# ------------------------------------------------------------------------------ building


def _build(
    path: Path, architecture: type[Integrator], layers: list[Layer], **arguments: Any
) -> Any:
    """A model of the architecture in the precision of the file."""
    arrays = [np.asarray(a) for layer in layers for key, a in layer.arrays.items() if key != "n"]
    dtype = torch.float64 if any(a.dtype == np.float64 for a in arrays) else torch.float32
    try:
        with bounded_by([a.size for a in arrays], 0, "no such model can be made"):
            return architecture(dtype=dtype, **arguments)
    except InputError as error:
        raise _unknown(path, str(error)) from None


def _tensor(path: Path, layer: Layer, value: Any, like: torch.Tensor) -> torch.Tensor:
    tensor = torch.as_tensor(np.ascontiguousarray(value)).to(like)
    if tensor.shape != like.shape:
        raise _unknown(
            path,
            f"{layer.place} has an array of shape {tuple(tensor.shape)} where one of "
            f"{tuple(like.shape)} belongs",
        )
    return tensor


def _set(path: Path, layer: Layer, target: torch.Tensor, value: Any) -> None:
    with torch.no_grad():
        target.copy_(_tensor(path, layer, value, target))


def _set_linear(path: Path, layer: Layer, linear: nn.Linear) -> None:
    _set(path, layer, linear.weight, layer.arrays["weight"])
    _set(path, layer, linear.bias, layer.arrays.get("bias", np.zeros(linear.out_features)))


def _runs(layers: list[Layer], head: str) -> tuple[list[Layer], list[list[Layer]]]:
    """The layers of kind ``head``, and what follows each of them."""
    heads: list[Layer] = []
    runs: list[list[Layer]] = []
    for layer in layers:
        if layer.kind == head:
            heads.append(layer)
            runs.append([])
        elif runs:
            runs[-1].append(layer)
    return heads, runs


def _stack_arguments(path: Path, layers: list[Layer]) -> dict[str, Any]:
    """Arguments of ``TriangularFeedForward`` from the kinds and biases of its layers.

    It is ``linear`` linear pairs and a nonlinear one, ``blocks`` times, and a linear pair. In a
    nonlinear pair both layers have biases, in a linear one the first has none.
    """
    pairs = list(zip(layers[::2], layers[1::2], strict=False))
    nonlinear = [index for index, (first, _) in enumerate(pairs) if first.has_bias]
    kinds = {(first.kind, second.kind) for first, second in pairs}
    if (
        len(layers) % 2
        or not nonlinear
        or kinds not in ({("lower", "upper")}, {("upper", "lower")})
    ):
        raise _unknown(path, "its triangular layers are not pairs of lower and upper ones")
    linear = nonlinear[0]
    expected = list(range(linear, len(pairs) - 1, linear + 1))
    if linear == 0 or nonlinear != expected or len(pairs) != nonlinear[-1] + 2:
        raise _unknown(path, "its triangular layers are not in the order of the published network")
    return {
        "feed_forward": "triangular",
        "blocks": len(nonlinear),
        "linear": linear,
        "upper_first": kinds == {("upper", "lower")},
    }


def _fill_stack(path: Path, layers: list[Layer], stack: TriangularFeedForward) -> None:
    modules = [module for module in stack if isinstance(module, TriangularLayer)]
    nonlinear = False
    offset = torch.zeros(modules[0].dim, dtype=modules[0].entries.dtype)
    with torch.no_grad():
        for index, (layer, module) in enumerate(zip(layers, modules, strict=True)):
            _set(path, layer, module.entries, layer.arrays["S"])
            bias = _tensor(path, layer, layer.arrays.get("bias", np.zeros(module.dim)), offset)
            if index % 2 == 0:
                nonlinear = layer.has_bias
            if not nonlinear:
                # where a run of linear layers takes zero: all its biases made one, after the last
                bias = offset = offset + module.matrix() @ offset + bias
            if module.bias is not None:
                module.bias.copy_(bias)
                offset = torch.zeros_like(offset)


def _volume_preserving_feed_forward(
    path: Path, layers: list[Layer], options: dict[str, Any]
) -> Integrator:
    arguments = _stack_arguments(path, layers) | {"dim": int(layers[0].arrays["n"]), "depth": 1}
    model = _build(path, VolumePreservingFeedForward, layers, **arguments, **options)
    _fill_stack(path, layers, _of(model, TriangularFeedForward)[0])
    return model


def _volume_preserving_transformer(
    path: Path, layers: list[Layer], options: dict[str, Any]
) -> Integrator:
    attentions, runs = _runs(layers, "attention")
    first = attentions[0]
    arguments = [_stack_arguments(path, run) for run in runs]
    alike = all(stack == arguments[0] for stack in arguments)
    if layers[0] is not first or not alike or len({layer.skew for layer in attentions}) > 1:
        raise _unknown(path, "its units of attention and triangular layers are not all alike")
    dim = int(first.arrays["n"]) if first.skew else len(first.arrays["A"])
    model = _build(
        path,
        VolumePreservingTransformer,
        layers,
        dim=dim,
        depth=len(attentions),
        weighting="skew" if first.skew else "arbitrary",
        attention_scale=None if first.skew else dim**-0.5,
        **arguments[0],
        **options,
    )
    for layer, attention in zip(attentions, _of(model, VolumePreservingAttention), strict=True):
        entries = layer.arrays["S"] if layer.skew else layer.arrays["A"].reshape(-1)
        _set(path, layer, attention.weight.entries, entries)
    for run, stack in zip(runs, _of(model, TriangularFeedForward), strict=True):
        _fill_stack(path, run, stack)
    return model


def _standard_transformer(path: Path, layers: list[Layer], options: dict[str, Any]) -> Integrator:
    inner = layers
    up_and_down = [layers[0], layers[-1]] if layers[0].kind == "dense" else []
    if up_and_down:
        inner = layers[1:-1]
    attentions, runs = _runs(inner, "multihead")
    lengths = {len(run) for run in runs}
    if (
        inner[0] is not attentions[0]
        or len(lengths) > 1
        or 0 in lengths
        or any(layer.kind == "dense" for layer in inner)
        or (up_and_down and up_and_down[1].kind != "dense")
    ):
        raise _unknown(path, "its units of attention and residual layers are not all alike")
    heads, width, _ = attentions[0].arrays["PQ"].shape
    model = _build(
        path,
        StandardTransformer,
        layers,
        dim=layers[0].arrays["weight"].shape[1] if up_and_down else width,
        width=width if up_and_down else None,
        depth=len(attentions),
        heads=heads,
        blocks=lengths.pop() - 1,
        stiefel=attentions[0].stiefel,
        attention_scale=width**-0.5,
        **options,
    )
    for layer, linear in zip(up_and_down, [model.core[0], model.core[-1]], strict=False):
        _set_linear(path, layer, linear)
    for layer, attention in zip(attentions, _of(model, MultiHeadAttention), strict=True):
        # P^T z there is P z here; and the softmax runs over the index of PQ
        for name, key in (("query", "PK"), ("key", "PQ"), ("value", "PV")):
            value = layer.arrays[key].transpose(0, 2, 1)
            if layer.stiefel:  # the parametrization takes an orthonormal matrix by assignment
                setattr(attention, name, _tensor(path, layer, value, getattr(attention, name)))
            else:
                _set(path, layer, getattr(attention, name), value)
    residuals = [layer for run in runs for layer in run]
    for layer, module in zip(residuals, _of(model, ResidualLayer), strict=True):
        _set_linear(path, layer, module.linear)
    return model


def _residual_network(path: Path, layers: list[Layer], options: dict[str, Any]) -> Integrator:
    if len(layers) < 2:
        raise _unknown(path, "it has a single residual layer")
    dim = len(layers[0].arrays["weight"])
    model = _build(
        path, ResidualNetwork, layers, dim=dim, depth=len(layers) - 1, width=None, **options
    )
    for layer, module in zip(layers, _of(model, ResidualLayer), strict=True):
        _set_linear(path, layer, module.linear)
    return model


def _of(model: Integrator, kind: type[Any]) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]
