"""Other coordinates of a system: the maps there and back, and the system as it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from vpintegrator.dynamics.claims import Claim, ExactFormulas, TrialStates, less_turns
from vpintegrator.dynamics.equations import Equations, MatrixFunction, StateFunction
from vpintegrator.dynamics.expressions.evaluation import can_be_written, written
from vpintegrator.dynamics.expressions.nodes import Call, Expression, Value, below, high
from vpintegrator.dynamics.expressions.parsing import Scope
from vpintegrator.dynamics.reading import (
    KEYS,
    check_table,
    read_components,
    read_state_and_formulas,
)
from vpintegrator.errors import InputError

_OF_EQUATIONS = ("state", "hamiltonian", "vector_field", "periodic", "reversing_symmetry")
_KEYS = {key: KEYS[key] for key in _OF_EQUATIONS} | {"map": Mapping, "inverse": Mapping}


@dataclass(frozen=True)
class ChartEquations:
    """Coordinates Z = chart(z), and the system in them.

    Attributes
    ----------
    equations
        The system Z' = F(Z), F(chart(z)) = D chart(z) f(z).
    map
        The new components in symbols of the old ones.
    inverse
        The old components in symbols of the new ones.
    base
        The system Z is a chart of.
    states
        Images of random states, (state, dim), at which the claims are checked.
    """

    equations: Equations
    map: tuple[Value, ...]
    inverse: tuple[Value, ...]
    base: Equations
    states: np.ndarray


def read_chart(trial: TrialStates, source: str) -> ChartEquations:
    """Read and check the table ``[chart]``.

    Whether the flow preserves volume in the new components is left to their own system.

    Raises
    ------
    InputError
        If it is not understood, the two maps are not inverse to each other, or the vector field or
        Hamiltonian is not that of the system in these components.
    """
    base = trial.equations
    where = f"{source}, [chart]"
    table = base.table["chart"]
    check_table(table, _KEYS, where)
    given = {key: entry for key, entry in table.items() if key not in ("map", "inverse")}
    derived = not ("hamiltonian" in given or "vector_field" in given)
    if not base.vector_field and not derived:
        raise InputError(f"{where}: the system is measured, so it has no equations here either")
    given |= {"measured": True} if derived else {"divergence_free": True}
    given |= {key: base.table[key] for key in ("time", "period") if key in base.table}
    values = {name: base.scope.values[name] for name in base.definitions}
    scope = Scope(values, base.scope.integers, base.algebra)
    equations = read_state_and_formulas(given, where, scope, base.definitions)
    forward = _components(table, "map", where, base, equations)
    backward = _components(table, "inverse", where, equations, base)
    if len(forward) != len(backward):
        raise InputError(f"{where}, state: {len(forward)} components, not {len(backward)}")
    for i, (name, value) in enumerate(zip(equations.components, forward, strict=True)):
        if i not in equations.periods and jumps([value]):
            raise InputError(
                f"{where}, [chart.map] {name}: atan2 jumps from pi to -pi, so this component is an "
                "angle; give its period in [chart.periodic]"
            )
    images = ExactFormulas(forward, base.symbols)(trial.states)
    chart = ChartEquations(equations, forward, backward, base, images)
    _check_inverse(trial, chart, where)
    return _with_field(trial, chart, derived, where) if base.vector_field else chart


def jumps(values: Sequence[Value]) -> bool:
    """Whether formulas hold atan2, which jumps from pi to -pi."""
    return any(isinstance(n, Call) and n.function.name == "atan2" for n in below(values))


def _components(
    table: Mapping[str, Any], key: str, where: str, old: Equations, new: Equations
) -> tuple[Value, ...]:
    """Return the components of ``new`` in symbols of ``old``."""
    here = f"{where}, [chart.{key}]"
    values = read_components(table.get(key, {}), here, old.scope, new.components, new.arrays)
    if old.explicit_time is not None and new.explicit_time is not None:
        values.setdefault(new.explicit_time, old.symbols[old.explicit_time])
    if missing := [name for i, name in enumerate(new.components) if i not in values]:
        raise InputError(f"{here}: no expression for {', '.join(missing[:6])}")
    for i, value in values.items():
        if isinstance(value, Expression) and not can_be_written(value):
            raise InputError(f"{here} {new.components[i]}: the expression is too long")
    return tuple(values[i] for i in range(len(new.components)))


def _check_inverse(trial: TrialStates, chart: ChartEquations, where: str) -> None:
    """Whether inverse(chart(z)) = z, also where angles have turned."""
    base = trial.equations
    states = trial.states
    back = ExactFormulas(chart.inverse, chart.equations.symbols)
    periods = {i: high(period) for i, period in base.periods.items()}
    sizes = 1 + np.abs(states).max(axis=1)
    here = f"{where}, [chart.inverse]"
    for i, period in (None, Fraction()), *chart.equations.periods.items():
        turned = chart.states.copy()
        what = ""
        if i is not None:
            turned[:, i] += 3 * high(period)
            what = "after a turn of an angle "
        what += "this gives another state than [chart.map] was given, by {},"
        defects = np.abs(less_turns(back(turned) - states, periods)).max(axis=1)
        trial.require(Claim(here, what, defects, sizes, trial.tolerance))


def _with_field(
    trial: TrialStates, chart: ChartEquations, derived: bool, where: str
) -> ChartEquations:
    """Return the chart with its vector field, derived or checked."""
    base = trial.equations
    algebra = trial.equations.algebra
    algebra.allow_derivatives()
    rates = []
    for value in chart.map:
        slopes = algebra.gradient(value)
        pairs = zip(base.symbols, base.vector_field, strict=True)
        products = (algebra.multiply(slopes[s], f) for s, f in pairs if s in slopes)
        rates.append(algebra.add(*products))
    if derived:
        inverse = dict(zip(base.symbols, chart.inverse, strict=True))
        field = tuple(algebra.substitute(rates, inverse))
        equations = replace(chart.equations, vector_field=field, divergence_free=True)
        return replace(chart, equations=equations)
    expected = ExactFormulas(rates, base.symbols)(trial.states)
    values = ExactFormulas(chart.equations.vector_field, chart.equations.symbols)(chart.states)
    sizes = 1 + np.abs(expected).max(axis=1)
    for defects, name in zip((values - expected).T, chart.equations.components, strict=True):
        what = f"this is not the system in these coordinates: {name}' is off by {{}}"
        trial.require(Claim(where, what, defects, sizes, trial.tolerance))
    return chart


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
    >>> chart.texts, chart.system.kind
    (['log(z[0])', 'log(z[1])'], 'Hamiltonian')
    >>> chart.inverse(chart(np.array([2.0, 0.5])))
    array([2. , 0.5])
    """

    def __init__(self, equations: ChartEquations, system: S) -> None:
        base = equations.base
        inside = equations.equations
        self.system = system
        self.components = inside.components
        self._equations = equations
        old = {symbol: f"z[{i}]" for i, symbol in enumerate(base.symbols)}
        new = {symbol: f"z[{i}]" for i, symbol in enumerate(inside.symbols)}
        names = dict(zip(base.symbols, base.components, strict=True))
        self.texts = [written(value, old) for value in equations.map]
        self.inverse_texts = [written(value, new) for value in equations.inverse]
        self.equations = tuple(written(value, names) for value in equations.map)
        self._map = StateFunction(base, equations.map)
        self._inverse = StateFunction(inside, equations.inverse)

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
        known = self.log_density(states)
        known = known[np.isfinite(known)]
        return bool(len(known) and np.ptp(known) < _CONSTANT)

    @cached_property
    def _jacobian(self) -> MatrixFunction:
        base = self._equations.base
        return MatrixFunction(base, replace(base, vector_field=self._equations.map).jacobian)

    def __repr__(self) -> str:
        return f"<Chart: ({', '.join(self.components)}) = ({', '.join(self.equations)})>"
