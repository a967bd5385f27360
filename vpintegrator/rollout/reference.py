"""Reference solution with an estimate of its error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind, real_array
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.solve import bounded_sizes, component_sizes
from vpintegrator.dynamics.structure import ROUNDING
from vpintegrator.maps.base import check_initial

Progress = Callable[[str, int, int], None]

METHOD = "DOP853"
TOLERANCE = 1e-13
CONTROL_TOLERANCE = 1e-12
_LOOSER = 10  # tolerance of the control over that of the reference
_PART = 256  # steps solved for at a time


@dataclass(frozen=True)
class Reference:
    """A reference solution.

    Attributes
    ----------
    states
        (trajectory, time, dim); NaN after the end of an orbit's reference.
    error
        Estimate of its largest error in any component of each trajectory, relative to the size of
        the component, (trajectory,). The size is the largest absolute value in all trajectories,
        and the period of an angle at most.
    difference
        Difference from a second solution, (trajectory, time, dim); None where there is none.
    """

    states: np.ndarray
    error: np.ndarray
    difference: np.ndarray | None = field(default=None, repr=False)

    def until(self, system: System, largest: float, least: int) -> Reference:
        """Return the reference of which each orbit ends where its error passes ``largest``.

        In chaos the two solutions part: later states are those of other orbits.

        Parameters
        ----------
        system
            The system.
        largest
            Largest Euclidean distance of the two solutions, in the components that move.
        least
            Number of states that are kept of each orbit.
        """
        if self.difference is None:
            return self
        distance = np.linalg.norm(self.difference[..., system.moving], axis=-1)
        size = np.linalg.norm(np.abs(self.states).max(axis=(0, 1))[system.moving])
        lost = ~(distance <= max(largest, ROUNDING * size))
        lost[:, :least] = False
        ended = np.logical_or.accumulate(lost, axis=1)
        if not ended.any():
            return self
        states = np.where(ended[..., None], np.nan, self.states)[:, : (~ended).sum(axis=1).max()]
        difference = np.where(ended[..., None], 0.0, self.difference)
        return Reference(states, _relative(system, difference, self.states))

    def observed(self, system: System, observe: Callable[[np.ndarray], np.ndarray]) -> Reference:
        """Return what is observed of the reference, as states of another system.

        Parameters
        ----------
        system
            System of the observed states.
        observe
            Function of states (..., dim) that gives them.
        """
        states = observe(self.states)
        if self.difference is None:
            return Reference(states, self.error)
        difference = states - observe(self.states - self.difference)
        return Reference(states, _relative(system, difference, states), difference)

    def __repr__(self) -> str:
        count, times, _ = self.states.shape
        return (
            f"<Reference: {count:,} by {times:,} states, error about "
            f"{self.error.max(initial=0):.0e}>"
        )


def solve_reference(
    system: System,
    initial: np.ndarray,
    times: np.ndarray,
    progress: Progress | None = None,
    bound: float = math.inf,
) -> Reference:
    """Solve for the reference twice and take the difference as the estimate of its error.

    Maps by formula are iterated, with an error of 0; return maps with both tolerances.

    The control has a ten times looser tolerance and ends its steps at the output times; the
    reference ends them at the middles between these too. If outputs are so close that they set the
    steps, a tighter tolerance alone would change nothing.

    Parameters
    ----------
    system
        The system.
    initial
        Initial states, (trajectory, dim).
    times
        Output times, increasing, (time,).
    progress
        Called with ``"reference"``, and times reached and wanted.
    bound
        Largest absolute value of components that are no angle and no time. An orbit that passes it
        ends there: the solver follows it no further, and it is NaN from there on.

    Raises
    ------
    InputError
        If a solution cannot be continued to the last time.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> exact = vp.rollout.solve_reference(pendulum, np.array([[1.0, 0.0]]), np.linspace(0, 1, 6))
    >>> bool(exact.error.max() < 1e-11)
    True
    """
    of_kind("system", system, System, "a system, as vp.load_system gives it")
    initial = check_initial(system, initial)
    times = real_array("times", times, ("time",))
    if system.is_exact:  # exact, as far as rounding and chaos let it be
        if math.isfinite(bound):
            states = _iterates(system, initial, np.diff(np.rint(times), prepend=times[0]), bound)
        else:
            states = solve(system, initial, np.rint(times))
        return Reference(states, np.zeros(len(initial)))
    if math.isfinite(bound) and not system.is_discrete:
        system = BoundedFlow(system, bound)
    count = len(times) - 1
    done = 0
    sizes = None
    if count and not system.is_discrete:  # nothing is solved of measured systems
        sizes = component_sizes(system, initial, float(times[-1] - times[0]))
    least = system.smallest_tolerance if system.smallest_tolerance > TOLERANCE else 0.0
    every = 1 if system.is_discrete else 2  # the reference has a state at each middle, too
    # in the memory the states of one time lie together: (time, trajectory, dim)
    both = np.empty((2, len(times), *initial.shape)).swapaxes(1, 2)
    states, control = both
    both[:, :, 0] = initial

    while done < count:
        if progress:
            progress("reference", done, count)
        part = times[done : done + _PART + 1]
        fine = np.empty(every * (len(part) - 1) + 1)
        fine[::every] = part
        if every == 2:
            fine[1::2] = (part[1:] + part[:-1]) / 2
        for result, outputs, tolerance in (
            (states, fine, max(TOLERANCE, least)),
            (control, part, max(CONTROL_TOLERANCE, _LOOSER * least)),
        ):
            new = solve(system, result[:, done], outputs, METHOD, tolerance, tolerance, sizes=sizes)
            stride = (len(outputs) - 1) // (len(part) - 1)
            result[:, done + 1 : done + len(part)] = new[:, stride::stride]
        done += len(part) - 1
    if progress:
        progress("reference", done, count)
    outside = outside_bound(system, both, bound).any(axis=0)  # (trajectory, time)
    both[:, np.logical_or.accumulate(outside, axis=1)] = np.nan
    return Reference(states, _relative(system, states - control, states), states - control)


def _relative(system: System, difference: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the largest difference of each trajectory, relative to sizes of components."""
    sizes = bounded_sizes(system, np.nanmax(np.abs(states), axis=(0, 1)))
    return (np.nanmax(np.abs(difference), axis=1) / sizes).max(axis=1)


def outside_bound(system: System, states: np.ndarray, bound: float) -> np.ndarray:
    """Return where a component of states (..., dim) that is no angle and no time passes a bound."""
    return ~(np.abs(states[..., _bounded(system)]) <= bound).all(axis=-1)


def _bounded(system: System) -> list[int]:
    return [i for i in range(system.dim) if i not in system.periods and i != system.explicit_time]


def _iterates(system: System, initial: np.ndarray, steps: np.ndarray, bound: float) -> np.ndarray:
    """Return iterates (trajectory, time, dim) of a map, NaN from where they pass a bound."""
    image = system.iteration()
    state = initial
    states = []
    for count in steps:
        for _ in range(int(count)):
            state = np.where(outside_bound(system, state, bound)[:, None], np.nan, image(state))
        states.append(np.where(outside_bound(system, state, bound)[:, None], np.nan, state))
        state = states[-1]
    return np.stack(states, axis=1)


class BoundedFlow(System):
    """A flow that slows down outside of a bound, and stands still at twice the bound.

    So a solver goes no further there. The flow is smooth, or the solver would take tiny steps.

    Parameters
    ----------
    system
        The flow.
    bound
        Largest absolute value of components that are no angle and no time.
    """

    def __init__(self, system: System, bound: float) -> None:
        super().__init__(system.definition, family=system.family)
        self._flow = system
        self._bound = bound
        self._components = _bounded(system)

    @property
    def is_measured(self) -> bool:
        return self._flow.is_measured

    @property
    def smallest_tolerance(self) -> float:
        return self._flow.smallest_tolerance

    def vector_field_by_component(self, components: Any, parameters: Any = ()) -> Any:
        rates = self._flow.vector_field_by_component(components, parameters)
        size = np.abs(components[self._components]).max(axis=0) / self._bound
        beyond = np.clip(size - 1, 0.0, 1.0)
        return rates * (1 - beyond**6) ** 4
