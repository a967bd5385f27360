"""Data and style for the figures of ensembles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.looks import Look, looks
from vpintegrator.plotting.names import mathtext, plain, shortened
from vpintegrator.plotting.style import PAPER, Style
from vpintegrator.rollout import EnsembleStatistics

_EXACT = "-"


@dataclass(frozen=True)
class EnsembleScene:
    """Ensembles of one system beside one another, made ready for drawing.

    Attributes
    ----------
    ensembles
        Statistics by name of the map.
    style
        Style of the figures.
    """

    ensembles: dict[str, EnsembleStatistics]
    style: Style = PAPER

    @property
    def first(self) -> EnsembleStatistics:
        """First ensemble, which has the system and the plane of all."""
        return next(iter(self.ensembles.values()))

    @property
    def name(self) -> str:
        """Name of the scene, with the name of the system."""
        return f"{self.first.system.name} ensemble"

    @property
    def titles(self) -> dict[str, str]:
        """Labels of the maps."""
        return {n: plain(shortened(each.title)) for n, each in self.ensembles.items()}

    @property
    def looks(self) -> dict[str, Look]:
        """Line styles of the maps; the exact map has the colour of the text."""
        found = looks(
            (n, "learned" if each.kind == "learned" else "classical", each.name)
            for n, each in self.ensembles.items()
        )
        own = Look(self.style.foreground, _EXACT, "", 1.1 * self.style.line)
        return {
            n: own if self.ensembles[n].kind == "exact" else self.style.adapt(look)
            for n, look in found.items()
        }

    @property
    def axes_names(self) -> tuple[str, str]:
        """Labels of the plane."""
        x, y = self.first.plan.names
        return mathtext(x), mathtext(y)

    def name_panel(self, axes: Axes, name: str) -> None:
        """Write the title of a map above its panel, if there are several maps."""
        if len(self.ensembles) > 1:
            axes.set_title(self.titles[name], color=self.looks[name].colour)

    @property
    def domains(self) -> list[str]:
        """Sentences on the ensembles that leave the training domain of their model."""
        several = len(self.ensembles) > 1
        return [
            f"{each.title}: {each.domain_words}" if several else each.domain_words
            for each in self.ensembles.values()
            if each.domain_words
        ]


def strayed(found: EnsembleStatistics) -> np.ndarray:
    """Return a mask of trajectories that leave the training domain before they escape."""
    if found.left_domain is None:
        return np.zeros(len(found.left), bool)
    return found.left_domain >= 0


def coordinate(found: EnsembleStatistics) -> tuple[str, str, np.ndarray]:
    """Return a coordinate that distinguishes the initial states: label, name in words, values.

    If the initial states differ in one component, the coordinate is that component. Otherwise the
    choice depends on the rotation number. For turns of an angle, the coordinate is the other
    component of the plane; for turns about a point, the distance from the point.
    """
    plan, initial = found.plan, found.initial
    names = plan.system.components
    varied = [k for k in range(initial.shape[1]) if np.ptp(initial[:, k]) > 0]
    if plan.angle is not None:
        varied = [k for k in plan.pair if k != plan.angle][:1]
    if len(varied) == 1:
        name = names[varied[0]]
        return f"initial {mathtext(name)}", f"initial {name}", initial[:, varied[0]]
    centre = np.array(plan.centre or (0.0, 0.0))
    offset = initial[:, list(plan.pair)] - centre
    for k, component in enumerate(plan.pair):
        if period := plan.period(component):
            offset[:, k] -= period * np.round(offset[:, k] / period)
    words = "distance of the initial state from the centre"
    return "initial distance from the centre", words, np.hypot(*offset.T)
