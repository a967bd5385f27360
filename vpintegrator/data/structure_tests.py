"""Statistical tests of structure: properties of a map that pairs of its states support.

Polynomials of cross-validated degree are fitted to the map and to its inverse. The mean of both
Jacobians, (M + N^-1)/2, cancels the attenuation that noise on the states causes in each (Fuller,
Measurement Error Models, 1987, section 1.1). A property is a set of contrasts that vanish where it
holds: moments of log det M for volume, of M^T J M - J for the symplectic form. Their covariance is
that of the jackknife over trajectories or parts of them (Efron and Stein, Ann. Statist. 9 (1981)
586), so residuals may be correlated. The mean square of the contrasts over their standard errors
is compared with an F distribution of matched moments (Satterthwaite, Biometrics 2 (1946) 110).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import special

from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.data.polynomial_fit import GroupedFit, Polynomials, fit_groups
from vpintegrator.errors import InputError

Contrasts = Callable[[np.ndarray], np.ndarray]  # of Jacobians (1 + group, point, dim, dim)

LEVEL = 0.01  # p-value below which a property is rejected
TOLERANCE = 0.05  # departure, relative to that of a general map, up to which a property holds
_PAIRS = 20_000  # pairs that are used at most
_READ = 10 * _PAIRS  # states that are read at most, some of which may not be observed
_POINTS = 400  # states at which Jacobians are compared
_GROUPS = 40
_FEWEST = 10  # groups
_TERMS = 250  # polynomials of a fit
_ROWS = 3  # pairs for each polynomial
_HIGHEST = 14  # degree
_MATERIAL = 1e-6  # departure that is not told from errors of solvers and rounding
_FALLING = 0.5  # mean square error, relative to that of the degree before, of a fit that converges
_FREQUENCIES = 64
_COMPONENTS = 12  # states of more components are not tested
_SIGNS = 4  # components up to which all signs are candidates of reversing symmetries


@dataclass(frozen=True)
class StructureTest:
    """Result of the test of one property.

    Attributes
    ----------
    name
        Property: ``volume``, ``contraction``, ``symplectic``, ``symplectic up to a factor``,
        ``reversing symmetry``, ``translation`` or ``autonomous``.
    what
        Image of the state under a reversing symmetry, component of a translation; else empty.
    answer
        ``yes``, ``no`` or ``not decided``.
    p
        Probability of data that contradict the property as much or more, if it holds; NaN where
        there is no test.
    departure
        Departure from the property plus its standard error, relative to that of a map without it.
    value, standard_error
        Estimated rate at which volumes contract, in units of 1/time, for ``contraction``; else NaN.
    reason
        Cause why the property is not decided, or empty.
    signs
        Signs of the components under a reversing symmetry; else empty.
    """

    name: str
    what: str = ""
    answer: str = "not decided"
    p: float = math.nan
    departure: float = math.nan
    value: float = math.nan
    standard_error: float = math.nan
    reason: str = ""
    signs: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Data:
    """Pairs of states, in units of the spread of each component.

    Attributes
    ----------
    before, after : (pair, dim)
        After is continued over the jumps of angles.
    groups, trajectory, time : (pair,)
    scale : (dim,)
        Spread of each component.
    """

    before: np.ndarray
    after: np.ndarray
    groups: np.ndarray
    trajectory: np.ndarray
    time: np.ndarray
    scale: np.ndarray
    periods: Mapping[int, float]
    step: float

    @property
    def dim(self) -> int:
        return self.before.shape[1]


def inspect_structure(
    dataset: Dataset | str | os.PathLike[str],
    group: str = "train",
    canonical: bool | None = None,
) -> list[StructureTest]:
    """Test which structure the states of a dataset support.

    Parameters
    ----------
    dataset
        A dataset, or the path of one. Its equations are not used.
    group
        ``train``, ``validation`` or ``test``.
    canonical
        Whether the first half of the components are positions and the others their momenta; by
        default this is tested if components are even in number.

    Returns
    -------
    list of StructureTest
        One for each property and candidate.

    Raises
    ------
    InputError
        If there is no such dataset or group, or positions and momenta are an odd number.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=60, steps=20, overwrite=True)
    >>> tests = vp.data.inspect_structure(dataset)
    >>> [test.answer for test in tests if test.name == "volume"]
    ['yes']
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    system = dataset.system
    if canonical is None:
        canonical = dataset.dim % 2 == 0
    if canonical and dataset.dim % 2:
        raise InputError(f"positions and momenta are even in number; there are {dataset.dim}")
    if dataset.is_family:
        return _undecided("each trajectory has its own step or parameters")
    if dataset.dim > _COMPONENTS:
        return _undecided(f"there are more than {_COMPONENTS} components")
    count, length, _ = dataset.shapes[group]
    if not count or length < 2:
        return _undecided("there are too few pairs of states")
    read = _READ // length
    states = dataset.states(group, slice(0, max(1, read)), slice(0, _READ))
    step = 1.0 if system.is_discrete else dataset.step
    return structure_of_states(
        states, step, canonical=canonical, periods=system.periods, names=system.components
    )


def structure_of_states(
    states: np.ndarray,
    step: float = 1.0,
    *,
    canonical: bool = False,
    periods: Mapping[int, float] | None = None,
    names: Sequence[str] | None = None,
) -> list[StructureTest]:
    """Test which structure trajectories (trajectory, time, dim) at equal steps support.

    Parameters are those of :func:`inspect_structure`; ``periods`` are those of angles.
    """
    data = _prepared(np.asarray(states, float), step, dict(periods or {}))
    if data is None:
        return _undecided("there are too few pairs of states")
    return list(_Tests(data, canonical, names or [f"z{k + 1}" for k in range(data.dim)]).run())


def _undecided(reason: str) -> list[StructureTest]:
    names = ("volume", "contraction", "reversing symmetry", "translation", "autonomous")
    return [StructureTest(name, reason=reason) for name in names]


def _prepared(states: np.ndarray, step: float, periods: dict[int, float]) -> _Data | None:
    """Return pairs of neighbours in groups; None if there are too few."""
    count, length, dim = states.shape
    trajectory, time = (
        np.broadcast_to(each, (count, length - 1)).ravel()
        for each in (np.arange(count)[:, None], np.arange(length - 1))
    )
    before, after = states[:, :-1].reshape(-1, dim), states[:, 1:].reshape(-1, dim)
    seen = np.isfinite(before).all(1) & np.isfinite(after).all(1)
    places = np.flatnonzero(seen)
    if len(places) > _PAIRS:
        places = _of_whole_trajectories(places, trajectory)
    before, after, trajectory, time = (each[places] for each in (before, after, trajectory, time))
    own = np.unique(trajectory)
    if len(own) >= _GROUPS // 2:
        groups = np.searchsorted(own, trajectory) % _GROUPS
    else:  # parts of trajectories
        groups = np.arange(len(before)) * _GROUPS // max(len(before), 1)
    groups = np.unique(groups, return_inverse=True)[1]
    fewest = _ROWS * Polynomials.count(dim, 1)
    if len(before) < max(fewest, _FEWEST) or groups.max() + 1 < _FEWEST:
        return None
    after = after.copy()
    for k, period in periods.items():
        after[:, k] -= period * np.round((after[:, k] - before[:, k]) / period)
    spread = before.std(0)
    scale = np.where(spread > 0, spread, 1.0)
    moved = {k: period / scale[k] for k, period in periods.items()}
    return _Data(before / scale, after / scale, groups, trajectory, time, scale, moved, step)


def _of_whole_trajectories(places: np.ndarray, trajectory: np.ndarray) -> np.ndarray:
    """Return the first places of each trajectory, as many as are used."""
    counts = np.unique(trajectory[places], return_counts=True)[1]
    each = max(_PAIRS // len(counts), 1)
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(places)) - np.repeat(starts, counts)
    return places[rank < each][:_PAIRS] if len(counts) > 1 else places[:_PAIRS]


class _Tests:
    """All tests of one set of pairs.

    Attributes
    ----------
    forward, backward
        Fits of the map and of its inverse.
    coarse
        The same of one degree less, if the error still falls; else None.
    """

    def __init__(self, data: _Data, canonical: bool, names: Sequence[str]) -> None:
        self.data, self.canonical, self.names = data, canonical, names
        every = np.linspace(0, len(data.before) - 1, min(_POINTS, len(data.before))).astype(int)
        self.places = np.unique(every)
        self._fit()
        self.weights = _moments(data.before[self.places])
        self.jacobians = self._mean_jacobians(self.forward, self.backward)
        self.coarse_jacobians = None if self.coarse is None else self._mean_jacobians(*self.coarse)
        change = self.jacobians[0] - np.eye(data.dim)
        self.size = math.sqrt(float((change**2).sum((1, 2)).mean()))
        moved = data.after - data.before
        self.moved = math.sqrt(float((moved**2).sum(1).mean()))

    def _fit(self) -> None:
        """Fit polynomials of one degree more than the cross-validated error chooses."""
        data, noise = self.data, 0.0
        moved, fits = data.after - data.before, list[tuple[GroupedFit, GroupedFit]]()

        def both(degree: int) -> tuple[GroupedFit, GroupedFit]:
            shared = data.groups, degree, data.periods, noise
            return fit_groups(data.before, moved, *shared), fit_groups(data.after, -moved, *shared)

        for degree in range(1, _HIGHEST + 1):
            terms = Polynomials.count(data.dim, degree)
            if degree > 1 and (terms > _TERMS or _ROWS * terms > len(moved)):
                break
            fits.append(both(degree))
            errors = np.array([max(fit.error for fit in pair) for pair in fits])
            best = int(errors.argmin())
            if degree - 1 - best >= 2:
                break
        falling = best == len(fits) - 1 and best > 0 and errors[best] < _FALLING * errors[best - 1]
        deviation = max(fit.error_deviation(data.groups) for fit in fits[best])
        lowest = int((errors <= errors[best] + deviation).argmax())
        self.error = math.sqrt(errors[best] * data.dim)
        noise = math.sqrt(errors[best] / 2)  # of two states
        for degree in range(min(best + 1, len(fits) - 1), lowest - 1, -1):
            self.forward, self.backward = both(degree + 1)
            self.near_surface = self.forward.unresolved + self.backward.unresolved > 0
            if not self.near_surface:  # noise blurs no polynomial
                break
        self.coarse = both(best) if falling else None

    def _mean_jacobians(self, forward: GroupedFit, backward: GroupedFit) -> np.ndarray:
        """Return the means of M and N^-1, (1 + group, point, dim, dim)."""
        ahead = forward.jacobians(self.data.before[self.places])
        back = backward.jacobians(self.data.after[self.places])
        return np.asarray((ahead + np.linalg.inv(back)) / 2)

    def run(self) -> Iterator[StructureTest]:
        """Yield the results."""
        autonomous = self._autonomous()
        for test in (*self._of_jacobians(), *self._reversing()):
            if autonomous.answer == "no":
                reason = "the map depends on time"
                yield StructureTest(test.name, test.what, reason=reason, signs=test.signs)
            else:
                yield test
        yield autonomous

    def _of_jacobians(self) -> Iterator[StructureTest]:
        n = self.data.dim
        names = ["volume", "contraction"]
        if self.canonical:
            names += ["symplectic", "symplectic up to a factor"][0 if n > 2 else 1 :]
        if self.near_surface:
            reason = "the states lie near a surface of fewer dimensions"
            for name in names:
                yield StructureTest(name, reason=reason)
            for name in self.names:
                yield StructureTest("translation", name, reason=reason)
            return
        logs = self._tested(lambda m: self._weighted(_log_det(m)[..., None]), self.size)
        yield replace(logs, name="volume")
        yield self._contraction()
        if self.canonical and n > 2:
            yield replace(self._tested(self._form, self.size), name="symplectic")
        if self.canonical:
            tested = self._tested(self._form_up_to_factor, self.size)
            yield replace(tested, name="symplectic up to a factor")
        for k, name in enumerate(self.names):
            tested = self._tested(self._of_column(k), self.size / math.sqrt(n))
            yield replace(tested, name="translation", what=name)

    def _of_column(self, k: int) -> Contrasts:
        return lambda m: self._weighted(m[..., k] - np.eye(self.data.dim)[k])

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        """Return moments (1 + group, contrast) of values (1 + group, point, k)."""
        found = np.einsum("gpk,pw->gkw", values, self.weights, optimize=True) / len(self.weights)
        return np.asarray(found.reshape(len(values), -1))

    def _form(self, m: np.ndarray) -> np.ndarray:
        """Return the mean entries of M^T J M - J above the diagonal."""
        J = _canonical_form(self.data.scale)
        change = (np.swapaxes(m, -1, -2) @ J @ m - J).mean(1)
        return np.asarray(change[:, *np.triu_indices(len(J), 1)])

    def _form_up_to_factor(self, m: np.ndarray) -> np.ndarray:
        """Return the same less a multiple of J, and moments of log det M without its mean."""
        J = _canonical_form(self.data.scale)
        above = np.triu_indices(len(J), 1)
        form = (np.swapaxes(m, -1, -2) @ J @ m)[..., *above].mean(1)
        unit = J[above] / np.linalg.norm(J[above])
        rest = form - (form @ unit)[:, None] * unit
        basis = np.linalg.svd(unit[None])[2][1:]  # contrasts other than the factor
        logs = self._weighted(_log_det(m)[..., None])[:, 1:]
        return np.concatenate([rest @ basis.T, logs], 1)

    def _contraction(self) -> StructureTest:
        values, errors, _ = self._estimated(lambda m: _log_det(m).mean(1)[:, None])
        t = float(values[0] / errors[0])
        p = float(2 * special.stdtr(self._freedom, -abs(t)))
        step = self.data.step
        departure = float((abs(values[0]) + errors[0]) / self.size)
        constant = _answer(p, departure)  # whether volumes are, in the mean
        answer = {"yes": "no", "no": "yes" if t < 0 else "no"}.get(constant, constant)
        return StructureTest(
            "contraction", "", answer, p, departure, -values[0] / step, errors[0] / step
        )

    @property
    def _freedom(self) -> int:
        return int(self.data.groups.max())

    def _estimated(self, contrasts: Contrasts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return contrasts of all pairs, their standard errors and their correlation matrix."""
        coarse = self.coarse_jacobians
        truncation = None if coarse is None else contrasts(coarse[:1])[0]
        return _varied(contrasts(self.jacobians), truncation)

    def _tested(self, contrasts: Contrasts, size: float) -> StructureTest:
        return _judged(*self._estimated(contrasts), self._freedom, size)

    def _reversing(self) -> Iterator[StructureTest]:
        """Yield a test for each candidate: a diagonal R with R f R = f^-1."""
        n = self.data.dim
        for signs in _candidate_signs(n, self.canonical):
            named = zip(signs, self.names, strict=True)
            what = ", ".join(name if sign > 0 else f"-{name}" for sign, name in named)
            tested = self._reversed(np.array(signs))
            yield replace(tested, name="reversing symmetry", what=what, signs=signs)

    def _reversed(self, signs: np.ndarray) -> StructureTest:
        data = self.data
        states = data.before[self.places]
        most = self.backward.leverages(data.after[self.places]).max()
        inside = self.backward.leverages(states * signs) <= most
        if inside.sum() < _ROWS * self.weights.shape[1]:
            return StructureTest("", reason="the states do not cover both a state and its image")
        states = states[inside]
        weights = _moments(states)

        def contrasts(forward: GroupedFit, backward: GroupedFit) -> np.ndarray:
            moved = forward.displacements(states) - signs * backward.displacements(states * signs)
            found = np.einsum("gpk,pw->gkw", moved, weights, optimize=True) / len(states)
            return np.asarray(found.reshape(len(found), -1))

        coarse = None if self.coarse is None else contrasts(*self.coarse)[0]
        found = _varied(contrasts(self.forward, self.backward), coarse)
        return _judged(*found, self._freedom, self.moved)

    def _autonomous(self) -> StructureTest:
        """Test whether residuals depend on time in the same way along all trajectories."""
        data, name = self.data, "autonomous"
        own, number = np.unique(data.trajectory, return_inverse=True)
        length = int(data.time.max()) + 1
        if len(own) < _FEWEST or length < 3:
            return StructureTest(name, reason=f"fewer than {_FEWEST} trajectories of equal times")
        if self.coarse is not None:  # residuals are those of the polynomials
            share = self.error / self.moved
            answer = "yes" if share < TOLERANCE else "not decided"
            return StructureTest(name, "", answer, math.nan, share)
        moments = np.concatenate([np.ones((len(number), 1)), data.before - data.before.mean(0)], 1)
        residuals = self.forward.left_out
        products = (residuals[:, :, None] * moments[:, None]).reshape(len(number), -1)
        best = StructureTest(name, p=1.0)
        count = min(length // 2, _FREQUENCIES)
        for frequency in np.unique(np.linspace(1, length // 2, count).astype(int)):
            phase = 2 * np.pi * frequency / length * data.time
            parts = np.concatenate([products.T * np.cos(phase), products.T * np.sin(phase)])
            sums = np.stack([np.bincount(number, part, len(own)) for part in parts], 1)
            error = sums.std(0, ddof=1) / math.sqrt(len(own))
            correlation = np.asarray(np.corrcoef(sums.T))
            pairs = len(number) / len(own)
            tested = _judged(
                sums.mean(0) / pairs, error / pairs, correlation, len(own) - 1, self.moved
            )
            if tested.p < best.p:
                best = replace(tested, name=name)
        p = min(1.0, best.p * count)
        return replace(best, p=p, answer=_answer(p, best.departure))


def _log_det(matrices: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.slogdet(matrices)[1])


def _canonical_form(scale: np.ndarray) -> np.ndarray:
    """Return J in units of the spread of each component, its largest entry one."""
    half = len(scale) // 2
    J = np.zeros((2 * half, 2 * half))
    J[range(half), range(half, 2 * half)] = scale[:half] * scale[half:]
    return np.asarray((J - J.T) / J.max())


def _moments(states: np.ndarray) -> np.ndarray:
    """Return orthonormal weights (state, weight): of 1, each component and each square."""
    columns = np.concatenate([np.ones((len(states), 1)), states, states**2], 1)
    q, r = np.linalg.qr(columns)
    kept = np.abs(np.diag(r)) > 1e-6 * np.linalg.norm(columns, axis=0)
    q = q * np.sign(np.diag(r) + (np.diag(r) == 0))
    return np.asarray(q[:, kept] * math.sqrt(len(states)))


def _candidate_signs(dim: int, canonical: bool) -> list[tuple[int, ...]]:
    """Return signs of the components, without the identity."""
    if dim <= _SIGNS:
        return [each for each in product((1, -1), repeat=dim) if -1 in each]
    found = [tuple(-1 if j == k else 1 for j in range(dim)) for k in range(dim)]
    if canonical:
        half = dim // 2
        found = [(1,) * half + (-1,) * half, (-1,) * half + (1,) * half, *found]
    return found


def _varied(
    contrasts: np.ndarray, truncation: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return estimate, standard errors and correlation of contrasts (1 + group, contrast).

    ``truncation`` is the estimate by polynomials of one degree less; its difference is an error.
    """
    estimate, differences = contrasts[0], contrasts[1:] - contrasts[0]
    covariance = differences.T @ differences
    variance = np.diag(covariance).copy()
    safe = np.sqrt(np.where(variance > 0, variance, 1.0))
    if truncation is not None:
        variance += (estimate - truncation) ** 2
    rounding = np.finfo(float).eps  # of Jacobians
    return estimate, np.sqrt(variance) + rounding, covariance / np.outer(safe, safe)


def _judged(
    estimate: np.ndarray, error: np.ndarray, correlation: np.ndarray, freedom: int, size: float
) -> StructureTest:
    """Return the answer for contrasts that vanish where a property holds."""
    count = len(estimate)
    square = float((correlation**2).sum()) - count * (count - 1) / freedom
    effective = count**2 / min(max(square, count), count**2)
    p = float(special.fdtrc(effective, freedom, float(((estimate / error) ** 2).mean())))
    departure = float(np.linalg.norm(estimate) + np.linalg.norm(error)) / size
    return StructureTest("", "", _answer(p, departure), p, departure)


def _answer(p: float, departure: float) -> str:
    if p < LEVEL and departure > _MATERIAL:
        return "no"
    return "yes" if departure < TOLERANCE else "not decided"
