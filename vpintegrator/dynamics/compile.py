"""From SymPy expressions to vectorised functions of NumPy arrays or torch tensors.

A function takes the components of the state one by one, each an array of any shape, and returns
its values one by one; an entry that is constant comes back as a plain number. Common
subexpressions are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy  # loads scipy.special when it is used
import sympy

from vpintegrator.dynamics.expression import constant_value
from vpintegrator.errors import InputError

ComponentFunction = Callable[..., list[Any]]
_DIGITS = 60
_SIMPLE = (1, 2, 3, 4, 6)  # sines of pi over these are numbers with at most one root


def _sigmoid(x: Any) -> Any:
    # expit is exact in the tails but knows no complex numbers (complex-step derivatives need them)
    return 0.5 * (1 + np.tanh(0.5 * x)) if np.iscomplexobj(x) else scipy.special.expit(x)


def _numpy_functions() -> dict[str, Any]:
    names = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh")
    # files cannot name these, but antiderivatives of what they can name are made of them
    further = {"sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "atan": np.arctan}
    return {
        **{name: getattr(np, name) for name in names},
        **further,
        "erf": lambda x: scipy.special.erf(x),
        "sigmoid": _sigmoid,
    }


def _torch_functions() -> dict[str, Any]:
    import torch

    names = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "sigmoid")
    return {name: getattr(torch, name) for name in names}


def compile_expressions(
    expressions: Sequence[sympy.Expr],
    symbols: Sequence[sympy.Symbol],
    values: Mapping[sympy.Symbol, sympy.Expr],
    library: str,
) -> ComponentFunction:
    """Make a function of the state's components.

    Parameters
    ----------
    expressions
        What it computes.
    symbols
        The state's symbols, in the order of the function's arguments.
    values
        The parameters' values, put in as numbers.
    library
        ``"numpy"`` or ``"torch"``.
    """
    functions = _numpy_functions() if library == "numpy" else _torch_functions()
    # generated code gets names of our own, so that no name in a file can meet one of Python's
    arguments = [sympy.Symbol(f"component_{i}", real=True) for i in range(len(symbols))]
    names = dict(zip(symbols, arguments, strict=True))
    numeric = [_fold(put_in(e, values).xreplace(names)) for e in expressions]
    return sympy.lambdify(arguments, numeric, modules=[functions], cse=True)


def put_in(expression: sympy.Expr, values: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """Put in the parameters' values.

    Sines, exponentials and other functions of constants become numbers of 60 digits. Exactly,
    SymPy would write cos(pi/32) as nested roots, and take seconds over a sum of them.
    """
    if not expression.args or expression.is_Rational:
        return values.get(expression, expression)
    if isinstance(expression, sympy.Function) and expression.free_symbols <= values.keys():
        argument = put_in(expression.args[0], values)
        multiple = argument / sympy.pi
        if argument.is_Rational or (multiple.is_Rational and multiple.q in _SIMPLE):
            return expression.func(argument)
        return expression.func(argument, evaluate=False).evalf(_DIGITS)
    return expression.func(*(put_in(part, values) for part in expression.args))


def _fold(expression: sympy.Expr) -> sympy.Expr:
    """Replace constants such as pi or sqrt(2) by floating-point numbers."""
    if expression.is_number:
        # a fraction stays one unless it is too long for the quotient of two floats
        if expression.is_Rational and (
            max(int(expression.p).bit_length(), int(expression.q).bit_length()) < 1000
        ):
            return expression
        value = constant_value(expression)
        if not math.isfinite(value):
            raise InputError(f"the constant {expression} is not a finite real number")
        return sympy.Float(value, 17)
    if not expression.args:
        return expression
    return expression.func(*(_fold(argument) for argument in expression.args))


def is_tensor(state: object) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    return type(state).__module__.partition(".")[0] == "torch" or hasattr(
        type(state), "__torch_function__"
    )


def as_array(state: Any) -> np.ndarray:
    """A floating-point (or complex) array of the state."""
    array = np.asarray(state)
    return array if np.issubdtype(array.dtype, np.inexact) else array.astype(np.float64)


def stack_numpy(values: Sequence[Any], like: np.ndarray) -> np.ndarray:
    """Put components of shape (...) together into (..., component)."""
    result = np.empty((*like.shape, len(values)), dtype=like.dtype)
    for i, value in enumerate(values):
        result[..., i] = value
    return result


def stack_torch(values: Sequence[Any], like: Any) -> Any:
    """The same for tensors; plain numbers become tensors like ``like``."""
    import torch

    return torch.stack(
        [v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in values], dim=-1
    )


def high_precision(
    expressions: Sequence[sympy.Expr],
    symbols: Sequence[sympy.Symbol],
    values: Mapping[sympy.Symbol, sympy.Expr],
) -> ComponentFunction:
    """The same function for mpmath numbers, at whatever precision mpmath works."""
    import mpmath

    names = [sympy.Symbol(f"component_{i}", real=True) for i in range(len(symbols))]
    renamed = dict(zip(symbols, names, strict=True))
    numeric = [put_in(e, values).xreplace(renamed) for e in expressions]

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + mpmath.exp(-x))

    return sympy.lambdify(names, numeric, modules=[{"sigmoid": sigmoid}, "mpmath"], cse=True)
