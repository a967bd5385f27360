"""Pair of Dormand and Prince with adaptive step size, as machine code.

SciPy's DOP853 has one step for all trajectories that it is given, and works in NumPy. Here each
trajectory has an adaptive step size of its own, and a vector register holds several trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable, find_compiler
from vpintegrator.rollout.classical.base import ClassicalMethod, once_per_system
from vpintegrator.rollout.classical.explicit import DORMAND_PRINCE_8, ESTIMATES
from vpintegrator.rollout.classical.machine import StepLibrary, verify
from vpintegrator.rollout.classical.step_source import write_step_source
from vpintegrator.rollout.cursor import Cursor

_SMALLEST = 1e-15
_FIRST = 0.01  # first step relative to the time between outputs; the step adapts itself
_THREAD = 300_000  # operations of outputs from which on another thread pays
_ANYTHING = 1e100  # a tolerance


@final
@dataclass(frozen=True, kw_only=True)
class EmbeddedRungeKutta(ClassicalMethod):
    """Dormand and Prince's pair of order 8 at a given tolerance, steps ending at the outputs.

    Each trajectory has steps of its own and is computed by itself, to the last bit; one that cannot
    be continued is NaN from there on.

    Attributes
    ----------
    tolerance
        Tolerance of the error of a step, relative and absolute.

    Raises
    ------
    InputError
        If the tolerance is too small, or not below 1.
    """

    needs_formulas: ClassVar[bool] = True

    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        if not _SMALLEST <= self.tolerance < 1:
            raise InputError(
                f"{self.name}: the tolerance {self.tolerance:g} must be at least {_SMALLEST:g} and "
                "below 1"
            )

    def at_tolerance(self, tolerance: float, name: str) -> EmbeddedRungeKutta:
        title = f"Dormand–Prince 8(5,3), {tolerance:g}"
        return replace(self, name=name, title=title, tolerance=tolerance)

    def check(self, system: System) -> None:
        try:
            find_compiler()
        except NotCompilable as reason:
            raise InputError(f"{self.name} runs as machine code only, and {reason}") from None

    def start(self, system: System, initial: np.ndarray, step: float) -> Cursor:
        state = np.array(np.asarray(initial, dtype=np.float64).T, order="C")
        snapshot = {
            "state": state,
            "sizes": np.full(state.shape[1], _FIRST * abs(step)),
            "origin": np.array(state[-1]),
            "done": np.array(0),
        }
        return _EmbeddedCursor(self, system, step, snapshot)

    def resume(self, system: System, snapshot: Mapping[str, np.ndarray], step: float) -> Cursor:
        return _EmbeddedCursor(self, system, step, snapshot)


class _EmbeddedCursor(Cursor):
    remembered = ("state", "sizes", "origin", "done")

    def __init__(
        self,
        method: EmbeddedRungeKutta,
        system: System,
        step: float,
        snapshot: Mapping[str, np.ndarray],
    ) -> None:
        # (dim, trajectory), the steps that come next (trajectory), the last components, which may
        # be the time, at first (trajectory), and outputs since then
        self._state, self._sizes = snapshot["state"].copy(), snapshot["sizes"].copy()
        self._origin, self._done = snapshot["origin"].copy(), int(snapshot["done"])
        finite = np.isfinite(self._state).all(axis=0)
        try:
            self._machine = _compiled(system, self._state[:, finite].T, step)
        except NotCompilable as reason:
            raise InputError(f"{method.name} cannot be compiled: {reason}") from None
        self._step, self._tolerance = step, method.tolerance

    def advance(self, count: int) -> np.ndarray:
        rules = np.array([self._step, self._tolerance, self._tolerance, self._done])
        self._done += count
        return self._machine.advance(self._state, self._sizes, self._origin, rules, count)


class _CompiledPair:
    """The library of some formulas: steps of any size and tolerance."""

    def __init__(self, system: System) -> None:
        source = write_step_source(DORMAND_PRINCE_8, system, ESTIMATES)
        self._library = StepLibrary(source, system.dim)
        self.verified = False

    def advance(
        self,
        state: np.ndarray,
        sizes: np.ndarray,
        origin: np.ndarray,
        rules: np.ndarray,
        count: int,
    ) -> np.ndarray:
        """Return the next states, (trajectory, count, dim), and update ``state`` and ``sizes``.

        The rules are the time between outputs, the relative and the absolute tolerance, and the
        number of outputs since the time was that of the ``origin``.
        """
        return self._library.states(
            state, sizes, count, _THREAD, further=lambda part: (origin[part], rules)
        )

    def whole_steps(self, first: np.ndarray, step: float, count: int) -> np.ndarray:
        """Return states (trajectory, count, dim) by steps that are all accepted."""
        state, sizes = np.array(first.T, order="C"), np.full(len(first), abs(step))
        rules = np.array([step, _ANYTHING, _ANYTHING, 0.0])
        return self.advance(state, sizes, state[-1].copy(), rules, count)


_compiled_pair = once_per_system(_CompiledPair)


def _compiled(system: System, states: np.ndarray, step: float) -> _CompiledPair:
    """Return the library of a system, compared with NumPy once."""
    machine = _compiled_pair(system)
    if not machine.verified:
        verify(machine.whole_steps, DORMAND_PRINCE_8, system, states, _FIRST * step)
        machine.verified = True
    return machine


DORMAND_PRINCE_853 = EmbeddedRungeKutta(
    name="dormand-prince-853",
    title="Dormand–Prince 8(5,3), 1e-09",
    order=8,
    source="Dormand and Prince's pair at the tolerance 1e-9 (dormand-prince-853-1e-6: at another), "
    "as machine code: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5",
)
