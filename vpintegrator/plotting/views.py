"""Views of orbits: in a plane, in space, on a sphere; choice of the points and colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, NullFormatter

from vpintegrator.dynamics import System
from vpintegrator.plotting.style import ORBIT_COLOURS, Style
from vpintegrator.plotting.text import mathtext

ORBITS = 40  # more on one portrait cannot be told apart
POINTS = 4000  # points of an orbit
_DOTS = 1500  # dots of an orbit
_FEW = 400  # dots of one orbit
_LARGEST = 1e30  # component that an axis can show


def shown(orbits: np.ndarray, dots: bool) -> np.ndarray:
    """Return the first points of orbits (..., time, dim), or dots spread over all times."""
    count = orbits.shape[-2]
    if not dots:
        return orbits[..., :POINTS, :]
    if count <= _DOTS:
        return orbits
    return orbits[..., np.linspace(0, count - 1, _DOTS).astype(int), :]


def stroke(style: Style, dots: bool, width: float = 0.75, count: int = _DOTS) -> dict[str, Any]:
    """Return the line style of an orbit: a thin line, or dots, larger for a small ``count``."""
    if dots:
        size = 1.2 if count > _FEW else 2.4
        return {"ls": "none", "marker": "o", "ms": size * width * style.line, "mew": 0}
    return {"ls": "-", "lw": width * style.line}


def orbit_colours(count: int, style: Style) -> list[str]:
    """Return a colour for each orbit: distinct colours for few, a whole range for many."""
    if count <= len(ORBIT_COLOURS):
        return [style.colour(colour) for colour in ORBIT_COLOURS[:count]]
    # neighbours differ, as the range is passed in steps of the golden ratio
    places = 0.05 + 0.9 * (np.arange(count) * 0.618034 % 1)
    return [style.colour(to_hex(colour)) for colour in matplotlib.colormaps["turbo"](places)]


def limits(values: np.ndarray, margin: float = 0.25) -> tuple[float, float]:
    """Return limits of an axis that shows all values, with a margin relative to their range.

    Pass the values of the reference, because a method that diverges must not set the scale.
    """
    values = values[np.abs(values) < _LARGEST]
    if not values.size:
        return -1.0, 1.0
    low = float(values.min())
    high = float(values.max())
    size = max(abs(low), abs(high), 1.0)
    space = margin * max(high - low, 1e-12 * size)
    return low - space, high + space


def within(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return a mask of the points (..., component) in a box (component, low or high)."""
    with np.errstate(all="ignore"):
        return np.asarray(((points >= box[:, 0]) & (points <= box[:, 1])).all(axis=-1))


_MARGIN = 0.25
_EQUAL_MARGIN = 0.15
PROJECTED = 150  # points of a line that is the projection of an orbit in more than two dimensions


def planes(system: System) -> list[tuple[int, int]]:
    """Return pairs of components worth drawing: (q_i, p_i), or neighbours."""
    dim = system.phase_dim
    if system.is_canonical:
        return list(zip(*system.equations.halves, strict=True))
    return [(0, 0)] if dim == 1 else [(i, i + 1) for i in range(0, dim - 1, 2 if dim > 3 else 1)]


def planes_of(system: System) -> list[tuple[int, int]]:
    """Return the planes that the system file names, or else those of :func:`planes`.

    Each is a pair of indices of components, which the further coordinates follow.
    """
    names = [*system.components, *system.coordinates]
    named = [(names.index(x), names.index(y)) for x, y in system.plot.planes]
    return named or planes(system)


def within_a_turn(system: System, states: np.ndarray) -> np.ndarray:
    """Return states (..., dim) with every angle within half a period of 0."""
    states = np.array(states)
    for i, period in system.periods.items():
        if i < states.shape[-1]:
            states[..., i] -= period * np.round(states[..., i] / period)
    return states


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
    system, scale
        The system, and the states.
    pair
        The components on the axes, by their numbers; further coordinates of the system follow.
    """

    system: System
    scale: np.ndarray
    pair: tuple[int, int]
    projection = None
    width = 0.75
    alpha = 0.9

    def points(self, states: np.ndarray) -> np.ndarray:
        """Return the coordinates (..., 2) of states (..., dim)."""
        with np.errstate(all="ignore"):
            further = [function(states) for function in self.system.coordinates.values()]
        every = [*np.moveaxis(states, -1, 0), *further]
        return np.stack([every[k] for k in self.pair], axis=-1)

    @cached_property
    def box(self) -> np.ndarray:
        """Limits of the axes: (component, low or high)."""
        points = self.points(self.scale)
        equal = self.system.plot.equal
        margin = _EQUAL_MARGIN if equal else _MARGIN
        box = np.array([limits(points[..., k], margin) for k in (0, 1)])
        if equal:
            half = (box[:, 1] - box[:, 0]).max() / 2
            box = box.mean(axis=1)[:, None] + half * np.array([-1, 1])
        return box

    def holds(self, states: np.ndarray) -> np.ndarray:
        """Return a mask of the states (..., dim) inside the axes."""
        return within(self.points(states), self.box)

    def draw(self, axes: Axes, states: np.ndarray, **strokes: Any) -> None:
        """Draw an orbit (time, dim)."""
        x, y = self.points(states).T
        if self.pair[0] == self.pair[1]:  # a single component is drawn over itself, one time later
            x = x[:-1]
            y = y[1:]
        axes.plot(x, y, **strokes)

    def frame(self, axes: Axes) -> None:
        """Set limits and labels."""
        names = [*self.system.components, *self.system.coordinates]
        x, y = (mathtext(names[k]) for k in self.pair)
        y = y if self.pair[0] != self.pair[1] else f"{y} at the next time"
        axes.set(xlim=self.box[0], ylim=self.box[1], xlabel=x, ylabel=y)
        if self.system.plot.equal:
            axes.set_box_aspect(1)


_SMALL = 9.5  # em: width of axes in space without room for numbers


@dataclass(frozen=True)
class Space:
    """A box in space that holds the states ``scale`` (..., 3), in 3D axes."""

    scale: np.ndarray
    names: Sequence[str]
    style: Style
    projection = "3d"
    width = 0.6
    alpha = None

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
        width = axes.get_window_extent().width / axes.figure.dpi
        small = width < _SMALL * self.style.em
        axes.set(xlim=box[0], ylim=box[1], zlim=box[2])
        axes.set_box_aspect((1, 1, 1), zoom=0.68 if small else 0.8)
        axes.patch.set_visible(False)  # it would hide labels of the panel to the left
        axes.view_init(elev=22, azim=-58)
        near = -0.35 * self.style.letters
        for axis, name in zip((axes.xaxis, axes.yaxis, axes.zaxis), self.names, strict=True):
            axis.set_major_locator(MaxNLocator(3))
            if small:
                axis.set_major_formatter(NullFormatter())
            axis.set_tick_params(pad=near, labelsize=0.75 * self.style.letters)
            axis.set_label_text(mathtext(name))
            axis.labelpad = 2 * near
            axis.set_pane_color((0, 0, 0, 0))
        axes.zaxis.labelpad = (2.2 if small else 1.5) * near  # its numbers are the longest


_NEAR = 1.4  # radii: farther out nothing is drawn
# factors on the opacity of the far side
_FAR = 0.17
_FAR_ALONE = 0.45
_TOWARD = np.array([1.0, 0.55, 0.42]) / np.linalg.norm([1.0, 0.55, 0.42])  # to the viewer
_RIGHT = np.array([-0.55, 1.0, 0.0]) / np.linalg.norm([0.55, 1.0])
_CAMERA = np.stack([_RIGHT, np.cross(_TOWARD, _RIGHT), _TOWARD], axis=1)  # right, up, toward


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

    The projection is orthographic and computed here: three-dimensional axes sort whole lines by
    distance and would hide the wrong points.

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
        Whether a single orbit is drawn, which shows through the sphere. Of many orbits the far side
        is faint.
    """

    components: Sequence[int]
    names: Sequence[str]
    radius: float
    style: Style
    alone: bool = False
    projection: ClassVar[str | None] = None  # projection of the Axes
    # lines of orbits among others
    width = 0.75
    alpha = 0.95

    def holds(self, states: np.ndarray) -> np.ndarray:
        """Return a mask of the states (..., dim) near enough to the sphere to be drawn."""
        with np.errstate(all="ignore"):
            distance = np.linalg.norm(states[..., list(self.components)], axis=-1)
            return np.asarray(distance < _NEAR * self.radius)

    def draw(self, axes: Axes, states: np.ndarray, alpha: float = alpha, **strokes: Any) -> None:
        """Draw an orbit (time, dim) near the sphere, fainter on the far side."""
        points = np.where(self.holds(states)[:, None], states[:, list(self.components)], np.nan)
        x, y, depth = (points @ _CAMERA).T
        front = depth >= -0.02 * self.radius
        near = front
        if strokes.get("ls") != "none":
            # a point of the other side is kept at each end, so that the parts meet
            near = front | np.roll(front, 1) | np.roll(front, -1)
        far = _FAR_ALONE if self.alone else _FAR
        for visible, opacity, order in ((~front, far * alpha, 1), (near, alpha, 3)):
            part = np.where(visible, (x, y), np.nan)
            axes.plot(*part, alpha=opacity, zorder=order, **strokes)

    def frame(self, axes: Axes) -> None:
        """Draw the shaded sphere and the three axes."""
        radius = self.radius
        style = self.style
        self._shade(axes)
        for name, across, up in zip(self.names, *_CAMERA.T[:2], strict=True):
            line = radius * np.outer([across, up], [1, 1.28])
            axes.plot(*line, color=style.foreground, lw=0.7 * style.line, zorder=2)
            x, y = line[:, 1] + 0.14 * radius * line[:, 1] / np.linalg.norm(line[:, 1])
            label = axes.text(x, y, mathtext(name), ha="center", va="center", zorder=5)
            label.set_path_effects([withStroke(linewidth=2, foreground=style.background)])
        axes.set(xlim=(-1.2 * radius, 1.45 * radius), ylim=(-1.1 * radius, 1.55 * radius))
        axes.set_aspect("equal")
        axes.axis("off")

    def _shade(self, axes: Axes) -> None:
        """Draw the sphere, lit from the upper left, as an image with three great circles."""
        radius = self.radius
        style = self.style
        x, y = np.meshgrid(*[np.linspace(-1, 1, 240)] * 2)
        normal = np.stack([x, y, np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))])
        light = np.array([-0.45, 0.55, 0.7])
        shade = np.clip(np.tensordot(light / np.linalg.norm(light), normal, 1), 0, 1)
        dark, lit = (0.14, 0.34) if style.dark else (0.80, 0.99)  # greys
        look: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "bilinear"}
        look |= {"origin": "lower", "extent": (-radius, radius, -radius, radius), "zorder": 0}
        image = axes.imshow(dark + (lit - dark) * shade, **look)
        outline = Circle((0, 0), radius, fill=False, color="0.6", lw=0.6 * style.line, zorder=4)
        axes.add_patch(outline)
        image.set_clip_path(outline)
        turn = np.linspace(0, 2 * np.pi, 200)
        for pair in ([0, 1], [1, 2], [0, 2]):
            circle = np.zeros((len(turn), 3))
            circle[:, pair] = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
            across, up, depth = (circle @ _CAMERA).T
            part = np.where(depth >= 0, (across, up), np.nan)
            axes.plot(*part, color=style.background, lw=0.8 * style.line, zorder=1)


View = Sphere | Space | Plane
