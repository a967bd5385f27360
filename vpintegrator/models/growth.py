"""Larger models that begin as exactly the map of a smaller one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.family import UNITS
from vpintegrator.models.model import Model, check_model
from vpintegrator.nn.composition import Composition, having, psi_of
from vpintegrator.nn.shears import is_prolongable

AnyModel = TypeVar("AnyModel", bound=Model)
Part = TypeVar("Part", bound=nn.Module)


def prolong(model: AnyModel, *, depth: int | None = None, degree: int | None = None) -> AnyModel:
    """Return a larger model that is the same map, for training to go on with more freedom.

    New layers come last and begin as the identity; new terms of polynomials begin as zero.

    Parameters
    ----------
    model
        A stack of layers: ``vpff``, ``vpt`` or another with an argument ``depth``.
    depth, degree
        At least those of the model, which is the default.

    Raises
    ------
    InputError
        If the model has no such argument or is larger already, or if its layers cannot begin as
        the identity (triangular ones).

    Examples
    --------
    >>> import torch, vpintegrator as vp
    >>> small = {"dim": 3, "depth": 1, "functions": "polynomial", "degree": 2}
    >>> model = vp.models.VolumePreservingFeedForward(**small)
    >>> larger = vp.prolong(model, depth=2, degree=4)
    >>> window = torch.randn(1, 3, dtype=torch.float64)
    >>> bool(torch.allclose(model(window), larger(window), rtol=0, atol=1e-14))
    True
    """
    check_model(model)
    sizes = {n: size for n, size in {"depth": depth, "degree": degree}.items() if size is not None}
    for name, size in sizes.items():
        neurons = name == "degree" and model.arguments.get("functions") == "neurons"
        if name not in model.arguments or neurons:
            raise InputError(f"the model {model.name} has no {name} to prolong")
        if size < model.arguments[name]:
            raise InputError(f"{name} = {size} is less than {model.arguments[name]} of the model")
    triangular = model.arguments.get("feed_forward") == "triangular"
    if triangular or "initial_scale" not in model.arguments:
        raise InputError(f"layers of {model.name} as built here cannot begin as the identity")
    arguments = {**model.arguments, **sizes, "initial_scale": 0.0}
    with torch.random.fork_rng(devices=[]):
        larger = type(model)(**arguments, dtype=model.scale.dtype)
    larger.arguments["initial_scale"] = model.arguments["initial_scale"]
    larger.set_coordinates(**model.coordinates.arguments)
    larger.family = model.family
    for name in (*UNITS, "time_step"):
        if name in model._buffers:
            larger.get_buffer(name).copy_(model.get_buffer(name))
    larger.set_normalisation(model.shift, model.scale, model.coordinates.state_scale)
    like = next(having(model.core, "adapt"), None)
    for layer in having(larger.core, "adapt"):
        layer.adapt_like(like)  # type: ignore[operator]
    larger.origin = model.origin
    larger.record = model.record
    larger.choices = list(model.choices)
    larger.to(model.scale.device)
    layers(larger).prolong(layers(model))  # layers that are left over stay the identity
    return larger


def refine(model: AnyModel, depth: int) -> AnyModel:
    """Return a deeper model of nearly the same map: its layers as a function of time, resampled.

    If a map is the flow over some time, its n layers are steps of one n-th of the time, and m > n
    layers are steps of one m-th. Coefficients of polynomials are averaged over the new steps; other
    layers are as in ``prolong``. Least squares then converge faster than from an equal map with new
    layers at the identity, whose coefficients duplicate those of their neighbours.

    Parameters
    ----------
    model
        Model, as in ``prolong``.
    depth
        New depth, at least that of the model.

    Raises
    ------
    InputError
        As ``prolong``.

    Examples
    --------
    >>> import torch, vpintegrator as vp
    >>> small = {"dim": 2, "depth": 1, "functions": "polynomial", "degree": 1}
    >>> model = vp.models.VolumePreservingFeedForward(**small)
    >>> from vpintegrator.models.growth import layers, refine
    >>> once, (first, second) = layers(model)[0], layers(refine(model, 2))
    >>> bool(torch.equal(first.coefficients + second.coefficients, once.coefficients))
    True
    """
    deeper = prolong(model, depth=depth)
    unit = len(layers(model)) // model.arguments["depth"]
    for place in range(unit):
        new = list(layers(deeper))[place::unit]
        old = list(layers(model))[place::unit]
        if not is_prolongable(old[0]):
            continue
        weights = _shares(len(old), len(new)).to(model.scale)
        weights_of_old = [list(layer.parameters()) for layer in old]
        for layer, share in zip(new, weights, strict=True):
            for parameter, *others in zip(layer.parameters(), *weights_of_old, strict=True):
                parameter.data.copy_(torch.stack(others, -1).detach() @ share)
    return deeper


def _shares(old: int, new: int) -> torch.Tensor:
    """Return the fraction (new, old) of each old interval of time in each new interval."""
    ends = torch.arange(new + 1, dtype=torch.float64) * old / new
    begins = torch.arange(old, dtype=torch.float64)
    upper = torch.minimum(ends[1:, None], begins + 1)
    return (upper - torch.maximum(ends[:-1, None], begins)).clamp(min=0)


def attention(model: Model) -> Iterator[nn.Module]:
    """Yield the layers of a stack that mix the states of a window and can be the identity."""
    for layer in layers(model):
        if getattr(layer, "identity_at_zero", False) and not is_prolongable(layer):
            yield layer


def layers(model: Model) -> Composition:
    """Return the layers of a model that is a stack.

    Raises
    ------
    InputError
        If the model is not a stack of layers.
    """
    psi = psi_of(model.core)
    if not isinstance(psi, Composition):
        raise InputError(f"the model {model.name} is no stack of layers, so it cannot be prolonged")
    return psi


def with_parts(module: Part, **parts: nn.Module) -> Part:
    """Return the module with other parts; everything else is shared.

    Parameters
    ----------
    module
        Module, which is not changed.
    parts
        Modules by the names of those whose places they take.

    Examples
    --------
    >>> from vpintegrator.models.growth import with_parts
    >>> pair = torch.nn.ModuleDict({"a": torch.nn.Identity(), "b": torch.nn.Tanh()})
    >>> with_parts(pair, a=torch.nn.ReLU())["a"], pair["a"]
    (ReLU(), Identity())
    """
    other = copy.copy(module)
    other._modules = {**module._modules, **parts}
    return other
