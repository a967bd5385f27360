"""Accurate solutions of one system with many values of its parameters, each with its own step.

All trajectories of a stack are solved together, so they share one time: that in which every step
has the length 1. With t = h tau it is z' = h f(z; parameters), and the errors of the states are
what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.dynamics.solve import iterate, solve
from vpintegrator.dynamics.system import System


class ScaledFlow(System):
    """The flow of several trajectories, one after the other, in time counted in steps.

    Parameters
    ----------
    system
        System with open parameters.
    steps
        Step of each trajectory, (trajectory,).
    parameters
        Parameters of each trajectory, (trajectory, name).
    """

    time_name = "t/step"

    def __init__(self, system: System, steps: np.ndarray, parameters: np.ndarray) -> None:
        super().__init__(system.definition)
        self._given = system, steps, parameters

    @property
    def explicit_time(self) -> int | None:
        """None: a component that is the time goes at the speed of its step here."""
        return None

    def vector_field_by_component(self, components: np.ndarray) -> np.ndarray:
        """Return components (dim, trajectory): h f(z; parameters) of each, with its own h."""
        _, steps, parameters = self._given
        result = np.empty_like(components)
        for i, value in enumerate(self._field.by_component(components, parameters.T)):
            np.multiply(steps, value, out=result[i])
        return result

    def of_trajectories(self, rows: Any) -> ScaledFlow:
        """Return the flow of some of the trajectories."""
        system, steps, parameters = self._given
        return ScaledFlow(system, steps[rows], parameters[rows])

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledFlow, self._given


def solve_varied(
    system: System,
    initial: np.ndarray,
    steps: np.ndarray,
    parameters: np.ndarray,
    counts: np.ndarray,
    method: str = "DOP853",
    rtol: float = 1e-12,
    atol: float = 1e-12,
    progress: Callable[[int], None] | None = None,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    """Solve z' = f(z; parameters) from many initial states, each with its own step and parameters.

    Parameters
    ----------
    system
        System with open parameters, see :meth:`System.with_open`.
    initial
        Initial states, (trajectory, dim).
    steps
        The step of each trajectory, (trajectory,); of a map it is 1.
    parameters
        The parameters of each, (trajectory, name).
    counts
        After how many steps states are given, increasing, (time,); the first is that of the initial
        states.
    method, rtol, atol, progress, sizes
        Arguments of :func:`vpintegrator.dynamics.solve`.

    Returns
    -------
    numpy.ndarray
        States of shape (trajectory, time, dim).

    Raises
    ------
    InputError
        As :func:`vpintegrator.dynamics.solve`.

    Examples
    --------
    >>> from vpintegrator.dynamics.varied import solve_varied
    >>> varied = vp.load_system("harmonic-oscillator").with_open(["k"])
    >>> initial, steps, stiffness = np.ones((2, 2)), np.array([0.1, 0.2]), np.array([[4.0], [1.0]])
    >>> states = solve_varied(varied, initial, steps, stiffness, np.arange(3))
    >>> states[1, 2].round(3)  # after two steps of 0.2
    array([1.31 , 0.532])
    """
    if system.is_discrete:
        states = np.empty((len(initial), len(counts), system.dim))
        image = system.iteration(rtol, atol, parameters)
        iterate(image, system, initial, counts, states, progress)
        return states
    flow = ScaledFlow(system, steps, parameters)
    states = solve(flow, initial, counts, method, rtol, atol, progress, sizes)
    if (explicit_time := system.explicit_time) is not None:  # to the last digit, however long
        states[..., explicit_time] = initial[:, explicit_time, None] + steps[:, None] * (
            counts - counts[0]
        )
    return states
