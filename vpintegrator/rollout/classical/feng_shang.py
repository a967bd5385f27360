"""Feng and Shang's volume-preserving splitting of any divergence-free vector field.

A divergence-free field in n dimensions is a sum of n - 1 fields, of which the k-th moves only the
components k and k + 1 and has no divergence in their plane:

    y_k' = u_k,  y_{k+1}' = w_k,  du_k/dy_k + dw_k/dy_{k+1} = 0,
    u_1 = f_1,   w_k = -(integral of du_k/dy_k over y_{k+1}),   u_{k+1} = f_{k+1} - w_k,

and w_{n-1} = f_n, where the condition holds as f has no divergence. Only n - 2 antiderivatives are
needed, and none where u_k does not depend on y_k. In its plane each field is Hamiltonian, so that
the implicit midpoint rule keeps areas there, and the composition keeps volume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.algebra import Symbol, TooLong, Value
from vpintegrator.dynamics.antiderivative import antiderivative
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.evaluation import vectorised
from vpintegrator.dynamics.identities import vanishes
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical.base import OneStepMethod, as_rows
from vpintegrator.rollout.classical.newton import inverse_matrices, solve_stages
from vpintegrator.rollout.classical.per_system import once_per_system
from vpintegrator.rollout.classical.splitting import is_separable

_SECONDS = 5.0  # processor time of SymPy for an antiderivative
_POINTS = 50  # at which an antiderivative is checked
_TOLERANCE = 1e-9


class PlaneFlow:
    """A field that moves two neighbouring components and has no divergence in their plane.

    Attributes
    ----------
    rows
        The two components.
    explicit
        Whether the rates do not depend on what moves, so that no equation has to be solved.
    """

    def __init__(self, equations: Equations, start: int, rates: list[Value]) -> None:
        self.rows = slice(start, start + 2)
        symbols = equations.symbols
        slopes = [equations.algebra.gradient(rate) for rate in rates]
        moving = [s for s, rate in zip(symbols[self.rows], rates, strict=True) if rate != 0]
        self.explicit = not any(s in slope for slope in slopes for s in moving)
        inner = [slope.get(s, 0) for slope in slopes for s in symbols[self.rows]]
        outer = {
            (i, j): slope[s]
            for i, slope in enumerate(slopes)
            for j, s in enumerate(symbols)
            if s in slope
        }
        self._rates = vectorised(rates, symbols, "numpy")
        self._inner = vectorised(inner, symbols, "numpy")
        self._places = list(outer)
        self._outer = vectorised(list(outer.values()), symbols, "numpy")

    def slopes(self, components: list[np.ndarray], step: float) -> np.ndarray:
        """Return the two rates at mid-step, (2, trajectory); NaN without a solution.

        Parameters
        ----------
        components
            Components of the state at the beginning of the step.
        """
        rows = self.rows
        if self.explicit:
            return as_rows(self._rates(*components), components[0].shape)
        before, after = components[: rows.start], components[rows.stop :]

        def field(points: np.ndarray) -> np.ndarray:
            return as_rows(self._rates(*before, *points, *after), points.shape[1:])

        def jacobian(points: np.ndarray) -> np.ndarray:
            shape = points.shape[1:]
            return as_rows(self._inner(*before, *points, *after), shape).reshape(2, 2, *shape)

        start = np.stack(components[rows])
        return solve_stages(field, jacobian, start, np.array([[step / 2]]))[:, 0]

    def slopes_derivative(
        self, components: list[np.ndarray], incoming: np.ndarray, step: float
    ) -> np.ndarray:
        """Return the derivatives of the slopes at mid-step, (2, derivative, trajectory).

        Parameters
        ----------
        components
            Components of the state, where the two that move have their values at the middle of the
            step.
        incoming
            Derivatives of the state at the beginning of the step, (dim, derivative, trajectory).
        """
        # differentiate k = f(z + h/2 k): (I - h/2 df/dy) dk = df/dz dz
        shape = components[0].shape
        right = np.zeros((2, *incoming.shape[1:]))
        for (i, j), value in zip(self._places, self._outer(*components), strict=True):
            right[i] += value * incoming[j]
        inner = as_rows(self._inner(*components), shape).reshape(2, 2, -1)
        newton = np.eye(2) - (step / 2) * inner.transpose(2, 0, 1)
        solution = np.matmul(inverse_matrices(newton), right.transpose(2, 0, 1))
        return solution.transpose(1, 2, 0)


@final
@dataclass(frozen=True, kw_only=True)
class FengShang(OneStepMethod):
    r"""Implicit midpoint steps in the planes of a divergence-free field.

    Such a field f is a sum of fields that move two components only, the k-th of them
    :math:`\dot y_k = u_k`, :math:`\dot y_{k+1} = w_k`, each with an area-preserving flow:

    .. math:: u_1 = f_1, \quad w_k = -\int \frac{\partial u_k}{\partial y_k}\, dy_{k+1}, \quad
        u_{k+1} = f_{k+1} - w_k, \qquad w_{n-1} = f_n.

    With :math:`\Phi^{(k)}_h` the implicit midpoint step of the k-th, the step is

    .. math:: \Phi_h = \Phi^{(1)}_{h/2} \circ \cdots \circ \Phi^{(n-2)}_{h/2} \circ
        \Phi^{(n-1)}_h \circ \Phi^{(n-2)}_{h/2} \circ \cdots \circ \Phi^{(1)}_{h/2}.

    A field that depends on time is that of the middle of the step throughout.
    """

    needs_formulas: ClassVar[bool] = True

    def check(self, system: System) -> None:
        dim = system.phase_dim
        if not system.divergence_free or dim < 2:
            what = "divergence-free field" if dim > 1 else "field of two components or more"
            raise InputError(
                f"{self.name} needs a {what}, but that of {system.name} "
                f"{'is not' if dim > 1 else 'has one'}; take another method, such as "
                "implicit-midpoint"
            )
        planes = _planes(system)
        if isinstance(planes, str):
            raise InputError(
                f"{self.name} does not apply to {system.name}: {planes}; take another method, such "
                "as implicit-midpoint"
            )

    def _is_symplectic(self, system: System) -> bool:
        # then every plane but one is a shear along one component, and those of the positions make
        # up a drift, those of the momenta a kick
        return is_separable(system) or (system.is_hamiltonian and system.phase_dim == 2)

    def increment(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        total, moved = np.zeros_like(state), state.copy()
        components = list(moved)  # views, so they move with it
        if system.clock is not None:
            total[system.clock], components[system.clock] = step, moved[system.clock] + step / 2
        for plane, factor in self._moves(system):
            rows = plane.rows
            total[rows] += (factor * step) * plane.slopes(components, factor * step)
            np.add(state[rows], total[rows], out=moved[rows])
        return total

    def derivative(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        moved = np.array(state.T, order="C")
        dim, count = moved.shape
        result = np.zeros((dim, dim, count))
        result.reshape(dim * dim, count)[:: dim + 1] = 1.0
        if system.clock is not None:
            moved[system.clock] += step / 2
        for plane, factor in self._moves(system):
            share, rows = factor * step, plane.rows
            slopes = plane.slopes(list(moved), share)
            moved[rows] += (share / 2) * slopes
            result[rows] += share * plane.slopes_derivative(list(moved), result, share)
            moved[rows] += (share / 2) * slopes
        return np.ascontiguousarray(result.transpose(2, 0, 1))

    def _moves(self, system: System) -> list[tuple[PlaneFlow, float]]:
        planes = _planes(system)
        assert not isinstance(planes, str)
        halves = [(plane, 1 / 2) for plane in planes[:-1]]
        return [*halves, (planes[-1], 1.0), *reversed(halves)]


@once_per_system
def _planes(system: System) -> tuple[PlaneFlow, ...] | str:
    """Return the planes in order, or the reason why there are none."""
    e = system.equations
    e.algebra.allow_derivatives()
    try:
        return _find_planes(e)
    except (TooLong, ArithmeticError):
        return "its antiderivatives are too long, or have constants that are too large"


def _find_planes(e: Equations) -> tuple[PlaneFlow, ...] | str:
    algebra, symbols, names = e.algebra, e.symbols, e.components
    dim = len(symbols) - (e.clock is not None)
    planes = []
    rate = e.vector_field[0]
    for k in range(dim - 1):
        if k == dim - 2:
            other = e.vector_field[dim - 1]
        else:
            change = algebra.gradient(rate).get(symbols[k], 0)
            where = (
                f"antiderivative over {names[k + 1]} in closed form for the field in the plane of "
                f"{names[k]} and {names[k + 1]}"
            )
            try:
                integral = _antiderivative(change, symbols[k + 1], e)
            except TimeoutError:
                return f"SymPy finds no {where} within {_SECONDS:g} s"
            if integral is None:
                return f"SymPy finds no {where}"
            other = algebra.scale(-1, integral)
        if rate != 0 or other != 0:
            planes.append(PlaneFlow(e, k, [rate, other]))
        rate = algebra.subtract(e.vector_field[k + 1], other)
        if vanishes(rate, symbols):
            rate = 0
    return tuple(planes) or (PlaneFlow(e, 0, [0, 0]),)


def _antiderivative(change: Value, symbol: Symbol, e: Equations) -> Value | None:
    """Return an antiderivative in closed form that has been checked, or None."""
    if vanishes(change, e.symbols):
        return 0
    integral = antiderivative(change, symbol, e.algebra, e.symbols, _SECONDS)
    if integral is None:
        return None
    slope = e.algebra.gradient(integral).get(symbol, 0)
    return integral if _agrees(slope, change, e.symbols) else None


def _agrees(first: Value, second: Value, symbols: tuple[Symbol, ...]) -> bool:
    """Whether two expressions have the same values wherever both have one: SymPy may err."""
    function = vectorised([first, second], symbols, "numpy")
    points = np.random.default_rng(0).normal(size=(len(symbols), _POINTS))
    with np.errstate(all="ignore"):
        a, b = as_rows(function(*points), (_POINTS,))
    seen = np.isfinite(a) & np.isfinite(b)
    return bool(seen.any() and np.allclose(a[seen], b[seen], rtol=_TOLERANCE, atol=_TOLERANCE))


FENG_SHANG = FengShang(
    name="feng-shang",
    title="Feng–Shang",
    order=2,
    volume_preserving=True,
    symmetric=True,
    source="Feng and Shang, Numer. Math. 71 (1995) 451-463; Hairer, Lubich, Wanner, Geometric "
    "Numerical Integration, section VI.9",
)
