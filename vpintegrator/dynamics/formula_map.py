"""Maps of states that are given by formulas, in one stage or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from vpintegrator.dynamics.equations import Equations, FunctionMaker, stack_rows
from vpintegrator.dynamics.expressions.evaluation import ComponentFunction, vectorised
from vpintegrator.dynamics.expressions.nodes import Value
from vpintegrator.errors import InputError


class FormulaMap:
    """The stages of a map, one after the other, as often as a step has them.

    Parameters
    ----------
    equations
        Equations with ``stages``. With open parameters the formulas take arrays of their values.
    make
        Returns the function of formulas, symbols and a library; of rounded or exact numbers.

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

    def __init__(self, equations: Equations, make: FunctionMaker = vectorised) -> None:
        self._equations = equations
        arguments = equations.arguments

        def functions(
            parts: Sequence[Mapping[Any, Value]], library: str
        ) -> list[ComponentFunction]:
            return [make(list(part.values()), arguments, library) for part in parts]

        self._made = cache(partial(functions, equations.stages))
        self._slopes = cache(lambda: functions(equations.stage_slopes, "numpy"))

    def iteration(self, parameters: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map of states (n, dim), each with values of open parameters, (n, name)."""
        return lambda rows: self.images(rows, [*parameters.T])

    def images(self, states: np.ndarray, parameters: Sequence[Any] = ()) -> np.ndarray:
        """Return images of states (..., dim), with the values of open parameters one by one."""
        with np.errstate(all="ignore"):  # escaping orbits are not finite
            columns = self.columns([*np.moveaxis(states, -1, 0)], "numpy", parameters)
        images: np.ndarray = stack_rows(columns, states[..., 0], -1)
        return images

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
        values = list(components)
        for _ in range(self._equations.iterations):
            for stage, function in zip(self._equations.stages, self._made(library), strict=True):
                for i, value in zip(stage, function(*values, *parameters), strict=True):
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
            between = [
                stack_rows(values, states[:, 0], -1)
                for number, values in enumerate(self.stagewise([*states.T], "numpy"), start=1)
                if number in wanted
            ]
        return np.stack([states, *between])

    def jacobian(self, components: np.ndarray, parameters: Sequence[Any] = ()) -> np.ndarray:
        """Return derivatives of the image by the components, (dim, ...) to (dim, dim, ...)."""
        e = self._equations
        dim = len(components)
        shape = components.shape[1:]
        point = np.array(components, dtype=np.result_type(components, np.float64))
        result = np.zeros((dim, dim, *shape), point.dtype)
        result[range(dim), range(dim)] = 1.0
        made = self._made("numpy"), e.stage_slopes, self._slopes()
        for _ in range(e.iterations):
            for stage, function, places, slopes in zip(e.stages, *made, strict=True):
                rows = {i: np.zeros((dim, *shape), point.dtype) for i in stage}
                for (i, j), slope in zip(places, slopes(*point, *parameters), strict=True):
                    rows[i] += slope * result[j]
                values = function(*point, *parameters)
                for i, value in zip(stage, values, strict=True):
                    result[i] = rows[i]
                    point[i] = value
        return result
