"""Machine code of any map, and trajectories by a classical method."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from vpintegrator.arguments import is_number, of_kind, shown, whole_number
from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.method import CompiledMethod, Machine
from vpintegrator.compiled.step_source import obstacle
from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import (
    AdaptiveMethod,
    ClassicalMap,
    ClassicalMethod,
    Map,
    PeriodMap,
    find_method,
)
from vpintegrator.maps.base import check_initial
from vpintegrator.runtime.devices import wanted_on

Progress = Callable[[str, int, int], None]

_LARGEST_PART = 4096  # steps between two calls of progress


def integrate(
    system: System | str | os.PathLike[str],
    method: str | ClassicalMethod,
    initial: Any,
    step: float,
    steps: int,
    progress: Progress | None = None,
    compiled: bool = False,
) -> np.ndarray:
    """Integrate many trajectories of a system by a classical method.

    Parameters
    ----------
    system
        The system, its name in the catalogue, or its file.
    method
        A name in ``METHODS``, such as ``"implicit-midpoint"``, or a method.
    initial
        Initial states, shape (trajectory, dim).
    step
        Time step h, not zero; negative goes back in time.
    steps
        Number of steps.
    progress
        Called a hundred times or more with the method's name, steps done, and steps in all.
    compiled
        Whether the method runs as machine code: equal up to rounding and ten to fifty times
        faster. Compilation takes one to four seconds for each new form of equations. Methods with
        an :func:`~vpintegrator.compiled.obstacle` run in NumPy.

    Returns
    -------
    numpy.ndarray
        States of shape (trajectory, steps + 1, dim), the initial ones first. A trajectory that
        diverges, or whose implicit equations have no solution that Newton's method finds, is NaN
        from there on.

    Raises
    ------
    InputError
        If an argument is wrong, the method does not apply to the system, or it cannot be compiled.

    Examples
    --------
    >>> import vpintegrator as vp
    >>> vp.integrate("harmonic-oscillator", "stoermer-verlet", [[1.0, 0.0]], 0.1, 100).shape
    (1, 101, 2)
    """
    if not isinstance(system, System):
        system = load_system(system)
    if not isinstance(method, ClassicalMethod):
        method = find_method(method)
    initial = check_initial(system, initial)
    if not is_number(step) or step == 0:
        raise InputError(f"step = {shown(step)} must be a finite number other than zero")
    steps = whole_number("steps", steps)
    states = np.empty((len(initial), steps + 1, system.dim))
    states[:, 0] = initial
    map = machine_code(ClassicalMap(method, system, step), initial, compiled)
    part = max(min(steps // 100, _LARGEST_PART), 1)
    done = 0
    for chunk in map.advance(initial[:, None], steps, chunk=part):
        states[:, done + 1 : done + 1 + chunk.shape[1]] = chunk
        done += chunk.shape[1]
        if progress:
            progress(method.name, done, steps)
    return states


def machine_code(map: Map, states: Any, compiled: bool | None = None) -> Map:
    """Return a map as machine code, where that is wanted and possible; else the map itself.

    Machine code of a model is used only if it agrees with PyTorch, and that of a method if it
    agrees with NumPy, at some states.

    Parameters
    ----------
    map
        The map. There is machine code of models and of classical methods with a fixed step.
    states
        States (trajectory, dim) or windows (trajectory, window, dim) to start from.
    compiled
        False for the map itself. By default a warning says why what could be compiled is not.

    Raises
    ------
    InputError
        If ``compiled`` is true and machine code is impossible.

    Examples
    --------
    >>> machine = vp.compiled.machine_code(vp.classical("heun", "pendulum", 0.1), np.ones((1, 2)))
    >>> next(machine.advance(np.ones((4, 1, 2)), 10)).shape
    (4, 10, 2)
    """
    of_kind("map", map, Map, "a map, such as vp.classical gives")
    shape = np.shape(states)  # also of a tensor on a GPU
    if shape[-1:] != (map.dim,) or len(shape) not in (2, 3):
        raise InputError(
            f"states have shape {shape}, but {map.name} maps states (trajectory, {map.dim}) or "
            f"windows (trajectory, {map.window}, {map.dim})"
        )
    if compiled is False or isinstance(map, Machine):
        return map
    if isinstance(map, PeriodMap):
        result = copy(map)
        rows = np.reshape(states, (-1, map.dim))
        result.inner = machine_code(map.inner, map.embedded(rows), compiled)
        return result
    if isinstance(map, ClassicalMap):
        if compiled and not isinstance(map.method, AdaptiveMethod):
            map.system.require_formulas("machine code")
        if obstacle(map.method, map.system):
            return map
        name = map.method.name
        otherwise = "NumPy"
    elif map.kind == "learned":
        model: Any = map
        compiled = wanted_on(model.scale.device.type, compiled)
        if compiled is False:
            return map
        name = model.name
        otherwise = "PyTorch"
    else:
        return map
    try:
        return compile_map(map, states)
    except NotCompilable as reason:
        if compiled:
            raise InputError(f"{name} cannot be compiled: {reason}") from None
        warnings.warn(f"{name} runs in {otherwise}, not compiled: {reason}", stacklevel=2)
        return map


def compile_map(map: Map, states: Any, *, most: int | None = None, wait: bool = True) -> Map:
    """Return the machine code of a map.

    Parameters
    ----------
    map, states
        See :func:`machine_code`.
    most
        Operations of a step of a model, beyond which it is not compiled.
    wait
        Whether to wait for the compiler of a method; else :meth:`CompiledMethod.ready` does.

    Raises
    ------
    NotCompilable
        If there is none. The message is the reason.
    """
    if isinstance(map, Machine):
        return map
    if isinstance(map, ClassicalMap):
        rows = np.reshape(states, (-1, map.dim))
        return CompiledMethod(map.method, map.system, rows, map.step, map.substeps, wait=wait)
    if isinstance(map, PeriodMap):
        result = copy(map)
        rows = np.reshape(states, (-1, map.dim))
        result.inner = compile_map(map.inner, map.embedded(rows))
        return result
    if map.kind == "learned":
        from vpintegrator.compiled.model import CompiledModel

        model: Any = map
        windows = states if np.ndim(states) == 3 else None
        return CompiledModel(model, len(states), windows, most)
    raise NotCompilable(f"{map.name} is no model and no classical method")
