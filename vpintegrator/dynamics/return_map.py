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

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.crossings import AdaptiveSteps, Event, follow
from vpintegrator.dynamics.equations import Equations, ReturnSection, stack_rows
from vpintegrator.dynamics.expressions.evaluation import ComponentFunction, vectorised
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.dynamics.switches import (
    between_switches,
    follow_to,
    hidden_forces,
    inside_bounds,
    switch_times,
)
from vpintegrator.errors import InputError

_STACK = 2048  # trajectories at a time: beyond, the arrays leave the cache
_ROUNDING = 1e-12  # relative: a negative square of a momentum up to this counts as 0
_TOLERANCE = 1e-10  # of states on the way: they lead to a beginning, not to a result
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
            points = rows[:, : self.section.dim]
            rest = rows[:, self.section.dim :]
            states, _ = self.images(points, rest if parameters is None else parameters, rtol, atol)
            return np.hstack([states, rest])

        return image

    def images(
        self, states: np.ndarray, parameters: np.ndarray, rtol: float, atol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Images of states (n, dim) and how long the solutions take, (n,); NaN where none returns.

        ``parameters`` are (n, name).
        """
        states = np.asarray(states, dtype=np.float64)
        images = np.empty(states.shape)
        durations = np.empty(len(states))
        steps = AdaptiveSteps(self._rates, rtol, atol, self._sizes)
        for start in range(0, len(states), _STACK):
            part = slice(start, start + _STACK)
            with np.errstate(all="ignore"):  # states that do not return are NaN
                begin = self.flow_states(states[part], parameters[part])
                values = parameters[part].T
                event = self._event(begin, values)
                stops = self._stops(begin, event, values)
                if stops.shape[1]:
                    ends = self._through(stops, begin, event, values, rtol, atol)
                    durations[part] = np.where(np.isfinite(ends).all(axis=0), event.until, np.nan)
                else:
                    ends, durations[part] = follow(steps, begin, event, values)
            images[part] = ends[self.section.kept].T
        images[np.isnan(images).any(axis=1) | np.isnan(states).any(axis=1)] = np.nan
        return images, durations

    def _stops(self, begin: np.ndarray, event: Event, columns: np.ndarray) -> np.ndarray:
        """Return times (n, count) at which a periodic force switches, or is short."""
        clock = self.section.flow.explicit_time
        if event.normal is not None or clock is None:
            return np.empty((begin.shape[1], 0))
        sound = np.isfinite(begin).all(axis=0)
        if not sound.any():
            return np.empty((begin.shape[1], 0))
        first = int(np.argmax(sound))

        def rates(components: np.ndarray) -> np.ndarray:
            return self._rates(components, columns[:, first, None])

        sizes = np.maximum(np.broadcast_to(self._sizes, len(begin)), np.abs(begin[:, first]))
        state = begin[:, first] + sizes * np.random.default_rng(0).uniform(-0.1, 0.1, len(sizes))
        start = begin[clock]
        end = begin[clock] + event.until
        hidden = hidden_forces(rates, state, np.array([start[first], end[first]]))
        symbols = self._parameters if len(columns) else ()
        return switch_times(self.section.flow, start, end, symbols, columns.T, hidden)

    def _through(
        self,
        stops: np.ndarray,
        begin: np.ndarray,
        event: Event,
        columns: np.ndarray,
        rtol: float,
        atol: float,
    ) -> np.ndarray:
        """Return states (component, n) after a period; steps end at ``stops``."""
        clock = self.section.component
        formulas = AdaptiveSteps(between_switches(self._rates, clock), rtol, atol, self._sizes)

        def interval(
            state: np.ndarray, rows: np.ndarray, begin: np.ndarray, end: np.ndarray
        ) -> np.ndarray:
            arguments = np.vstack([*inside_bounds(begin, end), columns[:, rows]])
            return follow(formulas, state, Event(end - begin), arguments)[0]

        return follow_to(interval, clock, begin, stops, begin[clock] + event.until)

    def flow_states(self, states: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return states of the flow (component, n) at those of the map (n, dim).

        States are NaN if the energy is too small for them.
        """
        s = self.section
        count = len(states)
        full = np.empty((len(s.flow.symbols), count))
        full[s.kept] = states.T
        with np.errstate(all="ignore"):
            value, *parabola = self._of_section(*full[s.kept], *parameters.T)
            full[s.component] = value
            if s.conjugate is not None:
                a, b, c = (np.broadcast_to(v, (count,)) for v in parabola)
                square = b * b - 2 * a * c
                nothing = square > -_ROUNDING * (b * b + 2 * np.abs(a * c))
                root = np.sqrt(np.where(nothing, np.maximum(square, 0), square))
                full[s.conjugate] = (s.sign * root - b) / a
        return full

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        """States (part + 1, state, dim) on sections between, or None without such sections.

        There are none if the flow has no Hamiltonian, or solutions do not turn steadily about the
        section. Where a state on the edge of the section has no way, the way of another is given,
        with that first.
        """
        s = self.section
        dim = self.section.dim
        if s.conjugate is None and not s.stroboscopic:
            return None
        steps = AdaptiveSteps(self._rates, _TOLERANCE, _TOLERANCE, self._sizes)
        with np.errstate(all="ignore"):
            begin = self.flow_states(states[:, :dim], states[:, dim:])
            columns = states[:, dim:].T
            event = self._event(begin, columns)
            if event.normal is None:
                ways = [replace(event, until=event.until / parts)] * parts
            elif event.period < np.inf:
                if parts < event.count:
                    return None
                turns = event.period * event.count * np.arange(1, parts + 1) / parts
                ways = [replace(event, value=event.value + turn, count=1) for turn in turns]
            else:
                ways = self._rays(steps, begin, columns, parts)
            way_points = [begin]
            for way in ways:
                way_points.append(follow(steps, way_points[-1], way, columns)[0])
        between = np.stack(way_points).transpose(0, 2, 1)  # (part + 1, state, component)
        rest = np.broadcast_to(states[:, dim:], (parts + 1, *states[:, dim:].shape))
        between = np.concatenate([between[..., s.kept], rest], axis=-1)
        between[0] = states
        known = np.isfinite(between).all(axis=(0, 2))
        rows = np.arange(len(states))
        if not known.mean() > _MOST:
            return None
        rows[~known] = np.resize(rows[known], np.count_nonzero(~known))
        return between[:, rows]

    def _event(self, begin: np.ndarray, parameters: np.ndarray) -> Event:
        """Return the event of solutions from states ``begin`` (component, n) of the flow.

        ``parameters`` are (name, n).
        """
        s = self.section
        if s.period is not None:
            period = np.broadcast_to(self._period(*parameters)[0], begin.shape[1])
            return Event(period * s.crossings)
        normal = np.zeros(len(begin))
        turn = float(s.flow.periods.get(s.component, np.inf))
        normal[s.component] = s.sign
        never = np.full(begin.shape[1], np.inf)
        return Event(never, normal, s.sign * begin[s.component], turn, s.crossings)

    def _rays(
        self, steps: AdaptiveSteps, begin: np.ndarray, columns: np.ndarray, parts: int
    ) -> list[Event]:
        """Return rays about the section in the plane of its position and momentum."""
        s = self.section
        event = self._event(begin, columns)
        assert s.conjugate is not None
        _, durations = follow(steps, begin, event, columns)
        # an oscillation of the mean frequency is a circle if momenta have this unit
        time = np.nanmean(durations) / (2 * np.pi * s.crossings)
        width = time * np.nanmax(np.abs(steps.field(begin, columns)[s.component]))
        unit = width / np.nanmax(np.abs(begin[s.conjugate]))
        ways = []
        count = -(-s.crossings // parts)
        for angle in 2 * np.pi * (s.crossings * np.arange(1, parts) / parts % 1):
            normal = np.zeros(len(begin))
            normal[s.component] = s.sign * np.cos(angle)
            normal[s.conjugate] = -s.sign * np.sin(angle) * unit
            value = normal[s.component] * begin[s.component]
            ways.append(Event(durations, normal, value, count=count))
        return [*ways, replace(event, count=count)]

    def _rates(self, components: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        values: np.ndarray = stack_rows(self._field(*components, *parameters), components[0])
        return values

    @cached_property
    def _field(self) -> ComponentFunction:
        e = self.section.flow
        return vectorised(e.vector_field, [*e.symbols, *self._parameters], "numpy")

    @cached_property
    def _period(self) -> ComponentFunction:
        return vectorised([self.section.period or 0], self._parameters, "numpy")

    @cached_property
    def _of_section(self) -> ComponentFunction:
        """Value and parabola of the map's states, without the time, and the parameters."""
        s = self.section
        symbols = [*(s.flow.symbols[i] for i in s.kept), *self._parameters]
        return vectorised([s.value, *(s.parabola or ())], symbols, "numpy")


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
        flow: Callable[..., np.ndarray],
        source: str,
    ) -> None:
        self._returns = returns
        self._flow = flow
        self._source = source
        self._own = None if table is None else InitialConditions(system, table, source)
        self.available = None if self._own is None else self._own.available

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
        count = self.available if count is None else count
        if count is None:
            raise InputError(f"{self._source}: say how many states to draw")
        values = np.empty((count, 0)) if parameters is None else parameters
        states = np.empty((count, self._returns.section.dim))
        missing = np.arange(count)
        for _ in range(1 if self.available else _ROUNDS):
            given = None if parameters is None else parameters[missing]
            states[missing] = self._draw(len(missing), generator, given)
            crossings = self._returns.flow_states(states, values)
            missing = np.flatnonzero(~np.isfinite(crossings).all(axis=0))
            if not len(missing):
                return states
        section = self._returns.section
        state = zip(section.kept, states[missing[0]], strict=False)
        at = ", ".join(f"{section.flow.components[i]} = {x:.6g}" for i, x in state)
        raise InputError(
            f"{self._source}: at {at} the energy is too small for any momentum through the "
            "section; give another energy, or other states by [return_map.initial_conditions]"
        )

    def _draw(
        self, count: int, generator: np.random.Generator, parameters: np.ndarray | None
    ) -> np.ndarray:
        if self._own is not None:
            return self._own.sample(count, generator, parameters)
        section = self._returns.section
        if section.stroboscopic:
            return self._flow(count, generator, parameters)[:, section.kept]
        return generator.uniform(*self._box, (count, section.dim))

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        states = self._flow(_SAMPLE, np.random.default_rng(0), None)[:, self._returns.section.kept]
        return states.min(axis=0), states.max(axis=0)
