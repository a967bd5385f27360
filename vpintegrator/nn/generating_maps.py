"""Maps by generating functions: symplectic ones, and volume-preserving ones by a chain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.elementary_hamiltonians import ElementaryHamiltonians
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.implicit import ImplicitMap, newton
from vpintegrator.nn.invariant_polynomial import InvariantPolynomial
from vpintegrator.nn.layer import on_cpu
from vpintegrator.nn.symmetry import canonical_form, check_even

_BLOCK = 1024  # states; 64 take ten times as long each
_LINEAR = 1e-4  # relative tolerance; linear convergence shrinks corrections at least by this factor


class SymplecticGeneratingFunction(ImplicitMap):
    r"""The symplectic map of a generating function of the midpoint.

    .. math:: z' = z + J\, \nabla S\!\left(\frac{z + z'}{2}\right), \qquad
        J = \begin{pmatrix} 0 & I \\ -I & 0 \end{pmatrix}

    The map is symplectic for every S. It is reversible, :math:`\rho \Phi \rho = \Phi^{-1}`, where
    :math:`S(\rho m) = S(m)` for a :math:`\rho` that turns the sign of the form, and commutes with
    linear symplectic maps that leave S as it is. S may be a function of linear combinations
    :math:`u = M m` of the components, such as differences of angles. A quadratic function g is an
    invariant of the map where S is constant along its flow:
    :math:`g(z') - g(z) = \nabla g(m)^T J\, \nabla S(m) = 0`.

    Equation for pairs (z, z'): :math:`J^{-1}(z' - z) = \nabla S((z + z')/2)`, linear in the
    coefficients of S.

    Parameters
    ----------
    potential : GeneratingFunction or InvariantPolynomial
        S, of all components of (q, p).
    exact : ElementaryHamiltonians, optional
        Terms of a known Hamiltonian that are added to S.
    repeats : int
        Number of successive maps in a step, all of the same S.
    combinations : Tensor (size, size), optional
        M, which is invertible; by default S is a function of the components themselves.

    Raises
    ------
    InputError
        If S has an odd number of components, the exact terms have other ones, or there are exact
        terms beside combinations.

    References
    ----------
    Hairer, Lubich, Wanner, Geometric Numerical Integration, section VI.5; Feng, J. Comput. Math. 4
    (1986) 279-289.

    Examples
    --------
    >>> S = vp.nn.GeneratingFunction(2, degree=4, initial_scale=0.1, dtype=torch.float64)
    >>> layer = vp.nn.SymplecticGeneratingFunction(S)
    >>> z = torch.rand(2, dtype=torch.float64)
    >>> round(torch.func.jacrev(layer)(z).det().item(), 12)
    1.0
    """

    symplectic = True
    reversible_by_terms = True  # by the choice of the terms, without psi R psi^-1 R
    form: torch.Tensor
    combinations: torch.Tensor | None

    @on_cpu
    def __init__(
        self,
        potential: GeneratingFunction | InvariantPolynomial,
        exact: ElementaryHamiltonians | None = None,
        repeats: int = 1,
        combinations: torch.Tensor | None = None,
    ) -> None:
        super().__init__(potential.size, repeats, potential)
        check_even(potential.size)
        if combinations is not None and exact is not None:
            raise InputError("combinations are for polynomials alone, without exact terms")
        sizes = (potential.size, potential.parameter_count)
        if exact is not None and (exact.size, exact.parameter_count) != sizes:
            raise InputError("the exact terms are of other components than the potential")
        self.potential = potential
        self.exact = exact
        self.dim, self.parameter_count = sizes
        self.constant("form", canonical_form(potential.size))
        self.constant("combinations", combinations)

    def coefficients(self) -> tuple[torch.Tensor, ...]:
        exact = () if self.exact is None else (self.exact.coefficients,)
        return (self.potential.coefficients, *exact)

    @property
    def quadratic_invariants(self) -> torch.Tensor:
        """Matrices F (function, 1 + size, 1 + size) of what the map keeps, (1, z)^T F (1, z).

        None where a linear map is before and after it, which does not keep them.
        """
        S = self.potential
        n = S.size
        is_invariant = isinstance(S, InvariantPolynomial) and not self.has_linear
        if not is_invariant or self.combinations is None:
            return torch.zeros(0, 1 + n, 1 + n)
        rows = torch.cat([-S.box_shift[:, None], self.combinations], 1).double()  # (size, 1 + size)
        squares = rows[:, :, None] * rows[:, None, :] / 2
        of_planes = squares.unflatten(0, (-1, 2)).sum(1)  # (plane, 1 + size, 1 + size)
        return torch.tensordot(S.kept.to(of_planes), of_planes, 1)

    @property
    def block(self) -> int:
        # exact terms are many small operations, which cost the same for few states
        return super().block if self.exact is None else max(super().block, _BLOCK)

    @property
    def degrees(self) -> torch.Tensor:
        exact = 0 if self.exact is None else self.exact.coefficients.numel()
        return torch.cat([self.potential.terms.degrees, torch.ones(exact, dtype=torch.long)])

    @property
    def exact_places(self) -> range:
        first = self.potential.coefficients.numel()
        return range(first, first + (0 if self.exact is None else self.exact.coefficients.numel()))

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        both = torch.cat([self.outer(z), self.outer(z, backward=True)])  # (2 * state, dim)
        n = self.potential.size
        self.potential.adapt(torch.cat([self._combined(both[:, :n]), both[:, n:]], -1))
        if self.exact is not None:
            self.exact.adapt(z)

    def _combined(self, z: torch.Tensor) -> torch.Tensor:
        """Return the variables (..., size) of S at components (..., size)."""
        M = self.combinations
        return z if M is None else z @ M.to(z).mT

    def _slope(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient (..., size) by components from that by the variables of S."""
        M = self.combinations
        return gradient if M is None else gradient @ M.to(gradient)

    def _middle(self, z: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Return the variables of S at the midpoint of the states, and the parameters."""
        n = self.potential.size
        middle = self._combined((z[..., :n] + image[..., :n]) / 2)
        return torch.cat([middle, z[..., n:]], -1) if self.parameter_count else middle

    def residual(self, z: torch.Tensor, image: torch.Tensor, c: Any) -> torch.Tensor:
        middle = self._middle(z, image)
        n = self.potential.size
        gradient = self._slope(self.potential.gradient(middle, c[0]))  # (..., size)
        if self.exact is not None:
            gradient = gradient + self.exact.gradient(middle, c[1])
        slope = gradient @ self.form.mT  # (..., size)
        difference = image - z  # (..., dim)
        return torch.cat([difference[..., :n] - slope, difference[..., n:]], -1)

    def solve(self, z: torch.Tensor, c: Any, backward: bool = False) -> torch.Tensor:
        n = self.potential.size
        S = self.potential
        sign = -1.0 if backward else 1.0
        state = z[..., :n]
        rest = z[..., n:]
        one = torch.eye(n, dtype=z.dtype, device=z.device)
        turn = sign * self.form.to(z.dtype)

        def corrected(
            image: torch.Tensor, slope: torch.Tensor, hessian: torch.Tensor
        ) -> torch.Tensor:
            defect = state - image + slope @ turn.mT  # (..., size)
            inverse = torch.linalg.inv(one - 0.5 * (turn @ hessian))  # (..., size, size)
            return (inverse @ defect.unsqueeze(-1)).squeeze(-1)  # (..., size)

        def polynomials(image: torch.Tensor) -> torch.Tensor:
            gradient, hessian = S.gradient_and_hessian(self._middle(z, image), c[0])
            if (M := self.combinations) is not None:
                hessian = M.to(hessian).mT @ hessian @ M.to(hessian)  # (..., size, size)
            return corrected(image, self._slope(gradient), hessian)

        # from the state itself: the first correction is a step of a linearly implicit method
        size = S.box_scale[:n].to(z.dtype)
        if (M := self.combinations) is not None:
            size = torch.linalg.inv(M.to(z)).abs() @ size
        if (exact := self.exact) is None:
            image = newton(state, polynomials, size, self.iterations)
            return torch.cat([image, rest], -1)

        # the terms beside H are small and cost most, as do their second derivatives: one step
        # without them, then the small part of the matrix as it is there
        slope, hessian = S.gradient_and_hessian(z, c[0])
        first, second = exact.leading(z, c[1])
        start = state + corrected(state, slope + first, hessian + second)
        further = exact.hessian(self._middle(z, start), c[1], 1)

        def correction(image: torch.Tensor) -> torch.Tensor:
            middle = self._middle(z, image)  # (..., dim)
            slope, hessian = S.gradient_and_hessian(middle, c[0])
            hessian = hessian + exact.hessian(middle, c[1]) + further
            return corrected(image, slope + exact.gradient(middle, c[1]), hessian)

        image = newton(start, correction, size * _LINEAR, self.iterations)
        return torch.cat([image, rest], -1)

    def equations(self, z: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return matrix (pair, component, coefficient) and right side of linear equations for c.

        Residuals are those of the image, in the order of its components.
        """
        n = self.potential.size
        middle = self._middle(z, image)  # (..., dim)
        slopes = self.potential.features(middle, [(i,) for i in range(n)])
        gradient = torch.stack(slopes, 1)  # (pair, size, coefficient)
        if (M := self.combinations) is not None:
            gradient = M.to(gradient).mT @ gradient
        if self.exact is not None:
            gradient = torch.cat([gradient, self.exact.gradients(middle).mT], 2)
        half = n // 2
        return torch.cat([gradient[:, half:], -gradient[:, :half]], 1), (image - z)[:, :n]

    def at(self, parameters: torch.Tensor) -> SymplecticGeneratingFunction:
        """Return the map at parameters (m,), which are multiplied out."""
        exact = None if self.exact is None else self.exact.at(parameters)
        assert isinstance(self.potential, GeneratingFunction)  # others read no parameters
        potential = self.potential.at(parameters)
        result = SymplecticGeneratingFunction(potential, exact, self.repeats, self.combinations)
        result.settle_like(self)
        return result


class VolumePreservingGeneratingFunction(ImplicitMap):
    r"""The volume-preserving map of n - 1 generating functions.

    .. math:: x_j + \frac{\partial G_j}{\partial X_{j+1}} =
        X_j + \frac{\partial G_{j-1}}{\partial x_{j-1}}, \qquad j = 1, \dots, n, \quad
        G_k = G_k(x_1, \dots, x_k, X_{k+1}, \dots, X_n), \quad G_0 = G_n = 0

    Each function generates an area-preserving map of two components that depends on all the others,
    so the map :math:`x \mapsto X` preserves volume for all G. Its value takes n - 1 scalar Newton
    iterations, for X_n first. The equations of a pair (x, X) are linear in the coefficients.

    Further functions :math:`G_{ab}(x_1, \dots, x_a, X_b, \dots, X_n)` are of two components that
    are not neighbours:

    .. math:: (X_j - x_j) \Bigl(1 + \sum_{a<j<b} \frac{\partial^2 G_{ab}}{\partial x_a\,
        \partial X_b}\Bigr) = \sum_{b>j} \frac{\partial G_{jb}}{\partial X_b} -
        \sum_{a<j} \frac{\partial G_{aj}}{\partial x_a}, \qquad G_{k,k+1} = G_k

    They give what no periodic G_k does: an increment of x_a that does not depend on an angle
    between x_a and x_b.

    Parameters
    ----------
    functions : sequence of GeneratingFunction
        G_1, ..., G_{n-1}, each of n components and the same parameters.
    repeats : int
        Number of successive maps in a step, all of the same functions.
    pairs : sequence of (a, b), optional
        The two components of each function, counted from 0, a < b; by default (0, 1), (1, 2), ...

    Raises
    ------
    InputError
        If there are not n - 1 functions, or not one for each of the pairs; if they are not of n
        components each; if one depends on components between its two.

    References
    ----------
    Feng, Shang, Numer. Math. 71 (1995) 451-463; Quispel, Phys. Lett. A 206 (1995) 26-30; Xue,
    Zanna, Discrete Contin. Dyn. Syst. 34 (2014) 1229-1249.

    Examples
    --------
    >>> options = {"degree": 4, "initial_scale": 0.1, "dtype": torch.float64}
    >>> G = [vp.nn.GeneratingFunction(3, **options) for _ in range(2)]
    >>> layer = vp.nn.VolumePreservingGeneratingFunction(G)
    >>> x = torch.rand(3, dtype=torch.float64)
    >>> round(torch.func.jacrev(layer)(x).det().item(), 12)
    1.0
    """

    @on_cpu
    def __init__(
        self,
        functions: Sequence[GeneratingFunction],
        repeats: int = 1,
        *,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        n = len(functions) + 1 if pairs is None else 1 + max((b for _, b in pairs), default=0)
        super().__init__(n, repeats, nn.ModuleList(functions))
        self.functions = nn.ModuleList(functions)
        self.pairs = list(itertools.pairwise(range(n)) if pairs is None else pairs)
        fits = len(self.pairs) == len(functions) and all(0 <= a < b for a, b in self.pairs)
        if n < 2 or not fits or any(G.size != n for G in functions):
            raise InputError(
                "a volume-preserving map of n components needs generating functions of n "
                "components each, and two components a < b for each of the functions"
            )
        for (a, b), G in zip(self.pairs, functions, strict=True):
            if bool(G.terms.chosen[:, a + 1 : b].any()):
                raise InputError(
                    f"the function of the components {a} and {b} depends on one between them; make "
                    "these cyclic"
                )
            for component in (a, b):
                G.plan([component])
        self.size = self.dim = n
        self.parameter_count = functions[0].parameter_count

    @property
    def symplectic(self) -> bool:
        """Whether the map preserves the form of (q, p): in two components, area."""
        return self.size == 2

    def coefficients(self) -> tuple[torch.Tensor, ...]:
        return tuple(G.coefficients for G in self._functions)

    @property
    def degrees(self) -> torch.Tensor:
        return torch.cat([G.terms.degrees for G in self._functions])

    @property
    def _functions(self) -> list[GeneratingFunction]:
        return list(self.functions)  # type: ignore[arg-type]

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        both = torch.cat([self.outer(z), self.outer(z, backward=True)])  # (2 * state, dim)
        for G in self._functions:
            G.adapt(both)

    def prolong(self, smaller: VolumePreservingGeneratingFunction) -> None:
        """Take the coefficients of a map of the same box and no higher degree."""
        known = dict(zip(smaller.pairs, smaller._functions, strict=True))
        for pair, G in zip(self.pairs, self._functions, strict=True):
            if pair in known:
                G.prolong(known[pair])
        self.settle_like(smaller)

    def _mixed(self, x: Sequence[Any], image: Sequence[Any], pair: tuple[int, int]) -> torch.Tensor:
        """Return the arguments of G_ab: old values up to a, new ones from b on."""
        b = pair[1]
        return torch.stack([*x[:b], *image[b : self.size], *x[self.size :]], -1)  # (..., dim)

    def residual(self, z: torch.Tensor, image: torch.Tensor, c: Any) -> torch.Tensor:
        # (...) each
        x = z.unbind(-1)
        y = image.unbind(-1)
        moves = [new - old for new, old in zip(y, x, strict=True)]
        result = [*moves]
        for (a, b), G, weights in zip(self.pairs, self._functions, c, strict=True):
            orders = [(b,), (a,), (a, b)][: 2 if b == a + 1 else 3]
            by_new, by_old, *mixed = G.partials(self._mixed(x, y, (a, b)), orders, weights)
            result[a] = result[a] - by_new
            result[b] = result[b] + by_old
            for j in range(a + 1, b):
                result[j] = result[j] + moves[j] * mixed[0]
        return torch.stack(result, -1)

    def solve(self, z: torch.Tensor, c: Any, backward: bool = False) -> torch.Tensor:
        start = list(z.unbind(-1))  # (...) each
        result = [*start]
        x, image = (result, start) if backward else (start, result)
        # known parts of both sides of the equations (X_j - x_j) stretch_j = moved_j
        moved: list[Any] = [0.0] * self.size
        stretch: list[Any] = [1.0] * self.size
        for j in range(self.size) if backward else reversed(range(self.size)):
            sums = []
            for pair, G, own in zip(self.pairs, self._functions, c, strict=True):
                if pair[0 if backward else 1] == j:
                    other = pair[1 if backward else 0]
                    arguments = self._mixed(x, image, pair)  # component j is not read
                    by_other = G.along(arguments, j, (other,), own)
                    sums.append((other, G, by_other, G.along(arguments, j, (), own)))
            parts = [(G, weights) for _, G, weights, _ in sums]
            result[j] = self._root(j, parts, moved[j], stretch[j], start[j])
            for other, G, by_other, along in sums:
                _, slopes = G.functions_of(j, result[j], 1)
                moved[other] = moved[other] + (slopes * along).sum(0)
                for between in range(min(j, other) + 1, max(j, other)):
                    stretch[between] = stretch[between] + (slopes * by_other).sum(0)
        return torch.stack(result, -1)

    def _root(
        self,
        component: int,
        parts: Sequence[tuple[GeneratingFunction, torch.Tensor]],
        moved: torch.Tensor,
        stretch: torch.Tensor,
        start: torch.Tensor,
    ) -> torch.Tensor:
        """Return the y with (y - start) stretch + sum of weights times functions of y = moved."""
        if not parts:
            return start + moved / stretch

        def correction(y: torch.Tensor) -> torch.Tensor:
            y = y.squeeze(-1)
            defect = moved - (y - start) * stretch
            slope = stretch
            for G, weights in parts:
                values, slopes = G.functions_of(component, y, 1)
                defect = defect - (values * weights).sum(0)
                slope = slope + (slopes * weights).sum(0)
            return (defect / slope).unsqueeze(-1)

        size = parts[0][0].box_scale[component].to(start.dtype)
        return newton(start.unsqueeze(-1), correction, size, self.iterations).squeeze(-1)

    def equations(self, z: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return matrix (pair, component, coefficient) and right side of linear equations for c."""
        # (...) each
        x = z.unbind(-1)
        y = image.unbind(-1)
        right = (image - z)[:, : self.size]  # (pair, component)
        counts = [G.coefficients.numel() for G in self._functions]
        matrix = z.new_zeros(len(z), self.size, sum(counts))
        first = 0
        for (a, b), G, count in zip(self.pairs, self._functions, counts, strict=True):
            orders = [(b,), (a,), (a, b)][: 2 if b == a + 1 else 3]
            by_new, by_old, *mixed = G.features(self._mixed(x, y, (a, b)), orders)
            columns = matrix[:, :, first : first + count]
            columns[:, a] += by_new
            columns[:, b] -= by_old
            for j in range(a + 1, b):
                columns[:, j] -= right[:, j : j + 1] * mixed[0]
            first += count
        return matrix, right

    def at(self, parameters: torch.Tensor) -> VolumePreservingGeneratingFunction:
        """Return the map at parameters (m,), which are multiplied out."""
        functions = [G.at(parameters) for G in self._functions]
        result = VolumePreservingGeneratingFunction(functions, self.repeats, pairs=self.pairs)
        result.settle_like(self)
        return result
