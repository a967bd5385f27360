"""Formulas as functions of states, as maps, and where they have values; for NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import (
    ComponentFunction,
    Product,
    Symbol,
    Value,
    arithmetic,
    below,
    can_be_written,
    evaluator,
    vectorised,
    written,
)
from vpintegrator.errors import InputError


def is_tensor(state: object) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    return type(state).__module__.partition(".")[0] == "torch" or hasattr(
        type(state), "__torch_function__"
    )


def as_array(state: Any) -> np.ndarray:
    """Return a floating-point (or complex) array of the state.

    Raises
    ------
    InputError
        If it is none of numbers.
    """
    try:
        array = np.asarray(state)
        return array if np.issubdtype(array.dtype, np.inexact) else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"expected an array of numbers, not {type(state).__name__} with other contents"
        ) from None


def float_array(state: Any) -> np.ndarray:
    """Return doubles of an array or a tensor."""
    return np.asarray(state.detach().cpu() if is_tensor(state) else state).astype(np.float64)


def as_given(values: np.ndarray, state: Any) -> Any:
    """Return values as a tensor where the state is one, else as they are."""
    return state.new_tensor(values) if is_tensor(state) else values


def stack_numpy(values: Sequence[Any], like: np.ndarray) -> np.ndarray:
    """Put components of shape (...) together into (..., component)."""
    result = np.empty((*like.shape, len(values)), dtype=like.dtype)
    for i, value in enumerate(values):
        result[..., i] = value
    return result


def stack_torch(values: Sequence[Any], like: Any) -> Any:
    """Stack values as a tensor; plain numbers become tensors like ``like``."""
    import torch

    if not values:
        return like.new_empty((*like.shape, 0))
    return torch.stack(
        [v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in values], dim=-1
    )


class StateFunction:
    """Formulas as a function of states (..., dim), made for a library when first called.

    Where parameters are left open, it is a function of their values (..., name), too.
    """

    def __init__(self, equations: Equations, expressions: Sequence[Value]) -> None:
        self._dim, self._open = len(equations.symbols), len(equations.open)
        self.made = cache(lambda library: vectorised(expressions, equations.arguments, library))

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        """Return the values of the expressions, (..., expression)."""
        if not is_tensor(state):
            state = as_array(state)
        if self._open:
            return self._of_both(state, as_array(() if parameters is None else parameters))
        if not state.shape or state.shape[-1] != self._dim:
            raise InputError(
                f"a state of this system has {self._dim} components in its last dimension, but the "
                f"array given has shape {tuple(state.shape)}"
            )
        if is_tensor(state):
            return stack_torch(self.made("torch")(*state.unbind(-1)), state[..., 0])
        return stack_numpy(self.made("numpy")(*np.moveaxis(state, -1, 0)), state[..., 0])

    def _of_both(self, state: Any, parameters: np.ndarray) -> np.ndarray:
        """Return values at states and parameters, as NumPy arrays."""
        state = np.asarray(state)
        if (*state.shape[-1:], *parameters.shape[-1:]) != (self._dim, self._open):
            raise InputError(
                f"states (..., {self._dim}) and parameters (..., {self._open}) are needed, but the "
                f"arrays given have shapes {state.shape} and {parameters.shape}"
            )
        shape = np.broadcast_shapes(state.shape[:-1], parameters.shape[:-1])
        columns = [*np.moveaxis(state, -1, 0), *np.moveaxis(parameters, -1, 0)]
        return stack_numpy(self.made("numpy")(*columns), np.empty(shape))

    def by_component(self, components: np.ndarray, parameters: Any = ()) -> list[Any]:
        """Return the values of the expressions one by one, of components (dim, ...).

        ``parameters`` are the values of open parameters, one by one.
        """
        if len(parameters) != self._open:
            raise InputError("parameters of this system are left open; their values are needed")
        return self.made("numpy")(*components, *parameters)


class ScalarFunction(StateFunction):
    """A scalar function of the state."""

    def __init__(self, equations: Equations, expression: Value, name: str) -> None:
        super().__init__(equations, [expression])
        self.expression, self._name = expression, name

    def __repr__(self) -> str:
        return f"<{self._name}: a function of states (..., {self._dim})>"

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        return super().__call__(state, parameters)[..., 0]


class MatrixFunction(StateFunction):
    """A square matrix of formulas, given by its entries that are not identically zero."""

    def __init__(self, equations: Equations, entries: dict[tuple[int, int], Value]) -> None:
        super().__init__(equations, list(entries.values()))
        self._positions = list(entries)

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        """Return matrices (..., dim, dim)."""
        entries = super().__call__(state, parameters)
        shape = (*entries.shape[:-1], self._dim, self._dim)
        new = entries.new_zeros(shape) if is_tensor(entries) else np.zeros(shape, entries.dtype)
        rows, columns = np.array(self._positions, int).reshape(-1, 2).T
        new[..., rows, columns] = entries
        return new

    def matrices_by_component(self, components: np.ndarray) -> np.ndarray:
        """Return matrices (dim, dim, ...) of components (dim, ...)."""
        result = np.zeros((self._dim, *components.shape), dtype=components.dtype)
        for place, value in zip(self._positions, self.by_component(components), strict=True):
            result[place] = value
        return result


_NAMED = 4  # components in a message


class FormulaDomain:
    """Domain of formulas: the states at which all of them are finite.

    Parameters
    ----------
    equations
        Equations, perhaps with open parameters.
    formulas
        Formulas of their symbols.
    """

    def __init__(self, equations: Equations, formulas: Sequence[Value]) -> None:
        self.equations, self.formulas = equations, list(formulas)

    @classmethod
    def of_motion(cls, equations: Equations) -> FormulaDomain:
        """Return the domain of the vector field and the Hamiltonian, or of the first stage."""
        first = list(equations.stages[0].values()) if equations.stages else []
        energy = [] if equations.hamiltonian is None else [equations.hamiltonian]
        return cls(equations, [*energy, *equations.vector_field, *first])

    @cached_property
    def _function(self) -> ComponentFunction:
        # not compiled: it is called once
        return evaluator(self.formulas, self.equations.arguments, arithmetic("numpy"))

    def outside(self, states: np.ndarray, parameters: np.ndarray | None = None) -> np.ndarray:
        """Return whether states (state, dim) are outside, of values of parameters (state, name)."""
        columns = [*states.T, *(() if parameters is None else parameters.T)]
        found = np.zeros(len(states), bool)
        with np.errstate(all="ignore"):
            for value in self._function(*columns):
                found |= ~np.isfinite(value)
        return found

    def reason(self, state: np.ndarray, parameters: np.ndarray | None = None) -> str:
        """Return the reason why a state (dim,) is outside: ``q = -1 is outside of log(q)``."""
        e, numbers = self.equations, [*state, *(() if parameters is None else parameters)]
        for formula in self.formulas:
            nodes = below([formula])
            parts: dict[Any, Any] = dict(zip(e.arguments, map(np.float64, numbers), strict=True))
            with np.errstate(all="ignore"):
                values = evaluator(nodes, e.arguments, arithmetic("numpy"))(*parts.values())
            parts |= zip(nodes, values, strict=True)
            for node in nodes:
                if not np.isfinite(parts[node]) and all(np.isfinite(parts[p]) for p in node.parts):
                    return self._words(node, parts)
        return "a formula is not finite"

    def _words(self, node: Any, values: dict[Any, Any]) -> str:
        e = self.equations
        names = {symbol: symbol.name for symbol in e.arguments}
        names |= dict(zip(e.symbols, e.components, strict=True))
        used = [symbol for symbol in below([node]) if isinstance(symbol, Symbol)][:_NAMED]
        told = ", ".join(f"{names[s]} = {values[s]:.6g}" for s in used)
        if isinstance(node, Product) and [abs(c) for _, c in node.factors] == [Fraction(1, 2)]:
            text = f"sqrt({written(node.parts[0], names).removeprefix('(').removesuffix(')')})"
        else:
            text = written(node, names) if can_be_written(node) else "a long formula"
        return f"{told} is outside of the domain of {text}"


class FormulaMap:
    """The stages of a map, one after the other, as often as a step has them.

    Parameters
    ----------
    equations
        Equations with ``stages``. With open parameters the formulas take arrays of their values.

    Examples
    --------
    >>> from vpintegrator.dynamics.state_function import FormulaMap
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
