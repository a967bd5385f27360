"""Heyoka's Taylor method with a cursor: accuracy, explicit time, batches, snapshots."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.rollout.systems import BLOW_UP, DOMAIN, initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system, solve
from vpintegrator.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "benchmarks"))
import heyoka_method as taylor

HEYOKA, method_of = taylor.HEYOKA, taylor.with_heyoka
installed = pytest.mark.skipif(find_spec("heyoka") is None, reason="heyoka is not there")
SYSTEMS = ("rigid-body", "kepler", "forced", "particle-in-a-wave")


@installed
@pytest.mark.parametrize("which", SYSTEMS)
@pytest.mark.parametrize("name", ["heyoka", "heyoka-1e-7"])
def test_against_solutions_of_another_solver(name, which):
    s, z = system(which), initial(which, 11)
    exact = solve(s, z, 0.25 * np.arange(13), rtol=2.3e-14, atol=1e-15)
    error = np.abs(integrate(s, method_of(name), z, 0.25, 12) - exact).max()
    assert error < 1e-12 if name == "heyoka" else 1e-10 < error < 1e-5


@installed
def test_a_breakdown_is_nan_and_leaves_the_others_alone():
    s = load_system(BLOW_UP)
    z = np.array([[1.0, 1.0], [-1.0, 1.0], [0.1, 0.5], [2.0, 0.5], [-0.3, 0.2]])
    states = integrate(s, HEYOKA, z, 0.1, 120)  # beyond a stretch
    bad = np.isnan(states).any(axis=-1)
    assert (bad == np.isnan(states).all(axis=-1)).all()
    assert bad.sum(axis=1).tolist() == pytest.approx([111, 0, 21, 116, 0], abs=1)
    t = 0.1 * np.arange(121)
    for row in (1, 4):
        assert np.allclose(states[row, :, 0], z[row, 0] / (1 - z[row, 0] * t), rtol=1e-13)
    states = integrate(load_system(DOMAIN), HEYOKA, [[0.0, 0.55], [0.0, 100.0]], 0.1, 20)
    assert np.isnan(states[0, -1]).all()
    assert np.isfinite(states[1]).all()


def test_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(taylor, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install heyoka"):
        integrate(system("pendulum"), method_of("heyoka-1e-9"), initial("pendulum"), 0.1, 1)
