"""Orbits on a sphere, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke

from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.style import Style

_NEAR = 1.4  # radii: farther out nothing is drawn
_FAR, _FAR_ALONE = 0.17, 0.45  # factors on the opacity of the far side
_VIEW = np.array([1.0, 0.55, 0.42])  # direction of view, in the order of the components


def on_sphere(states: np.ndarray) -> float | None:
    """Return the radius of the sphere about the origin that all states (..., 3) lie on, or None."""
    if states.shape[-1] != 3:
        return None
    radius = np.linalg.norm(states, axis=-1)
    spread = np.abs(radius - radius.mean()).max()
    return float(radius.mean()) if spread < 1e-6 * radius.mean() else None


@dataclass(frozen=True)
class Sphere:
    """A shaded sphere about the origin, seen from outside.

    The projection is orthographic and done here, in the plane: each point knows which side it is
    on, which three-dimensional axes, sorting whole lines by their distance, would get wrong.

    Attributes
    ----------
    components
        The three on the axes, by number.
    names
        Names of these components.
    radius
        Radius of the sphere.
    style
        Its greys, lines and letters.
    alone
        Whether one orbit is drawn, which then is seen through the sphere too; of many, the far side
        is faint, and one that has left the sphere's neighbourhood does not come back.
    """

    components: Sequence[int]
    names: Sequence[str]
    radius: float
    style: Style
    alone: bool = False
    projection: ClassVar[str | None] = None  # projection of the Axes
    width, alpha = 0.75, 0.95  # lines of orbits among others

    def holds(self, states: np.ndarray) -> np.ndarray:
        """Return a mask of the states (..., dim) near enough to the sphere to be drawn."""
        with np.errstate(all="ignore"):
            distance = np.linalg.norm(states[..., list(self.components)], axis=-1)
            return np.asarray(distance < _NEAR * self.radius)

    def draw(self, axes: Axes, states: np.ndarray, alpha: float = alpha, **strokes: Any) -> None:
        """Draw an orbit (time, dim) near the sphere, fainter on the far side."""
        near, points = self.holds(states), states[:, list(self.components)]
        if self.alone:
            points = np.where(near[:, None], points, np.nan)
        elif not near.all():
            points = points[: int(near.argmin())]
        if not len(points):
            return
        right, up, toward = _camera()
        x, y, depth = points @ right, points @ up, points @ toward
        front = depth >= -0.02 * self.radius
        near = front
        if strokes.get("ls") != "none":
            # a point of the other side is kept at each end, so that the parts meet
            near = front | np.roll(front, 1) | np.roll(front, -1)
        far = _FAR_ALONE if self.alone else _FAR
        for visible, opacity, order in ((~front, far * alpha, 1), (near, alpha, 3)):
            axes.plot(
                np.where(visible, x, np.nan),
                np.where(visible, y, np.nan),
                alpha=opacity,
                zorder=order,
                **strokes,
            )

    def frame(self, axes: Axes) -> None:
        """Draw the shaded sphere and the three axes."""
        right, up, toward = _camera()
        radius, style = self.radius, self.style
        _ball(axes, radius, right, up, toward, style)
        for name, axis in zip(self.names, np.eye(3), strict=True):
            foot, tip = radius * axis, 1.28 * radius * axis
            axes.plot(
                [foot @ right, tip @ right],
                [foot @ up, tip @ up],
                color=style.foreground,
                lw=0.7 * style.line,
                zorder=2,
            )
            direction = np.array([tip @ right, tip @ up])
            x, y = direction + 0.14 * radius * direction / np.linalg.norm(direction)
            label = axes.text(x, y, mathtext(name), ha="center", va="center", zorder=5)
            label.set_path_effects([withStroke(linewidth=2, foreground=style.background)])
        axes.set(xlim=(-1.2 * radius, 1.45 * radius), ylim=(-1.1 * radius, 1.55 * radius))
        axes.set_aspect("equal")
        axes.axis("off")


def _camera() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    toward = _VIEW / np.linalg.norm(_VIEW)
    right = np.cross([0.0, 0.0, 1.0], toward)
    right /= np.linalg.norm(right)
    return right, np.cross(toward, right), toward


def _ball(
    axes: Axes,
    radius: float,
    right: np.ndarray,
    up: np.ndarray,
    toward: np.ndarray,
    style: Style,
) -> None:
    """Draw a sphere, lit from the upper left, as an image with three great circles."""
    grid = np.linspace(-1, 1, 240)
    x, y = np.meshgrid(grid, grid)
    inside = np.clip(1 - x**2 - y**2, 0, 1)
    normal = np.stack([x, y, np.sqrt(inside)])
    light = np.array([-0.45, 0.55, 0.7])
    shade = np.clip(np.tensordot(light / np.linalg.norm(light), normal, 1), 0, 1)
    dark, lit = style.ball
    image = axes.imshow(
        dark + (lit - dark) * shade,
        extent=(-radius, radius, -radius, radius),
        origin="lower",
        cmap="gray",
        vmin=0,
        vmax=1,
        zorder=0,
        interpolation="bilinear",
    )
    outline = Circle((0, 0), radius, fill=False, color="0.6", lw=0.6 * style.line, zorder=4)
    axes.add_patch(outline)
    image.set_clip_path(outline)
    turn = np.linspace(0, 2 * np.pi, 200)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        circle = np.zeros((len(turn), 3))
        circle[:, i], circle[:, j] = radius * np.cos(turn), radius * np.sin(turn)
        front = circle @ toward >= 0
        axes.plot(
            np.where(front, circle @ right, np.nan),
            np.where(front, circle @ up, np.nan),
            color=style.background,
            lw=0.8 * style.line,
            zorder=1,
        )
