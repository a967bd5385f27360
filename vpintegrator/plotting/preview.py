"""Preview of a dataset: orbits in a plane, components in time, and changes of its invariants."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vpintegrator.data import Dataset
from vpintegrator.data.inspection import Group, inspect_dataset
from vpintegrator.errors import InputError
from vpintegrator.plotting.curves import floored
from vpintegrator.plotting.layout import new_figure
from vpintegrator.plotting.names import mathtext, plain, shortened, spoken
from vpintegrator.plotting.style import PAPER, Look, Style
from vpintegrator.plotting.views import (
    Plane,
    drawn_in_plane,
    located,
    planes_of,
    stroke,
    within_a_turn,
)
from vpintegrator.storage.files import replacing

_COLOURS = {"train": "#0072B2", "validation": "#E69F00", "test": "#D55E00"}
_LINES = ("-", "--", ":", "-.")
_COMPONENTS = 6
_TIMES = 300  # times of a component's curve, so that its oscillations can be told apart
_TRAJECTORIES = 40  # in the portrait
_FORMATS = (".png", ".pdf", ".svg")


def draw_preview(
    dataset: Dataset,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    *,
    groups: Mapping[str, Group] | None = None,
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

    Raises
    ------
    InputError
        If the figure cannot be written.
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in _FORMATS:
        raise InputError(f"{path}: a preview is written to a file {', '.join(_FORMATS)}")
    with replacing(path, overwrite) as temporary, PAPER.applied(), np.errstate(all="ignore"):
        figure = _figure(dataset, groups or inspect_dataset(dataset), PAPER)
        figure.savefig(temporary, format=suffix[1:], bbox_inches=None)


def _figure(dataset: Dataset, groups: Mapping[str, Group], style: Style) -> Figure:
    system = dataset.system
    names = system.components[: min(system.phase_dim, _COMPONENTS)]
    drawn = {name: group for name, group in groups.items() if np.prod(group.shape)}
    below = 17 if system.invariants else 0
    above = max(6.5 * len(names), 21)
    figure = new_figure(style, style.wide, above + below + 6)
    grid = figure.add_gridspec(
        2 if below else 1, 1, height_ratios=[above, below][: 1 + bool(below)]
    )
    upper = grid[0].subgridspec(len(names), 2, width_ratios=[1, 1.25])
    _portrait(figure.add_subplot(upper[:, 0]), dataset, style)
    columns = [figure.add_subplot(upper[k, 1]) for k in range(len(names))]
    for k, axes in enumerate(columns):
        for group in drawn:
            _curve(axes, dataset, group, k, style)
        axes.set_ylabel(mathtext(names[k]))
        axes.tick_params(labelbottom=k == len(names) - 1)
    columns[-1].set_xlabel("iteration" if system.is_discrete else "time $t$")
    columns[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(drawn))
    if below:
        _invariants(figure.add_subplot(grid[1]), drawn, [*system.invariants][: len(_LINES)], style)
    title = f"{plain(dataset.title)}\n{plain(dataset.description)}"
    figure.suptitle(title, fontsize=1.1 * style.letters)
    return figure


def _colour(style: Style, group: str) -> str:
    return style.adapt(Look(_COLOURS[group], "-", "")).colour


def _states(dataset: Dataset, group: str) -> tuple[np.ndarray, bool]:
    """Return states of a few trajectories, and whether dots show them."""
    states = dataset.states(group, slice(_TRAJECTORIES))
    discrete = dataset.system.is_discrete
    states = within_a_turn(dataset.system, states) if discrete else states
    return states, discrete or not np.isfinite(states).all()


def _portrait(axes: Axes, dataset: Dataset, style: Style) -> None:
    """Draw orbits of the training group in the main plane of the system."""
    system, (states, dots) = dataset.system, _states(dataset, "train")
    part = located(system, drawn_in_plane(states, dataset.dim, dots))
    names = (*system.components, *system.coordinates)
    view = Plane(part, planes_of(system)[0], names, system.plot.equal)
    view.frame(axes)
    for orbit in part:
        view.draw(axes, orbit, color=_colour(style, "train"), **stroke(style, dots))


def _curve(axes: Axes, dataset: Dataset, group: str, component: int, style: Style) -> None:
    """Draw one component of the first trajectory of a group."""
    states, dots = _states(dataset, group)
    step = dataset.conditions(group)[0, 0] if "step" in dataset.varied else 1.0
    values = states[0, :_TIMES, component]
    strokes = stroke(style, dots or len(values) < 2, 1.3)
    times = dataset.times(group)[: len(values)] * step
    axes.plot(times, values, color=_colour(style, group), label=group, **strokes)


def _invariants(
    axes: Axes, groups: Mapping[str, Group], invariants: list[str], style: Style
) -> None:
    """Draw the largest change of each invariant on any trajectory up to each time."""
    for group, found in groups.items():
        for invariant, line in zip(invariants, _LINES, strict=False):
            changes, times = found.change_in_time[invariant][1:], found.change_times[1:]
            mark = "." if len(changes) < 2 else ""  # a line of one point is none
            axes.plot(times, floored(changes), color=_colour(style, group), ls=line, marker=mark)
    axes.set(yscale="log", xlabel="time $t$", ylabel="change / largest value", title="invariants")
    for invariant, line in zip(invariants, _LINES, strict=False):
        label = plain(shortened(spoken(invariant)))
        axes.plot([], [], color=style.foreground, ls=line, lw=style.line, label=label)
    axes.legend(ncols=len(invariants))
