"""Trained models and families of every step as methods of :func:`scipy.integrate.solve_ivp`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.integrate
from scipy.interpolate import KroghInterpolator

from vpintegrator.arguments import check_integrator
from vpintegrator.errors import InputError
from vpintegrator.rollout.flow import trained_step
from vpintegrator.rollout.neural import LearnedCursor, as_windows, evaluating
from vpintegrator.rollout.start import find_system

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_NODES = 4  # states in the interpolation
_TOLERANCE = 1e-13
_SMALLEST = 2.0**-10  # smallest step of a family relative to the largest
_GAIN = 2.0  # least ratio of the estimates of a step and of its quarter
_LOW = 0.02  # share of the tolerance below which the next step is twice as long
_WHOLE = 1e-9  # steps; a time this near to a whole number of steps is one


def as_ode_solver(
    model: Integrator, step: float | None = None, **parameters: float
) -> Callable[..., scipy.integrate.OdeSolver]:
    r"""Make a trained model a method for :func:`scipy.integrate.solve_ivp`.

    Parameters
    ----------
    model
        A trained model.
    step
        Its time step h, where its metadata does not say; of a family, the step to take.
    **parameters
        Values of the parameters of a family.

    Returns
    -------
    subclass of scipy.integrate.OdeSolver

    Raises
    ------
    InputError
        If the model's step is not known. The solver raises it too: for a state of the wrong size,
        and back in time for a model without explicit inverse.

    Notes
    -----
    The solver goes by steps of h, and takes no tolerances. ``fun`` should be the vector field that
    the model was trained for; it is used for two things only:

    - A model of windows of w states needs w of them to start. DOP853 finds them on ``fun`` from
      ``y0`` with tolerances of 1e-13, so the first w - 1 steps are not the model's.
    - Between the steps, for ``t_eval``, ``events`` and ``dense_output``, the states are
      interpolated: the Hermite polynomial of degree 7 through four consecutive states, of which two
      lie about the step, with the slopes that ``fun`` gives there. (At the ends of what the model
      gives there may be fewer.) Its error of about :math:`10^{-5} (\omega h)^8` amplitudes for an
      oscillation of angular frequency w is below that of any model so far. Four states may mean
      that the model is asked for up to two steps more than those wanted.

    Where the equations depend on time, a state of the model holds it as its last component. A state
    ``y0`` without it is that at the solver's time, and ``fun(t, y)`` that of equations which depend
    on time, as SciPy has them. With it the system is autonomous, and the solver's time its own.

    Where the time span is no whole number of steps, it ends by this interpolation within the last
    step. Without ``step`` a family of every step goes by steps as long as ``rtol`` and ``atol``
    allow, up to the largest that it was trained with: the error is estimated by two half steps, and
    states between the steps are the model's own, see
    :class:`vpintegrator.rollout.ode_solver.FamilySolver`. Back in time the model's inverse makes
    the steps, from a window that DOP853 finds on ``fun``, too.

    Examples
    --------
    >>> from scipy.integrate import solve_ivp
    >>> method = as_ode_solver(model)                                         # doctest: +SKIP
    >>> solution = solve_ivp(lambda t, z: system.vector_field(z), (0, 50), z0, method)
    ...                                                                       # doctest: +SKIP
    """
    check_integrator(model)
    if "step" in model.conditions and step is None:
        return _family_solver(model, parameters)
    if model.conditions:
        model = model.at(**parameters, **({} if step is None else {"step": step}))
    elif parameters:
        raise InputError(f"the model {model.name} is no family: leave out {', '.join(parameters)}")
    known = trained_step(model, model.name) or step
    if known is None:
        raise InputError(f"the model {model.name} does not say for which step it is; give step")
    h = float(known)
    if step is not None and not math.isclose(h, step, rel_tol=1e-12):
        raise InputError(
            f"the model {model.name} was trained for the step {h:g}, but the step given is "
            f"{step:g}; a learned map has one step"
        )
    if not (math.isfinite(h) and h > 0):
        raise InputError(f"step = {known!r} must be a positive number")
    title = "".join(part.capitalize() for part in model.name.replace("_", "-").split("-"))
    known_system = "system" in model.metadata
    timed = known_system and find_system({model.name: model}, None).explicit_time is not None
    members = {"model": model, "h": h, "has_time": timed}
    return type(f"{title or 'Model'}Solver", (ModelSolver,), members)


class _States(scipy.integrate.DenseOutput):
    """Dense output for SciPy: states (..., component) as a function of times."""

    def __init__(self, t_old: float, t: float, states: Callable[..., np.ndarray]) -> None:
        super().__init__(t_old, t)
        self._states = states

    def _call_impl(self, t: np.ndarray) -> np.ndarray:
        return self._states(t).T  # (component,) or (component, time)


class _Solver(scipy.integrate.OdeSolver):
    """Solver whose steps a model makes."""

    model: Integrator
    y: np.ndarray

    def _require_direction(self) -> None:
        """Raise InputError where the model does not go back in time."""
        if self.direction < 0 and not self.model.invertible:
            raise InputError(
                f"the model {self.model.name} has no explicit inverse, so it does not go back in "
                "time; give a time span that increases"
            )


class ModelSolver(_Solver):
    """Steps of a trained model; made by :func:`as_ode_solver`.

    Attributes
    ----------
    model
        The model.
    h
        Its time step.
    has_time
        Whether the last component of its states is the time.
    """

    h: float
    has_time: bool = False

    def __init__(
        self,
        fun: Callable[..., Any],
        t0: float,
        y0: Any,
        t_bound: float,
        vectorized: bool = False,
        **extraneous: Any,
    ) -> None:
        if extraneous:
            warnings.warn(
                f"{', '.join(extraneous)}: without effect, a trained model has one fixed step",
                stacklevel=3,
            )
        super().__init__(fun, t0, y0, t_bound, vectorized)
        model = self.model
        self._without_time = self.has_time and self.n == model.dim - 1
        if self.n != model.dim and not self._without_time:
            what = ", or one less without the time" if self.has_time else ""
            raise InputError(
                f"y0 has {self.n} components, but the model {model.name} has dim = {model.dim}"
                f"{what}"
            )
        self._require_direction()
        self._t0 = t0
        self._made = 0  # steps
        self._states = {0: self.y.copy()}  # recent and later states by number of the step
        self._known = 1  # states known so far
        self._more: Iterator[np.ndarray] | None = None  # later states

    def _step_impl(self) -> tuple[bool, str | None]:
        number = self._made + 1
        state = self._state(number)
        if not np.isfinite(state).all():
            return False, f"the state of the model {self.model.name} is not finite"
        self._made = number
        self._states.pop(number - 3, None)  # it stands in no interpolation any more
        beyond = self.direction * (self._time(number) - self.t_bound)
        if beyond >= -_WHOLE * self.h:
            # this is the last step
            if beyond > _WHOLE * self.h:
                state = self._interpolation()(self.t_bound)
            self.t = self.t_bound
        else:
            self.t = self._time(number)
        self.y = state.copy()
        return True, None

    def _dense_output_impl(self) -> scipy.integrate.DenseOutput:
        return _States(self.t_old, self.t, self._interpolation())

    def _time(self, number: int) -> float:
        return float(self._t0 + self.direction * self.h * number)

    def _state(self, number: int) -> np.ndarray:
        """Return the state of a step, one of the last two or any later one."""
        if self._more is None:
            self._more = self._backward() if self.direction < 0 else self._forward()
        while self._known <= number:
            self._states[self._known] = next(self._more)
            self._known += 1
        return self._states[number]

    def _first_window(self) -> Iterator[np.ndarray]:
        """Yield the states of the first window after ``y0``."""
        y = self.y
        for k in range(self.model.window - 1):
            # each solution ends at a state of the window: more accurate than interpolating
            solution = scipy.integrate.solve_ivp(
                self.fun,
                (self._time(k), self._time(k + 1)),
                y,
                method="DOP853",
                rtol=_TOLERANCE,
                atol=_TOLERANCE,
            )
            y = solution.y[:, -1] if solution.success else np.full(self.n, np.nan)
            yield y

    def _forward(self) -> Iterator[np.ndarray]:
        window = [self.y, *self._first_window()]
        yield from window[1:]
        cursor = LearnedCursor(self.model, as_windows(self.model, self._with_times(window)[None]))
        while True:
            yield from cursor.advance(self.model.prediction_window)[0, :, : self.n]

    def _backward(self) -> Iterator[np.ndarray]:
        import torch

        model, new = self.model, self.model.prediction_window
        states = [self.y, *self._first_window()]
        yield from states[1:]
        window = as_windows(model, self._with_times(states)[None, ::-1].copy())
        while True:
            with evaluating(model), torch.inference_mode():
                earlier = model.inverse(window)[:, :new]
                window = torch.cat([earlier, window[:, : model.window - new]], dim=1)
            yield from earlier[0].flip(0).double().cpu().numpy()[:, : self.n]

    def _with_times(self, window: list[np.ndarray]) -> np.ndarray:
        """Return the first states in the components of the model, (window, dim)."""
        states = np.array(window)
        if not self._without_time:
            return states
        times = [[self._time(number)] for number in range(len(states))]
        return np.concatenate([states, times], axis=1)

    def _interpolation(self) -> Callable[[Any], np.ndarray]:
        """Return the polynomial through the states about the last step, as a function of time."""
        made = self._made
        first = max(made - 2, 0)
        # in steps from the beginning of the last one
        nodes: list[float] = []
        values: list[np.ndarray] = []
        for k in range(first, first + _NODES):
            state = self._state(k)
            if not np.isfinite(state).all():
                continue
            nodes.append(k - made + 1)
            values.append(state)
            with np.errstate(all="ignore"):
                slope = self.direction * self.h * self.fun(self._time(k), state)
            if np.isfinite(slope).all():
                nodes.append(k - made + 1)  # the second value at a node is that of the derivative
                values.append(slope)
        polynomial = KroghInterpolator(nodes, np.array(values))
        start, unit = self._time(made - 1), self.direction * self.h
        return lambda t: polynomial((np.asarray(t) - start) / unit)


class FamilySolver(_Solver):
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

    conditions: Mapping[str, float]
    largest: float
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
        self._require_direction()
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
        origin, start = self._origin, self.t_old
        return _States(start, self.t, lambda t: self._moved(origin, np.abs(np.asarray(t) - start)))

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


def _family_solver(model: Integrator, conditions: Mapping[str, float]) -> type[FamilySolver]:
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
