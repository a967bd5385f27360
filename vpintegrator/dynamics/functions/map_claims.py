"""Claims about maps that are Python functions, checked at random states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vpintegrator.dynamics.functions.function_claims import place
from vpintegrator.errors import InputError

_EXACT = 1e-12  # relative
_INVERSE = 1e-9  # relative: inverses may be found by iterations


class MapClaims:
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
        finite = np.isfinite(images).all(axis=1)
        if not finite.any():
            raise InputError(
                f"{source} has no finite value at states of its sampling domain; give sample=(low, "
                "high), a box in which it has"
            )
        self.images, self.slopes, self.states = images[finite], slopes[finite], states[finite]
        self.tolerance, self.components, self.source = tolerance, components, source

    def volume_preserving(self, claim: bool) -> bool:
        """Whether the determinant of the derivative is 1; InputError where that is claimed."""
        with np.errstate(all="ignore"):
            defects = np.linalg.det(self.slopes) - 1
        words = "structure: that the determinant of the derivative is 1 fails by"
        return self._holds(defects, self._scale(self.slopes.shape[1]), claim, words)

    def symplectic(self, claim: bool) -> bool:
        """Whether the form dq dp of states (q, p) is kept; InputError where that is claimed."""
        dim = self.slopes.shape[1]
        if dim % 2:
            if claim:
                raise InputError(
                    f"{self.source}, structure: a symplectic map has positions and as many "
                    f"momenta, not {dim} components"
                )
            return False
        order = np.arange(dim).reshape(-1, 2).T.ravel()  # order of states (x, px, y, py)
        words = "structure: that the form dq dp is kept fails by"
        if claim and dim > 2 and self._holds(self._form(order), self._scale(2), False, words):
            names = [self.components[i] for i in order]
            raise InputError(
                f"{self.source}, structure: the map is symplectic for pairs of neighbours; states "
                f"have all positions first: reorder them as {', '.join(names)}"
            )
        return self._holds(self._form(np.arange(dim)), self._scale(2), claim, words)

    def invariant(self, name: str, before: np.ndarray, after: np.ndarray) -> None:
        """Check that a function, of these values, is constant."""
        words = f"invariants, {name}: this is not constant, the map changes it by"
        self._holds(after - before, np.abs(before), True, words, _EXACT)

    def symmetry(self, number: int, again: np.ndarray) -> None:
        """Check that rho M rho M gives the states back."""
        size = np.abs(self.images).max(axis=1) + np.abs(self.states).max(axis=1)
        words = f"reversing_symmetries, {number}: rho M rho M = identity fails by"
        self._holds(again - self.states, size, True, words, 10 * _EXACT)

    def periods(self, turned: np.ndarray, periods: np.ndarray) -> None:
        """Check images of states whose angles are turned by their periods."""
        changes = turned - self.images
        angles = periods > 0
        whole = np.rint(changes[:, angles] / periods[angles])
        changes[:, angles] -= whole * periods[angles]
        size = np.abs(turned).max(axis=1)
        words = "periodic: the image changes after a period by"
        self._holds(changes, size, True, words, 10 * _EXACT)

    def inverse(self, back: np.ndarray) -> None:
        """Check that the inverse of the images gives the states back."""
        size = np.abs(self.states).max(axis=1)
        words = "inverse: the inverse of the image differs from the state by"
        self._holds(back - self.states, size, True, words, _INVERSE)

    def _form(self, order: np.ndarray) -> np.ndarray:
        slopes = self.slopes[:, order][:, :, order]
        half = len(order) // 2
        form = np.zeros((2 * half, 2 * half))
        form[:half, half:], form[half:, :half] = np.eye(half), -np.eye(half)
        return slopes.transpose(0, 2, 1) @ form @ slopes - form

    def _scale(self, power: int) -> np.ndarray:
        return np.abs(self.slopes).max(axis=(1, 2)) ** power

    def _holds(
        self,
        defects: np.ndarray,
        size: np.ndarray,
        claim: bool,
        words: str,
        tolerance: float | None = None,
    ) -> bool:
        largest = np.abs(defects).reshape(len(self.states), -1).max(axis=1)
        relative = np.nan_to_num(largest / (1 + size))
        k = int(np.argmax(relative))
        if relative[k] <= (self.tolerance if tolerance is None else tolerance):
            return True
        if claim:
            where = place(self.components, self.states[k])
            raise InputError(f"{self.source}, {words} {largest[k]:.3g} at {where}")
        return False
