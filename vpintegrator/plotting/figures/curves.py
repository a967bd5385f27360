"""Curves of errors: of trajectories, invariants and volumes in time, and against their cost."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

from vpintegrator.arguments import one_of
from vpintegrator.errors import InputError
from vpintegrator.plotting.figure import CURVES, Rollout, RolloutFigure, drawn_into, own_scene
from vpintegrator.plotting.tables import spaces
from vpintegrator.plotting.text import capital, grouped, plain, shortened

SMALLEST = 1e-17  # height of an error of exactly 0 on a logarithmic axis
LARGEST = 1e6  # a curve leaves the figure long before it
ROUNDING = 1e-13  # an error below it may be one of rounding
CROSS = "X"
_POINTS = 800  # points of a line; more cannot be told apart in print
_BEYOND_USE = 1e2
_EDGE = 0.965  # part of the axes' height: where a cross stands that belongs above
_FEW = 30.0  # ratio of an axis' limits
_MATTERS = 1e-6
_MARKS = 4  # on a line
_PANEL = 24  # em: least width of a panel


class CurveFigure(RolloutFigure):
    """A figure of errors in time: panels, named by ``keys``, with a curve for each method.

    Attributes
    ----------
    height
        Height of a panel in em.
    """

    height: ClassVar[float]

    @property
    @abstractmethod
    def keys(self) -> list[str]:
        """Names of the panels."""

    def applies(self) -> bool:
        return bool(self.keys)

    @abstractmethod
    def data(self, name: str, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Return times and the errors (seed, time) of a method in a panel."""

    @abstractmethod
    def panel(self, axes: Axes, key: str) -> None:
        """Draw a panel."""

    def entries(self) -> list[Line2D]:
        """Return the entries of the legend."""
        return self.legend()

    def draw(self) -> matplotlib.figure.Figure:
        count = len(self.keys)
        width = self.style.narrow if count == 1 else self.style.wide
        columns = min(count, 2, self.columns(_PANEL, width))
        rows = -(-count // columns)
        figure = self.new(width, self.height * rows, self.entries())
        for place, key in enumerate(self.keys, 1):
            self.panel(figure.add_subplot(rows, columns, place), key)
        return figure

    def told(self, *numbers: str) -> list[str]:
        """Return sentences on seeds and divergence, the numbers, exact zeros and the models."""
        curves = (self.data(name, key)[1] for name in self.runs for key in self.keys)
        zero = any((curve == 0).any() for curve in curves)
        zeros = f"Exact zeros are drawn at {SMALLEST:.0e}." if zero else ""
        return [*self.events(CURVES), *numbers, zeros, *self.notes()]

    def curve(
        self, axes: Axes, name: str, times: np.ndarray, sizes: np.ndarray, logarithmic: bool = True
    ) -> None:
        """Draw sizes (time,) of a method, with a cross where its first trajectory diverges.

        Of several models of one name they are (seed, time): their median, in a band of all of them.
        """
        look = self.scene.looks[name]
        sizes = np.atleast_2d(sizes)
        if len(sizes) > 1:
            self.band(axes, name, times, sizes)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # no seed has a number there
            line = floored(np.nanmedian(sizes, axis=0))
        strokes = look.strokes(self.style.mark) | {"label": self.scene.legend_title(name)}
        axes.plot(times, line, markevery=self._marked(name, times, logarithmic), **strokes)
        failure = self.scene.first_failure(name)
        reached = np.flatnonzero(np.isfinite(line) & (times <= failure))
        if len(reached) and failure <= times[-1]:
            height = line[reached[-1]]
            beyond = height >= _BEYOND_USE
            place = axes.get_xaxis_transform() if beyond else axes.transData
            mark: dict[str, Any] = {"marker": CROSS, "ms": 0.85 * self.style.letters, "ls": "none"}
            mark |= {"mec": self.style.foreground, "mew": 0.4 * self.style.line}
            mark |= {"color": look.colour, "transform": place, "clip_on": False, "zorder": 5}
            axes.plot(failure, _EDGE if beyond else height, **mark)

    def band(self, axes: Axes, name: str, times: np.ndarray, sizes: np.ndarray) -> None:
        """Draw a band from the least to the largest of sizes (any, time) that are known.

        The band leaves the figure at the top where the largest is infinite.
        """
        sizes = np.abs(sizes)
        low = floored(np.fmin.reduce(sizes, axis=0))
        high = floored(np.minimum(np.fmax.reduce(sizes, axis=0), LARGEST))
        axes.fill_between(times, low, high, color=self.scene.looks[name].colour, alpha=0.12, lw=0)

    def _marked(self, name: str, times: np.ndarray, logarithmic: bool) -> list[int]:
        """Return the places of the markers on a line, other places than those of other methods."""
        if len(times) < 2:
            return [*range(len(times))]
        place = (list(self.scene.looks).index(name) + 0.5) / len(self.scene.looks)
        along = np.log(np.maximum(times, times[1] / 2)) if logarithmic else times
        where = along[0] + (along[-1] - along[0]) * (np.arange(_MARKS) + place) / _MARKS
        return np.unique(np.clip(np.searchsorted(along, where), 0, len(along) - 1)).tolist()


def own_curves(
    kind: type[CurveFigure], report: Rollout, what: str, key: str | None, ax: Any
) -> Any:
    """Draw a panel of a figure, by default the first, into Axes, and return them."""
    figure = kind(own_scene(report, ax))
    if not figure.applies():
        raise InputError(f"{what}: this rollout has none")
    return drawn_into(ax, figure.panel, one_of(what, key or figure.keys[0], figure.keys))


class ErrorsFigure(CurveFigure):
    """Growth of the error of trajectories in time."""

    name = "errors"
    height = 20

    @cached_property
    def compared(self) -> list[str]:
        """Methods that can be compared with the reference."""
        return [name for name in self.runs if self.report.is_compared(name)]

    @property
    def keys(self) -> list[str]:
        return ["errors"] if self.compared else []

    def orbits(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return times and the errors (seed, orbit, time) of the models of a name.

        A diverged trajectory counts as an infinite error. The curve ends with the reference of half
        of the orbits.
        """
        report = self.report
        start = self.scene.start[name]
        places = thinned(report.reference_end - start) + start
        members = report.run(name).members
        values = np.stack([largest_between(each.error, places) for each in members])
        # a measured reference may lack the states of some orbits, but not of all at each time
        missing = np.isnan(values).all(axis=(0, 1))
        return report.times[places[~missing]], values[..., ~missing]

    def data(self, name: str, key: str = "errors") -> tuple[np.ndarray, np.ndarray]:
        """Return times and the median errors (seed, time) of the models of a name."""
        if name not in self.compared:
            return np.empty(0), np.empty(0)
        times, values = self.orbits(name)
        with np.errstate(all="ignore"):
            return times, np.nanmedian(values, axis=1)

    def panel(self, axes: Axes, key: str = "errors") -> None:
        """Draw the median error of every method, in a band, and the threshold of failure.

        The band is that of the orbits; of several models of one name, that of their medians.
        """
        for name in self.compared:
            times, values = self.orbits(name)
            if self.scene.bands and len(values) == 1:
                self.band(axes, name, times, values[0])
            self.curve(axes, name, *self.data(name))
        look: dict[str, Any] = {"lw": 0.7 * self.style.line, "ls": (0, (1, 2))}
        axes.axhline(self.report.threshold, color=self.style.reference, **look)
        time_axis(axes)
        axes.set(yscale="log", ylabel="error of the trajectory")
        cut(axes, self.report.accuracy)

    def sentences(self) -> list[str]:
        floor = "reference" if self.report.accuracy > ROUNDING else "rounding"
        return [
            f"{capital(self.words)}; dotted: failure, at {self.report.threshold:.2g}; "
            f"shaded: below the {floor} error.",
            *self.told(self.final(), self.reference()),
        ]

    @property
    def words(self) -> str:
        """Description of the curves."""
        if len(self.report.reference) == 1:
            return "distance from the reference"
        band = " and band of all" if self.scene.bands else " of the"
        return f"distance from the reference, median{band} orbits"

    def final(self) -> str:
        """Return a sentence on the error of every method at the end of the reference."""
        median = "Median" if len(self.report.reference) > 1 else "Error"
        numbers = self.column("median final error")
        return f"{median} at t = {grouped(self.report.reference_time)}: {numbers}." * bool(numbers)


def errors(report: Rollout, ax: Any = None) -> Any:
    """Draw the distance from the reference: the median over the orbits, in a band of all.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, or there is no reference.

    Examples
    --------
    ::

        figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.5), layout="constrained")
        vp.plotting.errors("rigid-body-rollout.h5", ax=left)
        vp.plotting.invariant("rigid-body-rollout.h5", "energy", ax=right)
        right.legend()

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.errors(report)
    """
    return own_curves(ErrorsFigure, report, "errors", "errors", ax)


class InvariantsFigure(CurveFigure):
    """Errors of the invariants in time."""

    name = "invariants"
    height = 21

    @property
    def keys(self) -> list[str]:
        measured = {key for run in self.runs.values() for key in run.invariants}
        return [key for key in self.report.complete_system.invariants if key in measured]

    def data(self, name: str, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Return times and the largest errors (seed, time) of an invariant up to each of them.

        The raw error of a bounded oscillation falls to zero twice a period; its running maximum is
        flat where there is no drift and rises where there is one.
        """
        report = self.report
        start = self.scene.start[name]
        errors = np.stack([each.invariants[key].error for each in report.run(name).members])
        with np.errstate(all="ignore"):
            size = np.abs(errors).max(axis=1)  # (seed, time)
            envelope = np.maximum.accumulate(np.where(np.isnan(size), np.inf, size), axis=1)
        places = thinned(len(report.times) - start) + start
        return report.times[places], envelope[:, places]

    def panel(self, axes: Axes, key: str) -> None:
        """Draw the error of one invariant for every method in whose orbits it is known."""
        known = {name: run for name, run in self.runs.items() if key in run.invariants}
        for name in known:
            self.curve(axes, name, *self.data(name, key))
        relative = all(run.invariants[key].relative for run in known.values())
        time_axis(axes)
        axes.set(yscale="log", ylabel=f"largest {'relative ' if relative else ''}change")
        axes.set_title(plain(shortened(self.scene.labels[key])))
        cut(axes)

    def sentences(self) -> list[str]:
        return [
            "Largest change of the invariants on any orbit up to each time.",
            *self.told(*map(self._largest, self.keys)),
        ]

    def _largest(self, invariant: str) -> str:
        """Return a sentence on the largest change of an invariant at the end, for every method."""
        label = self.report.invariant_labels[invariant]
        kinds = set(self.report.values(f"{label} error kind").values())
        kind = "relative to its largest initial value" if kinds == {"relative"} else "absolute"
        words = capital(self.scene.labels[invariant])
        return f"{words} ({kind}): {self.column(f'{label} error')} at the end."


def invariant(report: Rollout, name: str | None = None, ax: Any = None) -> Any:
    """Draw the largest change of an invariant on any orbit up to each time, for every method.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    name
        Name of an invariant of the system; the first if None.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, or the system has no such invariant.

    Examples
    --------
    ::

        ax = vp.plotting.invariant(report, "energy")
        ax.legend()
        ax.figure.savefig("energy.pdf")

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.invariant(report, "energy")
    """
    return own_curves(InvariantsFigure, report, "invariant", name, ax)


VOLUMES = {
    "step": ("one step", r"\det D\Phi"),
    "phase-space": (r"phase space, $z_0 \mapsto z_t$", r"\det\,\partial z_t/\partial z_0"),
}


class VolumeFigure(CurveFigure):
    """Volume errors: of the map of one step, and of the map of phase space z_0 -> z_t."""

    name = "volume"
    height = 20

    @cached_property
    def keys(self) -> list[str]:
        """The kinds of volume that were measured for at least one method."""
        return [kind for kind in VOLUMES if any(kind in run.volume for run in self.runs.values())]

    @property
    def words(self) -> str:
        """Name of the error: of the contraction for systems that change volume."""
        return "contraction error" if self.report.complete_system.contracts else "volume error"

    def data(self, name: str, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Return times and the largest |log|det|| (seed, time), none if it was not measured."""
        volume = self.runs[name].volume.get(key)
        if volume is None:
            return np.empty(0), np.empty(0)
        members = [each.volume[key].log_determinant for each in self.runs[name].members]
        # an orbit that is lost has no determinants from there on
        sizes = np.fmax.reduce(np.abs(np.stack(members)), axis=1)  # (seed, time)
        later = np.full(len(volume.times), True)
        if self.scene.long and key == "step":
            # on a logarithmic axis all start where the last does: before it is one long line
            measured = [run.volume[key].times for run in self.runs.values() if key in run.volume]
            common = max(times[times > 0].min(initial=np.inf) for times in measured)
            later = volume.times >= common if np.isfinite(common) else later
        elif key == "phase-space":  # first windows come from the reference or a solver
            given = (self.runs[name].window - 1) * self.report.step
            later = volume.times > given * (1 + 1e-9)
        return volume.times[later], sizes[:, later]

    def panel(self, axes: Axes, key: str) -> None:
        """Draw the largest |log|det|| over trajectories, for every method."""
        logarithmic = self.scene.long and key == "step"
        for name in self.runs:
            times, sizes = self.data(name, key)
            if len(times):
                self.curve(axes, name, times, sizes, logarithmic)
        time_axis(axes, logarithmic)
        title, determinant = VOLUMES[key]
        exact = r" - \log|\mathrm{exact}|" * self.report.complete_system.contracts
        label = rf"$|\log|{determinant}|{exact}|$"
        axes.set(yscale="log", ylabel=label, title=f"{self.words} of {title}")
        cut(axes)

    def entries(self) -> list[Line2D]:
        pairs = zip(self.legend(), self.runs.values(), strict=True)
        return [line for line, run in pairs if run.volume]

    def sentences(self) -> list[str]:
        less = " less that of the exact solution" if self.report.complete_system.contracts else ""
        return [
            f"{capital(self.words)}: |log|det||{less}, the largest of all orbits.",
            *self.told(*map(self._numbers, self.keys)),
        ]

    def _numbers(self, kind: str) -> str:
        """Return a sentence on the largest volume error of every method."""
        space = {"step": "map", "phase-space": "phase-space"}[kind]
        numbers = self.column(f"{space} {self.words}")
        what = "Of z_0 → z_t in phase space"
        if kind == "step":
            what = f"Of one step {spaces(self.report)}"
        return f"{what}: {numbers}." if numbers else ""


def volume(report: Rollout, kind: str = "step", ax: Any = None) -> Any:
    r"""Draw the volume error of each method over time, the largest of all orbits.

    The error is :math:`|\log |\det D||`, at each time at which it was measured; for a system that
    changes volume, the difference from that of the exact solution.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    kind
        Map with the derivative D. ``"step"`` is the map of one step; for a model that reads windows
        it is the map of windows. ``"phase-space"`` is the map from the initial state to the state
        at the time.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, or this volume was not measured.

    Examples
    --------
    ::

        vp.plotting.volume(report, "phase-space", ax=ax)

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.volume(report)
    """
    return own_curves(VolumeFigure, report, "volume", kind, ax)


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
        work = np.asarray(getattr(study, key), float)
        error = np.asarray(study.error, float)
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
        (left, right) = axes.get_xlim()
        (low, high) = axes.get_ylim()
        x = left * (right / left) ** 0.06
        y = low * (high / low) ** 0.42
        floor = low * (high / low) ** 0.07
        grey = self.style.reference
        space = 0.15 * self.style.letters
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
        least = {n: s.error[np.isfinite(s.error)].min(initial=np.inf) for n, s in studies.items()}
        steps = np.concatenate([np.atleast_1d(study.step) for study in studies.values()])
        dotted = "; dotted: slopes of whole orders" * bool(self.nominal)
        orders = self.by_method(self.orders, "{:.2f}".format)
        return [
            "Error at the end of a short run against its cost, per unit of simulated time and "
            f"orbit, for steps from {steps.min():.3g} to {steps.max():.3g}{dotted}.",
            f"Least errors: {self.by_method(least)}.",
            f"Fitted orders, as in the legend: {orders}." if self.orders else "",
        ]


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
        low = low / 3
        high = high * 3
    axes.yaxis.set_minor_formatter(NullFormatter())
    top = _BEYOND_USE if high > _BEYOND_USE else max(high, _MATTERS) if low < ROUNDING else high
    if low < accuracy:
        axes.axhspan(low, accuracy, color="0.5", alpha=0.12, lw=0, zorder=0)
    axes.set_ylim(low, top)


def floored(values: np.ndarray) -> np.ndarray:
    """Return absolute values for a logarithmic axis: zeros at :data:`SMALLEST`, NaN if infinite."""
    with np.errstate(all="ignore"):
        size = np.abs(values)
        return np.where(np.isfinite(size), np.clip(size, SMALLEST, LARGEST), np.nan)


def thinned(count: int) -> np.ndarray:
    """Return logarithmically spaced indices of ``count`` points, some hundred at most."""
    if count <= _POINTS:
        return np.arange(count)
    return np.union1d(np.geomspace(1, count, _POINTS).astype(int) - 1, [0, count - 1])


def largest_between(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the largest values (trajectory, time) from one chosen place to the next.

    The result, (trajectory, place), makes a thinned curve pass through every peak of the full one.
    """
    if len(places) == 0:
        return values[:, :0]
    begin = np.concatenate([places[:1], places[:-1] + 1])
    with np.errstate(all="ignore"):
        return np.maximum.reduceat(values[:, : places[-1] + 1], begin, axis=1)
