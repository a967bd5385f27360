"""Preview of a dataset: orbits in a plane, components in time, and changes of its invariants."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.data import Dataset
from vpintegrator.data.inspection import Group, inspect_dataset
from vpintegrator.errors import InputError
from vpintegrator.plotting.figure import new_figure
from vpintegrator.plotting.figures.curves import floored
from vpintegrator.plotting.style import PAPER
from vpintegrator.plotting.text import mathtext, plain, shortened
from vpintegrator.plotting.views import Plane, drawn_in_plane, planes_of, stroke, within_a_turn
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
    groups = groups or inspect_dataset(dataset)
    groups = {name: group for name, group in groups.items() if np.prod(group.shape)}
    system = dataset.system
    names = system.components[: min(system.phase_dim, _COMPONENTS)]
    with replacing(path, overwrite) as temporary, PAPER.applied(), np.errstate(all="ignore"):
        above, below = max(6.5 * len(names), 21), 17 * bool(system.invariants)
        figure = new_figure(PAPER, PAPER.wide, above + below + 6)
        grid = figure.add_gridspec(
            2, 2, height_ratios=[above, below or 0.01], width_ratios=[1, 1.25]
        )
        _portrait(figure.add_subplot(grid[0, 0]), dataset)
        column = grid[0, 1].subgridspec(len(names), 1)
        for k, name in enumerate(names):
            axes = figure.add_subplot(column[k], ylabel=mathtext(name))
            for group in groups:
                _curve(axes, dataset, group, k)
            axes.tick_params(labelbottom=k == len(names) - 1)
            if k == 0:
                axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(groups))
        axes.set_xlabel("iteration" if system.is_discrete else "time $t$")
        if below:
            _invariants(figure.add_subplot(grid[1, :]), groups, [*system.invariants][: len(_LINES)])
        figure.suptitle(f"{plain(dataset.title)}\n{plain(dataset.description)}", size="large")
        figure.savefig(temporary, format=suffix[1:], bbox_inches=None)


def _states(dataset: Dataset, group: str) -> tuple[np.ndarray, bool]:
    """Return states of a few trajectories, and whether dots show them."""
    states = dataset.states(group, slice(_TRAJECTORIES))
    discrete = dataset.system.is_discrete
    states = within_a_turn(dataset.system, states) if discrete else states
    return states, discrete or not np.isfinite(states).all()


def _portrait(axes: Axes, dataset: Dataset) -> None:
    """Draw orbits of the training group in the main plane of the system."""
    states, dots = _states(dataset, "train")
    part = drawn_in_plane(states, dataset.dim, dots)
    view = Plane(dataset.system, part, planes_of(dataset.system)[0])
    view.frame(axes)
    for orbit in part:
        view.draw(axes, orbit, color=_COLOURS["train"], **stroke(PAPER, dots))


def _curve(axes: Axes, dataset: Dataset, group: str, component: int) -> None:
    """Draw one component of the first trajectory of a group."""
    states, dots = _states(dataset, group)
    step = dataset.conditions(group)[0, 0] if "step" in dataset.varied else 1.0
    values = states[0, :_TIMES, component]
    times = dataset.times(group)[: len(values)] * step
    strokes = stroke(PAPER, dots or len(values) < 2, 1.3)
    axes.plot(times, values, color=_COLOURS[group], label=group, **strokes)


def _invariants(axes: Axes, groups: Mapping[str, Group], invariants: list[str]) -> None:
    """Draw the largest change of each invariant on any trajectory up to each time."""
    for invariant, line in zip(invariants, _LINES, strict=False):
        for group, found in groups.items():
            changes, times = found.change_in_time[invariant][1:], found.change_times[1:]
            mark = "." if len(changes) < 2 else ""  # a line of one point is none
            axes.plot(times, floored(changes), color=_COLOURS[group], ls=line, marker=mark)
        label = plain(shortened(invariant.replace("_", " ")))
        axes.plot([], [], color="black", ls=line, label=label)
    axes.set(yscale="log", xlabel="time $t$", ylabel="change / largest value", title="invariants")
    axes.legend(ncols=len(invariants))
