"""Classical methods as machine code, equivalent to those in NumPy.

The C++ of a step is written from the formulas of the system (:mod:`.step_source`), built once and
kept (:mod:`.library`), and compared with NumPy before it is used.
"""

from __future__ import annotations

import ctypes
from abc import abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any, Self, final

import numpy as np

from vpintegrator.compiled.library import Compilation, NotCompilable, pointer, shared
from vpintegrator.compiled.step_source import write_step_source
from vpintegrator.dynamics import System
from vpintegrator.maps import ClassicalMap, ClassicalMethod, GaussLegendre, Map
from vpintegrator.maps.map import optional
from vpintegrator.runtime.threads import usable_threads

_SAME = (
    *("name", "title", "description", "kind", "order", "dim", "window", "prediction_window"),
    *("remark", "provenance", "attention_summary", "machine_epsilon", "differentiable", "system"),
    *("structure", "domain"),
)


class Machine(Map):
    """A map as machine code; single steps and derivatives are those of the original.

    Parameters
    ----------
    original
        The map.
    """

    def __init__(self, original: Map) -> None:
        self.original = original
        for name in _SAME:
            setattr(self, name, getattr(original, name))

    @property
    def step(self) -> float:
        """Time step of the original."""
        return float(self.original.step)

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of the derivative of the original."""
        return float(self.original.derivative_epsilon)

    def map(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        return self.original.map(windows, *optional(parameters))

    def derivative(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        return self.original.derivative(windows, *optional(parameters))

    def tangent(
        self, windows: np.ndarray, vectors: np.ndarray, parameters: Any = None
    ) -> np.ndarray:
        return self.original.tangent(windows, vectors, *optional(parameters))

    def advance(
        self, windows: np.ndarray, steps: int, *, chunk: int = 1000, parameters: Any = None
    ) -> Iterator[np.ndarray]:
        """Yield the next states; with ``parameters`` those of the original."""
        if parameters is None:
            return self._advance(windows, steps, chunk)
        return self.original.advance(windows, steps, chunk=chunk, parameters=parameters)

    @abstractmethod
    def _advance(self, windows: np.ndarray, steps: int, chunk: int) -> Iterator[np.ndarray]:
        """Yield the next states by the library, see :meth:`vpintegrator.maps.Map.advance`."""


_THREAD = 3_000_000  # operations from which on another thread pays
_CHECKED = 8  # states at which it is compared with NumPy, and as many near them
_STEPS = 3
_NEAR = 1e-3  # relative to the size of states
_NUDGE = 16 * float(np.finfo(np.float64).eps)
_AMPLIFIED = 20.0  # times what such a change changes
_ALLOWED = 1e-12  # relative to the size of states


@final
class CompiledMethod(Machine):
    """A method with a fixed step and a system, as machine code for many trajectories.

    Parameters
    ----------
    method
        A Runge-Kutta, Gauss-Legendre or splitting method, or the Boris method.
    system
        The system, to which it applies.
    states
        Some that it is compared with NumPy at, (trajectory, dim).
    step, substeps
        The step with which that is done, and the number of equal steps of the method in it.
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
    >>> next(machine.advance(np.ones((100, 1, 2)), 10)).shape
    (100, 10, 2)
    """

    def __init__(
        self,
        method: ClassicalMethod,
        system: System,
        states: np.ndarray,
        step: float,
        substeps: int = 1,
        *,
        wait: bool = True,
    ) -> None:
        self.classical = ClassicalMap(method, system, step, substeps)
        super().__init__(self.classical)
        source = write_step_source(method, system)
        self.operations = source.operations
        self._coefficients = source.coefficients
        self._parameters = np.array([*source.parameters, 0.0])
        self._constants = np.zeros(source.constants + 1)
        self._example = states
        self._compilation = Compilation(source.units)
        if wait:
            self.ready()

    def ready(self) -> Self:
        """Wait for the compiler, and compare some steps with those in NumPy."""
        self._library = self._compilation.library()
        self._lanes = int(self._library.lanes())
        self._library.constants(pointer(self._parameters), pointer(self._constants))
        verify(self, self.classical, self._example)
        return self

    def stop(self) -> None:
        """End the compiler, if it is still at work."""
        self._compilation.stop()

    def at_step(self, step: float, substeps: int | None = None) -> Self:
        """Return the machine code with another step, and other ``substeps`` if they are given.

        Nothing is compiled again.
        """
        other = copy(self)
        other.classical = self.classical.at_step(step, substeps)
        Machine.__init__(other, other.classical)
        return other

    def _advance(self, windows: np.ndarray, steps: int, chunk: int) -> Iterator[np.ndarray]:
        state = np.array(np.asarray(windows, dtype=np.float64)[:, 0].T, order="C")
        carry = np.zeros_like(state)
        while steps > 0:
            count = min(chunk, steps)
            steps -= count
            yield self._run(state, carry, count)

    def _run(self, state: np.ndarray, carry: np.ndarray, count: int) -> np.ndarray:
        """Return the next states, (trajectory, count, dim), computed by several threads.

        ``state`` and ``carry`` (dim, trajectory) are brought up to date, see
        :class:`~vpintegrator.maps.base.OneStepMethod`.
        """
        trajectories = state.shape[1]
        substeps = self.classical.substeps
        coefficients = self._coefficients(self.classical.substep)
        states = np.empty((trajectories, count, self.dim))
        work = trajectories * count * substeps * self.operations
        threads = min(usable_threads(), work // _THREAD)

        def run(part: slice) -> None:
            arrays = (state[:, part], carry[:, part], states[part], self._constants, coefficients)
            sizes = (trajectories, part.stop - part.start, count, substeps)
            self._library.run(*map(pointer, arrays), *map(ctypes.c_long, sizes))

        if count and trajectories:
            shared(run, trajectories, self._lanes, threads)
        return states


def verify(machine: Map, original: ClassicalMap, states: np.ndarray) -> None:
    """Compare some steps with NumPy's, from states that are given and others near them.

    A second run of NumPy from states with changed last digits shows how rounding grows.
    """
    generator = np.random.default_rng(0)
    given = np.asarray(states, dtype=np.float64)
    given = given[np.isfinite(given).all(axis=1)][:_CHECKED]
    near = given + _NEAR * np.abs(given).max(initial=0.0) * generator.normal(size=given.shape)
    first = np.concatenate([given, near])
    nudged = first + first * (_NUDGE * generator.normal(size=first.shape))
    images, expected, again = (
        next(each.advance(start[:, None], _STEPS))
        for each, start in ((machine, first), (original, first), (original, nudged))
    )
    # stages far from the states of a large step may be found by the one and not by the other
    implicit = isinstance(original.method, GaussLegendre)
    finite = np.isfinite(expected) & np.isfinite(again) & (np.isfinite(images) | (not implicit))
    with np.errstate(all="ignore"):
        rounding = _AMPLIFIED * np.abs(again - expected)
        largest = np.abs(np.where(finite, expected, 0.0)).max(axis=(1, 2), keepdims=True)
        allowed = _ALLOWED * (largest + np.abs(first)[:, None]) + rounding
        right = np.abs(images - expected) <= allowed
    invented = np.isfinite(images[~np.isfinite(expected)]).any() and not implicit
    if (finite & ~right).any() or invented:
        error = np.abs(images - expected)[finite].max(initial=0.0)
        raise NotCompilable(f"its machine code gives other numbers than NumPy, by {error:.1e}")
