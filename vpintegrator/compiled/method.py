"""Classical methods as machine code, equivalent to those in NumPy.

The C++ of a step is written from the formulas of the system (:mod:`.step_source`), built once and
kept (:mod:`vpintegrator.native`), and compared with NumPy before it is used.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Self, final

import numpy as np

from vpintegrator.compiled.calling import pointer, shared
from vpintegrator.compiled.step_source import obstacle, write_step_source
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps import AdaptiveMethod, ClassicalMethod, GaussLegendre
from vpintegrator.maps.cursor import Cursor
from vpintegrator.native import Compilation, NotCompilable
from vpintegrator.runtime.threads import usable_threads

_THREAD = 3_000_000  # operations from which on another thread pays
_CHECKED = 8  # states at which it is compared with NumPy, and as many near them
_STEPS = 3
_NEAR = 1e-3  # relative to the size of states
_NUDGE = 16 * float(np.finfo(np.float64).eps)
_AMPLIFIED = 20.0  # times what such a change changes
_ALLOWED = 1e-12  # relative to the size of states


@final
class CompiledMethod:
    """A method with a fixed step and a system, as machine code for many trajectories.

    Parameters
    ----------
    method
        A Runge-Kutta, Gauss-Legendre or splitting method, or the Boris method.
    system
        The system, to which it applies.
    states
        Some that it is compared with NumPy at, (trajectory, dim).
    step
        The step with which that is done.
    wait
        Whether to wait for the compiler, and compare; else :meth:`ready` does that.

    Attributes
    ----------
    operations
        Number of sums, products, functions and the like in a step of a trajectory; of an implicit
        method about.

    Raises
    ------
    NotCompilable
        If there is an :func:`~vpintegrator.compiled.obstacle`, no C++ compiler, or the machine code
        gives other numbers than NumPy. The message is the reason.

    Examples
    --------
    >>> pendulum, rk4 = vp.load_system("pendulum"), vp.rollout.find_method("rk4")
    >>> machine = vp.compiled.CompiledMethod(rk4, pendulum, np.ones((1, 2)), 0.1)
    >>> machine.start(np.ones((100, 2)), 0.1).advance(10).shape
    (100, 10, 2)
    """

    def __init__(
        self,
        method: ClassicalMethod,
        system: System,
        states: np.ndarray,
        step: float,
        wait: bool = True,
    ) -> None:
        source = write_step_source(method, system)
        self.operations, self._dim = source.operations, system.dim
        self._coefficients = source.coefficients
        self._parameters = np.array([*source.parameters, 0.0])
        self._constants = np.zeros(source.constants + 1)
        self._example = method, system, states, step
        self._compilation = Compilation(source.units)
        if wait:
            self.ready()

    def ready(self) -> Self:
        """Wait for the compiler, and compare some steps with those in NumPy."""
        self._library = self._compilation.library()
        self._lanes = int(self._library.lanes())
        self._library.constants(pointer(self._parameters), pointer(self._constants))

        def steps(first: np.ndarray, step: float, count: int) -> np.ndarray:
            return self.start(first, step).advance(count)

        verify(steps, *self._example)
        return self

    def stop(self) -> None:
        """End the compiler, if it is still at work."""
        self._compilation.stop()

    def start(self, initial: np.ndarray, step: float) -> Cursor:
        """Return a cursor of trajectories from initial states (trajectory, dim)."""
        state = np.array(np.asarray(initial, dtype=np.float64).T, order="C")
        return _MachineIteration(self, step, state, np.zeros_like(state))

    def advance(self, state: np.ndarray, carry: np.ndarray, step: float, count: int) -> np.ndarray:
        """Return the next states, (trajectory, count, dim), computed by several threads.

        ``state`` and ``carry`` (dim, trajectory) are brought up to date, see
        :class:`~vpintegrator.maps.base.OneStepMethod`.
        """
        trajectories, coefficients = state.shape[1], self._coefficients(step)
        states = np.empty((trajectories, count, self._dim))
        threads = min(usable_threads(), trajectories * count * self.operations // _THREAD)

        def run(part: slice) -> None:
            own = (state[:, part], carry[:, part], states[part], self._constants, coefficients)
            sizes = (trajectories, part.stop - part.start, count)
            self._library.run(*map(pointer, own), *map(ctypes.c_long, sizes))

        if count and trajectories:
            shared(run, trajectories, self._lanes, threads)
        return states


class _MachineIteration(Cursor):
    def __init__(
        self, machine: CompiledMethod, step: float, state: np.ndarray, carry: np.ndarray
    ) -> None:
        self._machine, self._step = machine, step
        self._state, self._carry = state, carry  # both (dim, trajectory)

    def advance(self, count: int) -> np.ndarray:
        return self._machine.advance(self._state, self._carry, self._step, count)


def compile_method(
    method: ClassicalMethod,
    system: System,
    states: np.ndarray,
    step: float,
    compiled: bool | None = None,
) -> CompiledMethod | None:
    """Compile a method for a system; return None if that is not wanted or not possible.

    Parameters
    ----------
    method, system, states, step
        Arguments of :class:`CompiledMethod`.
    compiled
        False for None; by default a warning says why what could be compiled is not. Methods with
        an :func:`~vpintegrator.compiled.obstacle` give None.

    Raises
    ------
    InputError
        If it is wanted and impossible, or the system has no formulas.

    Examples
    --------
    >>> pendulum, heun = vp.load_system("pendulum"), vp.rollout.find_method("heun")
    >>> machine = vp.compiled.compile_method(heun, pendulum, np.ones((1, 2)), 0.1)
    >>> flow = vp.rollout.flow.ClassicalFlow(heun, pendulum, 0.1, machine)
    """
    if compiled and not isinstance(method, AdaptiveMethod):
        system.require_formulas("machine code")
    if compiled is False or obstacle(method, system):
        return None
    try:
        return CompiledMethod(method, system, states, step)
    except NotCompilable as reason:
        if compiled:
            raise InputError(f"{method.name} cannot be compiled: {reason}") from None
        warnings.warn(f"{method.name} runs in NumPy, not compiled: {reason}", stacklevel=3)
        return None


def verify(
    machine: Callable[[np.ndarray, float, int], np.ndarray],
    method: ClassicalMethod,
    system: System,
    states: np.ndarray,
    step: float,
) -> None:
    """Compare some steps with NumPy's, from states that are given and others near them.

    The machine code gives states (trajectory, count, dim) from first ones (trajectory, dim), a step
    and the number of steps. A second run of NumPy from states with changed last digits shows how
    rounding grows.
    """
    generator = np.random.default_rng(0)
    own = np.asarray(states, dtype=np.float64)
    own = own[np.isfinite(own).all(axis=1)][:_CHECKED]
    near = own + _NEAR * np.abs(own).max(initial=0.0) * generator.normal(size=own.shape)
    first = np.concatenate([own, near])
    found = machine(first, step, _STEPS)
    expected = method.start(system, first, step).advance(_STEPS)
    nudged = first + first * (_NUDGE * generator.normal(size=first.shape))
    again = method.start(system, nudged, step).advance(_STEPS)
    # stages far from the states of a large step may be found by the one and not by the other
    implicit = isinstance(method, GaussLegendre)
    finite = np.isfinite(expected) & np.isfinite(again) & (np.isfinite(found) | (not implicit))
    with np.errstate(all="ignore"):
        rounding = _AMPLIFIED * np.abs(again - expected)
        largest = np.abs(np.where(finite, expected, 0.0)).max(axis=(1, 2), keepdims=True)
        allowed = _ALLOWED * (largest + np.abs(first)[:, None]) + rounding
        right = np.abs(found - expected) <= allowed
    invented = np.isfinite(found[~np.isfinite(expected)]).any() and not implicit
    if (finite & ~right).any() or invented:
        error = np.abs(found - expected)[finite].max(initial=0.0)
        raise NotCompilable(f"its machine code gives other numbers than NumPy, by {error:.1e}")
