"""Poincare sections: crossings of orbits with a hyperplane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import by_method, events, listed
from vpintegrator.plotting.layout import FigureDeclaration, orbit_legend, panels_of_portraits
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.portraits import REFERENCE, draw_dots, title_panel
from vpintegrator.plotting.scene import Rollout, Scene, choose, drawn_into, own_scene, takes_axes
from vpintegrator.plotting.views import (
    limits,
    orbit_colours,
    pair_of_section,
    shared_limits,
    within,
    within_a_turn,
)
from vpintegrator.rollout.diagnostics.poincare import Section, poincare_section

_SAME = 0.01  # relative difference of energies at one level
_POINTS = 30_000  # points of a method; more make no clearer picture


def plane_of_section(scene: Scene) -> tuple[int, int] | None:
    """Return the components on the axes, or None if no section fills a plane.

    A pair that the section's own component is not part of, conjugate if there is one.
    """
    plane = scene.report.section_plane
    if plane is None or len(scene.components) < 3:
        return None
    return pair_of_section(scene.system, plane[0])


def reference_section(scene: Scene) -> Section | None:
    """Return the points of the reference, if its states are close enough in time."""
    report = scene.report
    if report.section_plane is None or report.every > 1 or not scene.referenced:
        return None
    component, value, direction = report.section_plane
    cut = scene.components.index(component)
    period, parts = scene.system.periods.get(cut), []
    known = np.isfinite(report.reference).all(axis=-1)
    lengths = known.sum(axis=1)  # up to the end of each orbit's reference
    lengths[[not row[:length].all() for row, length in zip(known, lengths, strict=True)]] = 0
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        states = report.reference[rows, :length]
        part = poincare_section(states, report.step, cut, value, direction, period)
        parts.append(replace(part, trajectory=rows[part.trajectory]))
    if not parts:
        return None
    names = ("points", "trajectory", "time")
    return Section(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def level(scene: Scene) -> tuple[list[int], np.ndarray]:
    """Return the orbits at one level of the energy, and their energies; all if there is none.

    Orbits of other energies would cross theirs in the plane. The level is that of most orbits, or
    of the first that the user chose.
    """
    every = np.arange(len(scene.report.reference))
    energy = scene.system.invariants.get("energy")
    plane = scene.report.section_plane
    if energy is None or plane is None or plane[0] == scene.system.time:
        return list(every), np.empty(0)
    values = np.asarray(energy(scene.report.reference[:, 0]))
    near = np.abs(values - values[:, None]) <= _SAME * np.abs(values[:, None])
    best = scene.orbits[0] if scene.orbits else int(near.sum(axis=1).argmax())
    return list(every[near[best]]), values[near[best]]


def _sections(scene: Scene) -> dict[str, Section]:
    """Return the nonempty sections of the reference and the methods, with angles within a turn."""
    found = {REFERENCE: reference_section(scene)}
    found |= scene.measured("section")
    orbits, _ = level(scene)
    sections = {}
    for name, whole in found.items():
        kept = np.isin(whole.trajectory, orbits) if whole else np.empty(0, dtype=bool)
        if whole and kept.any():
            points = within_a_turn(scene.system, whole.points[kept])
            sections[name] = Section(points, whole.trajectory[kept], whole.time[kept])
    return sections


def section_words(scene: Scene, form: Callable[[str], str] = str) -> str:
    """Return ``section q[0] = 0, upwards``; ``form`` gives the label of a component."""
    assert scene.report.section_plane is not None
    component, value, direction = scene.report.section_plane
    way = {1: ", upwards", -1: ", downwards"}.get(int(direction), "")
    way = ", once in a period" if component == scene.system.time else way
    return f"section {form(component)} = {value:g}{way}"


def draw_section(
    axes: Axes, scene: Scene, name: str, pair: tuple[int, int], found: Section
) -> None:
    """Draw the points of a method or the reference, an orbit in the same colour in all panels."""
    style = scene.style
    colours = np.array([to_rgb(c) for c in orbit_colours(len(scene.report.reference), style)])
    chosen = slice(None, None, -(-len(found.points) // _POINTS))
    points = found.points[chosen]
    x, y = points[:, pair[0]], points[:, pair[1]]
    draw_dots(axes, x, y, colours[found.trajectory[chosen]], style)
    axes.set(xlabel=mathtext(scene.components[pair[0]]), ylabel=mathtext(scene.components[pair[1]]))
    title_panel(axes, scene, name)


@takes_axes
def section(report: Rollout, method: str = REFERENCE, ax: Any = None) -> Any:
    """Draw the Poincare section of a method, a colour for each orbit.

    Parameters
    ----------
    {report}
    method
        Name of a method in the report, or ``"reference"``.
    {ax}

    Raises
    ------
    InputError
        If the file is no rollout, has no such method, or no section with points of it.

    Examples
    --------
    ::

        vp.plotting.section("henon-heiles-rollout.h5", "rk4", ax=ax)

    >>> report = vp.compare(None, "rk4", system="henon-heiles", steps=100)
    >>> axes = vp.plotting.section(report, "rk4")
    """
    scene = own_scene(report, ax)
    choose("method", method, [REFERENCE, *scene.runs])
    pair, found = plane_of_section(scene), _sections(scene).get(method)
    if pair is None or found is None:
        raise InputError(f"section: this rollout has no Poincare section with points of '{method}'")
    return drawn_into(ax, draw_section, scene, method, pair, found)


def _applies(scene: Scene) -> bool:
    return plane_of_section(scene) is not None and any(n in scene.runs for n in _sections(scene))


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    """Draw the sections of the reference and of every method that has one.

    The axes hold all points that are not far from the points of the reference. Without a reference,
    the method with the smallest section takes its place.
    """
    pair, drawn = plane_of_section(scene), _sections(scene)
    assert pair is not None
    box = _box(drawn, pair)

    def draw(axes: Axes, name: str) -> None:
        draw_section(axes, scene, name, pair, drawn[name])
        axes.set(xlim=box[0], ylim=box[1])
        if beyond := _beyond(drawn[name], pair, box):
            size = 0.85 * scene.style.letters
            axes.text(0.03, 0.97, f"{beyond} beyond", transform=axes.transAxes, va="top", size=size)

    legend = orbit_legend(scene, level(scene)[0])
    figure, _ = panels_of_portraits(scene.style, drawn, draw, 2, legend)
    energies = level(scene)[1]
    energy = f", energy {energies.mean():.4g}" if energies.size else ""
    title = section_words(scene, mathtext) + energy
    figure.suptitle(title, fontsize=1.05 * scene.style.letters)
    return figure


def _box(drawn: dict[str, Section], pair: tuple[int, int]) -> np.ndarray:
    """Return limits that show the points of all panels, except points far from the reference."""
    boxes = {
        name: np.array([limits(found.points[:, k], 0.08) for k in pair])
        for name, found in drawn.items()
    }
    narrowest = min(boxes, key=lambda name: float(np.ptp(boxes[name], axis=1).prod()))
    return shared_limits([*boxes.values()], boxes.get(REFERENCE, boxes[narrowest]))


def _beyond(found: Section, pair: tuple[int, int], box: np.ndarray) -> int:
    """Return the number of points outside the box."""
    return int((~within(found.points[:, list(pair)], box)).sum())


def _caption(scene: Scene) -> list[str]:
    pair, drawn = plane_of_section(scene), _sections(scene)
    assert pair is not None
    counts = {name: len(found.points) for name, found in drawn.items() if name in scene.runs}
    axes = [scene.components[k] for k in pair]
    many = any(count > _POINTS for count in counts.values())
    box = _box(drawn, pair)
    far = {name: missed for name in counts if (missed := _beyond(drawn[name], pair, box))}
    beyond = [f"Beyond the axes: {by_method(scene, far, str)}."] if far else []
    thin = f"; at most {_POINTS} of them are drawn, evenly chosen" if many else ""
    return [
        f"Poincare {section_words(scene)}, in the plane ({', '.join(axes)}); each "
        "orbit in a colour of its own, the same in all panels.",
        *_energies(scene),
        f"Number of points: {by_method(scene, counts, str)}{thin}.",
        *beyond,
        *events(scene),
    ]


def _energies(scene: Scene) -> list[str]:
    """Return a sentence on the level of the energy and the orbits at it."""
    orbits, energies = level(scene)
    if not energies.size:
        return []
    spread = f" within {np.ptp(energies):.0e}" if np.ptp(energies) else ""
    others = len(scene.report.reference) - len(orbits)
    which = f"orbit{'s' if len(orbits) > 1 else ''} {listed([str(k + 1) for k in orbits])}"
    which = which if others else "all orbits"
    left = f"; the other {others} have other energies and are left out" if others else ""
    return [f"One level of the energy, {energies.mean():.4g}{spread}: {which}{left}."]


POINCARE = FigureDeclaration("poincare", _draw, _caption, _applies)
