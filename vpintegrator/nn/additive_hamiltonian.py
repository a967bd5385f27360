"""Hamiltonians T(p) + V(q) that are sums of functions of one variable, and their splitting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn

from vpintegrator.arguments import one_of, plain, whole
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.nn.formulas import InUnits
from vpintegrator.nn.layer import Device, Dtype, InvertibleLayer, Layer, factory_like, on_cpu

Form = Sequence[Sequence[float]]  # pairs (component, factor)
Part = Sequence[Form]

VARIABLES = ("value", "square", "distance", "logarithm", "reciprocal")
REACH = 1.25  # half widths of the range of the data up to which slopes are polynomials
HIGHEST = 64


class Side(NamedTuple):
    """Sums of parts, and the components that they are functions of."""

    sums: list[PartSum]
    components: slice


class GradientEquations(NamedTuple):
    """Part of the gradient of a Hamiltonian that is linear in the coefficients of some sums.

    Attributes
    ----------
    sums
        Their coefficients, one after the other, are the unknowns.
    components
        Components of the gradient.
    columns
        Gradient (state, component, coefficient) of each coefficient at states (state, dim).
    """

    sums: list[PartSum]
    components: slice
    columns: Callable[[torch.Tensor], torch.Tensor]

    @classmethod
    def of(cls, side: Side) -> GradientEquations:
        """Return the equations of sums of functions of their components."""
        sums, own = side
        return cls(sums, own, lambda x: torch.cat([part.columns(x[:, own]) for part in sums], -1))


class PartSum(Layer):
    r"""A sum of functions of one variable each, with its gradient.

    .. math:: V(q) = \sum_e f_{c_e}(s_e(q)), \qquad
        \nabla V(q) = \sum_e g_{c_e}(u_e)\, d_e(q)

    A part e has linear forms :math:`\ell_{ek}` of q. The part of one form is a function of its
    value; then :math:`d_e = \nabla \ell_e`. Parts of several forms are functions of
    :math:`r^2 = \sum_k \ell_{ek}^2`, with :math:`d_e = \sum_k \ell_{ek} \nabla \ell_{ek}`: of the
    distance of two bodies where the forms are the differences of their coordinates. The slopes g
    are Chebyshev polynomials of a variable u of s on the range of the data, and continue linearly
    beyond 1.25 half widths, so that no orbit meets a polynomial far outside of its data.

    Parameters
    ----------
    size : int
        Components of q.
    parts : sequence
        Forms of each part: a form is a list of pairs (component, factor). All parts have one form,
        or all have several.
    degree : int
        Functions of each slope, which is a polynomial of one degree less.
    variable : str
        Variable of slopes: ``value`` of one form; of several ``square`` (r squared), ``distance``
        (r), ``logarithm`` (of r) or ``reciprocal`` (of r).
    equal : sequence of int
        Number c of the function of each part; by default each has its own.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    coefficients : Parameter (function, degree)
    shift, scale : Tensor (function,)
        Middle and half width of the variable of each function, set by :meth:`adapt_to`.

    Raises
    ------
    InputError
        If a part is none of these components, or the numbers of functions are not 0, 1, ...

    Examples
    --------
    >>> springs = [[[[0, 1.0]]], [[[0, -1.0], [1, 1.0]]]]  # q_0 and q_1 - q_0
    >>> V = vp.nn.PartSum(2, springs, degree=2)
    >>> with torch.no_grad():
    ...     _ = V.coefficients.copy_(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    >>> V(torch.tensor([1.0, 3.0])).detach()
    tensor([-1.,  2.])
    """

    matrix: torch.Tensor
    numbers: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor

    @on_cpu
    def __init__(
        self,
        size: int,
        parts: Sequence[Part],
        degree: int,
        variable: str = "value",
        equal: Sequence[int] = (),
        *,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.degree = whole("degree", degree, 1, HIGHEST)
        self.variable = one_of("variable", variable, VARIABLES)
        self.parts = [[[(int(i), float(w)) for i, w in form] for form in part] for part in parts]
        self.forms = len(self.parts[0]) if self.parts else 1
        self._check()
        numbers = [*equal] or [*range(len(self.parts))]
        self.count = max(numbers, default=-1) + 1
        if len(numbers) != len(self.parts) or {*numbers} != {*range(self.count)}:
            raise InputError("equal must number the function of each part, from 0 on")
        matrix = torch.zeros(len(self.parts), self.forms, self.size, dtype=torch.float64)
        for e, part in enumerate(self.parts):
            for k, form in enumerate(part):
                for i, factor in form:
                    matrix[e, k, i] += factor
        self.constant("matrix", matrix.flatten(0, 1))  # (part * form, size)
        self.constant("numbers", torch.tensor(numbers, dtype=torch.long))
        self.coefficients = nn.Parameter(
            torch.zeros(self.count, self.degree, **self.factory_kwargs)
        )
        self.register_buffer("shift", torch.zeros(self.count, **self.factory_kwargs))
        self.register_buffer("scale", torch.ones(self.count, **self.factory_kwargs))

    def _check(self) -> None:
        for part in self.parts:
            if len(part) != self.forms or not all(part):
                raise InputError("parts must have one form each, or as many as all others")
            if not {i for form in part for i, _ in form} <= {*range(self.size)}:
                raise InputError(f"parts must name components 0 ... {self.size - 1}, not {part}")
        if (self.variable == "value") != (self.forms == 1):
            raise InputError("variable = value is that of parts of one form, and of no others")

    @torch.no_grad()
    def adapt_to(self, q: torch.Tensor) -> None:
        """Take the range of the variables from states q (state, size)."""
        u = self.variables(self.values(q.double()))  # (state, part)
        numbers = self.numbers.to(u.device)
        low = u.new_full((self.count,), math.inf).scatter_reduce(
            0, numbers, u.amin(0), "amin"
        )  # (function,)
        high = u.new_full((self.count,), -math.inf).scatter_reduce(
            0, numbers, u.amax(0), "amax"
        )  # (function,)
        half = (high - low) / 2
        self.shift.copy_((low + high) / 2)
        self.scale.copy_(torch.where(half > 0, half, torch.ones_like(half)))

    def values(self, q: torch.Tensor) -> torch.Tensor:
        """Return the values (..., part, form) of the forms."""
        values = q @ self.matrix.mT  # (..., part * form)
        return values.unflatten(-1, (len(self.parts), self.forms))

    def variables(self, forms: torch.Tensor) -> torch.Tensor:
        """Return variables (..., part) of forms (..., part, form), in no units yet."""
        if self.variable == "value":
            return forms.squeeze(-1)
        square = forms.square().sum(-1)  # (..., part)
        if self.variable == "square":
            return square
        if self.variable == "logarithm":
            return square.log() / 2
        root = square.sqrt()
        return root if self.variable == "distance" else 1 / root

    def slopes(self, forms: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """Return the slopes (..., part) at values (..., part, form) of the forms.

        They are those of all parts, or of the parts at some places.
        """
        numbers = self.numbers if places is None else self.numbers[places]  # (part,)
        c = self.coefficients.index_select(0, numbers)  # (part, degree)
        outer, inner = self._placed(forms, numbers)
        rows = self._chebyshev(inner)
        result = c[:, 0] * rows[0]  # (..., part)
        for k, row in enumerate(rows[1:], 1):
            result = result + c[:, k] * row
        above, below = self.edges.to(c)  # (degree,) each
        return result + outer.clamp_min(0) * (c @ above) + outer.clamp_max(0) * (c @ below)

    def _placed(
        self, forms: torch.Tensor, numbers: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return by how much variables are beyond their reach, and within it (..., part) each."""
        u = self.variables(forms) - self.shift.index_select(0, numbers)
        u = u / self.scale.index_select(0, numbers)
        inner = u.clamp(-REACH, REACH)
        return u - inner, inner

    def _chebyshev(self, u: torch.Tensor) -> list[torch.Tensor]:
        rows = [torch.ones_like(u), u]
        for _ in range(2, self.degree):
            rows.append(2 * u * rows[-1] - rows[-2])
        return rows[: self.degree]

    @property
    def edges(self) -> torch.Tensor:
        """Derivatives (2, degree) of Chebyshev polynomials at the upper and the lower edge."""
        # U_{k-1} by the recursion of U, which is that of T
        second = [0.0, 1.0]
        for _ in range(2, self.degree):
            second.append(2 * REACH * second[-1] - second[-2])
        above = [k * value for k, value in enumerate(second[: self.degree])]
        below = [value * (-1) ** (k - 1) for k, value in enumerate(above)]
        return torch.tensor([above, below], dtype=torch.float64)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        """Return the gradient (..., size) at q (..., size)."""
        forms = self.values(q)  # (..., part, form)
        return self._gathered(self.slopes(forms).unsqueeze(-1) * self._directions(forms))

    def _directions(self, forms: torch.Tensor) -> torch.Tensor:
        """Return the factor of the gradient of each form (..., part, form) for slope one."""
        return torch.ones_like(forms) if self.forms == 1 else forms

    def _gathered(self, weights: torch.Tensor) -> torch.Tensor:
        """Return the sum (..., size) of gradients of the forms with weights (..., part, form)."""
        return weights.flatten(-2) @ self.matrix

    def _basis(self, forms: torch.Tensor) -> torch.Tensor:
        """Return the functions (state, part, degree) of the slopes."""
        return torch.stack(self._chebyshev(self._placed(forms, self.numbers)[1]), -1)

    @torch.no_grad()
    def slope_columns(self, q: torch.Tensor) -> torch.Tensor:
        """Return the sum of all slopes (state, coefficient) for each coefficient."""
        basis = self._basis(self.values(q))  # (state, part, degree)
        result = q.new_zeros(len(q), self.count, self.degree)
        return result.index_add(1, self.numbers, basis).flatten(1)

    @torch.no_grad()
    def columns(self, q: torch.Tensor) -> torch.Tensor:
        """Return the gradient (state, size, coefficient) of each coefficient at q (state, size).

        The states are within the range of the data.
        """
        forms = self.values(q)  # (state, part, form)
        basis = torch.stack(
            self._chebyshev(self._placed(forms, self.numbers)[1]), -1
        )  # (state, part, degree)
        weights = self._directions(forms).unsqueeze(-1) * basis.unsqueeze(-2)
        result = q.new_zeros(len(q), self.size, self.count, self.degree)
        matrix = self.matrix.view(len(self.parts), self.forms, self.size)
        for e, number in enumerate(self.numbers.tolist()):
            used = matrix[e].abs().amax(0).nonzero()[:, 0]  # (component,)
            # (state, degree, component)
            gradient = weights[:, e].mT @ matrix[e, :, used]
            result[:, used, number] += gradient.mT
        return result.flatten(2)


class AdditiveHamiltonian(InvertibleLayer, InUnits):
    r"""A step of a splitting method for a Hamiltonian that is a sum of functions of one variable.

    .. math:: H(q, p) = \sum_e f_e(s_e(q)) + \sum_e k_e(s_e(p))

    Each stage is a shear, so that the map is symplectic for all coefficients, and its own adjoint.
    These belong to the Hamiltonian: :meth:`set_step` makes the same map of another step.

    Parameters
    ----------
    positions, momenta : sequence of PartSum
        Sums of functions of the positions, and of the momenta.
    method : str
        Composition, by its name in ``vpintegrator.dynamics.compositions``.
    substeps : int
        Equal steps of the method in a row.

    Attributes
    ----------
    freedoms : int
        Number of positions.
    step : Tensor (1,)
        The step h.

    References
    ----------
    Blanes, Moan, J. Comput. Appl. Math. 142 (2002) 313-330, for the method of order six.

    Examples
    --------
    >>> square = [vp.nn.PartSum(1, [[[[0, 1.0]]]], degree=2) for _ in range(2)]
    >>> for each in square:
    ...     _ = torch.nn.init.constant_(each.coefficients, 1.0)
    >>> layer = vp.nn.AdditiveHamiltonian(square[:1], square[1:])
    >>> layer.set_step(0.1)
    >>> z = torch.rand(2)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    shown = ("dim", "method", "substeps")
    symplectic = True
    positions: Any
    momenta: Any
    step: torch.Tensor

    @on_cpu
    def __init__(
        self,
        positions: Sequence[PartSum],
        momenta: Sequence[PartSum],
        method: str = "blanes-moan-6",
        substeps: int = 1,
    ) -> None:
        super().__init__(**factory_like(nn.ModuleList([*positions, *momenta])))
        self.positions = nn.ModuleList(positions)
        self.momenta = nn.ModuleList(momenta)
        sizes = {part.size for part in [*positions, *momenta]}
        if len(sizes) != 1 or not positions or not momenta:
            raise InputError("positions and momenta need parts of equally many components")
        self.freedoms = sizes.pop()
        self.dim = 2 * self.freedoms
        self.method = one_of("method", method, FACTORS)
        self.substeps = whole("substeps", substeps)
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))
        self.add_units(self.dim)

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(plain("step", step, (float, int)))

    def adapt(self, states: torch.Tensor) -> None:
        """Take the ranges of variables from normalised states (state, dim)."""
        x = self.physical(states)
        for part in self.positions:
            part.adapt_to(x[..., : self.freedoms])
        for part in self.momenta:
            part.adapt_to(x[..., self.freedoms :])

    @property
    def sides(self) -> dict[str, Side]:
        """Sums of parts of positions, and of momenta, with the components of each."""
        n = self.freedoms
        return {
            "parts": Side([*self.positions], slice(0, n)),
            "kinetic": Side([*self.momenta], slice(n, 2 * n)),
        }

    @property
    def equations(self) -> list[GradientEquations]:
        """Equations of the coefficients, each by itself."""
        return [GradientEquations.of(side) for side in self.sides.values()]

    @property
    def stages(self) -> list[tuple[bool, float]]:
        """Stages in turn: whether positions move, and the fraction of the step."""
        factors = [factor / self.substeps for factor in FACTORS[self.method] * self.substeps]
        sums = [factors[0], *(a + b for a, b in pairwise([*factors, 0.0]))]
        return [(n % 2 == 0, total) for n, total in enumerate(sums)]

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        x = self.physical(z)
        q = x[..., : self.freedoms]
        p = x[..., self.freedoms :]
        before = x
        h = sign * self.step[0]
        for moves_positions, fraction in self.stages:
            if moves_positions:
                for part in self.momenta:
                    q = q + (fraction * h) * part(p)
            else:
                force = sum(part(q) for part in self.positions)
                p = p - (fraction * h) * force
        change = torch.cat([q, p], -1) - before  # (..., dim)
        return z + change / self.state_scale


class MagneticMotion(AdditiveHamiltonian):
    r"""A step of a splitting method for motion in the plane whose velocity is turned.

    .. math:: \dot q = \nabla T(v), \qquad \dot v = -\nabla V(q) + B(q)
        \begin{pmatrix} 0 & 1 \\ -1 & 0 \end{pmatrix} v

    A charge in a magnetic field B across the plane. V, T and B are sums over parts of functions of
    one variable each. Drifts, turns and kicks are exact, so that volume is kept whatever the
    coefficients.

    Parameters
    ----------
    positions, momenta : sequence of PartSum
        Sums of V, and of T.
    turning : sequence of PartSum
        Sums of functions of the positions, whose slopes together are B.
    method : str
        Composition, by its name in ``vpintegrator.dynamics.compositions``.
    substeps : int
        Equal steps of the method in a row.

    Raises
    ------
    InputError
        If there are not two positions.

    References
    ----------
    He, Sun, Liu, Qin, J. Comput. Phys. 281 (2015) 135-147.

    Examples
    --------
    >>> free = [vp.nn.PartSum(2, [[[[0, 1.0]]], [[[1, 1.0]]]], degree=2) for _ in range(2)]
    >>> field = vp.nn.PartSum(2, [[[[0, 1.0]]]], degree=1)
    >>> _ = torch.nn.init.constant_(field.coefficients, torch.pi)  # a uniform field
    >>> layer = vp.nn.MagneticMotion(free[:1], free[1:], [field])
    >>> layer(torch.tensor([0.0, 0.0, 1.0, 2.0])).round(decimals=4)  # half a turn
    tensor([ 0.,  0., -1., -2.], grad_fn=<RoundBackward1>)
    """

    symplectic = False
    turning: Any

    def __init__(
        self,
        positions: Sequence[PartSum],
        momenta: Sequence[PartSum],
        turning: Sequence[PartSum],
        method: str = "blanes-moan-6",
        substeps: int = 1,
    ) -> None:
        super().__init__(positions, momenta, method, substeps)
        self.turning = nn.ModuleList(turning)
        if self.freedoms != 2 or any(part.size != 2 for part in turning):
            raise InputError("turned velocities are those of two positions")

    @property
    def sides(self) -> dict[str, Side]:
        """Sums by the arguments of their parts, with the components of each."""
        return super().sides | {"turning": Side([*self.turning], slice(0, 2))}

    @property
    def equations(self) -> list[GradientEquations]:
        """Equations of forces and field together, and of the kinetic energy."""
        forces, drifts = super().equations[:2]

        def columns(x: torch.Tensor) -> torch.Tensor:
            away = torch.stack([-x[:, 3], x[:, 2]], 1)  # (state, component)
            fields = torch.cat([part.slope_columns(x[:, :2]) for part in self.turning], -1)
            return torch.cat([forces.columns(x), away[:, :, None] * fields[:, None]], -1)

        sums = [*forces.sums, *self.turning]
        return [GradientEquations(sums, forces.components, columns), drifts]

    def adapt(self, states: torch.Tensor) -> None:
        """Take the ranges of variables from normalised states (state, dim)."""
        super().adapt(states)
        for part in self.turning:
            part.adapt_to(self.physical(states)[..., :2])

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        x = self.physical(z)
        q = x[..., :2]
        p = x[..., 2:]
        h = sign * self.step[0]
        turns = [factor / self.substeps for factor in FACTORS[self.method] * self.substeps]
        for (moves_positions, fraction), turn in zip(self.stages, [*turns, 0.0], strict=True):
            if moves_positions:
                for part in self.momenta:
                    q = q + (fraction * h) * part(p)
            else:
                p = p - (fraction * h) * sum(part(q) for part in self.positions)
            if turn:
                rate = sum(part.slopes(part.values(q)).sum(-1) for part in self.turning)
                angle = (turn * h) * rate  # (...)
                c = torch.cos(angle)
                s = torch.sin(angle)
                first, second = p.unbind(-1)
                p = torch.stack([c * first + s * second, c * second - s * first], -1)
        return z + (torch.cat([q, p], -1) - x) / self.state_scale
