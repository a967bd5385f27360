"""Preview of a dataset: orbits in a plane, and the components of a trajectory in time."""

from __future__ import annotations

import matplotlib.figure
import numpy as np

from vpintegrator.data import Dataset
from vpintegrator.plotting.figure import Figure
from vpintegrator.plotting.style import ORBIT_COLOURS, PAPER
from vpintegrator.plotting.text import mathtext, plain
from vpintegrator.plotting.views import Plane, drawn_in_plane, planes_of, stroke, within_a_turn

_COMPONENTS = 6
_TIMES = 300  # times of a component's curve, so that its oscillations can be told apart
_TRAJECTORIES = 40  # in the portrait


class PreviewFigure(Figure):
    """The training group of a dataset: a phase portrait, the components of a trajectory."""

    name = "preview"
    style = PAPER

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def draw(self) -> matplotlib.figure.Figure:
        dataset, system, colour = self.dataset, self.dataset.system, ORBIT_COLOURS[0]
        names = system.components[: min(system.phase_dim, _COMPONENTS)]
        states = dataset.states("train", slice(_TRAJECTORIES))
        states = within_a_turn(system, states) if system.is_discrete else states
        dots = system.is_discrete or not np.isfinite(states).all()
        figure = self.new(PAPER.wide, max(6.5 * len(names), 21) + 6)
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
        return figure

    def sentences(self) -> list[str]:
        return [self.dataset.description]
