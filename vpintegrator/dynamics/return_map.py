"""Return maps: solutions from a section back to it, states on the way, and initial states.

The states on the way are on sections between, and each part of the way keeps the form, too. A
stroboscopic map is that over parts of the period. Through a section of an angle it is from one
value of it to the next. Where the section's position oscillates, the sections between are rays in
the plane of that position and its momentum: on a ray dq dp of the two is 0, so that the other
components are canonical there as well.

A table ``[return_map.initial_conditions]``, or that of a recipe, is a distribution of the map's own
states. Without such a table, a stroboscopic map starts at initial states of the flow, without the
time. A section starts anywhere in the box of the flow's initial states. On a section with an energy
only states count at which H = energy has a solution for the momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.crossings import AdaptiveSteps, Event, follow
from vpintegrator.dynamics.equations import Equations, ReturnSection
from vpintegrator.dynamics.expressions import ComponentFunction, Value, vectorised
from vpintegrator.dynamics.initial_conditions import Draw, InitialConditions
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.errors import InputError

_STACK = 2048  # trajectories at a time: beyond, the arrays leave the cache
_ROUNDING = 1e-12  # relative: a negative square of a momentum up to this counts as 0
_TOLERANCE = 1e-10  # of states on the way: they lead to a beginning, not to a result
_FEWEST = 64  # times at which the angle of a ray is looked at
_NEWTON = 6
_MOST = 0.8  # fraction of the states that must return
_SAMPLE = 512  # states of the flow's distribution, for the box of a section
_ROUNDS = 1000  # rounds of draws before a section counts as empty


class ReturnMap:
    """The map from a section back to it.

    Parameters
    ----------
    equations
        Equations with a section. Symbols of the state behind those of the map, and open symbols,
        are parameters of the flow, and its energy.
    sizes
        Sizes of the components of the flow in its domain, (component,).

    Examples
    --------
    >>> system = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> state = np.array([[0.1, 0.0]])
    >>> image, duration = system.section_map.images(state, np.empty((1, 0)), 1e-13, 1e-13)
    >>> image.round(6), duration.round(6)
    (array([[...]]), array([...]))
    """

    def __init__(self, equations: Equations, sizes: np.ndarray | float = 0.0) -> None:
        assert equations.returns is not None
        self._sizes = sizes
        self.section: ReturnSection = equations.returns
        self._parameters = (*equations.symbols[self.section.dim :], *equations.open)

    @property
    def sizes(self) -> np.ndarray:
        """Sizes of the components of the map in its domain, (dim,); 0 where they are not known."""
        kept = self.section.kept
        return np.broadcast_to(self._sizes, len(self.section.flow.symbols))[kept]

    def iteration(
        self, rtol: float, atol: float, parameters: np.ndarray | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map of states (n, dim), of which parameters may be the last components."""

        def image(rows: np.ndarray) -> np.ndarray:
            own, rest = rows[:, : self.section.dim], rows[:, self.section.dim :]
            found, _ = self.images(own, rest if parameters is None else parameters, rtol, atol)
            return np.hstack([found, rest])

        return image

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        """States (part + 1, state, dim) on sections between, or None without such sections.

        Where a state on the edge of the section has no way, the way of another is given, with that
        first.
        """
        dim = self.section.dim
        way = return_parts(self, states[:, :dim], states[:, dim:], parts)
        if way is None:
            return None
        found, rows = way
        rest = states[rows, dim:]
        still = np.broadcast_to(rest, (*found.shape[:2], rest.shape[1]))
        return np.concatenate([found, still], axis=-1)

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

    def flow_states(self, states: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return states of the flow (component, n) at those of the map (n, dim).

        States are NaN if the energy is too small for them.
        """
        s, count = self.section, len(states)
        full = np.empty((len(s.flow.symbols), count))
        full[s.kept] = states.T
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
            begin = self.flow_states(states, parameters)
            event = self.event(begin, parameters.T)
            ends, durations = follow(formulas, begin, event, parameters.T)
        image = ends[s.kept].T
        image[np.isnan(image).any(axis=1) | np.isnan(states).any(axis=1)] = np.nan
        return image, durations

    def steps(self, rtol: float, atol: float) -> AdaptiveSteps:
        """Return steps of solutions of the flow."""
        return AdaptiveSteps(self._rates, rtol, atol, self._sizes)

    def event(self, begin: np.ndarray, parameters: np.ndarray) -> Event:
        """Return the event of solutions from states ``begin`` (component, n) of the flow.

        ``parameters`` are (name, n).
        """
        s = self.section
        if s.period is not None:
            period = np.broadcast_to(self._period(*parameters)[0], begin.shape[1])
            return Event(None, period * s.crossings)
        turn = float(s.flow.periods.get(s.component, np.inf))
        return Event(s.component, begin[s.component].copy(), turn, s.sign, s.crossings)

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


def return_parts(
    returns: ReturnMap, states: np.ndarray, parameters: np.ndarray, parts: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return states (part + 1, n, dim) on the way of states (n, dim), these first.

    With them, which of the states each is of, (n,): of a few there may be no way, as they are on
    the edge of the section, and others are taken in their place. None where there are no such
    sections: the flow has no Hamiltonian, or solutions do not turn steadily about the section.

    Parameters
    ----------
    returns
        The map.
    states, parameters
        (n, dim) and (n, name).
    parts
        Number of parts of the way.

    Examples
    --------
    >>> from vpintegrator.dynamics.return_map import return_parts
    >>> poincare = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> states = np.array([[0.1, 0.0], [0.2, 0.1]])
    >>> found, _ = return_parts(poincare.section_map, states, np.empty((2, 0)), parts=4)
    >>> found.shape, bool(np.abs(found[-1] - poincare.map(states)).max() < 1e-8)
    ((5, 2, 2), True)
    """
    section = returns.section
    if section.conjugate is None and not section.stroboscopic:
        return None
    with np.errstate(all="ignore"):
        begin, columns = returns.flow_states(states, parameters), parameters.T
        steps = returns.steps(_TOLERANCE, _TOLERANCE)
        event = returns.event(begin, columns)
        if event.component is None:
            ways = [Event(None, event.value / parts)] * parts
            found = _one_after_another(steps, begin, columns, ways)
        elif event.period < np.inf:
            if parts < event.count:
                return None
            turns = event.sign * event.period * event.count * np.arange(1, parts + 1) / parts
            ways = [
                Event(event.component, event.value + t, event.period, event.sign) for t in turns
            ]
            found = _one_after_another(steps, begin, columns, ways)
        else:
            found = _on_rays(returns, steps, begin, columns, parts)
    way = found[:, section.kept].transpose(0, 2, 1)
    way = np.concatenate([states[None], way])
    known = np.isfinite(way).all(axis=(0, 2))
    if not known.mean() > _MOST:
        return None
    rows = np.arange(len(states))
    rows[~known] = np.resize(rows[known], np.count_nonzero(~known))
    return way[:, rows], rows


def _one_after_another(
    steps: AdaptiveSteps, begin: np.ndarray, columns: np.ndarray, ways: list[Event]
) -> np.ndarray:
    """States of the flow (part, component, n) at the ends of each part."""
    found = []
    for way in ways:
        begin, _ = follow(steps, begin, way, columns)
        found.append(begin)
    return np.stack(found)


def _on_rays(
    returns: ReturnMap, steps: AdaptiveSteps, begin: np.ndarray, columns: np.ndarray, parts: int
) -> np.ndarray:
    section, event = returns.section, returns.event(begin, columns)
    end, durations = follow(steps, begin, event, columns)
    count = max(_FEWEST * event.count, 4 * parts)
    ways = [Event(None, durations / count)] * count
    way = np.concatenate([begin[None], _one_after_another(steps, begin, columns, ways)])
    assert section.conjugate is not None
    plane = [section.component, section.conjugate]
    centre = np.stack([event.value, np.zeros_like(event.value)])[:, None]
    scale = np.nanmax(np.abs(way[:, plane].transpose(1, 0, 2) - centre), axis=(1, 2))

    def angle(state: np.ndarray) -> np.ndarray:
        x, y = (section.sign * (state[plane] - centre[:, 0]).T / scale).T
        return np.arctan2(x, y)

    angles = np.unwrap(np.stack([angle(state) for state in way]), axis=0)
    end = np.where((np.diff(angles, axis=0) > 0).all(axis=0), end, np.nan)
    found = np.empty((parts, *begin.shape))
    rows = np.arange(begin.shape[1])
    for k in range(1, parts):
        target = 2 * np.pi * event.count * k / parts
        last = np.maximum(np.argmax(angles > target, axis=0) - 1, 0)
        start = way[last, :, rows].T
        rate = steps.field(start, columns)
        part = (target - angles[last, rows]) / (angles[last + 1, rows] - angles[last, rows])
        later = part * durations / count
        at = start
        for _ in range(_NEWTON):
            at = steps.states(start, rate, later, columns)
            speed = steps.field(at, columns)
            x, y = (section.sign * (at[plane] - centre[:, 0]).T / scale).T
            u, v = (section.sign * speed[plane].T / scale).T
            missed = np.remainder(angle(at) - target + np.pi, 2 * np.pi) - np.pi
            later = later - missed * (x * x + y * y) / (u * y - x * v)
        found[k - 1] = at
    found[-1] = end
    return found


class SectionStates:
    """A distribution of initial states of a return map.

    Parameters
    ----------
    returns
        The map.
    system
        The system, for distributions of its own states.
    table
        Table of a distribution of the map's own states; None for that of the flow.
    flow
        Draws states of the flow, of the parameters of each.
    source
        Name for messages.

    Examples
    --------
    >>> system = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> system.initial_conditions.sample(3, np.random.default_rng(0)).shape
    (3, 2)
    """

    def __init__(
        self,
        returns: ReturnMap,
        system: SystemProperties,
        table: Mapping[str, Any] | None,
        flow: Draw,
        source: str,
    ) -> None:
        self._returns, self._flow, self._source = returns, flow, source
        self._section, self.available = returns.section, None
        self._draw: Draw = self._in_box
        if table is not None:
            own = InitialConditions(system, table, source)
            self.available, self._draw = own.available, own.sample
        elif self._section.stroboscopic:
            self._draw = self._of_flow

    def sample(
        self,
        count: int | None,
        generator: np.random.Generator,
        parameters: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return initial states of shape (count, dim), as :meth:`InitialConditions.sample`.

        Raises
        ------
        InputError
            If hardly any state has a momentum for the energy.
        """
        if count is None and self.available is None:
            raise InputError(f"{self._source}: say how many states to draw")
        count = self.available if count is None else count
        assert count is not None
        given = np.empty((count, 0)) if parameters is None else parameters
        states = self._draw(count, generator, parameters)
        for _ in range(_ROUNDS):
            missing = np.flatnonzero(
                ~np.isfinite(self._returns.flow_states(states, given)).all(axis=0)
            )
            if not len(missing):
                break
            if self.available is not None:
                raise self._no_momentum(states[missing[0]])
            own = None if parameters is None else parameters[missing]
            states[missing] = self._draw(len(missing), generator, own)
        else:
            raise self._no_momentum(states[missing[0]])
        return states

    def _of_flow(
        self, count: int, generator: np.random.Generator, parameters: np.ndarray | None
    ) -> np.ndarray:
        """Return states of the flow on the section."""
        return self._flow(count, generator, parameters)[:, self._section.kept]

    def _in_box(
        self, count: int, generator: np.random.Generator, parameters: np.ndarray | None
    ) -> np.ndarray:
        low, high = self._box
        return generator.uniform(low, high, (count, len(low)))

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        found = self._of_flow(_SAMPLE, np.random.default_rng(0), None)
        return found.min(axis=0), found.max(axis=0)

    def _no_momentum(self, state: np.ndarray) -> InputError:
        names = [self._section.flow.components[i] for i in self._section.kept]
        at = ", ".join(f"{name} = {x:.6g}" for name, x in zip(names, state, strict=False))
        return InputError(
            f"{self._source}: at {at} the energy is too small for any momentum through the "
            "section; give another energy, or other states by [return_map.initial_conditions]"
        )
