"""Networks saved by GeometricMachineLearning.jl, as the equal models of this package.

The HDF5 groups L1, L2, ... of a file hold the parameters of each layer. Julia's arrays are
column-major, so h5py shows them transposed.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError
from vpintegrator.models.model import Model
from vpintegrator.models.residual_network import ResidualNetwork
from vpintegrator.models.standard_transformer import StandardTransformer
from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer
from vpintegrator.nn.attention import MultiHeadAttention, VolumePreservingAttention
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.triangular import TriangularFeedForward, TriangularLayer
from vpintegrator.storage.reading import StoredGroup, open_any

_MATRICES = {"SkewSymMatrix": "skew", "LowerTriangular": "lower", "UpperTriangular": "upper"}
_TRIANGULAR = {"lower", "upper"}
_ATTENTION = {"skew", "arbitrary"}
_HEADS = {"multihead", "stiefel"}
_PROJECTIONS = ("PQ", "PK", "PV")


class StoredLayer(NamedTuple):
    """A layer of the file: its kind, its arrays in Julia's orientation, and its group."""

    kind: str  # skew, arbitrary, multihead, stiefel, lower, upper, residual, dense
    arrays: dict[str, np.ndarray]
    place: str


def load_gml(
    path: str | os.PathLike[str],
    *,
    window: int | None = None,
    prediction_window: int | None = None,
    activation: str = "tanh",
    residual: bool = True,
) -> Model:
    r"""Read a network that GeometricMachineLearning.jl saved, as the equal model of this package.

    Volume-preserving transformers and feed-forward networks, standard transformer integrators and
    residual networks are recognised by their layers.

    Parameters
    ----------
    path : path
        The HDF5 file.
    window, prediction_window : int, optional
        Windows, which the file does not store; by default 3 for transformers and 1 for one-step
        maps.
    activation : str
        Activation of the nonlinear layers, which the file does not store.
    residual : bool
        Whether multihead attention adds its input to its output, not stored either.

    Returns
    -------
    Model
        Model in the precision of the stored arrays.

    Raises
    ------
    InputError
        If there is no such file, it is not HDF5, or its layers are not one of these networks.

    Notes
    -----
    Attention with a dense A is the arbitrary weighting with scale :math:`1/\sqrt{\text{dim}}`, with
    a skew-symmetric A the skew weighting with scale 1. Scores of multihead attention are
    :math:`(P_Q^T z_i)^T (P_K^T z_j) / \sqrt{\text{dim}}`, with softmax over i: PQ makes the keys
    here and PK the queries. Linear pairs with biases between them become one bias after the last,
    an equal map. Layers that lead to more components are taken as linear: ``upscaling_activation``,
    which the file does not store, must be the identity.

    Examples
    --------
    >>> vp.models.load_gml("network.h5")
    Traceback (most recent call last):
    vpintegrator.errors.InputError: there is no file network.h5
    """
    path = as_path("path", path)
    with open_any(path, "a network of GeometricMachineLearning.jl") as file:
        root = StoredGroup(file, path)
        names = [name for name in root.groups if re.fullmatch(r"L[0-9]{1,6}", name)]
        layers = [_read(name, root.group(name)) for name in sorted(names, key=_number)]
    options = {"activation": activation, "prediction_window": prediction_window}
    try:
        with torch.random.fork_rng(devices=[]):
            return _model(layers, window, residual, options)
    except ValueError as error:
        raise InputError(
            f"{path} is not a network of GeometricMachineLearning.jl that can be read here "
            "(volume-preserving or standard transformer, volume-preserving feed-forward, "
            f"residual): {error}"
        ) from None


def _number(name: str) -> int:
    return int(name[1:])


def _read(place: str, group: StoredGroup) -> StoredLayer:
    if set(_PROJECTIONS) <= {*group.groups}:
        on_manifold = all(group.group(key).groups for key in _PROJECTIONS)
        arrays = {key: _heads(group.group(key), on_manifold) for key in _PROJECTIONS}
        return StoredLayer("stiefel" if on_manifold else "multihead", arrays, place)
    # attention holds A, dense layers W and b, others weight and bias
    name = next((name for name in ("A", "W", "weight") if name in group), None)
    if name is None:
        raise InputError(f"{group} holds {', '.join(group.names) or 'nothing'}")
    bias = "b" if name == "W" else "bias"
    biases = {"bias": _array(group, bias, None).reshape(-1)} if bias in group else {}
    if name in group.groups:
        matrix = group.group(name)
        kind = re.sub(r"\{.*", "", matrix.text("gml_type", "")).rpartition(".")[2]
        if kind not in _MATRICES:
            raise InputError(f"{matrix} is of type {kind!r}")
        return StoredLayer(_MATRICES[kind], {"S": _array(matrix, "S", 1)} | biases, place)
    array = _array(group, name, 2)
    square = array.shape[0] == array.shape[1]
    kind = {"A": "arbitrary", "W": "dense"}.get(name, "residual" if square else "dense")
    return StoredLayer(kind, {"weight": array} | biases, place)


def _heads(group: StoredGroup, on_manifold: bool) -> np.ndarray:
    """Return the projections (head, dim, dim / heads) of multihead attention."""
    names = [f"head_{k + 1}" for k in range(len(group.names))]
    if on_manifold:
        arrays = [_array(group.group(name), "A", 2) for name in names]
    else:
        arrays = [_array(group, name, 2) for name in names]
    if len({array.shape for array in arrays}) != 1:
        raise InputError(f"the heads in {group} are not of one shape")
    return np.stack(arrays)


def _array(group: StoredGroup, name: str, axes: int | None) -> np.ndarray:
    """Return an array with the axes of Julia; a vector may be stored as a matrix of one column."""
    if axes is None:
        axes = len(group.labelled(name).raw.shape)
    stored = group.dataset(name, [None] * axes)
    array = group.array(name, [None] * axes).T
    if not np.isfinite(array).all():
        raise InputError(f"{group}: {name} holds numbers that are not finite")
    return array.astype(np.float32) if stored.dtype == np.float32 else array


def _model(
    layers: list[StoredLayer], window: int | None, residual: bool, options: dict[str, Any]
) -> Model:
    """Return the model of some layers; a ValueError says why there is none."""
    kinds = {layer.kind for layer in layers}
    arrays = [array for layer in layers for array in layer.arrays.values()]
    options["dtype"] = torch.float32 if all(a.dtype == np.float32 for a in arrays) else "float64"
    if kinds & _HEADS and kinds <= {*_HEADS, "residual", "dense"}:
        options |= {"window": 3 if window is None else window, "residual": residual}
        return _standard_transformer(layers, options)
    if kinds & _ATTENTION and kinds <= {*_ATTENTION, *_TRIANGULAR}:
        options["window"] = 3 if window is None else window
        return _volume_preserving_transformer(layers, options)
    if kinds and kinds <= _TRIANGULAR:
        if window not in (None, 1) or options.pop("prediction_window") not in (None, 1):
            raise InputError("it steps single states: window must be 1")
        arguments = _stack_arguments(layers)
        model = VolumePreservingFeedForward(_dim(layers[0]), depth=1, **arguments, **options)
        _fill_stack(layers, _of(model, TriangularFeedForward)[0])
        return model
    if kinds == {"residual"}:
        options["window"] = 1 if window is None else window
        return _residual_network(layers, options)
    raise InputError(f"its layers are {', '.join(sorted(kinds)) or 'not in groups L1, L2, ...'}")


def _dim(layer: StoredLayer) -> int:
    """Return the size n of a matrix with n (n - 1) / 2 entries, or that of a full one."""
    if layer.kind == "arbitrary":
        return len(layer.arrays["weight"])
    return (1 + math.isqrt(1 + 8 * len(layer.arrays["S"]))) // 2


def _units(layers: list[StoredLayer], heads: set[str]) -> list[list[StoredLayer]]:
    """Return the layers in units of equal kinds, each of which begins with attention."""
    size = len(layers) // sum(layer.kind in heads for layer in layers)
    units = [layers[k : k + size] for k in range(0, len(layers), size)]
    kinds = [[(layer.kind, *layer.arrays) for layer in unit] for unit in units]
    if layers[0].kind not in heads or any(unit != kinds[0] for unit in kinds):
        raise InputError("its units of attention and other layers are not all alike")
    return units


def _fill(layer: StoredLayer, target: torch.Tensor, value: np.ndarray) -> None:
    if value.shape != target.shape:
        raise InputError(
            f"{layer.place} has an array of shape {value.shape} where one of "
            f"{tuple(target.shape)} belongs"
        )
    with torch.no_grad():
        target.copy_(torch.from_numpy(np.ascontiguousarray(value)))


def _fill_linear(layers: list[StoredLayer], targets: list[nn.Linear]) -> None:
    for layer, linear in zip(layers, targets, strict=True):
        _fill(layer, linear.weight, layer.arrays["weight"])
        _fill(layer, linear.bias, layer.arrays.get("bias", np.zeros(linear.out_features)))


def _stack_arguments(layers: list[StoredLayer]) -> dict[str, Any]:
    """Return arguments of ``TriangularFeedForward`` from the kinds and biases of its layers.

    It is ``linear`` linear pairs and a nonlinear one, ``blocks`` times, and a linear pair. In a
    nonlinear pair both layers have biases, in a linear one the first has none.
    """
    nonlinear = ["bias" in layer.arrays for layer in layers[::2]]
    blocks, linear = sum(nonlinear), [*nonlinear, True].index(True)
    order = ([False] * linear + [True]) * blocks + [False]
    kinds = [layer.kind for layer in layers]
    pair = ["upper", "lower"] if kinds[0] == "upper" else ["lower", "upper"]
    if not linear or nonlinear != order or kinds != pair * len(order):
        raise InputError("its triangular layers are not in the order of the published network")
    return {
        "feed_forward": "triangular",
        "blocks": blocks,
        "linear": linear,
        "upper_first": kinds[0] == "upper",
    }


def _fill_stack(layers: list[StoredLayer], stack: TriangularFeedForward) -> None:
    modules = [module for module in stack if isinstance(module, TriangularLayer)]
    nonlinear = False
    offset = np.zeros(modules[0].dim)
    for index, (layer, module) in enumerate(zip(layers, modules, strict=True)):
        _fill(layer, module.entries, layer.arrays["S"])
        bias = layer.arrays.get("bias", np.zeros(module.dim))
        if index % 2 == 0:
            nonlinear = "bias" in layer.arrays
        if not nonlinear:
            # image of zero under the linear layers: one bias after the last layer
            bias = offset = offset + module.matrix().detach().numpy() @ offset + bias
        if module.bias is not None:
            _fill(layer, module.bias, bias)
            offset = np.zeros_like(offset)


def _volume_preserving_transformer(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
    units = _units(layers, _ATTENTION)
    weighting, dim = layers[0].kind, _dim(layers[0])
    model = VolumePreservingTransformer(
        dim,
        depth=len(units),
        weighting=weighting,  # type: ignore[arg-type]
        attention_scale=None if weighting == "skew" else dim**-0.5,
        **_stack_arguments(units[0][1:]),
        **options,
    )
    parts = zip(
        units, _of(model, VolumePreservingAttention), _of(model, TriangularFeedForward), strict=True
    )
    for (layer, *stack), attention, feed_forward in parts:
        array = layer.arrays["S" if weighting == "skew" else "weight"]
        _fill(layer, attention.scores.entries, array.reshape(-1))
        _fill_stack(stack, feed_forward)
    return model


def _standard_transformer(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
    outer = [layers[0], layers[-1]] if layers[0].kind == "dense" else []
    units = _units(layers[1:-1] if outer else layers, _HEADS)
    heads, width, _ = units[0][0].arrays["PQ"].shape
    stiefel = units[0][0].kind == "stiefel"
    model = StandardTransformer(
        outer[0].arrays["weight"].shape[1] if outer else width,
        width=width,
        positions=False,
        depth=len(units),
        heads=heads,
        blocks=len(units[0]) - 2,
        stiefel=stiefel,
        attention_scale=width**-0.5,
        **options,
    )
    _fill_linear(outer, [part for part in model.core.children() if isinstance(part, nn.Linear)])
    for (layer, *_), attention in zip(units, _of(model, MultiHeadAttention), strict=True):
        # P^T z there is P z here; and the softmax runs over the index of PQ
        query, key = attention.scores.query, attention.scores.key
        for projection, name in ((query, "PK"), (key, "PQ"), (attention.value, "PV")):
            value = layer.arrays[name].transpose(0, 2, 1)
            if stiefel:  # the parametrization takes an orthonormal matrix by assignment
                projection.weight = torch.tensor(value).to(projection.weight)
            else:
                _fill(layer, projection.weight, value)
    residuals = [layer for unit in units for layer in unit[1:]]
    _fill_linear(residuals, [module.linear for module in _of(model, ResidualLayer)])
    return model


def _residual_network(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
    dim = len(layers[0].arrays["weight"])
    model = ResidualNetwork(dim, depth=len(layers) - 1, width=None, **options)
    _fill_linear(layers, [module.linear for module in _of(model, ResidualLayer)])
    return model


def _of(model: Model, kind: type[Any]) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]
