"""Steps for known equations: parts with exact flows, and learned splittings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.dynamics.expressions.evaluation import ComponentFunction
from vpintegrator.dynamics.expressions.nodes import Expression, Sum, Value
from vpintegrator.errors import InputError
from vpintegrator.nn.formulas import InUnits, StateExpressions, deriving
from vpintegrator.nn.layer import Device, Dtype, InvertibleLayer, joined, on_cpu

Item = TypeVar("Item")


@dataclass(frozen=True)
class ExactShear:
    """A part that moves some components by functions of the others.

    Attributes
    ----------
    moved : tuple of int
        The components that it moves.
    read : tuple of int
        Components on which the increments depend.
    functions : int
        Number of functions: the part of the equations first, then commutators.
    rates : callable
        Rates of the moved components for each function in turn, at the components of a state.
    """

    moved: tuple[int, ...]
    read: tuple[int, ...]
    functions: int
    rates: ComponentFunction


@dataclass(frozen=True)
class ExactFlows:
    """Equations as a sum of parts with exact flows, in the order in which they are composed.

    Attributes
    ----------
    parts : tuple of ExactShear
    symplectic : bool
        Whether each of them is Hamiltonian.
    arguments : tuple
        Arguments of the flows, for copies.
    """

    parts: tuple[ExactShear, ...]
    symplectic: bool
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _MADE_BY[self.symplectic], self.arguments


@lru_cache(maxsize=16)  # a search makes the same for every number of stages
def hamiltonian_parts(
    text: str,
    size: int,
    explicit_time: bool = False,
    commutators: bool = True,
) -> ExactFlows:
    r"""Return the parts of a Hamiltonian that is a sum of terms without conjugate pairs.

    Terms are grouped so that no part contains a position together with its own momentum. The flow
    of such a part is a shear. Commutators :math:`\{A, \{B, C\}\}` of three parts that contain no
    conjugate pair are further functions of a part; of :math:`T(p) + V(q)` with a quadratic T it is
    :math:`|\nabla V|^2`.

    Parameters
    ----------
    text : str
        H as a formula of ``z[0]``, ``z[1]``, ...
    size : int
        Components of (q, p), which come first in states.
    explicit_time : bool
        Whether a component after (q, p) is the time, which a part moves on.
    commutators : bool
        Whether parts have commutators as further functions.

    Raises
    ------
    InputError
        If a term contains a conjugate pair, or all of H is one part.

    References
    ----------
    McLachlan and Quispel, Splitting methods, Acta Numerica 11 (2002) 341-434; for the commutators
    Takahashi and Imada, J. Phys. Soc. Japan 53 (1984) 3765, and Chin, Phys. Lett. A 226 (1997) 344.

    Examples
    --------
    >>> from vpintegrator.nn.exact_flows import hamiltonian_parts
    >>> [part.moved for part in hamiltonian_parts("z[1]**2/2 - cos(z[0])", 2).parts]
    [(0,), (1,)]
    """
    arguments = (text, size, explicit_time, commutators)
    return _Hamiltonian(text, size, explicit_time).flows(commutators, arguments)


def partition(items: Iterable[Item], conflict: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Partition items into groups in which no two conflict: each joins the first that it can.

    Components conflict where the rate of one depends on the other, terms of a Hamiltonian where
    they contain a position and its momentum.

    Examples
    --------
    >>> from vpintegrator.nn.exact_flows import partition
    >>> partition([1, 2, 3, 4], lambda i, j: i % j == 0 or j % i == 0)
    [[1], [2, 3], [4]]
    """
    groups: list[list[Item]] = []
    for item in items:
        for group in groups:
            if not any(conflict(other, item) for other in group):
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


@lru_cache(maxsize=16)
def field_parts(texts: tuple[str, ...]) -> ExactFlows:
    """Return the parts of a vector field of which no component depends on itself.

    Components that do not depend on one another are moved at once.

    Parameters
    ----------
    texts : tuple of str
        Rates of all components, as formulas of ``z[0]``, ``z[1]``, ...

    Raises
    ------
    InputError
        If a component depends on itself.

    References
    ----------
    McLachlan and Quispel, Splitting methods, Acta Numerica 11 (2002) 341-434, section 3.4.

    Examples
    --------
    >>> from vpintegrator.nn.exact_flows import field_parts
    >>> [part.moved for part in field_parts(("z[1]*z[2]", "sin(z[2])", "z[0]*z[1]")).parts]
    [(0,), (1,), (2,)]
    """
    parsed = StateExpressions({f"field[{i}]": text for i, text in enumerate(texts)}, len(texts))
    rates = parsed.values
    read = [parsed.depends(rate) for rate in rates]
    for i, variables in enumerate(read):
        if i in variables:
            raise InputError(
                f"a splitting needs components whose rates do not depend on themselves, but rate "
                f"{i} depends on z[{i}]"
            )
    changing = [i for i, rate in enumerate(rates) if rate != 0]
    groups = partition(changing, lambda i, j: i in read[j] or j in read[i])
    parts = []
    for group in groups:
        function = parsed.function([rates[i] for i in group])
        seen = sorted(set().union(*(read[i] for i in group)))
        parts.append(ExactShear(tuple(group), tuple(seen), 1, function))
    if len(parts) < 2:
        raise InputError("a splitting needs equations of two parts or more")
    return ExactFlows(tuple(parts), False, (texts,))


_MADE_BY = {True: hamiltonian_parts, False: field_parts}


class _Hamiltonian:
    """A Hamiltonian and its groups of terms."""

    def __init__(self, text: str, size: int, explicit_time: bool) -> None:
        self.parsed = StateExpressions({"hamiltonian": text}, size + explicit_time)
        self.algebra = self.parsed.algebra
        (self.value,) = self.parsed.values
        self.size = size
        self.half = size // 2
        self.explicit_time = explicit_time

    def flows(self, commutators: bool, arguments: tuple[Any, ...]) -> ExactFlows:
        """Return the parts."""
        with deriving("the Hamiltonian cannot be split"):
            groups = self._groups(list(self._terms(self.value)))
            further: list[list[Value]] = [[] for _ in groups]
            if commutators:
                further = self._commutators(groups)
            parts = self._with_time([*map(self._shear, groups, further)])
        if len(parts) < 2:
            raise InputError("a splitting needs a Hamiltonian of two parts or more")
        return ExactFlows(tuple(parts), True, arguments)

    def _with_time(self, shears: list[ExactShear]) -> list[ExactShear]:
        """Return the shears; the first that does not read the time, or a new one, advances it."""
        if not self.explicit_time:
            return shears
        last = self.size
        place = next((n for n, part in enumerate(shears) if last not in part.read), None)
        if place is None:
            return [ExactShear((last,), (), 1, lambda *_: [1.0]), *shears]
        shear = shears[place]

        def rates(*state: Any) -> list[Any]:
            result = shear.rates(*state)
            n = len(shear.moved)
            rows = [result[n * k : n * (k + 1)] for k in range(shear.functions)]
            return [rate for k, row in enumerate(rows) for rate in [*row, float(k == 0)]]

        shears[place] = ExactShear((*shear.moved, last), shear.read, shear.functions, rates)
        return shears

    def _terms(self, value: Value, factor: Any = 1) -> Iterator[Value]:
        """Yield terms of a sum, of sums within it too; constants are left out."""
        if isinstance(value, Sum):
            for term, c in value.terms:
                yield from self._terms(term, self.algebra.multiply(factor, c))
        elif isinstance(value, Expression):
            yield self.algebra.multiply(factor, value)

    def _variables(self, value: Value) -> set[int]:
        """Return components of (q, p) in a formula."""
        return {i for i in self.parsed.depends(value) if i < self.size}

    def _reads_positions(self, value: Value) -> bool:
        return any(i < self.half for i in self._variables(value))

    def _has_pair(self, variables: Iterable[int]) -> bool:
        numbers = set(variables)
        return any(i + self.half in numbers for i in numbers if i < self.half)

    def _groups(self, terms: list[Value]) -> list[Value]:
        """Return sums of terms without conjugate pairs, those of momenta alone first."""
        variables = {term: self._variables(term) for term in terms}
        if any(map(self._has_pair, variables.values())):
            raise InputError(
                "a splitting needs a Hamiltonian whose terms contain no position together with its "
                "own momentum"
            )

        def conflict(first: Value, second: Value) -> bool:
            return self._has_pair(variables[first] | variables[second])

        groups = partition(sorted(terms, key=self._reads_positions), conflict)
        return [self.algebra.add(*group) for group in groups]

    def _bracket(self, first: Value, second: Value) -> Value:
        a = self.parsed.gradient(first)
        b = self.parsed.gradient(second)
        n = self.half
        multiply = self.algebra.multiply
        products = [(multiply(a[i], b[i + n]), 1) for i in range(n) if i in a and i + n in b]
        products += [(multiply(a[i + n], b[i]), -1) for i in range(n) if i + n in a and i in b]
        return self.algebra.combine(products)

    def _commutators(self, groups: list[Value]) -> list[list[Value]]:
        """Return further functions of each group: commutators without conjugate pairs."""
        result: list[list[Value]] = [[] for _ in groups]
        variables = [*map(self._variables, groups)]
        known = set()
        for middle in groups:
            for a, first in enumerate(groups):
                for second in groups[a:]:
                    value = self._bracket(first, self._bracket(middle, second))
                    its_variables = self._variables(value)
                    place = self._place(variables, its_variables) if its_variables else None
                    if place is not None and value not in known:
                        known.add(value)
                        result[place].append(value)
        return result

    def _place(self, groups: list[set[int]], variables: set[int]) -> int | None:
        """Return the first group that has no conjugate pair with these variables."""
        places = (n for n, group in enumerate(groups) if not self._has_pair(group | variables))
        return next(places, None)

    def _shear(self, value: Value, further: Sequence[Value]) -> ExactShear:
        functions = [value, *further]
        slopes = [self.parsed.gradient(function) for function in functions]
        n = self.half
        seen = set().union(*(self._variables(f) for f in functions))
        moved = sorted((i + n if i < n else i - n) for i in seen)
        rates: list[Value] = []
        for gradient in slopes:
            for i in moved:
                slope = gradient.get(i + n, 0) if i < n else gradient.get(i - n, 0)
                rates.append(slope if i < n else self.algebra.scale(-1, slope))
        read = set().union(*map(self.parsed.depends, functions))
        function = self.parsed.function(rates)
        return ExactShear(tuple(moved), tuple(sorted(read)), len(functions), function)


class LearnedSplitting(InvertibleLayer, InUnits):
    r"""A palindromic composition of exact flows of the parts of known equations.

    .. math:: \Phi_h = \exp(h A_1)\, \exp(h A_2) \cdots \exp(h A_2)\, \exp(h A_1), \qquad
        A_j = w_j f_{k_j} + h^2 \sum_m c_{jm}\, g_{k_j m}

    The parts f follow one another to and fro, once for each stage. Functions g of the same part are
    its commutators. The weights w of each part add up to one, so that the map is of order two at
    least and follows the equations for every small step. It is its own adjoint, and reversible
    under every reversing symmetry of all parts.

    Parameters
    ----------
    flows : ExactFlows
        The parts.
    dim : int
        Components of a state, without the time.
    stages : int
        Times that the last part is passed.
    explicit_time : bool
        Whether the flows depend on the time: a parameter, given for the middle of the step.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    weights : Parameter (flow,)
        Weights of the flows in the first half of the composition, before normalisation of their sum
        to one.
    commutators : Parameter (flow and function,)
        The coefficients c times the square of the stages.
    step : Tensor (1,)
        The step h, in units of time.

    References
    ----------
    Blanes, Casas, Murua, Splitting methods for differential equations, Acta Numerica 33 (2024) 1;
    Omelyan, Mryglod, Folk, Phys. Rev. E 66 (2002) 026701 for commutators.

    Examples
    --------
    >>> from vpintegrator.nn.exact_flows import hamiltonian_parts
    >>> flows = hamiltonian_parts("z[1]**2/2 - cos(z[0])", 2)
    >>> layer = vp.nn.LearnedSplitting(flows, 2, stages=3)
    >>> layer.set_step(0.1)
    >>> z = torch.rand(2)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z, atol=1e-15))
    True
    """

    shown = ("dim", "stages")
    step: torch.Tensor

    @on_cpu
    def __init__(
        self,
        flows: ExactFlows,
        dim: int,
        stages: int = 3,
        explicit_time: bool = False,
        *,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.flows = flows
        self.dim = dim
        self.parameter_count = int(explicit_time)
        self.stages = whole("stages", stages, 1)
        self.symplectic = flows.symplectic
        last = len(flows.parts) - 1
        sweep = [*range(last + 1), *range(last - 1, -1, -1)]
        self.sequence = sweep + sweep[1:] * (self.stages - 1)
        weights = [  # equal steps of Strang's splitting
            (1.0 if k == last or (k == 0 and n > 0) else 0.5) / self.stages
            for n, k in enumerate(self.sequence[: self._half])
        ]
        self.weights = nn.Parameter(torch.tensor(weights, **self.factory_kwargs))
        further = [flows.parts[k].functions - 1 for k in self.sequence[: self._half]]
        self.commutators = nn.Parameter(torch.zeros(sum(further), **self.factory_kwargs))
        self.first = [sum(further[:n]) for n in range(self._half)]
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))
        self.add_units(dim + self.parameter_count)

    @property
    def _half(self) -> int:
        """Number of flows up to the middle one."""
        return len(self.sequence) // 2 + 1

    def begin_as(self, factors: Sequence[float]) -> None:
        """Take the weights of a symmetric composition, without commutators.

        Parameters
        ----------
        factors
            Fractions of the step that the parts are followed in turn and then in reverse order,
            two for each stage, as in ``vpintegrator.dynamics.compositions``.
        """
        last = max(self.sequence)
        weights = []
        sweep = 0
        for n, k in enumerate(self.sequence[: self._half]):
            weights.append(factors[sweep])
            if k == last or (k == 0 and n > 0):  # also the first of the sweep that turns here
                sweep += 1
                weights[-1] += factors[sweep]
        with torch.no_grad():
            self.weights.copy_(torch.tensor(weights, dtype=torch.float64))
            self.commutators.zero_()

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(step)

    def normalised_weights(self) -> list[torch.Tensor]:
        """Return the weights of all flows, which add up to one for each part."""
        free = [self.weights[min(n, len(self.sequence) - 1 - n)] for n in range(len(self.sequence))]
        missing = {}
        counts = {}
        for part in set(self.sequence):
            places = [n for n, k in enumerate(self.sequence) if k == part]
            counts[part] = len(places)
            missing[part] = (1 - sum(free[n] for n in places)) / counts[part]
        return [w + missing[k] for w, k in zip(free, self.sequence, strict=True)]

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        x = list(self.physical(joined(z, parameters)).unbind(-1))  # (...) each
        h = sign * self.step[0]
        if self.parameter_count:
            x[-1] = x[-1] - 0.5 * h
        total: list[torch.Tensor | float] = [0.0] * len(x)
        for n, (k, weight) in enumerate(zip(self.sequence, self.normalised_weights(), strict=True)):
            for i, change in self._sheared(self.flows.parts[k], x, n, weight, h).items():
                x[i] = x[i] + change
                total[i] = total[i] + change
        moved = [
            t if isinstance(t, torch.Tensor) else torch.zeros_like(z[..., 0])
            for t in total[: self.dim]
        ]
        changes_of_states = torch.stack([m.expand_as(z[..., 0]) for m in moved], -1)
        return z + changes_of_states / self.state_scale[: self.dim]  # (..., dim)

    def _sheared(
        self, part: ExactShear, x: list[torch.Tensor], n: int, weight: torch.Tensor, h: torch.Tensor
    ) -> dict[int, torch.Tensor]:
        """Return changes of the components that a shear moves."""
        first = self.first[min(n, len(self.sequence) - 1 - n)]
        c = self.commutators[first : first + part.functions - 1] * (h**3 / self.stages**2)
        factors = [weight * h, *c.unbind()]
        # (...) each
        rates = part.rates(*x)
        count = len(part.moved)
        changes: dict[int, torch.Tensor] = {}
        for k, factor in enumerate(factors):
            for i, rate in zip(part.moved, rates[count * k :], strict=False):
                if isinstance(rate, torch.Tensor) or rate != 0:
                    change = factor * rate
                    changes[i] = changes[i] + change if i in changes else change
        return changes
