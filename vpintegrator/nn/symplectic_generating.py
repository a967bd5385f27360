"""Symplectic maps by Poincare's generating function."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.canonical import canonical_form, check_even
from vpintegrator.nn.elementary_hamiltonians import ElementaryHamiltonians
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.implicit import ImplicitMap, newton
from vpintegrator.nn.layer import on_cpu

_BLOCK = 1024  # states; 64 take ten times as long each
_LINEAR = 1e-4  # relative tolerance; linear convergence shrinks corrections at least by this factor


class SymplecticGeneratingFunction(ImplicitMap):
    r"""The symplectic map of a generating function of the midpoint.

    .. math:: z' = z + J\, \nabla S\!\left(\frac{z + z'}{2}\right), \qquad
        J = \begin{pmatrix} 0 & I \\ -I & 0 \end{pmatrix}

    The map is symplectic for every S. It is reversible, :math:`\rho \Phi \rho = \Phi^{-1}`, where
    :math:`S(\rho m) = S(m)` for a :math:`\rho` that turns the sign of the form, and commutes with
    linear symplectic maps that leave S as it is.

    Equation for pairs (z, z'): :math:`J^{-1}(z' - z) = \nabla S((z + z')/2)`, linear in the
    coefficients of S.

    Parameters
    ----------
    potential : GeneratingFunction
        S, of all components of (q, p).
    exact : ElementaryHamiltonians, optional
        Terms of a known Hamiltonian that are added to S.
    repeats : int
        Number of successive maps in a step, all of the same S.

    Raises
    ------
    InputError
        If S has an odd number of components, or the exact terms have other ones.

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

    @on_cpu
    def __init__(
        self,
        potential: GeneratingFunction,
        exact: ElementaryHamiltonians | None = None,
        repeats: int = 1,
    ) -> None:
        super().__init__(potential.size, repeats, potential)
        check_even(potential.size)
        own = (potential.size, potential.parameter_count)
        if exact is not None and (exact.size, exact.parameter_count) != own:
            raise InputError("the exact terms are of other components than the potential")
        self.potential, self.exact = potential, exact
        self.dim, self.parameter_count = own
        self.constant("form", canonical_form(potential.size))

    def coefficients(self) -> tuple[torch.Tensor, ...]:
        exact = () if self.exact is None else (self.exact.coefficients,)
        return (self.potential.coefficients, *exact)

    @property
    def block(self) -> int:
        # exact terms are many small operations, which cost the same for few states
        return super().block if self.exact is None else max(super().block, _BLOCK)

    @property
    def degrees(self) -> torch.Tensor:
        exact = 0 if self.exact is None else self.exact.coefficients.numel()
        return torch.cat([self.potential.degrees, torch.ones(exact, dtype=torch.long)])

    @property
    def exact_places(self) -> range:
        first = self.potential.coefficients.numel()
        return range(first, first + (0 if self.exact is None else self.exact.coefficients.numel()))

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        self.potential.adapt(torch.cat([self.outer(z), self.outer(z, backward=True)]))
        if self.exact is not None:
            self.exact.adapt(z)

    def _middle(self, z: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Return the midpoint of the states, and the parameters."""
        n = self.potential.size
        middle = (z[..., :n] + image[..., :n]) / 2
        return torch.cat([middle, z[..., n:]], -1) if self.parameter_count else middle

    def residual(self, z: torch.Tensor, image: torch.Tensor, c: Any) -> torch.Tensor:
        middle, n = self._middle(z, image), self.potential.size
        gradient = self.potential.gradient(middle, c[0])  # (..., size)
        if self.exact is not None:
            gradient = gradient + self.exact.gradient(middle, c[1])
        slope = gradient @ self.form.mT  # (..., size)
        difference = image - z  # (..., dim)
        return torch.cat([difference[..., :n] - slope, difference[..., n:]], -1)

    def solve(self, z: torch.Tensor, c: Any, backward: bool = False) -> torch.Tensor:
        n, S, sign = self.potential.size, self.potential, -1.0 if backward else 1.0
        own, rest = z[..., :n], z[..., n:]
        one = torch.eye(n, dtype=z.dtype, device=z.device)
        turn = sign * self.form.to(z.dtype)

        def corrected(
            image: torch.Tensor, slope: torch.Tensor, hessian: torch.Tensor
        ) -> torch.Tensor:
            defect = own - image + slope @ turn.mT  # (..., size)
            inverse = torch.linalg.inv(one - 0.5 * (turn @ hessian))  # (..., size, size)
            return (inverse @ defect.unsqueeze(-1)).squeeze(-1)  # (..., size)

        def polynomials(image: torch.Tensor) -> torch.Tensor:
            return corrected(image, *S.gradient_and_hessian(self._middle(z, image), c[0]))

        # from the state itself: the first correction is a step of a linearly implicit method
        size = S.box_scale[:n].to(z.dtype)
        if (exact := self.exact) is None:
            image = newton(own, polynomials, size, self.iterations)
            return torch.cat([image, rest], -1)

        # the terms beside H are small and cost most, as do their second derivatives: one step
        # without them, then the small part of the matrix as it is there
        slope, hessian = S.gradient_and_hessian(z, c[0])
        first, second = exact.leading(z, c[1])
        start = own + corrected(own, slope + first, hessian + second)
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
        gradient = self.potential.gradient_features(middle)  # (pair, size, coefficient)
        if self.exact is not None:
            gradient = torch.cat([gradient, self.exact.gradients(middle).mT], 2)
        half = n // 2
        return torch.cat([gradient[:, half:], -gradient[:, :half]], 1), (image - z)[:, :n]

    def at(self, parameters: torch.Tensor) -> SymplecticGeneratingFunction:
        """Return the map at parameters (m,), which are multiplied out."""
        exact = None if self.exact is None else self.exact.at(parameters)
        result = SymplecticGeneratingFunction(self.potential.at(parameters), exact, self.repeats)
        result.settle_like(self)
        return result
