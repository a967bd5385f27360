"""Conformally symplectic maps from pairs of states: coefficients, and the constant of friction.

The coefficients at a given contraction are linear least squares. The contraction minimises the
leave-one-out mean square error, a parabola near its minimum. The equations treat states and images
alike (their exchange changes the sign of the contraction), so noise on both does not bias it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from vpintegrator.models import Integrator
from vpintegrator.nn.symplectic_generating import SymplecticGeneratingFunction
from vpintegrator.storage.reading import read_json
from vpintegrator.training.linear import (
    LinearFit,
    fit_linear,
    implicit_map,
    linear_part,
    normalised_pairs,
)

KEY = "damping"  # key of the metadata
_WIDTH = 0.1  # of the first parabola, relative to the contraction
_LEAST = 1e-3  # of the same, where the contraction is near zero
_ROUNDS = 8  # parabolas; exact data take four
_SETTLED = 0.01  # relative change of the mean square error below which no further one is tried


class Friction(NamedTuple):
    """Contraction of a step, and its standard error."""

    contraction: float
    standard_error: float

    @property
    def text(self) -> str:
        """JSON for the metadata of a model."""
        return json.dumps(self._asdict())


def friction_of(model: Integrator) -> Friction | None:
    """Return the friction that training found; None for models without damping.

    Raises
    ------
    InputError
        If the metadata are not those of a training.
    """
    if KEY not in model.metadata:
        return None
    found = read_json(model.metadata[KEY], "the damping of the model")
    return Friction(*(float(found[name]) for name in Friction._fields))


def is_damped(model: Integrator) -> bool:
    """Whether a model has a constant of friction."""
    return bool(getattr(implicit_map(model), "damped", False))


def fit_damped(
    model: Integrator,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    far: bool = False,
    start: Integrator | None = None,
) -> LinearFit:
    """Set coefficients and contraction of a damped generating function.

    Parameters
    ----------
    model, inputs, targets, far
        Arguments of ``fit_linear``.
    start
        The fitted model of a lower degree, if there is one, whose contraction is the first guess;
        else that of linear maps forward and backward.

    Raises
    ------
    InputError
        As ``fit_linear``.
    """
    before, after = normalised_pairs(model, inputs, targets)
    layer: Any = implicit_map(model)
    seconds, fits = 0.0, dict[float, LinearFit]()

    def fitted(contraction: float) -> LinearFit:
        nonlocal seconds
        _set_linear(model, layer, contraction, before, after, far)
        found = fit_linear(model, inputs, targets)
        fits[contraction] = found
        seconds += found.seconds
        return found

    guess = _guess(layer, before, after)
    if start is not None and is_damped(start):
        guess = float(implicit_map(start).contraction)  # type: ignore[arg-type]
    best, curvature = least(lambda s: fitted(s).error ** 2, guess)
    fit = fitted(best)
    equations = fit.pairs * layer.potential.size
    error = math.inf
    if curvature > 0:
        error = fit.error / math.sqrt(equations * curvature)
    model.metadata[KEY] = Friction(best, error).text
    return replace(fit, seconds=seconds)


def least(function: Callable[[float], float], guess: float) -> tuple[float, float]:
    """Return the place of the minimum of a function that is nearly a parabola, and its curvature.

    The curvature is a in ``f0 + a (x - x0)**2``; it is 0 where the function has no minimum.

    Examples
    --------
    >>> from vpintegrator.training.damping import least
    >>> place, curvature = least(lambda x: 2 + 3 * (x - 1) ** 2, 0.5)
    >>> round(place, 6), round(curvature, 6)
    (1.0, 3.0)
    """
    width, curvature = max(_WIDTH * abs(guess), _LEAST), 0.0
    place, value = guess, function(guess)
    for _ in range(_ROUNDS):
        sides = function(place - width), function(place + width)
        bend = (sides[0] + sides[1] - 2 * value) / (2 * width**2)
        if not math.isfinite(bend):
            return place, curvature
        lower = -1.0 if sides[0] < sides[1] else 1.0
        if bend <= 0:  # far from the minimum
            if min(sides) >= value:
                return place, curvature
            place, value, width = place + lower * width, min(sides), 4 * width
            continue
        curvature, vertex = bend, (sides[0] - sides[1]) / (4 * width * bend)
        move = max(min(vertex, 10 * width), -10 * width)
        there = function(place + move)
        gained = value - there
        if gained >= 0:
            place, value = place + move, there
        if move != vertex:
            width *= 10
            continue
        if abs(gained) <= _SETTLED * value:
            break
        width = max(min(max(abs(move), math.sqrt(value / bend)), width) / 4, abs(place) * 1e-9)
    return place, curvature


def _guess(layer: SymplecticGeneratingFunction, before: torch.Tensor, after: torch.Tensor) -> float:
    """Return the contraction of linear maps; their mean cancels the attenuation by noise."""
    n = layer.potential.size
    z, image = (states[:, :n] - states[:, :n].mean(0) for states in (before, after))
    logs = [
        float(torch.linalg.slogdet(torch.linalg.lstsq(a, b).solution)[1])
        for a, b in ((z, image), (image, z))
    ]
    found = (logs[1] - logs[0]) / n
    return found if math.isfinite(found) else 0.0


def _set_linear(
    model: Integrator,
    layer: SymplecticGeneratingFunction,
    contraction: float,
    before: torch.Tensor,
    after: torch.Tensor,
    far: bool,
) -> None:
    """Set the linear map about the middle, and the box of the states that it leads to."""
    if far:
        n = layer.potential.size
        layer.set_linear(linear_part(model, before[:, :n], after[:, :n], contraction))
    else:
        layer.set_damping(contraction)
    layer.adapt(torch.cat([before, after]))
