"""Accurate solutions of one system with many values of its parameters, each with its own step.

All trajectories of a stack are solved together, so they share one time: that in which every step
has the length 1. With t = h tau it is z' = h f(z; parameters), and the errors of the states are
what they were.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vpintegrator.dynamics.solve import batch_size, iterate, solve
from vpintegrator.dynamics.system import System
from vpintegrator.dynamics.varied import VariedEquations


class ScaledFlow(System):
    """The flow of several trajectories, one after the other, in time counted in steps.

    Parameters
    ----------
    varied
        The equations.
    steps
        Step of each trajectory, (trajectory,).
    parameters
        Parameters of each trajectory, (trajectory, name).
    """

    time_name = "t/step"

    def __init__(self, varied: VariedEquations, steps: np.ndarray, parameters: np.ndarray) -> None:
        self.equations, self.name = varied.equations, varied.name
        self._of_stack = varied.scaled_field(steps, parameters)

    @property
    def clock(self) -> int | None:
        """None: a component that is the time goes at the speed of its step here."""
        return None

    def vector_field_by_component(self, components: np.ndarray) -> np.ndarray:
        """Return components (dim, trajectory): h f(z; parameters) of each, with its own h."""
        return self._of_stack(components)


def solve_varied(
    varied: VariedEquations,
    initial: np.ndarray,
    steps: np.ndarray,
    parameters: np.ndarray,
    counts: np.ndarray,
    method: str = "DOP853",
    rtol: float = 1e-12,
    atol: float = 1e-12,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Solve z' = f(z; parameters) from many initial states, each with its own step and parameters.

    Parameters
    ----------
    varied
        The equations.
    initial
        Initial states, (trajectory, dim).
    steps
        The step of each trajectory, (trajectory,); of a map it is 1.
    parameters
        The parameters of each, (trajectory, name).
    counts
        After how many steps states are given, increasing, (time,); the first is that of the initial
        states.
    method, rtol, atol, progress
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
    >>> from vpintegrator.dynamics.varied import VariedEquations
    >>> from vpintegrator.dynamics.varied_solve import solve_varied
    >>> varied = VariedEquations(vp.load_system("harmonic-oscillator"), ["k"])
    >>> initial, steps, stiffness = np.ones((2, 2)), np.array([0.1, 0.2]), np.array([[4.0], [1.0]])
    >>> states = solve_varied(varied, initial, steps, stiffness, np.arange(3))
    >>> states[1, 2].round(3)  # after two steps of 0.2
    array([1.31 , 0.532])
    """
    states = np.empty((len(initial), len(counts), varied.dim))
    if varied.system.is_discrete:
        iterate(varied.map_of(parameters, rtol, atol), varied, initial, counts, states, progress)
        return states
    batch = batch_size(method, rtol)
    for start in range(0, len(initial), batch):
        part = slice(start, start + batch)
        flow = ScaledFlow(varied, steps[part], parameters[part])
        states[part] = solve(flow, initial[part], counts, method, rtol, atol, progress)
    if (clock := varied.equations.clock) is not None:  # to the last digit, however long
        states[..., clock] = initial[:, clock, None] + steps[:, None] * (counts - counts[0])
    return states
