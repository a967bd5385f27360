"""Adaptive solvers of SciPy, sampled at a fixed step.

The solvers choose their own steps, so they are no fixed map z -> Phi_h(z). The states are values of
their continuous solution. An explicit solver integrates all trajectories as one vector. Its
tolerances are divided by the square root of their number, which bounds the error of each trajectory
by the given tolerance. An implicit solver would factorise the Jacobian of this vector, so each
trajectory has its own solver.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.dynamics import System
from vpintegrator.dynamics.solve import (
    SMALLEST_TOLERANCE,
    batch_size,
    component_sizes,
    stacked_field,
    stacked_tolerances,
)
from vpintegrator.errors import InputError
from vpintegrator.maps.base import ClassicalMethod
from vpintegrator.maps.cursor import Cursor

_SOLVERS = ("RK45", "DOP853", "Radau", "LSODA")
_IMPLICIT = ("Radau", "LSODA")

# Steps of h after which a solver starts afresh, so that the trajectories that are left after one
# broke down come together again.
_SEGMENT = 250


@final
@dataclass(frozen=True, kw_only=True)
class AdaptiveMethod(ClassicalMethod):
    """Solver of SciPy with given tolerances.

    A trajectory that cannot be continued is NaN from there on and leaves the others alone.

    Attributes
    ----------
    solver
        ``"RK45"``, ``"DOP853"``, ``"Radau"`` or ``"LSODA"``.
    rtol, atol
        Tolerances of the local error: relative to the component at that time, and to its size in
        all trajectories, see ``component_sizes`` of ``dynamics/solve.py``.

    Raises
    ------
    InputError
        If there is no such solver or a tolerance is too small.
    """

    solver: str
    rtol: float = 1e-6
    atol: float = 1e-9

    def __post_init__(self) -> None:
        if self.solver not in _SOLVERS:
            raise InputError(
                f"{self.name}: there is no solver '{self.solver}'; there are {', '.join(_SOLVERS)}"
            )
        if not self.rtol >= SMALLEST_TOLERANCE or not self.atol > 0:
            raise InputError(
                f"{self.name}: rtol = {self.rtol:g}, atol = {self.atol:g}: rtol must be at least "
                f"{SMALLEST_TOLERANCE:g}, the limit of double precision, and atol positive"
            )

    def at_tolerance(self, tolerance: float, name: str) -> AdaptiveMethod:
        return replace(
            self,
            name=name,
            title=f"{self.solver} ({tolerance:g})",
            rtol=tolerance,
            atol=tolerance,
            source=f"SciPy's {self.solver} at rtol = atol = {tolerance:g}, sampled at the step",
        )

    def start(self, system: System, initial: np.ndarray, step: float) -> Cursor:
        initial = np.array(initial, dtype=np.float64)
        sizes = component_sizes(system, initial, _SEGMENT * step)
        return _AdaptiveCursor(self, system, step, initial, sizes)


class _AdaptiveCursor(Cursor):
    def __init__(
        self,
        method: AdaptiveMethod,
        system: System,
        step: float,
        state: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        self._method, self._system, self._step, self._sizes = method, system, step, sizes
        self._begin(state)

    def advance(self, count: int) -> np.ndarray:
        states = np.empty((len(self._state), count, self._system.dim))
        for k in range(count):
            states[:, k] = self._next()
        return states

    def _begin(self, state: np.ndarray) -> None:
        # (trajectory, dim) where the segment began, and the steps done since then
        self._state, self._done = state, 0
        self._stacks: list[tuple[np.ndarray, Iterator[np.ndarray]]] = []
        finite = np.flatnonzero(np.isfinite(state).all(axis=1))
        largest = batch_size(self._method.solver, self._method.rtol)
        for start in range(0, len(finite), largest):
            self._stacks.append(self._stack(finite[start : start + largest]))

    def _stack(self, trajectories: np.ndarray) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        first = self._state[trajectories]
        solution = _solve(self._method, self._system, self._step, first, self._sizes)
        return trajectories, solution

    def _next(self) -> np.ndarray:
        """Return the states one step later, (trajectory, dim)."""
        state = np.full(self._state.shape, np.nan)
        waiting, self._stacks = self._stacks, []
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's, of what the NaN says
            while waiting:
                trajectories, solution = waiting.pop(0)
                found = next(solution, None)
                if found is not None:
                    state[trajectories] = found
                    self._stacks.append((trajectories, solution))
                elif len(trajectories) > 1:
                    # a trajectory failed: the halves solve the segment again by themselves
                    for half in np.array_split(trajectories, 2):
                        again = self._stack(half)
                        # the states up to here have been given out already
                        if all(next(again[1], None) is not None for _ in range(self._done)):
                            waiting.append(again)
                        elif len(half) > 1:
                            waiting.append((half, iter(())))
        self._done += 1
        if self._done == _SEGMENT:
            self._begin(state)
        return state


def _solve(
    method: AdaptiveMethod, system: System, step: float, first: np.ndarray, sizes: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield states of a segment, (trajectory, dim) each, while one solver succeeds for all."""
    shape = (system.dim, len(first))
    options = stacked_tolerances(method.rtol, method.atol * sizes, len(first))
    field = stacked_field(system, len(first))
    if method.solver in _IMPLICIT:
        options["jac"] = lambda _, y: system.jacobian_by_component(y)
    end = _SEGMENT * step
    try:
        solver = getattr(scipy.integrate, method.solver)(
            field, 0.0, first.T.ravel(), end, **options
        )
        interpolant = None
        for k in range(1, _SEGMENT + 1):
            time = end if k == _SEGMENT else k * step
            while (time - solver.t) * solver.direction > 0:
                solver.step()
                if solver.status == "failed" or not np.isfinite(solver.y).all():
                    return
                # LSODA takes ever smaller steps if a solution grows without bound
                if solver.status == "running" and solver.step_size < 10 * np.spacing(abs(solver.t)):
                    return
                interpolant = None
            if solver.t == time:
                y = solver.y
            else:
                if interpolant is None:
                    interpolant = solver.dense_output()
                y = interpolant(time)
            if not np.isfinite(y).all():
                return
            yield y.reshape(shape).T
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return  # not a number where an implicit solver factorises its matrix


def _method(name: str, order: int, solver: str, source: str) -> AdaptiveMethod:
    return AdaptiveMethod(
        name=name,
        title=f"{solver} (rtol 1e-6)",
        order=order,
        solver=solver,
        source=f"SciPy's {solver} at rtol 1e-6, atol 1e-9 times a component's size, sampled at the "
        f"step: {source}",
    )


RK45 = _method("rk45", 5, "RK45", "Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19-26")
DOP853 = _method(
    "dop853",
    8,
    "DOP853",
    "Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5",
)
RADAU = _method(
    "radau", 5, "Radau", "Hairer and Wanner, Solving Ordinary Differential Equations II, IV.8"
)
LSODA = _method(
    "lsoda", 12, "LSODA", "Petzold, SIAM J. Sci. Stat. Comput. 4 (1983) 136-148; order up to 12"
)
