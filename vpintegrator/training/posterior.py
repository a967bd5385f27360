r"""Gaussian posterior of the coefficients of a map, from noisy states.

Near the fitted coefficients the images of states are linear in them. With noise of variance
:math:`s_i^2` in component i, and a normal prior of precision :math:`\alpha\, \deg_k^4` for each
coefficient, the posterior is normal:

.. math:: C^{-1} = \sum_i A_i^T A_i / s_i^2 + \alpha W^2, \qquad W = \operatorname{diag}(\deg_k^2)

The evidence (MacKay, Neural Computation 4 (1992) 415-447) gives :math:`\alpha`; squares of the
residuals over their degrees of freedom, :math:`n_i - \operatorname{tr}(C A_i^T A_i) / s_i^2`, give
:math:`s_i^2`. Over orbits, :math:`A_i` is the part of the derivatives that unknown first states
cannot make up for, and the coefficients are those of the greatest posterior density.

Coefficients keep their mean in directions that leave all images as they are: maps in a row have
more parameters than there are maps. See also ``_shortened``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap

from vpintegrator.models import Integrator
from vpintegrator.models.posterior import Posterior, named_draws
from vpintegrator.nn.implicit import ImplicitMap
from vpintegrator.nn.linearised import ShearDerivatives, linearised
from vpintegrator.nn.reversible import psi_of
from vpintegrator.runtime.deadline import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.few_data import known_pairs
from vpintegrator.training.few_pairs import degrees, fits_few_pairs
from vpintegrator.training.linear import (
    enough_pairs,
    implicit_map,
    normalised_pairs,
    roughness,
)
from vpintegrator.training.residuals import ParameterVector
from vpintegrator.training.training_data import TrainingData

MOST = 1_500  # coefficients, of which the factor takes 18 MB
_BYTES = 1 << 26  # bytes of derivatives that are computed at once
_ROUNDING = 1e-12  # relative size of eigenvalues that rounding leaves of zero
_PRECISIONS = 10.0 ** np.arange(-18, 2, 0.25)  # of the prior, relative to the largest eigenvalue
_EXACT = 1e-9  # relative noise below which states have none
_ITERATIONS, _SETTLED = 8, 1e-3  # of the noise
_CORRECTIONS = 4  # of the length of a standard deviation
_CONTRADICTED = 2.0  # times the squares of the fit; noisy pairs give 1.02 at most
_FEWEST = 0.2  # degrees of freedom that are left of a component, relative to the equations


@dataclass
class NormalEquations:
    """Sums over the equations of each component, in units of a noise.

    Attributes
    ----------
    products : (component, coefficient, coefficient)
        Of the derivatives by the coefficients.
    gradients : (component, coefficient)
        Of these derivatives and the residuals, observations less images.
    squares, rows, taken : (component,)
        Squares of the residuals, numbers of equations, and degrees of freedom of first states.
    """

    products: np.ndarray
    gradients: np.ndarray
    squares: np.ndarray
    rows: np.ndarray
    taken: np.ndarray

    @classmethod
    def zero(cls, components: int, coefficients: int) -> NormalEquations:
        """Return sums over nothing."""
        return cls(
            np.zeros((components, coefficients, coefficients)),
            np.zeros((components, coefficients)),
            *np.zeros((3, components)),
        )

    def add(self, matrix: torch.Tensor, residual: torch.Tensor) -> None:
        """Take equations (state, component, coefficient), and residuals (state, component)."""
        for k in range(matrix.shape[1]):
            A, r = matrix[:, k], residual[:, k]
            self.products[k] += (A.mT @ A).numpy()
            self.gradients[k] += (A.mT @ r).numpy()
        self.squares += residual.square().sum(0).numpy()
        self.rows += len(residual)

    def squares_after(self, change: np.ndarray) -> np.ndarray:
        """Return squares of the residuals (component,) after a change of the coefficients."""
        return self.squares - 2 * self.gradients @ change + self.products @ change @ change

    def in_units(self, noise: np.ndarray) -> NormalEquations:
        """Return the sums in units of a noise (component,)."""
        weight = noise**-2.0
        return NormalEquations(
            self.products * weight[:, None, None],
            self.gradients * weight[:, None],
            self.squares * weight,
            self.rows,
            self.taken,
        )


@dataclass(frozen=True)
class Estimate:
    """Normal distribution of coefficients, and the noise.

    Attributes
    ----------
    mean : (coefficient,)
    factor : (coefficient, rank)
        Its product with its transpose is the covariance, zero where the equations say nothing.
    noise, freedom : (component,)
        Standard deviation of the noise, and degrees of freedom that it is estimated with.
    precision
        Precision of the prior, relative to the squares of its weights.
    """

    mean: np.ndarray
    factor: np.ndarray
    noise: np.ndarray
    freedom: np.ndarray
    precision: float


def estimate(sums: NormalEquations, values: np.ndarray, weights: np.ndarray) -> Estimate | None:
    """Return the posterior near coefficients, None if the equations do not determine the noise.

    Parameters
    ----------
    sums
        The equations.
    values : (coefficient,)
        Fitted coefficients.
    weights : (coefficient,)
        Square roots of the precisions in the prior, up to a common factor.
    """
    noise = np.ones(len(sums.rows))
    found = None
    for _ in range(_ITERATIONS):
        found = _normal(sums.in_units(noise), values, weights)
        if found is None:
            return None
        ratio, noise = found.noise, noise * found.noise
        if np.abs(ratio - 1).max() < _SETTLED:
            break
    return found and replace(found, noise=noise)


def _normal(sums: NormalEquations, values: np.ndarray, weights: np.ndarray) -> Estimate | None:
    """Return the posterior for a known noise, and the noise relative to that of the sums."""
    N = sums.products.sum(0) / np.outer(weights, weights)
    if not np.isfinite(N).all():
        return None
    sizes, V = np.linalg.eigh(N)
    known = sizes > _ROUNDING * sizes[-1]
    if not known.any():
        return None
    sizes = np.where(known, sizes, 0.0)
    linear = V.T @ (N @ (weights * values) + sums.gradients.sum(0) / weights)
    linear = np.where(known, linear, 0.0)
    precision = _prior_precision(sizes, linear)
    damped = sizes + precision
    factor = (V / np.sqrt(damped) / weights[:, None])[:, known]
    mean = V @ (linear / damped) / weights
    change = mean - values
    squares = sums.squares_after(change)
    used = (factor * (sums.products @ factor)).sum((1, 2))
    freedom = sums.rows - sums.taken - used
    if (freedom < _FEWEST * (sums.rows - sums.taken)).any() or not (squares > 0).all():
        return None
    return Estimate(mean, factor, np.sqrt(squares / freedom), freedom, precision)


def _prior_precision(sizes: np.ndarray, linear: np.ndarray) -> float:
    """Return the precision of the prior that maximises the evidence."""
    precisions = sizes[-1] * _PRECISIONS[:, None]
    damped = sizes + precisions
    evidence = (np.log(precisions) - np.log(damped) + linear**2 / damped).sum(1)
    return float(precisions[evidence.argmax(), 0])


def set_posterior(model: Integrator, data: TrainingData) -> None:
    """Give a generating function that was fitted to noisy pairs its posterior, others none."""
    model.posterior = None
    if is_estimated(model, data):
        if data.is_few:
            before, after, _ = known_pairs(data)
        else:
            sample = data.pairs(model).sample(enough_pairs(model), torch.Generator().manual_seed(0))
            before, after = (states[:, -1] for states in sample)
        model.posterior = posterior_of_pairs(model, before, after)


def is_estimated(model: Integrator, data: TrainingData) -> bool:
    """Whether a model is a generating function of few coefficients, and its states are observed."""
    layer = psi_of(model.core)
    if not isinstance(layer, ImplicitMap) or not data.dataset.is_observed:
        return False
    on_cpu = model.scale.device.type == "cpu"
    few = sum(c.numel() for c in layer.coefficients()) <= MOST
    return few and on_cpu and model.scale.dtype == torch.float64


def posterior_of_pairs(
    model: Integrator, inputs: torch.Tensor, targets: torch.Tensor
) -> Posterior | None:
    """Return the posterior of a map fitted to pairs with noise on the images.

    None where the pairs do not determine the noise, the noise is one of rounding, or the degree
    errs more than the noise.

    Parameters
    ----------
    model
        A generating function or an explicit map of shears, fitted to the pairs.
    inputs, targets : (pair, dim)
        States before and after the whole map.
    """
    explicit = fits_few_pairs(model)
    layer = None if explicit else implicit_map(model)
    shears = ShearDerivatives(model.core) if explicit else None
    values = ParameterVector(model).read().double()
    count = len(values)
    before, after = normalised_pairs(model, inputs, targets)
    size = after.shape[1] - int(getattr(layer, "conserved", 0))
    sums = NormalEquations.zero(size, count)
    states = np.zeros(model.dim)  # squares of residuals in units of the states
    block = max(_BYTES // (8 * count * size), 1)
    for z, image in zip(before.split(block), after.split(block), strict=True):
        check_time()
        found, D = shears.linearised(z) if shears else linearised(model.core, z)
        sums.add(D[:, :size, :count], (image - found)[:, :size])
        difference = model.denormalised(image) - model.denormalised(found)
        states += difference.square().sum(0).detach().numpy()
    weights = degrees(model).numpy() ** 2.0 if layer is None else roughness(layer)
    with one_blas_thread():
        estimated = estimate(sums, values.numpy(), weights)
    if estimated is None or estimated.noise.max() < _EXACT:
        return None
    # else the prior contradicts the fit, which errs by its degree and not by noise
    if (sums.squares_after(estimated.mean - values.numpy()) > _CONTRADICTED * sums.squares).any():
        return None
    if explicit:
        prior = torch.from_numpy(estimated.precision * weights**2)
        estimated = _shortened(estimated, model, values, prior, (before, after))
    units = np.sqrt(states[:size] / sums.squares)
    return _posterior(model, values, estimated, units, "images")


@torch.no_grad()
def _shortened(
    found: Estimate,
    model: Integrator,
    values: torch.Tensor,
    prior: torch.Tensor,
    pairs: tuple[torch.Tensor, torch.Tensor],
) -> Estimate:
    r"""Return the posterior with shorter deviations where the density falls faster than it says.

    Maps in a row have nearly equal maps on curved surfaces in the space of coefficients, which
    straight lines leave. At t standard deviations twice the negative logarithm of the density has
    risen by :math:`t^2 + b t^4`; the new deviation is the t at which this is 1.
    """
    before, after = pairs
    noise = torch.from_numpy(found.noise)
    factor = torch.from_numpy(found.factor)

    images = vmap(lambda values: functional_call(model.core, values, (before[:, None],)))
    block = max(_BYTES // (8 * before.numel() * len(values)), 1)

    def costs(thetas: torch.Tensor) -> torch.Tensor:
        residual = (after - images(named_draws(model.core, thetas))[:, :, 0]) / noise
        return residual.square().sum((1, 2)) + (prior * thetas.square()).sum(1)

    def split(thetas: torch.Tensor) -> torch.Tensor:
        return torch.cat([costs(some) for some in thetas.split(block)])

    least, t = costs(values[None]), torch.ones(factor.shape[1], dtype=torch.float64)
    for _ in range(_CORRECTIONS):
        check_time()
        steps = (t * factor).mT
        rise = (split(values + steps) + split(values - steps)) / 2 - least
        b = ((rise - t**2) / t**4).clamp(min=0)
        shorter = (2 / (1 + (1 + 4 * b).sqrt())).sqrt()
        t = torch.where(rise.isfinite(), shorter, t / 2)  # else beyond the domain of the map
    return replace(found, factor=(factor * t).numpy())


def regularise(model: Integrator, segments: Any, values: torch.Tensor) -> Estimate | None:
    """Return the posterior near coefficients, and give segments of orbits its noise and prior.

    None where the orbits do not determine the noise, or the noise is one of rounding: the segments
    stay as they are.

    Parameters
    ----------
    model
        A generating function.
    segments
        Segments of orbits, with derivatives of their residuals.
    values : (coefficient,)
        Coefficients.
    """
    weights = roughness(implicit_map(model))
    with one_blas_thread():
        found = estimate(_sums_over_orbits(segments, values), values.numpy(), weights)
    if found is None:
        return None
    found = replace(found, noise=found.noise * segments.noise.numpy())
    if found.noise.max() < _EXACT:
        return None
    segments.noise = torch.from_numpy(found.noise)
    segments.prior = torch.from_numpy(found.precision * weights**2)
    return found


def posterior_of_orbits(model: Integrator, segments: Any, values: torch.Tensor) -> Posterior | None:
    """Return the posterior of a generating function fitted to orbits with noise on all states.

    Arguments are those of ``regularise``, with coefficients of the greatest posterior density. None
    where ``regularise`` gives none.
    """
    found = regularise(model, segments, values)
    if found is None:
        return None
    return _posterior(model, values, found, segments.unit.numpy(), "states")


def _sums_over_orbits(segments: Any, values: torch.Tensor) -> NormalEquations:
    """Return sums of what the unknown first states cannot make up for."""
    n = segments.moving
    sums = NormalEquations.zero(n, len(values))
    for part in segments.parts():
        first, seen = segments.first[part], segments.seen[part]
        r = segments.residuals(values, first, seen)
        by_values, by_first = segments.derivatives(values, first, seen, r)
        Q = torch.linalg.qr(by_first).Q
        by_values = by_values - Q @ (Q.mT @ by_values)
        r = r - (Q @ (Q.mT @ r.unsqueeze(-1))).squeeze(-1)
        sums.add(
            by_values.unflatten(1, (-1, n)).flatten(0, 1), -r.unflatten(1, (-1, n)).flatten(0, 1)
        )
        sums.taken += Q.square().sum(-1).unflatten(1, (-1, n)).sum((0, 1)).numpy()
    return sums


def _posterior(
    model: Integrator, values: torch.Tensor, found: Estimate, units: np.ndarray, errors: str
) -> Posterior:
    noise, freedom = np.zeros((2, model.dim))
    noise[: len(units)], freedom[: len(units)] = found.noise * units, found.freedom
    factor = torch.from_numpy(found.factor)
    return Posterior(values, factor, torch.from_numpy(noise), torch.from_numpy(freedom), errors)
