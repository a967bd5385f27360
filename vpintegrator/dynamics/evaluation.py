"""Vectorised functions of NumPy arrays or torch tensors, compiled from formulas.

A function takes the components of the state one by one, each an array of any shape. It returns its
values one by one. A constant entry comes back as a plain number. Subexpressions that occur several
times are computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # loads scipy.special when it is used

from vpintegrator.dynamics import bessel
from vpintegrator.dynamics.algebra import (
    Angle,
    Call,
    Expression,
    Power,
    Product,
    Sum,
    Symbol,
    Value,
    below,
)
from vpintegrator.dynamics.constants import Number, size
from vpintegrator.errors import InputError

ComponentFunction = Callable[..., list[Any]]
_HALF = Fraction(1, 2)
_TERMS = 40  # terms of a sum in one line: Python's own parser has limits
_LARGEST_MULTIPLIED = 16  # largest power written as products
_DEPTH = 20  # nested parentheses in one line
_LARGEST_WRITTEN = 30_000  # formulas; for more, Python's compiler takes too much time and memory


def _sigmoid(x: Any) -> Any:
    # expit is exact in the tails but knows no complex numbers (complex-step derivatives need them)
    return 0.5 * (1 + np.tanh(0.5 * x)) if np.iscomplexobj(x) else scipy.special.expit(x)


def _absolute(x: Any) -> Any:
    # continued into the complex, for complex-step derivatives
    return np.where(np.real(x) < 0, -x, x) if np.iscomplexobj(x) else np.abs(x)


def _angle(y: Any, x: Any) -> Any:
    if np.iscomplexobj(y) or np.iscomplexobj(x):  # as for the sigmoid; (log(x + iy) - ...)/(2i)
        a, b, c, d = np.real(x), np.imag(x), np.real(y), np.imag(y)
        angle = (np.arctan2(c + b, a - d) - np.arctan2(b - c, a + d)) / 2
        return angle - 0.25j * np.log1p(4 * (b * c - a * d) / ((a + d) ** 2 + (c - b) ** 2))
    return np.arctan2(y, x)


def _numpy_functions() -> dict[str, Any]:
    names = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh")
    return {
        **{name: getattr(np, name) for name in names},
        **bessel.numpy_functions(),
        "erf": lambda x: scipy.special.erf(bessel.in_doubles(x)),
        "sigmoid": _sigmoid,
        "abs": _absolute,
        "sign": lambda x: np.sign(np.real(x)),
        "atan2": _angle,
    }


def torch_functions() -> dict[str, Any]:
    """Return the torch function for each function name of the expression language."""
    import torch

    from vpintegrator.dynamics.bessel_tensors import tensor_functions

    def angle(y: Any, x: Any) -> torch.Tensor:
        like = y if isinstance(y, torch.Tensor) else x  # the other may be a constant
        return torch.atan2(*(torch.as_tensor(v, dtype=like.dtype).to(like) for v in (y, x)))

    names = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "sigmoid", "abs", "sign", "erf")
    named = {name: getattr(torch, name) for name in names}
    return {**named, **tensor_functions(), "atan2": angle}


def vectorised(
    expressions: Sequence[Value], symbols: Sequence[Symbol], library: str
) -> ComponentFunction:
    """Make a function of the state's components.

    Parameters
    ----------
    expressions
        Expressions to compute.
    symbols
        The state's symbols, in the order of the function's arguments.
    library
        ``"numpy"`` or ``"torch"``.
    """
    functions = _numpy_functions() if library == "numpy" else torch_functions()
    nodes = below(expressions)
    if len(nodes) > _LARGEST_WRITTEN:
        return evaluator(expressions, symbols, functions, float)
    names = {symbol: f"component_{i}" for i, symbol in enumerate(symbols)}
    lines, values = _Printer(expressions, nodes, names).print()
    # all names are our own, so that no name in a file can meet one of Python's
    source = [f"def function({', '.join(names.values())}):", *lines]
    source.append(f"    return [{', '.join(values)}]")
    space: dict[str, Any] = {"__builtins__": {}, **functions}
    exec(compile("\n".join(source), "<formulas of a system>", "exec"), space)
    return space["function"]


_SUM, _PRODUCT, _POWER, _ATOM = range(4)  # precedence of the outermost operator


class _Printer:
    """Writes formulas as lines of Python."""

    def __init__(
        self, expressions: Sequence[Value], nodes: Sequence[Expression], names: dict[Symbol, str]
    ) -> None:
        self.expressions = expressions
        self.nodes = nodes
        self.uses = Counter(e.number for e in expressions if isinstance(e, Expression))
        for node in nodes:
            self.uses.update(part.number for part in node.parts)
        # multiples and powers of the same that occur in several formulas
        self.repeated = Counter(
            (type(node), part.number, size(factor))
            for node in nodes
            for part, factor in _factors(node)
        )
        self.known: dict[tuple[type, int, Number], str] = {}
        self.lines: list[str] = []
        # text, how tightly it is bound, how deep its parentheses are
        self.texts: dict[Expression, tuple[str, int, int]] = {
            symbol: (name, _ATOM, 0) for symbol, name in names.items()
        }

    def print(self) -> tuple[list[str], list[str]]:
        """Return the lines, and what to return."""
        for node in self.nodes:
            if isinstance(node, Symbol):
                continue
            text, bound, depth = self.text(node)
            if self.uses[node.number] > 1 or depth > _DEPTH:
                name = f"value_{node.number}"
                self.lines.append(f"    {name} = {text}")
                text, bound, depth = name, _ATOM, 0
            self.texts[node] = text, bound, depth
        return self.lines, [self.within(value, _SUM)[0] for value in self.expressions]

    def within(self, value: Value, bound: int) -> tuple[str, int]:
        """Return a text that holds together at least so tightly, and its depth."""
        if not isinstance(value, Expression):
            return (number if (number := _number(value))[0] != "-" else f"({number})"), 0
        text, own, depth = self.texts[value]
        return (text, depth) if own >= bound else (f"({text})", depth + 1)

    def text(self, node: Expression) -> tuple[str, int, int]:
        match node:
            case Sum():
                return self.sum(node)
            case Product():
                return self.product(node)
            case Power(base=base, exponent=exponent):
                below_it, above = self.within(base, _ATOM), self.within(exponent, _ATOM)
                return f"{below_it[0]}**{above[0]}", _POWER, max(below_it[1], above[1])
            case Call(function=function, argument=argument):
                text, depth = self.within(argument, _SUM)
                return f"{function}({text})", _ATOM, depth + 1
            case Angle(ordinate=ordinate, abscissa=abscissa):
                (y, above_it), (x, beside) = (self.within(v, _SUM) for v in (ordinate, abscissa))
                return f"atan2({y}, {x})", _ATOM, max(above_it, beside) + 1
        raise NotImplementedError(type(node))

    def sum(self, node: Sum) -> tuple[str, int, int]:
        # positive terms come first, to save a change of sign
        terms = sorted(node.terms, key=lambda entry: entry[1] < 0)
        sign = -1 if terms[0][1] < 0 and node.constant <= 0 else 1
        common = size(terms[0][1])
        if node.constant or len(terms) == 1 or any(size(c) != common for _, c in terms):
            common = 1
        parts, depth = [], 0
        for term, coefficient in terms:
            text, inner = (
                self.within(term, _PRODUCT)
                if common != 1 or size(coefficient) == 1
                else self.multiple(term, size(coefficient))
            )
            depth = max(depth, inner)
            parts.append((" + " if coefficient * sign > 0 else " - ") + text)
        if node.constant:
            part = (" + " if node.constant * sign > 0 else " - ") + _number(size(node.constant))
            parts.insert(0 if terms[0][1] < 0 else len(parts), part)
        while len(parts) > _TERMS:
            name = f"sum_{node.number}_{len(parts)}"
            self.lines.append(f"    {name} = {_joined(parts[:_TERMS])}")
            parts = [f" + {name}", *parts[_TERMS:]]
        text = _joined(parts)
        if common != 1:
            text = f"{_number(common)}*({text})"
        elif sign < 0 and len(parts) > 1:
            text = f"({text})"
        if sign < 0:
            return f"-{text}", _SUM, depth + 1
        return text, _SUM if common == 1 and len(parts) > 1 else _PRODUCT, depth + 1

    def product(self, node: Product) -> tuple[str, int, int]:
        above: list[str] = []
        beneath: list[str] = []
        depth = 0
        for base, exponent in node.factors:
            text, inner = self.raised(base, size(exponent))
            (above if exponent > 0 else beneath).append(text)
            depth = max(depth, inner)
        if not beneath:
            bound = _PRODUCT if len(above) > 1 else _POWER
            return "*".join(above), bound, depth
        divisor = beneath[0] if len(beneath) == 1 else f"({'*'.join(beneath)})"
        return f"{'*'.join(above) or '1'}/{divisor}", _PRODUCT, depth + 1

    def multiple(self, term: Expression, factor: Number) -> tuple[str, int]:
        """Return a term times a positive number."""
        text, depth = self.within(term, _PRODUCT)
        return self.shared((Sum, term.number, factor), f"{_number(factor)}*{text}", depth)

    def raised(self, base: Expression, exponent: Number) -> tuple[str, int]:
        """Return a power with a positive exponent."""
        if exponent == 1:
            return self.within(base, _POWER)
        key = Product, base.number, exponent
        if key in self.known:
            return self.known[key], 0
        if exponent == _HALF:
            text, depth = self.within(base, _SUM)
            return self.shared(key, f"sqrt({text})", depth + 1)
        whole = int(exponent)
        if exponent > 2 and whole <= _LARGEST_MULTIPLIED and exponent - whole in (0, _HALF):
            # by squares, which take a tenth of the time of a power
            self.name(base)
            if exponent != whole:
                text = f"{self.raised(base, whole)[0]}*{self.raised(base, _HALF)[0]}"
            elif whole % 2:
                text = f"{self.raised(base, whole - 1)[0]}*{self.within(base, _ATOM)[0]}"
            else:
                text = f"({self.raised(base, whole // 2)[0]})**2"
            return self.variable(key, text), 0
        if exponent == 1 + _HALF:
            self.name(base)
            text = f"{self.within(base, _ATOM)[0]}*{self.raised(base, _HALF)[0]}"
            return self.variable(key, text), 0
        text, depth = self.within(base, _ATOM)
        return self.shared(key, f"{text}**{_number(exponent)}", depth)

    def name(self, node: Expression) -> None:
        """Give a variable to a formula that is written more than once."""
        text, _, _ = self.texts[node]
        if not text.isidentifier():
            self.lines.append(f"    value_{node.number} = {text}")
            self.texts[node] = f"value_{node.number}", _ATOM, 0

    def shared(self, key: tuple[type, int, Number], text: str, depth: int) -> tuple[str, int]:
        """Return the text of a multiple or power, or a variable where it occurs several times."""
        if key in self.known:
            return self.known[key], 0
        if self.repeated[key] < 2:
            return text, depth
        return self.variable(key, text), 0

    def variable(self, key: tuple[type, int, Number], text: str) -> str:
        name = self.known[key] = f"part_{len(self.known)}"
        self.lines.append(f"    {name} = {text}")
        return name


def _factors(node: Expression) -> Sequence[tuple[Expression, Number]]:
    if isinstance(node, Sum):
        whole = node.constant == 0 and len({size(c) for _, c in node.terms}) == 1
        return () if whole and len(node.terms) > 1 else node.terms
    return node.factors if isinstance(node, Product) else ()


def _joined(parts: Sequence[str]) -> str:
    """Return terms with their signs as one text."""
    return "".join(parts).removeprefix(" + ")


def _number(value: Number) -> str:
    """Return a number as Python writes it: small whole ones as they are, the rest as doubles."""
    return str(value) if isinstance(value, int) and abs(value) < 2**53 else repr(float(value))


def evaluator(
    expressions: Sequence[Value],
    symbols: Sequence[Symbol],
    functions: dict[str, Any],
    number: Callable[[Number], Any],
    check: Callable[[Any], None] | None = None,
) -> ComponentFunction:
    """Return a function that goes through the formulas one by one; slower, but there at once.

    Parameters
    ----------
    expressions, symbols
        Arguments of :func:`vectorised`.
    functions
        Implementation of each function, by name.
    number
        Makes a number of that arithmetic of a constant.
    check
        Called with every value of a function, power or product; may raise.
    """
    nodes = [node for node in below(expressions) if not isinstance(node, Symbol)]

    def simple(value: Number) -> Any:
        return value if isinstance(value, int) and abs(value) < 2**53 else number(value)

    sums = {
        node: (simple(node.constant), [(term, simple(c)) for term, c in node.terms])
        for node in nodes
        if isinstance(node, Sum)
    }
    powers = {
        node: [(base, simple(e), e == _HALF) for base, e in node.factors]
        for node in nodes
        if isinstance(node, Product)
    }
    sqrt = functions["sqrt"]

    def function(*components: Any) -> list[Any]:
        values: dict[Expression, Any] = dict(zip(symbols, components, strict=True))

        def of(value: Value) -> Any:
            return values[value] if isinstance(value, Expression) else number(value)

        for node in nodes:
            match node:
                case Sum():
                    total, terms = sums[node]
                    for term, coefficient in terms:
                        if coefficient == 1:
                            total = total + values[term]
                        elif coefficient == -1:
                            total = total - values[term]
                        else:
                            total = total + coefficient * values[term]
                    values[node] = total
                    continue
                case Product():
                    result: Any = 1
                    for base, exponent, is_root in powers[node]:
                        value = values[base]
                        if exponent == 1:
                            result = result * value
                        elif exponent == -1:
                            result = result / value
                        else:
                            result = result * (sqrt(value) if is_root else value**exponent)
                case Power(base=base, exponent=variable):
                    result = of(base) ** of(variable)
                case Call(function=name, argument=argument):
                    result = functions[name](of(argument))
                case Angle(ordinate=ordinate, abscissa=abscissa):
                    result = functions["atan2"](of(ordinate), of(abscissa))
            if check is not None:
                check(result)
            values[node] = result
        return [of(value) for value in expressions]

    return function


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
