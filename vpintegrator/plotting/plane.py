"""Orbits in the plane of two components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.dynamics import System
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.orbits import ORBITS, limits, shown, within

_MARGIN, _EQUAL_MARGIN = 0.25, 0.15
PROJECTED = 150  # points of a line that is the projection of an orbit in more than two dimensions


def planes(components: tuple[str, ...], hamiltonian: bool) -> list[tuple[int, int]]:
    """Return pairs of components worth drawing: (q_i, p_i), or neighbours."""
    dim = len(components)
    if hamiltonian:
        return [(i, i + dim // 2) for i in range(dim // 2)]
    return [(0, 0)] if dim == 1 else [(i, i + 1) for i in range(0, dim - 1, 2 if dim > 3 else 1)]


def planes_of(system: System) -> list[tuple[int, int]]:
    """Return the planes that the system file names, as indices of components and then coordinates.

    The default is the planes of :func:`planes`.
    """
    names = [*system.components, *system.coordinates]
    named = [(names.index(x), names.index(y)) for x, y in system.plot.planes]
    return named or planes(system.components[: system.phase_dim], system.is_canonical)


def located(system: System, states: np.ndarray) -> np.ndarray:
    """Return states (..., dim) with the further coordinates of the system file appended."""
    if not system.coordinates:
        return states
    with np.errstate(all="ignore"):
        further = [function(states) for function in system.coordinates.values()]
    return np.concatenate([states, np.stack(further, axis=-1)], axis=-1)


def within_a_turn(system: System, states: np.ndarray) -> np.ndarray:
    """Return states (..., dim) with every angle within half a period of 0."""
    states = np.array(states)
    for i, period in system.periods.items():
        if i < states.shape[-1]:
            states[..., i] -= period * np.round(states[..., i] / period)
    return states


def pair_of_section(system: System, component: str) -> tuple[int, int]:
    """Return the components on the axes of a Poincare section of at least three dimensions.

    A pair that the section's own component is not part of: the first that the system file names,
    a conjugate one, or the first two.
    """
    cut = system.components.index(component)
    moving = system.components[: system.phase_dim]
    pairs = [*planes_of(system), *planes(moving, system.is_canonical)]
    for pair in pairs:
        if cut not in pair and max(pair) < system.dim:
            return pair
    first, second = [k for k in range(system.dim) if k != cut][:2]
    return first, second


def drawn_in_plane(states: np.ndarray, dim: int, dots: bool) -> np.ndarray:
    """Return the orbits and times of states (trajectory, time, dim) that a plane shows.

    In more than two dimensions an orbit fills its projection, so only a part of one orbit is shown.
    """
    if dim <= 2:
        return shown(states[:ORBITS], dots)
    return shown(states[:1], dots) if dots else states[:1, :PROJECTED]


@dataclass(frozen=True)
class Plane:
    """The plane of two components, with axes that hold the states ``scale`` (..., dim).

    Attributes
    ----------
    pair, names
        The components on the axes by their numbers among all; the names of all.
    equal
        Whether both axes have one scale.
    """

    scale: np.ndarray
    pair: tuple[int, int]
    names: Sequence[str]
    equal: bool = False
    projection = None
    width, alpha = 0.75, 0.9

    @cached_property
    def box(self) -> np.ndarray:
        """Limits of the axes: (component, low or high)."""
        margin = _EQUAL_MARGIN if self.equal else _MARGIN
        box = np.array([limits(self.scale[..., k], margin) for k in self.pair])
        if self.equal:
            half = (box[:, 1] - box[:, 0]).max() / 2
            middle = box.mean(axis=1)
            box = np.stack([middle - half, middle + half], axis=1)
        return box

    def holds(self, states: np.ndarray) -> np.ndarray:
        """Return a mask of the states (..., dim) inside the axes."""
        return within(states[..., list(self.pair)], self.box)

    def draw(self, axes: Axes, states: np.ndarray, **strokes: Any) -> None:
        """Draw an orbit (time, dim)."""
        first, second = self.pair
        if first == second:  # a single component is drawn over itself, one time later
            axes.plot(states[:-1, first], states[1:, first], **strokes)
        else:
            axes.plot(states[:, first], states[:, second], **strokes)

    def frame(self, axes: Axes) -> None:
        """Set limits and labels."""
        x, y = (mathtext(self.names[k]) for k in self.pair)
        y = y if self.pair[0] != self.pair[1] else f"{y} at the next time"
        axes.set(xlim=self.box[0], ylim=self.box[1], xlabel=x, ylabel=y)
        if self.equal:
            axes.set_box_aspect(1)
