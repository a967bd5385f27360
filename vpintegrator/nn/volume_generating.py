"""Volume-preserving maps by a chain of generating functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.implicit import ImplicitMap, newton
from vpintegrator.nn.tensor_arguments import last_size


class VolumePreservingGeneratingFunction(ImplicitMap):
    r"""The volume-preserving map of n - 1 generating functions.

    .. math:: x_j + \frac{\partial G_j}{\partial X_{j+1}} =
        X_j + \frac{\partial G_{j-1}}{\partial x_{j-1}}, \qquad j = 1, \dots, n, \quad
        G_k = G_k(x_1, \dots, x_k, X_{k+1}, \dots, X_n), \quad G_0 = G_n = 0

    Each function generates an area-preserving map of two components that depends on all the others,
    so the map :math:`x \mapsto X` preserves volume for all G. Its value takes n - 1 scalar Newton
    iterations, for X_n first. The equations of a pair (x, X) are linear in the coefficients.

    Parameters
    ----------
    functions : sequence of GeneratingFunction
        G_1, ..., G_{n-1}, each of n components and the same constants of motion after them, without
        expressions.
    repeats : int
        How often the map is applied: a step as several maps in a row, all of the same functions.

    Raises
    ------
    InputError
        If there are not n - 1 of them, of n components each.

    References
    ----------
    Feng, Shang, Numer. Math. 71 (1995) 451-463; Quispel, Phys. Lett. A 206 (1995) 26-30; Xue,
    Zanna, Discrete Contin. Dyn. Syst. 34 (2014) 1229-1249.

    Examples
    --------
    >>> G = [vp.nn.GeneratingFunction(3, degree=4, initial_scale=0.1) for _ in range(2)]
    >>> layer = vp.nn.VolumePreservingGeneratingFunction(G)
    >>> x = torch.rand(3, dtype=torch.float64)
    >>> round(torch.func.jacrev(layer)(x).det().item(), 12)
    1.0
    """

    def __init__(self, functions: Sequence[GeneratingFunction], repeats: int = 1) -> None:
        super().__init__(len(functions) + 1, repeats)
        self.functions = nn.ModuleList(functions)
        n = len(functions) + 1
        if n < 2 or any(G.size != n or len(G.formulas) for G in functions):
            raise InputError(
                "a volume-preserving map of n components needs n - 1 generating functions of n "
                "components each, without expressions"
            )
        for k, G in enumerate(functions):
            G.prepare(k, k + 1)
        self.size, self.conserved = n, functions[0].conserved
        self.dim = n + self.conserved

    @property
    def symplectic(self) -> bool:
        """Whether the map preserves the form of (q, p): in two components, area."""
        return self.size == 2

    def coefficients(self) -> tuple[torch.Tensor, ...]:
        return tuple(G.coefficients for G in self._functions)

    @property
    def degrees(self) -> torch.Tensor:
        return torch.cat([G.degrees for G in self._functions])

    @property
    def _functions(self) -> list[GeneratingFunction]:
        return list(self.functions)  # type: ignore[arg-type]

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        both = torch.cat([self.outer(z), self.outer(z, backward=True)])
        for G in self._functions:
            G.adapt(both)

    def adapt_like(self, other: VolumePreservingGeneratingFunction) -> None:
        """Take the box of another layer of such states."""
        for own, theirs in zip(self._functions, other._functions, strict=True):
            own.adapt_like(theirs)
        self.set_linear(other.get_buffer("linear"))

    def _mixed(self, x: Sequence[Any], image: Sequence[Any], k: int) -> list[torch.Tensor]:
        """Arguments of G_{k+1}: old values of components up to k, new values of the others."""
        return [*x[: k + 1], *image[k + 1 : self.size], *x[self.size :]]

    def residual(self, z: torch.Tensor, image: torch.Tensor, c: Any) -> torch.Tensor:
        x, y = z.unbind(-1), image.unbind(-1)
        found = [new - old for new, old in zip(y, x, strict=True)]
        for k, (G, own) in enumerate(zip(self._functions, c, strict=True)):
            mixed = torch.stack(self._mixed(x, y, k), -1)
            by_new, by_old = G.partials(mixed, [(k + 1,), (k,)], own)
            found[k], found[k + 1] = found[k] - by_new, found[k + 1] + by_old
        return torch.stack(found, -1)

    def solve(self, z: torch.Tensor, c: Any, backward: bool = False) -> torch.Tensor:
        last_size("z", z, {"dim": self.dim})
        given = list(z.unbind(-1))
        return torch.stack(self._backward(given, c) if backward else self._forward(given, c), -1)

    def _forward(self, x: list[torch.Tensor], c: Any) -> list[torch.Tensor]:
        image = list(x)
        known = x[self.size - 1]  # the right side of the equation for X_n, then for X_{n-1}, ...
        for k in reversed(range(self.size - 1)):
            G, own = self._functions[k], c[k]
            arguments = torch.stack(self._mixed(x, image, k), -1)  # X_{k+1} is not read
            by_old = G.along(arguments, k + 1, (k,), own)
            image[k + 1] = self._root(G, k + 1, by_old, known, x[k + 1])
            by_new = G.along(arguments, k + 1, (), own)
            _, slopes = G.functions_of(k + 1, image[k + 1], 1)
            known = x[k] + (slopes * by_new).sum(0)
        image[0] = known
        return image

    def _backward(self, image: list[torch.Tensor], c: Any) -> list[torch.Tensor]:
        x, known = list(image), image[0]
        for k in range(self.size - 1):
            G, own = self._functions[k], c[k]
            arguments = torch.stack(self._mixed(x, image, k), -1)  # x_k is not read
            by_new = G.along(arguments, k, (k + 1,), own)
            x[k] = self._root(G, k, by_new, known, image[k])
            by_old = G.along(arguments, k, (), own)
            _, slopes = G.functions_of(k, x[k], 1)
            known = image[k + 1] + (slopes * by_old).sum(0)
        x[self.size - 1] = known
        return x

    def _root(
        self,
        G: GeneratingFunction,
        component: int,
        weights: torch.Tensor,
        known: torch.Tensor,
        start: torch.Tensor,
    ) -> torch.Tensor:
        """The solution y of y + sum of weights times functions of y = known."""

        def correction(y: torch.Tensor) -> torch.Tensor:
            values, slopes = G.functions_of(component, y.squeeze(-1), 1)
            defect = known - y.squeeze(-1) - (values * weights).sum(0)
            return (defect / (1 + (slopes * weights).sum(0))).unsqueeze(-1)

        size = G.box_scale[component].to(start.dtype)
        return newton(start.unsqueeze(-1), correction, size, self.iterations).squeeze(-1)

    def equations(self, z: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Matrix (pair, component, coefficient) and right side of linear equations for c."""
        x, y = z.unbind(-1), image.unbind(-1)
        counts = [G.coefficients.numel() for G in self._functions]
        matrix, first = z.new_zeros(len(z), self.size, sum(counts)), 0
        for k, (G, count) in enumerate(zip(self._functions, counts, strict=True)):
            mixed = torch.stack(self._mixed(x, y, k), -1)
            by_new, by_old = G.features(mixed, [(k + 1,), (k,)])
            matrix[:, k, first : first + count] += by_new
            matrix[:, k + 1, first : first + count] -= by_old
            first += count
        return matrix, (image - z)[:, : self.size]

    def at(self, values: torch.Tensor) -> VolumePreservingGeneratingFunction:
        """The map of the other components where the constants of motion have these values."""
        functions = [G.at(values) for G in self._functions]
        found = VolumePreservingGeneratingFunction(functions, self.repeats)
        found.set_linear(self.get_buffer("linear"))
        found.settle_like(self)
        return found
