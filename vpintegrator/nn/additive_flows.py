"""Hamiltonians that are sums of functions with exact flows, of positions and momenta together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from vpintegrator.arguments import one_of, plain, whole
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.nn.additive_hamiltonian import GradientEquations, PartSum, Side
from vpintegrator.nn.formulas import InUnits
from vpintegrator.nn.layer import InvertibleLayer, factory_like, on_cpu
from vpintegrator.nn.symmetry import canonical_form, check_even


class _Group(NamedTuple):
    """Parts of one sum whose flows commute, and which all turn, or all do not."""

    number: int  # of the sum
    places: list[int]  # of the parts
    turns: bool


class AdditiveFlows(InvertibleLayer, InUnits):
    r"""A step of a splitting method for a sum of functions of one variable each.

    .. math:: H(z) = \sum_e f_e(s_e(z))

    The variable of a part is a linear form of positions and momenta, or the sum of the squares of
    several. The flow of a part is exact: along :math:`J \nabla s` for one form or for forms that
    commute, a turn of the plane of two forms that do not. So the interaction of two vortices turns
    both about their centre. Each step is symplectic for all coefficients and its own adjoint. The
    coefficients belong to the Hamiltonian: :meth:`set_step` makes the same map of another step.

    Parameters
    ----------
    sums : sequence of PartSum
        Sums of functions of all components, positions and then momenta.
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

    Raises
    ------
    InputError
        If the sums are of other components, or a part has three or more forms that do not commute.

    References
    ----------
    McLachlan, SIAM J. Sci. Comput. 16 (1995) 151-168, for methods of flows of many parts.

    Examples
    --------
    >>> vortices = [[[[0, 1.0], [1, -1.0]], [[2, 1.0], [3, -1.0]]]]  # x_0 - x_1 and y_0 - y_1
    >>> H = vp.nn.PartSum(4, vortices, degree=1, variable="square")
    >>> _ = torch.nn.init.constant_(H.coefficients, 1.0)
    >>> layer = vp.nn.AdditiveFlows([H])
    >>> layer.set_step(torch.pi / 2)  # at this slope a whole turn takes pi
    >>> layer(torch.tensor([1.0, -1.0, 0.0, 0.0])).round(decimals=4).abs()
    tensor([1., 1., 0., 0.], grad_fn=<AbsBackward0>)
    """

    shown = ("dim", "method", "substeps")
    symplectic = True
    sums: Any
    step: torch.Tensor

    @on_cpu
    def __init__(
        self, sums: Sequence[PartSum], method: str = "blanes-moan-6", substeps: int = 1
    ) -> None:
        super().__init__(**factory_like(nn.ModuleList(sums)))
        self.sums = nn.ModuleList(sums)
        sizes = {part.size for part in sums}
        if len(sizes) != 1:
            raise InputError("sums must be of equally many components")
        self.dim = sizes.pop()
        check_even(self.dim)
        self.freedoms = self.dim // 2
        self.method = one_of("method", method, FACTORS)
        self.substeps = whole("substeps", substeps)
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))
        self.add_units(self.dim)
        self._groups = self._commuting()
        J = canonical_form(self.dim)
        for k, (number, places, _) in enumerate(self._groups):
            A = self._forms(number)[places]  # (part, form, dim)
            self.constant(f"forms_{k}", A.flatten(0, 1))
            self.constant(f"directions_{k}", (A @ J.mT).flatten(0, 1))
            self.constant(f"places_{k}", torch.tensor(places))
            speed = (A[:, :1] @ J @ A[:, -1:].mT).flatten()  # (part,)
            self.constant(f"speeds_{k}", speed)

    def _forms(self, number: int) -> torch.Tensor:
        part = self.sums[number]
        return part.matrix.double().cpu().view(len(part.parts), part.forms, self.dim)

    def _commuting(self) -> list[_Group]:
        """Return the groups of parts in the order of their flows."""
        J = canonical_form(self.dim)
        parts = [
            (number, place, A)
            for number in range(len(self.sums))
            for place, A in enumerate(self._forms(number))
        ]
        groups: list[list[tuple[int, int, torch.Tensor]]] = []
        for part in parts:
            A = part[2]
            if len(A) > 2 and bool((A @ J @ A.mT).any()):
                raise InputError("three or more forms of a part must commute with one another")
            for group in groups:
                if not any(bool((A @ J @ other.mT).any()) for *_, other in group):
                    group.append(part)
                    break
            else:
                groups.append([part])
        result: dict[tuple[int, int, bool], list[int]] = {}
        for k, group in enumerate(groups):
            for number, place, A in group:
                turns = bool((A @ J @ A.mT).any())
                result.setdefault((k, number, turns), []).append(place)
        return [_Group(number, places, turns) for (_, number, turns), places in result.items()]

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(plain("step", step, (float, int)))

    @property
    def sides(self) -> dict[str, Side]:
        """Sums of the parts, and the components that they are functions of."""
        return {"parts": Side([*self.sums], slice(0, self.dim))}

    @property
    def equations(self) -> list[GradientEquations]:
        """Equations of all coefficients."""
        return [GradientEquations.of(side) for side in self.sides.values()]

    def adapt(self, states: torch.Tensor) -> None:
        """Take the ranges of variables from normalised states (state, dim)."""
        for part in self.sums:
            part.adapt_to(self.physical(states))

    @property
    def stages(self) -> list[tuple[int, float]]:
        """Flows in turn: number of the group, and the fraction of the step."""
        result: list[tuple[int, float]] = []
        order = range(len(self._groups))
        for n, factor in enumerate(FACTORS[self.method] * self.substeps):
            for k in order if n % 2 == 0 else reversed(order):
                last, before = result[-1] if result else (-1, 0.0)
                if last == k:
                    result[-1] = (k, before + factor / self.substeps)
                else:
                    result.append((k, factor / self.substeps))
        return result

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        x = self.physical(z)
        before = x
        h = sign * self.step[0]
        for k, fraction in self.stages:
            x = self._flow(k, x, fraction * h)
        return z + (x - before) / self.state_scale

    def _flow(self, k: int, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return states (..., dim) after the flow of a group."""
        number, places, turns = self._groups[k]
        part = self.sums[number]
        forms = x @ self.get_buffer(f"forms_{k}").to(x).mT
        forms = forms.unflatten(-1, (len(places), part.forms))  # (..., part, form)
        rate = time * part.slopes(forms, self.get_buffer(f"places_{k}"))  # (..., part)
        if not turns:
            rate = rate.unsqueeze(-1)
            weights = rate if part.forms == 1 else rate * forms  # (..., part, form)
        else:
            speed = self.get_buffer(f"speeds_{k}").to(x)
            angle = speed * rate
            along = torch.sin(angle) / speed  # (..., part)
            across = (1 - torch.cos(angle)) / speed
            first, second = forms.unbind(-1)
            weights = torch.stack(
                [along * first + across * second, along * second - across * first], -1
            )
        return x + weights.flatten(-2) @ self.get_buffer(f"directions_{k}").to(x)
