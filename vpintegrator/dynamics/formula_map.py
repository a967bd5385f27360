"""Maps by formula as functions of states, for NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.arrays import stack_numpy
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import ComponentFunction, Value, vectorised
from vpintegrator.errors import InputError


class FormulaMap:
    """The stages of a map, one after the other, as often as a step has them.

    Parameters
    ----------
    equations
        Equations with ``stages``. With open parameters the formulas take arrays of their values.

    Examples
    --------
    >>> from vpintegrator.dynamics.formula_map import FormulaMap
    >>> system = vp.load_system('''
    ... state = ["q", "p"]
    ... [[map]]
    ... p = "p + sin(q)"
    ... [[map]]
    ... q = "q + p"
    ... ''')
    >>> FormulaMap(system.equations).columns(np.array([0.0, 1.0]), "numpy")
    [np.float64(1.0), np.float64(1.0)]
    """

    def __init__(self, equations: Equations) -> None:
        self._equations = equations
        self._made: dict[str, list[tuple[list[int], ComponentFunction]]] = {}

    def iteration(self, parameters: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map of states (n, dim), each with values of open parameters, (n, name)."""
        return lambda rows: self.images(rows, [*parameters.T])

    def images(self, states: np.ndarray, parameters: Sequence[Any] = ()) -> np.ndarray:
        """Return images of states (..., dim), with the values of open parameters one by one."""
        with np.errstate(all="ignore"):  # escaping orbits are not finite
            columns = self.columns([*np.moveaxis(states, -1, 0)], "numpy", parameters)
        return stack_numpy(columns, states[..., 0])

    def columns(
        self, components: Sequence[Any], library: str, parameters: Sequence[Any] = ()
    ) -> list[Any]:
        """Return the components of the image; components may be numbers, arrays or tensors."""
        *_, values = self.stagewise(components, library, parameters)
        return values

    def stagewise(
        self, components: Sequence[Any], library: str, parameters: Sequence[Any] = ()
    ) -> Iterator[list[Any]]:
        """Yield the components after each stage of a step, as for ``columns``; one list for all."""
        if len(parameters) != len(self._equations.open):
            raise InputError("parameters of this map are left open; their values are needed")
        if library not in self._made:
            e = self._equations
            self._made[library] = [
                (list(stage), vectorised(list(stage.values()), e.arguments, library))
                for stage in e.stages
            ]
        values = list(components)
        for _ in range(self._equations.iterations):
            for changed, function in self._made[library]:
                found = function(*values, *parameters)
                for i, value in zip(changed, found, strict=True):
                    values[i] = value
                yield values

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        """States (part + 1, state, dim) after equal parts of the stages, or None of too few."""
        e = self._equations
        count = e.iterations * len(e.stages)
        if count < parts:
            return None
        wanted = {(k * count) // parts for k in range(1, parts + 1)}
        with np.errstate(all="ignore"):
            found = [
                stack_numpy(values, states[:, 0])
                for number, values in enumerate(self.stagewise([*states.T], "numpy"), start=1)
                if number in wanted
            ]
        return np.stack([states, *found])

    def jacobian(self, components: np.ndarray) -> np.ndarray:
        """Return derivatives of the image by the components, (dim, ...) to (dim, dim, ...)."""
        dim = len(self._equations.symbols)
        shape = components.shape[1:]
        point = np.array(components, dtype=np.float64)
        result = np.zeros((dim, dim, *shape))
        result[range(dim), range(dim)] = 1.0
        for _ in range(self._equations.iterations):
            for changed, places, function, slopes in self._derivatives:
                rows = {i: np.zeros((dim, *shape)) for i in changed}
                for (i, j), slope in zip(places, slopes(*point), strict=True):
                    rows[i] += slope * result[j]
                values = function(*point)
                for i, value in zip(changed, values, strict=True):
                    result[i], point[i] = rows[i], value
        return result

    @cached_property
    def _derivatives(
        self,
    ) -> list[tuple[list[int], list[tuple[int, int]], ComponentFunction, ComponentFunction]]:
        e = self._equations

        def function(values: Iterable[Value]) -> ComponentFunction:
            return vectorised(list(values), e.symbols, "numpy")

        return [
            (list(stage), list(slopes), function(stage.values()), function(slopes.values()))
            for stage, slopes in zip(e.stages, e.stage_slopes, strict=True)
        ]
