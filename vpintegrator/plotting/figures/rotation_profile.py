"""Rotation numbers of an ensemble over the initial states of its trajectories."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.plotting.curves import SMALLEST
from vpintegrator.plotting.ensemble_scene import EnsembleScene, coordinate
from vpintegrator.plotting.layout import FigureDeclaration, new_figure
from vpintegrator.rollout import EnsembleStatistics

_POINTS = 20_000  # points of an ensemble; more make no clearer picture
_PROFILE, _CHANGE = 17, 9  # em
_FAINT = 0.35
_NEAR_ZERO = 0.02  # share of the largest rotation; below it, steps in a turn have no bound


def branch(found: EnsembleStatistics) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coordinates, turns per step, and differences of halves of trajectories that stay.

    Turns are known up to whole ones, which are chosen so that the regular orbits form a curve.
    """
    assert found.rotation is not None
    assert found.change is not None
    _, _, where = coordinate(found)
    known = np.flatnonzero(np.isfinite(found.rotation))
    order = known[np.argsort(where[known], kind="stable")]
    turns, change = found.rotation[order].copy(), found.change[order]
    regular = change < found.tolerance
    if regular.any():
        curve = np.unwrap(turns[regular], period=1)
        turns[regular] = curve
        near = np.interp(where[order], where[order][regular], curve)
        turns[~regular] += np.round(near[~regular] - turns[~regular])
    return where[order], turns, change


def _draw(scene: EnsembleScene) -> matplotlib.figure.Figure:
    style, shown = scene.style, _shown(scene)
    figure = new_figure(style, style.narrow * 1.25, _PROFILE + _CHANGE + 4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_PROFILE, _CHANGE])
    curves = _curves(scene)
    sign = -1 if all(np.median(turns) < 0 for _, turns, _ in curves.values()) else 1
    for name, (where, turns, change) in curves.items():
        chosen = slice(None, None, max(-(-len(where) // _POINTS), 1))
        regular = change[chosen] < shown[name].tolerance
        size = np.clip(700 / max(len(where), 1), 0.3, 5) * style.line**2
        if list(shown).index(name) and len(where):
            size /= 3  # on the dots of the one before
        for which, alpha in ((~regular, _FAINT), (regular, 1.0)):
            for axes, values in ((above, sign * turns), (below, np.maximum(change, SMALLEST))):
                axes.scatter(
                    where[chosen][which],
                    values[chosen][which],
                    s=size,
                    color=scene.looks[name].colour,
                    alpha=alpha,
                    linewidths=0,
                    rasterized=True,
                )
    _label(above, below, scene, sign)
    if len(shown) > 1:
        handles = [
            Line2D([], [], ls="", marker="o", ms=0.5 * style.letters, color=look.colour, label=t)
            for look, t in ((scene.looks[name], scene.titles[name]) for name in shown)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _curves(scene: EnsembleScene) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the curves of :func:`branch`, each shifted by whole turns to the first curve."""
    curves: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for name, found in _shown(scene).items():
        where, turns, change = branch(found)
        if curves:
            first = next(iter(curves.values()))[1]
            turns = turns + np.round(np.median(first) - np.median(turns))
        curves[name] = where, turns, change
    return curves


def _label(above: Axes, below: Axes, scene: EnsembleScene, sign: int) -> None:
    found = next(iter(_shown(scene).values()))
    way = ", clockwise" if sign < 0 and found.plan.angle is None else ""
    above.set_ylabel(f"turns per step{way}")
    low, high = above.get_ylim()
    if low > _NEAR_ZERO * high > 0:
        other = above.secondary_yaxis("right", functions=(_inverse, _inverse))
        other.set_ylabel("steps per turn (safety factor)")
        other.spines["right"].set_visible(True)
    below.set(yscale="log", xlabel=coordinate(found)[0], ylabel="difference\nof halves")
    below.axhline(found.tolerance, color=scene.style.reference, lw=0.8 * scene.style.line, ls="--")


def _inverse(values: Any) -> Any:
    with np.errstate(all="ignore"):
        return 1 / np.asarray(values, np.float64)


def _shown(scene: EnsembleScene) -> dict[str, EnsembleStatistics]:
    return {
        name: found
        for name, found in scene.ensembles.items()
        if found.rotation is not None and np.isfinite(found.rotation).any()
    }


def _caption(scene: EnsembleScene) -> list[str]:
    sentences = []
    shown = _shown(scene)
    for name, (where, turns, change) in _curves(scene).items():
        found = shown[name]
        regular = change < found.tolerance
        span = ""
        if regular.any():
            span = f", from {turns[regular].min():.6f} to {turns[regular].max():.6f}"
        sentences.append(
            f"{scene.ensembles[name].title}: mean turns per step of {len(where)} orbits of "
            f"{found.plan.steps} steps against the {coordinate(found)[1]}; {int(regular.sum())} "
            f"are regular, the two halves of their way agree within {found.tolerance:.0e}{span}; "
            f"{found.length_words}."
        )
    plan = next(iter(_shown(scene).values())).plan
    whole = "whole ones as of the flow between returns" if plan.near else "up to whole ones"
    return [
        *sentences,
        f"Turns {plan.centre_words}, {whole}, averaged with smooth weights. Below, the "
        "difference between the halves of the way: chaotic orbits, faint above, lie high.",
        *scene.domains,
    ]


ROTATION = FigureDeclaration("rotation", _draw, _caption, lambda scene: bool(_shown(scene)))
