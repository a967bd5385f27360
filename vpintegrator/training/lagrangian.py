"""Discrete Lagrangians from positions alone: a linear solve, its errors, noisy orbits refined."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch

from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.models.discrete_lagrangian import DiscreteLagrangianMap
from vpintegrator.nn.discrete_lagrangian import DiscreteLagrangian
from vpintegrator.nn.implicit import jacobians
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.linear import LinearEquations, LinearFit, enough_pairs
from vpintegrator.training.orbits import StateRange, lost_orbits
from vpintegrator.training.residuals import reciprocal_spread
from vpintegrator.training.training_data import FOLDS, TrainingData


def solve_lagrangian(
    model: DiscreteLagrangianMap, data: TrainingData, seed: int = 0, number: int | None = None
) -> LinearFit:
    """Set the coefficients of a discrete Lagrangian by windows of a dataset of positions.

    Parameters
    ----------
    model
        The model, which is normalised here.
    data
        Training data.
    seed, number
        Seed of the choice of windows, and their number; by default twenty equations for each
        coefficient.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error.

    Raises
    ------
    InputError
        As ``fit_windows``.
    """
    return fit_windows(model, _sample(model, data, seed, number))


def probe_lagrangian(model: DiscreteLagrangianMap, data: TrainingData, seed: int = 0) -> float:
    """Return the error by which properties of discrete Lagrangians are compared; a quick solve.

    Parameters
    ----------
    model, data, seed
        As in :func:`solve_lagrangian`. Momenta get no unit.

    Raises
    ------
    InputError
        As in :func:`solve_lagrangian`.
    """
    result = _set_coefficients(model, _sample(model, data, seed))
    error = typical_error(model, data)
    return max(error, result.error) if data.is_few else error


def _sample(
    model: DiscreteLagrangianMap, data: TrainingData, seed: int, number: int | None = None
) -> Pair:
    """Normalise a model, and return windows for the solve."""
    data.normalise(model)
    generator = torch.Generator().manual_seed(seed)
    return data.pairs(model).sample(number or enough_pairs(model), generator)


def fit_windows(model: DiscreteLagrangianMap, pair: Pair, most: int = 10_000) -> LinearFit:
    """Set the coefficients of a discrete Lagrangian by windows and the positions after them.

    Parameters
    ----------
    model
        Normalised.
    pair
        Windows (pair, 2, dim), those one step later, and parameters of a family.
    most
        Largest number of coefficients.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error.

    Raises
    ------
    InputError
        If positions are not finite, or there are too few for the coefficients.

    Warns
    -----
    UserWarning
        If D1 D2 L is badly conditioned at some windows.

    Examples
    --------
    >>> from vpintegrator.data.pairs import Pairs
    >>> from vpintegrator.training.lagrangian import fit_windows
    >>> t = np.linspace(0, 2, 11) + np.arange(20.0)[:, None]
    >>> q = np.cos(t)[:, :, None] * np.linspace(0.1, 1, 20)[:, None, None]
    >>> model = vp.models.DiscreteLagrangianMap(dim=1, degree=2, reversing_symmetries=[[[1.0]]])
    >>> fit = fit_windows(model, Pairs.of_states(q, 2, 1).pair(slice(None)))
    >>> fit.error < 1e-13
    True
    """
    result = _set_coefficients(model, pair, most)
    if pair.parameters is None:
        model.set_momentum_unit(pair.inputs[:200].to(model.scale))
    check_condition(model, next(pair.split(2_000)))
    return result


def _set_coefficients(model: DiscreteLagrangianMap, pair: Pair, most: int = 10_000) -> LinearFit:
    layer = model.core
    inputs, targets, k = pair.to(torch.empty(0, dtype=torch.float64))
    windows = torch.cat([inputs, targets[:, -1:]], 1)  # (pair, 3, dim)
    if not bool(windows.isfinite().all()):
        raise InputError("some positions of the training windows are not finite; leave these out")
    count = sum(p.numel() for p in layer.parameters())
    equations = len(windows) * model.dim
    if count > most:
        raise InputError(f"{count:,} coefficients are too many for a solve; take a lower degree")
    if equations < count:
        raise InputError(
            f"{len(windows):,} windows of three positions give {equations:,} equations for "
            f"{count:,} coefficients; give more orbits, or a lower degree"
        )
    with torch.no_grad(), one_blas_thread():
        parameters = model.coefficients(None if k is None else k)
        before, after = (
            layer.joined(model.coordinates(windows[:, i : i + 2]), parameters) for i in (0, 1)
        )
        layer.adapt_to(torch.cat([before, after]))
        choice = LinearEquations(layer, before, after).solve()
        solution = torch.from_numpy(choice.solution.coefficients)
        for each, part in zip(
            layer.coefficients(),
            solution.split([c.numel() for c in layer.coefficients()]),
            strict=True,
        ):
            each.copy_(part)
        layer.settle(before[:100].to(model.scale))
    return LinearFit.of(choice, len(windows))


def check_condition(model: DiscreteLagrangianMap, pair: Pair) -> None:
    """Warn where D1 D2 L is badly conditioned: the next position is barely determined there."""
    if reason := model.doubt(pair.inputs.numpy(), pair.parameters):
        warnings.warn(reason, stacklevel=3)


def left_out_error(model: DiscreteLagrangianMap, data: TrainingData) -> tuple[float, float]:
    """Return the error on trajectories that are left out of solves, and its standard error.

    A fifth of the trajectories is left out at a time; of few trajectories the end. The error is
    infinite where an iterated map loses one of these.

    Parameters
    ----------
    model
        Normalised; solves change copies.
    data
        Training data without held-out ones.
    """
    known = data.known_windows(2)
    part = np.where(known.folds < 0, -1, known.folds % FOLDS)
    bounds = StateRange.of(data, [i for i, _ in model.arguments.get("periodic", ())])
    squares = []
    weight = reciprocal_spread(known.after)
    for number in sorted({*part.tolist()} - {-1}):
        out = torch.from_numpy(part == number)
        copy = deepcopy(model)
        rest = known.before[~out], known.after[~out][:, None]
        _set_coefficients(copy, Pair(*rest, None))
        windows = known.before[out]
        difference = torch.from_numpy(copy.map(windows.numpy())[:, -1]) - known.after[out]
        for i, period in model.arguments.get("periodic", ()):
            difference[:, i] -= period * torch.round(difference[:, i] / period)
        squares.append((difference * weight).square().mean(1))
        _, first, lengths = np.unique(known.folds[out], return_index=True, return_counts=True)
        for steps in np.unique(lengths):
            own = windows[first[lengths == steps]].numpy()
            if lost_orbits(copy.advance(own, int(steps)), bounds, most=1):
                return math.inf, 0.0
    every = torch.cat(squares)
    mean = float(every.mean())
    if not math.isfinite(mean) or not mean:
        return (math.inf if mean else 0.0), 0.0
    noise = float(every.std(correction=0)) / math.sqrt(len(every)) / (2 * mean)
    return math.sqrt(mean), math.sqrt(mean) * noise


def typical_error(
    model: DiscreteLagrangianMap, data: TrainingData, part: float = 0.05, most: int = 1_000
) -> float:
    """Return the error of the next position on windows that are held out, without the largest part.

    Leave-one-out errors are those of equations, which say little where one motion is exact. At most
    ``most`` windows are taken, evenly spaced.
    """
    if data.is_few:
        known = data.known_windows(2)
        inputs = known.before
        after = known.after
    else:
        inputs, targets, _ = data.held_out(model)
        every = -(-len(inputs) // most) or 1
        inputs = inputs[::every]
        after = targets[::every, -1]
    difference = model.map(inputs.numpy())[:, -1] - after.numpy()
    for i, period in model.arguments.get("periodic", ()):
        difference[:, i] -= period * np.round(difference[:, i] / period)
    with np.errstate(all="ignore"):
        squares = ((difference * reciprocal_spread(after).numpy()) ** 2).mean(1)
    squares = np.sort(np.where(np.isfinite(squares), squares, np.inf))
    return math.sqrt(squares[: max(round((1 - part) * len(squares)), 1)].mean())


def successive_correlation(model: DiscreteLagrangianMap, orbits: np.ndarray) -> float:
    """Return the correlation of successive errors of the next position, without dimension.

    Independent noise of positions gives -2/3 at short steps: an error is the second difference of
    the noise. Errors of a function that is too simple vary slowly along an orbit, and give a
    positive correlation.

    Parameters
    ----------
    model
        A fitted model.
    orbits
        Positions (orbit, time, dim).
    """
    windows = np.lib.stride_tricks.sliding_window_view(orbits[:, :-1], 2, axis=1)
    count, times = windows.shape[:2]
    if times < 2:
        return 0.0
    flat = np.moveaxis(windows, -1, 2).reshape(count * times, 2, model.dim)
    after = model.map(np.ascontiguousarray(flat))[:, 1].reshape(count, times, model.dim)
    difference = after - orbits[:, 2:]
    for i, period in model.arguments.get("periodic", ()):
        difference[..., i] -= period * np.round(difference[..., i] / period)
    difference = difference / np.maximum(np.nanstd(orbits, (0, 1)), 1e-300)
    first = difference[:, :-1]
    second = difference[:, 1:]
    usable = np.isfinite(first) & np.isfinite(second)
    size = np.sqrt((first[usable] ** 2).sum() * (second[usable] ** 2).sum())
    return float((first * second)[usable].sum() / size) if size > 0 else 0.0


def distance_of_orbits(
    model: DiscreteLagrangianMap, orbits: np.ndarray, iterations: int = 5
) -> float:
    """Return the distance of measured positions from the nearest orbits of a model.

    A root mean square in units of the spread, with which a map is judged over several steps
    although its initial positions are noisy; infinite where no near orbits are found.

    Parameters
    ----------
    model
        A fitted model.
    orbits
        Positions (orbit, time, dim), all finite, at three times or more.
    iterations
        Gauss-Newton iterations.
    """
    layer = model.core
    with torch.no_grad(), one_blas_thread():
        target = model.coordinates(torch.from_numpy(np.asarray(orbits, dtype=np.float64)))
        weight = reciprocal_spread(target.flatten(0, 1))
        orbit = target.clone()
        none = torch.zeros(sum(c.numel() for c in layer.coefficients()), dtype=torch.float64)
        for _ in range(iterations):
            orbit = _OrbitEquations(layer, orbit, target, weight).orbit(none)
        problem = _OrbitEquations(layer, orbit, target, weight)
        moved = (problem.orbit(none) - orbit) * weight
        distance = float(((orbit - target) * weight).square().mean().sqrt())
        unsolved = float(moved.square().mean().sqrt())
    return distance if unsolved < distance and math.isfinite(distance) else math.inf


def pieces_of(orbits: np.ndarray, length: int = 25, most: int = 40_000) -> np.ndarray:
    """Return pieces (piece, time, dim) of orbits, of so many positions at most, without gaps.

    Parameters
    ----------
    orbits
        Positions (orbit, time, dim).
    length
        Largest number of positions of a piece.
    most
        Largest number of positions in all; pieces are chosen evenly.
    """
    _, times, dim = orbits.shape
    length = min(times, length)
    count = times // length
    pieces = orbits[:, : count * length].reshape(-1, length, dim)
    pieces = pieces[np.isfinite(pieces).all((1, 2))]
    return pieces[:: -(-pieces.size // (dim * most)) or 1]


def refine_lagrangian(
    model: DiscreteLagrangianMap,
    orbits: np.ndarray,
    iterations: int = 12,
    ridges: Sequence[float] = (1e-12, 1e-7, 1e-5, 1e-3),
    accuracy: float = 1e-3,
    loss: float = 1.02,
) -> float:
    r"""Refine a discrete Lagrangian on noisy orbits, whose positions are unknowns, in place.

    .. math:: \min_{c,\, q} \sum_n |q_n - \tilde q_n|^2 \quad \text{such that} \quad
        D_2 L_c(q_{n-1}, q_n) + D_1 L_c(q_n, q_{n+1}) = 0

    A Gauss-Newton iteration: the equations are linearised, positions are eliminated orbit by orbit,
    and the coefficients are those of linear least squares with the covariance that noise of
    positions has in the equations. It begins at the model, as ``fit_windows`` gives it.

    Parameters
    ----------
    model
        A model that was fitted to windows of these orbits.
    orbits
        Measured positions (orbit, time, dim) at successive steps, at least three times.
    iterations
        Largest number of iterations.
    ridges
        Penalties on changes of coefficients, relative to the entries of the normal equations. The
        first one counts with which the next measured position is missed by no more than before:
        with too many coefficients D1 D2 L becomes singular at some positions.
    accuracy
        Relative change of the distance below which the iteration ends.
    loss
        Ratio of these errors up to which a penalty counts.

    Returns
    -------
    float
        Root mean square distance of the measured positions from the refined orbits, in units of the
        spread: an estimate of the noise.

    Raises
    ------
    InputError
        If there are fewer than three times, or positions are not finite.

    References
    ----------
    Britt, Luecke, The estimation of parameters in nonlinear, implicit models, Technometrics 15
    (1973) 233-247.

    Examples
    --------
    >>> from vpintegrator.data.pairs import Pairs
    >>> from vpintegrator.training.lagrangian import fit_windows, refine_lagrangian
    >>> t = np.linspace(0, 4, 21) + np.arange(20.0)[:, None]
    >>> q = np.cos(t)[:, :, None] * np.linspace(0.5, 1, 20)[:, None, None]
    >>> noisy = q + 1e-3 * np.random.default_rng(0).normal(size=q.shape)
    >>> model = vp.models.DiscreteLagrangianMap(dim=1, degree=2, reversing_symmetries=[[[1.0]]])
    >>> fit = fit_windows(model, Pairs.of_states(noisy, 2, 1).pair(slice(None)))
    >>> before = np.abs(model.map(q[:, :2])[:, 1] - q[:, 2]).max()
    >>> noise = refine_lagrangian(model, noisy)
    >>> bool(np.abs(model.map(q[:, :2])[:, 1] - q[:, 2]).max() < before / 3)
    True
    """
    measured = torch.from_numpy(np.asarray(orbits, dtype=np.float64))
    if measured.ndim != 3 or measured.shape[1] < 3 or measured.shape[2] != model.dim:
        raise InputError("orbits must be positions (orbit, time, dim) at three or more times")
    if not bool(measured.isfinite().all()):
        raise InputError("some positions of the orbits are not finite; leave these orbits out")
    layer = model.core
    with torch.no_grad(), one_blas_thread():
        target = model.coordinates(measured)  # (orbit, time, n)
        weight = reciprocal_spread(target.flatten(0, 1))
        windows = target.unfold(1, 3, 1).movedim(-1, 2).flatten(0, 1)  # (window, 3, n)

        def missed() -> float:
            layer.settle(windows[:100, :2].flatten(1))
            change = (layer(windows[:, :2])[:, 1] - windows[:, 2]) * weight
            return float(change.square().mean().sqrt())

        parts = layer.coefficients()
        start = [each.clone() for each in parts]
        most = loss * missed()
        distance = math.nan
        for ridge in ridges:
            distance = _refine(layer, target, weight, iterations, ridge, accuracy)
            if missed() <= most:
                break
            for each, old in zip(parts, start, strict=True):
                each.copy_(old)
        missed()
    model.set_momentum_unit(measured[:200, :2].to(model.scale))
    return distance


def _refine(
    layer: DiscreteLagrangian,
    target: torch.Tensor,
    weight: torch.Tensor,
    iterations: int,
    ridge: float,
    accuracy: float,
) -> float:
    """Iterate from the layer as it is, and return the distance of the orbits from ``target``."""
    orbit = target.clone()
    distance = math.inf
    parts = layer.coefficients()
    for _ in range(iterations):
        check_time()
        problem = _OrbitEquations(layer, orbit, target, weight)
        change = problem.change_of_coefficients(ridge)
        orbit = problem.orbit(change)
        for each, part in zip(parts, change.split([c.numel() for c in parts]), strict=True):
            each.add_(part)
        last = distance
        distance = float(((orbit - target) * weight).square().mean().sqrt())
        if not abs(last - distance) > accuracy * distance:
            break
    return distance


class _OrbitEquations:
    """Discrete Euler-Lagrange equations of orbits, linearised in positions and coefficients.

    Parameters
    ----------
    layer
        The discrete Lagrangian.
    orbit, target : (orbit, time, n)
        Positions at which the equations are linearised, and measured ones.
    weight : (n,)
        Reciprocal size of the noise of each component.
    """

    def __init__(
        self,
        layer: DiscreteLagrangian,
        orbit: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor,
    ) -> None:
        count, times, n = orbit.shape
        self.position = orbit
        self.weight = weight
        z = orbit[:, :-2]
        image = orbit[:, 1:-1]
        before = torch.cat([z, image], -1).flatten(0, 1)  # (orbit * step, 2 n)
        after = torch.cat([image, orbit[:, 2:]], -1).flatten(0, 1)
        matrix, right = layer.equations(before, after)
        c = torch.cat(layer.coefficients())
        self.matrix = matrix.unflatten(0, (count, times - 2))  # (orbit, step, n, coefficient)
        defect = (matrix @ c - right).view(count, times - 2, n)

        def residual(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return layer.residual(x, y, layer.coefficients())[..., n:]

        first, second = jacobians(residual, before, after)  # (orbit * step, n, 2 n)
        jacobian = orbit.new_zeros(count, times - 2, n, times, n)
        for k in range(times - 2):
            rows = slice(k, None, times - 2)
            jacobian[:, k, :, k] += first[rows, :, :n]
            jacobian[:, k, :, k + 1] += first[rows, :, n:] + second[rows, :, :n]
            jacobian[:, k, :, k + 2] += second[rows, :, n:]
        self.jacobian = (jacobian / weight).flatten(3).flatten(1, 2)  # (orbit, equation, position)
        distance = ((target - orbit) * weight).flatten(1)  # (orbit, position)
        moved = (self.jacobian @ distance.unsqueeze(-1)).squeeze(-1)
        self.defect = defect.flatten(1) + moved  # (orbit, equation), at the measured positions
        self.target = target
        # NaN where the equations are singular, which ends the iteration
        self.factor, failed = torch.linalg.cholesky_ex(self.jacobian @ self.jacobian.mT)
        self.factor[failed > 0] = torch.nan
        self.held = layer.normalisation(before)

    def change_of_coefficients(self, ridge: float) -> torch.Tensor:
        """Return the change (coefficient,), weighted by the covariance of the equations."""
        A = torch.linalg.solve_triangular(self.factor, self.matrix.flatten(1, 2), upper=False)
        b = torch.linalg.solve_triangular(self.factor, self.defect.unsqueeze(-1), upper=False)
        rows = A.flatten(0, 1)
        right = -b.flatten()
        size = rows.norm(dim=0).clamp(min=1e-300)
        held = self.held / size
        held = held / held.norm(dim=1, keepdim=True).clamp(min=1e-300)
        normal = (rows / size).mT @ (rows / size) + 1e6 * held.mT @ held
        normal.diagonal().add_(ridge)
        change = torch.linalg.solve_ex(normal, (rows / size).mT @ right).result
        return change / size

    def orbit(self, change: torch.Tensor) -> torch.Tensor:
        """Return positions (orbit, time, n) that solve the equations, near the measured ones."""
        defect = self.defect + (self.matrix.flatten(1, 2) @ change)  # (orbit, equation)
        forces = torch.cholesky_solve(defect.unsqueeze(-1), self.factor)
        moved = (self.jacobian.mT @ forces).squeeze(-1).view_as(self.target)
        return self.target - moved / self.weight
