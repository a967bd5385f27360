"""The figure of the benchmark over the catalogue: errors and costs of all runs on every system."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vpintegrator.errors import InputError
from vpintegrator.plotting.figures.curves import floored, readable_decades
from vpintegrator.plotting.style import PAGE, PAPER, Look, looks
from vpintegrator.rollout import METHODS
from vpintegrator.storage.files import replacing

_ROW, _HEAD = 1.6, 9.0  # em: height of a system's row; of the axis and the legend
_ORDER = ("stoermer-verlet", "strang-splitting", "rk4", "blanes-moan-6", "dormand-prince-8")
_QUANTITIES = {"RMSE": "RMSE, median orbit", "seconds per step": "seconds a step"}
_SUFFIXES = (".png", ".pdf", ".svg")

Runs = Mapping[str, Mapping[str, Any]]


def draw(results: Mapping[str, Runs], path: Path) -> None:
    """Write the figure: a row for each system, that of the least learned error on top.

    Parameters
    ----------
    results
        What the table says of each run, by system and by the name of the run.
    path
        Of the file, which is written anew if it is there.

    Raises
    ------
    InputError
        If its ending is none of those of figures.
    """
    if path.suffix not in _SUFFIXES:
        raise InputError(f"--figure {path}: figures end in {', '.join(_SUFFIXES)}")
    names = list(dict.fromkeys(name for runs in results.values() for name in runs))
    learned = [name for name in names if name not in METHODS]
    kinds = dict.fromkeys(learned, "learned") | dict.fromkeys(_ORDER, "classical")
    found = {n: look for n, look in _looks(kinds).items() if n in names}

    def least(system: str) -> float:
        errors = [results[system][name]["RMSE"] for name in learned if name in results[system]]
        return min((e for e in errors if math.isfinite(e)), default=math.inf)

    order = sorted(results, key=least, reverse=True)
    with PAPER.applied():
        height = PAPER.em * (_ROW * len(order) + _HEAD)
        figure = Figure(figsize=(PAGE, height), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True, width_ratios=(5, 2))
        for axes, (quantity, title) in zip(panels, _QUANTITIES.items(), strict=True):
            for name, look in found.items():
                _draw_run(axes, [results[s].get(name, {}).get(quantity) for s in order], name, look)
            axes.set(xscale="log", xlabel=title)
            readable_decades(axes)
        panels[0].set_yticks(range(len(order)), order)
        panels[0].set_ylim(-0.7, len(order) - 0.3)
        handles, titles = panels[0].get_legend_handles_labels()
        figure.legend(handles, titles, loc="outside upper center", ncols=4)
        with replacing(path, True) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=160)


def _looks(kinds: Mapping[str, str]) -> dict[str, Look]:
    return looks((name, kind, name) for name, kind in kinds.items())


def _draw_run(axes: Axes, values: list[float | None], name: str, look: Look) -> None:
    """A mark in the row of each system that has the run; a line joins those of learned models."""
    known = np.array([math.nan if value is None else value for value in values])
    axes.plot(
        floored(known),
        range(len(values)),
        label=METHODS[name].title if name in METHODS else name,
        color=look.colour,
        ls="" if name in METHODS else look.line,
        lw=look.width,
        marker=look.marker,
        ms=0.5 * PAPER.letters,
    )
