"""Models of many bodies as a list of shears, each the same function of many clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from vpintegrator.nn.cluster_potential import ClusterPotential, PotentialSum
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.gradient_coupling import GradientCoupling
from vpintegrator.nn.reversible import Reflection, Reversible

if TYPE_CHECKING:
    from vpintegrator.models import Integrator


@dataclass(frozen=True)
class Shear:
    """z[moved] += factor * (grad g)(sign * z[read]), for all clusters.

    Attributes
    ----------
    potential
        What g belongs to: a ``ClusterPotential``, or any other, which is one cluster of all that it
        sees.
    read, moved
        Components of a state, (cluster, component of a cluster).
    sign, factor
        Of the same shape.
    """

    potential: nn.Module
    read: np.ndarray
    sign: np.ndarray
    moved: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class _Permutation:
    """z[i] -> sign[i] z[source[i]]."""

    source: np.ndarray
    sign: np.ndarray

    def after(self, other: _Permutation) -> _Permutation:
        return _Permutation(other.source[self.source], self.sign * other.sign[self.source])


class _NoShears(Exception):
    """A model that is made of something else."""


def shears_of(model: Integrator) -> list[Shear] | None:
    """The shears that a model's core is made of, in order; None if it is made of anything else.

    Reflections, signed permutations of components, are in the tables of the shears between them.
    Only models with clusters are taken apart.
    """
    core = getattr(model, "core", None)
    if not any(type(module) is ClusterPotential for module in model.modules()):
        return None
    if model.window != 1 or model.chart is not None or not isinstance(core, nn.Module):
        return None
    own = {id(parameter) for parameter in core.parameters()}
    if any(id(parameter) not in own for parameter in model.parameters()):
        return None
    components = np.arange(model.dim)
    now = _Permutation(components, np.ones(model.dim))
    shears: list[Shear] = []
    try:
        for step in _steps(core, inverse=False):
            if isinstance(step, Reflection):
                now = _permutation(step, model.dim).after(now)
                continue
            potential, of_momenta, sign = step
            shears += [_shear(p, of_momenta, sign, now) for p in _terms(potential)]
    except _NoShears:
        return None
    potentials = {id(shear.potential): shear.potential for shear in shears}
    if sum(len(list(p.parameters())) for p in potentials.values()) != len(own):
        return None  # some have weights in common
    trivial = np.array_equal(now.source, components) and bool((now.sign == 1).all())
    return shears if trivial and shears else None


def _steps(layer: nn.Module, inverse: bool) -> Iterator[Reflection | tuple[nn.Module, bool, float]]:
    """Reflections, and potentials: whether of momenta, and the factor of the gradient."""
    if type(layer) is Composition:
        for part in reversed(layer) if inverse else layer:
            yield from _steps(part, inverse)
    elif type(layer) is GradientCoupling:
        steps = [(layer.kinetic, True, 1.0), (layer.potential, False, -1.0)]
        for potential, of_momenta, sign in reversed(steps) if inverse else steps:
            yield potential, of_momenta, -sign if inverse else sign
    elif type(layer) is Reversible:
        parts = [(layer.reflection, False), (layer.psi, True)] * 2
        parts[3] = (layer.psi, False)
        if inverse:
            parts = [(part, not turned) for part, turned in reversed(parts)]
        for part, turned in parts:
            yield from _steps(part, turned)
    elif type(layer) is Reflection:
        yield layer
    else:
        raise _NoShears


def _terms(potential: nn.Module) -> list[nn.Module]:
    return list(potential.potentials) if type(potential) is PotentialSum else [potential]


def _permutation(reflection: Reflection, dim: int) -> _Permutation:
    if reflection.signs is not None:
        return _Permutation(np.arange(dim), reflection.signs.double().numpy())
    assert reflection.matrix is not None
    matrix = reflection.matrix.double()
    source = matrix.abs().argmax(1)
    sign = matrix[torch.arange(dim), source]
    if not bool((sign.abs() == 1).all()) or int((matrix != 0).sum()) != dim:
        raise _NoShears
    return _Permutation(source.numpy(), sign.numpy())


def _shear(potential: nn.Module, of_momenta: bool, sign: float, now: _Permutation) -> Shear:
    """A shear of states that are permuted, as one of states as they were."""
    half = len(now.source) // 2
    index, signs, weights = np.arange(half)[None], np.ones((1, half)), np.ones((1, 1))
    if type(potential) is ClusterPotential:
        # a wall that all bodies of a cluster are at moves nothing
        used = (potential.weight != 0) & (potential.sign != 0).any(1)
        d = potential.features.dimension
        bodies = potential.index[used].numpy()
        index = (bodies[..., None] * d + np.arange(d)).reshape(len(bodies), -1)
        signs = potential.sign[used].double().numpy().repeat(d, axis=1)
        weights = potential.weight[used].double().numpy()[:, None]
    read = index + (half if of_momenta else 0)
    moved = index + (0 if of_momenta else half)
    return Shear(
        potential,
        now.source[read],
        signs * now.sign[read],
        now.source[moved],
        sign * weights * signs * now.sign[moved],
    )
