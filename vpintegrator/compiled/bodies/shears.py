"""Models of many bodies as a list of shears, each one function of many clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from vpintegrator.nn import (
    ClusterPotential,
    Composition,
    GradientCoupling,
    PotentialSum,
    Reflection,
    Reversible,
)

if TYPE_CHECKING:
    from vpintegrator.models import Integrator


@dataclass(frozen=True)
class Shear:
    """z[moved] += factor * (grad g)(sign * z[read]), for all clusters.

    Attributes
    ----------
    potential
        Owner of g: a ``ClusterPotential``, or another potential, as one cluster of all components
        that it reads.
    read, moved
        Components of a state, (cluster, component of a cluster).
    sign, factor
        Signs and factors, of the shapes of these.
    """

    potential: nn.Module
    read: np.ndarray
    sign: np.ndarray
    moved: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class Permutation:
    """z[i] -> sign[i] z[source[i]]."""

    source: np.ndarray
    sign: np.ndarray

    def after(self, other: Permutation) -> Permutation:
        """Return the composition with another permutation, which is applied first."""
        return Permutation(other.source[self.source], self.sign * other.sign[self.source])

    @property
    def trivial(self) -> bool:
        """Whether it is the identity."""
        in_place = np.array_equal(self.source, np.arange(len(self.source)))
        return in_place and bool((self.sign == 1).all())


class NoShears(Exception):
    """A model that is made of something else."""


def shears_of(model: Integrator) -> list[Shear] | None:
    """Return the shears of a model's core in order, or None if it has other layers.

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
    now = Permutation(components, np.ones(model.dim))
    shears: list[Shear] = []
    try:
        for step in _steps(core, inverse=False):
            if isinstance(step, Reflection):
                now = permutation(step, model.dim).after(now)
                continue
            potential, of_momenta, sign = step
            shears += [_shear(p, of_momenta, sign, now) for p in _terms(potential)]
    except NoShears:
        return None
    potentials = {id(shear.potential): shear.potential for shear in shears}
    if sum(len(list(p.parameters())) for p in potentials.values()) != len(own):
        return None  # some have weights in common
    return shears if now.trivial and shears else None


def parts_of(layer: nn.Module, inverse: bool) -> list[tuple[nn.Module, bool]] | None:
    """Return the parts of a composition, with their direction; None for other layers."""
    if type(layer) is Composition:
        return [(part, inverse) for part in (reversed(layer) if inverse else layer)]
    if type(layer) is Reversible:
        parts = [(layer.reflection, False), (layer.psi, True)] * 2
        parts[3] = (layer.psi, False)
        return [(part, not turned) for part, turned in reversed(parts)] if inverse else parts
    return None


def _steps(layer: nn.Module, inverse: bool) -> Iterator[Reflection | tuple[nn.Module, bool, float]]:
    """Yield reflections, and potentials: whether of momenta, and the factor of the gradient."""
    if (parts := parts_of(layer, inverse)) is not None:
        for part, turned in parts:
            yield from _steps(part, turned)
    elif type(layer) is GradientCoupling:
        steps = [(layer.kinetic, True, 1.0), (layer.potential, False, -1.0)]
        for potential, of_momenta, sign in reversed(steps) if inverse else steps:
            yield potential, of_momenta, -sign if inverse else sign
    elif type(layer) is Reflection:
        yield layer
    else:
        raise NoShears


def _terms(potential: nn.Module) -> list[nn.Module]:
    return list(potential.potentials) if type(potential) is PotentialSum else [potential]


def permutation(reflection: Reflection, dim: int) -> Permutation:
    """Return a reflection as a signed permutation of the components of a state.

    Raises
    ------
    NoShears
        If the reflection is not a signed permutation of components.
    """
    if reflection.signs is not None:
        return Permutation(np.arange(dim), reflection.signs.double().numpy())
    assert reflection.matrix is not None
    matrix = reflection.matrix.double()
    source = matrix.abs().argmax(1)
    sign = matrix[torch.arange(dim), source]
    if not bool((sign.abs() == 1).all()) or int((matrix != 0).sum()) != dim:
        raise NoShears
    return Permutation(source.numpy(), sign.numpy())


def _shear(potential: nn.Module, of_momenta: bool, sign: float, now: Permutation) -> Shear:
    """Return a shear of states that are permuted, as one of states as they were."""
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
