"""Preview of a dataset: orbits in a plane, and the components of a trajectory in time."""

from __future__ import annotations

import os

import numpy as np

from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.plotting.draw import FORMATS
from vpintegrator.plotting.figure import new_figure
from vpintegrator.plotting.style import ORBIT_COLOURS, PAPER
from vpintegrator.plotting.text import mathtext, plain
from vpintegrator.plotting.views import Plane, drawn_in_plane, planes_of, stroke, within_a_turn
from vpintegrator.storage.files import replacing

_COMPONENTS = 6
_TIMES = 300  # times of a component's curve, so that its oscillations can be told apart
_TRAJECTORIES = 40  # in the portrait


def draw_preview(dataset: Dataset, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Draw the training group of a dataset: a phase portrait, the components of a trajectory.

    Parameters
    ----------
    dataset
        Dataset to draw.
    path
        The figure, .png, .pdf or .svg.
    overwrite
        Whether a file of that name may be replaced.

    Raises
    ------
    InputError
        If the figure cannot be written.
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError(f"{path}: a preview is written to a file .{', .'.join(FORMATS)}")
    system, colour = dataset.system, ORBIT_COLOURS[0]
    names = system.components[: min(system.phase_dim, _COMPONENTS)]
    states = dataset.states("train", slice(_TRAJECTORIES))
    states = within_a_turn(system, states) if system.is_discrete else states
    dots = system.is_discrete or not np.isfinite(states).all()
    with replacing(path, overwrite) as temporary, PAPER.applied(), np.errstate(all="ignore"):
        figure = new_figure(PAPER, PAPER.wide, max(6.5 * len(names), 21) + 6)
        grid = figure.add_gridspec(len(names), 2, width_ratios=[1, 1.25])
        drawn = drawn_in_plane(states, dataset.dim, dots)
        view, axes = Plane(system, drawn, planes_of(system)[0]), figure.add_subplot(grid[:, 0])
        view.frame(axes)
        for orbit in drawn:
            view.draw(axes, orbit, color=colour, **stroke(PAPER, dots))
        step = dataset.conditions("train")[0, 0] if "step" in dataset.varied else 1.0
        for k, name in enumerate(names):
            axes = figure.add_subplot(grid[k, 1], ylabel=mathtext(name))
            values = states[0, :_TIMES, k]
            times = dataset.times("train")[: len(values)] * step
            axes.plot(times, values, color=colour, **stroke(PAPER, dots or len(values) < 2, 1.3))
            axes.tick_params(labelbottom=k == len(names) - 1)
        axes.set_xlabel("iteration" if system.is_discrete else "time $t$")
        figure.suptitle(f"{plain(dataset.title)}\n{plain(dataset.description)}", size="large")
        figure.savefig(temporary, format=suffix, bbox_inches=None)
