"""Functions that stay as they are along orbits, found in data.

A function of states or windows is an invariant where it does not change along orbits. Among
polynomials these are the directions of no change: small singular values of the deviations from the
mean of each orbit. Products of invariants are invariants too, so that one counts only where its
gradient is independent of those before.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.nn import PolynomialInvariants, Rotations, canonical_form
from vpintegrator.nn.rotations import NEAR
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.training.training_data import TrainingData

DEGREE = 4  # the highest that is tried
TERMS = 250  # most terms
ROWS = 6_000  # most windows
SAMPLE = 300  # windows at which gradients are compared
ORBITS = 8  # fewest training orbits: functions that are constant along few say nothing of others
EXACT = 1e-12  # change along orbits, relative to the spread, that is rounding
WORST = 1e-3  # largest change of what is an invariant
DRIFT = 6.0  # ratio of variances (F) above which changes along orbits are no chance
INDEPENDENT = 1e-2  # part of a squared gradient that those before do not give, at least


def find_invariants(model: Model, data: TrainingData, error: float) -> PolynomialInvariants | None:
    """Return invariants of the normalised windows that a model reads, or None where there are none.

    Parameters
    ----------
    model
        Trained model of one new state in each call.
    data
        Training data.
    error
        Relative error of the model: along held-out orbits an invariant must change by less, in
        units of its gradient.

    Examples
    --------
    >>> from vpintegrator.training.invariants import find_invariants
    >>> from vpintegrator.training.training_data import TrainingData
    >>> dataset = vp.generate("rigid-body", "body.h5", count=40, steps=20, overwrite=True)
    >>> model = vp.models.PolynomialMap(dim=3, degree=2)
    >>> found = find_invariants(model, TrainingData(dataset), error=1e-6)
    >>> found.count, found.degree  # the energy and the squared momentum
    (2, 2)
    """
    train, held_out = _orbits(model, data)
    if len(train) < ORBITS or not len(held_out) or model.dim < 2:
        return None
    levels = [*dict.fromkeys((EXACT, min(max(error, EXACT), WORST)))]

    def spaces(window: int, is_newest: bool = False) -> list[_Polynomials]:
        """Return polynomials of windows by degree, or of their newest states alone."""
        variables = model.dim * window
        degrees = [d for d in range(1, DEGREE + 1) if math.comb(d + variables, d) <= TERMS]
        return [_Polynomials(model, d, window, train, held_out, is_newest) for d in degrees]

    # those of single states come first: a window that is not quite true changes the others
    found = _independent(spaces(1), levels, model.dim - 1)
    if model.window > 1 and len(found) < model.dim - 1:
        # what is only nearly constant may grow where older states of the window count
        own = [*spaces(model.window, is_newest=True), *spaces(model.window)]
        more = _independent(own, [EXACT], model.dim - 1)
        found = more if len(more) > len(found) else found
    return _together(model, found) if found else None


def find_quadratic_invariants(
    model: Model, data: TrainingData, error: float
) -> list[list[list[float]]]:
    """Return matrices of quadratic invariants whose flows rotate planes, or none.

    They are the argument ``quadratic_invariants`` of the model ``sgf``. Those at rounding come
    first, then those that change less than the error of the model along held-out orbits. Where
    flows do not commute, as those of three angular momenta, a largest set that commutes is taken.

    Parameters
    ----------
    model
        Normalised model of states (q, p), all of whose components move.
    data
        Training data.
    error
        Relative error of the model.

    Examples
    --------
    >>> from vpintegrator.training.invariants import find_quadratic_invariants
    >>> from vpintegrator.training.training_data import TrainingData
    >>> dataset = vp.generate("kepler", "orbits.h5", count=40, steps=20, overwrite=True)
    >>> data = TrainingData(dataset)
    >>> model = vp.models.SymplecticGeneratingFunctionMap(dim=4, degree=2)
    >>> data.normalise(model)
    >>> len(find_quadratic_invariants(model, data, error=1e-6))  # the angular momentum
    1
    """
    train, held_out = _orbits(model, data)
    if len(train) < ORBITS or not len(held_out):
        return []
    space = _Polynomials(model, 2, 1, train, held_out, is_newest=False)
    points = torch.cat([torch.zeros(1, model.dim), torch.eye(model.dim)]).double()
    gradients = space.layer.jet(points)[1].numpy()  # (point, dim, term)
    for level in dict.fromkeys((EXACT, min(max(error, EXACT), WORST))):
        null = space.directions[:, space.changes < level]  # (term, direction)
        slopes = np.moveaxis(gradients @ null, -1, 0)  # (direction, point, dim)
        forms = np.zeros((len(slopes), 1 + model.dim, 1 + model.dim))
        forms[:, 0, 1:] = forms[:, 1:, 0] = slopes[:, 0] / 2
        forms[:, 1:, 1:] = (slopes[:, 1:] - slopes[:, :1]) / 2
        if found := _rotating(forms, model.dim):
            return found
    return []


def _rotating(forms: np.ndarray, dim: int) -> list[list[list[float]]]:
    """Return combinations (function, 1 + dim, 1 + dim) whose flows rotate common planes."""
    if not len(forms):
        return []
    weights = np.sqrt(2.0 + np.arange(len(forms)))
    generic = np.tensordot(weights, forms, 1)[None]  # (1, 1 + dim, 1 + dim)
    J = canonical_form(dim).numpy()
    flows = J @ forms[:, 1:, 1:]
    flow = J @ generic[:, 1:, 1:]
    brackets = (flow @ flows - flows @ flow).reshape(len(forms), dim * dim)
    _, sizes, rows = np.linalg.svd(brackets.T)
    rank = int((sizes > NEAR * (flow**2).sum()).sum())
    commuting = np.tensordot(rows[rank:], forms, 1)
    for each in (forms, commuting, generic):
        with suppress(InputError):
            Rotations.of(each, dim)
            return list(each.tolist())
    return []


def _independent(
    spaces: list[_Polynomials], levels: list[float], most: int
) -> list[tuple[_Polynomials, np.ndarray]]:
    """Return invariants, each a space and its coefficients, with independent gradients."""
    found: list[tuple[_Polynomials, np.ndarray]] = []
    if not spaces:
        return found
    count, dim, _ = spaces[0].gradients.shape
    known = np.zeros((count, dim, 0))  # gradients of those that were found
    slow = [space.slowest for space in spaces]
    for level in levels:
        for space in spaces:
            own, is_drifting = space.independent(known, slow, level, most - len(found))
            for coefficients in own:
                found.append((space, coefficients))
                known = np.concatenate([known, space.gradients @ coefficients[:, None]], -1)
            if is_drifting:  # functions of what drifts, of higher degrees, may hide that
                return found
    return found


def _orbits(model: Model, data: TrainingData) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return normalised windows (time, window, dim) of training orbits and of held-out ones."""
    groups = [
        _windows(model, data.held(name)) for name in ("train", "validation") if data.has(name)
    ]
    if len(groups) < 2 or len(groups[1]) < 2:
        whole = groups[0]
        groups = [
            [w for k, w in enumerate(whole) if (k % 5 == 4) == held] for held in (False, True)
        ]
    return groups[0], groups[1]


def _windows(model: Model, states: np.ndarray) -> list[torch.Tensor]:
    """Return whole windows of each orbit that has several of them, evenly spaced in long ones."""
    chosen = states[:: -(-len(states) // (ROWS // 3))]
    most = max(ROWS // len(chosen), 3)
    result = []
    for orbit in torch.from_numpy(chosen):
        windows = orbit.unfold(0, model.window, 1).mT if len(orbit) >= model.window else orbit[:0]
        windows = windows[torch.isfinite(windows).flatten(1).all(1)]
        if len(windows) > 1:
            places = np.linspace(0, len(windows) - 1, min(most, len(windows))).round()
            some = windows[places.astype(int)].to(model.scale)
            with torch.no_grad():
                result.append(model.coordinates(some).double().cpu())
    return result


class _Polynomials:
    """Polynomials of a degree, and how much they change along orbits.

    Attributes
    ----------
    layer
        The terms.
    directions : (term, direction)
        Orthonormal combinations of the terms.
    used : (used,)
        Numbers of the terms that count: all but the constant, or those of the newest state.
    changes : (direction,)
        Root mean square deviation of each from its mean, along held-out orbits.
    ends : (orbit, 2, used)
        Values of the terms at the first and the last state of each orbit.
    gradients : (window, dim, term)
        Derivatives of the terms by the newest state, at some windows.
    """

    def __init__(
        self,
        model: Model,
        degree: int,
        window: int,
        train: list[torch.Tensor],
        held_out: list[torch.Tensor],
        is_newest: bool,
    ) -> None:
        check_time()
        periodic = [*model.coordinates.periods]
        self.layer = PolynomialInvariants(
            model.dim, 1, degree, window=window, periodic=periodic, dtype=torch.float64
        )
        together = torch.cat(train)
        self.layer.adapt_to(self._read(together))
        orders = self.layer.orders
        others = orders[:, model.dim :] if is_newest else orders[:, :0]
        self.used = np.flatnonzero(((orders.sum(1) > 0) & (others.sum(1) == 0)).numpy())
        triangle = np.linalg.qr(self._deviations(train), mode="r")
        own = np.linalg.svd(triangle)[2].T  # (used, direction)
        self.directions = np.zeros((len(orders), own.shape[1]))
        self.directions[self.used] = own
        changes = self._deviations(held_out) @ own
        self.changes = np.sqrt((changes**2).mean(0))
        ends = self._values([each[[0, -1]] for each in (*train, *held_out)])  # (2 orbits, used)
        self.ends = ends.reshape(-1, 2, len(self.used))
        sample = together[:: -(-len(together) // SAMPLE)]
        self.gradients = self.layer.jet(self._read(sample))[1].numpy()

    def _read(self, windows: torch.Tensor) -> torch.Tensor:
        return windows[:, -1] if self.layer.window == 1 else windows

    def _deviations(self, orbits: list[torch.Tensor]) -> np.ndarray:
        """Return deviations (row, used) of the terms from their means over each orbit."""
        counts = np.cumsum([len(windows) for windows in orbits])[:-1]
        return np.concatenate([x - x.mean(0) for x in np.split(self._values(orbits), counts)])

    def _values(self, orbits: list[torch.Tensor]) -> np.ndarray:
        """Return values (row, used) of the terms."""
        values = self.layer.values(self._read(torch.cat(orbits))).numpy()
        return np.asarray(values[:, self.used])

    @property
    def slowest(self) -> np.ndarray:
        """Values (orbit,) of the function that changes least, in the middle of each orbit."""
        coefficients = self.directions[self.used, np.argmin(self.changes)]
        return np.asarray(self.ends.mean(1) @ coefficients)

    def drifts(self, coefficients: np.ndarray, slow: list[np.ndarray]) -> bool:
        """Whether a function changes from the first to the last state by more than chance.

        Noise hides a slow decay in each orbit, not in all of them: the changes depend on slow
        functions (orbit,).
        """
        first, last = np.moveaxis(self.ends @ coefficients[self.used], 1, 0)  # (orbit,) each
        columns = np.stack([np.ones_like(first), (first + last) / 2, *slow], 1)
        if len(columns) <= 2 * columns.shape[1]:
            return False
        change = last - first
        Q, sizes, _ = np.linalg.svd(columns, full_matrices=False)
        Q = Q[:, sizes > 1e-8 * sizes[0]]
        explained = Q.T @ change
        rest = change @ change - explained @ explained
        freedom = (len(change) - Q.shape[1]) / Q.shape[1]
        return bool(freedom * (explained @ explained) > DRIFT * max(rest, 1e-300))

    def independent(
        self, known: np.ndarray, slow: list[np.ndarray], level: float, most: int
    ) -> tuple[list[np.ndarray], bool]:
        """Return invariants (term,) with gradients independent of known ones and of each other.

        Also whether the next one would drift.

        Parameters
        ----------
        known : (window, dim, count)
            Gradients of invariants that are known.
        slow
            Values (orbit,) of slow functions, see :meth:`drifts`.
        level
            Largest change along held-out orbits, relative to the gradient.
        most
            Largest number of invariants.
        """
        null = self.directions[:, self.changes < level]  # (term, direction)
        own = self.gradients @ null  # (window, dim, direction)
        result: list[np.ndarray] = []
        while null.shape[1] and len(result) < most:
            basis = np.linalg.qr(known)[0]  # (window, dim, count)
            apart = own - basis @ (basis.swapaxes(-1, -2) @ own)
            # the largest independent gradient of all combinations with coefficients of one size
            _, vectors = np.linalg.eigh(np.tensordot(apart, apart, ((0, 1), (0, 1))))
            gradient = own @ vectors[:, -1]  # (window, dim)
            square = (gradient**2).sum(1).mean()
            share = ((apart @ vectors[:, -1]) ** 2).sum(1).mean()
            if not share > INDEPENDENT * square:
                break
            size = np.sqrt(square)
            coefficients = null @ vectors[:, -1] / size
            change = np.sqrt(((self.directions.T @ coefficients * self.changes) ** 2).sum())
            if change > level:
                break
            if change > EXACT and self.drifts(coefficients, slow):
                return result, True
            result.append(coefficients)
            known = np.concatenate([known, gradient[:, :, None] / size], -1)
        return result, False


def _together(model: Model, found: list[tuple[_Polynomials, np.ndarray]]) -> PolynomialInvariants:
    """Return one layer of all invariants: terms of lower degrees are among those of the highest."""
    space = max((space for space, _ in found), key=lambda each: each.layer.degree)
    sizes = {**space.layer.sizes, "count": len(found)}
    result = PolynomialInvariants(model.dim, **sizes, dtype=torch.float64)
    result.load_state_dict(space.layer.state_dict() | {"coefficients": result.coefficients})
    places = {tuple(term): n for n, term in enumerate(result.chosen.tolist())}
    for k, (own, coefficients) in enumerate(found):
        rows = [places[tuple(term)] for term in own.layer.chosen.tolist()]
        result.coefficients[rows, k] = torch.from_numpy(coefficients)
    return result
