"""Copies of Python functions in which modules of mathematics know symbolic arguments.

``np.zeros(2)`` makes an array of doubles, into which no symbolic number can be written, and
``math.sin`` takes nothing but numbers. A copy of the function, and of the functions that it calls
by name, finds modules in their place that do the same with symbolic arguments too. The function
itself, and NumPy, stay as they are.
"""

from __future__ import annotations

import builtins
import cmath
import functools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vpintegrator.dynamics.functions.tracing import (
    NotTraceable,
    Recorded,
    TracedArray,
    as_traced_array,
    elementwise,
    filled,
)


def _holds_traced(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_traced, value))
    return isinstance(value, Recorded | TracedArray)


def _array(values: Any, *_: Any, **options: Any) -> Any:
    if not _holds_traced(values):
        return np.array(values, *_, **options)
    return as_traced_array(values).copy()


def _asarray(values: Any, *_: Any, **options: Any) -> Any:
    return as_traced_array(values) if _holds_traced(values) else np.asarray(values, *_, **options)


def _fill(value: float) -> Callable[..., Any]:
    return lambda shape, *_, **__: filled(shape, value)


def _fill_like(value: float) -> Callable[..., Any]:
    return lambda array, *_, **__: filled(np.shape(array), value)


_NUMPY: dict[str, Callable[..., Any]] = {
    "array": _array,
    "asarray": _asarray,
    "ascontiguousarray": _asarray,
    "asanyarray": _asarray,
    "zeros": _fill(0.0),
    "empty": _fill(0.0),
    "ones": _fill(1.0),
    "zeros_like": _fill_like(0.0),
    "empty_like": _fill_like(0.0),
    "ones_like": _fill_like(1.0),
    "float64": lambda value=0.0: value if _holds_traced(value) else np.float64(value),
}
_BUILTINS = ("float", "min", "max")


def _of_math(name: str) -> Callable[..., Any]:
    function = getattr(math, name)

    @functools.wraps(function)
    def either(*args: Any) -> Any:
        if not any(map(_holds_traced, args)):
            return function(*args)
        return elementwise(name, *args)

    return either


def _extreme(name: str) -> Callable[..., Any]:
    function = getattr(builtins, name)

    def either(*args: Any, **options: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if options or not _holds_traced(values) or any(map(np.ndim, values)):
            return function(values, **options)
        return functools.reduce(lambda a, b: elementwise(f"{name}imum", a, b), values)

    return either


class _FloatType(type):
    """The type of :class:`_Float`, which leaves symbolic numbers as they are."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, float)

    def __call__(cls, value: Any = 0.0) -> Any:
        return value if _holds_traced(value) else float(value)


class _Float(metaclass=_FloatType):
    """Takes the place of ``float``."""


class _Module(types.ModuleType):
    """A module with some functions replaced."""

    def __init__(self, module: types.ModuleType, replaced: dict[str, Callable[..., Any]]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(replaced)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)


def _replacements() -> dict[int, Any]:
    """Return the replacements of modules and functions, by their identity."""
    of_math = {
        name: _of_math(name)
        for name, value in vars(math).items()
        if callable(value) and not name.startswith("_")
    }
    found: dict[int, Any] = {
        id(np): _Module(np, _NUMPY),
        id(math): _Module(math, of_math),
        id(float): _Float,
        id(min): _extreme("min"),
        id(max): _extreme("max"),
    }
    found |= {id(getattr(np, name)): made for name, made in _NUMPY.items()}
    return found | {id(getattr(math, name)): made for name, made in of_math.items()}


def rebound(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function that can be called with symbolic arguments.

    Functions that Python did not compile are given back as they are.
    """
    return _Copies().of(function)


class _Copies:
    def __init__(self) -> None:
        self._replaced = _replacements()
        self._copied: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """Return the replacement of an object that a function names."""
        if id(value) in self._replaced:
            return self._replaced[id(value)]
        if value is cmath:
            raise NotTraceable("complex numbers")
        if isinstance(value, types.FunctionType):
            return self._function(value) if _is_own(value) else value
        if isinstance(value, types.MethodType):
            return types.MethodType(self.of(value.__func__), self._instance(value.__self__))
        if isinstance(value, functools.partial):
            return functools.partial(self.of(value.func), *value.args, **value.keywords)
        if callable(value) and not isinstance(value, type):
            return self._instance(value)
        return value

    def _instance(self, value: Any) -> Any:
        """Return an object of the same attributes, with copies of the methods of its class."""
        kind = type(value)
        methods = {
            name: member
            for base in reversed(kind.__mro__)
            for name, member in vars(base).items()
            if isinstance(member, types.FunctionType) and _is_own(member)
        }
        if not methods or not hasattr(value, "__dict__") or isinstance(value, type):
            return value
        try:
            copied = {name: self._function(method) for name, method in methods.items()}
            made: Any = object.__new__(type(kind.__name__, (kind,), copied))
            made.__dict__.update(vars(value))
        except TypeError:  # a class that cannot be derived from
            return value
        return made

    def _function(self, function: types.FunctionType) -> Callable[..., Any]:
        if id(function) in self._copied:
            return self._copied[id(function)]
        space = dict(function.__globals__)
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(
            function.__code__, space, function.__name__, function.__defaults__, cells or None
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        self._copied[id(function)] = copy
        for name in _names(function.__code__):
            if name in space:
                space[name] = self.of(space[name])
            elif name in _BUILTINS:
                space[name] = self._replaced[id(getattr(builtins, name))]
        for new, old in zip(cells, function.__closure__ or (), strict=True):
            try:
                new.cell_contents = self.of(old.cell_contents)
            except ValueError:  # not assigned yet
                continue
        return copy


def _is_own(function: types.FunctionType) -> bool:
    """Whether a function is of the user: libraries, and compiled functions, are left alone."""
    package = (function.__module__ or "").partition(".")[0]
    return package not in ("numpy", "torch", "scipy", "jax", "numba", "functools", "vpintegrator")


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield names that code, and the functions defined in it, look up in their module."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
