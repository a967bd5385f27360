"""Networks saved by GeometricMachineLearning.jl, as the equal models of this package.

The HDF5 groups L1, L2, ... of a file hold the parameters of each layer. Julia's arrays are
column-major, so h5py shows them transposed. Models have their parameters in the same order.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils import parametrize

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError
from vpintegrator.models.model import Model
from vpintegrator.models.transformers import StandardTransformer
from vpintegrator.models.unstructured import ResidualNetwork
from vpintegrator.models.volume_preserving import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_transformers import VolumePreservingTransformer
from vpintegrator.storage.reading import StoredGroup, check_heaps, open_any

_MATRICES = {"SkewSymMatrix": "skew", "LowerTriangular": "lower", "UpperTriangular": "upper"}


class StoredLayer(NamedTuple):
    """A layer of the file: its kind, and the parameters of the equal layer of this package."""

    kind: str  # skew, arbitrary, multihead, stiefel, lower, upper, residual, dense
    values: list[np.ndarray]


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
    here and PK the queries. Layers that lead to more components are taken as linear:
    ``upscaling_activation``, which the file does not store, must be the identity.

    Examples
    --------
    >>> vp.models.load_gml("network.h5")
    Traceback (most recent call last):
    vpintegrator.errors.InputError: there is no file network.h5
    """
    path = as_path("path", path)
    with open_any(path, "a network of GeometricMachineLearning.jl") as file:
        check_heaps(path)
        root = StoredGroup(file, path, own=False)
        numbers = sorted(int(n[1:]) for n in root.groups if re.fullmatch(r"L[0-9]{1,6}", n))
        layers = [_read(root.group(f"L{number}")) for number in numbers]
    values = [value for layer in layers for value in layer.values]
    options = {
        "activation": activation,
        "prediction_window": prediction_window,
        "dtype": "float32" if all(value.dtype == np.float32 for value in values) else "float64",
    }
    try:
        with torch.random.fork_rng(devices=[]):
            model = _model(layers, window, residual, options)
        weights = [
            (module, name)
            for module in model.core.modules()
            if not isinstance(module, parametrize.ParametrizationList)
            for name in dict(module.named_parameters(recurse=False))
            or ["weight"] * parametrize.is_parametrized(module)
        ]
        for (module, name), value in zip(weights, values, strict=True):
            weight = getattr(module, name)
            if value.shape != weight.shape:
                raise InputError(f"an array has shape {value.shape}, not {tuple(weight.shape)}")
            with torch.no_grad():
                if parametrize.is_parametrized(module):  # takes an orthonormal matrix
                    setattr(module, name, torch.tensor(value).to(weight))
                else:
                    weight.copy_(torch.tensor(value))
    except ValueError as error:
        raise InputError(
            f"{path} is not a network of GeometricMachineLearning.jl that can be read here "
            "(volume-preserving or standard transformer, volume-preserving feed-forward, "
            f"residual): {error}"
        ) from None
    return model


def _read(group: StoredGroup) -> StoredLayer:
    if "PQ" in group:  # P^T z there is P z here; and the softmax is over the index of PQ
        heads = [_heads(group.group(name)) for name in ("PK", "PQ", "PV")]
        return StoredLayer("stiefel" if group.group("PQ").groups else "multihead", heads)
    # attention holds A, dense layers W and b, others weight and bias
    name = next((name for name in ("A", "W", "weight") if name in group), None)
    if name is None:
        raise InputError(f"{group} holds {', '.join(group.names) or 'nothing'}")
    bias = "b" if name == "W" else "bias"
    biases = [_array(group, bias).reshape(-1)] if bias in group else []
    if name in group.groups:
        matrix = group.group(name)
        kind = re.sub(r"\{.*", "", matrix.text("gml_type", "")).rpartition(".")[2]
        if kind not in _MATRICES:
            raise InputError(f"{matrix} is of type {kind!r}")
        return StoredLayer(_MATRICES[kind], [_array(matrix, "S"), *biases])
    weight = _array(group, name)
    if name == "A":
        return StoredLayer("arbitrary", [weight.reshape(-1)])
    square = name == "weight" and weight.shape[0] == weight.shape[-1]
    zeros = np.zeros(len(weight), weight.dtype)
    return StoredLayer("residual" if square else "dense", [weight, *(biases or [zeros])])


def _heads(group: StoredGroup) -> np.ndarray:
    """Return the projections (head, dim / heads, dim) of multihead attention."""
    names = [f"head_{k + 1}" for k in range(len(group.names))]
    arrays = [_array(group.group(n), "A") if n in group.groups else _array(group, n) for n in names]
    return np.stack(arrays).transpose(0, 2, 1)


def _array(group: StoredGroup, name: str) -> np.ndarray:
    """Return an array with the axes of Julia."""
    axes = [None] * len(group.labelled(name).raw.shape)
    array = group.array(name, axes).T
    if not np.isfinite(array).all():
        raise InputError(f"{group}: {name} holds numbers that are not finite")
    return array.astype(group.dataset(name, axes).dtype)


def _model(
    layers: list[StoredLayer], window: int | None, residual: bool, options: dict[str, Any]
) -> Model:
    """Return the model of some layers; a ValueError says why there is none."""
    kinds = {layer.kind for layer in layers}
    attention = kinds & {"skew", "arbitrary", "multihead", "stiefel"}
    others = kinds - attention
    if attention:
        options["window"] = 3 if window is None else window
    if attention and attention <= {"multihead", "stiefel"} and others <= {"residual", "dense"}:
        outer = layers[0].kind == "dense"
        count, unit = _units(layers[1:-1] if outer else layers)
        heads, _, width = unit[0].values[0].shape
        return StandardTransformer(
            layers[0].values[0].shape[1] if outer else width,
            width=width,
            embedding=outer,
            positions=False,
            depth=count,
            heads=heads,
            blocks=len(unit) - 2,
            stiefel=unit[0].kind == "stiefel",
            attention_scale=width**-0.5,
            residual=residual,
            **options,
        )
    if others and others <= {"lower", "upper"}:
        count, unit = _units(layers) if attention else (1, layers)
        stack = unit[1:] if attention else unit
        # a triangular matrix has n (n - 1) / 2 entries
        dim = (1 + math.isqrt(1 + 8 * len(stack[0].values[0]))) // 2
        options |= {"depth": count} | _triangular_arguments(stack)
        if not attention:
            if window not in (None, 1) or options.pop("prediction_window") not in (None, 1):
                raise InputError("it steps single states: window must be 1")
            return VolumePreservingFeedForward(dim, **options)
        if unit[0].kind == "arbitrary":
            options |= {"weighting": "arbitrary", "attention_scale": dim**-0.5}
        options["time_mixing"] = False
        return VolumePreservingTransformer(dim, **{"weighting": "skew"} | options)
    if kinds == {"residual"}:
        options |= {"window": 1 if window is None else window, "depth": len(layers) - 1}
        return ResidualNetwork(len(layers[0].values[0]), width=None, **options)
    raise InputError(f"its layers are {', '.join(sorted(kinds)) or 'not in groups L1, L2, ...'}")


def _units(layers: list[StoredLayer]) -> tuple[int, list[StoredLayer]]:
    """Return the number of equal units, each of which begins with attention, and the first."""
    kinds = [(layer.kind, len(layer.values)) for layer in layers]
    count = kinds.count(kinds[0])
    size = len(layers) // count
    if kinds != kinds[:size] * count:
        raise InputError("its units of attention and other layers are not all alike")
    return count, layers[:size]


def _triangular_arguments(layers: list[StoredLayer]) -> dict[str, Any]:
    """Return arguments of triangular layers from their kinds and biases.

    They are ``linear`` linear pairs and a nonlinear one, ``blocks`` times, and a linear pair. In a
    nonlinear pair both layers have biases, in a linear one the first has none.
    """
    nonlinear = [len(x.values) == 2 for x in layers[::2]]
    kinds = [x.kind for x in layers]
    blocks = sum(nonlinear)
    linear = [*nonlinear, True].index(True)
    order = ([False] * linear + [True]) * blocks + [False]
    upper_first = kinds[0] == "upper"
    pair = ["upper", "lower"] if upper_first else ["lower", "upper"]
    if not linear or nonlinear != order or kinds != pair * len(order):
        raise InputError("its triangular layers are not in the order of the published network")
    stack = {"blocks": blocks, "linear": linear, "upper_first": upper_first}
    return {"feed_forward": "triangular", **stack}
