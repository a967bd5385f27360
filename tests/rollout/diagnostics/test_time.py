"""Diagnostics where equations depend on time: sections once a period, the form at one time."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.systems import as_map, initial, system
from tests.rollout.test_time import forced_oscillation
from vpintegrator.rollout.diagnostics import (
    poincare_section,
    symplecticity_defect,
    window_symplecticity_defect,
)


@pytest.mark.parametrize(("start", "step"), [(0.0, 0.1), (0.7, 0.1), (-3.0, 0.23), (1e4, 0.1)])
def test_a_section_once_in_a_period(start, step):
    period = 2 * np.pi / 1.7
    times = step * np.arange(200)
    states = forced_oscillation([0.4, -0.2, start], times)[None]
    found = poincare_section(states, step, 2, 0.3, period=period)
    turns = np.arange(-10, 10_000)
    expected = 0.3 + turns * period - start
    expected = expected[(expected > 0) & (expected < times[-1])]
    np.testing.assert_allclose(found.time, expected, atol=1e-9)
    exact = forced_oscillation([0.4, -0.2, start], expected)
    np.testing.assert_allclose(found.points[:, :2], exact[:, :2], atol=1e-8)
    np.testing.assert_array_equal(found.points[:, 2], 0.3)


@pytest.mark.parametrize(
    ("name", "which", "kept"),
    [
        ("stoermer-verlet", "forced", True),
        ("implicit-midpoint", "swept", True),
        ("rk4", "forced", False),
    ],
)
def test_the_form_is_that_of_one_time(name, which, kept):
    flow = as_map(name, system(which), 0.3)
    defect = symplecticity_defect(flow, initial(which)[:, None])
    assert (defect < 1e-13) == kept and window_symplecticity_defect(flow, None) is None


def test_a_comparison_knows_its_system(tmp_path):
    report = vp.compare(
        None,
        ["rk4", "strang-splitting"],
        system=system("forced"),
        step=0.1,
        steps=150,
        trajectories=3,
    )
    assert report.section_plane == ("t", 0.0, 1)
    for run in report.runs.values():
        turns = np.bincount(run.section.trajectory)  # in 15 of time
        assert set(turns) <= {2, 3} and len(turns) == 3
        assert run.invariants == {}
    assert report.summary("strang-splitting").volume_preserved["step"]
    spread = report.reference[..., :4].std()
    assert report.threshold < spread  # of what moves, not of the time
    path = tmp_path / "rollout.h5"
    report.save(path)
    again = vp.open_rollout(path)
    assert again.section_plane == report.section_plane
