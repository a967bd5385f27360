"""Flows of discrete systems: the map itself, and classical methods for a stroboscopic map."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Self

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod, OneStepMethod, find_method
from vpintegrator.maps.cursor import Cursor
from vpintegrator.rollout.flow import ClassicalFlow, NumericalFlow

# offsets, and weights of the values there
_DIFFERENCES = ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12))
_DIFFERENCE = 5e-4  # its fourth power and rounding over it are alike
_MOST = 1_000_000  # steps of a period


class ExactMap(NumericalFlow):
    r"""Iteration of a discrete system, exact but for rounding.

    .. math:: z_{n+1} = M(z_n)

    Parameters
    ----------
    system
        A discrete system.

    Raises
    ------
    InputError
        If the system has a vector field instead, or no equations are known.

    Examples
    --------
    >>> system = vp.load_system('''
    ... state = ["q", "p"]
    ... [[map]]
    ... p = "p + sin(q)"
    ... [[map]]
    ... q = "q + p"
    ... ''')
    >>> vp.rollout.ExactMap(system).map(np.array([[[0.0, 1.0]]]))
    array([[[1., 1.]]])
    """

    kind = "exact"
    system: System

    def __init__(self, system: System) -> None:
        if not system.is_discrete:
            raise InputError(
                f"{system.name} is no map that could be iterated; name a method and a step"
            )
        self.name = self.method_name = self.title = "exact"
        self.description = f"the map of {system.name}"
        self.system, self.dim, self.step = system, system.dim, 1.0

    def map(self, windows: np.ndarray) -> np.ndarray:
        return self.system.map(windows)

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        """Return the derivative: exact for a formula, by differences for a return map.

        Differences give about ten digits.
        """
        if self.system.flow is None:
            return self.system.map_jacobian(windows[:, 0])
        sizes = self.system.section_map.sizes
        return differences(self.system.map, windows[:, 0], _DIFFERENCE, sizes)

    def start(self, first: np.ndarray) -> Cursor:
        return _MapCursor(self.system, first[:, 0])


class _MapCursor(Cursor):
    def __init__(self, system: System, state: np.ndarray) -> None:
        self._system, self._state = system, np.array(state, dtype=np.float64)

    def advance(self, count: int) -> np.ndarray:
        states = np.empty((len(self._state), count, self._state.shape[1]))
        for k in range(count):
            states[:, k] = self._state = self._system.map(self._state)
        return states


def period_flow_of(system: System) -> System | None:
    """Return the flow whose stroboscopic map a system is; None if there is none.

    Examples
    --------
    >>> from vpintegrator.rollout.map_flows import period_flow_of
    >>> period_flow_of(vp.return_map("forced-duffing", "t = 0")).components
    ('q', 'p', 't')
    """
    returns = system.equations.returns
    return system.flow if returns is not None and returns.stroboscopic else None


def find_period_method(name: str) -> tuple[ClassicalMethod, int | None]:
    """Return the method and the number of steps in a period of a name such as ``rk4@64``."""
    plain, at, count = name.partition("@")
    method = find_method(plain)
    if not at:
        return method, None
    if not count.isdecimal() or not 1 <= int(count) <= _MOST:
        raise InputError(f"{name}: give the number of steps in a period behind @, as in rk4@64")
    return method, int(count)


class PeriodFlow(NumericalFlow):
    """A classical method over the period of a stroboscopic map, without the time.

    A method with a fixed step takes ``steps`` of them in a period; a method with an
    adaptive step size goes over the period at once.

    Parameters
    ----------
    method
        The method or its name, with the number of steps in a period behind it if need be:
        ``"rk4@64"``. By default the step is about the one that the file of the flow suggests.
    system
        The map.

    Raises
    ------
    InputError
        If the map is not stroboscopic, or the method does not apply to its flow.

    Examples
    --------
    >>> from vpintegrator.rollout.map_flows import PeriodFlow
    >>> duffing = vp.return_map("forced-duffing", "t = 0")
    >>> flow = PeriodFlow("rk4@200", duffing)
    >>> state = np.array([[[1.0, 0.1]]])
    >>> bool(np.abs(flow.map(state) - duffing.map(state)).max() < 1e-6)
    True
    """

    kind = "classical"
    system: System

    def __init__(self, method: str, system: System) -> None:
        flow, returns = period_flow_of(system), system.equations.returns
        if flow is None or returns is None:
            raise InputError(
                f"{method} needs a vector field, but {system.name} is a map that is not "
                "stroboscopic: its steps are iterations"
            )
        found, count = find_period_method(method)
        period = self._period = returns.crossings * (flow.period or math.nan)
        fixed = isinstance(found, OneStepMethod)
        if count is not None and not fixed:
            raise InputError(f"{method}: {found.name} has an adaptive step size; leave @ out")
        if count is None:
            suggested = flow.defaults.get("step", period / 100)
            count = max(round(period / suggested), 1) if fixed else 1
        else:
            count *= returns.crossings
        self.steps = count
        self.inner = ClassicalFlow(found, flow, period / count)
        self.name, self.method_name = method, found.name
        self.title = f"{found.title}, {count} steps" if fixed else found.title
        self.description, self.order = found.source, found.order
        self.structure = self.inner.structure
        self.differentiable = fixed
        self.system, self.step, self.dim = system, 1.0, system.dim
        self._times = returns.return_times
        self._phase = float(returns.value)  # type: ignore[arg-type]

    def compile(self, states: np.ndarray, compiled: bool | None) -> Self:
        flow = copy(self)
        flow.inner = self.inner.compile(self.embedded(states), compiled)
        return flow

    def embedded(self, states: np.ndarray) -> np.ndarray:
        """Return states of the flow (n, dim) at states of the map."""
        moving = states[:, : self.inner.dim - 1]
        return np.hstack([moving, np.full((len(states), 1), self._phase)])

    def map(self, windows: np.ndarray) -> np.ndarray:
        cursor = self.start(windows)
        return cursor.advance(1)

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        if self._times:
            raise InputError(f"{self.name} has no derivative of return times")
        full = self.embedded(windows[:, 0])[:, None]
        found = np.broadcast_to(np.eye(self.inner.dim), (len(full), *2 * (self.inner.dim,)))
        for _ in range(self.steps):
            found = self.inner.derivative(full) @ found
            full = self.inner.map(full)
        return np.ascontiguousarray(found[:, :-1, :-1])

    def start(self, first: np.ndarray) -> Cursor:
        states = first[:, 0]
        inner = self.inner.start(self.embedded(states)[:, None])
        return _PeriodCursor(inner, self.steps, self._added(states[:, -1]), np.zeros(()))

    def _added(self, times: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Return the present values and the growth of the time component, None if there is none."""
        return (times.copy(), self._period) if self._times else None


class _PeriodCursor(Cursor):
    def __init__(
        self, inner: Cursor, steps: int, times: tuple[np.ndarray, float] | None, periods: np.ndarray
    ) -> None:
        self._inner, self._steps, self._times, self._periods = inner, steps, times, int(periods)

    def advance(self, count: int) -> np.ndarray:
        # period by period: states between are not held for long
        found = [self._inner.advance(self._steps)[:, -1, :-1] for _ in range(count)]
        states = np.stack(found, axis=1)
        done = self._periods + np.arange(1, count + 1)
        self._periods += count
        if self._times is None:
            return states
        begun, period = self._times
        times = np.where(np.isnan(states[..., 0]), np.nan, begun[:, None] + period * done)
        return np.concatenate([states, times[..., None]], axis=-1)


def differences(
    function: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    size: float,
    sizes: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Return derivatives (n, dim, dim) of a map of points (n, dim), by fourth-order differences.

    ``size`` is the distance of the neighbours, relative to each component at points and images,
    and to ``sizes`` (dim,) in its domain.
    """
    dim = points.shape[1]
    scales = component_scales(np.concatenate([points, function(points)]))
    distances = size * np.maximum(np.maximum(scales, sizes), np.abs(points))
    result = np.empty((len(points), dim, dim))
    for k in range(dim):
        total = np.zeros(points.shape)
        for place, weight in _DIFFERENCES:
            moved = points.copy()
            moved[:, k] += place * distances[:, k]
            total += weight * function(moved)
        result[:, :, k] = total / distances[:, k : k + 1]
    return result
