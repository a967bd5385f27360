"""Symplectic maps by Poincare's generating function."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.canonical import canonical_form
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.implicit import ImplicitMap, newton
from vpintegrator.nn.tensor_arguments import last_size


class SymplecticGeneratingFunction(ImplicitMap):
    r"""The symplectic map of a generating function of the midpoint.

    .. math:: z' = z + J\, \nabla S\!\left(\frac{z + z'}{2}\right), \qquad
        J = \begin{pmatrix} 0 & I \\ -I & 0 \end{pmatrix}

    The map is symplectic for every S. It is reversible, :math:`\rho \Phi \rho = \Phi^{-1}`, where
    :math:`S(\rho m) = S(m)` for a :math:`\rho` that turns the sign of the form, and commutes with
    linear symplectic maps that leave S as it is. Constants of motion k may follow (q, p); the map
    leaves them as they are.

    Equation for pairs (z, z'): :math:`J^{-1}(z' - z) = \nabla S((z + z')/2)`, linear in the
    coefficients of S.

    Parameters
    ----------
    potential : GeneratingFunction
        S, of all components of (q, p).

    Raises
    ------
    InputError
        If S has an odd number of components.

    References
    ----------
    Hairer, Lubich, Wanner, Geometric Numerical Integration, section VI.5; Feng, J. Comput. Math. 4
    (1986) 279-289.

    Examples
    --------
    >>> S = vp.nn.GeneratingFunction(2, degree=4, initial_scale=0.1)
    >>> layer = vp.nn.SymplecticGeneratingFunction(S)
    >>> z = torch.rand(2, dtype=torch.float64)
    >>> round(torch.func.jacrev(layer)(z).det().item(), 12)
    1.0
    """

    symplectic = True
    form: torch.Tensor

    def __init__(self, potential: GeneratingFunction) -> None:
        super().__init__(potential.size)
        if potential.size % 2:
            raise InputError(
                f"a generating function of states (q, p) has an even number of components, not "
                f"{potential.size}"
            )
        self.potential = potential
        self.conserved = potential.conserved
        self.dim = potential.size + potential.conserved
        self.register_buffer("form", canonical_form(potential.size), persistent=False)

    @property
    def functions(self) -> list[GeneratingFunction]:
        """The generating function alone, as a list."""
        return [self.potential]

    def coefficients(self) -> tuple[torch.Tensor, ...]:
        return (self.potential.coefficients,)

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        self.potential.adapt(torch.cat([self.outer(z), self.outer(z, backward=True)]))

    def adapt_like(self, other: SymplecticGeneratingFunction) -> None:
        """Take the box of another layer of such states."""
        self.potential.adapt_like(other.potential)
        self.set_linear(other.get_buffer("linear"))

    def _middle(self, z: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """The midpoint; of constants of motion their values."""
        n = self.potential.size
        middle = (z[..., :n] + image[..., :n]) / 2
        return torch.cat([middle, z[..., n:]], -1) if self.conserved else middle

    def residual(self, z: torch.Tensor, image: torch.Tensor, c: Any) -> torch.Tensor:
        slope = self.potential.gradient(self._middle(z, image), *c) @ self.form.mT
        n = self.potential.size
        difference = image - z
        return torch.cat([difference[..., :n] - slope, difference[..., n:]], -1)

    def solve(self, z: torch.Tensor, c: Any, backward: bool = False) -> torch.Tensor:
        last_size("z", z, {"dim": self.dim})
        n, S, sign = self.potential.size, self.potential, -1.0 if backward else 1.0
        own, rest = z[..., :n], z[..., n:]

        def at(middle: torch.Tensor) -> torch.Tensor:
            return torch.cat([middle, rest], -1) if self.conserved else middle

        one = torch.eye(n, dtype=z.dtype, device=z.device)
        turn = sign * self.form.to(z.dtype)

        def correction(image: torch.Tensor) -> torch.Tensor:
            slope, hessian = S.gradient_and_hessian(at((own + image) / 2), *c)
            defect = own - image + slope @ turn.mT
            inverse = torch.linalg.inv(one - 0.5 * (turn @ hessian))
            return (inverse @ defect.unsqueeze(-1)).squeeze(-1)

        # from the state itself: the first correction is a step of a linearly implicit method
        image = newton(own, correction, S.box_scale[:n].to(z.dtype), self.iterations)
        return torch.cat([image, rest], -1)

    def equations(self, z: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Matrix (pair, component, coefficient) and right side of linear equations for c.

        Residuals are those of the image, in the order of its components.
        """
        n = self.potential.size
        features = self.potential.features(self._middle(z, image), [(i,) for i in range(n)])
        gradient = torch.stack(features, 1)
        half = n // 2
        return torch.cat([gradient[:, half:], -gradient[:, :half]], 1), (image - z)[:, :n]

    def at(self, values: torch.Tensor) -> SymplecticGeneratingFunction:
        """The map of (q, p) where the constants of motion have these values."""
        found = SymplecticGeneratingFunction(self.potential.at(values))
        found.set_linear(self.get_buffer("linear"))
        return found
