"""Networks saved by GeometricMachineLearning.jl, as the equal models of this package."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError
from vpintegrator.models.gml_file import StoredLayer, UnknownNetwork, read_layers
from vpintegrator.models.model import Model
from vpintegrator.models.residual_network import ResidualNetwork
from vpintegrator.models.standard_transformer import StandardTransformer
from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer
from vpintegrator.nn.attention import MultiHeadAttention, VolumePreservingAttention
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.triangular import TriangularFeedForward, TriangularLayer


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
    options: dict[str, Any] = {"activation": activation, "prediction_window": prediction_window}
    try:
        layers = read_layers(path)
        kinds = {layer.kind for layer in layers}
        if "multihead" in kinds and kinds <= {"multihead", "residual", "dense"}:
            options |= {"window": 3 if window is None else window, "residual": residual}
            return _standard_transformer(layers, options)
        if "attention" in kinds and kinds <= {"attention", "lower", "upper"}:
            options["window"] = 3 if window is None else window
            return _volume_preserving_transformer(layers, options)
        if kinds <= {"lower", "upper"}:
            if window not in (None, 1) or prediction_window not in (None, 1):
                raise UnknownNetwork("it steps single states: window must be 1")
            return _volume_preserving_feed_forward(layers, {"activation": activation})
        options["window"] = 1 if window is None else window
        if kinds == {"residual"}:
            return _residual_network(layers, options)
        raise UnknownNetwork(f"its layers are {', '.join(sorted(kinds))}")
    except UnknownNetwork as error:
        raise InputError(
            f"{path} is not a network of GeometricMachineLearning.jl that can be read here "
            "(volume-preserving or standard transformer, volume-preserving feed-forward, "
            f"residual): {error}"
        ) from None


def _build(architecture: type[Model], layers: list[StoredLayer], **arguments: Any) -> Any:
    """Return a model of the architecture in the precision of the file."""
    arrays = [np.asarray(a) for layer in layers for key, a in layer.arrays.items() if key != "n"]
    dtype = torch.float64 if any(a.dtype == np.float64 for a in arrays) else torch.float32
    try:
        with torch.random.fork_rng(devices=[]):
            return architecture(**arguments, dtype=dtype)
    except InputError as error:
        raise UnknownNetwork(f"no such model can be made: {error}") from None


def _tensor(layer: StoredLayer, value: Any, like: torch.Tensor) -> torch.Tensor:
    tensor = torch.as_tensor(np.ascontiguousarray(value)).to(like)
    if tensor.shape != like.shape:
        raise UnknownNetwork(
            f"{layer.place} has an array of shape {tuple(tensor.shape)} where one of "
            f"{tuple(like.shape)} belongs",
        )
    return tensor


def _set(layer: StoredLayer, target: torch.Tensor, value: Any) -> None:
    with torch.no_grad():
        target.copy_(_tensor(layer, value, target))


def _set_linear(layer: StoredLayer, linear: nn.Linear) -> None:
    _set(layer, linear.weight, layer.arrays["weight"])
    _set(layer, linear.bias, layer.arrays.get("bias", np.zeros(linear.out_features)))


def _runs(
    layers: list[StoredLayer], head: str
) -> tuple[list[StoredLayer], list[list[StoredLayer]]]:
    """Return the layers of kind ``head``, and what follows each of them."""
    heads: list[StoredLayer] = []
    runs: list[list[StoredLayer]] = []
    for layer in layers:
        if layer.kind == head:
            heads.append(layer)
            runs.append([])
        elif runs:
            runs[-1].append(layer)
    return heads, runs


def _stack_arguments(layers: list[StoredLayer]) -> dict[str, Any]:
    """Return arguments of ``TriangularFeedForward`` from the kinds and biases of its layers.

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
        raise UnknownNetwork("its triangular layers are not pairs of lower and upper ones")
    linear = nonlinear[0]
    expected = list(range(linear, len(pairs) - 1, linear + 1))
    if linear == 0 or nonlinear != expected or len(pairs) != nonlinear[-1] + 2:
        raise UnknownNetwork("its triangular layers are not in the order of the published network")
    return {
        "feed_forward": "triangular",
        "blocks": len(nonlinear),
        "linear": linear,
        "upper_first": kinds == {("upper", "lower")},
    }


def _fill_stack(layers: list[StoredLayer], stack: TriangularFeedForward) -> None:
    modules = [module for module in stack if isinstance(module, TriangularLayer)]
    nonlinear = False
    offset = torch.zeros(modules[0].dim, dtype=modules[0].entries.dtype)
    with torch.no_grad():
        for index, (layer, module) in enumerate(zip(layers, modules, strict=True)):
            _set(layer, module.entries, layer.arrays["S"])
            bias = _tensor(layer, layer.arrays.get("bias", np.zeros(module.dim)), offset)
            if index % 2 == 0:
                nonlinear = layer.has_bias
            if not nonlinear:
                # image of zero under the linear layers: one bias after the last layer
                bias = offset = offset + module.matrix() @ offset + bias
            if module.bias is not None:
                module.bias.copy_(bias)
                offset = torch.zeros_like(offset)


def _volume_preserving_feed_forward(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
    arguments = _stack_arguments(layers) | {"dim": int(layers[0].arrays["n"]), "depth": 1}
    model = _build(VolumePreservingFeedForward, layers, **arguments, **options)
    _fill_stack(layers, _of(model, TriangularFeedForward)[0])
    return model


def _volume_preserving_transformer(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
    attentions, runs = _runs(layers, "attention")
    first = attentions[0]
    arguments = [_stack_arguments(run) for run in runs]
    alike = all(stack == arguments[0] for stack in arguments)
    if layers[0] is not first or not alike or len({layer.skew for layer in attentions}) > 1:
        raise UnknownNetwork("its units of attention and triangular layers are not all alike")
    dim = int(first.arrays["n"]) if first.skew else len(first.arrays["A"])
    model = _build(
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
        _set(layer, attention.scores.entries, entries)
    for run, stack in zip(runs, _of(model, TriangularFeedForward), strict=True):
        _fill_stack(run, stack)
    return model


def _standard_transformer(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
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
        raise UnknownNetwork("its units of attention and residual layers are not all alike")
    heads, width, _ = attentions[0].arrays["PQ"].shape
    model = _build(
        StandardTransformer,
        layers,
        dim=layers[0].arrays["weight"].shape[1] if up_and_down else width,
        width=width,
        positions=False,
        depth=len(attentions),
        heads=heads,
        blocks=lengths.pop() - 1,
        stiefel=attentions[0].stiefel,
        attention_scale=width**-0.5,
        **options,
    )
    for layer, linear in zip(up_and_down, [model.core[0], model.core[-1]], strict=False):
        _set_linear(layer, linear)
    for layer, attention in zip(attentions, _of(model, MultiHeadAttention), strict=True):
        # P^T z there is P z here; and the softmax runs over the index of PQ
        query, key = attention.scores.query, attention.scores.key
        for heads, name in ((query, "PK"), (key, "PQ"), (attention.value, "PV")):
            value = layer.arrays[name].transpose(0, 2, 1)
            if layer.stiefel:  # the parametrization takes an orthonormal matrix by assignment
                heads.weight = _tensor(layer, value, heads.weight)
            else:
                _set(layer, heads.weight, value)
    residuals = [layer for run in runs for layer in run]
    for layer, module in zip(residuals, _of(model, ResidualLayer), strict=True):
        _set_linear(layer, module.linear)
    return model


def _residual_network(layers: list[StoredLayer], options: dict[str, Any]) -> Model:
    if len(layers) < 2:
        raise UnknownNetwork("it has a single residual layer")
    dim = len(layers[0].arrays["weight"])
    model = _build(ResidualNetwork, layers, dim=dim, depth=len(layers) - 1, width=None, **options)
    for layer, module in zip(layers, _of(model, ResidualLayer), strict=True):
        _set_linear(layer, module.linear)
    return model


def _of(model: Model, kind: type[Any]) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]
