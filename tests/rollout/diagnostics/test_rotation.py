"""Rotation numbers of maps: closed forms, plain loops, and what survives a file."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.maps import ExactMap
from vpintegrator.rollout.diagnostics.rotation import elliptic_point, tolerance_of

LINEAR = """
title = "A rotation"
state = ["q", "p"]
symplectic = true
parameters = { a = 0.9 }
[map]
q = "1 + (q - 1)*cos(a) - p*sin(a)"
p = "(q - 1)*sin(a) + p*cos(a)"
[initial_conditions]
distribution = "uniform"
low = -1
high = 1
"""


def compare(system, model=None, **options):
    """The map beside one that is given, or beside an untrained model."""
    model = model or vp.models.SymplecticFeedForward(dim=2, depth=1, width=2)
    return vp.compare({"m": model}, [], system=system, compiled=False, **options)


@pytest.fixture(scope="module")
def report():
    torch.manual_seed(0)
    return compare(vp.load_system("henon-map"), steps=400, trajectories=6, seed=1)


def test_a_linear_map_turns_by_its_angle():
    found = compare(vp.load_system(LINEAR), steps=300, trajectories=4).runs["m"].rotation
    np.testing.assert_allclose(found.reference, 0.9 / (2 * np.pi), atol=1e-13)
    np.testing.assert_allclose(found.centre, [1.0, 0.0], atol=1e-12)
    assert found.regular.all()


def test_rotation_by_a_plain_loop(report):
    run = report.runs["m"]
    found, steps = run.rotation, 400
    scale = np.ptp(report.reference, axis=(0, 1))
    t = np.arange(1, steps + 1) / (steps + 1)
    weights = np.exp(-1 / (t * (1 - t)))
    for states, numbers in ((run.states, found.number), (report.reference, found.reference)):
        for orbit, number in zip(states, numbers, strict=True):
            z = ((orbit - found.centre) / scale) @ [1, 1j]
            turns = np.angle(z[1:] / z[:-1]) / (2 * np.pi)
            if np.ptp(turns) > 0.9:
                continue  # across the cut of the logarithm
            expected = (weights * turns).sum() / weights.sum()
            assert abs(number - expected) < 1e-12
    gap = np.abs(found.number - found.reference)
    gap = np.minimum(gap, 1 - gap)
    expected = gap[found.reference_change < tolerance_of(steps)].max()
    row = next(row for row in report.table() if row["method"] == "m")
    assert row["rotation error"] == expected == report.summary("m").rotation_error
    assert row["regular orbits"] == (found.reference_change < tolerance_of(steps)).sum() > 0


def test_what_diverges_is_infinitely_wrong():
    system = vp.load_system("henon-map")
    report = compare(system, initial=[[0.1, 0.0], [0.2, 0.1]], steps=60)
    found = report.runs["m"].rotation
    worse = type(found)(**{**vars(found), "number": np.array([np.nan, np.nan])})
    regular = type(worse)(**{**vars(worse), "reference_change": np.zeros(2)})
    assert regular.error == np.inf
    none = type(worse)(**{**vars(worse), "reference_change": np.ones(2)})
    assert none.error is None


def test_the_advance_of_an_angle():
    system = vp.load_system("standard-map", K=0.0)
    initial = [[0.3, 1.0], [0.1, 2.5]]
    found = compare(system, initial=initial, steps=100).runs["m"].rotation
    assert found.centre is None
    np.testing.assert_allclose(found.reference, np.array([1.0, 2.5]) / (2 * np.pi), atol=1e-13)


def test_the_axis_of_field_lines_is_found():
    """Beside it the rates of change are rounding errors, and steps are those of the domain."""
    turn = vp.return_map("field-lines", "phi = 0")
    states = turn.sample_initial(8, np.random.default_rng(0))
    orbits = vp.solve(turn, states, np.arange(30)).reshape(-1, 2)
    axis = elliptic_point(ExactMap(turn), orbits)
    assert np.abs(axis).max() < 1e-11
