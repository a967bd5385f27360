"""Functions of a state given as formulas, ``exp(z[0] - z[1])``, which are parsed, not executed.

Layers take normalised states; formulas are of states in their own units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from vpintegrator.dynamics.expressions.algebra import Algebra, TooLong
from vpintegrator.dynamics.expressions.evaluation import ComponentFunction, arithmetic, evaluator
from vpintegrator.dynamics.expressions.nodes import Expression, NotFinite, Value
from vpintegrator.dynamics.expressions.parsing import Scope, parse
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import SignedPermutations, restricted
from vpintegrator.nn.layer import Device, Dtype, Layer
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

    def written(result: re.Match[str]) -> str:
        number = int(result[1])
        return f"({values[number]!r})" if number in values else result[0]

    return re.sub(r"\bz\[\s*([0-9]+)\s*\]", written, text)


class StateExpressions:
    """Texts in the components ``z[0]``, ``z[1]``, ... of a state, parsed to be differentiated.

    Parameters
    ----------
    texts : mapping of str to str
        Names for messages, and texts in the expression language of system files.
    dim : int

    Raises
    ------
    InputError
        If a text is not understood.
    """

    def __init__(self, texts: Mapping[str, str], dim: int) -> None:
        self.algebra = Algebra()
        self.symbols = [self.algebra.symbol(f"z_{i}") for i in range(dim)]
        self.places = {symbol: i for i, symbol in enumerate(self.symbols)}
        scope = Scope({"z": tuple(self.symbols)}, {}, self.algebra)
        self.values = [parse(text, scope, name) for name, text in texts.items()]
        self.algebra.allow_derivatives()

    def depends(self, value: Value) -> set[int]:
        """Return the numbers of the components that occur in a formula."""
        return {self.places[symbol] for symbol in self.algebra.symbols(value)}

    def gradient(self, value: Value) -> dict[int, Value]:
        """Return derivatives by the components that occur in a formula."""
        return {self.places[s]: slope for s, slope in self.algebra.gradient(value).items()}

    def function(
        self, values: Sequence[Value], components: Sequence[int] | None = None
    ) -> ComponentFunction:
        """Return formulas as a function of tensors, all components or some."""
        given = range(len(self.symbols)) if components is None else components
        return evaluator(values, [self.symbols[i] for i in given], arithmetic("torch"))


@contextmanager
def deriving(failure: str, advice: str = "") -> Iterator[None]:
    """Report formulas that grow too long, or are not finite, as InputError."""
    try:
        yield
    except (TooLong, NotFinite, ZeroDivisionError) as error:
        raise InputError(f"{failure}: {error}{advice}") from None


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
    action : pair of Tensor (element, formula), optional
        Image and sign of each formula under a symmetry group, see ``respected``.

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
        action: SignedPermutations | None = None,
    ) -> None:
        self.texts = as_expressions(texts, name, max(dim, MOST_FORMULAS))
        self.dim = dim
        self.name = name
        self.components = list(range(dim) if components is None else components)
        if action is None:
            count = len(self.texts)
            action = torch.arange(count).unsqueeze(0), torch.ones(1, count, dtype=torch.float64)
        self.action = action
        self._parsed = StateExpressions({f"{name}[{n}]": t for n, t in enumerate(self.texts)}, dim)
        values = self._parsed.values
        self.depends = [self._parsed.depends(value) for value in values]
        for n, (value, depends) in enumerate(zip(values, self.depends, strict=True)):
            if not isinstance(value, Expression):
                raise InputError(f"{name}[{n}] must be a function of z[0] ... z[{dim - 1}]")
            if not depends.issubset(self.components):
                raise InputError(
                    f"{name}[{n}] depends on others than the components {self.components}"
                )
        self._function = self._parsed.function(values, self.components)
        slopes: list[Value] = []
        self._slope_places: list[tuple[int, int]] = []
        for n, value in enumerate(values):
            with deriving(f"{name}[{n}] cannot be differentiated"):
                gradient = self._parsed.gradient(value)
            for j, component in enumerate(self.components):
                if component in gradient:
                    slopes.append(gradient[component])
                    self._slope_places.append((n, j))
        self._with_slopes = self._parsed.function([*values, *slopes], self.components)

    def __len__(self) -> int:
        return len(self.texts)

    def __call__(self, z: torch.Tensor) -> list[torch.Tensor]:
        return self._function(*z.unbind(-1))

    def with_slopes(
        self, z: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[dict[int, torch.Tensor | float]]]:
        """Return values, and the derivatives of each formula by its components."""
        result = self._with_slopes(*z.unbind(-1))
        slopes: list[dict[int, torch.Tensor | float]] = [{} for _ in self.texts]
        for (n, j), slope in zip(self._slope_places, result[len(self) :], strict=True):
            slopes[n][j] = slope
        return result[: len(self)], slopes

    def __reduce__(self) -> tuple[Any, ...]:
        return Formulas, (self.texts, self.dim, self.components, self.name, self.action)

    def typical(self, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Return values (point, formula) at random points; NaN where a formula has none."""
        generator = torch.Generator().manual_seed(0)
        size = (_POINTS, len(self.components))
        points = torch.randn(size, generator=generator, dtype=torch.float64)
        # (point, formula)
        values = torch.stack(self(shift.double().cpu() + scale.double().cpu() * points), -1)
        return values.masked_fill(~values.isfinite(), torch.nan)

    def units(self, shift: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return median and spread (formula) at random points, as symmetric as the formulas."""
        places, signs = self.action
        values = self.typical(shift, scale)
        middle = values.nanmedian(0).values.nan_to_num()  # (formula,)
        spread = 1.5 * (values - middle).abs().nanmedian(0).values  # (formula,)
        size = torch.where(spread > 0, spread, torch.ones(()))
        return (signs * middle[places]).mean(0), size.log()[places].mean(0).exp()

    def part(self, numbers: Sequence[int], action: SignedPermutations | None = None) -> Formulas:
        """Return some of the formulas, which the group maps to one another."""
        texts = [self.texts[n] for n in numbers]
        action_of_part = restricted(self.action if action is None else action, [*numbers])
        return Formulas(texts, self.dim, self.components, self.name, action_of_part)

    def respected(self, group: torch.Tensor) -> Formulas:
        """Return the formulas that symmetries S (element, dim, dim) map to formulas, up to signs.

        Their ``action`` is the p and the sign for each n with f_p(S z) = sign f_n(z).

        Raises
        ------
        InputError
            If two of the formulas are the same function, but for the sign.
        """
        generator = torch.Generator().manual_seed(1)
        size = (_COMPARED, len(self.components))
        points = torch.randn(size, generator=generator, dtype=torch.float64)
        values = torch.stack(self(points), -1).unsqueeze(1)  # (point, 1, n)
        images = torch.stack(self(points @ group.mT), -1).unsqueeze(3)  # (element, point, p, 1)
        room = TOLERANCE * (1 + values.abs())
        equal = []
        for sign in (1, -1):  # (element, point, p, n)
            defects = (images - sign * values).abs()
            known = defects.isfinite()
            equal.append(((defects <= room) | ~known).all(1) & (known.sum(1) >= _FEWEST))
        either = equal[0] | equal[1]
        if either[0].sum() > len(self):
            raise InputError("two of the expressions are the same function, but for the sign")
        signs = torch.where(equal[0].any(1), 1.0, -1.0).double()
        closed = either.any(1).all(0).nonzero().squeeze(1).tolist()
        return self.part(closed, (either.long().argmax(1), signs))


Derivatives = dict[int, torch.Tensor]


class InUnits(Layer):
    """A layer of normalised states (z - shift) / scale whose formulas are about z."""

    state_shift: torch.Tensor
    state_scale: torch.Tensor

    def add_units(self, size: int) -> None:
        """Register shift and scale of so many components, 0 and 1 at first."""
        self.register_buffer("state_shift", torch.zeros(size, **self.factory_kwargs))
        self.register_buffer("state_scale", torch.ones(size, **self.factory_kwargs))

    @torch.no_grad()
    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Say that states are (z - shift) / scale, z being the variables of the formulas."""
        self.state_shift.copy_(shift)
        self.state_scale.copy_(scale)

    def physical(self, x: torch.Tensor) -> torch.Tensor:
        """Return the z of normalised states x."""
        return x * self.state_scale + self.state_shift  # (..., component)


class FormulaVariables(InUnits):
    """Formulas of states as variables of a layer, each in a unit of its own.

    Parameters
    ----------
    formulas : Formulas
        At least one.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    shift, scale : Tensor, (formula,)
        Units; by ``set_units`` median and spread at random states, as symmetric as the formulas.
    """

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(self, formulas: Formulas, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(device=device, dtype=dtype)
        self.formulas = formulas
        self.add_units(len(formulas.components))
        self.register_buffer("shift", torch.zeros(len(formulas), **self.factory_kwargs))
        self.register_buffer("scale", torch.ones(len(formulas), **self.factory_kwargs))
        self.set_units(torch.zeros(formulas.dim), torch.ones(formulas.dim))

    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Set the units of states (dim,), and those of the formulas."""
        components = self.formulas.components
        super().set_units(shift[components], scale[components])
        self.scale_to(*self.formulas.units(shift[components], scale[components]))

    @torch.no_grad()
    def scale_to(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Set the units of the formulas."""
        self.shift.copy_(shift)
        self.scale.copy_(scale)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the variables (...) at normalised components (..., component)."""
        return self._scaled(self.formulas(self.physical(x)))

    def _scaled(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        units = zip(values, self.shift.unbind(), self.scale.unbind(), strict=True)
        return [(value - shift) / scale for value, shift, scale in units]

    def with_slopes(self, x: torch.Tensor) -> tuple[list[torch.Tensor], list[Derivatives]]:
        """Return the variables, and the derivatives of each by the components."""
        values, slopes = self.formulas.with_slopes(self.physical(x))
        units = self.state_scale.unbind()
        result = [
            {j: slope * (units[j] / scale) for j, slope in gradient.items()}
            for gradient, scale in zip(slopes, self.scale.unbind(), strict=True)
        ]
        return self._scaled(values), result

    @torch.no_grad()
    def at(
        self, parameters: torch.Tensor
    ) -> tuple[FormulaVariables | None, dict[int, torch.Tensor]]:
        """Return the variables at parameters (m,), the last components; and those known then.

        The latter are normalised values by the numbers of the formulas.
        """
        n = len(self.formulas.components) - len(parameters)
        z = torch.cat([torch.zeros(n), parameters.cpu()]).to(self.state_scale)
        known = self.formulas.components[n:]
        values = dict(zip(known, self.physical(z)[n:].tolist(), strict=True))
        alone = [i for i, of in enumerate(self.formulas.depends) if of.issubset(known)]
        left = [i for i in range(len(self.formulas)) if i not in alone]
        variables = self(z) if alone else []
        result = None
        if left:
            texts = [with_values(self.formulas.texts[i], values) for i in left]
            components = self.formulas.components[:n]
            formulas = Formulas(texts, max(components) + 1, components, self.formulas.name)
            result = FormulaVariables(formulas, **self.factory_kwargs)
            InUnits.set_units(result, self.state_shift[:n], self.state_scale[:n])
            result.scale_to(self.shift[left], self.scale[left])
        return result, {i: variables[i] for i in alone}
