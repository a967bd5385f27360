"""Draw the pictures of the README: the architecture of vpt, and its comparison on the rigid body.

    python scripts/readme_figures.py                  # docs/architecture.png
    python scripts/readme_figures.py ROLLOUT          # docs/rigid-body.png, too

The rollout is that of the commands in the README, with ``vpmt`` beside them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import vpintegrator as vp

DOCS = Path(__file__).parents[1] / "docs"
TITLES = {"step": "volume of windows (or states)", "phase-space": "volume of phase space"}
ATTENTION, COUPLING, STATE = "#f6d5b8", "#cfe0f3", "#e4e4e4"


def box(ax: Axes, x: float, y: float, width: float, height: float, text: str, colour: str) -> None:
    """Draw a rounded box with a text in its middle."""
    ax.add_patch(
        FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.08", fc=colour, ec="0.3")
    )
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], **style: Any) -> None:
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color="0.3", **style)
    )


def states(ax: Axes, x: float, names: list[str]) -> None:
    """Draw the states of a window, the earliest on top."""
    for row, name in enumerate(names):
        box(ax, x, 2.0 - row, 0.9, 0.7, name, STATE)


def architecture(path: Path) -> None:
    """Draw windows of three states, two units of attention and couplings, and the iteration."""
    figure, ax = plt.subplots(figsize=(7.2, 2.5), layout="constrained")
    ax.set(xlim=(-0.3, 12.3), ylim=(-1.25, 3.85))
    ax.axis("off")
    states(ax, 0.0, ["$z_0$", "$z_1$", "$z_2$"])
    states(ax, 11.1, ["$z_3$", "$z_4$", "$z_5$"])
    for unit in range(2):
        left = 1.7 + 4.7 * unit
        ax.add_patch(Rectangle((left - 0.2, -0.2), 4.2, 3.45, fill=False, ls=":", ec="0.5"))
        ax.text(left + 1.9, 3.42, f"unit {unit + 1}", ha="center", fontsize=8)
        text = "volume-\npreserving\nattention\n\nmixes\ntime steps"
        box(ax, left, 0.0, 1.6, 2.7, text, ATTENTION)
        for row in range(3):
            box(ax, left + 2.2, 2.0 - row, 1.6, 0.7, "couplings", COUPLING)
            y = 2.35 - row
            arrow(ax, (left - 0.8 if unit == 0 else left - 0.9, y), (left, y))
            arrow(ax, (left + 1.6, y), (left + 2.2, y))
            if unit == 1:
                arrow(ax, (left + 3.8, y), (11.1, y))
        ax.text(left + 3.0, 2.95, "same weights for each state", ha="center", fontsize=6.5)
    ax.plot([11.55, 11.55, 0.45], [-0.05, -0.75, -0.75], color="0.3", lw=1)
    arrow(ax, (0.45, -0.78), (0.45, -0.02))
    ax.text(6.0, -0.65, "the new window is read next", ha="center", va="bottom", fontsize=8)
    figure.savefig(path, dpi=200)
    plt.close(figure)


def comparison(rollout: str, path: Path) -> None:
    """Draw orbits of every method, energy and both volumes."""
    names = list(vp.open_rollout(rollout).runs)
    figure = plt.figure(figsize=(10, 5.2), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.0, 1.35])
    for ax, name in zip(upper.subplots(1, len(names)), names, strict=True):
        vp.plotting.portrait(rollout, name, ax=ax)
    left, middle, right = lower.subplots(1, 3)
    vp.plotting.invariant(rollout, "energy", ax=left)
    vp.plotting.volume(rollout, "step", ax=middle).set_title(TITLES["step"])
    vp.plotting.volume(rollout, "phase-space", ax=right).set_title(TITLES["phase-space"])
    for ax in (left, middle, right):  # the first method on top
        for order, line in enumerate(reversed(ax.lines)):
            line.set_zorder(3 + 0.01 * order)
    handles, labels = left.get_legend_handles_labels()
    lower.legend(handles, labels, loc="outside lower center", ncols=len(names), fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    architecture(DOCS / "architecture.png")
    if len(sys.argv) > 1:
        comparison(sys.argv[1], DOCS / "rigid-body.png")
