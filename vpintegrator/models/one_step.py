"""The one-step map of a model of windows whose attention is the identity."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

from vpintegrator.models.base import Integrator
from vpintegrator.models.growth import attention, layers
from vpintegrator.nn import Composition, Reversible

Model = TypeVar("Model", bound=Integrator)
Part = TypeVar("Part", bound=nn.Module)


def one_step(model: Model, fixed: bool = False) -> Model | None:
    """Return the map of single states that a model of windows is if its attention is the identity.

    The model then maps a window z_1, ..., z_w to phi(z_1), ..., phi(z_w). Windows of the form z,
    phi(z), phi(phi(z)), ... stay of that form, so rollouts cannot drift off it. Training and
    rollouts of the model equal training and rollouts of phi.

    Parameters
    ----------
    model
        A model of windows. Its ``attention_mixes_alone`` tells that only attention mixes states.
    fixed
        Whether attention must also be excluded from training.

    Returns
    -------
    Integrator or None
        phi, a model of windows of one state with the layers, normalisation and metadata of the
        model themselves. None if attention is not the identity, or if the model predicts several
        states at once.

    Examples
    --------
    >>> from vpintegrator.models.growth import freeze_attention
    >>> from vpintegrator.models.one_step import one_step
    >>> model = vp.models.VolumePreservingTransformer(dim=3, window=3)
    >>> one_step(model) is None
    True
    >>> freeze_attention(model)
    >>> window = torch.rand(3, 3, dtype=torch.float64)
    >>> bool(torch.equal(one_step(model)(window[-1:]), model(window)[-1:]))
    True
    """
    alone = None if model.prediction_window != 1 else without_attention(model, fixed)
    if alone is not None:
        alone.window = 1
    return alone


def without_attention(model: Model, fixed: bool = False) -> Model | None:
    """Return the same map of windows without its attention layers, if these are the identity.

    Parameters
    ----------
    model, fixed
        Arguments of :func:`one_step`.

    Returns
    -------
    Integrator or None
        None if attention is not the identity, or if the model reads single states.
    """
    if not model.attention_mixes_alone or model.window == 1:
        return None
    frozen = {id(layer) for layer in attention(model)}
    for layer in attention(model):
        if any(p.any() or (fixed and p.requires_grad) for p in layer.parameters()):
            return None
    moving = Composition(*(layer for layer in layers(model) if id(layer) not in frozen))
    core: nn.Module = moving
    if isinstance(model.core, Reversible):
        core = with_parts(model.core, psi=moving)
    return with_parts(model, core=core)


def simplified(model: Model, fixed: bool = False) -> Model:
    """Return the cheapest equal model: :func:`one_step`, :func:`without_attention` or itself.

    The model itself where it is neither.
    """
    return one_step(model, fixed) or without_attention(model, fixed) or model


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
    >>> from vpintegrator.models.one_step import with_parts
    >>> pair = torch.nn.ModuleDict({"a": torch.nn.Identity(), "b": torch.nn.Tanh()})
    >>> with_parts(pair, a=torch.nn.ReLU())["a"], pair["a"]
    (ReLU(), Identity())
    """
    other = copy.copy(module)
    other._modules = {**module._modules, **parts}
    return other
