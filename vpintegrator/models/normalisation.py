"""Values that normalise states, as symmetries, angles and charts allow them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.chart_map import ChartMap
from vpintegrator.nn.symmetry import TOLERANCE


class Normalised(nn.Module):
    """A model as a map of normalised states, in the coordinates of a chart if there is one.

    ``Integrator`` derives from it. Modules that ``Integrator`` imports take models of this class.

    Attributes
    ----------
    name, dim, window, explicit_time, core, arguments, metadata, choices, reversing_symmetries
        As of ``Integrator``.
    shift, scale : Tensor, (dim,)
        The network works on (z - shift) / scale with its components in another order.
    component_order
        Numbers of the components of z in the order in which the network takes them; None for the
        same order.
    chart
        The coordinates z of states, or None.
    """

    name: ClassVar[str] = ""
    dim: int
    window: int
    explicit_time: bool
    core: nn.Module
    arguments: dict[str, Any]
    metadata: dict[str, str]
    choices: list[str]
    reversing_symmetries: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor
    chart: ChartMap | None
    component_order: list[int] | None

    @property
    def state_scale(self) -> torch.Tensor:
        """Scale (dim,) of the components of a state, by which errors are weighted."""
        return self.scale if self.chart is None else self.get_buffer("spread")

    def normalised(self, states: torch.Tensor, near: torch.Tensor | None = None) -> torch.Tensor:
        """Return states (..., dim) in the coordinates of a chart, normalised.

        Angles of the chart are within a turn, or at most half a turn from normalised states
        ``near``.
        """
        z = (states if self.chart is None else self.chart(states)) - self.shift
        z = self.network_order(z / self.scale)
        if near is not None and self.chart is not None and self.chart.angles:
            of_angles = torch.zeros_like(self.scale)
            of_angles[list(self.chart.angles)] = 2 * math.pi
            of_angles = self.network_order(of_angles)
            z = z - of_angles * torch.round((z - near) / (2 * math.pi))
        return z

    def normalised_rates(self, states: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
        """Return the rates of change of normalised states from ``rates`` at states (..., dim)."""
        if self.chart is not None:
            rates = torch.func.jvp(self.chart, (states,), (rates,))[1]
        return self.network_order(rates / self.scale)

    def network_order(self, z: torch.Tensor) -> torch.Tensor:
        """Return components (..., dim) in the order in which the network takes them."""
        return z if self.component_order is None else z[..., self.component_order]

    def state_order(self, z: torch.Tensor) -> torch.Tensor:
        """Return components (..., dim) that the network has ordered in the order of states."""
        return z if self.component_order is None else z[..., _inverse(self.component_order)]

    def reflected(self, states: torch.Tensor) -> torch.Tensor:
        """Return the images of states (..., dim) under the first reversing symmetry."""
        z = self.network_order(states if self.chart is None else self.chart(states))
        z = self.state_order(z @ self.reversing_symmetries[0].mT)
        return z if self.chart is None else self.chart.inverse(z)

    def denormalised(self, z: torch.Tensor) -> torch.Tensor:
        """Return states (..., dim) from what leaves the network."""
        z = self.state_order(z) * self.scale + self.shift
        return z if self.chart is None else self.chart.inverse(z)


def order_of(given: Any, dim: int) -> list[int] | None:
    """Return the order of components that an argument gives, None where it changes nothing."""
    if given is None:
        return None
    if not isinstance(given, list | tuple) or sorted(given) != list(range(dim)):
        raise InputError(
            f"component_order must hold the numbers 0 to {dim - 1}, each once, not {given!r}"
        )
    return None if list(given) == list(range(dim)) else list(given)


def _inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def vector(argument: str, value: Any, dim: int) -> torch.Tensor:
    """Return a value as finite numbers (dim,) in float64, a single one for all, or InputError."""
    try:
        found = torch.as_tensor(value, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{argument} must hold {dim} numbers, not {value!r}") from None
    if found.ndim == 0:
        found = found.expand(dim)
    if found.shape != (dim,) or not torch.isfinite(found).all():
        raise InputError(
            f"{argument} must hold {dim} finite numbers (dim = {dim}), not {found.tolist()}"
        )
    return found


def positive(argument: str, value: Any, dim: int) -> torch.Tensor:
    """Return a value as positive numbers (dim,), see ``vector``."""
    found = vector(argument, value, dim)
    if not (found > 0).all():
        raise InputError(f"{argument} must be positive in every component, not {found.tolist()}")
    return found


def connected(symmetries: torch.Tensor) -> torch.Tensor:
    """Return whether symmetries (count, dim, dim) map components to each other, (dim, dim)."""
    return (symmetries.abs() > TOLERANCE).any(0)


def check_angles(periods: dict[int, float], symmetries: torch.Tensor) -> None:
    """Raise InputError if a symmetry connects angles with components of another period."""
    for i, j in connected(symmetries).nonzero().tolist() if periods else ():
        if periods.get(i) != periods.get(j):
            raise InputError(
                f"a reversing symmetry connects the components {i} and {j}, which are not "
                "angles of the same period; leave out the symmetry, or periodic"
            )


def averaged_over_connected(scale: torch.Tensor, symmetries: torch.Tensor) -> torch.Tensor:
    """Return geometric means (dim,) over sets of components that the symmetries connect."""
    dim, pairs = len(scale), connected(symmetries)
    pairs = pairs | pairs.mT | torch.eye(dim, dtype=torch.bool)
    least, before = torch.arange(dim), None  # smallest member of each component's set
    while before is None or not torch.equal(least, before):
        before = least
        least = torch.where(pairs, before, dim).amin(1)
    return torch.stack([scale[least == first].log().mean().exp() for first in least])


def chart_of(a: Any, periods: dict[int, float], order: list[int] | None = None) -> ChartMap | None:
    """Return the chart that arguments ask for.

    Raises
    ------
    InputError
        If it is none, or has angles that the network is not periodic in.
    """
    if not (a.chart or a.inverse_chart):
        return None
    chart = ChartMap(a.chart, a.inverse_chart, a.dim)
    angles = {i for i in chart.angles if getattr(a, "functions", "") == "polynomial"}
    periodic = {k if order is None else order[k] for k in periods}
    if not chart.angles <= angles & periodic:
        raise InputError(
            "chart: atan2 jumps from pi to -pi, so the network must be periodic in its components "
            f"{sorted(chart.angles)}: name them in periodic, and take functions = polynomial"
        )
    return chart
