"""Curves of errors in time: thinning, limits, lines and axes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

from vpintegrator.plotting.layout import marks
from vpintegrator.plotting.scene import Scene

SMALLEST = 1e-17  # height of an error of exactly 0 on a logarithmic axis
LARGEST = 1e6  # a curve leaves the figure long before it
_POINTS = 800  # points of a line; more cannot be told apart in print
_BEYOND_USE = 1e2
_EDGE = 0.965  # part of the axes' height: where a cross stands that belongs above
_FEW = 30.0  # ratio of an axis' limits
ROUNDING = 1e-13  # an error below it may be one of rounding
_MATTERS = 1e-6
CROSS = "X"


def draw_curve(
    axes: Axes,
    scene: Scene,
    name: str,
    times: np.ndarray,
    sizes: np.ndarray,
    logarithmic: bool = True,
) -> None:
    """Draw sizes (time,) of a method, with a cross where its first trajectory diverges.

    Of several models of one name they are (seed, time): their median, in a band of all of them.
    """
    look = scene.looks[name]
    sizes = np.atleast_2d(sizes)
    if len(sizes) > 1:
        draw_band(axes, scene, name, times, sizes)
    line = floored(np.median(sizes, axis=0))
    axes.plot(
        times,
        line,
        color=look.colour,
        ls=look.line,
        lw=look.width,
        label=scene.legend_title(name),
        **marks(scene, name, times, logarithmic),
    )
    failure = scene.first_failure(name)
    reached = np.flatnonzero(np.isfinite(line) & (times <= failure))
    if len(reached) and failure <= times[-1]:
        beyond = line[reached[-1]] >= _BEYOND_USE
        axes.plot(
            failure,
            _EDGE if beyond else line[reached[-1]],
            transform=axes.get_xaxis_transform() if beyond else axes.transData,
            ls="none",
            marker=CROSS,
            color=look.colour,
            mec=scene.style.foreground,
            mew=0.4 * scene.style.line,
            ms=0.85 * scene.style.letters,
            clip_on=False,
            zorder=5,
        )


def draw_band(axes: Axes, scene: Scene, name: str, times: np.ndarray, sizes: np.ndarray) -> None:
    """Draw a band from the least to the largest of sizes (any, time) that are known."""
    with np.errstate(all="ignore"):
        low, high = floored(np.nanmin(sizes, axis=0)), floored(np.nanmax(sizes, axis=0))
    axes.fill_between(times, low, high, color=scene.looks[name].colour, alpha=0.12, lw=0)


def time_axis(axes: Axes, logarithmic: bool = True) -> None:
    """Label the time, on a logarithmic axis if that is wanted."""
    axes.set_xlabel("time $t$")
    if logarithmic:
        axes.set_xscale("log")
        if not axes.get_xlim()[0] > 0:  # there is nothing to show
            axes.set_xlim(1, 10)
        readable_decades(axes)


def readable_decades(axes: Axes) -> None:
    """Label 1, 2 and 5 on a logarithmic horizontal axis of few decades, powers of ten on others."""
    low, high = axes.get_xlim()
    if low > 0 and high / low < _FEW:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def cut(axes: Axes, accuracy: float = 0.0) -> None:
    """Set the limits of a logarithmic axis of errors, up to errors that matter.

    At the bottom the range of rounding errors is shaded, or that below the accuracy of a reference.
    """
    accuracy = max(accuracy, ROUNDING)
    low, high = axes.get_ylim()
    if not low > 0:  # there is nothing to show
        axes.set_ylim(0.1, 1)
        return
    if high < 10 * low:  # a decade at least, so that its powers of ten are labelled
        low, high = low / 3, high * 3
    axes.yaxis.set_minor_formatter(NullFormatter())
    top = _BEYOND_USE if high > _BEYOND_USE else max(high, _MATTERS) if low < ROUNDING else high
    axes.set_ylim(low, top)
    if low < accuracy:
        axes.axhspan(low, accuracy, color="0.5", alpha=0.12, lw=0, zorder=0)
        axes.set_ylim(low, top)


def floored(values: np.ndarray) -> np.ndarray:
    """Return absolute values for a logarithmic axis: zeros at :data:`SMALLEST`, NaN if infinite."""
    with np.errstate(all="ignore"):
        size = np.abs(values)
        return np.where(np.isfinite(size), np.clip(size, SMALLEST, LARGEST), np.nan)


def thinned(count: int, logarithmic: bool = False) -> np.ndarray:
    """Return evenly or logarithmically spaced indices of ``count`` points, some hundred at most."""
    if count <= _POINTS:
        return np.arange(count)
    if logarithmic:
        spaced = np.geomspace(1, count, _POINTS).astype(int) - 1
        return np.unique(np.concatenate([[0], spaced, [count - 1]]))
    return np.unique(np.linspace(0, count - 1, _POINTS).astype(int))


def largest_between(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the largest values (trajectory, time) from one chosen index to the next.

    The result, (trajectory, chosen), makes a thinned curve pass through every peak of the full one.
    """
    if len(chosen) == 0:
        return values[:, :0]
    begin = np.concatenate([chosen[:1], chosen[:-1] + 1])
    with np.errstate(all="ignore"):
        return np.maximum.reduceat(values[:, : chosen[-1] + 1], begin, axis=1)
