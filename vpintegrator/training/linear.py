"""Generating functions from pairs of states before and after their map: linear least squares.

The leave-one-out error chooses the ridge penalty where data are scarce.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import linalg

from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.dynamics.solve import states_between
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.generating_functions import signs_of_time
from vpintegrator.nn import Reversible, canonical_form
from vpintegrator.nn.discrete_lagrangian import DiscreteLagrangian
from vpintegrator.nn.implicit import ImplicitMap
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import PENALTIES, Choice, LeftOut, SequentialQR
from vpintegrator.training.residuals import reciprocal_spread
from vpintegrator.training.training_data import TrainingData

ROWS = 20  # equations for each coefficient, if the data have as many
FEWEST = 1_000  # pairs, if the data have as many; with 100 the rarest errors are not seen


@dataclass(frozen=True)
class LinearFit:
    """Result of a linear solve.

    Attributes
    ----------
    coefficients, rank, pairs
        Number of coefficients, how many the equations determine, and pairs of states in these.
    error
        Leave-one-out error: root mean square of the images' errors in units of the spread of each
        component, each pair predicted by the fit to all others; infinite where these do not
        determine the prediction.
    penalty
        Ridge parameter that the leave-one-out error chose, 0 for none.
    typical, deviation
        The same error without the largest twentieth, and the standard error of its square, relative
        to it.
    """

    coefficients: int
    rank: int
    pairs: int
    error: float
    typical: float
    deviation: float
    penalty: float

    @classmethod
    def of(cls, choice: Choice, pairs: int) -> LinearFit:
        """Return the result of a solve."""
        solution = choice.solution
        error = math.sqrt(choice.square)
        typical = math.sqrt(choice.typical)
        counts = solution.coefficients.size, solution.rank, pairs
        return cls(*counts, error, typical, choice.deviation, solution.penalty)


def implicit_map(model: Model) -> ImplicitMap:
    """Return the layer whose coefficients pairs of states give.

    Raises
    ------
    InputError
        If the model has none.
    """
    core = model.core.psi if isinstance(model.core, Reversible) else model.core
    if not isinstance(core, ImplicitMap):
        raise InputError(
            "optimizer = linear is for generating functions, linear maps and polynomials; "
            f"{model.name} is none of these"
        )
    return core


class LinearEquations:
    """Linear equations of the coefficients of a generating function, in units of the spread.

    Parameters
    ----------
    layer
        The generating function.
    before, after : (pair, dim)
        Normalised states before and after its map, with the parameters that it reads.
    block
        Bytes of the matrix that are built at once.
    """

    def __init__(
        self, layer: Any, before: torch.Tensor, after: torch.Tensor, block: int = 1 << 27
    ) -> None:
        self.layer = layer
        self.before = before
        self.after = after
        end = after.shape[1] - layer.parameter_count
        self.size = layer.equation_count  # those of the last components
        self.weight = reciprocal_spread(after[:, end - self.size : end])
        self.count = sum(c.numel() for c in layer.coefficients())
        self.block = max(block // (8 * max(self.count, 1) * self.size), 1)
        self.are_scarce = len(after) * self.size < ROWS * self.count
        degrees = layer.degrees.numpy()
        self.penalty_weights = [degrees**2.0, 8.0**degrees]

    @torch.no_grad()
    def blocks(self, pairs: slice = slice(None)) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield weighted equations of some pairs, block by block.

        The matrix is (pair, component, coefficient), the right sides are (pair, component).
        """
        parts = (states[pairs].split(self.block) for states in (self.before, self.after))
        for z, image in zip(*parts, strict=True):
            matrix, right = self.layer.equations(z, image)
            if not bool(matrix.isfinite().all()):
                raise InputError(
                    "some functions of the generating function are not finite at states of the "
                    "training pairs; leave out these expressions, or the states"
                )
            yield (matrix * self.weight[:, None]).numpy(), (right * self.weight).numpy()

    def solve(self, folds: np.ndarray | None = None, sample: int = 500) -> Choice:
        """Return the solution of least leave-one-out error.

        Dependent columns are left out, the more of them the higher the tolerance, until other pairs
        determine each pair: Kepler's degree 18 errs by 3e-13 then, by 1e-8 with a ridge penalty.
        Exact terms come first, then polynomials to what is left: together they depend on one
        another, and large coefficients that cancel slow the Newton iteration down. Where data are
        scarce, ridge penalties are tried with two weights: the squared degree, and powers of the
        degree, as coefficients of analytic functions decay geometrically. The second errs less by
        half from noisy pairs, by ten from an orbit.

        Parameters
        ----------
        folds : (pair,), optional
            Number of the fold of each pair, for few pairs: the pairs of a fold are left out
            together, and all of them count.
        sample
            Pairs over which the leave-one-out error is averaged otherwise.
        """
        matrix, right = next(self.blocks(slice(sample if folds is None else None)))
        unit = float(np.sqrt((self._expected_errors(matrix) ** 2).mean()))
        qr = SequentialQR(self.count, keep=folds is not None)
        for rows, values in self.blocks():
            errors = self._expected_errors(rows, unit)  # (pair, 1)
            qr.add(
                (rows / errors[:, :, None]).reshape(-1, self.count), (values / errors).reshape(-1)
            )
        held, values = self._held(qr)
        if len(held):
            # far above the other equations; beyond 1e6 it would cost their digits
            length = np.linalg.norm(held, axis=1, keepdims=True)
            size = 1e3 * math.sqrt(qr.rows) / np.where(length > 0, length, 1.0)
            size *= np.abs(matrix).max()
            qr.add(held * size, values * size[:, 0])
        errors = self._expected_errors(matrix, unit)
        left_out = LeftOut(matrix / errors[:, :, None], matrix, right, folds)
        choices: list[Choice] = []
        tolerances = [1e-13, 1e-12, 1e-11, 1e-10, 1e-9]
        for solution in qr.solutions(tolerances, self.layer.exact_places):
            choices = [left_out.choice(solution)]
            if math.isfinite(choices[0].square):
                break
        if self.are_scarce or math.isinf(choices[0].square):
            for weights in self.penalty_weights:
                # smaller penalties leave large coefficients that cancel
                choices += map(left_out.choice, qr.ridge(weights, PENALTIES[24::2]))
        return min(choices, key=lambda each: each.square)

    def _held(self, qr: SequentialQR) -> tuple[np.ndarray, np.ndarray]:
        """Return combinations of coefficients that are held, and their values."""
        if not isinstance(self.layer, DiscreteLagrangian) or self.layer.dim == 1:
            rows = self.layer.normalisation(self.before).numpy()
            return rows, np.zeros(len(rows))
        curvature = self.layer.mean_curvature(self.before).numpy()
        return regular_curvature(qr, curvature)

    def _expected_errors(self, matrix: np.ndarray, unit: float = 1.0) -> np.ndarray:
        """Return errors (pair, 1) that are expected of a fit, at least a thousandth of a unit.

        Maps in a row with exact terms err where the derivatives of H are large, by many orders more
        than elsewhere. Equations in units of these errors do not spoil all other pairs for the few.
        One for maps that are applied once, whose polynomials correct the largest errors.

        Parameters
        ----------
        matrix : (pair, component, coefficient)
            Weighted equations.
        unit
            Typical error, below which a thousandth is rounding.
        """
        exact = self.layer.exact_places[-3:]  # of the highest order
        if self.layer.repeats == 1 or not len(exact):
            return np.ones((len(matrix), 1))
        size = np.linalg.norm(matrix[:, :, exact], axis=(1, 2))[:, None]
        return np.maximum(size / unit, 1e-3) if size.any() else np.ones_like(size)


def regular_curvature(
    qr: SequentialQR, curvature: np.ndarray, weight: float = 1e3, most: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the mean of D1 D2 S to be held for a regular Lagrangian: rows and their values.

    .. math:: \min_M \; |\rho(M)|^2 - \log \det M, \qquad
        \langle D_1 D_2 L \rangle = -M

    :math:`\rho(M)` are the residuals of the least-squares solution with the mean held at M. To hold
    the trace of M alone is not enough. Where some motion is exactly that of a simple Lagrangian, as
    that of a centre of mass, this Lagrangian has no residuals, and all others are left
    undetermined. The problem is convex, and M is scaled to the trace n.

    Parameters
    ----------
    qr
        Triangle of the equations.
    curvature : (n, n, coefficient)
        Coefficients of the symmetric part of the mean of D1 D2 S.
    weight
        Size of the equations that hold the mean, relative to the other ones.
    most
        Largest number of Newton iterations.
    """
    n, _, count = curvature.shape
    upper = np.triu_indices(n)
    rows = curvature[upper]  # (entry, coefficient)
    basis = np.zeros((len(rows), n, n))
    for place, (i, j) in enumerate(zip(*upper, strict=True)):
        basis[place, i, j] = basis[place, j, i] = 1.0
    R, right = qr.system()
    length = np.linalg.norm(rows, axis=1)
    size = weight * np.linalg.norm(R) / np.where(length > 0, length, 1.0)
    A = np.vstack([R, rows * size[:, None]])
    sides = np.zeros((len(A), 1 + len(rows)))
    sides[: len(R), 0] = right
    sides[len(R) :, 1:] = np.diag(size)
    solver = SequentialQR(count)
    solver.add(A, sides)
    solution = next(solver.solutions([1e-13])).coefficients  # (coefficient, 1 + entry)
    residuals = A @ solution - sides
    gram = residuals.T @ residuals
    gram = gram / max(gram[0, 0], 1e-300)
    entries = np.zeros(len(rows))  # of the mean of D1 D2 S: M = 1 - entries

    def mean(e: np.ndarray) -> np.ndarray:
        return np.eye(n) - np.tensordot(e, basis, 1)

    def cost(e: np.ndarray) -> float:
        sign, logarithm = np.linalg.slogdet(mean(e))
        lowest = np.linalg.eigvalsh(mean(e)).min()
        whole = np.append(1.0, e)
        return 0.5 * whole @ gram @ whole - logarithm if sign > 0 and lowest > 0 else math.inf

    for _ in range(most):
        inverse = np.linalg.inv(mean(entries))
        moved = inverse @ basis  # (entry, n, n)
        slope = gram[1:] @ np.append(1.0, entries) + np.trace(moved, axis1=1, axis2=2)
        hessian = gram[1:, 1:] + np.einsum("aij,bji->ab", moved, moved)
        change = -np.linalg.lstsq(hessian, slope)[0]
        decrement = -slope @ change
        factor = 1.0
        while factor > 1e-6 and not cost(entries + factor * change) < cost(entries):
            factor /= 2
        if factor <= 1e-6 or not decrement > 1e-9:
            break
        entries = entries + factor * change
    M = mean(entries)
    M = M * n / np.trace(M)
    return rows, (np.eye(n) - M)[upper]


def fit_pairs(
    model: Model, pairs: Pairs, far: bool = False, folds: np.ndarray | None = None
) -> LinearFit:
    """Set the coefficients of a generating function by linear least squares.

    Parameters
    ----------
    model
        Normalised and adapted to its states. Its other buffers stay as they are.
    pairs
        States before and after the map of the model's layer, see ``layer_pairs``.
    far
        Whether a linear map is fitted first, and the generating function to the rest: for maps that
        turn some plane by nearly half a turn.
    folds
        Argument of ``LinearEquations.solve``.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than coefficients need.
    """
    layer = implicit_map(model)
    before, after, folds = normalised_pairs(model, pairs.pair(slice(None)), folds)
    with one_blas_thread():
        if far:
            layer.set_linear(linear_part(model, before, after))
            layer.adapt(torch.cat([before, after]))
        equations = LinearEquations(layer, layer.outer(before), layer.outer(after, backward=True))
        choice = equations.solve(folds)
    coefficients = torch.from_numpy(choice.solution.coefficients)
    parameters = layer.coefficients()
    parts = coefficients.split([each.numel() for each in parameters])
    with torch.no_grad():
        for each, part in zip(parameters, parts, strict=True):
            each.copy_(part)
    layer.settle(before[:100].to(model.scale))
    return LinearFit.of(choice, len(before))


def normalised_pairs(
    model: Model, pair: Pair, folds: np.ndarray | None = None, most: int = 10_000
) -> tuple[torch.Tensor, torch.Tensor, np.ndarray | None]:
    """Return different pairs of variables (pair, dim + m) at the core of a model, and their folds.

    Leaving out one of two equal pairs would tell nothing.

    Parameters
    ----------
    model
        Normalised.
    pair
        States before and after the map, the last ones of windows.
    folds : (pair,), optional
        Number of the fold of each pair.
    most
        Largest number of coefficients, of which the triangle takes 800 MB.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than coefficients need.
    """
    z, image, k = pair.to(torch.empty(0, dtype=torch.float64))
    z = z[:, -1]
    image = image[:, -1]
    before = model.variables(model.at_time(z, z), k)
    after = model.variables(model.at_time(image, z), k, near=before)
    _, first = np.unique(torch.cat([before, after], 1).numpy(), axis=0, return_index=True)
    places = np.sort(first)
    before = before[places]
    after = after[places]
    count = sum(p.numel() for p in model.parameters())
    equations = len(before) * model.moving
    if not bool(before.isfinite().all() and after.isfinite().all()):
        raise InputError("some states of the training pairs are not finite; leave these out")
    if len(before) < 2 or bool((before == before[0]).all()):
        raise InputError("the training pairs all begin at the same state; give different ones")
    if count > most:
        raise InputError(f"{count:,} coefficients are too many for a solve; take a lower degree")
    if equations < count / 2:
        raise InputError(
            f"{len(before):,} different pairs of states give {equations:,} equations for "
            f"{count:,} coefficients; give more pairs, or a lower degree (--set degree=...)"
        )
    return before, after, None if folds is None else folds[places]


def linear_part(model: Model, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    r"""Return the square root K of the linear map that is nearest to pairs of states.

    With :math:`A = K^2` the least-squares map of centred states, :math:`X = \log A` is projected to
    the Hamiltonian matrices (for volume: to trace zero), and to those that respect the symmetries:
    a reversing symmetry turns the sign of X. Then :math:`K = \exp(X/2)` is symplectic (has
    determinant one) and is reversed by them. It leaves translations along periodic and cyclic
    components as they are, which the map commutes with. The identity where A has no real logarithm.
    """
    n = len(implicit_map(model).get_buffer("linear"))
    arguments = model.arguments
    fixed = [k for k, _ in arguments.get("periodic", ())] + [*arguments.get("cyclic", ())]
    others = np.array([k not in fixed for k in range(n)], dtype=float)
    z, image = (states[:, :n] - states[:, :n].mean(0) for states in (before, after))
    # PyTorch leaves the pivots of its solver undefined, and with them the last bits
    A = np.linalg.lstsq(z.numpy(), image.numpy())[0].T
    with warnings.catch_warnings():  # of an inaccurate logarithm, which the fit corrects
        warnings.simplefilter("ignore")
        X = linalg.logm(A)
    if not np.isfinite(X).all() or np.abs(np.imag(X)).max() > 1e-8:
        X = np.zeros((n, n))
    X = np.real(X)
    elements, time = signs_of_time(model.reversing_symmetries, before.shape[1])
    if isinstance(model.core, Reversible):  # symmetries of space leave psi unchanged
        elements = elements[time > 0]
        time = time[time > 0]
    actions = elements[:, :n, :n].numpy()
    X = np.mean(
        [t * g @ X @ np.linalg.inv(g) for g, t in zip(actions, time.numpy(), strict=True)], 0
    )
    if model.structure.is_symplectic:
        J = canonical_form(n).numpy()
        X = -J @ (others[:, None] * (J @ X + (J @ X).T) * others) / 2
    else:
        X = X * others
        X = X - np.trace(X) / max(others.sum(), 1) * np.diag(others)
    return torch.from_numpy(linalg.expm(X / 2))


def layer_pairs(model: Model, data: TrainingData, count: int, seed: int = 0) -> Pairs:
    r"""Return pairs of states before and after the map of the layer that is solved for.

    They are those of the data, and of few data those of the validation group too. A reversible
    volume-preserving model is :math:`\psi R \psi^{-1} R`; its :math:`\psi` is the map of half a
    step, so that with the state y half-way :math:`\psi(y) = z'` and :math:`\psi(R y) = R z`. A
    layer that is applied k times in a row is fitted to the states at each k-th part.

    Raises
    ------
    InputError
        If states within a step are needed and not known, as of measured data.
    """
    repeats = implicit_map(model).repeats
    reversible = isinstance(model.core, Reversible)
    maps = repeats * (1 + reversible)
    if data.is_few:
        before, after, k, _ = data.known_pairs
    else:
        inputs, targets, k = data.pairs(model).sample(count, torch.Generator().manual_seed(seed))
        before, after = (states[:, -1].double().cpu() for states in (inputs, targets))
    way = torch.stack([before, after])  # (part + 1, pair, dim)
    if maps > 1:
        start = data.extended(before.numpy(), k)
        states = None
        if data.knows_flow:  # as accurate as datasets are
            states = states_between(data.system, start, data.step, maps, 1e-13)
        if states is None:
            raise InputError(
                f"{model.name} applies {maps} maps in a row, and the states between are not known; "
                "give repeats=1 and reversible=False, or equations=True where they are known"
            )
        way = torch.cat([torch.from_numpy(states[:-1, :, : model.dim]), after[None]])
    before = way[:-1]
    after = way[1:]
    if reversible:
        rho = model.reversing_symmetries[0, : model.dim, : model.dim]
        back = model.coordinates.reflected(way[: repeats + 1], rho)
        on = way[repeats:]
        before = torch.cat([on[:-1], back[1:]])
        after = torch.cat([on[1:], back[:-1]])
    parameters = None if k is None else k.repeat(len(before), 1)
    return Pairs.of_tensors(before.flatten(0, 1)[:, None], after.flatten(0, 1)[:, None], parameters)


def enough_pairs(model: Model) -> int:
    """Return the number of pairs that gives twenty equations for each coefficient."""
    count = sum(p.numel() for p in model.parameters())
    return max(math.ceil(ROWS * count / model.moving), FEWEST)
