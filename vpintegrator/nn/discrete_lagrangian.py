"""The map of two steps that a discrete Lagrangian defines, for positions without momenta."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.implicit import ImplicitMap, newton
from vpintegrator.nn.layer import beside, check_parameters, last_size, on_cpu
from vpintegrator.nn.symmetry import check_even, invariant_entries


class DiscreteLagrangian(ImplicitMap):
    r"""The map :math:`(q_{n-1}, q_n) \mapsto (q_n, q_{n+1})` of a discrete Lagrangian.

    .. math:: D_2 L(q_{n-1}, q_n) + D_1 L(q_n, q_{n+1}) = 0, \qquad
        L(q, r) = \tfrac12 |v|^2 + S(m, v), \quad m = \frac{q + r}{2}, \quad v = r - q

    The map preserves the form :math:`-D_1 D_2 L\, dq \wedge dr` of two positions for every S, and
    is reversible where S is even in v. With S = 0 it is free motion,
    :math:`q_{n+1} = 2 q_n - q_{n-1}`. Of an angle, v is the shortest way. Windows of more than two
    positions are shifted, and the last two give the next.

    Linear damping adds the forces :math:`F^\pm = -\tfrac12 \Gamma v` to the equations,

    .. math:: D_2 L(q_{n-1}, q_n) + F^+(q_{n-1}, q_n) + D_1 L(q_n, q_{n+1}) + F^-(q_n, q_{n+1}) = 0.

    The equations of three positions are linear in the coefficients of S and in :math:`\Gamma`.

    Parameters
    ----------
    function : GeneratingFunction
        S, of all components of (m, v), and of parameters.
    group : Tensor, (element, n, n), optional
        Symmetries of positions that the damping respects.
    damped : bool
        Whether there is linear damping; :math:`\Gamma` is zero at first.

    Raises
    ------
    InputError
        If S has an odd number of components.

    References
    ----------
    Marsden, West, Acta Numerica 10 (2001) 357-514.

    Examples
    --------
    >>> S = vp.nn.GeneratingFunction(4, degree=4, initial_scale=0.1, dtype=torch.float64)
    >>> layer = vp.nn.DiscreteLagrangian(S)
    >>> window = 0.1 * torch.rand(2, 2, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(window)), window))
    True
    """

    reversible_by_terms = True
    volume_preserving = False  # the volume of its own form, whose density varies

    @on_cpu
    def __init__(
        self,
        function: GeneratingFunction,
        group: torch.Tensor | None = None,
        damped: bool = False,
    ) -> None:
        super().__init__(function.size, 1, function)
        check_even(function.size, ": a Lagrangian is a function of as many of m as of v")
        self.function = function
        self.damped = damped
        self.dim = function.size // 2
        self.parameter_count = function.parameter_count
        self.angles = [i for i in range(self.dim) if function.terms.kinds[i].is_angle]
        if damped:
            one = torch.eye(self.dim, dtype=torch.float64).unsqueeze(0)
            sources, factors, count = invariant_entries("any", one if group is None else group)
            self.constant("damping_sources", sources)
            self.constant("damping_factors", factors)
            self.damping_entries = nn.Parameter(torch.zeros(count, **self.factory_kwargs))
        # summation is planned before a compiler traces the function
        function.plan()

    def coefficients(self) -> tuple[torch.Tensor, ...]:
        damping = (self.damping_entries,) if self.damped else ()
        return (self.function.coefficients, *damping)

    @property
    def degrees(self) -> torch.Tensor:
        damping = self.damping_entries.numel() if self.damped else 0
        return torch.cat([self.function.terms.degrees, torch.ones(damping, dtype=torch.long)])

    @property
    def equation_count(self) -> int:
        return self.dim

    # variables

    def _parts(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return both positions (..., n) and the parameters (..., m) of variables."""
        n = self.dim
        return z[..., :n], z[..., n : 2 * n], z[..., 2 * n :]

    def _displacement(self, q: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        """Return v (..., n), of angles by the shortest way."""
        v = r - q
        if not self.angles:
            return v
        each = list(v.unbind(-1))
        for i in self.angles:
            each[i] = torch.atan2(torch.sin(each[i]), torch.cos(each[i]))
        return torch.stack(each, -1)

    def variables(self, z: torch.Tensor) -> torch.Tensor:
        """Return (m, v, k) (..., 2 n + m) of two positions and parameters (..., 2 n + m)."""
        q, r, k = self._parts(z)
        v = self._displacement(q, r)
        return torch.cat([q + v / 2, v, k], -1)

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of positions z (state, n + m); displacements are at most their range."""
        n = self.dim
        q = z[:, :n]
        k = z[:, n:]
        low = q.amin(0).expand_as(q)
        high = q.amax(0).expand_as(q)
        pairs = ((q, q), (low, high), (high, low))
        self.adapt_to(torch.cat([torch.cat([*pair, k], -1) for pair in pairs]))

    def adapt_to(self, z: torch.Tensor) -> None:
        """Take the box of windows z (window, 2 n + m) and their parameters."""
        self.function.adapt(self.variables(z))

    # the equations

    def _slopes(self, x: torch.Tensor, c: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return D1 L + F- and D2 L + F+ (..., n) at variables x = (m, v, k)."""
        n = self.dim
        v = x[..., n : 2 * n]
        gradient = self.function.gradient(x, c[0])
        by_middle = gradient[..., :n] / 2
        by_displacement = gradient[..., n:] + v
        force = 0.0 if not self.damped else -0.5 * (v @ self._damping(c).mT)
        return by_middle - by_displacement + force, by_middle + by_displacement + force

    def _damping(self, c: Any) -> torch.Tensor:
        """Return the matrix Gamma (n, n)."""
        entries = c[1].index_select(0, self.get_buffer("damping_sources"))
        return (entries * self.get_buffer("damping_factors")).view(self.dim, self.dim)

    def _blocks(
        self, x: torch.Tensor, c: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return slopes as ``_slopes``, and their derivatives by the other position (..., n, n)."""
        n = self.dim
        one = torch.eye(self.dim, dtype=x.dtype, device=x.device)
        gradient, hessian = self.function.gradient_and_hessian(x, c[0])
        v = x[..., n : 2 * n]
        by_middle = gradient[..., :n] / 2
        by_displacement = gradient[..., n:] + v
        # (..., n, n)
        mm = hessian[..., :n, :n] / 4
        vv = hessian[..., n:, n:] + one
        mv = hessian[..., :n, n:] / 2
        first = by_middle - by_displacement
        second = by_middle + by_displacement
        first_by_second = mm + mv - mv.mT - vv  # D1 D2 L
        second_by_first = mm - mv + mv.mT - vv
        if self.damped:
            damping = self._damping(c)
            force = -0.5 * (v @ damping.mT)
            first = first + force
            second = second + force
            first_by_second = first_by_second - 0.5 * damping
            second_by_first = second_by_first + 0.5 * damping
        return first, second, first_by_second, second_by_first

    def mixed_derivative(self, z: torch.Tensor) -> torch.Tensor:
        """Return D1 D2 L (..., n, n) at two positions and parameters (..., 2 n + m)."""
        n = self.dim
        H = self.function.gradient_and_hessian(self.variables(z), self.function.coefficients)[1]
        mv = H[..., :n, n:] / 2
        one = torch.eye(n, dtype=z.dtype, device=z.device)
        return H[..., :n, :n] / 4 + mv - mv.mT - H[..., n:, n:] - one

    def momentum(self, z: torch.Tensor) -> torch.Tensor:
        """Return the momentum D2 L + F+ (..., n) at the second of two positions."""
        return self._slopes(self.variables(z), self.coefficients())[1]

    def residual(self, z: torch.Tensor, image: torch.Tensor, c: Any) -> torch.Tensor:
        n = self.dim
        defect = self._slopes(self.variables(z), c)[1] + self._slopes(self.variables(image), c)[0]
        shift = image[..., :n] - z[..., n : 2 * n]
        rest = image[..., 2 * n :] - z[..., 2 * n :]
        return torch.cat([shift, defect, rest], -1)

    def solve(self, z: torch.Tensor, c: Any, backward: bool = False) -> torch.Tensor:
        q, r, k = self._parts(z)
        x = self.variables(z)
        first, second = self._slopes(x, c)
        start = x[..., self.dim : 2 * self.dim]
        if backward:
            v = self._displaced(q, -first, k, start, c, True)
            return torch.cat([q - v, q, k], -1)
        v = self._displaced(r, second, k, start, c, False)
        return torch.cat([r, r + v, k], -1)

    def _displaced(
        self,
        q: torch.Tensor,
        momentum: torch.Tensor,
        k: torch.Tensor,
        start: torch.Tensor,
        c: Any,
        backward: bool,
    ) -> torch.Tensor:
        """Return v with D1 L(q, q + v) = -momentum, or D2 L(q - v, q) = momentum."""

        def correction(v: torch.Tensor) -> torch.Tensor:
            middle = q - v / 2 if backward else q + v / 2
            x = torch.cat([middle, v, k], -1)
            first, second, first_by_second, second_by_first = self._blocks(x, c)
            # v moves the other position forward, or backward
            matrix = second_by_first if backward else first_by_second
            defect = second - momentum if backward else -(first + momentum)
            inverse = torch.linalg.inv(matrix)  # (..., n, n)
            return (inverse @ defect.unsqueeze(-1)).squeeze(-1)

        size = self.function.box_scale[self.dim : 2 * self.dim].to(q.dtype)
        return newton(start, correction, size, self.iterations)

    def before(self, q: torch.Tensor, momentum: torch.Tensor) -> torch.Tensor:
        """Return the positions (..., n) before q, from where its ``momentum`` is this one."""
        k = q[..., :0]
        v = self._displaced(q, momentum, k, momentum, self.coefficients(), True)
        return q - v

    def equations(self, z: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return matrix (window, n, coefficient) and right side of linear equations for c."""
        n = self.dim
        x = self.variables(z)
        y = self.variables(image)
        orders = [(i,) for i in range(2 * n)]
        here, there = (torch.stack(self.function.features(each, orders), 1) for each in (x, y))
        matrix = (here[:, :n] + there[:, :n]) / 2 + here[:, n:] - there[:, n:]
        v = x[:, n : 2 * n]
        w = y[:, n : 2 * n]
        if self.damped:
            columns = torch.zeros(len(z), n * n, n, dtype=z.dtype)  # by the entries of Gamma
            for i in range(n):
                columns[:, i * n : (i + 1) * n, i] = -(v + w) / 2
            scaled = columns * self.get_buffer("damping_factors")[:, None]
            sums = z.new_zeros(len(z), self.damping_entries.numel(), n)
            sums.index_add_(1, self.get_buffer("damping_sources"), scaled)
            matrix = torch.cat([matrix, sums.mT], 2)
        return matrix, w - v

    def normalisation(self, z: torch.Tensor, most: int = 2_000) -> torch.Tensor:
        r"""Return coefficients (1, coefficient) of the mean of tr D1 D2 S over windows.

        Equations with the right side zero leave L = 0 as a solution. The mean of
        :math:`\operatorname{tr} D_1 D_2 L` is held where :math:`\tfrac12 |v|^2` has it. To hold one
        coefficient instead, such as that of :math:`v_1^2`, is not enough: other terms cancel this
        term on the data, and L vanishes there as the degree grows.
        """
        matrix = self.mean_curvature(z, most)
        return matrix[range(self.dim), range(self.dim)].sum(0)[None]  # (1, coefficient)

    def mean_curvature(self, z: torch.Tensor, most: int = 2_000) -> torch.Tensor:
        """Return the symmetric part of the mean of D1 D2 S over windows, (n, n, coefficient)."""
        n = self.dim
        x = self.variables(z[:: -(-len(z) // most)])
        orders = [(i, j) for i in range(n) for j in range(n)]
        shifted = [(n + i, n + j) for i, j in orders]
        parts = [each.mean(0) for each in self.function.features(x, [*orders, *shifted])]
        rows = torch.stack(parts[: n * n]) / 4 - torch.stack(parts[n * n :])  # (n * n, coefficient)
        missing = self.damping_entries.numel() if self.damped else 0
        return nn.functional.pad(rows, (0, missing)).unflatten(0, (n, n))

    # windows

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return windows (..., window, n) one step later, at parameters (..., m) if any."""
        new = self._moved(z[..., -2:, :], parameters, False)[..., 1:, :]
        return torch.cat([z[..., 1:, :], new], -2)

    def inverse(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return windows (..., window, n) one step earlier."""
        new = self._moved(z[..., :2, :], parameters, True)[..., :1, :]
        return torch.cat([new, z[..., :-1, :]], -2)

    def _moved(
        self, z: torch.Tensor, parameters: torch.Tensor | None, backward: bool
    ) -> torch.Tensor:
        n = self.dim
        last_size("z", z, {"window": 2, "dim": n})
        image = self._map(self.joined(z, parameters), backward)
        return image[..., : 2 * n].unflatten(-1, (2, n))

    def joined(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return variables (..., 2 n + m) of windows (..., 2, n) and parameters (..., m)."""
        flat = z.flatten(-2)
        if not self.parameter_count and parameters is None:
            return flat
        k = check_parameters(parameters, self.parameter_count)
        return beside([flat, k.to(flat)])

    def at(self, parameters: torch.Tensor) -> DiscreteLagrangian:
        """Return the map at parameters (m,), which are multiplied out."""
        result = DiscreteLagrangian(self.function.at(parameters), damped=self.damped)
        if self.damped:
            with torch.no_grad():
                result.damping_entries.copy_(self._damping(self.coefficients()).flatten())
        result.settle_like(self)
        return result
