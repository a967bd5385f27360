"""What learned maps of a turn are measured beside: heyoka, SciPy, and classical methods.

Each is a function of states (trajectory, component) that gives those after each of some turns,
(trajectory, turn, component).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from heyoka_method import in_heyoka

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod
from vpintegrator.dynamics import System
from vpintegrator.dynamics.expressions.nodes import below

Run = Callable[[np.ndarray], np.ndarray]

PART = 128  # trajectories whose steps of a turn a cache holds
_LARGEST_STRAIGHT = 300  # formulas that heyoka writes out; of more it makes loops
_AWAY = 1e-6  # of a turn: a step off the section, where an event would be seen at once
_LONGEST = 1e3  # of a way back, in turns


def _for_heyoka(system: System) -> tuple[list[Any], dict[str, Any]]:
    """Equations in heyoka's language, and how they are to be compiled."""
    import heyoka

    e, phase = system.equations, system.phase_dim
    variables = [heyoka.make_vars(f"z{i}") for i in range(phase)]
    symbols = dict(zip(e.symbols, [*variables, heyoka.time], strict=False))
    rates = in_heyoka(e.vector_field[:phase], symbols)
    compact = len(below(e.vector_field)) > _LARGEST_STRAIGHT
    return list(zip(variables, rates, strict=True)), {"compact_mode": compact}


def taylor(system: System, tolerance: float, turn: float, turns: int) -> Run:
    """Heyoka over a time, as many trajectories at once as a vector register has lanes."""
    import heyoka

    equations, options = _for_heyoka(system)
    lanes, phase = heyoka.recommended_simd_size(), system.phase_dim
    start = np.zeros((phase, lanes))
    integrator = heyoka.taylor_adaptive_batch(equations, start, tol=tolerance, **options)
    times = np.ascontiguousarray(np.repeat(turn * np.arange(turns + 1)[:, None], lanes, axis=1))

    def run(initial: np.ndarray) -> np.ndarray:
        states = np.empty((len(initial), turns, phase))
        for first in range(0, len(initial), lanes):
            integrator.set_time(0.0)
            integrator.state[:] = initial[first : first + lanes, :phase].T
            found = integrator.propagate_grid(times)[1]
            states[first : first + lanes] = found[1:].transpose(2, 0, 1)
        return states

    return run


def taylor_to_section(
    system: System, tolerance: float, kept: list[int], turn: float, turns: int
) -> Run:
    """Heyoka to where the first component passes zero upwards, by an event that ends the way.

    One trajectory at a time, as in a batch an event of one of them ends all. Of the components
    ``kept`` are given.
    """
    import heyoka

    equations, options = _for_heyoka(system)
    upwards = heyoka.event_direction.positive
    event = heyoka.t_event(equations[0][0], direction=upwards)
    start = np.zeros(system.dim)
    integrator = heyoka.taylor_adaptive(
        equations, start, tol=tolerance, t_events=[event], **options
    )

    def run(initial: np.ndarray) -> np.ndarray:
        states = np.empty((len(initial), turns, len(kept)))
        for k, state in enumerate(initial):
            integrator.reset_cooldowns()
            integrator.time, integrator.state[:] = 0.0, state
            integrator.step(max_delta_t=_AWAY * turn)
            for i in range(turns):
                integrator.propagate_for(_LONGEST * turn)
                states[k, i] = integrator.state[kept]
        return states

    return run


def scipy_solver(system: System, tolerance: float, turn: float, turns: int) -> Run:
    """SciPy's DOP853, all trajectories as one stack of NumPy arrays; a map is iterated."""
    times = np.arange(turns + 1) if system.is_discrete else turn * np.arange(turns + 1)

    def run(initial: np.ndarray) -> np.ndarray:
        return vp.solve(system, initial, times, rtol=tolerance, atol=tolerance)[:, 1:]

    return run


def classical(method: CompiledMethod, steps: int, turn: float, turns: int) -> Run:
    """A classical method with ``steps`` steps in a turn, some trajectories at a time."""

    def run(initial: np.ndarray) -> np.ndarray:
        states = np.empty((len(initial), turns, initial.shape[1]))
        for first in range(0, len(initial), PART):
            map, begin = method.at_step(turn / steps), initial[first : first + PART, None]
            for k, chunk in enumerate(map.advance(begin, turns * steps, chunk=steps)):
                states[first : first + PART, k] = chunk[:, -1]
        return states

    return run
