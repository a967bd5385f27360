"""Work-precision diagrams, and rotation numbers of the orbits of maps."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.plotting.figure import RolloutFigure
from vpintegrator.plotting.figures.curves import SMALLEST, CurveFigure, readable_decades
from vpintegrator.plotting.text import mathtext
from vpintegrator.rich_display import duration
from vpintegrator.rollout.diagnostics.rotation import RotationNumbers

_CONVERGES = 4.0  # least ratio of errors from which an order is read
COSTS = {
    "evaluations": "vector field evaluations per unit of time",
    "seconds": "seconds per unit of time",
}


class WorkPrecisionFigure(CurveFigure):
    """The error that a method reaches for its cost, over several steps."""

    name = "work-precision"
    whole = False

    height = 22

    @cached_property
    def keys(self) -> list[str]:
        """The costs that were measured."""
        names = self.report.work_precision
        return [cost for cost in COSTS if any(self.data(name, cost)[0].size for name in names)]

    def data(self, name: str, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Return cost and error where both are known, sorted by cost."""
        study = self.report.work_precision[name]
        work, error = np.asarray(getattr(study, key), float), np.asarray(study.error, float)
        with np.errstate(all="ignore"):
            known = np.isfinite(work) & np.isfinite(error) & (work > 0)
        order = np.argsort(work[known])
        return work[known][order], np.maximum(error[known][order], SMALLEST)

    @cached_property
    def orders(self) -> dict[str, float]:
        """Fitted orders of the methods whose errors depend on the step.

        Errors of adaptive methods depend on their tolerance instead.
        """
        orders = {}
        for name, study in self.report.work_precision.items():
            error = study.error[np.isfinite(study.error)]
            fitted = study.order is not None and np.isfinite(study.order) and error.size > 1
            if fitted and error.max() > _CONVERGES * error.min():
                orders[name] = float(study.order)
        return orders

    @property
    def nominal(self) -> list[int]:
        """Nominal orders of these methods."""
        return sorted({int(self.runs[name].order or 0) for name in self.orders} - {0})

    def panel(self, axes: Axes, key: str) -> None:
        """Draw error against one cost for every method, with guides of the slopes of orders."""
        for name, look in self.scene.looks.items():
            if name in self.report.work_precision:
                axes.plot(*self.data(name, key), **look.strokes(1.2 * self.style.mark))
        axes.set(xscale="log", yscale="log", xlabel=COSTS[key], ylabel="error at the end")
        readable_decades(axes)
        if key == "evaluations" and self.nominal:
            self._guides(axes)

    def _guides(self, axes: Axes) -> None:
        """Draw dotted lines of slope -p for every nominal order p."""
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        x = left * (right / left) ** 0.06
        y = low * (high / low) ** 0.42
        floor = low * (high / low) ** 0.07
        grey, space = self.style.reference, 0.15 * self.style.letters
        words: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "color": grey}
        words["fontsize"] = 0.85 * self.style.letters
        axes.annotate("order", (x, y), xytext=(0, space), va="bottom", **words)
        for order in self.nominal:
            # down to a common height, and no further than a third of the panel
            end = min(x * (y / floor) ** (1 / order), x * (right / left) ** 0.3)
            bottom = y * (end / x) ** -order
            axes.plot([x, end], [y, bottom], color=grey, lw=0.8 * self.style.line, ls=(0, (1, 1.5)))
            axes.annotate(f"{order}", (end, bottom), xytext=(0, -space), va="top", **words)
        axes.set(xlim=(left, right), ylim=(low, high))

    def entries(self) -> list[Line2D]:
        lines = dict(zip(self.runs, self.legend(), strict=True))
        for name, order in self.orders.items():
            lines[name].set_label(f"{self.scene.titles[name]}, order {order:.2f}")
        return [line for name, line in lines.items() if name in self.report.work_precision]

    def sentences(self) -> list[str]:
        studies = self.report.work_precision
        known = {n: s for n, s in studies.items() if np.isfinite(s.error).any()}
        least = {name: float(np.nanmin(study.error)) for name, study in known.items()}
        best = {name: int(np.nanargmin(study.error)) for name, study in known.items()}
        cost = {name: float(study.seconds[best[name]]) for name, study in known.items()}
        steps = np.concatenate([np.atleast_1d(study.step) for study in studies.values()])
        dotted = "; dotted: slopes of whole orders" * bool(self.nominal)
        orders = self.by_method(self.orders, "{:.2f}".format)
        return [
            "Error at the end of a short run against its cost, per unit of simulated time and "
            f"orbit, for steps from {steps.min():.3g} to {steps.max():.3g}{dotted}.",
            f"Least errors: {self.by_method(least)}; their cost: {self.by_method(cost, duration)}.",
            f"Fitted orders, as in the legend: {orders}." if self.orders else "",
        ]


_PROFILE, _DIFFERENCE = 16, 10  # em


class RotationFigure(RolloutFigure):
    """Turns per step of the orbits of a map, beside those of the reference."""

    name = "rotation"

    @cached_property
    def found(self) -> dict[str, RotationNumbers]:
        """Rotation numbers of each method."""
        return self.scene.measured("rotation")

    def applies(self) -> bool:
        return bool(self.found)

    def places(self) -> tuple[str, np.ndarray]:
        """Return the label and the values of the horizontal axis.

        The axis shows the distance of the initial state from the centre. For turns of an angle it
        shows the other component.
        """
        initial, centre = self.report.reference[:, 0], next(iter(self.found.values())).centre
        if centre is not None:
            return "initial distance from the centre", np.linalg.norm(initial - centre, axis=1)
        k = next((k for k in range(2) if k not in self.scene.system.periods), 1)
        return f"initial {mathtext(self.scene.components[k])}", initial[:, k]

    def draw(self) -> matplotlib.figure.Figure:
        style, (label, where) = self.style, self.places()
        dots: dict[str, Any] = {"ls": "", "marker": "o", "color": style.reference, "alpha": 0.5}
        dots["ms"] = 1.8 * style.mark
        legend = [*self.legend(), *self.reference_line(dots)]
        figure = self.new(style.narrow * 1.25, _PROFILE + _DIFFERENCE, legend)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_PROFILE, _DIFFERENCE])
        order = np.argsort(where, kind="stable")
        reference = next(iter(self.found.values())).reference.copy()
        # a single curve, also across half a turn
        reference[order] = np.unwrap(reference[order], period=1)
        above.plot(where, reference, mew=0, **dots)
        for name, found in self.found.items():
            look = self.scene.looks[name].strokes(style.mark) | {"ls": ""}
            # turns are known up to whole ones: take those nearest to the reference
            above.plot(where, found.number + np.round(reference - found.number), **look)
            values = np.maximum(found.difference, SMALLEST)
            for which, face in ((found.regular, look["color"]), (~found.regular, "none")):
                below.plot(where[which], values[which], mfc=face, **look)
        above.set_ylabel("turns per step")
        below.set(yscale="log", xlabel=label, ylabel="error")
        return figure

    def sentences(self) -> list[str]:
        some = next(iter(self.found.values()))
        errors = {n: found.error for n, found in self.found.items() if found.error is not None}
        largest = f" Largest error on these: {self.by_method(errors, '{:.1e}'.format)}."
        about = "of the angle"
        if some.centre is not None:
            about = f"about ({', '.join(f'{x:.4g}' for x in some.centre)})"
        return [
            f"Turns per step {about} against where orbits start, up to whole turns, averaged with "
            "smooth weights over as many steps as the reference has, and their errors: filled on "
            f"the {int(some.regular.sum())} orbits of {len(some.number)} whose halves agree within "
            f"{some.tolerance:.0e} in the reference, open on others.{largest * bool(errors)}"
        ]
