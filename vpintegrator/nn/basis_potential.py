"""Potentials that are linear combinations of given functions, with their gradients written out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.argument_values import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import (
    SignedPermutations,
    chebyshev,
    chebyshev_derivatives,
    checked_degree,
    equivariant_coefficients,
    harmonic_derivatives,
    harmonics,
    moves_of_terms,
    orders,
    restricted,
    terms,
)
from vpintegrator.nn.formulas import Formulas
from vpintegrator.nn.tensor_arguments import as_dtype


class BasisPotential(nn.Module):
    """V(x) = sum_e c_e phi_e(x) over products of Chebyshev polynomials, and harmonics of angles.

    Functions of x, given as formulas, may join the components as further variables of the
    polynomials.

    Parameters
    ----------
    size : int
        Components of x.
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic : sequence of int
        Components that are angles, in radians.
    expressions : sequence of str
        Formulas such as ``sigmoid(z[0])``, of the components of a state as they are before
        normalisation (see ``set_units``). Those count that the group takes to one another or to
        their negatives.
    components : sequence of int, optional
        The numbers i of the components ``z[i]`` of a state that x holds; by default 0 ... size - 1.
    group : Tensor, (element, size, size), optional
        What V is invariant under, signed permutations: only the terms that it allows have
        parameters.
    involved : sequence of sequences of int
        A term has a function of at least one component of each; by default any term will do.
    initial_scale : float
        Size of the initial coefficients of degree 1; those of degree n are n^2 times smaller.

    Raises
    ------
    InputError
        If the group holds other matrices than signed permutations, or leaves no term or none of the
        expressions; if an expression is of other components.

    Examples
    --------
    >>> V = vp.nn.BasisPotential(2, degree=4, periodic=[0])
    >>> D = torch.func.jacrev(V.gradient)(torch.rand(2, dtype=torch.float64))
    >>> bool(torch.allclose(D, D.mT))  # that of a gradient is symmetric
    True
    """

    polynomial = True  # can take the terms of a smaller one
    chosen: torch.Tensor
    sources: torch.Tensor
    factors: torch.Tensor
    state_shift: torch.Tensor
    state_scale: torch.Tensor
    formula_shift: torch.Tensor
    formula_scale: torch.Tensor

    def __init__(
        self,
        size: int,
        degree: int = 6,
        *,
        periodic: Sequence[int] = (),
        cyclic: Sequence[int] = (),
        expressions: Sequence[str] = (),
        components: Sequence[int] | None = None,
        group: torch.Tensor | None = None,
        involved: Sequence[Sequence[int]] = (),
        initial_scale: float = 1e-3,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.size, self.degree = whole("size", size), checked_degree(degree)
        self.components = list(range(size) if components is None else components)
        group = torch.eye(size, dtype=torch.float64).unsqueeze(0) if group is None else group
        moves = moves_of_terms(group)
        self.formulas = Formulas((), max(self.components) + 1, self.components)
        if len(expressions):
            moves = self._place_formulas(expressions, group, moves, as_dtype(dtype))
        self.periodic = [index in periodic for index in range(size)] + [False] * len(self.formulas)
        indices = [  # a constant has no gradient
            e
            for e in terms(degree, self.periodic, [index in cyclic for index in range(size)])[1:]
            if all(any(e[j] for j in block) for block in involved)
        ]
        value = torch.zeros(len(group), 1, dtype=torch.long), torch.ones(len(group), 1)
        sources, factors, count = equivariant_coefficients(indices, self.periodic, moves, value)
        used = (factors != 0).any(1)
        if not count:
            raise InputError(
                f"no potential of degree {degree} is allowed by the symmetries; take a higher one"
            )
        chosen = torch.tensor(indices)[used]
        self.register_buffer("chosen", chosen, persistent=False)
        self.register_buffer("sources", sources[used, 0], persistent=False)
        self.register_buffer("factors", factors[used, 0].to(as_dtype(dtype)), persistent=False)
        each = [orders(degree, angle) for angle in self.periodic]
        sizes = torch.ones(count)
        for e, source in zip(chosen.tolist(), self.sources.tolist(), strict=True):
            sizes[source] = max(1, sum(each[j][i] for j, i in enumerate(e)))
        start = initial_scale / sizes**2 * torch.randn(count)
        self.coefficients = nn.Parameter(start.to(as_dtype(dtype)))

    def _place_formulas(
        self,
        expressions: Sequence[str],
        group: torch.Tensor,
        moves: SignedPermutations,
        dtype: torch.dtype,
    ) -> SignedPermutations:
        """Take the formulas that the group allows; what it does to components and formulas."""
        dim = max(self.components) + 1
        formulas = Formulas(expressions, dim, self.components)
        own, closed = formulas.moves(group)
        if not closed:
            raise InputError("the symmetries respect none of the expressions; leave them out")
        self.formulas = Formulas([formulas.texts[n] for n in closed], dim, self.components)
        self._moves = restricted(own, closed)
        for name in ("shift", "scale"):
            self.register_buffer(f"state_{name}", torch.zeros(self.size, dtype=dtype))
            self.register_buffer(f"formula_{name}", torch.zeros(len(closed), dtype=dtype))
        self.set_units(torch.zeros(dim), torch.ones(dim))
        places, signs = self._moves
        return (
            torch.cat([moves[0], places + self.size], 1),
            torch.cat([moves[1], signs], 1),
        )

    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Say that states are (z - shift) / scale, z being what the formulas are about.

        Formulas are normalised too, to their median and spread at states like these.
        """
        if not len(self.formulas):
            return
        shift, scale = shift[self.components], scale[self.components]
        with torch.no_grad():
            self.state_shift.copy_(shift)
            self.state_scale.copy_(scale)
            middle, size = self.formulas.units(shift, scale, self._moves)
            self.formula_shift.copy_(middle)
            self.formula_scale.copy_(size)

    def _variables(
        self, x: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[dict[int, torch.Tensor]]]:
        """What polynomials are of, components and formulas; of these, the derivatives by x."""
        variables = list(x.unbind(-1))
        if not len(self.formulas):
            return variables, []
        values, slopes = self.formulas.with_slopes(x * self.state_scale + self.state_shift)
        units = self.state_scale.unbind()
        found = []
        for value, by_component, shift, scale in zip(
            values, slopes, self.formula_shift.unbind(), self.formula_scale.unbind(), strict=True
        ):
            variables.append((value - shift) / scale)
            found.append({j: slope * (units[j] / scale) for j, slope in by_component.items()})
        return variables, found

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """grad V at x (..., size)."""
        variables, inner = self._variables(x)
        values, slopes = [], []
        for j, (u, angle) in enumerate(zip(variables, self.periodic, strict=True)):
            functions = (harmonics if angle else chebyshev)(u, self.degree)
            own = (harmonic_derivatives if angle else chebyshev_derivatives)(u, functions)
            picked = self.chosen[:, j]
            values.append(torch.stack(functions, -1).index_select(-1, picked))
            slopes.append(torch.stack(own, -1).index_select(-1, picked))
        coefficients = self.coefficients.index_select(0, self.sources) * self.factors
        # products of all the others, from those before and those after
        before = [coefficients.expand(values[0].shape)]
        for u in values[:-1]:
            before.append(before[-1] * u)
        after: torch.Tensor | None = None
        parts = []
        for j in reversed(range(len(variables))):
            part = before[j] * slopes[j]
            parts.append((part if after is None else part * after).sum(-1))
            after = values[j] if after is None else after * values[j]
        found = parts[::-1]
        for part, by_component in zip(found[self.size :], inner, strict=True):
            for j, slope in by_component.items():
                found[j] = found[j] + part * slope
        return torch.stack(found[: self.size], -1)

    def take(self, smaller: BasisPotential) -> None:
        """Become the potential of the same components and symmetries, of no higher degree."""
        values = smaller.coefficients.index_select(0, smaller.sources) * smaller.factors
        known = {tuple(e): v for e, v in zip(smaller.chosen.tolist(), values, strict=True)}
        own = dict(self.named_buffers())
        with torch.no_grad():
            self.coefficients.zero_()
            for n, e in enumerate(self.chosen.tolist()):
                if tuple(e) in known:
                    self.coefficients[self.sources[n]] = known[tuple(e)] / self.factors[n]
            for name, value in smaller.state_dict().items():  # of formulas
                if name in own:
                    own[name].copy_(value)

    def extra_repr(self) -> str:
        return f"size={self.size}, degree={self.degree}, parameters={self.coefficients.numel()}"
