"""What the figures of reproduced studies share: orbits and errors in time, titles of panels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import SubFigure

from vpintegrator.plotting.curves import cut, draw_curve, largest_between
from vpintegrator.plotting.layout import Legend, legend_lines, reference_line
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.views import limits

if TYPE_CHECKING:
    from reproduction import Study

_POINTS = 120  # of the curve of an error


def draw_orbits(figure: SubFigure, scene: Scene, study: Study, names: Sequence[str]) -> None:
    """Some components of every orbit against time, over the reference, and the errors below.

    Networks are drawn, and in the last row ``study.beside`` too.
    """
    report, style, drawn = scene.report, scene.style, [*study.networks, study.beside]
    reach = float(np.linalg.norm(np.ptp(report.reference, axis=(0, 1))))
    rows = len(names) + 1
    heights = [*[1.0] * len(names), 1.7]
    columns = len(study.orbits)
    grid = figure.subplots(rows, columns, sharex=True, height_ratios=heights)
    for name, row in zip(names, grid, strict=False):
        i = scene.components.index(name)
        for axes, reference in zip(row, report.reference[..., i], strict=True):
            axes.plot(report.times, reference, color=style.reference, lw=2.6, alpha=0.5)
        for network in study.networks:
            look, run = scene.looks[network], scene.runs[network]
            line = {"color": look.colour, "ls": look.line, "lw": 0.6 * look.width}
            # what has run away is not drawn: its oscillations would cover all the others
            lost = np.logical_or.accumulate(~(run.error < reach), axis=1)
            for axes, values, out in zip(row, run.states[..., i], lost, strict=True):
                axes.plot(report.times, np.where(out, np.nan, values), **line)
        for axes, reference in zip(row, report.reference[..., i], strict=True):
            axes.set_ylim(limits(reference))
        row[0].set_ylabel(mathtext(name))
    for name in drawn:
        # in every window the first state is better than the last: the envelope is drawn
        first, last = scene.start[name], report.reference.shape[1]
        chosen = np.linspace(first, last - 1, min(_POINTS, last - first)).astype(int)
        errors = largest_between(scene.runs[name].error, chosen)
        for axes, error in zip(grid[-1], errors, strict=True):
            draw_curve(axes, scene, name, report.times[chosen], error, logarithmic=False)
    for axes in grid[-1]:
        axes.set(yscale="log", xlabel="time $t$", xlim=(0, report.times[-1]))
        cut(axes)
    ends = [axes.get_ylim() for axes in grid[-1]]
    for axes in grid[-1]:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    grid[-1, 0].set_ylabel("distance from\nthe reference")
    for axes, orbit in zip(grid[0], study.orbits, strict=True):
        axes.set_title(orbit)
    figure.align_ylabels(grid[:, 0])
    titles = [scene.legend_title(name) for name in drawn]
    lines = [line for line in legend_lines(scene) if line.get_label() in titles]
    Legend([*lines, *reference_line(scene)], style.wide / style.em).draw(figure)


def panel_title(scene: Scene, name: str) -> str:
    """A method and its errors."""
    errors = [f"{x:.1e}" for x in scene.runs[name].root_mean_square_error]
    powers = [re.sub(r"e([+-]\d+)", lambda m: rf"\cdot 10^{{{int(m[1])}}}", e) for e in errors]
    return f"{scene.titles[name]}\nRMSE " + ", ".join(f"${power}$" for power in powers)
