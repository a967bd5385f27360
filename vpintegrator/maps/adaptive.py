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

from vpintegrator.arguments import real_array
from vpintegrator.dynamics import System
from vpintegrator.dynamics.solve import (
    IMPLICIT,
    batch_size,
    check_solver,
    component_sizes,
    stacked_field,
    stacked_tolerances,
)
from vpintegrator.dynamics.system import SMALLEST_TOLERANCE
from vpintegrator.errors import InputError
from vpintegrator.maps.base import ClassicalMethod
from vpintegrator.maps.map import Values

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
        One of ``vpintegrator.names.SOLVERS``.
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
        check_solver(self.solver, self.rtol, self.atol, f"{self.name}: ")

    def at_tolerance(self, tolerance: float, name: str) -> AdaptiveMethod:
        return replace(
            self,
            name=name,
            title=f"{self.solver} ({tolerance:g})",
            rtol=tolerance,
            atol=tolerance,
            source=f"SciPy's {self.solver} at rtol = atol = {tolerance:g}, sampled at the step",
        )

    def iterate(
        self, system: System, initial: np.ndarray, step: float, parameters: Values = ()
    ) -> Iterator[np.ndarray]:
        if parameters:
            raise InputError(
                f"{self.name} has an adaptive step size and takes no parameters; give it "
                "system.with_parameters, or take a method with a fixed step"
            )
        state = real_array("initial", initial, None).copy()  # (trajectory, dim)
        sizes = component_sizes(system, state, _SEGMENT * step)

        def solution(begin: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
            return _solve(self, system, step, begin[rows], sizes)

        while True:
            begin = state
            finite = np.flatnonzero(np.isfinite(begin).all(axis=1))
            most = batch_size(self.solver, self.rtol, system.smallest_tolerance)
            stacks = [finite[first : first + most] for first in range(0, len(finite), most)]
            running = [(rows, solution(begin, rows)) for rows in stacks]
            for done in range(_SEGMENT):
                state = np.full(begin.shape, np.nan)
                waiting = running
                running = []
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # SciPy's, of what the NaN says
                    while waiting:
                        rows, states = waiting.pop(0)
                        if (new := next(states, None)) is not None:
                            state[rows] = new
                            running.append((rows, states))
                        # a trajectory failed: the halves solve the segment again by themselves
                        for half in (
                            np.array_split(rows, 2) if new is None and len(rows) > 1 else ()
                        ):
                            again = solution(begin, half)
                            # the states up to here have been given out already
                            if all(next(again, None) is not None for _ in range(done)):
                                waiting.append((half, again))
                            elif len(half) > 1:
                                waiting.append((half, iter(())))
                yield state


def _solve(
    method: AdaptiveMethod, system: System, step: float, first: np.ndarray, sizes: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield states of a segment, (trajectory, dim) each, while one solver succeeds for all."""
    shape = (system.dim, len(first))
    rtol = method.rtol
    atol = method.atol
    if (least := system.smallest_tolerance) > SMALLEST_TOLERANCE:
        rtol = max(rtol, least)
        atol = max(atol, least)
    options = stacked_tolerances(rtol, atol * sizes, len(first))
    field = stacked_field(system, len(first))
    if method.solver in IMPLICIT:
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
            if solver.t != time and interpolant is None:
                interpolant = solver.dense_output()
            y = solver.y if interpolant is None or solver.t == time else interpolant(time)
            if not np.isfinite(y).all():
                return
            yield y.reshape(shape).T
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return  # not a number where an implicit solver factorises its matrix


# order and source of each
_SOLVERS = {
    "RK45": (5, "Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19-26"),
    "DOP853": (8, "Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5"),
    "Radau": (5, "Hairer and Wanner, Solving Ordinary Differential Equations II, IV.8"),
    "LSODA": (12, "Petzold, SIAM J. Sci. Stat. Comput. 4 (1983) 136-148; order up to 12"),
}

ADAPTIVE = [
    AdaptiveMethod(
        name=solver.lower(),
        title=f"{solver} (rtol 1e-6)",
        order=order,
        solver=solver,
        source=f"SciPy's {solver} at rtol 1e-6, atol 1e-9 times a component's size, sampled at the "
        f"step: {source}",
    )
    for solver, (order, source) in _SOLVERS.items()
]
