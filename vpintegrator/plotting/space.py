"""Orbits in three dimensions that do not lie on a sphere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.orbits import limits, within
from vpintegrator.plotting.style import Style


@dataclass(frozen=True)
class Space:
    """A box in space that holds the states ``scale`` (..., 3), in 3D axes."""

    scale: np.ndarray
    names: Sequence[str]
    style: Style
    projection = "3d"
    width, alpha = 0.6, None

    @cached_property
    def box(self) -> np.ndarray:
        """Limits of the axes: (component, low or high)."""
        return np.array([limits(self.scale[..., k], 0.1) for k in range(3)])

    def holds(self, states: np.ndarray) -> np.ndarray:
        """Return a mask of the states whose first three components lie in the box."""
        return within(states[..., :3], self.box)

    def draw(self, axes: Any, states: np.ndarray, **strokes: Any) -> None:
        """Draw an orbit (time, dim) without its part outside the box."""
        x, y, z = np.where(self.holds(states)[:, None], states[:, :3], np.nan).T
        axes.plot(x, y, z, **strokes)

    def frame(self, axes: Any) -> None:
        """Draw the box and its labels, and set the view."""
        box = self.box
        axes.set(xlim=box[0], ylim=box[1], zlim=box[2])
        axes.set_box_aspect((1, 1, 1), zoom=0.8)
        axes.patch.set_visible(False)  # it would hide labels of the panel to the left
        axes.view_init(elev=22, azim=-58)
        near = -0.35 * self.style.letters
        for axis, name in zip((axes.xaxis, axes.yaxis, axes.zaxis), self.names, strict=True):
            axis.set_major_locator(MaxNLocator(3))
            axis.set_tick_params(pad=near, labelsize=0.75 * self.style.letters)
            axis.set_label_text(mathtext(name))
            axis.labelpad = 2 * near
            axis.set_pane_color((0, 0, 0, 0))
        axes.zaxis.labelpad = 1.5 * near  # its numbers are the longest
