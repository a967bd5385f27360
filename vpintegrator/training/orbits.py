"""Fits of maps to whole segments of noisy orbits with unknown first states.

Trained on pairs of noisy states, a map takes the noise of the first for a part of the motion. A
segment of an orbit that starts from a state of its own, found together with the weights, shares
one start among all the observations of it: the maximum likelihood estimate for independent noise
(Bock, Recent advances in parameter identification techniques for ODE, 1983). The first states are
eliminated from each step of Levenberg-Marquardt (Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973).
Generating functions get the estimate of the greatest posterior density, with the noise and prior of
``posterior.py``. Otherwise coefficients that the orbits do not determine grow until the normal
approximation fails.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, jacfwd, vmap

from vpintegrator.arguments import check_integrator, whole
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import TimeIsUp, check_time, until
from vpintegrator.storage.reading import read_json
from vpintegrator.training.composed import state_derivatives
from vpintegrator.training.history import History
from vpintegrator.training.judgement import doubt
from vpintegrator.training.posterior import is_estimated, posterior_of_orbits, regularise
from vpintegrator.training.residuals import ParameterVector, relative_error
from vpintegrator.training.training_data import IN_MEMORY, TrainingData

EPOCHS = 50
DAMPING, _LARGEST_DAMPING = 1e-3, 1e8
SETTLED = 1e-5  # relative fall of the cost from which on nothing more is learned
_NEARLY_SETTLED = 1e-2  # and from which on segments may be longer
_MOST = 100_000  # states of a group
_LARGEST = 1 << 24  # numbers of derivatives that are computed at a time


@dataclass(frozen=True)
class OrbitFit:
    """Result of a fit to segments of orbits.

    Attributes
    ----------
    training, validation
        Root mean square distance of the observations from the fitted segments after each iteration,
        for each component, in units of the component's standard deviation. With noise of relative
        size s the distance cannot fall below about s.
    best
        Iteration whose weights were kept: that of the smallest validation distance, or for
        generating functions of double precision the last one.
    segments
        Numbers of fitted segments, in training and validation.
    length
        Steps of each segment; fewer than the full length if time was up.
    validation_error, test_error
        Errors of the fitted model one step ahead, as in :class:`vpintegrator.training.History`.
    """

    training: list[float]
    validation: list[float]
    best: int
    segments: tuple[int, int]
    length: int
    validation_error: float = math.nan
    test_error: float = math.nan


def fit_orbits(
    model: Integrator,
    dataset: TrainingData | Dataset,
    length: int = 25,
    *,
    epochs: int = EPOCHS,
    seconds: float | None = None,
    states: int = _MOST,
    progress: Callable[[int, float], None] | None = None,
) -> OrbitFit:
    """Fit a trained one-step model, in place, to segments of orbits with unknown first states.

    For noisy data. The model is trained on pairs of states before, see :func:`vpintegrator.train`;
    its metadata tell of the fit, and of the errors after it.

    Parameters
    ----------
    model
        A one-step model in double precision; small, as each iteration takes its derivatives by all
        parameters along all segments, in PyTorch.
    dataset
        Dataset on which the model was trained.
    length
        Steps of a segment. Long ones say more; a quarter and a half of them are fitted before.
    epochs, seconds
        Limits: iterations for each length, and seconds.
    states
        Largest number of fitted states of a group, evenly from all.
    progress
        Called after each iteration with its number and the validation's distance.

    Raises
    ------
    InputError
        If the model reads several states, or no orbit has so many steps observed one after another.

    Examples
    --------
    >>> noisy = vp.generate(
    ...     "pendulum", "noisy.h5", count=20, steps=20, observation={"noise": 0.01}, overwrite=True
    ... )
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, functions="polynomial", degree=3)
    >>> history = vp.train(model, noisy, epochs=20)
    >>> fit = vp.training.fit_orbits(model, noisy, length=10, epochs=3)
    >>> len(fit.training) <= 3
    True
    """
    check_integrator(model)
    data = TrainingData.of(dataset)
    whole("length", length, 1)
    if model.window != 1:
        raise InputError(f"orbits are fitted by one-step models, and {model.name} reads several")
    end = math.inf if seconds is None else time.perf_counter() + seconds
    parameters = ParameterVector(model)
    fit = None
    # a map that is fitted to short segments follows longer ones
    parts = sorted({max(length // 4, 1), max(length // 2, 1), length}, reverse=True)
    segments = [Segments.of(model, data, "train", part, most=states) for part in parts]
    late, estimated = False, is_estimated(model, data)
    for part, own in list(zip(parts, segments, strict=True))[::-1]:
        if late:
            break
        held_out = Segments.of(model, data, "validation", part, own.unit, states)
        theta = kept = parameters.read().double()
        settled = SETTLED if part == length else _NEARLY_SETTLED
        best, chosen, damping = math.inf, 0, DAMPING
        training, validation = list[float](), list[float]()
        for epoch in range(1, epochs + 1):
            try:
                # the first iteration of all is done in any case
                with until(math.inf if fit is None and epoch == 1 else end, anew=True):
                    if estimated:
                        regularise(model, own, theta)
                    before = own.cost(theta, own.first)
                    theta, cost, damping = own.step(theta, before, damping)
                    validation.append(held_out.distance(held_out.settled(theta)))
            except TimeIsUp:
                late = True
                break
            training.append(own.distance(own.squares(theta)))
            # with a prior the coefficients of the greatest posterior density are kept, the last
            if validation[-1] < (math.inf if own.prior.any() else best):
                best, kept, chosen = validation[-1], theta, epoch
            if progress:
                progress(epoch, validation[-1])
            if not before - cost > settled * before or time.perf_counter() > end:
                break
        if not training:
            break
        parameters.write(kept.to(model.scale))
        fitted = own
        fit = OrbitFit(training, validation, chosen, (own.count, held_out.count), part)
    assert fit is not None
    model.posterior = None
    if estimated:
        model.posterior = posterior_of_orbits(model, fitted, parameters.read())
    model.metadata["orbits"] = f"fitted to {fit.segments[0]} segments of {fit.length} steps"
    return _judged(model, data, fit)


def orbit_distance(
    model: Integrator, data: TrainingData, length: int, group: str = "validation"
) -> tuple[float, float]:
    """Return the distance of observed orbits from the model's, see ``OrbitFit``.

    The second number is its relative standard error, of independent normal noise.

    Raises
    ------
    InputError
        If no orbit has so many steps observed one after another.
    """
    segments = Segments.of(model, data, group, length)
    distance = segments.distance(segments.settled(segments.parameters.read().double()))
    return distance, 1 / math.sqrt(2 * segments.count * length * segments.moving)


def _judged(model: Integrator, data: TrainingData, fit: OrbitFit) -> OrbitFit:
    """Return the fit with the errors of the fitted model, also stored in its metadata."""
    held_out, scale = data.held_out(model), data.error_scale
    error, test_error = relative_error(model, *held_out, scale=scale), data.test_error(model)
    history = History("", 0, 0, best_validation_error=error, test_error=test_error)
    errors: dict[str, Any] = {"best_validation_error": error, "test_error": test_error}
    errors["warning"] = doubt(model, held_out, scale, history)
    told = read_json(model.metadata.get("training", "{}"), "what is told of the training")
    model.metadata["training"] = json.dumps(told | errors)
    return replace(fit, validation_error=error, test_error=test_error)


class Segments:
    """Segments of observed orbits, and the states that they are taken to start from.

    Parameters
    ----------
    model
        A one-step model.
    seen : (segment, time, dim)
        The observations.
    unit : (component,), optional
        Units of the residuals of each component; their spread by default.
    """

    def __init__(
        self, model: Integrator, seen: np.ndarray, unit: torch.Tensor | None = None
    ) -> None:
        self.parameters = ParameterVector(model)
        self.model, self.moving = model, model.state_dim
        self.count = len(seen)
        # (segment, time, dim)
        self.seen = torch.from_numpy(seen).to(model.scale.device)
        self.first = self.seen[:, 0, : self.moving].clone()
        spread = self.seen[..., : self.moving].flatten(0, 1).std(0)
        self.unit = torch.where(spread > 0, spread, 1.0) if unit is None else unit
        # residuals are in units of the noise (component,), itself in units of the spread
        self.noise = torch.ones_like(self.unit)
        self.prior = torch.zeros(sum(self.parameters.sizes)).to(self.unit)  # precision
        numbers = self.seen.shape[1] * self.moving * sum(self.parameters.sizes)
        self.chunk = max(1, _LARGEST // numbers)
        on_cpu = model.scale.device.type == "cpu"
        self.implicit = model.linear_in_parameters and on_cpu
        by = (jacfwd(self._residuals_of_one, argnums=argnums) for argnums in ((0, 1), 1))
        self.automatic, self.by_first = (vmap(each, (None, 0, 0)) for each in by)

    @classmethod
    def of(
        cls,
        model: Integrator,
        data: TrainingData,
        group: str,
        length: int,
        unit: torch.Tensor | None = None,
        most: int = _MOST,
    ) -> Segments:
        """Return segments of a group that do not overlap.

        Raises
        ------
        InputError
            If no orbit has so many steps observed one after another.
        """
        return cls(model, _segments(data.dataset, group, length, model.state_dim, most), unit)

    @classmethod
    def known(cls, model: Integrator, data: TrainingData, length: int) -> Segments:
        """Return segments of the training and validation groups that do not overlap.

        Raises
        ------
        InputError
            If a group has no orbit of so many steps.
        """
        groups = [name for name in ("train", "validation") if data.has(name)]
        found = [_segments(data.dataset, name, length, model.state_dim, _MOST) for name in groups]
        return cls(model, np.concatenate(found))

    def distance(self, cost: float) -> float:
        return math.sqrt(cost / (self.count * self.seen.shape[1] * self.moving))

    def cost(self, theta: torch.Tensor, first: torch.Tensor) -> float:
        """Twice the negative logarithm of the posterior density, up to a constant."""
        squares = self.residuals(theta, first, self.seen).square().sum()
        return float(squares + (self.prior * theta.square()).sum())

    def squares(self, theta: torch.Tensor) -> float:
        """Sum of squared residuals, in units of the spread."""
        r = self.residuals(theta, self.first, self.seen).unflatten(1, (-1, self.moving))
        return float((r * self.noise).square().sum())

    def parts(self) -> Iterator[slice]:
        """Segments whose derivatives are computed at once."""
        for begin in range(0, self.count, self.chunk):
            check_time()
            yield slice(begin, begin + self.chunk)

    def settled(self, theta: torch.Tensor, iterations: int = 3) -> float:
        """Return the cost with the best first states for these weights, which are not changed."""
        cost = 0.0
        for part in self.parts():
            first, seen = self.first[part], self.seen[part]
            r = self.residuals(theta, first, seen)
            if not bool(r.isfinite().all()):  # the map leaves its domain on the way
                return math.inf
            for _ in range(iterations):
                if self.implicit:
                    D = self.derivatives(theta, first, seen, r)[1]
                else:
                    D = self.by_first(theta, first, seen)
                moved = first - torch.linalg.lstsq(D, r.unsqueeze(-1)).solution[..., 0]
                new, before = self.residuals(theta, moved, seen), float(r.square().sum())
                better = (new.square().sum(1) < r.square().sum(1))[:, None]
                first, r = torch.where(better, moved, first), torch.where(better, new, r)
                if before - float(r.square().sum()) <= SETTLED * before:
                    break
            self.first[part] = first
            cost += float(r.square().sum())
        return cost

    def step(
        self, theta: torch.Tensor, cost: float, damping: float
    ) -> tuple[torch.Tensor, float, float]:
        """Return an iteration: weights, cost and damping after it."""
        normal, gradient = torch.diag(self.prior), self.prior * theta
        of_first = list[tuple[torch.Tensor, ...]]()
        for part in self.parts():
            first, seen = self.first[part], self.seen[part]
            r = self.residuals(theta, first, seen)
            by_weights, by_first = self.derivatives(theta, first, seen, r)
            r = r.unsqueeze(-1)
            # the part that the first states cannot compensate
            Q, R = torch.linalg.qr(by_first)
            of_first.append((R, Q.mT @ r, Q.mT @ by_weights))
            rest = (by_weights - Q @ of_first[-1][2]).flatten(0, 1)
            normal += rest.mT @ rest
            gradient += rest.mT @ (r - Q @ of_first[-1][1]).flatten()
        R, r, by_weights = (torch.cat(each) for each in zip(*of_first, strict=True))
        diagonal = normal.diagonal().clamp(min=1e-12 * float(normal.diagonal().max()))
        while damping < _LARGEST_DAMPING:
            change = -torch.linalg.solve(normal + damping * torch.diag(diagonal), gradient)
            moved = r + (by_weights @ change).unsqueeze(-1)
            first = self.first - torch.linalg.solve_triangular(R, moved, upper=True)[..., 0]
            new = self.cost(theta + change, first)
            if new < cost:
                self.first = first
                return theta + change, new, damping / 10
            damping *= 10
        return theta, cost, damping

    def residuals(
        self, theta: torch.Tensor, first: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """All states of segments, the first among them, less those seen (segment, number)."""
        weights, z, found = self.parameters.named(theta), first, [first]
        for extended in seen[:, :-1].unbind(1):
            check_time()
            window = torch.cat([z, extended[:, self.moving :]], 1).unsqueeze(1)
            z = functional_call(self.model, weights, (window,))[:, 0, : self.moving]
            found.append(z)
        distance = torch.stack(found, 1) - seen[..., : self.moving]
        return (distance / (self.unit * self.noise)).flatten(1)

    def _residuals_of_one(
        self, theta: torch.Tensor, first: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        return self.residuals(theta, first[None], seen[None])[0]

    def derivatives(
        self, theta: torch.Tensor, first: torch.Tensor, seen: torch.Tensor, r: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return derivatives of the residuals r by weights and by first states."""
        if not self.implicit:
            return self.automatic(theta, first, seen)
        n, count, unit = self.moving, len(theta), self.unit * self.noise
        states = r.view(len(first), -1, n) * unit
        windows = seen[:, :-1].clone()
        windows[..., :n] += states[:, :-1]
        before = self.parameters.read()
        self.parameters.write(theta)
        try:
            by_weights, by_states = state_derivatives(self.model, windows.flatten(0, 1))
        finally:
            self.parameters.write(before)
        by_weights, by_states = (
            each[:, :n].unflatten(0, windows.shape[:2]).unbind(1)
            for each in (by_weights, by_states[..., :n])
        )
        D = torch.eye(n, count + n, dtype=theta.dtype).roll(count, 1).expand(len(first), -1, -1)
        found = [D]
        for by_own, by_state in zip(by_weights, by_states, strict=True):
            D = by_state @ D
            D[..., :count] += by_own
            found.append(D)
        both = (torch.stack(found, 1) / unit[:, None]).flatten(1, 2)
        return both[..., :count], both[..., count:]


def _segments(dataset: Dataset, group: str, length: int, moving: int, most: int) -> np.ndarray:
    """Segments (segment, length + 1, dim) of a group that do not overlap, as many as are usual.

    Pairs of states that follow one another, each a trajectory of its own with its own step, are put
    together again.
    """
    _, times, dim = dataset.shapes[group]
    if not times:
        raise InputError(f"{dataset.path} has no states in the group {group}")
    states = dataset.states(group, slice(-(-IN_MEMORY // (8 * times * dim))))
    orbits = _joined(states, moving) if states.shape[1] == 2 else list(states)
    found = [
        orbit[begin : begin + length + 1]
        for orbit in orbits
        for begin in range(0, len(orbit) - length, length)
    ]
    found = [part for part in found if np.isfinite(part).all()]
    if not found:
        raise InputError(
            f"{dataset.path}, {group}: no orbit has {length} steps observed one after another; "
            "fit shorter segments"
        )
    every = -(-len(found) * (length + 1) // most)
    return np.stack(found[::every])


def _joined(pairs: np.ndarray, moving: int) -> list[np.ndarray]:
    """Return orbits (time, dim) of pairs in which each begins where the one before ends."""
    ends = (pairs[1:, 0, :moving] != pairs[:-1, 1, :moving]).any(1)
    parts = np.split(pairs, np.flatnonzero(ends) + 1)
    # the components of a step stand at its beginning; the last state has none, and needs none
    return [np.concatenate([part[:, 0], part[-1:, 1]]) for part in parts]
