"""Map: all that steps. Classical methods, models, machine code, exact maps, functions of a user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from vpintegrator.arguments import keeping_imaginary_parts, real_array, real_values, whole
from vpintegrator.dynamics import Structure, System
from vpintegrator.dynamics.equations import is_tensor
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("learned", "classical", "exact", "own")
DOUBLE = 2.0**-52  # relative rounding error of double precision
DISTANCE = 5e-4  # of the neighbours in differences, relative
# of derivatives by differences of a vector field or a solution, which have errors of their own
DIFFERENCES = 2e-11


class Map(ABC):
    r"""A map of windows of states that moves them ``prediction_window`` steps forward in time.

    .. math:: \Phi : (z_1, \dots, z_T) \mapsto (z_{1+P}, \dots, z_{T+P}), \qquad T = \text{window}

    A map of single states has windows of one row. If P < T, the image is the window without its
    oldest P rows, with the P new rows after the others. ``advance`` iterates this map of windows,
    and ``structure`` is that of this map: nothing else is iterated or measured. Arrays are float64,
    whatever a model computes in.
    A map of your own derives from this class and defines :meth:`map`; or it is made of a function
    by :meth:`from_function`.

    Attributes
    ----------
    name, title, description
        Its name, that in tables and figures (empty: the name), and a line about it.
    kind
        ``"learned"``, ``"classical"``, ``"exact"`` or ``"own"``.
    order
        Order of convergence; None for other maps than classical methods.
    step, dim, window, prediction_window
        Time step h, components of a state, time steps read, and time steps predicted.
    structure, remark, attention_summary
        Structure that it keeps exactly, what else is to be said of it, and a sentence on the
        attention of a model; else empty.
    provenance
        Source of the map in words: "learned from 16,000 pairs of states", "made from the
        equations"; else empty.
    machine_epsilon
        Relative rounding error of the arithmetic in which it computes: 2.2e-16 in double precision,
        1.2e-7 in single precision. What is kept is kept up to some of these.
    reads_equations
        Whether equations can be of use to its training.
    differentiable
        Whether it has a derivative: SciPy's solvers with an adaptive step are no fixed map.
    system, domain
        Its system and the training domain of a model, where they are known.

    Examples
    --------
    >>> class Turn(vp.Map):
    ...     dim, step = 2, 0.1
    ...     def map(self, windows):
    ...         return windows @ np.array([[0.995, -0.0998], [0.0998, 0.995]])
    >>> next(Turn().advance(np.ones((3, 1, 2)), 10)).shape
    (3, 10, 2)
    """

    name: str = "map"
    title: str = ""
    description: str = ""
    kind: str = "own"
    order: int | None = None
    dim: int
    window: int = 1
    prediction_window: int = 1
    remark: str = ""
    attention_summary: str = ""
    provenance: str = ""
    machine_epsilon: float = DOUBLE
    differentiable: bool = True
    system: System | None = None
    structure: Any = Structure()
    reads_equations: bool = False
    step: Any = 1.0
    domain: Any = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let methods of a map of the user take and return copies.

        They may write to their arguments, and fill and return one array at each call. Old states in
        what ``map`` returns are those of its argument, so that its iteration is ``advance``.
        """
        super().__init_subclass__(**arguments)
        if cls.__module__.partition(".")[0] != __package__.partition(".")[0]:
            for name in ("map", "derivative", "tangent", "states", "advance"):
                if name in vars(cls):
                    setattr(cls, name, _of_copies(vars(cls)[name]))

    @abstractmethod
    def map(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        """Map windows (n, window, dim) to the windows ``prediction_window`` steps later.

        The first ``window - prediction_window`` rows of an image are the last ones of the argument,
        whatever a method of your own returns there. NaN where the step cannot be computed.
        Classical methods, exact maps and models of families take values of ``parameters`` by name:
        numbers, or arrays (n,). Only these maps need the argument.
        """

    def derivative(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        """Return Jacobian matrices of ``map`` at windows (n, window, dim).

        The shape is (n, window * dim, window * dim), time before component in rows and columns
        alike. By default they are fourth-order differences, with about ten digits.
        """
        shape = (self.window, self.dim)

        def flat(points: np.ndarray) -> np.ndarray:
            images = self.map(points.reshape(-1, *shape), *optional(parameters))
            return images.reshape(len(points), -1)

        return differences(flat, np.reshape(windows, (len(windows), -1)))

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of the derivative: rounding, and more where it is by differences."""
        by_differences = type(self).derivative is Map.derivative
        return self.machine_epsilon / DISTANCE if by_differences else self.machine_epsilon

    def tangent(
        self, windows: np.ndarray, vectors: np.ndarray, parameters: Any = None
    ) -> np.ndarray:
        """Return images (n, window * dim, k) of tangent vectors under the derivative at windows.

        ``vectors`` are (n, window * dim, k), or (window * dim, k) for all windows.
        """
        return self.derivative(windows, *optional(parameters)) @ vectors

    def states(self, windows: np.ndarray, parameters: Any = None) -> Iterator[np.ndarray]:
        """Yield the new states (n, prediction_window, dim) of one call after another, without end.

        A trajectory that is not finite is NaN from there on.
        """
        windows = real_array("windows", windows, None).copy()
        kept = self.window - self.prediction_window
        while True:
            new = self.map(windows, *optional(parameters))[:, kept:]
            failed = ~(np.isfinite(windows).all((1, 2)) & np.isfinite(new).all((1, 2)))
            new[failed] = np.nan
            windows = np.concatenate([windows[:, self.prediction_window :], new], axis=1)
            yield new

    def advance(
        self,
        windows: np.ndarray,
        steps: int,
        *,
        chunk: int = 1000,
        parameters: Any = None,
    ) -> Iterator[np.ndarray]:
        """Yield the states of the next steps in chunks (n, count, dim), ``count`` <= ``chunk``.

        The states do not depend on the size of the chunks.

        Parameters
        ----------
        windows
            First windows, (n, window, dim); their states are not yielded again.
        steps
            Number of steps after the windows.
        chunk
            Largest number of steps in a chunk.
        parameters
            Values of parameters by name: numbers, or arrays (n,).
        """
        calls = max(chunk // self.prediction_window, 1)
        states = self.states(windows, parameters)
        while steps > 0:
            needed = min(calls, -(-steps // self.prediction_window))
            parts: list[np.ndarray] = []
            failure: Exception | None = None
            try:
                with np.errstate(all="ignore"):  # diverging states overflow
                    parts.extend(islice(states, needed))
            except Exception as error:  # the states before it are known
                failure = error
            block = np.concatenate([np.asarray(windows)[:, :0], *parts], axis=1)[:, :steps]
            steps -= block.shape[1]
            for first in range(0, block.shape[1], chunk):
                yield block[:, first : first + chunk]
            if failure is not None:
                raise failure

    @final
    @staticmethod
    def from_function(
        function: Callable[[np.ndarray], Any],
        step: float,
        dim: int,
        *,
        window: int = 1,
        structure: Structure | None = None,
        name: str | None = None,
    ) -> FunctionMap:
        """Return the map of a function of states, or of windows of them.

        Parameters
        ----------
        function
            Takes states (n, dim) to the states one step later, (n, dim). With ``window`` > 1 it
            takes windows (n, window, dim) to the next states (n, dim).
        step
            Time step.
        dim
            Components of a state.
        window
            Number of states that the function reads.
        structure
            Structure that the map is claimed to keep, with ``window`` > 1 on windows; comparisons
            measure it.
        name
            Name in tables; by default that of the function.

        Raises
        ------
        InputError
            If an argument is wrong, or the function returns another shape.

        Examples
        --------
        >>> euler = vp.Map.from_function(lambda z: z + 0.1 * z[:, ::-1] * [1, -1], step=0.1, dim=2)
        >>> euler.map(np.ones((1, 1, 2)))
        array([[[1.1, 0.9]]])
        """
        return FunctionMap(function, step, dim, window, structure or Structure(), name)


def _of_copies(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of an own map that takes and returns copies of arrays."""

    @wraps(method)
    def copied(self: Map, windows: Any, *arguments: Any, **options: Any) -> Any:
        copies = (np.array(each) if isinstance(each, np.ndarray) else each for each in arguments)
        with keeping_imaginary_parts(self.name):
            result = method(self, np.array(windows), *copies, **options)
            if isinstance(result, Iterator):
                return (real_values(self.name, states) for states in result)
            result = real_values(self.name, result)
        new = self.prediction_window
        if method.__name__ == "map" and new < self.window and result.shape == np.shape(windows):
            return np.concatenate([np.asarray(windows)[:, new:], result[:, -new:]], axis=1)
        return result

    return copied


def checked_windows(map: Map, initial: Any) -> Any:
    """Return an array or a tensor as first windows (trajectory, window, dim) of a map.

    States (trajectory, dim) are those of a map of single states.
    """
    windows = initial[:, None] if map.window == 1 and initial.ndim == 2 else initial
    if windows.ndim != 3 or windows.shape[1:] != (map.window, map.dim) or not len(windows):
        raise InputError(
            f"initial has shape {tuple(initial.shape)}, but {map.name} starts from windows of "
            f"shape (trajectory, {map.window}, {map.dim})"
        )
    return windows


def optional(parameters: Any) -> tuple[Any, ...]:
    """Return the argument ``parameters`` where there are some: most maps do not know it."""
    return () if parameters is None else (parameters,)


class FunctionMap(Map):
    """Map of a function of the user; see :meth:`Map.from_function`."""

    def __init__(
        self,
        function: Callable[[np.ndarray], Any],
        step: float,
        dim: int,
        window: int,
        structure: Structure,
        name: str | None,
    ) -> None:
        if not callable(function):
            raise InputError(f"a map is made of a function of states, not of {function!r}")
        if not (np.isfinite(step) and step > 0):
            raise InputError(f"step = {step!r} must be a positive number")
        self.function = function
        self.step = float(step)
        self.dim = whole("dim", dim, 1)
        self.window = whole("window", window, 1)
        self.structure = structure if window == 1 else replace(structure, space="windows")
        self.name = name or str(getattr(function, "__name__", type(function).__name__)).strip("<>")
        self.description = f"the function {self.name}"

    def map(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        if parameters:
            raise InputError(f"{self.name} is a function of states and takes no parameters")
        windows = real_array("windows", windows, None)
        given = windows[:, 0] if self.window == 1 else windows
        with keeping_imaginary_parts(self.name):
            value = self.function(given.copy())
            new = real_values(self.name, value)
        precision = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if precision in ("float16", "float32"):  # however its states are stored
            self.machine_epsilon = float(np.finfo(precision).eps)
        if new.shape != (len(windows), self.dim):
            raise InputError(
                f"{self.name} gives shape {new.shape} for states of shape {given.shape}; give "
                f"({len(windows)}, {self.dim})"
            )
        return np.concatenate([windows[:, 1:], new[:, None]], axis=1)


class ExactMap(Map):
    r"""Iteration of a discrete system, exact but for rounding.

    .. math:: z_{n+1} = M(z_n)

    Parameters
    ----------
    system
        A discrete system.

    Raises
    ------
    InputError
        If the system has a vector field instead, or no equations are known.

    Examples
    --------
    >>> system = vp.load_system('''
    ... state = ["q", "p"]
    ... [[map]]
    ... p = "p + sin(q)"
    ... [[map]]
    ... q = "q + p"
    ... ''')
    >>> vp.maps.ExactMap(system).map(np.array([[[0.0, 1.0]]]))
    array([[[1., 1.]]])
    """

    kind: ClassVar[str] = "exact"  # type: ignore[misc]
    name: ClassVar[str] = "exact"  # type: ignore[misc]
    system: System

    def __init__(self, system: System) -> None:
        if not system.is_discrete:
            raise InputError(
                f"{system.name} is no map that could be iterated; name a method and a step"
            )
        self.description = f"the map of {system.name}"
        self.structure = system.structure
        self.system = system
        self.dim = system.dim
        self._parameters = OpenParameters(system)

    def __call__(self, states: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Return images of a tensor (..., dim), differentiable in states and parameters.

        ``parameters`` are values by name as in :meth:`ClassicalMap.__call__`.
        """
        system, values = self._parameters.tensors(parameters, states)
        return system.map(states.reshape(-1, self.dim), values).reshape(states.shape)

    def map(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        system, states, values = self._parameters.arrays(parameters, windows)
        return system.map(states, values)[:, None]

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of the derivative: rounding, for a return map that of differences."""
        return self.machine_epsilon if self.system.flow is None else DIFFERENCES

    def derivative(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        """Return the derivative: exact for a formula, by differences for a return map."""
        system, states, values = self._parameters.arrays(parameters, windows)
        if system.flow is None:
            return system.map_jacobian(states, values)
        return differences(system.map, states, system.section_map.sizes)


def differences(
    function: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    sizes: np.ndarray | float = 0.0,
    distance: float = DISTANCE,
) -> np.ndarray:
    """Return derivatives (n, dim, dim) of a map of points (n, dim), by fourth-order differences.

    Parameters
    ----------
    function, points
        The map, and points (n, dim).
    sizes
        Sizes of the components in the domain of the map, (dim,).
    distance
        Distance of the neighbours, relative to each component at points and images, and to
        ``sizes``. The fourth power of the default and rounding over it are alike.
    """
    dim = points.shape[1]
    scales = component_scales(np.concatenate([points, function(points)]))
    distances = distance * np.maximum(np.maximum(scales, sizes), np.abs(points))
    result = np.empty((len(points), dim, dim))
    for k in range(dim):
        total = np.zeros(points.shape)
        for place, weight in ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12)):
            moved = points.copy()
            moved[:, k] += place * distances[:, k]
            total += weight * function(moved)
        result[:, :, k] = total / distances[:, k : k + 1]
    return result


Parameters = Mapping[str, Any]  # values of some parameters of a system by name
Values = Sequence[Any]  # of open parameters, one by one: all arrays, or all tensors


class OpenParameters:
    """A system whose parameters are arguments: left open where values are given.

    Parameters
    ----------
    system
        The system, whose own values hold for the parameters that are not given.
    """

    def __init__(self, system: System) -> None:
        self._systems: dict[tuple[str, ...], System] = {(): system}

    def arrays(
        self, parameters: Parameters | None, windows: Any
    ) -> tuple[System, np.ndarray, list[np.ndarray]]:
        """Return the system with parameters left open, states (n, dim), and the values.

        Parameters
        ----------
        parameters
            Numbers or arrays (n,) by name.
        windows
            Windows (n, 1, dim).

        Raises
        ------
        InputError
            If a parameter does not exist, a value has another shape, or there are no arrays.
        """
        if is_tensor(windows) and windows.requires_grad:
            raise InputError(
                "windows must be an array, not a Tensor with a gradient, which would be lost; call "
                "the map itself, map(states)"
            )
        (system, values) = self._open(parameters)
        states = real_array("windows", windows, None)
        columns = [_column(real_array("parameter", v, None), states.shape[:1]) for v in values]
        return system, states[:, 0], columns

    def tensors(self, parameters: Parameters | None, states: Tensor) -> tuple[System, list[Tensor]]:
        """Return the same with tensors for states (..., dim), after a check of these."""
        import torch

        (system, values) = self._open(parameters)
        dim = self._systems[()].dim
        if not is_tensor(states) or not states.is_floating_point() or states.shape[-1:] != (dim,):
            raise InputError(
                f"states must be a floating-point tensor of shape (..., {dim}), with the "
                f"components of {system.name} last"
            )
        tensors = [torch.as_tensor(v, dtype=states.dtype, device=states.device) for v in values]
        return system, [_column(tensor, states.shape[:-1]) for tensor in tensors]

    def _open(self, parameters: Parameters | None) -> tuple[System, list[Any]]:
        names = tuple(parameters or ())
        if names not in self._systems:
            self._systems[names] = self._systems[()].with_open(names)
        return self._systems[names], list((parameters or {}).values())


def _column(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a number as it is, and other values as those of all states one by one."""
    if value.ndim == 0:
        return value
    try:
        whole = value.expand(shape) if is_tensor(value) else np.broadcast_to(value, shape)
    except (ValueError, RuntimeError):
        raise InputError(
            f"a parameter of shape {tuple(value.shape)} does not broadcast to states of shape "
            f"({', '.join(map(str, shape))}, dim)"
        ) from None
    return whole.reshape(-1)
