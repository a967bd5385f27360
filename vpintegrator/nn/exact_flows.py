"""Parts of known equations whose flows are exact: shears."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vpintegrator.dynamics.expressions import ComponentFunction, Expression, Sum, Value
from vpintegrator.errors import InputError
from vpintegrator.nn.formulas import StateExpressions, deriving


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
    groups: list[list[int]] = []
    for i, own in enumerate(read):
        if i in own:
            raise InputError(
                f"a splitting needs components whose rates do not depend on themselves, but rate "
                f"{i} depends on z[{i}]"
            )
        if rates[i] == 0:
            continue
        for group in groups:
            if not own.intersection(group) and not any(i in read[j] for j in group):
                group.append(i)
                break
        else:
            groups.append([i])
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
        self.algebra, (self.value,) = self.parsed.algebra, self.parsed.values
        self.size, self.half, self.explicit_time = size, size // 2, explicit_time

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
        own = shears[place]

        def rates(*state: Any) -> list[Any]:
            result, n = own.rates(*state), len(own.moved)
            rows = [result[n * k : n * (k + 1)] for k in range(own.functions)]
            return [rate for k, row in enumerate(rows) for rate in [*row, float(k == 0)]]

        shears[place] = ExactShear((*own.moved, last), own.read, own.functions, rates)
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

    def _has_pair(self, variables: Iterable[int]) -> bool:
        own = set(variables)
        return any(i + self.half in own for i in own if i < self.half)

    def _groups(self, terms: list[Value]) -> list[Value]:
        """Return sums of terms without conjugate pairs, those of momenta alone first."""
        result: list[tuple[set[int], list[Value]]] = []
        momenta = lambda term: any(i < self.half for i in self._variables(term))  # noqa: E731
        for term in sorted(terms, key=momenta):
            own = self._variables(term)
            if self._has_pair(own):
                raise InputError(
                    "a splitting needs a Hamiltonian whose terms contain no position together "
                    "with its own momentum"
                )
            for variables, others in result:
                if not self._has_pair(variables | own):
                    variables |= own
                    others.append(term)
                    break
            else:
                result.append((own, [term]))
        return [self.algebra.add(*others) for _, others in result]

    def _bracket(self, first: Value, second: Value) -> Value:
        a, b, n = self.parsed.gradient(first), self.parsed.gradient(second), self.half
        multiply = self.algebra.multiply
        products = [(multiply(a[i], b[i + n]), 1) for i in range(n) if i in a and i + n in b]
        products += [(multiply(a[i + n], b[i]), -1) for i in range(n) if i + n in a and i in b]
        return self.algebra.combine(products)

    def _commutators(self, groups: list[Value]) -> list[list[Value]]:
        """Return further functions of each group: commutators without conjugate pairs."""
        result: list[list[Value]] = [[] for _ in groups]
        known: set[Value] = set()
        for middle in groups:
            for a, first in enumerate(groups):
                for second in groups[a:]:
                    value = self._bracket(first, self._bracket(middle, second))
                    place = self._place(groups, self._variables(value))
                    if place is not None and value not in known:
                        known.add(value)
                        result[place].append(value)
        return result

    def _place(self, groups: list[Value], variables: set[int]) -> int | None:
        """Return the first group that has no conjugate pair with these variables."""
        for n, group in enumerate(groups):
            if variables and not self._has_pair(self._variables(group) | variables):
                return n
        return None

    def _shear(self, value: Value, further: Sequence[Value]) -> ExactShear:
        functions = [value, *further]
        slopes = [self.parsed.gradient(function) for function in functions]
        n = self.half
        seen = set().union(*(self._variables(f) for f in functions))
        moved = sorted((i + n if i < n else i - n) for i in seen)
        rates: list[Value] = []
        for own in slopes:
            for i in moved:
                slope = own.get(i + n, 0) if i < n else own.get(i - n, 0)
                rates.append(slope if i < n else self.algebra.scale(-1, slope))
        read = set().union(*map(self.parsed.depends, functions))
        function = self.parsed.function(rates)
        return ExactShear(tuple(moved), tuple(sorted(read)), len(functions), function)
