"""Python functions of states: how they are called, their values, errors and derivatives."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vpintegrator.arguments import (
    ComplexValues,
    called,
    complex_values,
    keeping_imaginary_parts,
    real_values,
)
from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.errors import InputError

EXACT = 1e-12  # relative error of values, and of derivatives by autograd
_OF_DIFFERENCES = 1e-8  # the same by finite differences
_STEPS = (2e-3, 2e-4)  # relative steps of central differences of order 6, and for a check of them
_WEIGHTS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
_TIME = ("t", "time", "tau", "_t", "_")
_TRIED = 5  # states
_ROUGH = 2.0**-8  # relative rounding errors of bfloat16; larger differences are no rounding errors
_ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": _ROUGH}
_NOISE_ORDER = 8  # of the differences that show rounding errors
_NOISE_STEPS = ((1e-6, 2.5e-7), (1e-3, 2.5e-4))  # of these differences, relative to components
_STEADY = 0.03  # ratio of differences over two steps that are rounding errors
_DOUBLE = 1e-9  # relative rounding errors below are those of double precision
OF_NOISE = 30  # relative error of a sum of some values, over their rounding error
_FEWEST = 3  # states with derivatives, without which those beside kinks count too
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
    name = getattr(called(what, function), "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return PythonCall(function, name, ("t", "y"), halves)
    unknown = parameters.keys() - {p.name for p in signature}
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in signature):
        key = min(unknown)
        raise InputError(
            f"{what} = {name} takes no keyword '{key}', which parameters names; write it as "
            f"def {name}(t, y, {key})"
        )
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    free = (p for p in signature if p.kind in positional and p.default is p.empty)
    arguments = [p.name for p in free if p.name not in parameters]
    if not arguments and any(p.kind is p.VAR_POSITIONAL for p in signature):
        arguments = ["y"]
    dim = sum(map(len, halves))
    states = [p for p in arguments if p not in _TIME]
    roles = dict.fromkeys(arguments, "t")
    if kind == "map" and len(arguments) == dim > 1:
        roles = {p: str(k) for k, p in enumerate(arguments)}
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
            f"it takes ({', '.join(arguments)})"
        )
    return PythonCall(function, name, tuple(roles[p] for p in arguments), halves)


class BatchFunction:
    """A function of points as NumPy arrays, whatever it is written for.

    A point (dim + 1,) is a state and the time.

    Parameters
    ----------
    call
        The function.
    count
        Number of its values; 0 for a scalar.
    parameters
        Values of the parameters.
    points
        Points (point, dim + 1) with which it is tried.

    Attributes
    ----------
    library
        ``numpy`` or ``torch``: which arrays it is written for.
    axis
        The axis of a batch along which it expects the components: -1 or 0; None where it takes one
        state at a time.
    noise
        Relative rounding error of its values; 0 where it is that of double precision.

    Raises
    ------
    InputError
        If it cannot be called with states, or its value has another shape.
    """

    def __init__(
        self, call: PythonCall, count: int, parameters: Mapping[str, Any], points: np.ndarray
    ) -> None:
        self.call = call
        self.count = count
        self.parameters = parameters
        self.noise = self._rounding = 0.0
        self._scales = np.append(_scales(points)[:-1], 1.0)
        dim = points.shape[1] - 1
        tried = points[: _TRIED + 1 + dim]
        points = np.resize(points, (max(_TRIED, dim + 1), dim + 1))  # axes of different lengths
        problem = ""
        for self.library in ("numpy", "torch"):
            results: dict[int | None, np.ndarray] = {}
            for self.axis in (None, -1, 0):
                try:
                    with keeping_imaginary_parts(call.name):
                        results[self.axis] = self(points)
                except ComplexValues:
                    raise
                except Exception as error:  # any error of the user's function
                    kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                    problem = problem or f"{kind}{error}"
            if not results:
                continue
            self.axis, single = next(iter(results.items()))
            self.noise = self._noise(tried)
            close = max(EXACT, OF_NOISE * self.noise)
            for self.axis in (-1, 0, None):
                if self.axis in results and np.allclose(
                    results[self.axis], single, rtol=close, atol=close, equal_nan=True
                ):
                    return
        raise InputError(
            f"{call.name} cannot be called with a state of {dim} components: {problem}"
        )

    @property
    def slope_tolerance(self) -> float:
        """Relative error of derivatives."""
        if self.library == "torch":
            return max(EXACT, OF_NOISE * self.noise)
        return max(_OF_DIFFERENCES, OF_NOISE * self.noise / self._steps[0])

    @property
    def _steps(self) -> tuple[float, float]:
        """Relative steps of differences: at the first, truncation and rounding errors are alike."""
        if not self.noise:
            return _STEPS
        return self.noise ** (1 / 7) / 2, self.noise ** (1 / 7) / 10

    def _noise(self, points: np.ndarray) -> float:
        """Return the relative rounding error of values about points; 0 for double precision.

        The differences of order 8 of values on a line show rounding errors alone, as those of a
        smooth function vanish (More and Wild, SIAM J. Sci. Comput. 33 (2011) 1292-1314).
        """
        fine, coarse = (
            np.array([self._differences(points, size) for size in sizes]) for sizes in _NOISE_STEPS
        )  # (2, point, count) each
        # half precision is constant over the fine steps, as jumps of a sound function are
        still = np.median((fine == 0).all(axis=0), axis=0) > 0
        levels = np.where(still, coarse, fine)
        levels = levels[:, np.isfinite(levels).all(axis=(0, 2))]
        if not levels.size:
            return self._rounding
        levels = np.median(levels, axis=1)  # (2, count)
        # rounding errors do not shrink with the steps, unlike the differences of fast oscillations
        steady = levels.min(axis=0) > _STEADY * levels.max(axis=0)
        noise = float(np.where(steady, levels.max(axis=0), 0.0).max())
        return max(noise if _DOUBLE < noise < _ROUGH else 0.0, self._rounding)

    def _differences(self, points: np.ndarray, size: float) -> np.ndarray:
        """Return relative differences of order 8, (point, count), over steps of a relative size.

        The unit is that of independent rounding errors.
        """
        places = np.arange(_NOISE_ORDER + 1)[:, None]
        signs = np.random.default_rng(0).choice([-1.0, 1.0], points.shape)
        signs[:, -1] = 0.0  # the same time
        moved = points[:, None] + size * places * (signs * self._scales)[:, None]
        values = self(moved.reshape(-1, points.shape[1])).reshape(len(points), len(places), -1)
        unit = math.sqrt(math.comb(2 * _NOISE_ORDER, _NOISE_ORDER))
        scales = _scales(values.reshape(-1, values.shape[-1]))
        return np.abs(np.diff(values, _NOISE_ORDER, axis=1)[:, 0]) / (unit * scales)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return values (point, count) at points (point, dim + 1); (point,) of a scalar."""
        shape = (len(points), self.count) if self.count else (len(points),)
        if not len(points):
            return np.empty(shape)
        states = np.array(points[:, :-1], order="C")
        times = np.array(points[:, -1])
        if self.library == "torch":
            import torch

            with torch.no_grad():
                value = self.evaluate(torch.tensor(states), torch.tensor(times)).numpy()
        else:
            with np.errstate(all="ignore"):
                value = self.evaluate(states, times)
        return np.array(value, dtype=np.float64).reshape(shape)

    def evaluate(self, states: Any, times: Any) -> Any:
        """Return values at arrays or tensors of states (point, dim) and times (point,).

        Values of tensors have a graph for autograd.
        """
        make: Any = np.array
        if self.library == "torch":
            import torch

            make = torch.tensor
        parameters = {k: make(v) if isinstance(v, list) else v for k, v in self.parameters.items()}
        if self.axis is None:
            value = self._stacked(
                self.call(t, y, parameters) for t, y in zip(times, states, strict=True)
            )
        else:
            batch = states if self.axis else states.T
            value = self._stacked([self.call(times, batch, parameters, self.axis)])[0]
            value = value.T if self.axis == 0 and self.count else value
        shape = (len(states), self.count) if self.count else (len(states),)
        if tuple(value.shape) not in (shape, *([] if self.count else [(*shape, 1), (1, *shape)])):
            raise InputError(
                f"{self.call.name} returns values of shape {tuple(value.shape)} where {shape} is "
                "expected"
            )
        return value

    def _stacked(self, values: Iterable[Any]) -> Any:
        """Return results of the function, which may be lists, as one array or tensor of doubles.

        Each result is copied before the next call, which may write to the same array.
        """
        if self.library == "torch":
            import torch

            entries = []
            has_tensors = False
            for value in values:
                entry = self._stacked(value) if isinstance(value, list | tuple) else value
                is_complex = getattr(entry, "is_complex", partial(np.iscomplexobj, entry))
                if is_complex():
                    raise complex_values(self.call.name)
                has_tensors |= isinstance(entry, torch.Tensor)
                self._see_precision(str(getattr(entry, "dtype", "")).removeprefix("torch."))
                entries.append(torch.as_tensor(entry, dtype=torch.float64).clone())
            if not has_tensors:
                raise TypeError("it returns no tensor")
            return torch.stack(entries)
        rows = []
        for value in values:
            rows.append(real_values(self.call.name, value))
            kind = getattr(value, "dtype", None)
            for entry in value if kind is None and isinstance(value, list | tuple) else ():
                self._see_precision(str(getattr(entry, "dtype", "")))
            self._see_precision(str(kind))
        return np.array(rows)

    def _see_precision(self, dtype: str) -> None:
        """Remember the rounding error of a type of numbers, where it is that of no double."""
        self._rounding = max(self._rounding, _ROUNDING.get(dtype, 0.0))

    def reads_time(self, state: np.ndarray) -> bool:
        """Whether the function compares or converts the time that it is given with a state (dim,).

        Then it may depend on the time even where its values at some times are equal.
        """
        if "t" not in self.call.arguments:
            return False
        y: Any = np.array(state)
        if self.library == "torch":
            import torch

            y = torch.tensor(state)
        reads: list[bool] = []
        for time in (WatchedTime(0.0, reads), y[0] * 0.0):
            try:
                with np.errstate(all="ignore"):
                    self.call(time, y, self.parameters)
            except Exception:  # any error of the user's function
                # a library got no number; or the function takes batches alone
                reads.append(isinstance(time, WatchedTime))
                if not reads[-1]:
                    return False
            if not reads:
                return False
        return True

    def slopes(self, points: np.ndarray, step: float | None = None) -> np.ndarray:
        """Return derivatives (point, count, dim + 1) by the components, and by the time."""
        if self.library == "torch":
            return self._by_autograd(points)
        step = self._steps[0] if step is None else step
        columns = []
        for j in range(points.shape[1]):
            size = step * np.maximum(self._scales[j], np.abs(points[:, j]))
            total: Any = 0.0
            for number, weight in _WEIGHTS:
                for sign in (1, -1):
                    moved = points.copy()
                    moved[:, j] += sign * number * size
                    total = total + sign * weight * self(moved).reshape(len(points), -1)
            columns.append(total / size[:, None])
        return np.stack(columns, axis=-1)

    def _by_autograd(self, points: np.ndarray) -> np.ndarray:
        import torch

        with torch.enable_grad():
            z = torch.tensor(points).requires_grad_()
            values = self.evaluate(z[:, :-1], z[:, -1]).reshape(len(points), -1)
            result = np.zeros((len(points), values.shape[1], points.shape[1]))
            for k in range(values.shape[1] if values.requires_grad else 0):
                (slope,) = torch.autograd.grad(
                    values[:, k].sum(), z, retain_graph=True, materialize_grads=True
                )
                result[:, k] = slope.numpy()
        return result

    def sound_slopes(self, points: np.ndarray) -> np.ndarray:
        """Return derivatives, NaN beside kinks of the function where it is smooth elsewhere."""
        slopes = self.slopes(points)
        if self.library == "torch":
            return slopes
        values = self(points).reshape(len(points), -1)
        units = _scales(values)[:, None] / self._scales  # (count, dim + 1)
        other = self.slopes(points, self._steps[1])
        errors = np.abs(slopes - other)
        smooth = (errors <= self.slope_tolerance * (units + np.abs(slopes))).all(axis=(1, 2))
        if smooth.sum() >= _FEWEST:
            slopes[~smooth] = np.nan
        return slopes


def _of_numbers(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of watched times that computes with numbers, and stays watched."""

    def operate(self: WatchedTime, *others: Any) -> Any:
        values = [each.value if isinstance(each, WatchedTime) else each for each in others]
        result = apply(self.value, *values)
        numbers = all(isinstance(value, int | float | np.number) for value in values)
        return WatchedTime(result, self.reads) if numbers else result

    return operate


def _of_decisions(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of watched times that says that the time is read."""

    def operate(self: WatchedTime, *others: Any) -> Any:
        self.reads.append(True)
        return apply(self.value, *others)

    return operate


class WatchedTime:
    """A time that knows whether a function decides by it, or converts it.

    Parameters
    ----------
    value
        The number.
    reads
        List that gets an entry for each decision and conversion.
    """

    __array_ufunc__ = None  # arrays and numbers of NumPy leave operators to this class

    def __init__(self, value: float, reads: list[bool]) -> None:
        self.value = value
        self.reads = reads

    __add__ = __radd__ = _of_numbers(operator.add)
    __mul__ = __rmul__ = _of_numbers(operator.mul)
    __sub__ = _of_numbers(operator.sub)
    __rsub__ = _of_numbers(lambda a, b: b - a)
    __truediv__ = _of_numbers(operator.truediv)
    __rtruediv__ = _of_numbers(lambda a, b: b / a)
    __pow__ = _of_numbers(operator.pow)
    __rpow__ = _of_numbers(lambda a, b: b**a)
    __neg__ = _of_numbers(operator.neg)
    __pos__ = _of_numbers(operator.pos)
    __lt__ = _of_decisions(operator.lt)
    __le__ = _of_decisions(operator.le)
    __gt__ = _of_decisions(operator.gt)
    __ge__ = _of_decisions(operator.ge)
    __eq__ = _of_decisions(operator.eq)
    __ne__ = _of_decisions(operator.ne)
    __mod__ = _of_decisions(operator.mod)
    __floordiv__ = _of_decisions(operator.floordiv)
    __abs__ = _of_decisions(operator.abs)
    __round__ = _of_decisions(round)
    __float__ = _of_decisions(float)
    __int__ = _of_decisions(int)
    __bool__ = _of_decisions(bool)
    __array__ = _of_decisions(np.asarray)
    __hash__ = object.__hash__


def _scales(rows: np.ndarray) -> np.ndarray:
    """Return the largest size of each column (row, column); 1 where a column vanishes."""
    sizes = np.abs(rows).max(axis=0, initial=0.0, where=np.isfinite(rows))
    return np.where(sizes > 0, sizes, 1.0)
