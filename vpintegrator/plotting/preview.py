"""Preview of a dataset: orbits, components in time, and errors of its invariants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.data import Dataset
from vpintegrator.data.inspection import Group, inspect_dataset
from vpintegrator.errors import InputError
from vpintegrator.plotting.curves import floored
from vpintegrator.plotting.interpolation import between, refinement
from vpintegrator.plotting.names import mathtext, plain, shortened, spoken
from vpintegrator.plotting.portraits import View, draw_orbits
from vpintegrator.plotting.style import Look, Style, find_style
from vpintegrator.plotting.views import (
    ORBITS,
    POINTS,
    PROJECTED,
    Plane,
    Space,
    Sphere,
    drawn_in_plane,
    located,
    on_sphere,
    orbit_colours,
    planes_of,
    shown,
    within_a_turn,
)
from vpintegrator.storage.files import replacing

_COLOURS = {"train": "#0072B2", "validation": "#E69F00", "test": "#D55E00"}
_LINES = ("-", "--", ":", "-.")
_COMPONENTS = 6
_TIMES = 300  # times of a component's curve, so that its oscillations can be told apart
_BINS, _BESIDE = 30, 4
_FORMATS = (".png", ".pdf", ".svg")


def draw_preview(
    dataset: Dataset,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    *,
    groups: Mapping[str, Group] | None = None,
    style: str = "paper",
) -> None:
    """Draw a dataset: a phase portrait, the components of a trajectory, and its invariants.

    Parameters
    ----------
    dataset
        Dataset to draw.
    path
        The figure, .png, .pdf or .svg.
    overwrite
        Whether a file of that name may be replaced.
    groups
        Result of :func:`vpintegrator.data.inspection.inspect_dataset`, if it is known already.
    style
        ``paper``, ``talk`` or ``dark``.

    Raises
    ------
    InputError
        If the figure cannot be written.
    """
    look = find_style(style)
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in _FORMATS:
        raise InputError(f"{path}: a preview is written to a file {', '.join(_FORMATS)}")
    with replacing(path, overwrite) as temporary, look.applied(), np.errstate(all="ignore"):
        figure = _figure(dataset, groups or inspect_dataset(dataset), look)
        figure.savefig(temporary, format=suffix[1:], bbox_inches=None)


def _figure(
    dataset: Dataset, groups: Mapping[str, Group], style: Style
) -> matplotlib.figure.Figure:
    moving = dataset.system.phase_dim
    components = dataset.system.components[: min(moving, _COMPONENTS)]
    drawn = {name: group for name, group in groups.items() if np.prod(group.shape)}
    invariants = list(dataset.system.invariants)[: len(_LINES)]
    above = max(6.5 * len(components), 21)
    below = 17 if invariants else 0
    beside = 17 if dataset.is_family else 0
    figure = matplotlib.figure.Figure(
        figsize=(style.wide, style.em * (above + below + beside + 6)), layout="constrained"
    )
    rows = [height for height in (above, below, beside) if height]
    grid = figure.add_gridspec(len(rows), 1, height_ratios=rows)
    portraits = [1] if moving > 1 else []
    upper = grid[0].subgridspec(1, len(portraits) + 1, width_ratios=[*portraits, 1.25])
    if portraits:
        _portrait(figure, upper[0], dataset, style)
    right = upper[len(portraits)].subgridspec(len(components), 1)
    first: Axes | None = None
    for k, name in enumerate(components):
        first = axes = figure.add_subplot(right[k], sharex=first)
        for group in drawn:
            _curve(axes, dataset, group, k, style)
        axes.set_ylabel(mathtext(name))
        axes.label_outer()
    if first is not None:
        first.set_xlabel("iteration" if dataset.system.is_discrete else "time $t$")
    if invariants:
        axes = figure.add_subplot(grid[1])
        _invariants(axes, drawn, invariants, style)
        axes.set_xlabel("steps" if "step" in dataset.varied else "time $t$")
    if beside:
        _parameters(figure, grid[len(rows) - 1], dataset, list(drawn), style)
    figure.suptitle(
        f"{plain(dataset.title)}\n{plain(dataset.description)}", fontsize=1.1 * style.letters
    )
    width = 2 * style.line
    handles = [Line2D([], [], color=_COLOURS[group], lw=width, label=group) for group in drawn]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _colour(style: Style, group: str) -> str:
    return style.adapt(Look(_COLOURS[group], "-", "")).colour


def _portrait(figure: Any, place: Any, dataset: Dataset, style: Style) -> None:
    """Draw orbits of the training group, as dots if observed with noise or gaps."""
    system = dataset.system
    states = dataset.states("train", slice(ORBITS))
    components = system.components[: system.phase_dim]
    dots = dataset.is_observed or system.is_discrete
    if system.is_discrete:
        states = within_a_turn(system, states)
    known = states[np.isfinite(states).all(axis=-1)]
    if not len(known):
        return
    if dots:
        states = known[None]
    else:
        states = _between(dataset, states[:, :POINTS])
    part = shown(states, dots)
    colours = [_colour(style, "train")] * len(states)
    radius = on_sphere(known[:, : system.phase_dim])
    view: View
    if radius is not None:
        view = Sphere(range(3), components, radius, style)
    elif len(components) == 3 and not system.plot.planes:
        view = Space(states, components, style)
        colours = colours if dots else orbit_colours(len(states), style)
    else:
        part = drawn_in_plane(states, dataset.dim, dots)
        if not dots and dataset.dim > 2:
            stored = dataset.states("train", slice(1))[:, :PROJECTED]  # states, not points between
            part = _between(dataset, stored)
        part = located(system, part)
        names = (*system.components, *system.coordinates)
        view = Plane(part, planes_of(system)[0], names, system.plot.equal)
    axes = figure.add_subplot(place, projection=view.projection)
    view.frame(axes)
    draw_orbits(axes, view, part, colours[: len(part)], [dots] * len(part), style)


def _between(dataset: Dataset, states: np.ndarray) -> np.ndarray:
    """Return states (trajectory, time, dim) with points of the solution between long steps."""
    if dataset.is_family:  # with steps and parameters of their own
        return states
    pieces = refinement(dataset.system, states, dataset.step)
    return between(dataset.system, states, dataset.step, pieces)[0]


def _curve(axes: Axes, dataset: Dataset, group: str, component: int, style: Style) -> None:
    """Draw one component of the first trajectory of a group."""
    times, states = _first(dataset, group)
    dots = dataset.is_observed or dataset.system.is_discrete
    if dataset.system.is_discrete:
        states = within_a_turn(dataset.system, states)
    elif not dots:
        smooth = _between(dataset, states[None])[0]
        places = np.linspace(0, len(times) - 1, len(smooth))
        times, states = np.interp(places, np.arange(len(times)), times), smooth
    values = states[:, component]
    axes.plot(
        times,
        values,
        color=_colour(style, group),
        ls="none" if dots else "-",
        marker="." if dots or len(times) < 2 else "",
        ms=0.35 * style.letters,
        mew=0,
        lw=style.line,
    )


def _first(dataset: Dataset, group: str) -> tuple[np.ndarray, np.ndarray]:
    """Return times and states of the first trajectory of a group."""
    step = dataset.conditions(group)[0, 0] if "step" in dataset.varied else 1.0
    return dataset.times(group)[:_TIMES] * step, dataset.states(group, 0, slice(_TIMES))


def _parameters(figure: Any, place: Any, dataset: Dataset, groups: list[str], style: Style) -> None:
    """Draw a histogram of each parameter that varies."""
    names = list(dataset.varied)[:_BESIDE]
    parts = place.subgridspec(1, len(names))
    for k, name in enumerate(names):
        axes = figure.add_subplot(parts[k])
        for group in groups:
            values, span = dataset.conditions(group)[:, k], dataset.varied[name]
            axes.hist(values, bins=_BINS, range=span, color=_colour(style, group), alpha=0.7)
        axes.set(xlabel=_spoken(name), ylabel="" if k else "trajectories")


def _spoken(name: str) -> str:
    return "step $h$" if name == "step" else mathtext(name)


def _invariants(
    axes: Axes, groups: Mapping[str, Group], invariants: list[str], style: Style
) -> None:
    """Draw the largest change of each invariant on any trajectory up to each time."""
    for group, found in groups.items():
        for invariant, line in zip(invariants, _LINES, strict=False):
            changes = found.change_in_time[invariant]
            lonely = "." if len(changes) < 3 else ""  # a line of one point is none
            times = found.change_times[1:]
            axes.plot(
                times, floored(changes[1:]), color=_colour(style, group), ls=line, marker=lonely
            )
    axes.set(yscale="log", xlabel="time $t$", ylabel="change / largest value")
    axes.set_title("invariants")
    for invariant, line in zip(invariants, _LINES, strict=False):
        label = plain(shortened(spoken(invariant)))
        axes.plot([], [], color=style.foreground, ls=line, lw=style.line, label=label)
    axes.legend(ncols=len(invariants))
