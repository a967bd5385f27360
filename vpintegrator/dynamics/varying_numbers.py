"""Numbers of a distribution that depend on parameters, each state with its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from vpintegrator.dynamics.expressions import Expression, Symbol, Value, vectorised


class VaryingNumbers:
    """Numbers of a distribution: (n,), or (state, n) where they depend on parameters that vary.

    Parameters
    ----------
    values
        Values as formulas.
    symbols
        Symbols of the parameters that vary.
    check
        Raises InputError where numbers cannot be.
    """

    def __init__(
        self,
        values: Sequence[Value],
        symbols: Sequence[Symbol],
        check: Callable[[np.ndarray], None] = lambda _: None,
    ) -> None:
        self._check = check
        self._fixed = self._function = None
        if any(isinstance(value, Expression) for value in values):
            self._count = len(values)
            self._function = cache(partial(vectorised, values, symbols, "numpy"))
        else:
            self._fixed = np.array([float(value) for value in values])  # type: ignore[arg-type]
            check(self._fixed)

    def __call__(self, parameters: np.ndarray | None) -> np.ndarray:
        if self._function is None:
            assert self._fixed is not None
            return self._fixed
        assert parameters is not None
        result = np.empty((len(parameters), self._count))
        with np.errstate(all="ignore"):
            for i, value in enumerate(self._function()(*parameters.T)):
                result[:, i] = value
        self._check(result)
        return result


def halves(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second half of the last axis."""
    half = numbers.shape[-1] // 2
    return numbers[..., :half], numbers[..., half:]
