"""Data, style and cells of initial states for the figures of ensembles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from vpintegrator.plotting.names import mathtext, plain, shortened
from vpintegrator.plotting.style import PAPER, Look, Style, looks
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


_MOST, _IN_A_CELL = 400, 8  # cells on a side; trajectories wanted in one


class InitialCells:
    """The cells of a plane that hold the initial states of an ensemble.

    Attributes
    ----------
    count
        Number of initial states in each cell, (rows, columns).
    """

    def __init__(self, found: EnsembleStatistics) -> None:
        x, y = (found.initial[:, k] for k in found.plan.pair)
        columns, rows = _cells(x), _cells(y)
        self._shape = rows, columns
        self._extent = (x.min(), x.max(), y.min(), y.max())
        self._flat = _place(y, rows) * columns + _place(x, columns)
        self.count = self.total(np.ones(len(x)))

    @staticmethod
    def apply(found: EnsembleStatistics) -> bool:
        """Whether initial states lie on more than a line."""
        return all(np.ptp(found.initial[:, k]) > 0 for k in found.plan.pair)

    def total(self, values: np.ndarray, which: np.ndarray | None = None) -> np.ndarray:
        """Return sums (rows, columns) of values (some,) of all trajectories, or of some."""
        flat = self._flat if which is None else self._flat[which]
        found = np.bincount(flat, weights=values, minlength=self._shape[0] * self._shape[1])
        return found.reshape(self._shape)

    def mean(self, values: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Return means (rows, columns); NaN for empty cells."""
        with np.errstate(all="ignore"):
            return self.total(values, which) / self.total(np.ones(len(values)), which)

    def draw(self, axes: Axes, scene: EnsembleScene, values: np.ndarray, **look: Any) -> AxesImage:
        """Draw an image of values (rows, columns), with NaN transparent."""
        x, y = scene.axes_names
        axes.grid(False)
        axes.set(xlabel=f"initial {x}", ylabel=f"initial {y}")
        return axes.imshow(
            np.ma.masked_invalid(values),
            origin="lower",
            extent=self._extent,
            aspect="auto",
            interpolation="nearest",
            rasterized=True,
            **look,
        )


def _cells(values: np.ndarray) -> int:
    """Return the number of cells on an axis: the values of a grid, or as many as are filled."""
    different = len(np.unique(values))
    if different**2 <= 2 * len(values):
        return min(different, _MOST)
    return int(np.clip(np.sqrt(len(values) / _IN_A_CELL), 4, _MOST))


def _place(values: np.ndarray, count: int) -> np.ndarray:
    """Return the number of the cell of each value."""
    part = (values - values.min()) / np.ptp(values)
    return np.clip(np.floor(part * count), 0, count - 1).astype(np.int64)
