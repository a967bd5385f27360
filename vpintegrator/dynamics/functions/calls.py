"""Calling Python functions of states: the order of their arguments, arrays or tensors, batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.dynamics.functions import (  # noqa: F401  record functions of libraries
    traced_functions,
    traced_tensor,
)
from vpintegrator.dynamics.functions.rebinding import rebound
from vpintegrator.dynamics.functions.tracing import (
    NotTraceable,
    as_traced_array,
    filled,
    plain_value,
)
from vpintegrator.errors import InputError, printable

_TIME = ("t", "time", "tau", "_t", "_")
_CLOSE = 1e-12  # relative difference of batches from single states
_TRIED = 5


@dataclass(frozen=True)
class FunctionCall:
    """Call of a Python function with the arguments that its signature names.

    Attributes
    ----------
    function
        The function.
    arguments
        Names of the positional arguments in order: ``t``, ``y``, the halves ``q`` and ``p``, or
        numbers of components.
    name
        Name for messages.
    halves
        Numbers of the components that are positions, and momenta.
    """

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    name: str
    halves: tuple[list[int], list[int]] | None = None

    def __call__(self, t: Any, y: Any, parameters: Mapping[str, Any], axis: int = 0) -> Any:
        """Return the function of a time, and of states with their components along an axis."""
        given = {"t": t, "y": y}
        if "q" in self.arguments:
            assert self.halves is not None
            for key, rows in zip("qp", self.halves, strict=True):
                index: list[Any] = [slice(None)] * y.ndim
                consecutive = rows == list(range(rows[0], rows[-1] + 1))
                index[axis] = slice(rows[0], rows[-1] + 1) if consecutive else rows
                given[key] = y[tuple(index)]
        if self.arguments[-1].isdigit():
            columns = np.moveaxis(y, axis, 0) if isinstance(y, np.ndarray) else y.movedim(axis, 0)
            given = {name: columns[int(name)] for name in self.arguments}
        return self.function(*(given[name] for name in self.arguments), **parameters)

    @property
    def rebound(self) -> FunctionCall:
        """Return the call for symbolic arguments."""
        return replace(self, function=rebound(self.function))


def read_call(
    function: Any,
    what: str,
    parameters: Mapping[str, Any],
    halves: tuple[list[int], list[int]] | None = None,
    components: int = 0,
) -> FunctionCall:
    """Return the call of a function, by the names of its parameters.

    Parameters
    ----------
    function
        ``f(t, y)``, ``f(y, t)`` or ``f(y)``; with ``halves`` also ``H(q, p)`` and ``H(t, q, p)``,
        in any order that the names tell.
    what
        Argument by which the function was given, for messages.
    parameters
        Names of parameters that the function takes as keywords.
    halves
        Numbers of positions and momenta, of a function of the state that may take both.
    components
        Number of components of a map ``M(z)``, each of which may be an argument.

    Raises
    ------
    InputError
        If it is no function, or takes other arguments.
    """
    if not callable(function) or isinstance(function, type):
        raise InputError(f"{what} must be a function, not {printable(repr(function), 80)}")
    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return FunctionCall(function, ("t", "y"), name)
    keywords = any(p.kind is p.VAR_KEYWORD for p in signature)
    known = {p.name for p in signature if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if unknown := [key for key in parameters if key not in known and not keywords]:
        raise InputError(
            f"{what} = {name} takes no keyword '{unknown[0]}', which parameters names; write it as "
            f"def {name}(t, y, {unknown[0]})"
        )
    found = _positional(signature, parameters)
    if components and len(found) == components > 1:
        return FunctionCall(function, tuple(map(str, range(components))), name)
    if components and len(found) > 1:
        raise InputError(
            f"{what} = {name} must take a state of {components} components, or each by itself, and "
            f"parameters by keyword, but it takes ({', '.join(found)})"
        )
    return _of_positional(function, what, name, found, halves)


def _positional(signature: Iterable[inspect.Parameter], parameters: Mapping[str, Any]) -> list[str]:
    """Return names of the arguments that are no parameters."""
    found = [
        p.name
        for p in signature
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.default is p.empty
        and p.name not in parameters
    ]
    if not found and any(p.kind is p.VAR_POSITIONAL for p in signature):
        found = ["y"]
    return found


def _of_positional(
    function: Callable[..., Any],
    what: str,
    name: str,
    positional: list[str],
    halves: tuple[list[int], list[int]] | None,
) -> FunctionCall:
    timed = [k for k, p in enumerate(positional) if p in _TIME]
    match len(positional), timed:
        case (1, []):
            return FunctionCall(function, ("y",), name)
        case (2, [0]):
            return FunctionCall(function, ("t", "y"), name)
        case (2, [1]):
            return FunctionCall(function, ("y", "t"), name)
        case (2, []) if not halves:
            return FunctionCall(function, ("t", "y"), name)
        case (2, []) | (3, [_]) if halves:
            own = [p for k, p in enumerate(positional) if k not in timed]
            swapped = conjugate_pairs(own, velocities=True) == [(1, 0)]
            named = dict(zip(own, "pq" if swapped else "qp", strict=True))
            return FunctionCall(
                function, tuple(named.get(p, "t") for p in positional), name, halves
            )
    forms = "H(z), H(q, p) or H(t, q, p)" if halves else "f(t, y) or f(y)"
    raise InputError(
        f"{what} = {name} must take {forms} and parameters by keyword, but it takes "
        f"({', '.join(positional)})"
    )


def recorded(
    call: FunctionCall, symbols: list[Any], time: Any, parameters: Mapping[str, Any], count: int
) -> list[Any]:
    """Return the values, numbers or recorded operations, of a function of symbols.

    A state may be given to the function as (dim,), or in a batch of one as (1, dim) or (dim, 1).

    Raises
    ------
    NotTraceable
        If no formula says what the function does.
    """
    dim, call, first = len(symbols), call.rebound, ""
    for shape, axis in (((dim,), 0), ((1, dim), 1), ((dim, 1), 0)):
        state = filled(shape, 0.0)
        state.reshape(-1)[:] = np.array(symbols, dtype=object)
        try:
            result = as_traced_array(call(time, state, parameters, axis))
        except NotTraceable:
            raise
        except Exception as error:
            # whatever the function raises, it was called with what it does not know
            first = first or f"{type(error).__name__}: {error}"
        else:
            entries = [*np.asarray(result).ravel()]
            if len(entries) == count and all(np.ndim(entry) == 0 for entry in entries):
                return [plain_value(entry) for entry in entries]
            first = first or f"its value has shape {np.shape(result)}"
    raise NotTraceable(first)


class Values:
    """A function of states as NumPy arrays, whatever it is written for.

    Parameters
    ----------
    call
        The function.
    count
        Number of its values; 0 for a scalar.
    parameters
        Values of the parameters.
    states, times
        States (state, dim) with which it is tried, and times (state,).

    Attributes
    ----------
    library
        ``numpy`` or ``torch``: which arrays it is written for.
    axis
        The axis of a batch along which it expects the components: -1 or 0; None where it takes one
        state at a time.

    Raises
    ------
    InputError
        If it cannot be called with states, or its value has another shape.
    """

    def __init__(
        self,
        call: FunctionCall,
        count: int,
        parameters: Mapping[str, Any],
        states: np.ndarray,
        times: np.ndarray,
    ) -> None:
        self.call, self.count, self.parameters = call, count, dict(parameters)
        self.library, self.axis = "numpy", cast("int | None", None)
        dim = states.shape[1]
        rows = max(_TRIED, dim + 1)  # so that the axes of a batch have different lengths
        states, times = np.resize(states, (rows, dim)), np.resize(times, rows)
        problems = []
        for self.library in ("numpy", "torch"):
            try:
                single = self._singly(states, times)
            except Exception as error:  # any error of the user's function
                kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                problems.append(f"{kind}{error}")
                single = None
            for axis in (-1, 0):
                found = self._tried(states, times, axis)
                if found is not None and (single is None or _close(found, single)):
                    self.axis = axis
                    return
            if single is not None:
                self.axis = None
                return
        raise InputError(
            f"{call.name} cannot be called with a state of {dim} components: {problems[0]}"
        )

    def _tried(self, states: np.ndarray, times: np.ndarray, axis: int) -> np.ndarray | None:
        try:
            return self._batched(states, times, axis)
        except Exception:  # any error of the user's function
            return None

    def __call__(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Values (state, count) of states (state, dim) at times (state,); (state,) of a scalar."""
        if self.axis is None:
            return self._singly(states, times)
        return self._batched(states, times, self.axis)

    def _batched(self, states: np.ndarray, times: np.ndarray, axis: int) -> np.ndarray:
        given = states if axis == -1 else states.T
        return self._read(self._called(times, given, axis), len(states), axis)

    def _singly(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        rows = [
            self._read(self._called(t, y, 0), None, 0) for t, y in zip(times, states, strict=True)
        ]
        return np.array(rows).reshape(len(states), *([self.count] if self.count else []))

    def _called(self, times: Any, states: np.ndarray, axis: int) -> Any:
        if self.library == "numpy":
            arrays = {
                name: np.array(value) if isinstance(value, list) else value
                for name, value in self.parameters.items()
            }
            t: Any = float(times) if np.ndim(times) == 0 else np.asarray(times, dtype=np.float64)
            with np.errstate(all="ignore"):
                return self.call(t, np.array(states, dtype=np.float64, order="C"), arrays, axis)
        import torch

        with torch.no_grad():
            t = torch.as_tensor(times, dtype=torch.float64)
            y = torch.tensor(states, dtype=torch.float64)
            return self.call(t, y, self._tensors, axis)

    @cached_property
    def _tensors(self) -> dict[str, Any]:
        """The parameters, lists of them as tensors."""
        import torch

        return {
            name: torch.tensor(value, dtype=torch.float64) if isinstance(value, list) else value
            for name, value in self.parameters.items()
        }

    def tensors(self, states: Any, times: Any) -> Any:
        """Return values (state, count) of tensors, with a graph for autograd."""
        import torch

        if self.axis is None:
            pairs = zip(times, states, strict=True)
            rows = [self._tensor(self.call(t, y, self._tensors, 0)) for t, y in pairs]
            return torch.stack(rows).reshape(len(states), -1)
        given = states if self.axis == -1 else states.T
        found = self._tensor(self.call(times, given, self._tensors, self.axis))
        if not self.count:
            return found.reshape(-1, 1)
        return found if self.axis == -1 else found.T

    def _tensor(self, value: Any) -> Any:
        """Return the function's result as a tensor."""
        import torch

        if isinstance(value, list | tuple):
            return torch.stack([torch.as_tensor(v, dtype=torch.float64) for v in value])
        return value

    def _read(self, value: Any, rows: int | None, axis: int) -> np.ndarray:
        result = as_numbers(value, self.call.name)
        if rows is None:
            wanted: tuple[int, ...] = (self.count,) if self.count else ()
            if result.shape == (1,) and not self.count:
                result = result[0]
        elif not self.count:
            wanted = (rows,)
            if result.shape == (rows, 1)[:: 1 if axis else -1]:
                result = result.reshape(rows)
        else:
            wanted = (rows, self.count) if axis == -1 else (self.count, rows)
        if result.shape != wanted:
            raise InputError(
                f"{self.call.name} returns an array of shape {result.shape} where {wanted} is "
                "expected"
            )
        return result.T if rows is not None and axis == 0 and self.count else result


def as_numbers(value: Any, name: str) -> np.ndarray:
    """Convert the result of a function to an array of doubles.

    Raises
    ------
    InputError
        If it is none of real numbers.
    """
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        elif isinstance(value, list | tuple):
            value = [as_numbers(entry, name) for entry in value]
        array = np.asarray(value)
        if np.iscomplexobj(array) or array.dtype == object:
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} returns {printable(repr(value), 80)}, no array of real numbers"
        ) from None


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    scale = 1 + np.abs(np.nan_to_num(other)).max(initial=0)
    return bool(np.allclose(one, other, rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True))
