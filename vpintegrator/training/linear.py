"""Training of generating functions: one linear least-squares solve."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import linalg

from vpintegrator.data.pairs import Pairs
from vpintegrator.dynamics.solve import states_between
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.generating_arguments import signs_of_time
from vpintegrator.nn import Reversible, canonical_form
from vpintegrator.nn.implicit import ImplicitMap
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import SequentialQR, Solution
from vpintegrator.training.training_data import TrainingData

ROWS = 20  # equations for each coefficient, if the data have as many
_BLOCK = 1 << 27  # bytes of the matrix that are built at once
LEFT_OUT = 500  # pairs over which the leave-one-out error is averaged
SETTLED = 100  # states by which the number of Newton iterations is found
_ACCURATE = 1e-13  # tolerance of states half-way, that of datasets
_REAL = 1e-8
# tolerances of dependent columns, tried in turn until other pairs determine each pair: Kepler's
# degree 18 errs by 3e-13 then, by 1e-8 with a ridge penalty
_TOLERANCES = [1e-13, 1e-12, 1e-11, 1e-10, 1e-9]
FEWEST = 1_000  # pairs, if the data have as many; with 100 the rarest errors are not seen
PENALTIES = (10.0 ** np.arange(-18, 3)).tolist()  # ridge penalties, relative to the equations
# coefficients of analytic functions decay geometrically with the degree: an alternative weight that
# the leave-one-out error may choose; it errs less by half from noisy pairs, by ten from an orbit
_DECAY = 8.0
_HIGHEST = 3  # exact terms of the highest order
_LEAST = 1e-3  # expected error, relative to that of other pairs, that is told from rounding
MOST = 10_000  # coefficients, of which the triangle takes 800 MB


@dataclass(frozen=True)
class LinearFit:
    """Result of a linear solve.

    Attributes
    ----------
    coefficients, rank
        Number of coefficients, and how many of them the equations determine.
    pairs
        Pairs of states in the equations.
    error
        Leave-one-out error: root mean square of the images' errors in units of the spread of each
        component, each pair predicted by the fit to all others; infinite where these do not
        determine the prediction.
    penalty
        Ridge parameter that the leave-one-out error chose, 0 for none.
    deviation
        Standard error of the mean square that ``error`` is the root of, relative to it.
    seconds
        Time used.
    typical
        The same error as ``error`` without the largest twentieth; None if not known.
    """

    coefficients: int
    rank: int
    pairs: int
    error: float
    penalty: float
    deviation: float
    seconds: float
    typical: float | None = None


def implicit_map(model: Integrator) -> ImplicitMap:
    """Return the layer whose coefficients pairs of states give.

    Raises
    ------
    InputError
        If the model has none.
    """
    core = model.core.psi if isinstance(model.core, Reversible) else model.core
    if not isinstance(core, ImplicitMap):
        raise InputError(
            f"optimizer = linear is for generating functions, sgf and vpgf; {model.name} is none"
        )
    return core


def fit_linear(
    model: Integrator,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    far: bool = False,
    folds: np.ndarray | None = None,
) -> LinearFit:
    """Set the coefficients of a generating function by linear least squares.

    Parameters
    ----------
    model
        Normalised and adapted to its states. Its other buffers stay as they are.
    inputs, targets : (pair, dim)
        States before and after the map of the model's layer: for a reversible volume-preserving
        model, of half a step, see ``layer_pairs``.
    far
        Whether a linear map is fitted first, and the generating function to the rest: for maps that
        turn some plane by nearly half a turn.
    folds : (pair,), optional
        Number of the fold of each pair, for few pairs: the pairs of a fold are left out together,
        and all of them count.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than coefficients need.
    """
    start = time.perf_counter()
    layer = implicit_map(model)
    before, after = normalised_pairs(model, inputs, targets)
    if folds is not None and len(folds) != len(before):
        folds = np.arange(len(before))  # equal pairs were left out
    size = after.shape[1] - getattr(layer, "conserved", 0)
    count = sum(c.numel() for c in layer.coefficients())
    if far:
        layer.set_linear(linear_part(model, before[:, :size], after[:, :size]))
        layer.adapt(torch.cat([before, after]))
    if layer.has_linear:
        before, after = layer.outer(before), layer.outer(after, backward=True)
    weight = weights(after[:, :size])
    qr = SequentialQR(count)
    some = slice(0, LEFT_OUT if folds is None else len(before))
    matrix, right = next(_equations(layer, before[some], after[some], weight, count))
    sizes = _expected_errors(layer, matrix)
    unit = math.sqrt(float((sizes**2).mean()))
    for rows, values in _equations(layer, before, after, weight, count):
        own = np.maximum(_expected_errors(layer, rows) / unit, _LEAST)
        rows /= own[:, None, None]
        values /= own[:, None]
        qr.add(rows.reshape(-1, count), values.reshape(-1))
    scarce = qr.rows < ROWS * count
    with one_blas_thread():
        best = _best(qr, matrix, right, np.maximum(sizes / unit, _LEAST), layer, scarce, folds)
    solution = best.solution
    set_coefficients(layer, solution.coefficients)
    layer.settle(layer.outer(before[:SETTLED], backward=True).to(model.scale))
    spent = time.perf_counter() - start
    return LinearFit(
        coefficients=count,
        rank=solution.rank,
        pairs=len(before),
        error=math.sqrt(best.square),
        penalty=best.penalty,
        deviation=best.deviation,
        seconds=spent,
        typical=math.sqrt(best.typical),
    )


def normalised_pairs(
    model: Integrator, inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return different pairs of states (pair, dim) as they enter and leave the core of a model.

    Raises
    ------
    InputError
        As ``fit_linear``.
    """
    z, image = inputs.double().cpu(), targets.double().cpu()
    before = model.normalised(model.in_the_middle(z, z))
    after = model.normalised(model.in_the_middle(z, image), near=before)
    before, after = _distinct(before, after)
    count = sum(p.numel() for p in model.parameters())
    _check(before, after, count, after.shape[1] - getattr(model.core, "conserved", 0))
    return before, after


def weights(images: torch.Tensor) -> torch.Tensor:
    """Return the reciprocal spread of components of images (pair, component); 1 if zero."""
    spread = images.std(0)
    return 1 / torch.where(spread > 0, spread, torch.ones(()).double())


def coefficients(layer: ImplicitMap) -> np.ndarray:
    """Return all coefficients (coefficient,)."""
    return torch.cat([c.detach() for c in layer.coefficients()]).numpy()


@torch.no_grad()
def set_coefficients(layer: ImplicitMap, values: np.ndarray) -> None:
    """Set all coefficients (coefficient,)."""
    own = layer.coefficients()
    parts = torch.from_numpy(values).split([c.numel() for c in own])
    for each, part in zip(own, parts, strict=True):
        each.copy_(part)


def linear_part(model: Integrator, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    r"""Return the square root K of the linear map that is nearest to pairs of states.

    With :math:`A = K^2` the least-squares map of centred states, :math:`X = \log A` is projected to
    the Hamiltonian matrices (for volume: to trace zero), and to those that respect the symmetries:
    a reversing symmetry turns the sign of X. Then :math:`K = \exp(X/2)` is symplectic (has
    determinant one) and is reversed by them. It leaves translations along periodic and cyclic
    components as they are, which the map commutes with. The identity where A has no real logarithm.
    """
    n, arguments = before.shape[1], model.arguments
    fixed = [k for k, _ in arguments.get("periodic", ())] + [*arguments.get("cyclic", ())]
    others = np.array([k not in fixed for k in range(n)], dtype=float)
    z, image = (states - states.mean(0) for states in (before, after))
    A = torch.linalg.lstsq(z, image).solution.mT.numpy()
    with warnings.catch_warnings():  # of an inaccurate logarithm, which the fit corrects
        warnings.simplefilter("ignore")
        X = linalg.logm(A)
    if not np.isfinite(X).all() or np.abs(np.imag(X)).max() > _REAL:
        X = np.zeros((n, n))
    X = np.real(X)
    elements, time = signs_of_time(model.reversing_symmetries, model.dim)
    if isinstance(model.core, Reversible):  # symmetries of space leave psi unchanged
        elements = elements[time > 0]
        time = time[time > 0]
    own = elements[:, :n, :n].numpy()
    X = np.mean([t * g @ X @ np.linalg.inv(g) for g, t in zip(own, time.numpy(), strict=True)], 0)
    if model.symplectic:
        J = canonical_form(n).numpy()
        X = -J @ (others[:, None] * (J @ X + (J @ X).T) * others) / 2
    else:
        X = X * others
        X = X - np.trace(X) / max(others.sum(), 1) * np.diag(others)
    return torch.from_numpy(linalg.expm(X / 2))


def _distinct(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return distinct pairs in order: leaving out one of two equal pairs tells nothing."""
    _, first = np.unique(torch.cat([before, after], 1).numpy(), axis=0, return_index=True)
    places = torch.from_numpy(np.sort(first))
    return before[places], after[places]


def _check(before: torch.Tensor, after: torch.Tensor, count: int, size: int) -> None:
    """Refuse data that do not determine a map."""
    if not bool(before.isfinite().all() and after.isfinite().all()):
        raise InputError("some states of the training pairs are not finite; leave these out")
    if len(before) < 2 or bool((before == before[0]).all()):
        raise InputError("the training pairs all begin at the same state; give different ones")
    if count > MOST:
        raise InputError(f"{count:,} coefficients are too many for a solve; take a lower degree")
    if len(before) * size < count / 2:
        raise InputError(
            f"{len(before):,} different pairs of states give {len(before) * size:,} equations for "
            f"{count:,} coefficients; give more pairs, or a lower --degree"
        )


def _equations(
    layer: Any, before: torch.Tensor, after: torch.Tensor, weight: torch.Tensor, count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weighted equations, (pair, component, coefficient) and (pair, component), block by block."""
    block = max(_BLOCK // (8 * count * len(weight)), 1)
    for z, image in zip(before.split(block), after.split(block), strict=True):
        with torch.no_grad():
            matrix, right = layer.equations(z, image)
        if not bool(matrix.isfinite().all()):
            raise InputError(
                "some functions of the generating function are not finite at states of the "
                "training pairs; leave out these expressions, or the states"
            )
        yield (matrix * weight[:, None]).numpy(), (right * weight).numpy()


def _expected_errors(layer: ImplicitMap, matrix: np.ndarray) -> np.ndarray:
    """Return errors (pair,) that are expected of a fit, up to a factor.

    Maps in a row with exact terms err where the derivatives of H are large, by many orders more
    than elsewhere. Equations in units of these errors do not spoil all other pairs for the few.
    One for maps that are applied once, whose polynomials correct the largest errors.

    Parameters
    ----------
    matrix : (pair, component, coefficient)
        Weighted equations.
    """
    exact = layer.exact_places
    if layer.repeats == 1 or not len(exact):
        return np.ones(len(matrix))
    size = np.linalg.norm(matrix[:, :, exact[-_HIGHEST:]], axis=(1, 2))
    return size if size.any() else np.ones(len(matrix))


def roughness(layer: ImplicitMap) -> np.ndarray:
    """Return the ridge weight of each coefficient: the square of its degree."""
    return layer.degrees.numpy() ** 2.0


class Judged(NamedTuple):
    """A solution and its leave-one-out mean square error, as of ``left_out_error``."""

    square: float
    deviation: float
    typical: float
    penalty: float
    solution: Solution


def _best(
    qr: SequentialQR,
    matrix: np.ndarray,
    right: np.ndarray,
    sizes: np.ndarray,
    layer: ImplicitMap,
    scarce: bool,
    folds: np.ndarray | None = None,
) -> Judged:
    """Return the solution of least leave-one-out error, over ridge penalties where data are scarce.

    The fit has divided the equations of each pair by its number of ``sizes`` (pair,).
    """

    def judged(solution: Solution, projected: np.ndarray, penalty: float = 0.0) -> Judged:
        residual = right - matrix @ solution.coefficients
        return Judged(*solution.left_out_error(projected, residual, folds), penalty, solution)

    # exact terms alone, then polynomials to what is left: together they depend on one another, and
    # large coefficients that cancel slow the Newton iteration down
    found: list[Judged] = []
    rows = matrix / sizes[:, None, None]
    for plain in qr.solutions(_TOLERANCES, layer.exact_places):
        found = [judged(plain, rows @ plain.directions)]
        if math.isfinite(found[0].square):  # else some pair alone determines a direction
            break
    if scarce or math.isinf(found[0].square):
        for weights in (roughness(layer), _DECAY ** layer.degrees.numpy()):
            damped = list(qr.ridge(weights, PENALTIES))
            projected = rows @ damped[0].directions  # once: the largest part of the work
            found += [judged(s, projected, p) for s, p in zip(damped, PENALTIES, strict=True)]
    return min(found, key=lambda each: each.square)


class WholePairs(Pairs):
    """Pairs of a map that is made of several, with no states between."""


def maps_of(model: Integrator) -> int:
    """Return the number of times that a model applies the map of its generating function."""
    return implicit_map(model).repeats * (2 if isinstance(model.core, Reversible) else 1)


def layer_pairs(model: Integrator, data: TrainingData, count: int, seed: int = 0) -> Pairs:
    r"""Return pairs of states before and after the map of the layer that is solved for.

    They are those of the data, and of few data those of the validation group too. A reversible
    volume-preserving model is :math:`\psi R \psi^{-1} R`; its :math:`\psi` is the map of half a
    step, so that with the state y half-way :math:`\psi(y) = z'` and :math:`\psi(R y) = R z`. A
    layer that is applied k times in a row is fitted to the states at each k-th part. Where these
    are not known, as of measured data, the pairs are ``WholePairs``.
    """
    repeats = implicit_map(model).repeats
    if data.is_few:
        before, after, _ = data.known_pairs
    else:
        sampled = data.pairs(model).sample(count, torch.Generator().manual_seed(seed))
        before, after = (states[:, -1].double().cpu() for states in sampled)
    maps = maps_of(model)
    way = torch.stack([before, after]) if maps == 1 else _way(data, before, after, maps)
    if way is None:
        return WholePairs.of_tensors(before[:, None], after[:, None])
    if isinstance(model.core, Reversible):
        back, on = model.reflected(way[: repeats + 1]), way[repeats:]
        before, after = torch.cat([on[:-1], back[1:]]), torch.cat([on[1:], back[:-1]])
    else:
        before, after = way[:-1], way[1:]
    return Pairs.of_tensors(*(each.flatten(0, 1)[:, None] for each in (before, after)))


def _way(
    data: TrainingData, before: torch.Tensor, after: torch.Tensor, parts: int
) -> torch.Tensor | None:
    """Return states (part + 1, state, dim) at equal parts of the step, None if unknown."""
    dataset = data.dataset
    if dataset.is_observed:
        return None
    way = states_between(dataset.system, before.numpy(), dataset.step, parts, _ACCURATE)
    if way is None:
        return None
    found = torch.from_numpy(way)
    found[-1] = after
    return found


def enough_pairs(model: Integrator) -> int:
    """Twenty equations for each coefficient."""
    layer = implicit_map(model)
    count = sum(c.numel() for c in layer.coefficients())
    moving = model.dim - getattr(layer, "conserved", 0)
    return max(math.ceil(ROWS * count / moving), FEWEST)
