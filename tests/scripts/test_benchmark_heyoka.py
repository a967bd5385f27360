"""Heyoka's Taylor method with a cursor: accuracy, explicit time, batches."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.rollout.systems import initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import solve
from vpintegrator.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "benchmarks"))
import heyoka_method as taylor

method_of = taylor.with_heyoka
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


def test_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(taylor, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install heyoka"):
        integrate(system("pendulum"), method_of("heyoka-1e-9"), initial("pendulum"), 0.1, 1)
