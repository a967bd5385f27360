"""Other coordinates of a system: the maps there and back, and the system as it is there."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from vpintegrator.dynamics.chart_equations import ChartEquations, jumps
from vpintegrator.dynamics.expressions import written
from vpintegrator.dynamics.state_function import MatrixFunction, StateFunction

S = TypeVar("S")  # the class of systems

_POINTS = 64
_CONSTANT = 1e-9  # relative spread of a density that is constant but for rounding


class Chart(Generic[S]):
    r"""Coordinates in which a system preserves volume; maybe they are canonical.

    New components :math:`Z = Z(z)` are invertible functions of the old ones, and where the flow
    keeps the volume :math:`dZ` it keeps the measure :math:`|\det DZ(z)|\, dz` of the states.

    Functions take NumPy arrays or torch tensors (..., dim), and are vectorised.

    Attributes
    ----------
    components
        Names of the new components.
    texts, inverse_texts
        The new components as expressions of the old ones, ``z[0]``, ``z[1]``, ..., with the numbers
        of the parameters, and the old ones as expressions of the new ones.
    equations
        The new components as expressions of the system's components by their names.
    system
        The system in the new components.

    Examples
    --------
    >>> chart = vp.load_system("lotka-volterra-2d").chart
    >>> chart.texts, chart.system.structure
    (['log(z[0])', 'log(z[1])'], 'Hamiltonian')
    >>> chart.inverse(chart(np.array([2.0, 0.5])))
    array([2. , 0.5])
    """

    def __init__(self, equations: ChartEquations, system: S) -> None:
        self.system = system
        self.components = equations.equations.components
        self.texts, self.inverse_texts = equations.texts, equations.inverse_texts
        self._equations = equations
        names = dict(zip(equations.base.symbols, equations.base.components, strict=True))
        self.equations = tuple(written(value, names) for value in equations.map)
        self._map = StateFunction(equations.base, equations.map)
        self._inverse = StateFunction(equations.equations, equations.inverse)

    def __call__(self, state: Any) -> Any:
        """Return the new components Z of states z; angles within one turn."""
        return self._map(state)

    def inverse(self, state: Any) -> Any:
        """Return the states z that have the new components Z."""
        return self._inverse(state)

    def log_density(self, state: Any) -> Any:
        r"""The logarithm of the density of the measure that the volume of new components is, (...).

        That is :math:`\log |\det DZ(z)|` for the new components :math:`Z(z)`.
        """
        with np.errstate(all="ignore"):
            return np.linalg.slogdet(np.asarray(self._jacobian(state)))[1]

    @cached_property
    def jumps(self) -> bool:
        """Whether some of the new components are angles that jump from one turn to another."""
        return jumps(self._equations.map)

    @cached_property
    def keeps_volume(self) -> bool:
        """Whether the volume of the new components is that of the old ones, up to a factor."""
        states = np.random.default_rng(0).normal(size=(_POINTS, len(self.components)))
        with np.errstate(all="ignore"):
            known = self.log_density(states)
        known = known[np.isfinite(known)]
        return bool(len(known) and np.ptp(known) < _CONSTANT)

    @cached_property
    def _jacobian(self) -> MatrixFunction:
        base = self._equations.base
        base.algebra.allow_derivatives()
        column = {symbol: j for j, symbol in enumerate(base.symbols)}
        entries = {
            (i, column[symbol]): slope
            for i, value in enumerate(self._equations.map)
            for symbol, slope in base.algebra.gradient(value).items()
        }
        return MatrixFunction(base, entries)

    def __repr__(self) -> str:
        return f"<Chart: ({', '.join(self.components)}) = ({', '.join(self.equations)})>"
