"""Gaussian-process regression of a generating function on observations of its gradient."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.optimize import minimize

from vpintegrator.baselines.base import GeneratingBaseline

_ROWS = 1_500  # observed numbers of the regression: seconds
_SEARCHED = 300  # observed numbers by which lengths and noise are chosen
_ITERATIONS = 60  # of the search for these
# least standard deviation of the noise, relative to the gradient: the pendulum errs by 9e-9, with
# 1e-6 by 2e-8; with 1e-8 rounding keeps Newton's method from converging
_LEAST = 1e-7


class GaussianProcess(GeneratingBaseline):
    r"""Gaussian-process prior on a generating function S, given its gradient at midpoints of pairs.

    The covariance of the gradients is :math:`\partial_a \partial'_b k`, with a squared-exponential
    kernel k of one length for each component; of angles it is periodic. Lengths, amplitude and
    noise maximise the marginal likelihood of some of the pairs. S is of the midpoint; the reference
    takes S(q, P), with the same linear algebra.

    References
    ----------
    Rath, Albert, Bischl, von Toussaint, Symplectic Gaussian process regression of maps in
    Hamiltonian systems, Chaos 31 (2021) 053121.
    """

    name = "Gaussian process"

    def gradient(
        self,
        middle: torch.Tensor,
        slopes: torch.Tensor,
        periods: Mapping[int, float],
        end: float,
        seed: int,
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the posterior mean of the gradient."""
        dim = middle.shape[1]
        order = torch.randperm(len(middle), generator=torch.Generator().manual_seed(seed))
        few, some = (order[: max(rows // dim, 1)] for rows in (_SEARCHED, _ROWS))
        units = torch.zeros(dim, dtype=torch.float64)
        for k, period in periods.items():
            units[k] = 2 * math.pi / period
        theta = _likeliest(middle[few], slopes[few], units, end)
        points = middle[some]
        K = _covariance(points, points, theta[:-1].exp(), units).flatten(2).flatten(0, 1)
        K.diagonal().add_((2 * theta[-1]).exp())
        weights = torch.linalg.solve(K, slopes[some].flatten()).view(-1, dim)

        def slope(x: torch.Tensor) -> torch.Tensor:
            first, second, k = _kernel(x, points, theta[:-1].exp(), units)
            along = (first * weights).sum(-1, keepdim=True)
            return -((first * along + second * weights) * k.unsqueeze(-1)).sum(1)

        return slope


def _kernel(
    x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor, units: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return derivatives (state, state, dim) of log k by x, first and second, and k itself."""
    r, squares = x[:, None] - y, lengths**2
    is_angle, safe = units > 0, torch.where(units > 0, units, 1.0)
    turned = safe * r
    log = torch.where(is_angle, (turned.cos() - 1) / safe**2, -(r**2) / 2) / squares
    first = torch.where(is_angle, -turned.sin() / safe, -r) / squares
    second = torch.where(is_angle, -turned.cos(), -torch.ones_like(r)) / squares
    return first, second, log.sum(-1).exp() * squares.min()  # the steepest gradient: variance one


def _covariance(
    x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor, units: torch.Tensor
) -> torch.Tensor:
    """Return the covariance (state, dim, state, dim) of gradients at x and y, of unit variance."""
    first, second, k = _kernel(x, y, lengths, units)
    block = -(first[..., :, None] * first[..., None, :] + torch.diag_embed(second))
    return (block * k[..., None, None]).movedim(1, 2)


def _likeliest(
    points: torch.Tensor, slopes: torch.Tensor, units: torch.Tensor, end: float
) -> torch.Tensor:
    """Return logarithms of the lengths and of the noise that maximise the marginal likelihood.

    The best amplitude for these is known in closed form.
    """
    y = slopes.flatten()

    def cost(values: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(values, requires_grad=True)
        K = _covariance(points, points, theta[:-1].exp(), units).flatten(2).flatten(0, 1)
        K = K + (2 * theta[-1]).exp() * torch.eye(len(y), dtype=y.dtype)
        factor, failed = torch.linalg.cholesky_ex(K)
        if int(failed):
            return 1e10, np.zeros(len(values))
        fit = torch.linalg.solve_triangular(factor, y[:, None], upper=False).square().sum()
        found = len(y) / 2 * (fit / len(y)).log() + factor.diagonal().log().sum()
        found.backward()
        assert theta.grad is not None
        return float(found.detach()), theta.grad.numpy()

    def late(_: np.ndarray) -> None:
        if time.perf_counter() > end:
            raise StopIteration

    start = np.append(np.zeros(points.shape[1]), math.log(1e-3))
    bounds = [(-3.0, 3.0)] * points.shape[1] + [(math.log(_LEAST), 0.0)]
    options = {"maxiter": _ITERATIONS}
    found = minimize(cost, start, jac=True, bounds=bounds, callback=late, options=options)
    return torch.from_numpy(found.x)
