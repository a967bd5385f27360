"""Phase portraits: orbits on a sphere seen from outside, or in planes of two components."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke

from vpintegrator.plotting.style import REFERENCE_COLOUR, Look, mathtext

_VIEW = np.array([1.0, 0.55, 0.42])  # from where the sphere is seen, in the order of components
_ORBITS = 40  # more on one portrait cannot be told apart
_POINTS = 4000  # of one orbit


def on_sphere(states: np.ndarray) -> float | None:
    """Radius of the sphere about the origin that all states (..., 3) lie on, or None."""
    if states.shape[-1] != 3:
        return None
    radius = np.linalg.norm(states, axis=-1)
    spread = np.abs(radius - radius.mean()).max()
    return float(radius.mean()) if spread < 1e-6 * radius.mean() else None


def draw_sphere(
    axes: Axes, states: np.ndarray, look: Look, radius: float, components: tuple[str, ...]
) -> None:
    """Orbits (trajectory, time, 3) on a shaded sphere, those on its far side drawn faint.

    The projection is orthographic and done here, in the plane: each point knows which side it is
    on, which three-dimensional axes, sorting whole lines by their distance, would get wrong.
    """
    right, up, toward = _camera()
    _ball(axes, radius, right, up, toward)
    for name, axis in zip(components, np.eye(3), strict=True):
        tip = 1.28 * radius * axis
        foot = radius * axis
        axes.plot([foot @ right, tip @ right], [foot @ up, tip @ up], color="0.3", lw=0.7, zorder=2)
        direction = np.array([tip @ right, tip @ up])
        x, y = direction + 0.14 * radius * direction / np.linalg.norm(direction)
        label = axes.text(x, y, mathtext(name), ha="center", va="center", zorder=5)
        label.set_path_effects([withStroke(linewidth=2, foreground="white")])
    for orbit in states[:_ORBITS]:
        # what leaves the sphere's neighbourhood is not drawn
        gone = ~(np.linalg.norm(orbit, axis=-1) < 1.4 * radius)
        orbit = orbit[: min(int(gone.argmax()) if gone.any() else len(orbit), _POINTS)]
        if not len(orbit):
            continue
        x, y, depth = orbit @ right, orbit @ up, orbit @ toward
        front = depth >= -0.02 * radius
        # a point of the other side is kept at each end, so that the two parts meet
        near = front | np.roll(front, 1) | np.roll(front, -1)
        far = ~front
        for visible, alpha, order in ((far, 0.16, 1), (near, 0.95, 3)):
            axes.plot(
                np.where(visible, x, np.nan),
                np.where(visible, y, np.nan),
                color=look.colour,
                lw=0.75,
                alpha=alpha,
                zorder=order,
            )
    limit = 1.42 * radius
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    axes.axis("off")


def _camera() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    toward = _VIEW / np.linalg.norm(_VIEW)
    right = np.cross([0.0, 0.0, 1.0], toward)
    right /= np.linalg.norm(right)
    return right, np.cross(toward, right), toward


def _ball(axes: Axes, radius: float, right: np.ndarray, up: np.ndarray, toward: np.ndarray) -> None:
    """A sphere lit from the upper left, as an image cut out by its circle, with a few meridians."""
    grid = np.linspace(-1, 1, 240)
    x, y = np.meshgrid(grid, grid)
    inside = np.clip(1 - x**2 - y**2, 0, 1)
    normal = np.stack([x, y, np.sqrt(inside)])
    light = np.array([-0.45, 0.55, 0.7])
    shade = np.clip(np.tensordot(light / np.linalg.norm(light), normal, 1), 0, 1)
    box = (-radius, radius, -radius, radius)
    image = axes.imshow(
        0.80 + 0.19 * shade,
        extent=box,
        origin="lower",
        cmap="gray",
        vmin=0,
        vmax=1,
        zorder=0,
        interpolation="bilinear",
    )
    outline = Circle((0, 0), radius, fill=False, color="0.6", lw=0.6, zorder=4)
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
            color="white",
            lw=0.8,
            zorder=1,
        )


def planes(components: tuple[str, ...], hamiltonian: bool) -> list[tuple[int, int]]:
    """Pairs of components worth drawing: (q_i, p_i), or neighbours."""
    dim = len(components)
    if hamiltonian:
        return [(i, i + dim // 2) for i in range(dim // 2)]
    return [(0, 0)] if dim == 1 else [(i, i + 1) for i in range(0, dim - 1, 2 if dim > 3 else 1)]


def draw_plane(
    axes: Axes,
    states: np.ndarray,
    reference: np.ndarray,
    look: Look,
    pair: tuple[int, int],
    components: tuple[str, ...],
) -> None:
    """Orbits (trajectory, time, dim) in the plane of two components, over the reference."""
    i, j = pair
    # in more than two dimensions an orbit fills its projection: one is shown, and not for long
    orbits, points = (_ORBITS, _POINTS) if len(components) == 2 else (1, 150)
    for orbit in reference[:orbits]:
        axes.plot(orbit[:points, i], orbit[:points, j], color=REFERENCE_COLOUR, lw=1.8, alpha=0.35)
    for orbit in states[:orbits]:
        axes.plot(orbit[:points, i], orbit[:points, j], color=look.colour, lw=0.7, alpha=0.9)
    reference = reference[:orbits, :points]
    # a method that runs away must not push the rest into a corner
    for axis, k in (("x", i), ("y", j)):
        low, high = reference[..., k].min(), reference[..., k].max()
        margin = 0.25 * max(high - low, 1e-12)
        axes.set(**{f"{axis}lim": (low - margin, high + margin)})
    axes.set(xlabel=mathtext(components[i]), ylabel=mathtext(components[j]))
