"""Functions of a state given as formulas, ``exp(z[0] - z[1])``, which are parsed, not executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from vpintegrator.dynamics.expressions import (
    Algebra,
    ComponentFunction,
    Expression,
    NotFinite,
    Scope,
    Symbol,
    TooLong,
    Value,
    arithmetic,
    evaluator,
    parse,
)
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import SignedPermutations
from vpintegrator.nn.symmetry import TOLERANCE

MOST_FORMULAS = 64
_POINTS = 64
_COMPARED = 16  # points at which formulas are compared, of which some must have values
_FEWEST = 3


def as_expressions(texts: Any, name: str = "expressions", most: int = MOST_FORMULAS) -> list[str]:
    """Return formulas as a list of texts, or raise InputError; ``name`` is for messages."""
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{name} must be a list of texts, not {texts!r}")
    if len(texts) > most:
        raise InputError(f"{name}: {len(texts)} expressions are more than the {most} allowed")
    return list(texts)


def with_values(text: str, values: Mapping[int, float]) -> str:
    """Return a formula with values in place of some of the components, by their numbers."""

    def written(found: re.Match[str]) -> str:
        number = int(found[1])
        return f"({values[number]!r})" if number in values else found[0]

    return re.sub(r"\bz\[\s*([0-9]+)\s*\]", written, text)


class Formulas:
    """Functions of the components ``z[0]``, ``z[1]``, ... of states.

    Called with states (..., dim), or with the ``components`` of them, it gives a list of values
    (...).

    Parameters
    ----------
    texts : sequence of str
        Texts in the expression language of system files, see ``vpintegrator.dynamics.expressions``.
    dim : int
    components : sequence of int, optional
        The numbers of those that it is called with; by default all.
    name : str
        Name for messages.

    Attributes
    ----------
    depends : list of set of int
        The components that occur in each.

    Raises
    ------
    InputError
        If a text is not understood, constant, or of other components.
    """

    def __init__(
        self,
        texts: Sequence[str],
        dim: int,
        components: Sequence[int] | None = None,
        name: str = "expressions",
    ) -> None:
        self.texts = as_expressions(texts, name, max(dim, MOST_FORMULAS))
        self.dim, self.name = dim, name
        self.components = list(range(dim) if components is None else components)
        algebra = Algebra()
        symbols = tuple(algebra.symbol(f"z_{i}") for i in range(dim))
        scope = Scope({"z": symbols}, {}, algebra)
        values = []
        for n, text in enumerate(self.texts):
            value = parse(text, scope, f"{name}[{n}]")
            if not isinstance(value, Expression):
                raise InputError(f"{name}[{n}] must be a function of z[0] ... z[{dim - 1}]")
            values.append(value)
        place: dict[Symbol, int] = {symbol: i for i, symbol in enumerate(symbols)}
        self.depends = [{place[symbol] for symbol in algebra.symbols(v)} for v in values]
        for n, depends in enumerate(self.depends):
            if not depends.issubset(self.components):
                raise InputError(
                    f"{name}[{n}] depends on others than the components {self.components}"
                )
        given = [symbols[i] for i in self.components]
        self._function = evaluator(values, given, arithmetic("torch"))
        self._slopes = _slopes(values, given, algebra)
        self._parsed = values, given, algebra

    def __len__(self) -> int:
        return len(self.texts)

    def __call__(self, z: torch.Tensor) -> list[torch.Tensor]:
        return self._function(*z.unbind(-1))

    def with_slopes(
        self, z: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[dict[int, torch.Tensor | float]]]:
        """Return values, and the derivatives of each formula by its components."""
        function, places = self._slopes
        found = function(*z.unbind(-1))
        slopes: list[dict[int, torch.Tensor | float]] = [{} for _ in self.texts]
        for (n, j), slope in zip(places, found[len(self) :], strict=True):
            slopes[n][j] = slope
        return found[: len(self)], slopes

    @cached_property
    def _curvatures(self) -> tuple[ComponentFunction, list[tuple[int, int, int]]]:
        values, given, algebra = self._parsed
        return _second_slopes(values, given, algebra)

    def curvatures(self, z: torch.Tensor) -> list[dict[tuple[int, int], torch.Tensor | float]]:
        """Return the second derivatives of each formula by components i <= j that occur in it."""
        function, places = self._curvatures
        found: list[dict[tuple[int, int], torch.Tensor | float]] = [{} for _ in self.texts]
        for (n, i, j), value in zip(places, function(*z.unbind(-1)), strict=True):
            found[n][i, j] = value
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Formulas, (self.texts, self.dim, self.components, self.name)

    def typical(self, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Values (point, formula) at points of this mean and spread; NaN where there are none."""
        generator = torch.Generator().manual_seed(0)
        size = (_POINTS, len(self.components))
        points = torch.randn(size, generator=generator, dtype=torch.float64)
        values = torch.stack(self(shift.double().cpu() + scale.double().cpu() * points), -1)
        return values.masked_fill(~values.isfinite(), torch.nan)

    def units(
        self, shift: torch.Tensor, scale: torch.Tensor, moves: SignedPermutations
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Median and spread (formula) at such points, respected by ``moves`` of the formulas."""
        places, signs = moves
        values = self.typical(shift, scale)
        middle = values.nanmedian(0).values.nan_to_num()
        spread = 1.5 * (values - middle).abs().nanmedian(0).values
        size = torch.where(spread > 0, spread, torch.ones(()))
        return (signs * middle[places]).mean(0), size.log()[places].mean(0).exp()

    def moves(self, group: torch.Tensor) -> tuple[SignedPermutations, list[int]]:
        """Return the action of symmetries S (element, dim, dim): f_p(S z) = sign f_n(z).

        Returns
        -------
        moves
            The p and the sign for each n; meaningless for formulas that are not closed.
        closed
            Numbers of the formulas that every element maps to a formula, up to the sign.

        Raises
        ------
        InputError
            If two of the formulas are the same function, but for the sign.
        """
        generator = torch.Generator().manual_seed(1)
        size = (_COMPARED, len(self.components))
        points = torch.randn(size, generator=generator, dtype=torch.float64)
        own = torch.stack(self(points), -1).unsqueeze(1)
        images = torch.stack(self(points @ group.mT), -1).unsqueeze(3)
        room = TOLERANCE * (1 + own.abs())
        equal = []
        for sign in (1, -1):  # (element, point, p, n)
            defects = (images - sign * own).abs()
            known = defects.isfinite()
            equal.append(((defects <= room) | ~known).all(1) & (known.sum(1) >= _FEWEST))
        either = equal[0] | equal[1]
        if either[0].sum() > len(self):
            raise InputError("two of the expressions are the same function, but for the sign")
        signs = torch.where(equal[0].any(1), 1.0, -1.0).double()
        closed = either.any(1).all(0).nonzero().squeeze(1).tolist()
        return (either.long().argmax(1), signs), closed


def _slopes(
    values: Sequence[Expression], symbols: Sequence[Symbol], algebra: Algebra
) -> tuple[ComponentFunction, list[tuple[int, int]]]:
    """Return formulas and derivatives as a function, and the variables of each result."""
    algebra.allow_derivatives()
    slopes: list[Value] = []
    places = []
    for n, value in enumerate(values):
        try:
            gradient = algebra.gradient(value)
        except (TooLong, NotFinite, ZeroDivisionError) as error:
            raise InputError(f"expressions[{n}] cannot be differentiated: {error}") from None
        known = [j for j, symbol in enumerate(symbols) if symbol in gradient]
        slopes += [gradient[symbols[j]] for j in known]
        places += [(n, j) for j in known]
    return evaluator([*values, *slopes], symbols, arithmetic("torch")), places


def _second_slopes(
    values: Sequence[Expression], symbols: Sequence[Symbol], algebra: Algebra
) -> tuple[ComponentFunction, list[tuple[int, int, int]]]:
    """Second derivatives of formulas as a function, and the formula and components of each."""
    algebra.allow_derivatives()
    number = {symbol: j for j, symbol in enumerate(symbols)}
    found: list[Value] = []
    places = []
    for n, value in enumerate(values):
        try:
            for first, slope in algebra.gradient(value).items():
                if not isinstance(slope, Expression):
                    continue
                for second, curvature in algebra.gradient(slope).items():
                    if number[first] <= number[second]:
                        found.append(curvature)
                        places.append((n, number[first], number[second]))
        except (TooLong, NotFinite, ZeroDivisionError) as error:
            raise InputError(f"expressions[{n}] cannot be differentiated twice: {error}") from None
    return evaluator(found, symbols, arithmetic("torch")), places
