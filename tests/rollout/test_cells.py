"""Cells of the table: one statistic of one thing, the same in table, caption and file."""

import itertools
import math
import re

import h5py
import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.plotting import csv_table, latex_table, markdown_table
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout.report import rounding_error

ROTATION = np.array([[math.cos(0.1), math.sin(0.1)], [-math.sin(0.1), math.cos(0.1)]])
COMMON = {"system": "harmonic-oscillator", "against": [], "steps": 60, "compiled": False}
INITIAL = [[1.0, 0.0], [0.0, 0.8], [0.5, 0.5]]


class Linear(vp.Map):
    """A rotation whose determinant is exp(change)."""

    dim, step, name = 2, 0.1, "linear"

    def __init__(self, change=0.0):
        self.matrix = ROTATION * math.exp(change / 2)

    def map(self, windows):
        return windows @ self.matrix.T

    def derivative(self, windows):
        return np.broadcast_to(self.matrix, (len(windows), 2, 2))


def cell(text, title):
    """The first cell of a column of a Markdown table."""
    header, _, row, *_ = [line for line in text.splitlines() if line.startswith("|")]
    places = [each.strip() for each in header.split("|")]
    return row.split("|")[places.index(title)].strip()


SEEDS = [(0.0, 0.0, 1e-3), (0.0, 1e-3, 1e-3), (1e-3, 2e-3, 3e-3), (0.0, 0.0, 0.0)]


@pytest.mark.parametrize("changes", [*itertools.permutations(SEEDS[0]), *SEEDS[1:]])
def test_a_verdict_is_about_the_number_beside_it(changes):
    """No order of the seeds gives a word of one seed and a number of another."""
    report = vp.compare({"own": [Linear(change) for change in changes]}, initial=INITIAL, **COMMON)
    middle = float(np.median(changes))
    (row,) = report.table()
    assert row["map volume error"] == pytest.approx(middle, abs=1e-14)
    assert row["map volume preserved"] is (middle == 0)
    assert row["phase-space volume preserved"] is (middle == 0)
    shown = f"{row['map volume error']:.1e}"
    for text, form in ((markdown_table(report), str), (latex_table(report), latex)):
        assert form(f"{'yes' if middle == 0 else 'no'} {shown}") in text
    assert f"{shown} (own (3 seeds))" in FIGURES["volume"](Scene(report)).caption()
    some = "Kept by some seeds alone: the map volume by 2 of own (3 seeds)"
    assert (some in markdown_table(report)) == (sorted(changes) == sorted(SEEDS[0]))


def latex(text):
    word, number = text.split()
    digits, _, power = number.partition("e")
    return rf"{word} ${digits}\cdot 10^{{{int(power)}}}$"


class Collapsing(Linear):
    """Keeps volume, stretches beyond a radius, and crushes volume where orbits are lost."""

    def _matrix(self, windows):
        radius = np.linalg.norm(windows[:, -1], axis=-1)[:, None, None]
        stretched = np.where(radius > 0.9, np.diag([1.5, 1 / 1.5]), self.matrix)
        return np.where(radius > 1e3, np.diag([1.5, 1e-4]), stretched)

    def map(self, windows):
        return windows @ self._matrix(windows).swapaxes(1, 2)

    def derivative(self, windows):
        return self._matrix(windows)


def test_numbers_end_where_an_orbit_ends():
    """The lost orbit has finite states to the end, whose determinants say nothing."""
    report = vp.compare(Collapsing(), initial=INITIAL, **COMMON)
    (run,) = report.runs.values()
    (row,) = report.table()
    assert np.isfinite(run.states).all() and np.abs(run.states).max() > 1e3
    assert row["diverged"] == 1
    assert row["map volume preserved"] and row["phase-space volume preserved"]
    lost = report.divergence_time("linear")[0]
    for volume in run.volume.values():
        gone = volume.times >= lost
        assert np.isnan(volume.log_determinant[0, gone]).all()
        assert np.isfinite(volume.log_determinant[0, ~gone]).all()
        assert np.isfinite(volume.log_determinant[1:]).all()
    # the curve of the others goes on
    figure = FIGURES["volume"](Scene(report))
    assert len(figure.data("linear", "phase-space")[0]) == 60
    assert np.isfinite(figure.data("linear", "phase-space")[1]).all()
    # the energy of an orbit that is lost is no number, its drift is that of the others
    assert row["energy error"] == math.inf
    assert abs(row["energy drift"]) < 1e-12
    assert cell(markdown_table(report), "energy rel. error") == "diverged"


@pytest.mark.parametrize("every", [1, 7])
def test_the_file_knows_the_divergence_that_the_caption_tells(every, tmp_path):
    report = vp.compare(Collapsing(), initial=INITIAL, every=every, **COMMON)
    (run,) = report.runs.values()
    distance = np.linalg.norm(exact(np.arange(61)) - states_of(Collapsing(), 60), axis=-1)
    reference = exact(np.arange(61)).reshape(-1, 2)
    far = 10 * np.linalg.norm(reference - reference.mean(axis=0), axis=-1).max()
    energy = (states_of(Collapsing(), 60) ** 2).sum(axis=-1) / 2
    changed = np.abs(energy - energy[:, :1]) > 100 * energy[:, 0].max()
    lost = (distance > far) | changed
    expected = np.where(lost.any(axis=1), 0.1 * lost.argmax(axis=1), np.nan)
    assert np.isfinite(expected).tolist() == [True, False, False]
    np.testing.assert_allclose(run.divergence_time, expected)
    report.save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_allclose(file["linear/divergence_time"], expected)
        assert np.isnan(file["linear/failure_time"]).all()
    again = vp.open_rollout(tmp_path / "a.h5")
    assert f"first at t = {expected[0]:.4g} (linear)" in FIGURES["errors"](Scene(again)).caption()


def exact(steps):
    angles = 0.1 * steps[:, None, None]
    c, s = np.cos(angles), np.sin(angles)
    turn = np.block([[c, s], [-s, c]])  # (time, 2, 2)
    return np.einsum("tij,nj->nti", turn, np.array(INITIAL))


def states_of(map, steps):
    states = [np.array(INITIAL)]
    for _ in range(steps):
        states.append(map.map(states[-1][:, None])[:, 0])
    return np.stack(states, axis=1)


def untrained(dtype, scale):
    """A network that keeps volume, and the same with a factor beside it."""
    torch.manual_seed(2)
    core = vp.models.VolumePreservingFeedForward(dim=2, depth=2, dtype=dtype)

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.core = core

        def forward(self, states):
            return scale * self.core(states[:, None])[:, 0]

    return vp.wrap(Scaled(), dim=2, step=0.1)


DTYPES = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-8, 1e-11)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_volume_is_kept_in_the_precision_of_the_map(dtype):
    models = {"kept": untrained(dtype, 1.0)}
    models |= {f"lost {k}": untrained(dtype, 1 + each) for k, each in enumerate(DTYPES[dtype])}
    report = vp.compare(models, initial=0.3 * np.array(INITIAL), **(COMMON | {"steps": 12}))
    kept, *lost = report.table()
    assert kept["map volume preserved"] and kept["phase-space volume preserved"]
    assert kept["map volume error"] > 0
    for row, change in zip(lost, DTYPES[dtype], strict=True):
        assert not row["map volume preserved"]
        assert row["map volume error"] == pytest.approx(2 * change, rel=0.2)
    assert report.runs["kept"].machine_epsilon == torch.finfo(dtype).eps


def test_functions_in_single_precision():
    """The values that a function returns tell its precision; derivatives are by differences."""
    single = ROTATION.astype(np.float32)

    def turn(states):
        return states.astype(np.float32) @ single.T

    def shrink(states):
        return turn(states) * np.float32(0.95)

    def double(states):
        return states @ ROTATION.T

    maps = [vp.Map.from_function(each, 0.1, 2) for each in (turn, shrink, double)]
    report = vp.compare(maps, initial=INITIAL, **COMMON)
    kept = [row["map volume preserved"] for row in report.table()]
    assert kept == [True, False, True]
    assert report.summary("turn").invariants_kept["energy"]
    assert not report.summary("shrink").invariants_kept["energy"]


def test_rounding_follows_precision_size_and_steps():
    single, double = 2.0**-23, 2.0**-52
    assert rounding_error(double, 3) == 1e-12
    assert rounding_error(double, 3, 2000) == pytest.approx(1e-11)
    assert rounding_error(single, 9) == pytest.approx(96 * single)
    assert 2.7e-6 < rounding_error(single, 9) < 2e-5
    assert rounding_error(single, 3, 400) == pytest.approx(20 * rounding_error(single, 3))


def test_captions_and_tables_say_the_same():
    """Of several seeds: numbers in captions are those of the CSV, not those of one seed."""
    models = [Linear(change) for change in (1e-3, 2e-3, 4e-3, 5e-3)]
    report = vp.compare({"own": models}, **(COMMON | {"against": "rk4"}), initial=INITIAL)
    scene, row = Scene(report), report.table()[0]
    titles = {"volume": ["map volume error", "phase-space volume error"]}
    titles |= {"errors": ["median final error"], "invariants": ["energy error"]}
    for figure, columns in titles.items():
        caption = FIGURES[figure](scene).caption()
        for title in columns:
            assert f"{row[title]:.1e} (own (4 seeds))" in caption, title
            assert f"{row[title]:.1e}" in markdown_table(report, [title]), title
    assert re.search(r"^own \(4 seeds\),", csv_table(report), re.M)
