"""What is drawn, read back from the lines of the figures, against the arrays of the report."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from vpintegrator import plotting
from vpintegrator.plotting.figures.curves import COSTS, WorkPrecisionFigure
from vpintegrator.plotting.figures.portraits import CoordinatesFigure
from vpintegrator.plotting.scene import Scene


def drawn(draw, *arguments):
    """The axes that a function has drawn into, and the points of each of its lines."""
    axes = Figure().subplots()
    assert draw(*arguments, ax=axes) is axes and axes.figure.axes == [axes]
    return axes, [np.array(line.get_data(), dtype=float) for line in axes.lines]


def median(values):
    """By sorting."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def test_curves_and_bands_of_errors(body):
    axes, lines = drawn(plotting.errors, body)
    start = max(run.window for run in body.runs.values())  # all start alike
    for run, line, band in zip(body.runs.values(), lines, axes.collections, strict=False):
        distance = np.linalg.norm(run.states - body.reference, axis=-1)[:, start:]
        np.testing.assert_array_equal(line[0], body.times[start:])
        expected = [median(column) for column in distance.T]
        np.testing.assert_allclose(line[1], np.maximum(expected, 1e-17), rtol=1e-12)
        heights = band.get_paths()[0].vertices[:, 1]
        assert heights.min() == pytest.approx(max(distance.min(), 1e-17), rel=1e-12)
        assert heights.max() == pytest.approx(distance.max(), rel=1e-12)
    np.testing.assert_array_equal(lines[-1][1], body.threshold)


def test_curves_of_invariants(body):
    start = max(run.window for run in body.runs.values())
    for name, invariant in body.system.invariants.items():
        _, lines = drawn(plotting.invariant, body, name)
        for run, line in zip(body.runs.values(), lines, strict=True):
            values = invariant(run.states)
            # relative to the size of the invariant over all orbits
            change = np.abs(values - values[:, :1]) / np.abs(values[:, :1]).max()
            expected = [change[:, : k + 1].max() for k in range(start, len(body.times))]
            np.testing.assert_array_equal(line[0], body.times[start:])
            np.testing.assert_allclose(line[1], np.maximum(expected, 1e-17), rtol=1e-12)


@pytest.mark.parametrize("kind", ["step", "phase-space"])
def test_curves_of_volumes(body, kind):
    _, lines = drawn(plotting.volume, body, kind)
    for run, line in zip(body.runs.values(), lines, strict=True):
        volume = run.volume[kind]
        size = dict(zip(volume.times, np.abs(volume.log_determinant).T.tolist(), strict=True))
        later = volume.times >= 0
        if kind == "phase-space":  # after the states that were given
            later = volume.times > (run.window - 0.9) * body.step
        np.testing.assert_array_equal(line[0], volume.times[later])
        expected = [max(max(size[t]), 1e-17) for t in line[0]]
        np.testing.assert_array_equal(line[1], expected)


def test_curves_of_components(body):
    axes = Figure().subplots()
    CoordinatesFigure(Scene(body)).panel(axes, 1, slice(5, 40))
    reference, *lines = [np.array(line.get_data(), dtype=float) for line in axes.lines]
    np.testing.assert_array_equal(reference, [body.times[5:40], body.reference[0, 5:40, 1]])
    for run, line in zip(body.runs.values(), lines, strict=True):
        shown = np.isfinite(line[1])
        np.testing.assert_array_equal(line[1][shown], run.states[0, 5:40, 1][shown])


def test_curves_of_work_and_precision(thinned):
    for axes, cost in zip(WorkPrecisionFigure(Scene(thinned)).draw().axes, COSTS, strict=True):
        for study, line in zip(thinned.work_precision.values(), axes.lines, strict=False):
            points = sorted(zip(getattr(study, cost), study.error, strict=True))
            np.testing.assert_array_equal(np.transpose(line.get_data()), points)
