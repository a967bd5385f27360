"""The text of a system file for a function: its state, its claims, where trajectories begin."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.expressions import check_name
from vpintegrator.dynamics.functions.traced_text import number_text
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION
from vpintegrator.errors import InputError, printable

TIME = "t"
_PERIOD = "2*pi"
_MOST_POINTS = 4096
_LONGEST_DESCRIPTION = 2000


def component_names(dim: int | None, components: Any, hamiltonian: bool) -> list[str]:
    """Names of components: those given, or ``q, p``, ``q1, ..., p1, ...``, or ``y1, y2, ...``.

    Raises
    ------
    InputError
        If there are none, or their number is not ``dim``.
    """
    if components is not None:
        if isinstance(components, str):
            components = [name.strip() for name in components.split(",")]
        if not isinstance(components, list | tuple) or not components:
            shown = printable(repr(components), 80)
            raise InputError(f"components are a list of names, not {shown}")
        names = [str(name) for name in components]
        if dim is not None and len(names) != dim:
            raise InputError(f"dim = {dim}, but there are {len(names)} names of components")
        for name in names:
            check_name(name, "components")
        if len(set(names)) < len(names):
            raise InputError(f"components: a name is there twice: {', '.join(names)}")
        return names
    if dim is None:
        raise InputError("say how many components a state has: dim=2, or components=['q', 'p']")
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
        raise InputError(f"dim = {dim!r} must be a whole number")
    if not 1 <= dim <= MAXIMUM_DIMENSION:
        raise InputError(f"dim = {dim} must be 1 to {MAXIMUM_DIMENSION}")
    half, odd = divmod(int(dim), 2)
    if hamiltonian and not odd:
        return ["q", "p"] if half == 1 else [f"{x}{i + 1}" for x in "qp" for i in range(half)]
    return [f"y{i + 1}" for i in range(dim)]


def parameter_values(parameters: Any, components: Sequence[str]) -> dict[str, Any]:
    """Return values of parameters as numbers and lists of numbers of Python.

    Raises
    ------
    InputError
        If a value is none, or a name is taken.
    """
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        shown = printable(repr(parameters), 80)
        raise InputError(f"parameters are a dictionary, as in {{'k': 1.0}}, not {shown}")
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        check_name(str(name), "parameters")
        if name in components:
            raise InputError(f"parameters: '{name}' is a component of the state")
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or array.ndim > 1 or not np.isfinite(array).all():
            raise InputError(f"parameters: {name} = {value!r} must be a number, or a list of them")
        found[name] = array.tolist()
    return found


def changed_parameters(
    parameters: Any, components: Sequence[str], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of a function, with other values of some.

    Raises
    ------
    InputError
        If the function has no such parameter, or as for ``parameter_values``.
    """
    own = parameter_values(parameters, components)
    for name in changes:
        if name not in own:
            known = ", ".join(own) or "none"
            raise InputError(f"the function has no parameter '{name}' (it has: {known})")
    return {**own, **changes}


def initial_table(sample: Any, components: Sequence[str]) -> dict[str, Any]:
    """Return the table ``[initial_conditions]`` that ``sample`` means.

    Raises
    ------
    InputError
        If it is neither a table, nor a box (low, high), nor an array of states.
    """
    dim = len(components)
    if sample is None:
        return {"distribution": "uniform", "low": -1, "high": 1}
    if isinstance(sample, Mapping):
        return {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in sample.items()}
    try:
        if isinstance(sample, tuple) and len(sample) == 2:
            low, high = (np.broadcast_to(np.asarray(s, np.float64), dim) for s in sample)
            if not (np.isfinite([low, high]).all() and (low <= high).all()):
                raise ValueError
            return {"distribution": "uniform", "low": low.tolist(), "high": high.tolist()}
        points = np.asarray(sample, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != dim or not np.isfinite(points).all():
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            "sample must be a tuple (low, high) of the corners of a box, an array of states "
            f"(state, {dim}), or a dictionary as the table [initial_conditions] of a system file"
        ) from None
    if len(points) > _MOST_POINTS:
        raise InputError(f"sample holds {len(points)} states, more than {_MOST_POINTS}")
    return {"distribution": "points", "points": points.tolist()}


def symmetry_tables(symmetries: Any, components: Sequence[str]) -> list[dict[str, str]]:
    """Return reversing symmetries as tables of expressions.

    Raises
    ------
    InputError
        If one is no matrix of the size of a state.
    """
    dim, tables = len(components), []
    if not isinstance(symmetries, list | tuple | np.ndarray | None):
        raise InputError(f"reversing_symmetries are a list of matrices, not {symmetries!r}")
    for given in symmetries if symmetries is not None else ():
        try:
            matrix = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        matrix = np.diag(matrix) if matrix.shape == (dim,) else matrix
        if matrix.shape != (dim, dim) or not np.isfinite(matrix).all():
            raise InputError(
                f"reversing_symmetries are matrices ({dim}, {dim}) or the {dim} signs on their "
                f"diagonals, not {printable(repr(given), 80)}"
            )
        rows = {}
        for i, row in enumerate(matrix):
            terms = [
                {1.0: name, -1.0: f"-{name}"}.get(c, f"({number_text(c)})*{name}")
                for name, c in zip(components, row, strict=True)
                if c
            ]
            if not np.array_equal(row, np.eye(dim)[i]):
                rows[components[i]] = " + ".join(terms) or "0"
        tables.append(rows)
    return tables


def period_table(periodic: Any, components: Sequence[str]) -> dict[str, str]:
    """Return periods of angles as expressions, by the name of the component.

    Raises
    ------
    InputError
        If it names none of the state.
    """
    if periodic is None:
        return {}
    if isinstance(periodic, str):
        periodic = [periodic]
    if isinstance(periodic, list | tuple) and all(isinstance(name, str) for name in periodic):
        periodic = dict.fromkeys(periodic, _PERIOD)
    if not isinstance(periodic, Mapping):
        shown = printable(repr(periodic), 80)
        raise InputError(f"periodic are periods by names of components, or names, not {shown}")
    for name in periodic:
        if name not in components:
            raise InputError(f"periodic: there is no component '{name}' ({', '.join(components)})")
    return {name: period_text(value) for name, value in periodic.items()}


def period_text(value: Any) -> str:
    """Return a period as an expression."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise InputError(f"a period is a number or an expression, not {printable(repr(value), 80)}")
    return number_text(float(value))


def heading(function: Callable[..., Any], name: str | None) -> tuple[str, dict[str, str]]:
    """Return the short name of a function's system, and its title and description."""
    own = getattr(function, "__name__", type(function).__name__)
    name = str(name) if name is not None else own.replace("_", "-").strip("-<>")
    words = {"title": printable(name)}
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    if text and text.isascii():
        words["description"] = printable(text, _LONGEST_DESCRIPTION)
    return name, words


def claimed(claims: Claims, components: Sequence[str]) -> dict[str, Any]:
    """Return the keys of a system file for what is claimed, but for formulas."""
    found: dict[str, Any] = {}
    if not isinstance(claims.divergence_free, bool | None):
        raise InputError(f"divergence_free is True, False or None, not {claims.divergence_free!r}")
    if claims.divergence_free is not None:
        found["divergence_free"] = bool(claims.divergence_free)
    if tables := symmetry_tables(claims.reversing_symmetries, components):
        found["reversing_symmetry"] = tables
    return found
