"""Functions of one variable, their products, and combinations invariant under symmetries.

A *term* is a product of one function of each of some components, phi_e(z) = prod_j u_{e_j}(z_j).
The functions u_n of a component are those of a ``Univariate`` family, even or odd, so that a change
of a component's sign is a change of the term's. A further family is a further class, and one object
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebder

from vpintegrator.arguments import positive, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.layer import Device, Dtype, Layer
from vpintegrator.nn.symmetry import orbit_parameters, signed_permutations

RADIUS = 3.0  # standard deviations that Chebyshev polynomials take for their interval [-1, 1]


class Univariate:
    """Chebyshev polynomials T_0, T_1, ... of x / ``RADIUS``; other families derive from this class.

    Each function is even or odd, so that a change of a variable's sign is a change of the
    functions' signs. Functions up to a degree are the first ones of those up to a higher degree:
    terms keep their functions when they are prolonged.

    Parameters
    ----------
    name : str
        Name of the object in this module: copies and pickles are the object itself.

    Attributes
    ----------
    is_angle : bool
        Whether the variable is an angle, or cyclic: measured in its own unit.
    has_origin : bool
        Whether the variable has a zero of its own, from which it is measured.
    cyclic : int
        Number of the first functions that a cyclic variable may have.
    required : bool
        Whether each term has a function of such a variable that is not constant.
    """

    is_angle = False
    has_origin = False
    cyclic = 1
    required = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return self.name

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        """Return u_0, u_1, ... at x up to a degree, and their derivatives up to the second.

        The recursion is T_{n+2} = 2 T_2 T_n - T_{n-2}. Even and odd ones are computed apart: where
        symmetries leave one kind, the other costs nothing.
        """
        curvature = 8 / RADIUS**2
        twice = 0.5 * curvature * (x * x) - 2  # 2 T_2
        result = [[torch.ones_like(x), x * (1 / RADIUS), 0.5 * twice]]
        factors: list[Any] = [twice, curvature * x, curvature]
        if highest > 0:
            slope = torch.full_like(x, 1 / RADIUS)
            result.append([torch.zeros_like(x), slope, 0.5 * factors[1]])
        if highest > 1:
            zero = torch.zeros_like(x)
            result.append([zero, zero, torch.full_like(x, 0.5 * curvature)])
        for k, own in enumerate(result):
            for n in range(1, degree - 1):
                value = twice * own[n]
                for i in range(1, k + 1):
                    value = value + comb(k, i) * (factors[i] * result[k - i][n])
                own.append(value - own[abs(n - 2)])
        return [own[: degree + 1] for own in result]

    def derivative(self, degree: int) -> torch.Tensor:
        r"""Return the matrix D of the derivatives, :math:`u_i' = \sum_k D_{ik} u_k`."""
        result = np.zeros((degree + 1, degree + 1))
        for n in range(1, degree + 1):
            result[n, :n] = chebder(np.eye(degree + 1)[n, : n + 1]) / RADIUS
        return torch.from_numpy(result)

    def orders(self, degree: int) -> list[int]:
        """Return the order of each function: what a term's degree is the sum of."""
        return list(range(degree + 1))

    def is_odd(self, index: int) -> bool:
        """Whether the function of this index changes its sign with its argument."""
        return index % 2 == 1


class _Vanishing(Univariate):
    """Family 1, T_1 T_0, T_1 T_1, ...: all but the first vanish with the variable."""

    has_origin = True
    required = True

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        assert not highest
        ((one, *others),) = super().jet(x, degree)
        return [[one, *others[:1], *(others[0] * value for value in others[:-1])]]


class _Harmonics(Univariate):
    """Family 1, cos x, sin x, cos 2x, sin 2x, ... of an angle, by addition theorems."""

    is_angle = True
    has_origin = True

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        # (...) each
        cosine = torch.cos(x)
        sine = torch.sin(x)
        values = [torch.ones_like(x)]
        c = cosine
        s = sine
        for n in range(degree):
            if n:
                rotated = c * cosine - s * sine
                s = s * cosine + c * sine
                c = rotated
            values += [c, s]
        result = [values]
        for _ in range(highest):
            derivative = [torch.zeros_like(x)]
            for n in range(1, degree + 1):
                derivative += [-n * result[-1][2 * n], n * result[-1][2 * n - 1]]
            result.append(derivative)
        return result

    def derivative(self, degree: int) -> torch.Tensor:
        result = torch.zeros(2 * degree + 1, 2 * degree + 1, dtype=torch.float64)
        for n in range(1, degree + 1):
            result[2 * n - 1, 2 * n] = -n
            result[2 * n, 2 * n - 1] = n
        return result

    def orders(self, degree: int) -> list[int]:
        return [0, *(n for n in range(1, degree + 1) for _ in range(2))]

    def is_odd(self, index: int) -> bool:
        return index > 0 and index % 2 == 0


class _Secular(_Harmonics):
    """Family 1, x, cos x, sin x, ...: only the derivative of x is periodic."""

    cyclic = 2

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        result = super().jet(x, degree, highest)
        linear = x
        for derivative in result:
            derivative.insert(1, linear)
            linear = derivative[0]  # the derivatives of x are those of u_0 one earlier
        return result

    def derivative(self, degree: int) -> torch.Tensor:
        others = super().derivative(degree)
        result = others.new_zeros(len(others) + 1, len(others) + 1)
        result[2:, 2:] = others[1:, 1:]
        result[1, 0] = 1.0
        return result

    def orders(self, degree: int) -> list[int]:
        zero, *others = super().orders(degree)
        return [zero, 1, *others]

    def is_odd(self, index: int) -> bool:
        return index % 2 == 1


POLYNOMIALS = Univariate("POLYNOMIALS")
VANISHING = _Vanishing("VANISHING")
HARMONICS = _Harmonics("HARMONICS")
SECULAR = _Secular("SECULAR")


def families(
    count: int, periodic: Sequence[int] = (), vanishing: Sequence[int] = ()
) -> list[Univariate]:
    """Return the family of each variable: angles, vanishing parameters, others."""
    result = [POLYNOMIALS] * count
    for index in periodic:
        if index < count:
            result[index] = HARMONICS
    for index in vanishing:
        result[index] = VANISHING
    return result


LARGEST_COUNT = 2_000  # terms of a block
LARGEST_DEGREE = 64

# images of things under each element of a group, and signs there: (element, thing) each
SignedPermutations = tuple[torch.Tensor, torch.Tensor]


def checked_degree(degree: int) -> int:
    """Return a degree, or InputError if it is none or too high."""
    degree = whole("degree", degree)
    if degree > LARGEST_DEGREE:
        raise InputError(f"degree must be at most {LARGEST_DEGREE}, not {degree}")
    return degree


ONLY_SIGNED = (
    "functions = polynomial respect symmetries that are sign flips and permutations; for others "
    "take functions = neurons"
)


def moves_of_terms(group: torch.Tensor) -> SignedPermutations:
    """Return the signed permutations by which a group maps terms to terms.

    Raises
    ------
    InputError
        If an element is not a signed permutation.
    """
    moves = signed_permutations(group)
    if moves is None:
        raise InputError(ONLY_SIGNED)
    return moves


def checked_weights(weights: Sequence[float], count: int, most: float = 16.0) -> list[float]:
    """Return the weights of so many variables in the degree of a term: one where none is given.

    Raises
    ------
    InputError
        If there are others than positive numbers near one, or too many.
    """
    result = [positive("a number of weights", weight) for weight in weights]
    if len(result) > count or not all(1 / most <= weight <= most for weight in result):
        raise InputError(
            f"weights must be at most {count} numbers from {1 / most:g} to {most:g}, one for each "
            f"component, not {result}"
        )
    return result + [1.0] * (count - len(result))


def terms(
    degree: int,
    kinds: Sequence[Univariate],
    absent: Sequence[bool] = (),
    most: int = LARGEST_COUNT,
    weights: Sequence[float] = (),
) -> list[tuple[int, ...]]:
    """Return all terms of a total degree, as an index of a function for each component.

    Absent components have their first functions alone (``Univariate.cyclic``); others may follow
    the last of them. Where a family is ``required``, a term has a function of one such component
    that is not constant. Each component's part of the degree counts as often as its weight says,
    but quadratic terms, such as kinetic energies, belong to all degrees from two on.

    Raises
    ------
    InputError
        If they are too many.
    """
    result: list[tuple[tuple[int, ...], float, int]] = [((), 0.0, 0)]
    low = min(degree, 2)
    factors = [*weights, *[1.0] * (len(kinds) - len(weights))]
    slack = degree * (1 + 1e-9)  # sums of weights are rounded
    for k, (kind, factor) in enumerate(zip(kinds, factors, strict=True)):
        orders = kind.orders(max(int(slack / factor), low))
        each = [(index, factor * order, order) for index, order in enumerate(orders)]
        if k < len(absent) and absent[k]:
            each = each[: kind.cyclic]
        result = [
            ((*e, index), total + weighted, plain + order)
            for (e, total, plain), (index, weighted, order) in product(result, each)
            if total + weighted <= slack or plain + order <= low
        ]
        if len(result) > most:
            raise InputError(
                f"degree = {degree} in {len(kinds)} components gives more than {most:,} terms; "
                "take a lower degree, or functions = neurons"
            )
    required = [k for k, kind in enumerate(kinds) if kind.required]
    if required:
        result = [entry for entry in result if any(entry[0][k] for k in required)]
    return [e for e, *_ in sorted(result, key=lambda entry: (entry[1], entry[0]))]


def restricted(moves: SignedPermutations, members: list[int]) -> SignedPermutations:
    """Return the action of a group on a subset of members that it maps to itself."""
    places, signs = moves
    number = torch.zeros(places.shape[1], dtype=torch.long)
    number[members] = torch.arange(len(members))
    return number[places[:, members]], signs[:, members]


def beside(first: SignedPermutations, second: SignedPermutations) -> SignedPermutations:
    """Return the action of a group on the members of two actions; no members have any group's."""
    if not second[0].shape[1]:
        return first
    places = torch.cat([first[0], second[0] + first[0].shape[1]], 1)
    return places, torch.cat([first[1], second[1]], 1)


def equivariant_coefficients(
    indices: list[tuple[int, ...]],
    kinds: Sequence[Univariate],
    variables: SignedPermutations,
    block: SignedPermutations,
    weights: Sequence[float] = (),
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return coefficients of the terms for which g(S_bb u) = S_aa g(u) for every S of a group.

    g_k(u) = sum_e c_{e k} phi_e(u) for k in a block a, u being what it depends on. For signed
    permutations the condition says that coefficients are equal but for signs along orbits of the
    group, or zero; nothing needs to be averaged when g is evaluated.

    Parameters
    ----------
    indices
        The terms, see ``terms``.
    kinds
        Family of functions of each variable in u.
    variables, block
        Image of each variable, and of each component of the block, under each S, with signs.
    weights
        Weight of each variable in the degree of a term.

    Returns
    -------
    sources, factors : Tensor, (term, component of the block)
        Index of the parameter that each coefficient takes, and its factor 1, -1 or 0.
    count : int
        Number of parameters.

    Raises
    ------
    InputError
        If the group exchanges variables of different families or weights.
    """
    number = {e: n for n, e in enumerate(indices)}
    odd = torch.tensor(
        [[kind.is_odd(i) for i, kind in zip(e, kinds, strict=True)] for e in indices],
        dtype=torch.bool,
    ).view(len(indices), len(kinds))
    links = []
    for places, signs, columns, block_signs in zip(*variables, *block, strict=True):
        # (S u)_{p(j)} = s_j u_j, so the function of u_j in a term is that of p(j) in its image
        target = places.tolist()
        if [kinds[j] for j in target] != [*kinds]:
            raise InputError(
                "the symmetries exchange angles with components that are none, or vanishing "
                "parameters with others"
            )
        if any(weights[target[k]] != weights[k] for k in range(len(weights))):
            raise InputError("the symmetries exchange components of different weights")
        moved = [0] * len(indices)
        for n, e in enumerate(indices):
            image = [0] * len(target)
            for j, index in enumerate(e):
                image[target[j]] = index
            moved[n] = number[tuple(image)]
        sign = torch.where(odd, signs, torch.ones(())).prod(1)  # (term,)
        images = torch.tensor(moved).unsqueeze(1) * len(columns) + columns  # (term, component)
        links.append((images, sign.unsqueeze(1) * block_signs))
    return orbit_parameters(links)


class Terms(Layer):
    r"""Terms of a function with values in m components, and the parameters of its coefficients.

    .. math:: g_k(u) = \sum_e C_{ek} \varphi_e(u), \qquad C_{ek} = f_{ek}\, c_{s_{ek}}

    Parameters
    ----------
    degree : int
        Largest total degree.
    kinds : sequence of Univariate
        Family of functions of each variable in u.
    chosen : Tensor, (term, variable)
        Function of each variable in each term.
    sources, factors : Tensor, (term, m)
        The s and f.
    count : int
        Number of parameters c.
    weights : sequence of float
        Weight of each variable in the degree of a term, by default one.
    device, dtype
        As in layers of torch.nn.
    """

    chosen: torch.Tensor
    sources: torch.Tensor
    factors: torch.Tensor

    def __init__(
        self,
        degree: int,
        kinds: Sequence[Univariate],
        chosen: torch.Tensor,
        sources: torch.Tensor,
        factors: torch.Tensor,
        count: int,
        weights: Sequence[float] = (),
        *,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.degree = degree
        self.weights = [*weights, *[1.0] * (len(kinds) - len(weights))]
        self.kinds = [*kinds]
        self.count = count
        self.constant("chosen", chosen)
        self.constant("sources", sources)
        self.constant("factors", factors.to(torch.float64))
        # order up to which the functions of each variable are computed
        most: list[int] = chosen.amax(0).tolist() if len(chosen) else [0] * len(self.kinds)
        self.highest = [kind.orders(n)[n] for kind, n in zip(self.kinds, most, strict=True)]
        # as plain booleans: reading a tensor in every evaluation would make a GPU wait
        self.occurs: list[bool] = chosen.any(0).tolist()

    @classmethod
    def equivariant(
        cls,
        degree: int,
        kinds: Sequence[Univariate],
        variables: SignedPermutations,
        block: SignedPermutations,
        *,
        absent: Sequence[bool] = (),
        most: int = LARGEST_COUNT,
        allowed: Callable[[tuple[int, ...]], bool] = lambda _: True,
        weights: Sequence[float] = (),
        device: Device = None,
        dtype: Dtype = None,
    ) -> Terms:
        """Return the ``terms`` that are allowed and that symmetries leave.

        See ``equivariant_coefficients``.
        """
        indices = [e for e in terms(degree, kinds, absent, most, weights) if allowed(e)]
        sources, factors, count = equivariant_coefficients(
            indices, kinds, variables, block, weights
        )
        used = (factors != 0).any(1)
        orders = torch.tensor(indices, dtype=torch.long).view(len(indices), len(kinds))
        parts = orders[used], sources[used], factors[used], count, weights
        return cls(degree, kinds, *parts, device=device, dtype=dtype)

    @property
    def degrees(self) -> torch.Tensor:
        """Weighted degree of what each parameter multiplies (parameter,)."""
        highest = zip(self.kinds, self.highest, self.weights, strict=True)
        orders = [[weight * n for n in kind.orders(most)] for kind, most, weight in highest]
        sums = [sum(own[i] for own, i in zip(orders, e, strict=True)) for e in self.chosen.tolist()]
        present = self.factors.cpu() != 0  # (term, m)
        result = torch.zeros(self.count, dtype=torch.float64)
        each = torch.tensor(sums, dtype=torch.float64).unsqueeze(1).expand_as(present)
        result[self.sources.cpu()[present]] = each[present]
        return result

    def coefficients(self, c: torch.Tensor) -> torch.Tensor:
        """Return coefficients (term, m) from parameters."""
        shared = c.index_select(0, self.sources.flatten())  # (term * m,)
        return shared.view(self.sources.shape) * self.factors  # (term, m)

    def parameter_weights(self) -> torch.Tensor:
        """Return the factor of each parameter in each coefficient (m, term, parameter)."""
        result = self.factors.new_zeros(*self.factors.shape, self.count)  # (term, m, parameter)
        result.scatter_(2, self.sources.unsqueeze(2), self.factors.unsqueeze(2))
        return result.movedim(1, 0)  # (m, term, parameter)

    def jet(self, variable: int, x: torch.Tensor, highest: int = 0) -> list[torch.Tensor]:
        """Return the function of a variable in each term (..., term) at x, and its derivatives."""
        result = self.kinds[variable].jet(x, self.highest[variable], highest)
        picked = self.chosen[:, variable]
        return [torch.stack(own, -1).index_select(-1, picked) for own in result]  # (..., term)

    def derivatives(self, variable: int, x: torch.Tensor, highest: int) -> list[torch.Tensor]:
        """Return ``jet`` by matrices of the derivatives: fewer operations for small tensors."""
        kind = self.kinds[variable]
        degree = self.highest[variable]
        functions = torch.stack(kind.jet(x, degree)[0], -1)  # (..., function)
        picked = self.chosen[:, variable]
        result = [functions.index_select(-1, picked)]  # (..., term)
        for _ in range(highest):
            functions = functions @ _derivative(kind, degree).to(functions).mT  # (..., function)
            result.append(functions.index_select(-1, picked))
        return result

    @staticmethod
    def product(jets: Sequence[Sequence[torch.Tensor]], orders: Mapping[int, int]) -> torch.Tensor:
        """Return the terms (..., term) from ``jet`` of each variable, or derivatives of them.

        ``orders`` are those of the derivatives, by variable.
        """
        result = jets[0][orders.get(0, 0)]
        for j, jet in enumerate(jets[1:], 1):
            result = result * jet[orders.get(j, 0)]  # (..., term)
        return result

    def prolonged(self, smaller: Terms, c: torch.Tensor) -> torch.Tensor:
        """Return parameters that make it the function of fewer terms with parameters c."""
        known = dict(zip(map(tuple, smaller.chosen.tolist()), smaller.coefficients(c), strict=True))
        result = c.new_zeros(self.count)
        rows = zip(self.chosen.tolist(), self.sources.tolist(), self.factors.tolist(), strict=True)
        for e, sources, factors in rows:
            for k, value in enumerate(known.get(tuple(e), ())):
                if factors[k]:
                    result[sources[k]] = value / factors[k]
        return result

    def at(self, known: Mapping[int, torch.Tensor], c: torch.Tensor) -> tuple[Terms, torch.Tensor]:
        """Return the terms where some variables have values, and what becomes of parameters c.

        Terms that differ in functions of these variables alone become one. No symmetries are built
        into them, as values break them.
        """
        orders = self.chosen.cpu()
        weights = torch.ones(len(orders), 1, dtype=torch.float64)
        for j, value in known.items():
            at_value = value.detach().cpu().double()
            functions = torch.stack(self.kinds[j].jet(at_value, self.highest[j])[0])
            weights = weights * functions[orders[:, j]].unsqueeze(1)  # (term, 1)
        left = [j for j in range(len(self.kinds)) if j not in known]
        rows = orders.new_zeros(1, 0)
        place = orders.new_zeros(len(orders))
        if left:
            rows, place = orders[:, left].unique(dim=0, return_inverse=True)

        def merged(values: torch.Tensor) -> torch.Tensor:
            return values.new_zeros(len(rows), values.shape[1]).index_add(0, place, values)

        present = merged((self.factors != 0).cpu().double()) > 0
        count = int(present.sum())
        sources = torch.zeros(present.shape, dtype=torch.long)
        sources[present] = torch.arange(count)
        kinds = [self.kinds[j] for j in left]
        coefficients = self.coefficients(c).detach().cpu().double()
        result = Terms(self.degree, kinds, rows, sources, present, count, dtype=torch.float64)
        return result, merged(weights * coefficients)[present]


@cache
def _derivative(kind: Univariate, degree: int) -> torch.Tensor:
    return kind.derivative(degree)
