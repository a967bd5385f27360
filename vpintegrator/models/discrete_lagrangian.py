"""Map of two steps of a discrete Lagrangian: positions of a mechanical system, no velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from vpintegrator.arguments import real_array
from vpintegrator.dynamics.structure import Structure
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.models.iteration import as_parameters, as_windows, evaluating
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Matrices, Periods
from vpintegrator.nn.discrete_lagrangian import DiscreteLagrangian
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.implicit import jacobians
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import generated_group, is_diagonal, symmetry_group

_NEIGHBOURS = 8  # positions on each side from which velocities are computed: order 16


class DiscreteLagrangianMap(Model):
    r"""A map of two steps of positions, given by a discrete Lagrangian.

    .. math:: D_2 L(q_{n-1}, q_n) + D_1 L(q_n, q_{n+1}) = 0

    Two positions of a mechanical system stand for position and momentum. The map keeps the form
    :math:`-D_1 D_2 L\, dq \wedge dr` of windows of two positions for every L. L is a polynomial in
    :math:`m = (q + r)/2` and :math:`v = r - q`; its coefficients follow from positions alone by
    linear least squares.

    Parameters
    ----------
    dim
        Components of a position.
    functions
        Functions of m and v: polynomials, with harmonics of angles in m.
    degree
        Degree of the polynomials, in all components of m and v together.
    displacement_order
        Order that each power of v counts in the degree. With 2 there are fewer powers of v, which
        is small where the step is, and more of m.
    damping
        ``linear`` adds forces :math:`-\tfrac12 \Gamma v` at both ends of a step; the map is
        dissipative then, and keeps no form.
    reversing_symmetries
        Matrices rho of positions (dim, dim): the reflected positions in the reverse order are an
        orbit, too. The identity is the reversibility of systems without magnetic forces, and leaves
        terms that are even in v. Products of two are symmetries.
    periodic
        Components that are angles, by number, with their periods.
    cyclic
        Components, by number, that L depends on by v alone.
    parameters
        Number of parameters of a family that L reads, see ``Model``.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the symmetries are no signed permutations, there are too many terms, or
        ``displacement_order`` is neither 1 nor 2.

    References
    ----------
    Marsden, West, Acta Numerica 10 (2001) 357-514; Offen, Ober-Bloebaum, Chaos 34 (2024).

    Examples
    --------
    >>> model = vp.models.DiscreteLagrangianMap(dim=1, degree=4, reversing_symmetries=[[[1.0]]])
    >>> model.structure.form, model.window, model.prediction_window
    ('lagrangian', 2, 1)
    """

    name = "lagrangian"
    linear_in_parameters = True
    fixed_window: ClassVar[int] = 2
    core: DiscreteLagrangian

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        functions: Literal["polynomial"] = "polynomial",
        degree: int = 6,
        displacement_order: int = 1,
        damping: Literal["none", "linear"] = "none",
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        parameters: int = 0,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, reversing_symmetries, periodic, cyclic, parameters=parameters)
        n = components.dim
        if displacement_order not in (1, 2):
            raise InputError(f"displacement_order must be 1 or 2, not {displacement_order!r}")
        group = generated_group(
            [_on_windows(rho, n) for rho in components.reversing_symmetries], 2 * n + parameters
        )
        gauge = _Gauge(n, [*components.periods, *components.cyclic])
        S = GeneratingFunction(
            2 * n,
            degree,
            group=group,
            periodic=[*components.periods],
            cyclic=[k if k < n else n + k for k in components.cyclic],
            parameters=parameters,
            weights=[1.0] * n + [float(displacement_order)] * n if displacement_order > 1 else (),
            allowed=gauge if is_diagonal(group) else None,
        )
        symmetries = symmetry_group(components.reversing_symmetries, n + parameters)
        core = DiscreteLagrangian(S, symmetries[:, :n, :n], damping == "linear")
        super().__init__(core, components, 2, 1, dtype=dtype)
        self.register_buffer("momentum_unit", torch.ones(1, dtype=torch.float64))
        self.to(self.scale)

    @property
    def structure(self) -> Structure:
        """Structure of the map of windows: its own form, unless it is damped."""
        symmetric = super().structure
        if self.core.damped:
            return replace(symmetric, reversing_symmetries=())
        return replace(symmetric, form="lagrangian")

    @property
    def shifts(self) -> bool:
        """Whether old states stay beside a map of windows: here the shift is part of the map."""
        return False

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` exists: wherever D1 D2 L is regular."""
        return True

    def momenta(self, windows: Any, parameters: Any = None) -> np.ndarray:
        r"""Return the momenta :math:`D_2 L(q_{n-1}, q_n)` (n, dim) at the ends of windows.

        Positions determine L up to a factor. The training chooses the factor for which the first
        momentum is nearest to the first velocity: the first mass is one, in the mean. So momenta of
        a system are these times the first mass. Velocities are by the step of the origin, or else
        per step; each member of a family has a factor of its own.

        Parameters
        ----------
        windows
            Two positions one step apart, (n, 2, dim).
        parameters
            Of a family: arguments of ``map``.

        Examples
        --------
        >>> free = vp.models.DiscreteLagrangianMap(dim=1, degree=2)
        >>> free.momenta([[[1.0], [1.5]]])
        array([[0.5]])
        """
        with evaluating(self), torch.no_grad():
            window, x, _ = self._coordinates(windows, parameters)
            momentum = self.core.momentum(x)  # (n, dim)
            slopes = self._slopes(window[:, 1])  # (n, dim, dim)
            result = (slopes.mT @ momentum.unsqueeze(-1)).squeeze(-1)
            return (result * self._unit).double().cpu().numpy()

    def velocities(self, windows: Any, parameters: Any = None) -> np.ndarray:
        """Return the velocities (n, dim) at the ends of windows (n, 2, dim).

        They are the slopes of the polynomial through eight positions before and after, per unit of
        time, or per step where the origin has no step.
        """
        with evaluating(self), torch.no_grad():
            window, _, k = self._coordinates(windows, parameters)
            return (self._moves(window, k) / self._time).double().cpu().numpy()

    def start(
        self, positions: Any, *, momenta: Any = None, velocities: Any = None, most: int = 100
    ) -> np.ndarray:
        """Return windows (n, 2, dim) that end at positions with given momenta or velocities.

        Parameters
        ----------
        positions : (n, dim)
        momenta : (n, dim), optional
            Momenta as :meth:`momenta` gives them.
        velocities : (n, dim), optional
            Time derivatives of the positions.
        most
            Largest number of iterations.

        Raises
        ------
        InputError
            If not one of both is given, shapes differ, or the model is a family.

        Examples
        --------
        >>> free = vp.models.DiscreteLagrangianMap(dim=1, degree=2)
        >>> free.start([[1.5]], momenta=[[0.5]])
        array([[[1. ],
                [1.5]]])
        """
        if (momenta is None) == (velocities is None):
            raise InputError("start takes either momenta or velocities")
        if self.parameter_count:
            raise InputError("a family starts from windows; take its model by at")
        q = real_array("positions", positions, ("state", "dim"))
        given = momenta if velocities is None else velocities
        slope = real_array("momenta" if velocities is None else "velocities", given, q.shape)
        end, wanted = (torch.from_numpy(x).to(self.scale) for x in (q, slope))
        with evaluating(self), torch.no_grad():
            if velocities is None:
                matrix = self._slopes(end).mT  # (n, dim, dim)
                momentum = torch.linalg.solve(matrix, (wanted / self._unit).unsqueeze(-1))
                x = self.core.before(self.coordinates(end), momentum.squeeze(-1))
                first = self.coordinates.inverse(x)
            else:
                wanted = wanted * self._time
                first = end - wanted
                for _ in range(most):  # contracts by a factor of the order of the step squared
                    change = self._moves(torch.stack([first, end], 1)) - wanted  # (n, dim)
                    first = first + change
                    if not bool((change.abs() > 1e-15 * (end.abs() + first.abs())).any()):
                        break
            return torch.stack([first, end], 1).double().cpu().numpy()

    def own_form(self, windows: Any, parameters: Any = None) -> np.ndarray:
        r"""Return the matrix of the form that the map keeps, (n, 2 dim, 2 dim).

        .. math:: \Omega = \begin{pmatrix} 0 & -D_1 D_2 L \\ (D_1 D_2 L)^T & 0 \end{pmatrix}
        """
        with evaluating(self), torch.no_grad():
            window, x, _ = self._coordinates(windows, parameters)
            first, second = (self._slopes(window[:, i]) for i in (0, 1))
            block = first.mT @ self.core.mixed_derivative(x) @ second * self._unit
            zero = torch.zeros_like(block)
            rows = [torch.cat([zero, -block], -1), torch.cat([block.mT, zero], -1)]
            return torch.cat(rows, -2).double().cpu().numpy()

    def condition(self, windows: Any, parameters: Any = None) -> float:
        """Return the largest condition number of D1 D2 L at windows (n, 2, dim)."""
        with evaluating(self), torch.no_grad():
            _, x, _ = self._coordinates(windows, parameters)
            return float(torch.linalg.cond(self.core.mixed_derivative(x)).max())

    def doubt(self, windows: np.ndarray, parameters: Any = None, most: float = 1e6) -> str:
        """Return whether D1 D2 L is badly conditioned at windows, in a sentence; or empty."""
        condition = self.condition(windows, parameters)
        if condition <= most:
            return ""
        return (
            f"D1 D2 L of the discrete Lagrangian is badly conditioned on the data, by "
            f"{condition:.1e}: the next position is barely determined there; take a lower degree, "
            "or more orbits"
        )

    @torch.no_grad()
    def set_momentum_unit(self, windows: torch.Tensor) -> None:
        """Let the first momentum be as near to the first velocity as it can, at windows."""
        self.get_buffer("momentum_unit").fill_(1.0)
        moves = self._moves(windows)[:, 0].double()
        momenta = torch.from_numpy(self.momenta(windows.numpy()))[:, 0] * self._time
        usable = moves.isfinite() & momenta.isfinite()
        unit = moves[usable].square().sum() / (moves * momenta)[usable].sum()
        if bool(unit.isfinite()):
            self.get_buffer("momentum_unit").fill_(unit)

    @property
    def _time(self) -> float:
        """The time step, 1 where none is known."""
        return 1.0 if self.origin.step is None else self.origin.step

    @property
    def _unit(self) -> torch.Tensor:
        return self.get_buffer("momentum_unit") / self._time

    def _coordinates(
        self, windows: Any, parameters: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return windows, what the core reads of them, and parameters of a family."""
        window = as_windows(self, windows)
        k = as_parameters(self, parameters, len(window))
        x = self.core.joined(self.coordinates(window), self.coefficients(k))
        return window, x, k

    def _slopes(self, states: torch.Tensor) -> torch.Tensor:
        """Return derivatives (n, dim, dim) of the coordinates by the components of states."""
        return jacobians(self.coordinates, states)[0]

    def _moves(self, window: torch.Tensor, k: torch.Tensor | None = None) -> torch.Tensor:
        """Return velocities (n, dim) per step at the ends of windows (n, 2, dim)."""
        parameters = () if k is None else (self.coefficients(k),)
        after = before = self.coordinates(window)
        total = torch.zeros_like(window[:, 1])
        for j, weight in enumerate(_weights(_NEIGHBOURS), 1):
            after = self.core(after, *parameters)
            before = before if j == 1 else self.core.inverse(before, *parameters)
            moved = self.coordinates.inverse(after)[:, 1] - self.coordinates.inverse(before)[:, 0]
            total = total + weight * moved
        return total


class _Gauge:
    """Whether a term of L is none that a null Lagrangian F(r) - F(q) can remove.

    Such a Lagrangian adds nothing to the equations. To first order in v it is v grad F(m). So F can
    remove the terms that are linear in the k-th component of v and do not depend on the components
    of m before the k-th.
    """

    def __init__(self, n: int, periodic: Sequence[int]) -> None:
        self.n = n
        self.periodic = {*periodic}

    def __call__(self, e: Sequence[int]) -> bool:
        middle = e[: self.n]
        displacement = e[self.n : 2 * self.n]
        if sum(displacement) != 1:
            return True
        k = displacement.index(1)
        if any(middle[:k]):
            return True
        # a constant has no periodic integral; v alone is null all the same
        return k in self.periodic and not middle[k] and any(middle)


def _on_windows(rho: torch.Tensor, n: int) -> torch.Tensor:
    """Return what rho (n + m, n + m) does to (m, v, k), as the order in time is reversed."""
    on_states = rho[:n, :n]
    return torch.block_diag(on_states, -on_states, rho[n:, n:])


def _weights(count: int) -> list[float]:
    """Return weights of central differences of the order 2 ``count``."""
    weight = 1.0
    result = []
    for j in range(1, count + 1):
        weight *= (count - j + 1) / (count + j)
        result.append((-1) ** (j + 1) * weight / j)
    return result
