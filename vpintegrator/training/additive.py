"""Coefficients of additive Hamiltonians from pairs of states: a simplified Newton iteration.

The derivatives of one step by the coefficients are those of the trapezoidal rule, which are linear
and sparse: the slopes of a part at both ends of the step. Each iteration solves these equations for
what the splitting method itself leaves of the images. The error falls by the square of the step in
each, and what remains is that of the functions and of the method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from vpintegrator.data.pairs import Pair
from vpintegrator.models import Model
from vpintegrator.nn.additive_flows import AdditiveFlows
from vpintegrator.nn.additive_hamiltonian import (
    AdditiveHamiltonian,
    GradientEquations,
    MagneticMotion,
    PartSum,
)
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.residuals import reciprocal_spread
from vpintegrator.training.training_data import FOLDS, TrainingData


class Halves(NamedTuple):
    """Pairs of states by which coefficients are fitted, and pairs by which these are judged.

    Attributes
    ----------
    fitted, judged
        States before and after a step, windows of one state (pair, 1, dim).
    """

    fitted: Pair
    judged: Pair

    @classmethod
    def of(cls, model: Model, data: TrainingData, most: int = 10_000, seed: int = 0) -> Halves:
        """Return pairs of the training and validation groups; of few data a fifth is judged."""
        if not data.is_few:
            pairs = data.pairs(model).sample(most, torch.Generator().manual_seed(seed))
            return cls(pairs, data.held_out(model))
        before, after, _, folds = data.known_pairs
        left_out = torch.from_numpy((folds >= 0) & (folds % FOLDS == 0))
        halves = [
            Pair(before[half][:, None], after[half][:, None]) for half in (~left_out, left_out)
        ]
        return cls(*halves)


class Trapezoids:
    """Linear equations of the coefficients of a sum of parts, from both ends of a step.

    Parameters
    ----------
    equations
        The equations at one state.
    before, after : (pair, dim)
        States before and after the step.
    weight : (size,)
        Weight of the equation of each of their components.
    tolerance
        Directions whose singular value is smaller, relative to the largest one, stay as they are.
    """

    def __init__(
        self,
        equations: GradientEquations,
        before: torch.Tensor,
        after: torch.Tensor,
        weight: torch.Tensor,
        tolerance: float = 1e-13,
    ) -> None:
        self.sums = equations.sums
        self.weight = weight
        columns = (equations.columns(before) + equations.columns(after)) / 2
        rows = columns * weight[:, None]  # (pair, size, coefficient)
        self.rows = rows.flatten(0, 1)
        matrix = self.rows.mT @ self.rows  # (coefficient, coefficient)
        size = matrix.diagonal().sqrt()
        self.unit = torch.where(size > 0, 1 / size, torch.zeros_like(size))
        values, self.directions = torch.linalg.eigh(self.unit[:, None] * matrix * self.unit)
        kept = values > tolerance * values[-1]
        self.inverse = torch.where(kept, 1 / values, torch.zeros_like(values))

    @property
    def coefficients(self) -> torch.Tensor:
        """Coefficients (coefficient,) of all sums."""
        return torch.cat([part.coefficients.flatten() for part in self.sums])

    @torch.no_grad()
    def set(self, coefficients: torch.Tensor) -> None:
        """Set the coefficients of all sums."""
        coefficients_of_sums = [part.coefficients for part in self.sums]
        parts = coefficients.split([each.numel() for each in coefficients_of_sums])
        for each, values in zip(coefficients_of_sums, parts, strict=True):
            each.copy_(values.view_as(each))

    def change(self, residual: torch.Tensor) -> torch.Tensor:
        """Return the change of the coefficients for rates (pair, size) that are missing."""
        right = self.rows.mT @ (residual * self.weight).flatten()  # (coefficient,)
        return self.unit * (
            self.directions @ (self.inverse * (self.directions.mT @ (self.unit * right)))
        )


@torch.no_grad()
def fit_additive(
    model: Model, pair: Pair, iterations: int = 15, settled: float = 0.8, most: int = 1 << 25
) -> float:
    """Set the coefficients of an additive Hamiltonian, and return its error at the pairs.

    Parameters
    ----------
    model
        Normalised and adapted to its states.
    pair
        States before and after a step, windows of one state.
    iterations
        Largest number of iterations.
    settled
        The iteration ends where the error stays above this part of the one before.
    most
        Largest number of elements of the linear equations; more pairs are left out.
    """
    core = additive_core(model)
    n = core.freedoms
    equations = core.equations
    columns = max(_count(each.sums) for each in equations)
    rows = max(most // (core.dim * columns), 2)
    z = model.coordinates(pair.inputs[:rows, -1].double().cpu())  # (pair, dim)
    image = model.coordinates(pair.targets[:rows, -1].double().cpu())
    before = core.physical(z)
    after = core.physical(image)
    weight = reciprocal_spread(after)
    of_gradient = torch.cat([weight[n:], weight[:n]])  # forces change momenta
    h = core.step[0]
    with one_blas_thread():
        components = [each.components for each in equations]
        sides = [
            Trapezoids(each, before, after, of_gradient[each.components]) for each in equations
        ]
        least = math.inf
        best = [side.coefficients for side in sides]
        for _ in range(iterations):
            check_time()
            residual = (image - core(z)) * core.state_scale / h  # (pair, dim)
            error = float((residual * h * weight).square().mean().sqrt())
            if not error < least:
                break
            last = least
            least = error
            best = [side.coefficients for side in sides]
            if error > settled * last:
                break
            missing = torch.cat([-residual[:, n:], residual[:, :n]], 1)  # of the gradient
            for side, x, coefficients in zip(sides, components, best, strict=True):
                side.set(coefficients + side.change(missing[:, x]))
        for side, coefficients in zip(sides, best, strict=True):
            side.set(coefficients)
    return least


def additive_core(model: Model) -> AdditiveHamiltonian | AdditiveFlows:
    """Return the layer of an additive Hamiltonian."""
    assert isinstance(model.core, AdditiveHamiltonian | AdditiveFlows)
    return model.core


def _count(sums: Any) -> int:
    return sum(part.coefficients.numel() for part in sums)


@torch.no_grad()
def error_of(model: Model, pair: Pair) -> float:
    """Return the root mean square error at pairs, relative to the spread of each component."""
    difference = model(pair.inputs.to(model.scale))[:, -1] - pair.targets[:, -1]
    squares = (difference * reciprocal_spread(pair.targets[:, -1])).square()
    error = float(squares.mean().sqrt())
    return error if math.isfinite(error) else math.inf


@torch.no_grad()
def contributions(model: Model, pair: Pair) -> dict[str, torch.Tensor]:
    """Return the size of the rates that each part gives, by the argument of the parts."""
    core = additive_core(model)
    states = core.physical(model.coordinates(pair.inputs[:, -1].double().cpu()))
    weight = reciprocal_spread(states)
    n = core.freedoms
    of_gradient = torch.cat([weight[n:], weight[:n]])
    result = {
        name: torch.cat([_sizes(part, states[:, x], of_gradient[x]) for part in sums])
        for name, (sums, x) in core.sides.items()
    }
    if isinstance(core, MagneticMotion):  # a part of the field turns the velocities
        fields = [part.slopes(part.values(states[:, :n])) for part in core.turning]
        result["turning"] = torch.cat([each.square().mean(0).sqrt() for each in fields])
    return result


def _sizes(part: PartSum, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the size (part,) of the rates of each part."""
    forms = part.values(x)  # (state, part, form)
    slopes = part.slopes(forms)  # (state, part)
    units = (part.matrix * weight).square().sum(1).sqrt()  # (part * form,)
    units = units.view(len(part.parts), part.forms)
    if part.forms == 1:
        return slopes.square().mean(0).sqrt() * units[:, 0]
    return (slopes.unsqueeze(-1) * forms * units).square().sum(-1).mean(0).sqrt()


class EqualParts(NamedTuple):
    """Parts by their functions.

    Attributes
    ----------
    numbers
        Number of the function of each part.
    signs
        Sign by which the forms of each part are multiplied.
    """

    numbers: list[int]
    signs: list[float]

    @property
    def functions(self) -> int:
        """Number of functions."""
        return len({*self.numbers})

    def turned(self, parts: Sequence[Any]) -> list[Any]:
        """Return parts whose forms have the signs."""
        return [
            [[[i, sign * factor] for i, factor in form] for form in part]
            for part, sign in zip(parts, self.signs, strict=True)
        ]


@torch.no_grad()
def equal_parts(model: Model, pair: Pair, name: str, tolerance: float) -> EqualParts:
    """Return which parts have the same function.

    Slopes are compared at values that both parts have, up to a constant, which other parts may
    give. A function of one value may be that of another part at minus its value.

    Parameters
    ----------
    model
        Fitted.
    pair
        States at which slopes are compared.
    name
        Argument of the parts: ``parts`` or ``kinetic``.
    tolerance
        Difference of slopes that are the same, relative to their variation.
    """
    core = additive_core(model)
    sums, components = core.sides[name]
    x = core.physical(model.coordinates(pair.inputs[:, -1].double().cpu()))[:, components]
    numbers: list[int] = []
    signs: list[float] = []
    for part in sums:
        firsts: list[tuple[int, Any]] = []  # the first part of each function, and sizes of factors
        forms = part.values(x)  # (state, part, form)
        for e, shape in enumerate(part.parts):
            sizes = [sorted(abs(factor) for _, factor in form) for form in shape]
            for number, (first, other_sizes) in enumerate(firsts):
                turns = (1.0, -1.0) if part.forms == 1 else (1.0,)
                near = (s for s in turns if _are_alike(part, forms, first, e, s, tolerance))
                sign = next(near, None) if sizes == other_sizes else None
                if sign is not None:
                    numbers.append(number)
                    signs.append(sign)
                    break
            else:
                numbers.append(len(firsts))
                signs.append(1.0)
                firsts.append((e, sizes))
    return EqualParts(numbers, signs)


def _are_alike(
    part: PartSum, forms: torch.Tensor, first: int, second: int, sign: float, tolerance: float
) -> bool:
    """Whether slopes of two parts agree where both have values, f_second(s) = f_first(sign s)."""
    variables = part.variables(forms)  # (state, part)
    variable = sign * variables[:, second]
    low = torch.maximum(variables[:, first].min(), variable.min())
    high = torch.minimum(variables[:, first].max(), variable.max())
    both = forms[(variable >= low) & (variable <= high), second]  # (state, form)
    if len(both) < len(forms) // 10 + 2:
        return False
    at = both.unsqueeze(1).expand(-1, len(part.parts), -1)  # (state, part, form)
    one = part.slopes(sign * at)[:, first]
    other = sign * part.slopes(at)[:, second]
    if part.forms > 1:
        return bool((one - other).square().mean() <= tolerance**2 * one.square().mean())
    return bool((one - other).std() <= tolerance * one.std())
