"""Shears of a stack of polynomial couplings, and their fit to a vector field."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn

from vpintegrator.models import Integrator
from vpintegrator.models.growth import is_polynomial
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.cluster_potential import PotentialSum
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.gradient_coupling import GradientCoupling, gradient
from vpintegrator.nn.reversible import Reflection, Reversible
from vpintegrator.nn.rotated import Rotated

_LEAST_SINGULAR_VALUE = 1e-11  # relative to the largest: smaller ones only carry rounding
_FITTED = 1e-5  # relative misfit from which on clusters of more bodies are left alone
_LEAST_SIZE = 1e-9  # velocity of a component, relative to the fastest
_NEGLIGIBLE = 1e-9  # length of a column that symmetry leaves nothing but rounding of


@dataclass
class FittedShear:
    """Shear of a stack, whose increment is linear in its parameters.

    Attributes
    ----------
    part
        Number of the part of the vector field to which the shear belongs.
    groups
        Parameters of the shear; groups that are fitted first come first.
    share
        Slice of the parameters that belongs to the shear, if it shares a parameter with others.
    components
        Components that the shear moves, in its coordinates.
    move
        Increment of states (state, dim) as a function, in the shear's coordinates.
    rotation
        Matrix Q (dim, dim) from states to the shear's coordinates; None for the identity.
    """

    part: int
    groups: list[list[nn.Parameter]]
    components: list[int]
    move: partial[torch.Tensor]
    share: slice = field(default_factory=lambda: slice(None))
    rotation: torch.Tensor | None = None

    def set(self, values: torch.Tensor) -> None:
        """Give it parameters, all in one vector."""
        with torch.no_grad():
            for group in self.groups:
                for parameter in group:
                    own = parameter.view(-1)[self.share]
                    own.copy_(values[: len(own)])
                    values = values[len(own) :]

    @torch.no_grad()
    def columns(self, z: torch.Tensor, group: list[nn.Parameter]) -> torch.Tensor:
        """Return the increment of states for each parameter of a group, (state, dim, parameter)."""
        everything = [parameter for some in self.groups for parameter in some]
        own = [parameter.clone() for parameter in everything]
        turned = z if self.rotation is None else z @ self.rotation.mT
        columns = []
        for parameter in everything:
            parameter.zero_()
        for parameter in group:
            flat = parameter.view(-1)
            for n in range(*self.share.indices(len(flat))):
                flat[n] = 1.0
                moved = self.move(turned.to(flat)).double()
                columns.append(moved if self.rotation is None else moved @ self.rotation)
                flat[n] = 0.0
        for parameter, value in zip(everything, own, strict=True):
            parameter.copy_(value)
        return torch.stack(columns, -1) if columns else z.new_zeros(*z.shape, 0)


def shears_of(model: Integrator) -> list[FittedShear]:
    """Return the shears of a model in the order of psi; none if it has other couplings."""
    psi = model.core.psi if isinstance(model.core, Reversible) else model.core
    stack = [layer for layer in psi if _is_coupling(layer)] if isinstance(psi, Composition) else []
    if not all(map(is_polynomial, stack)):
        return []
    found: list[FittedShear] = []
    numbers: dict[tuple[int, int], int] = {}
    rotations: list[torch.Tensor | None] = []
    for layer in stack:
        rotation = layer.rotation.cpu().double() if isinstance(layer, Rotated) else None
        basis = _place(rotation, rotations)
        for number, shear in _shears(layer.layer if isinstance(layer, Rotated) else layer):
            shear.rotation = rotation
            shear.part = numbers.setdefault((basis, number), len(numbers))
            found.append(shear)
    return found


def _is_coupling(layer: nn.Module) -> bool:
    """Whether a layer moves each state by itself, unlike attention, which is at rest."""
    return not getattr(layer, "identity_at_zero", False) or is_polynomial(layer)


def _place(rotation: torch.Tensor | None, known: list[torch.Tensor | None]) -> int:
    """Return the number of a basis, among those that came before."""
    for n, other in enumerate(known):
        if rotation is None or other is None:
            if rotation is other:
                return n
        elif torch.equal(rotation, other):
            return n
    known.append(rotation)
    return len(known) - 1


def _shears(layer: nn.Module) -> list[tuple[int, FittedShear]]:
    """Return the shears of a layer, each with the number of its block."""
    if isinstance(layer, GradientCoupling):
        n = (layer.dim - layer.conserved) // 2
        q, p, k = range(n), range(n, 2 * n), range(2 * n, layer.dim)
        return [
            (0, _of_potential(layer.kinetic, [*q], [*p, *k], 1.0)),
            (1, _of_potential(layer.potential, [*p], [*q, *k], -1.0)),
        ]
    assert isinstance(layer, BasisCoupling)
    own = layer.coefficients
    return [
        (a, FittedShear(0, [[own]], layer.blocks[a], partial(_moved, layer, i), layer.shares[i]))
        for i, a in enumerate(layer.sweep)
    ]


def _moved(layer: BasisCoupling, number: int, z: torch.Tensor) -> torch.Tensor:
    return layer.move(z, number)


def _of_potential(
    potential: nn.Module, moved: list[int], seen: list[int], sign: float
) -> FittedShear:
    parts = potential.potentials if isinstance(potential, PotentialSum) else [potential]
    groups = [list(part.parameters()) for part in parts]
    return FittedShear(0, groups, moved, partial(_kicked, potential, moved, seen, sign))


def _kicked(
    potential: nn.Module, moved: list[int], seen: list[int], sign: float, z: torch.Tensor
) -> torch.Tensor:
    found = torch.zeros_like(z)
    found[..., moved] = sign * gradient(potential, z[..., seen])
    return found


def fit(
    shears: list[FittedShear],
    z: torch.Tensor,
    velocity: torch.Tensor,
    reflection: Reflection | None,
) -> tuple[dict[int, torch.Tensor], float]:
    """Return the parameters of parts that sum to a vector field, and the relative residual.

    Parameters
    ----------
    shears
        The first of each part counts.
    z, velocity
        States and what the field is there, (state, dim).
    reflection
        R of psi R psi^-1 R, by which a shear comes with its image.
    """
    parts = {shear.part: shear for shear in reversed(shears)}
    # each component counts by its own size: of bodies the light ones move as far as the heavy
    sizes = velocity.norm(dim=0)
    sizes = sizes.clamp_min(_LEAST_SIZE * float(sizes.max())) * math.sqrt(velocity.shape[1])
    if all(shear.rotation is None for shear in parts.values()):
        found, squares = {}, 0.0
        for part, shear in parts.items():
            found[part], misfit = _fitted_alone(shear, z, velocity, sizes)
            squares += misfit**2
        return found, math.sqrt(squares)
    columns = {}
    for part, shear in parts.items():
        (group,) = shear.groups
        columns[part] = shear.columns(z, group)
        if reflection is not None:
            image = shear.columns(reflection(z), group).movedim(-1, 0)
            columns[part] = (columns[part] - reflection(image).movedim(0, -1)) / 2
    matrix = torch.cat([(c / sizes[:, None]).flatten(0, 1) for c in columns.values()], 1)
    solution, misfit = _least_squares(matrix, (velocity / sizes).flatten())
    counts = [c.shape[-1] for c in columns.values()]
    return dict(zip(columns, solution.split(counts), strict=True)), misfit


def _fitted_alone(
    shear: FittedShear, z: torch.Tensor, velocity: torch.Tensor, sizes: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """Return the parameters of a shear that alone moves its components, and the misfit.

    Groups come one after the other: later ones are left at zero where those before suffice.
    """
    own = shear.components
    wanted = (velocity[:, own] / sizes[own]).flatten()
    columns: list[torch.Tensor] = []
    size = float(wanted.norm())
    misfit, solution = size, wanted.new_zeros(0)
    for group in shear.groups:
        moved = shear.columns(z, group)[:, own] / sizes[own, None]
        columns.append(moved.flatten(0, 1))
        if misfit > _FITTED * size:
            solution, misfit = _least_squares(torch.cat(columns, 1), wanted)
    missing = sum(c.shape[1] for c in columns) - len(solution)
    return torch.cat([solution, solution.new_zeros(missing)]), misfit


def _least_squares(matrix: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the solution of least norm, in columns of length one, and the residual's length."""
    lengths = matrix.norm(dim=0)
    idle = lengths < _NEGLIGIBLE
    lengths = lengths.masked_fill(idle, math.inf)
    scaled = matrix / lengths
    solution = torch.linalg.lstsq(
        scaled, wanted[:, None], rcond=_LEAST_SINGULAR_VALUE, driver="gelsd"
    ).solution[:, 0]
    return solution / lengths, float((scaled @ solution - wanted).norm())
