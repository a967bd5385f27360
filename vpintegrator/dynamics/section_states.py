"""Initial states of return maps.

A table ``[return_map.initial_conditions]``, or that of a recipe, is a distribution of the map's own
states. Without such a table, a stroboscopic map starts at initial states of the flow, without the
time. A section starts anywhere in the box of the flow's initial states. On a section with an energy
only states count at which H = energy has a solution for the momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Symbol
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.returning import ReturnMap
from vpintegrator.errors import InputError

_SAMPLE = 512  # states of the flow's distribution, for the box of a section
_ROUNDS = 1000  # rounds of draws before a section counts as empty

Sample = Callable[[int, np.random.Generator, Any], np.ndarray]


@dataclass
class OwnStates:
    """States of a return map as a distribution sees them: without the time since the start.

    Attributes
    ----------
    name, equations, invariants, symbols
        Name, equations and invariants of the map, and symbols of parameters that vary.
    """

    name: str
    equations: Equations
    invariants: Mapping[str, Callable[..., Any]]
    symbols: tuple[Symbol, ...] = ()

    @property
    def dim(self) -> int:
        """Number of components."""
        return len(self.equations.components)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the components."""
        return self.equations.components


class SectionStates:
    """A distribution of initial states of a return map.

    Parameters
    ----------
    returns
        The map.
    states
        States of the map, for distributions of its own.
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
        states: OwnStates,
        table: Mapping[str, Any] | None,
        flow: Sample,
        source: str,
    ) -> None:
        section = returns.section
        self._returns, self._source, self.available = returns, source, None
        self._times = section.return_times
        self._kept, self._listed = section.kept, False
        if table is not None:
            e = states.equations
            if self._times:
                e = replace(e, components=e.components[:-1], symbols=e.symbols[:-1])
            own = InitialConditions(replace(states, equations=e), table, source)
            self.available, self._listed = own.available, own.available is not None
            self._draw: Sample = own.sample
        elif section.stroboscopic:
            self._draw = lambda count, generator, parameters: flow(count, generator, parameters)[
                :, self._kept
            ]
        else:
            self._flow = flow
            self._draw = self._in_box

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
            missing = np.flatnonzero(~np.isfinite(self._returns.lifted(states, given)).all(axis=0))
            if not len(missing):
                break
            if self._listed:
                raise self._no_momentum(states[missing[0]])
            own = None if parameters is None else parameters[missing]
            states[missing] = self._draw(len(missing), generator, own)
        else:
            raise self._no_momentum(states[missing[0]])
        return np.hstack([states, np.zeros((count, 1))]) if self._times else states

    def _in_box(self, count: int, generator: np.random.Generator, parameters: Any) -> np.ndarray:
        if not hasattr(self, "_box"):
            found = self._flow(_SAMPLE, np.random.default_rng(0), None)[:, self._kept]
            self._box = found.min(axis=0), found.max(axis=0)
        return generator.uniform(*self._box, (count, len(self._kept)))

    def _no_momentum(self, state: np.ndarray) -> InputError:
        e = self._returns.section.flow
        at = ", ".join(
            f"{e.components[i]} = {value:.6g}" for i, value in zip(self._kept, state, strict=False)
        )
        return InputError(
            f"{self._source}: at {at} the energy is too small for any momentum through the "
            "section; give another energy, or other states by [return_map.initial_conditions]"
        )
