"""Checks of the declared properties of called functions and maps, at random states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.functions.derivatives import BatchFunction, derivatives
from vpintegrator.errors import InputError

_EXACT = 1e-12  # relative, of values and of derivatives by autograd
_DIFFERENCES = 1e-8  # relative, of derivatives by finite differences
_SMALLER = 2e-4  # finite differences, which agree with usual ones where a function is smooth


class _Checks:
    """States at which a function has finite values."""

    def __init__(
        self, values: np.ndarray, states: np.ndarray, components: Sequence[str], source: str
    ) -> None:
        self.finite = np.isfinite(values).all(axis=1)
        if not self.finite.any():
            raise InputError(
                f"{source} has no finite value at states of its sampling domain; give sample=(low, "
                "high), a box in which it has"
            )
        self.values, self.states = values[self.finite], states[self.finite]
        self.components, self.source = components, source

    def holds(
        self,
        defects: np.ndarray,
        size: np.ndarray,
        tolerance: float,
        words: str,
        declared: bool = True,
    ) -> bool:
        """Whether defects (state, ...) are small relative to a size; InputError where declared."""
        largest = np.abs(defects).reshape(len(self.states), -1).max(axis=1)
        relative = np.nan_to_num(largest / (1 + size))
        k = int(np.argmax(relative))
        if relative[k] <= tolerance:
            return True
        if declared:
            where = place(self.components, self.states[k])
            raise InputError(f"{self.source}, {words} {largest[k]:.3g} at {where}")
        return False


class FunctionChecks(_Checks):
    """States of the checks, with the vector field and its derivatives there.

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
        super().__init__(field(states, times), states, components, source)
        self.field, self.rates, self.times = field, self.values, times[self.finite]

    def _slopes(self, function: BatchFunction) -> tuple[np.ndarray, float]:
        return sound_derivatives(function, self.states, self.times)

    def hamiltonian(self, energy: BatchFunction, halves: tuple[list[int], list[int]]) -> None:
        """Check that the vector field is that of H: (dH/dp, -dH/dq)."""
        slopes, tolerance = self._slopes(energy)
        slopes = slopes.reshape(len(self.states), -1)
        positions, momenta = halves
        expected = np.empty_like(self.rates)
        expected[:, positions], expected[:, momenta] = slopes[:, momenta], -slopes[:, positions]
        self.holds(
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
        self.holds(
            (slopes * rates).sum(axis=1),
            np.abs(slopes * rates).sum(axis=1),
            tolerance,
            f"invariants, {name}: this is not constant along solutions, its rate is",
        )

    def divergence_free(self, declared: bool | None) -> bool:
        """Whether the divergence vanishes; InputError where the declaration differs."""
        dim = self.states.shape[1]
        slopes, tolerance = self._slopes(self.field)
        own = np.diagonal(slopes[:, :, :dim], axis1=1, axis2=2)
        total = own.sum(axis=1)
        if declared:
            size = np.abs(slopes).max(axis=(1, 2))
            self.holds(total, size, tolerance, "divergence_free: the divergence is")
        free = not (np.abs(total) > tolerance * (1 + np.abs(own).sum(axis=1))).any()
        if declared is False and free:
            raise InputError(f"{self.source}, divergence_free: it is said false, but is 0")
        return free

    def symmetry(self, number: int, rho: np.ndarray) -> None:
        """Check f(rho z) = -rho f(z), with time going back."""
        images = self.field(self.states @ rho.T, -self.times)
        self.holds(
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
            self.holds(images - self.rates, size, _EXACT, "periodic: f changes after a period by")


class MapChecks(_Checks):
    """States at which a map is checked, with their images and derivatives.

    Parameters
    ----------
    images
        Images of the states, (state, dim).
    slopes
        Derivatives of the images, (state, dim, dim); NaN where they are not known.
    states
        The states, (state, dim).
    tolerance
        Error bound of derivatives, relative to their size.
    components, source
        Names of the components, and of the function, for messages.
    """

    def __init__(
        self,
        images: np.ndarray,
        slopes: np.ndarray,
        states: np.ndarray,
        tolerance: float,
        components: Sequence[str],
        source: str,
    ) -> None:
        super().__init__(images, states, components, source)
        self.images, self.slopes, self.tolerance = self.values, slopes[self.finite], tolerance

    def volume_preserving(self, declared: bool) -> bool:
        """Whether the determinant of the derivative is 1; InputError where that is declared."""
        with np.errstate(all="ignore"):
            defects = np.linalg.det(self.slopes) - 1
        words = "structure: that the determinant of the derivative is 1 fails by"
        return self.holds(
            defects, self._scale(self.slopes.shape[1]), self.tolerance, words, declared
        )

    def symplectic(self, declared: bool) -> bool:
        """Whether the form dq dp of states (q, p) is kept; InputError where that is declared."""
        dim = self.slopes.shape[1]
        if dim % 2:
            if declared:
                raise InputError(
                    f"{self.source}, structure: a symplectic map has positions and as many "
                    f"momenta, not {dim} components"
                )
            return False
        neighbours = np.arange(dim).reshape(-1, 2).T.ravel()  # order of states (x, px, y, py)
        words = "structure: that the form dq dp is kept fails by"
        known = self._scale(2), self.tolerance, words
        try:
            order = np.array(canonical_order(self.components, self.source) or range(dim))
        except InputError:
            if declared:
                raise
            return False
        kept = self.holds(self._form(order), *known, False)
        if declared and not kept and dim > 2 and self.holds(self._form(neighbours), *known, False):
            names = [self.components[i] for i in neighbours]
            raise InputError(
                f"{self.source}, structure: the map is symplectic for pairs of neighbours; where "
                "the names do not say so, states have all positions first: name the components "
                f"x, px, y, py, or reorder them as {', '.join(names)}"
            )
        return kept or self.holds(self._form(order), *known, declared)

    def invariant(self, name: str, before: np.ndarray, after: np.ndarray) -> None:
        """Check that a function, of these values, is constant."""
        words = f"invariants, {name}: this is not constant, the map changes it by"
        self.holds(after - before, np.abs(before), _EXACT, words)

    def symmetry(self, number: int, again: np.ndarray) -> None:
        """Check that rho M rho M gives the states back."""
        size = np.abs(self.images).max(axis=1) + np.abs(self.states).max(axis=1)
        words = f"reversing_symmetries, {number}: rho M rho M = identity fails by"
        self.holds(again - self.states, size, 10 * _EXACT, words)

    def periods(self, turned: np.ndarray, periods: np.ndarray) -> None:
        """Check images of states whose angles are turned by their periods."""
        changes = turned - self.images
        angles = periods > 0
        whole = np.rint(changes[:, angles] / periods[angles])
        changes[:, angles] -= whole * periods[angles]
        size = np.abs(turned).max(axis=1)
        words = "periodic: the image changes after a period by"
        self.holds(changes, size, 10 * _EXACT, words)

    def _form(self, order: np.ndarray) -> np.ndarray:
        slopes = self.slopes[:, order][:, :, order]
        half = len(order) // 2
        form = np.zeros((2 * half, 2 * half))
        form[:half, half:], form[half:, :half] = np.eye(half), -np.eye(half)
        return slopes.transpose(0, 2, 1) @ form @ slopes - form

    def _scale(self, power: int) -> np.ndarray:
        return np.abs(self.slopes).max(axis=(1, 2)) ** power


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
