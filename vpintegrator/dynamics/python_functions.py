"""Python functions of states: their arguments, and calls with arrays, tensors and batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.errors import InputError, printable

AUTOGRAD, DIFFERENCES = "autograd", "finite differences"
EXACT = 1e-12  # relative error of values, and of derivatives by autograd
_OF_DIFFERENCES = 1e-8  # the same by finite differences
_STEPS = (2e-3, 2e-4)  # relative steps of central differences of order 6, and for a check of them
_WEIGHTS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
_TIME = ("t", "time", "tau", "_t", "_")
_TRIED = 5  # states
_FORMS = {
    "field": "f(t, y) or f(y)",
    "scalar": "H(z), H(q, p) or H(t, q, p)",
    "map": "a state of {} components, or each by itself",
}

Halves = tuple[list[int], list[int]]


@dataclass(frozen=True)
class PythonCall:
    """Call of a Python function with the arguments that its signature names.

    Attributes
    ----------
    function, name
        The function, and its name for messages.
    arguments
        The positional arguments in order: ``t``, ``y``, ``q`` and ``p``, or numbers of components.
    halves
        Numbers of the components that are positions, and momenta.
    """

    function: Callable[..., Any]
    name: str
    arguments: tuple[str, ...]
    halves: Halves

    def __call__(self, t: Any, y: Any, parameters: Mapping[str, Any], axis: int = 0) -> Any:
        """Return the value at a time and states with their components along an axis."""

        def rows(numbers: Any) -> Any:
            return y[tuple(numbers if k == axis % y.ndim else slice(None) for k in range(y.ndim))]

        given = {"t": t, "y": y}
        if "q" in self.arguments:
            given |= dict(zip("qp", map(rows, self.halves), strict=True))
        given |= {name: rows(int(name)) for name in self.arguments if name.isdigit()}
        return self.function(*(given[name] for name in self.arguments), **parameters)

    def of_state(self, t: Any, parameters: Mapping[str, Any], y: Any, axis: int) -> Any:
        """Return the value at a state, and a time and parameters that come first."""
        return self(t, y, parameters, axis)


def read_call(
    function: Any, what: str, parameters: Mapping[str, Any], halves: Halves, kind: str
) -> PythonCall:
    """Return the call of a function, by the names of its parameters.

    Parameters
    ----------
    function, what
        The function, and the argument by which it was given, for messages.
    parameters
        Names of parameters that the function takes as keywords.
    halves
        Numbers of positions and momenta.
    kind
        ``field``, ``scalar`` or ``map``: see ``_FORMS``. Positions and momenta are told by the
        names of the arguments.

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
        return PythonCall(function, name, ("t", "y"), halves)
    open_ = any(p.kind is p.VAR_KEYWORD for p in signature)
    if unknown := [] if open_ else parameters.keys() - {p.name for p in signature}:
        key = sorted(unknown)[0]
        raise InputError(
            f"{what} = {name} takes no keyword '{key}', which parameters names; write it as "
            f"def {name}(t, y, {key})"
        )
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [p.name for p in signature if p.kind in positional and p.default is p.empty]
    own = [name for name in own if name not in parameters]
    if not own and any(p.kind is p.VAR_POSITIONAL for p in signature):
        own = ["y"]
    dim, states = sum(map(len, halves)), [p for p in own if p not in _TIME]
    roles = dict.fromkeys(own, "t")
    if kind == "map" and len(own) == dim > 1:
        roles = {p: str(k) for k, p in enumerate(own)}
    elif len(states) == 2 and kind == "field":
        roles[states[1]] = "y"
    elif len(states) == 2 and kind == "scalar":
        swapped = conjugate_pairs(states, velocities=True) == [(1, 0)]
        roles |= dict(zip(states, "pq" if swapped else "qp", strict=True))
    elif len(states) == 1:
        roles[states[0]] = "y"
    if not {"y", "q", "0"} & {*roles.values()} or [*roles.values()].count("t") > (kind != "map"):
        raise InputError(
            f"{what} = {name} must take {_FORMS[kind].format(dim)}, and parameters by keyword, but "
            f"it takes ({', '.join(own)})"
        )
    return PythonCall(function, name, tuple(roles[p] for p in own), halves)


class BatchFunction:
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
        call: PythonCall,
        count: int,
        parameters: Mapping[str, Any],
        states: np.ndarray,
        times: np.ndarray,
    ) -> None:
        self.call, self.count, self.parameters = call, count, dict(parameters)
        self.scales = _scales(np.concatenate([states, np.ones((len(states), 1))], axis=1))
        rows = max(_TRIED, states.shape[1] + 1)  # so that the axes have different lengths
        states, times = np.resize(states, (rows, states.shape[1])), np.resize(times, rows)
        problem = ""
        for self.library in ("numpy", "torch"):
            found: dict[int | None, np.ndarray] = {}
            for self.axis in (None, -1, 0):
                try:
                    found[self.axis] = self(states, times)
                except Exception as error:  # any error of the user's function
                    kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                    problem = problem or f"{kind}{error}"
            single = next(iter(found.values()), np.empty(0))
            for self.axis in (-1, 0, None):
                if self.axis in found and np.allclose(
                    found[self.axis], single, rtol=EXACT, atol=EXACT, equal_nan=True
                ):
                    return
        raise InputError(
            f"{call.name} cannot be called with a state of {states.shape[1]} components: {problem}"
        )

    def __call__(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Values (state, count) of states (state, dim) at times (state,); (state,) of a scalar."""
        shape = (len(states), self.count) if self.count else (len(states),)
        if not len(states):
            return np.empty(shape)
        if self.library == "torch":
            import torch

            with torch.no_grad():
                value = self._evaluated(torch.tensor(states), torch.tensor(times)).numpy()
        else:
            with np.errstate(all="ignore"):
                value = self._evaluated(np.array(states, order="C"), np.array(times))
        return np.array(value, dtype=np.float64).reshape(shape)

    def _evaluated(self, states: Any, times: Any) -> Any:
        """Return values of arrays or tensors, with a graph for autograd."""
        if self.axis is None:
            value = self._stacked(list(map(self._called, times, states)))
        else:
            value = self._stacked([self._called(times, states if self.axis else states.T)])[0]
            value = value.T if self.axis == 0 and self.count else value
        shape = (len(states), self.count) if self.count else (len(states),)
        if tuple(value.shape) not in (shape, *([] if self.count else [(*shape, 1), (1, *shape)])):
            raise InputError(
                f"{self.call.name} returns values of shape {tuple(value.shape)} where {shape} is "
                "expected"
            )
        return value

    def _called(self, times: Any, states: Any) -> Any:
        make: Any = np.array
        if self.library == "torch":
            import torch

            make = torch.tensor
        lists = {name: make(v) for name, v in self.parameters.items() if isinstance(v, list)}
        return self.call(times, states, self.parameters | lists, self.axis or 0)

    def _stacked(self, values: Any) -> Any:
        """Return results of the function, which may be lists, as one array or tensor of doubles."""
        if self.library == "torch":
            import torch

            entries = [self._stacked(v) if isinstance(v, list | tuple) else v for v in values]
            if not any(isinstance(entry, torch.Tensor) for entry in entries):
                raise TypeError("it returns no tensor")
            return torch.stack([torch.as_tensor(e, dtype=torch.float64) for e in entries])
        try:
            array = np.array([np.array(value, dtype=np.float64) for value in values])
        except (TypeError, ValueError):
            shown = printable(repr(values[0]), 80)
            raise InputError(
                f"{self.call.name} returns {shown}, no array of real numbers"
            ) from None
        return array

    def slopes(self, states: np.ndarray, times: np.ndarray, step: float = _STEPS[0]) -> np.ndarray:
        """Return derivatives (state, count, dim + 1) by the components, and by the time."""
        if self.library == "torch":
            return self._by_autograd(states, times)
        points, columns = np.concatenate([states, times[:, None]], axis=1), []
        for j in range(points.shape[1]):
            size = step * np.maximum(self.scales[j], np.abs(points[:, j]))
            total: Any = 0.0
            for number, weight in _WEIGHTS:
                for sign in (1, -1):
                    moved = points.copy()
                    moved[:, j] += sign * number * size
                    values = self(moved[:, :-1], moved[:, -1]).reshape(len(points), -1)
                    total = total + sign * weight * values
            columns.append(total / size[:, None])
        return np.stack(columns, axis=-1)

    def _by_autograd(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        import torch

        with torch.enable_grad():
            given = torch.tensor(states).requires_grad_(), torch.tensor(times).requires_grad_()
            values = self._evaluated(*given).reshape(len(states), -1)
            result = np.zeros((len(states), values.shape[1], states.shape[1] + 1))
            for k in range(values.shape[1] if values.requires_grad else 0):
                of_y, of_t = torch.autograd.grad(
                    values[:, k].sum(), given, retain_graph=True, materialize_grads=True
                )
                result[:, k] = torch.cat([of_y, of_t[:, None]], 1).numpy()
        return result

    def sound_slopes(self, states: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, float]:
        """Return derivatives, NaN beside kinks of the function, and how far they may be wrong."""
        found = self.slopes(states, times)
        if self.library == "torch":
            return found, EXACT
        other = self.slopes(states, times, _STEPS[1])
        values = self(states, times).reshape(len(states), -1)
        units = _scales(values)[:, None] / self.scales  # (count, dim + 1)
        smooth = np.abs(found - other) <= _OF_DIFFERENCES * (units + np.abs(found))
        return np.where(smooth.all(axis=(1, 2), keepdims=True), found, np.nan), _OF_DIFFERENCES


def _scales(rows: np.ndarray) -> np.ndarray:
    """Return the largest size of each column (row, column); 1 where a column vanishes."""
    sizes = np.abs(rows).max(axis=0, initial=0.0, where=np.isfinite(rows))
    return np.where(sizes > 0, sizes, 1.0)


def place(components: Sequence[str], state: np.ndarray) -> str:
    """Return a state as messages write it."""
    named = [f"{name} = {x:.6g}" for name, x in zip(components[:4], state, strict=False)]
    return ", ".join(named) + (", ..." if len(components) > 4 else "")
