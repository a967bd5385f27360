"""Claims about functions that are called, checked at random states of the sampling domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vpintegrator.dynamics.functions.derivatives import BatchFunction, derivatives
from vpintegrator.errors import InputError

_EXACT = 1e-12  # relative, of values and of derivatives by autograd
_DIFFERENCES = 1e-8  # relative, of derivatives by finite differences
_SMALLER = 2e-4  # finite differences, which agree with usual ones where a function is smooth


class FunctionClaims:
    """States at which claims are checked, with the vector field and its derivatives there.

    Parameters
    ----------
    field
        The vector field.
    states, times
        States (state, dim) and times (state,) at which the function is evaluated.
    components, source
        Names of the components, and of the function, for messages.
    """

    def __init__(
        self,
        field: BatchFunction,
        states: np.ndarray,
        times: np.ndarray,
        components: Sequence[str],
        source: str,
    ) -> None:
        self.field, self.states, self.times = field, states, times
        self.components, self.source = components, source
        self.rates = field(states, times)
        finite = np.isfinite(self.rates).all(axis=1)
        if not finite.any():
            raise InputError(
                f"{source} has no finite value at states of its sampling domain; give sample=(low, "
                "high), a box in which it has"
            )
        self.states, self.times, self.rates = states[finite], times[finite], self.rates[finite]

    def _slopes(self, function: BatchFunction) -> tuple[np.ndarray, float]:
        return sound_derivatives(function, self.states, self.times)

    def hamiltonian(self, energy: BatchFunction) -> None:
        """Check that the vector field is that of H: (dH/dp, -dH/dq)."""
        dim = self.states.shape[1]
        slopes, tolerance = self._slopes(energy)
        slopes = slopes.reshape(len(self.states), -1)
        half = dim // 2
        expected = np.concatenate([slopes[:, half:dim], -slopes[:, :half]], axis=1)
        self._require(
            self.rates - expected,
            np.abs(self.rates).max(axis=1),
            tolerance,
            "hamiltonian: f is not (dH/dp, -dH/dq), they differ by",
        )

    def invariant(self, name: str, function: BatchFunction) -> None:
        """Check that a function is constant along solutions."""
        slopes, tolerance = self._slopes(function)
        slopes = slopes.reshape(len(self.states), -1)
        rates = np.concatenate([self.rates, np.ones((len(self.rates), 1))], axis=1)
        self._require(
            (slopes * rates).sum(axis=1),
            np.abs(slopes * rates).sum(axis=1),
            tolerance,
            f"invariants, {name}: this is not constant along solutions, its rate is",
        )

    def divergence_free(self, claim: bool | None) -> bool:
        """Whether the divergence vanishes; InputError where that is not what is claimed."""
        dim = self.states.shape[1]
        slopes, tolerance = self._slopes(self.field)
        own = np.diagonal(slopes[:, :, :dim], axis1=1, axis2=2)
        total = own.sum(axis=1)
        if claim:
            size = np.abs(slopes).max(axis=(1, 2))
            self._require(total, size, tolerance, "divergence_free: the divergence is")
        free = not (np.abs(total) > tolerance * (1 + np.abs(own).sum(axis=1))).any()
        if claim is False and free:
            raise InputError(f"{self.source}, divergence_free: it is said false, but is 0")
        return free

    def symmetry(self, number: int, rho: np.ndarray) -> None:
        """Check f(rho z) = -rho f(z), with time going back."""
        images = self.field(self.states @ rho.T, -self.times)
        self._require(
            images + self.rates @ rho.T,
            np.abs(self.rates).max(axis=1),
            _EXACT,
            f"reversing_symmetries, {number}: f(rho z) = -rho f(z) fails by",
        )

    def periods(self, periods: np.ndarray, period_in_time: float) -> None:
        """Check that the field is the same after turns of angles, and periods of time."""
        for turns in (1, -2):
            images = self.field(self.states + turns * periods, self.times + turns * period_in_time)
            size = np.abs(self.rates).max(axis=1) + np.abs(turns * periods).max(initial=0)
            self._require(
                images - self.rates, size, _EXACT, "periodic: f changes after a period by"
            )

    def _require(self, defects: np.ndarray, size: np.ndarray, tolerance: float, words: str) -> None:
        largest = np.abs(defects).reshape(len(self.states), -1).max(axis=1)
        relative = np.nan_to_num(largest / (1 + size))
        if (k := int(np.argmax(relative))) >= 0 and relative[k] > tolerance:
            where = place(self.components, self.states[k])
            raise InputError(f"{self.source}, {words} {largest[k]:.3g} at {where}")


def sound_derivatives(
    function: BatchFunction, states: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return derivatives, NaN beside kinks of a function, and how far they may be wrong."""
    found = derivatives(function, states, times)
    if function.library == "torch":
        return found, _EXACT
    other = derivatives(function, states, times, _SMALLER)
    smooth = np.abs(found - other) <= _DIFFERENCES * (1 + np.abs(found))
    return np.where(smooth.all(axis=(1, 2), keepdims=True), found, np.nan), _DIFFERENCES


def place(components: Sequence[str], state: np.ndarray) -> str:
    """Return a state as messages write it."""
    named = [f"{name} = {x:.6g}" for name, x in zip(components[:4], state, strict=False)]
    return ", ".join(named) + (", ..." if len(components) > 4 else "")
