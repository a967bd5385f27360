"""Work-precision diagrams: the error that a method reaches for its cost, over several steps."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.captions import by_method
from vpintegrator.plotting.curves import SMALLEST, readable_decades
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    legend_lines,
    marker_size,
    panels_of_curves,
)
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.tables import duration

_CONVERGES = 4.0  # least ratio of errors from which an order is read
COSTS = {
    "evaluations": "vector field evaluations per unit of time",
    "seconds": "seconds per unit of time",
}


def draw_work_precision(axes: Axes, scene: Scene, cost: str) -> None:
    """Draw error against one cost for every method, with guides of the slopes of whole orders."""
    for name in scene.looks:
        if name not in scene.report.work_precision:
            continue
        look = scene.looks[name]
        work, error = _points(scene, name, cost)
        axes.plot(work, error, **look.strokes(1.2 * marker_size(scene)))
    axes.set(xscale="log", yscale="log", xlabel=COSTS[cost], ylabel="error at the end")
    readable_decades(axes)
    if cost == "evaluations":
        _guides(axes, scene)


def fitted_order(study: Any) -> float | None:
    """Return the order fitted to a method's errors, None if errors hardly depend on the step.

    Errors of adaptive methods depend on their tolerance instead.
    """
    error = study.error[np.isfinite(study.error)]
    if study.order is None or not np.isfinite(study.order) or error.size < 2:
        return None
    return float(study.order) if error.max() > _CONVERGES * error.min() else None


def _points(scene: Scene, name: str, cost: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cost and error where both are known, sorted by cost."""
    study = scene.report.work_precision[name]
    work, error = np.asarray(getattr(study, cost), float), np.asarray(study.error, float)
    with np.errstate(all="ignore"):
        known = np.isfinite(work) & np.isfinite(error) & (work > 0)
    order = np.argsort(work[known])
    return work[known][order], np.maximum(error[known][order], SMALLEST)


def _orders(scene: Scene) -> list[int]:
    """Return the nominal orders of the methods whose errors show one."""
    studies, runs = scene.report.work_precision, scene.runs
    shown = (n for n in studies if runs[n].order and fitted_order(studies[n]) is not None)
    return sorted({int(runs[name].order or 0) for name in shown})


def _guides(axes: Axes, scene: Scene) -> None:
    """Draw dotted lines of slope -p for every nominal order p."""
    orders = _orders(scene)
    if not orders:
        return
    style = scene.style
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    x = left * (right / left) ** 0.06
    y = low * (high / low) ** 0.42
    floor = low * (high / low) ** 0.07
    labels = [("order", x, y, "bottom")]
    for order in orders:
        # down to a common height, and no further than a third of the panel
        end = min(x * (y / floor) ** (1 / order), x * (right / left) ** 0.3)
        bottom = y * (end / x) ** -order
        axes.plot(
            [x, end], [y, bottom], color=style.reference, lw=0.8 * style.line, ls=(0, (1, 1.5))
        )
        labels.append((f"{order}", end, bottom, "top"))
    for label, across, up, side in labels:
        axes.annotate(
            label,
            (across, up),
            xytext=(0, (0.15 if side == "bottom" else -0.15) * style.letters),
            textcoords="offset points",
            ha="center",
            va=side,
            color=style.reference,
            fontsize=0.85 * style.letters,
        )
    axes.set(xlim=(left, right), ylim=(low, high))


def _costs(scene: Scene) -> list[str]:
    """Return the costs that were measured."""
    studies = scene.report.work_precision
    return [cost for cost in COSTS if any(_points(scene, n, cost)[0].size for n in studies)]


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    def draw(axes: Axes, cost: str) -> None:
        draw_work_precision(axes, scene, cost)

    studies, lines = scene.report.work_precision, []
    for name, line in zip(scene.looks, legend_lines(scene), strict=True):
        if name in studies:
            order = fitted_order(studies[name])
            if order is not None:
                line.set_label(f"{scene.titles[name]}, order {order:.2f}")
            lines.append(line)
    return panels_of_curves(scene.style, _costs(scene), draw, 22, lines)


def _caption(scene: Scene) -> list[str]:
    studies = scene.report.work_precision
    orders, least, cost = {}, {}, {}
    for name, study in studies.items():
        order = fitted_order(study)
        if order is not None:
            orders[name] = order
        known = study.error[np.isfinite(study.error)]
        if known.size:
            least[name] = float(known.min())
            cost[name] = float(study.seconds[np.nanargmin(study.error)])
    steps = np.concatenate([np.atleast_1d(study.step) for study in studies.values()])
    dotted = "; dotted: slopes of whole orders" * bool(_orders(scene))
    sentences = [
        f"Error at the end of a short run against its cost, per unit of simulated time and orbit, "
        f"for steps from {steps.min():.3g} to {steps.max():.3g}{dotted}.",
        f"Least errors: {by_method(scene, least)}; their cost: {by_method(scene, cost, duration)}.",
    ]
    if orders:
        fitted = by_method(scene, orders, "{:.2f}".format)
        sentences.append(f"Fitted orders, as in the legend: {fitted}.")
    return sentences


WORK_PRECISION = FigureDeclaration(
    "work-precision", _draw, _caption, lambda scene: bool(_costs(scene)), whole=False
)
