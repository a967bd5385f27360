"""Families of every step as adaptive methods of :func:`scipy.integrate.solve_ivp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.integrate

from vpintegrator.errors import InputError
from vpintegrator.rollout.neural import evaluating

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_SMALLEST = 2.0**-10  # smallest step relative to the largest
_GAIN = 2.0  # least ratio of the estimates of a step and of its quarter
_LOW = 0.02  # share of the tolerance below which the next step is twice as long


class FamilySolver(scipy.integrate.OdeSolver):
    """Adaptive steps of a family within the tolerances; made by :func:`as_ode_solver`.

    A step is made as a whole and as two halves; their difference estimates the error, and the
    halves count. A learned map errs no less by a high power of a short step, so a step that is
    halved and errs as before is one that the model cannot make more accurate: the solver then stops
    and says so. Between the steps the states are the model's own, over a part of the step.

    Attributes
    ----------
    model, conditions
        The family, and the values of its parameters.
    largest
        The largest step that it was trained with.
    """

    model: Integrator
    conditions: Mapping[str, float]
    largest: float
    y: np.ndarray
    t: float

    def __init__(
        self,
        fun: Callable[..., Any],
        t0: float,
        y0: Any,
        t_bound: float,
        rtol: float = 1e-6,
        atol: float | Any = 1e-9,
        max_step: float = np.inf,
        first_step: float | None = None,
        vectorized: bool = False,
        **_unused: Any,
    ) -> None:
        super().__init__(fun, t0, y0, t_bound, vectorized)
        model = self.model
        if self.n != model.state_dim:
            raise InputError(
                f"y0 has {self.n} components, but states of the family {model.name} have "
                f"{model.state_dim}"
            )
        if self.direction < 0 and not model.invertible:
            raise InputError(
                f"the model {model.name} has no explicit inverse, so it does not go back in time; "
                "give a time span that increases"
            )
        self.rtol, self.atol = rtol, np.asarray(atol, dtype=float)
        if rtol <= 0 and not (self.atol > 0).all():
            raise InputError("rtol or atol must be positive")
        self._limit = min(self.largest, max_step)
        self.h_abs = min(self._limit if first_step is None else first_step, self._limit)
        self._origin = self.y

    def _step_impl(self) -> tuple[bool, str | None]:
        room = abs(self.t_bound - self.t)
        h, before = min(self.h_abs, room), np.inf
        least = _SMALLEST * self.largest
        while True:
            half = self._moved(self.y, h / 2)
            new, whole = self._moved(half, h / 2), self._moved(self.y, h)
            scale = self.atol + self.rtol * np.maximum(np.abs(self.y), np.abs(new))
            error = float(np.sqrt(np.mean(np.square((new - whole) / scale))))
            if error <= 1:
                break
            if not (h > least and error < before / _GAIN):
                return False, (
                    f"the error of the model {self.model.name} itself is about {error:.1g} times "
                    "the tolerances; give larger rtol and atol"
                )
            before, h = error, h / 2
        self._origin = self.y
        self.t = self.t_bound if h >= room else self.t + self.direction * h
        self.y = new
        if h == self.h_abs or error > _LOW:
            self.h_abs = min(h * (2 if error < _LOW else 1), self._limit)
        return True, None

    def _dense_output_impl(self) -> scipy.integrate.DenseOutput:
        return _OfModel(self.t_old, self.t, self._origin, self._moved)

    def _moved(self, y: np.ndarray, h: float | np.ndarray) -> np.ndarray:
        """Return states after steps of these lengths, (..., n), in the direction of the solver."""
        import torch

        model = self.model
        states = torch.as_tensor(np.broadcast_to(y, (*np.shape(h), self.n)).copy())
        window = model.extended(states, step=np.asarray(h), **self.conditions).unsqueeze(-2)
        self.nfev += 1
        with evaluating(model), torch.inference_mode():
            new = model(window) if self.direction > 0 else model.inverse(window)
        return new[..., 0, : self.n].double().cpu().numpy()


class _OfModel(scipy.integrate.DenseOutput):
    """Dense output of the model: states within a step."""

    def __init__(
        self, t_old: float, t: float, origin: np.ndarray, moved: Callable[..., np.ndarray]
    ) -> None:
        super().__init__(t_old, t)
        self._start, self._origin, self._moved = t_old, origin, moved

    def _call_impl(self, t: np.ndarray) -> np.ndarray:
        return self._moved(self._origin, np.abs(np.asarray(t) - self._start)).T


def family_solver(model: Integrator, conditions: Mapping[str, float]) -> type[FamilySolver]:
    """Return the solver class of a family with varying step, for values of its parameters.

    Raises
    ------
    InputError
        If the model reads several states, or a condition is unknown.
    """
    if model.window != 1:
        raise InputError(
            f"the family {model.name} reads {model.window} states a step apart; give step"
        )
    largest = model.conditions["step"][1]
    model.extended(
        np.zeros(model.state_dim), step=largest, **conditions
    )  # says what is wrong with them
    own = {"model": model, "conditions": dict(conditions), "largest": largest}
    return type("FamilySolver", (FamilySolver,), own)
