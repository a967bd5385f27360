"""Explicit Runge-Kutta methods, each given by its tableau."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.equations import is_tensor
from vpintegrator.dynamics.tableaus import TABLEAUS
from vpintegrator.errors import InputError
from vpintegrator.maps.base import OneStepMethod
from vpintegrator.maps.map import Values


@final
@dataclass(frozen=True, kw_only=True)
class ExplicitRungeKutta(OneStepMethod):
    r"""An explicit Runge-Kutta method.

    .. math:: k_i = f\Big( z + h \sum_{j<i} a_{ij} k_j \Big), \qquad
        \Phi_h(z) = z + h \sum_{i=1}^s b_i k_i

    Attributes
    ----------
    stages
        Rows :math:`a_{i1}, \dots, a_{i,i-1}` of the tableau for the stages after the first.
    weights
        :math:`b_1, \dots, b_s`.

    Raises
    ------
    InputError
        If the tableau has the wrong shape, or its weights do not sum to 1.

    Examples
    --------
    >>> from vpintegrator.maps.explicit import ExplicitRungeKutta
    >>> ralston = ExplicitRungeKutta(
    ...     name="ralston",
    ...     title="Ralston",
    ...     order=2,
    ...     source="Ralston, Math. Comp. 16 (1962) 431-437",
    ...     stages=((2 / 3,),),
    ...     weights=(1 / 4, 3 / 4),
    ... )
    """

    stages: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        try:
            stages = tuple(tuple(float(a) for a in row) for row in self.stages)
            weights = tuple(float(b) for b in self.weights)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name}: the tableau's stages must be rows of numbers and its weights numbers"
            ) from None
        # lists and other sequences are welcome, but a method is compared and hashed
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "weights", weights)
        if [*map(len, stages)] != [*range(1, len(weights))]:
            raise InputError(
                f"{self.name}: an explicit method of {len(weights)} weights has rows of 1 to "
                f"{len(weights) - 1} entries in 'stages', for each stage but the first, not of "
                f"{[*map(len, stages)]}"
            )
        if not all(math.isfinite(x) for row in (*stages, weights) for x in row):
            raise InputError(f"{self.name}: an entry of the tableau is not a finite number")
        if not math.isclose(sum(weights), 1.0, rel_tol=1e-12):
            raise InputError(
                f"{self.name} is not consistent: its weights sum to {sum(weights):.15g}, not 1"
            )

    def evaluations(self, system: System) -> float:
        return float(len(self.weights))

    def increment(self, system: System, state: Any, step: float, parameters: Values = ()) -> Any:
        slopes = [system.vector_field_by_component(state, parameters)]
        for row in self.stages:
            stage = _combine(row, slopes, step, state)
            slopes.append(system.vector_field_by_component(stage, parameters))
        return _combine(self.weights, slopes, step)

    def derivative(
        self, system: System, state: np.ndarray, step: float, parameters: Values = ()
    ) -> np.ndarray:
        identity = np.eye(system.dim)

        def jacobian(point: np.ndarray) -> np.ndarray:
            return system.jacobian_by_component(point, parameters).transpose(2, 0, 1)

        state = np.array(state.T, order="C")
        slopes = [system.vector_field_by_component(state, parameters)]
        derivatives = [jacobian(state)]
        for row in self.stages:
            stage = _combine(row, slopes, step, state)
            slopes.append(system.vector_field_by_component(stage, parameters))
            inner = identity + _combine(row, derivatives, step)
            derivatives.append(jacobian(stage) @ inner)
        return identity + _combine(self.weights, derivatives, step)


def _combine(row: tuple[float, ...], terms: list[Any], step: float, start: Any = None) -> Any:
    """Return ``start`` plus h times the weighted sum of the terms, as a new array or tensor."""
    factors = [(step * weight, term) for weight, term in zip(row, terms, strict=True) if weight]
    (factor, term), *others = factors or [(0.0, terms[0])]
    if is_tensor(term):  # one operation of autograd a term, not two
        total = factor * term if start is None else start.add(term, alpha=factor)
        for factor, term in others:
            total = total.add(term, alpha=factor)
        return total
    total = factor * term
    for factor, term in others:
        total += factor * term
    if start is not None:
        total += start
    return total


# title, order and source of each
_METHODS = {
    "explicit-euler": ("Explicit Euler", 1, "Euler, Institutiones calculi integralis I (1768)"),
    "explicit-midpoint": ("Explicit midpoint", 2, "Runge, Math. Ann. 46 (1895) 167-178"),
    "heun": ("Heun", 2, "Heun, Z. Math. Phys. 45 (1900) 23-38; the explicit trapezoidal rule"),
    "rk4": ("RK4", 4, "Kutta, Z. Math. Phys. 46 (1901) 435-453"),
    "dormand-prince-8": (
        "Dormand–Prince 8",
        8,
        "Prince and Dormand, J. Comput. Appl. Math. 7 (1981) 67-75, in the coefficients of "
        "Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5 (DOP853)",
    ),
}

RUNGE_KUTTA = [
    ExplicitRungeKutta(
        name=name, title=title, order=order, source=source, **TABLEAUS[name]._asdict()
    )
    for name, (title, order, source) in _METHODS.items()
]
