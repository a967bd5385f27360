"""Variables of a model: components with their symmetries, functions in couplings, coordinates."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import plain, positive, whole
from vpintegrator.errors import InputError
from vpintegrator.models.stored import Matrices, Periods
from vpintegrator.nn.chart_map import ChartMap
from vpintegrator.nn.formulas import as_expressions
from vpintegrator.nn.layer import check_vanishing
from vpintegrator.nn.symmetry import (
    TOLERANCE,
    as_reversing_symmetries,
    canonical_scale,
    fixed_point_projection,
    symmetry_group,
)


class Components:
    r"""Properties of the components of a state, in the order in which layers take them.

    The last components may be such as layers read and do not move: constants of motion, then the
    time. Layers take them as parameters; a family has none. Numbers from ``dim`` on are those of
    the parameters of a family.

    Parameters
    ----------
    dim
        Components of a state.
    reversing_symmetries
        Matrices :math:`\rho` with :math:`f(\rho z) = -\rho f(z)`, (dim, dim), or for a family
        (dim + parameters, dim + parameters).
    periodic
        Components that are angles, by number, with their periods.
    cyclic
        Components that polynomials do not depend on.
    conserved
        The last components, before the time, that stay as they are, bit by bit.
    explicit_time
        Whether the last component is the time.
    parameters
        Number of the parameters of a family.
    vanishing
        Those of these parameters, from 0 on, at zero of which nothing moves.

    Attributes
    ----------
    group : Tensor, (element, dim + parameters, dim + parameters)
        The symmetries that are products of two reversing ones.
    moving
        Number of the components that layers move.
    read
        Number of parameters of the layers: the components that they do not move, or the parameters
        of a family.
    periods : dict
        The period of each angle.

    Raises
    ------
    InputError
        If numbers are none of components, conserved ones are not the last, or a symmetry connects
        an angle with another component.

    Examples
    --------
    >>> components = vp.models.Components(3, [[[1, 0, 0], [0, -1, 0], [0, 0, 1]]], conserved=[2])
    >>> components.moving, components.read
    (2, 1)
    """

    def __init__(
        self,
        dim: int,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
    ) -> None:
        self.dim = whole("dim", dim)
        self.parameters = whole("parameters", parameters, 0)
        variables = dim + parameters
        self.reversing_symmetries = as_reversing_symmetries(reversing_symmetries, variables)
        self.group = symmetry_group(reversing_symmetries, variables)
        self.periods = _periods(periodic, dim)
        self.cyclic = _numbers("cyclic", cyclic, variables)
        self.explicit_time = explicit_time
        constant = {*_numbers("conserved", conserved, dim), *([dim - 1] if explicit_time else [])}
        self.moving = dim - len(constant)
        if constant != {*range(self.moving, dim)} or not self.moving:
            raise InputError(
                f"conserved must name the last of {dim} components, and not all of them, not "
                f"{sorted(constant)}"
            )
        if constant and parameters:
            raise InputError("layers of a family move all components: leave out conserved and time")
        self.read = variables - self.moving
        self.vanishing = [*vanishing]
        check_vanishing(self.vanishing, parameters)
        # arguments of layers
        self.of_parameters: dict[str, Any] = {"parameters": self.read, "vanishing": self.vanishing}
        _check_angles(self.reversing_symmetries, self.periods)

    def lifted(self, lift: int) -> Components:
        """Return the components of so many successive states beside one another, as one state."""
        starts = [self.dim * place for place in range(lift)]
        one = torch.eye(lift, dtype=torch.float64)
        return Components(
            self.dim * lift,
            [torch.kron(one, rho) for rho in self.reversing_symmetries],
            {start + i: period for start in starts for i, period in self.periods.items()},
            [start + i for start in starts for i in self.cyclic],
        )


class Functions(NamedTuple):
    """Functions in couplings, by the arguments of ``VolumePreservingFeedForward``."""

    functions: str
    width: int
    degree: int
    expressions: Sequence[str]
    activation: str
    initial_scale: float

    @property
    def formulas(self) -> list[str]:
        """The expressions, checked."""
        return as_expressions(self.expressions) if len(self.expressions) else []

    @property
    def are_neurons(self) -> bool:
        """Whether they are hidden layers, else polynomials."""
        return self.functions == "neurons"

    def check(self, components: Components, *others: bool) -> None:
        """Raise InputError for hidden layers with arguments that are for polynomials."""
        if self.are_neurons and (components.periods or len(self.expressions) or any(others)):
            raise InputError(
                "periodic, expressions, bases and sweep are for functions = polynomial; neurons "
                "take none of them"
            )


def _numbers(name: str, numbers: Any, count: int) -> list[int]:
    """Return numbers of components, each once."""
    if not isinstance(numbers, Iterable):
        raise InputError(f"{name} must be a list of components, not {numbers!r}")
    result = [plain(f"a component of {name}", number, (int,)) for number in numbers]
    if len({*result}) < len(result) or not {*result}.issubset(range(count)):
        raise InputError(f"{name} must name components 0 ... {count - 1}, each once, not {result}")
    return result


def _periods(periodic: Any, dim: int) -> dict[int, float]:
    """Return the periods of angles by number, from pairs (component, period)."""
    pairs = [*(periodic.items() if isinstance(periodic, Mapping) else periodic)]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise InputError(f"periodic must hold pairs (component, period), not {periodic!r}")
    numbers = _numbers("periodic", [number for number, _ in pairs], dim)
    periods = [positive("a period of periodic", period) for _, period in pairs]
    return dict(zip(numbers, periods, strict=True))


def _check_angles(symmetries: torch.Tensor, periods: Mapping[int, float]) -> None:
    """Raise InputError if a symmetry connects an angle with one of another period."""
    connected = (symmetries.abs() > TOLERANCE).any(0)  # (dim, dim)
    for i, j in connected.nonzero().tolist():
        if periods.get(i) != periods.get(j):
            raise InputError(
                f"a reversing symmetry connects the components {i} and {j}, which are not "
                "angles of the same period; leave out the symmetry, or periodic"
            )


class Coordinates(nn.Module):
    r"""States as the layers of a model take them.

    .. math:: z = P\, \frac{c(\text{state}) - \text{shift}}{\text{scale}}

    with a chart c and a permutation P of the components. This is a conjugation of the map: it
    changes neither the inverse nor, but for the chart, the volume.

    Parameters
    ----------
    dim
        Components of a state.
    periods
        Periods of angles, by number in the order of the layers. An angle enters the layers in
        radians.
    order
        Numbers of the components in the order in which the layers take them, such as all positions
        and then their momenta; by default that of states.
    chart, inverse_chart
        New components of states, as expressions of the components such as ``log(z[0])``, and the
        components of a state as expressions of the new ones.

    Attributes
    ----------
    shift, scale : Tensor, (dim,)
        Normalisation, by default 0 and 1.
    chart : ChartMap or None
        The map to the new components.

    Raises
    ------
    InputError
        If the order is no permutation, or the charts are not inverse to each other.

    Examples
    --------
    >>> logarithm = vp.models.Coordinates(1, chart=["log(z[0])"], inverse_chart=["exp(z[0])"])
    >>> logarithm.inverse(logarithm(torch.tensor([2.0], dtype=torch.float64)))
    tensor([2.], dtype=torch.float64)
    """

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self,
        dim: int,
        periods: Mapping[int, float] | None = None,
        *,
        order: Sequence[int] | None = None,
        chart: Sequence[str] = (),
        inverse_chart: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.periods = dict(periods or {})
        if order is not None and sorted(order) != list(range(dim)):
            raise InputError(
                f"order must hold the numbers 0 to {dim - 1}, each once, not {order!r}"
            )
        self.order = None if order is None or list(order) == sorted(order) else list(order)
        is_none = not (chart or inverse_chart)
        self.chart = None if is_none else ChartMap(chart, inverse_chart, dim)
        self.register_buffer("shift", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(dim, dtype=torch.float64))
        if self.chart is not None:
            self.register_buffer("spread", torch.ones(dim, dtype=torch.float64))

    @property
    def arguments(self) -> dict[str, Any]:
        """Order and chart as JSON holds them, those that are none left out."""
        result: dict[str, Any] = {} if self.order is None else {"order": self.order}
        if self.chart is not None:
            result |= {"chart": self.chart.texts, "inverse_chart": self.chart.inverse_texts}
        return result

    @property
    def state_scale(self) -> torch.Tensor:
        """Scale (dim,) of the components of a state, by which errors are weighted."""
        return self.scale if self.chart is None else self.get_buffer("spread")

    def forward(self, states: torch.Tensor, near: torch.Tensor | None = None) -> torch.Tensor:
        """Return states (..., dim) in these coordinates.

        Angles of the chart are within a turn, or at most half a turn from states ``near`` in these
        coordinates.
        """
        z = (states if self.chart is None else self.chart(states)) - self.shift
        z = self.ordered(z / self.scale)
        if near is not None and self.chart is not None and self.chart.angles:
            turns = torch.zeros_like(self.scale)
            turns[list(self.chart.angles)] = 2 * math.pi
            z = z - self.ordered(turns) * torch.round((z - near) / (2 * math.pi))
        return z

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states (..., dim) that have coordinates z (..., dim)."""
        states = self.restored(z) * self.scale + self.shift
        return states if self.chart is None else self.chart.inverse(states)

    def rates(self, states: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
        """Return the rates of change of coordinates from ``rates`` at states (..., dim)."""
        if self.chart is not None:
            rates = torch.func.jvp(self.chart, (states,), (rates,))[1]
        return self.ordered(rates / self.scale)

    def ordered(self, z: torch.Tensor) -> torch.Tensor:
        """Return components (..., dim) in the order in which the layers take them."""
        return z if self.order is None else z[..., self.order]

    def restored(self, z: torch.Tensor) -> torch.Tensor:
        """Return components (..., dim) that :meth:`ordered` has ordered in the order of states."""
        return z if self.order is None else z[..., np.argsort(self.order).tolist()]

    def reflected(self, states: torch.Tensor, symmetry: torch.Tensor) -> torch.Tensor:
        """Return the images of states (..., dim) under a matrix that acts on the components."""
        z = self.ordered(states if self.chart is None else self.chart(states))
        z = self.restored(z @ symmetry.mT)
        return z if self.chart is None else self.chart.inverse(z)

    def set_normalisation(
        self,
        shift: Any,
        scale: Any,
        spread: Any = None,
        *,
        symmetries: torch.Tensor | None = None,
        canonical: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Set shift and scale as near to what is given as a model's structure allows.

        Parameters
        ----------
        shift, scale, spread
            Arguments of ``Model.set_normalisation``.
        symmetries
            Matrices (count, dim, dim) that must commute with the normalisation.
        canonical
            For symplectic layers: the number of components of (q, p), which come first. Then the
            scales of positions and momenta have equal products.

        Returns
        -------
        (Tensor, Tensor)
            Shift and scale in the order of the layers.

        Raises
        ------
        InputError
            If a value is not finite or a scale is not positive.
        """
        dim = len(self.scale)
        offset = self.ordered(_vector("shift", shift, dim, False))
        unit = self.ordered(_vector("scale", scale, dim, True))
        if symmetries is not None and len(symmetries):
            offset = fixed_point_projection(symmetries, dim) @ offset
            unit = _averaged(unit, symmetries)
        offset = offset.clone()
        unit = unit.clone()
        for component, period in self.periods.items():
            unit[component] = period / (2 * math.pi)
        if canonical:
            unit[:canonical] = canonical_scale(unit[:canonical])
        with torch.no_grad():
            self.shift.copy_(self.restored(offset))
            self.scale.copy_(self.restored(unit))
            if self.chart is not None and spread is not None:
                self.state_scale.copy_(_vector("spread", spread, dim, True))
        return offset, unit


def _vector(argument: str, value: Any, dim: int, positive: bool) -> torch.Tensor:
    """Return a value as finite numbers (dim,) in float64, a single one for all, or InputError."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        result = torch.as_tensor(value, dtype=torch.float64).detach().cpu().expand(dim)
        if (torch.isfinite(result) & ((result > 0) | (not positive))).all():
            return result
    words = f"{dim} {'positive' if positive else 'finite'} numbers"
    raise InputError(f"{argument} must hold {words} (dim = {dim}), not {value!r}")


def _averaged(scale: torch.Tensor, symmetries: torch.Tensor) -> torch.Tensor:
    """Return geometric means (dim,) over sets of components that the symmetries connect."""
    pairs = (symmetries.abs() > TOLERANCE).any(0)  # (dim, dim)
    pairs = pairs | pairs.mT | torch.eye(len(scale), dtype=torch.bool)
    # smallest member of each component's set
    least = torch.arange(len(scale))
    before = None
    while before is None or not torch.equal(least, before):
        before = least
        least = torch.where(pairs, before, len(scale)).amin(1)
    return torch.stack([scale[least == first].log().mean().exp() for first in least])
