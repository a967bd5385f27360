"""The model of another number of bodies, with the same weights."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from vpintegrator.arguments import check_integrator, whole
from vpintegrator.errors import InputError
from vpintegrator.models.base import Integrator
from vpintegrator.nn.clusters import moved_bodies

Model = TypeVar("Model", bound=Integrator)


def with_bodies(model: Model, bodies: int) -> Model:
    """Return a model for another number of bodies with the weights of a trained model.

    Parameters
    ----------
    model
        Model of like bodies, whose argument ``bodies`` is their number.
    bodies
        The number wanted.

    Returns
    -------
    Integrator
        A new model; its metadata, what the training data were, are those of the first.

    Raises
    ------
    InputError
        If the model knows no bodies, has bodies of several species, or respects symmetries that say
        nothing about another number of them.

    Examples
    --------
    >>> ring = {"topology": "ring", "translations": True}
    >>> model = vp.models.SymplecticFeedForward(dim=16, bodies=8, **ring)
    >>> larger = vp.models.with_bodies(model, 64)
    >>> larger.dim, larger(torch.rand(1, 128, dtype=torch.float64)).shape
    (128, torch.Size([1, 128]))
    """
    check_integrator(model)
    had = model.bodies
    if not had:
        raise InputError(
            f"the weights of this {model.name} are of a state as a whole; train it with bodies "
            "(permutations declared in the system file) to change their number"
        )
    if whole("bodies", bodies) == had:
        return model
    arguments = model.arguments
    if not arguments.get("topology") or len(set(arguments.get("species", ()))) > 1:
        raise InputError(
            "the bodies of this model are not all alike; their number cannot be changed"
        )
    sizes: dict[str, Any] = {"dim": model.dim // had * bodies, "bodies": bodies}
    if arguments.get("species"):
        sizes["species"] = [arguments["species"][0]] * bodies
    rhos = [_resized(rho, had, bodies) for rho in model.reversing_symmetries]
    given = {"reversing_symmetries": rhos} if rhos else {}
    with torch.random.fork_rng(devices=[]):
        other = type(model)(**(arguments | sizes | given), dtype=model.scale.dtype)
    tensors = model.state_dict()
    for name in ("shift", "scale"):
        halves = tensors[name].chunk(2)
        tensors[name] = torch.cat([half[:1].expand(other.dim // 2) for half in halves])
    for name, own in other.state_dict().items():
        if name.endswith(".linear"):  # linear part of generating functions; the identity for bodies
            tensors[name] = own
    other.load_state_dict(tensors)
    other.metadata, other.choices = dict(model.metadata), model.choices
    return other.to(model.scale.device)


def _resized(rho: torch.Tensor, had: int, bodies: int) -> list[list[float]]:
    """Return the reversing symmetry of another number of bodies that acts as rho does."""
    half = len(rho) // 2
    parts = []
    for block in (rho[:half, :half], rho[half:, half:]):
        ((places, Q),) = moved_bodies(block.unsqueeze(0), had)
        turned = {tuple(range(had)): False, tuple(range(had))[::-1]: True}.get(tuple(places))
        if turned is None:
            raise InputError(
                "a reversing symmetry of the model exchanges bodies in a way that says nothing "
                "about another number of them; train without it"
            )
        eye = torch.eye(bodies, dtype=rho.dtype)
        parts.append(torch.kron(eye.flip(0) if turned else eye, Q.to(rho.dtype)))
    return torch.block_diag(*parts).tolist()
