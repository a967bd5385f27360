"""Return maps as functions of states: a solution from the section back to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from vpintegrator.dynamics.crossings import Goal, advance
from vpintegrator.dynamics.expressions import ComponentFunction, Symbol, Value, vectorised
from vpintegrator.dynamics.own_steps import OwnSteps
from vpintegrator.dynamics.section import ReturnSection

_STACK = 2048  # trajectories at a time: beyond, the arrays leave the cache
_ROUNDING = 1e-12  # relative: a negative square of a momentum up to this counts as 0


class ReturnMap:
    """The map from a section back to it.

    Parameters
    ----------
    section
        Section of the map.
    parameters
        Symbols that are left open, of the flow's parameters and the energy.

    Examples
    --------
    >>> system = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> state = np.array([[0.1, 0.0]])
    >>> image, duration = system.flow_back.images(state, np.empty((1, 0)), 1e-13, 1e-13)
    >>> image.round(6), duration.round(6)
    (array([[...]]), array([...]))
    """

    def __init__(self, section: ReturnSection, parameters: Sequence[Symbol] = ()) -> None:
        self.section, self._parameters = section, tuple(parameters)

    def images(
        self, states: np.ndarray, parameters: np.ndarray, rtol: float, atol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Images of states (n, dim) and how long the solutions take, (n,); NaN where none returns.

        ``parameters`` are (n, name).
        """
        states = np.asarray(states, dtype=np.float64)
        images, durations = np.empty(states.shape), np.empty(len(states))
        for start in range(0, len(states), _STACK):
            part = slice(start, start + _STACK)
            images[part], durations[part] = self._images(states[part], parameters[part], rtol, atol)
        return images, durations

    def lifted(self, states: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return states of the flow (component, n) at those of the map (n, dim).

        States are NaN if the energy is too small for them.
        """
        s, count = self.section, len(states)
        full = np.empty((len(s.flow.symbols), count))
        full[s.kept] = states.T[: len(s.kept)]
        columns = [*full[s.kept], *parameters.T]
        with np.errstate(all="ignore"):
            full[s.component] = self._value(*columns)[0]
            if s.conjugate is not None:
                a, b, c = (np.broadcast_to(v, (count,)) for v in self._parabola(*columns))
                square = b * b - 2 * a * c
                nothing = square > -_ROUNDING * (b * b + 2 * np.abs(a * c))
                root = np.sqrt(np.where(nothing, np.maximum(square, 0), square))
                full[s.conjugate] = (s.sign * root - b) / a
        return full

    def _images(
        self, states: np.ndarray, parameters: np.ndarray, rtol: float, atol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        s, formulas = self.section, self.steps(rtol, atol)
        with np.errstate(all="ignore"):  # states that do not return are NaN
            begin = self.lifted(states, parameters)
            goal = self.goal(begin, parameters.T)
            ends, durations = advance(formulas, begin, goal, parameters.T)
        image = np.empty_like(states)
        image[:, : len(s.kept)] = ends[s.kept].T
        if s.return_times:
            image[:, -1] = states[:, -1] + durations
        image[np.isnan(image).any(axis=1) | np.isnan(states).any(axis=1)] = np.nan
        return image, durations

    def steps(self, rtol: float, atol: float) -> OwnSteps:
        """Return steps of solutions of the flow."""
        return OwnSteps(self._rates, rtol, atol)

    def goal(self, begin: np.ndarray, parameters: np.ndarray) -> Goal:
        """Return the goal of solutions from states ``begin`` (component, n) of the flow.

        ``parameters`` are (name, n).
        """
        s = self.section
        if s.period is not None:
            period = np.broadcast_to(self._period(*parameters)[0], begin.shape[1])
            return Goal(None, period * s.crossings)
        turn = float(s.flow.periods.get(s.component, np.inf))
        return Goal(s.component, begin[s.component].copy(), turn, s.sign, s.crossings)

    def _rates(self, components: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        result = np.empty_like(components)
        for row, value in zip(result, self._field(*components, *parameters), strict=True):
            row[:] = value
        return result

    @cached_property
    def _field(self) -> ComponentFunction:
        e = self.section.flow
        return vectorised(e.vector_field, [*e.symbols, *self._parameters], "numpy")

    @cached_property
    def _period(self) -> ComponentFunction:
        assert self.section.period is not None
        return vectorised([self.section.period], self._parameters, "numpy")

    @cached_property
    def _value(self) -> ComponentFunction:
        return self._of_section([self.section.value])

    @cached_property
    def _parabola(self) -> ComponentFunction:
        return self._of_section(self.section.parabola or ())

    def _of_section(self, values: Sequence[Value]) -> ComponentFunction:
        """Return a function of the map's states, without the time, and the parameters."""
        s = self.section
        symbols = [s.flow.symbols[i] for i in s.kept]
        return vectorised(values, [*symbols, *self._parameters], "numpy")
