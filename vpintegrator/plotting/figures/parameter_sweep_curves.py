"""Errors of a family and of classical methods over the step and the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.curves import cut, floored, readable_decades
from vpintegrator.plotting.layout import FigureDeclaration, LegendEntry, draw_panels
from vpintegrator.plotting.names import plain
from vpintegrator.plotting.style import Look, Style, looks
from vpintegrator.rollout import ParameterSweep

_ERROR = "median_error"
_HEIGHT = 20  # em
_FEW = 3.0  # ratio of the values of a parameter from which on its axis is logarithmic


@dataclass(frozen=True)
class SweepScene:
    """A parameter sweep made ready for drawing."""

    sweep: ParameterSweep
    style: Style

    @property
    def name(self) -> str:
        """Name of the scene, with the title of the parameter sweep."""
        return f"{self.sweep.title} sweep"

    @property
    def varied(self) -> list[str]:
        """Parameters with more than one value; all parameters if there are none."""
        values = self.sweep.parameters
        return [name for name, v in values.items() if len(np.unique(v)) > 1] or list(values)

    @property
    def looks(self) -> dict[str, Look]:
        """Line styles of the methods."""
        kinds = dict.fromkeys(self.sweep.learned, "learned")
        named = looks((name, kinds.get(name, "classical"), name) for name in self.sweep.methods)
        return {name: self.style.adapt(look) for name, look in named.items()}


def _panel(axes: Axes, scene: SweepScene, parameter: str) -> None:
    """Draw medians over all other parameters, in a band from least to largest."""
    sweep, values = scene.sweep, scene.sweep.parameters[parameter]
    places = np.unique(values)
    for m, look in enumerate(scene.looks.values()):
        errors = [floored(sweep.values[_ERROR][values == place, m]) for place in places]
        middle = np.array([np.median(each) for each in errors])
        axes.plot(places, middle, **look.strokes(0.5 * scene.style.letters))
        if max(map(len, errors)) > 1:
            low, high = ([f(each) for each in errors] for f in (np.min, np.max))
            axes.fill_between(places, low, high, color=look.colour, alpha=0.15, lw=0)
    axes.set(yscale="log", xlabel=plain(parameter), ylabel="root mean square error")
    if places[0] > 0 and places[-1] > _FEW * places[0]:
        axes.set_xscale("log")
        readable_decades(axes)
    cut(axes)


def _draw(scene: SweepScene) -> matplotlib.figure.Figure:
    def draw(axes: Axes, parameter: str) -> None:
        _panel(axes, scene, parameter)

    style, sweep = scene.style, scene.sweep
    lines = [
        LegendEntry(
            plain(sweep.methods[name]),
            "learned" if name in sweep.learned else "classical",
            **look.strokes(0.5 * style.letters),
        )
        for name, look in scene.looks.items()
    ]
    width = style.narrow if len(scene.varied) == 1 else style.wide
    columns = min(len(scene.varied), 2)
    return draw_panels(style, scene.varied, draw, columns, width, _HEIGHT, legend=lines)[0]


def _caption(scene: SweepScene) -> list[str]:
    sweep = scene.sweep
    errors = sweep.values[_ERROR]
    spans = [
        f"{title} {np.nanmin(errors[:, m]):.1e} to {np.nanmax(errors[:, m]):.1e}"
        for m, title in enumerate(sweep.methods.values())
    ]
    ranges = ", ".join(
        f"{name} from {values.min():g} to {values.max():g}"
        for name, values in sweep.parameters.items()
    )
    more = "; bands: over all values of the other parameters" if len(scene.varied) > 1 else ""
    return [
        f"{sweep.title}: root mean square error of a component to t = {sweep.time:g}, median "
        f"over orbits, for {ranges}{more}.",
        f"Errors: {'; '.join(spans)}.",
    ]


PARAMETER_SWEEP = FigureDeclaration("sweep", _draw, _caption)
