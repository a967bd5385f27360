"""SciPy's adaptive solvers behind a cursor: tolerance, continuity, breakdowns."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate

import vpintegrator as vp
from tests.rollout.systems import BLOW_UP, initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system, solve
from vpintegrator.dynamics.solve import component_sizes
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS

NAMES = ("rk45", "dop853", "radau", "lsoda")


@pytest.mark.parametrize("which", ["rigid-body", "coupled-oscillators", "charged-particle"])
@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_of_the_size_of_the_tolerance(name, which):
    s, z = system(which), initial(which)
    exact = solve(s, z, 0.25 * np.arange(21), rtol=1e-12, atol=1e-13)
    error = np.abs(integrate(s, name, z, 0.25, 20) - exact).max()
    assert 1e-9 < error < 4e-5


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_solver_run_through_and_not_started_at_each_step(name):
    s, z = system("rigid-body"), initial("rigid-body", 1)
    times = 0.01 * np.arange(101)
    ours = integrate(s, name, z, 0.01, 100)[0]
    solution = scipy.integrate.solve_ivp(
        lambda _, y: s.vector_field(y),
        (0.0, 250 * 0.01),
        z[0],
        method=METHODS[name].solver,
        t_eval=times,
        rtol=1e-6,
        atol=1e-9 * component_sizes(s, z, 2.5),
        **({"jac": lambda _, y: s.jacobian(y)} if name in ("radau", "lsoda") else {}),
    )
    assert np.allclose(ours, solution.y.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_states_do_not_depend_on_how_many_are_asked_for(name):
    s, z = system("pendulum"), initial("pendulum", 3)
    map, first = vp.classical(name, s, 0.02), z[:, None]
    whole = next(map.advance(first, 600))  # beyond two segments
    parts = [*map.advance(first, 600, chunk=130)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("name", NAMES)
def test_a_breakdown_is_nan_and_leaves_the_others_alone(name):
    s = load_system(BLOW_UP)
    z = [[1.0, 1.0], [-1.0, 1.0], [0.1, 0.5], [2.0, 0.5], [-0.3, 0.2]]
    states = integrate(s, name, z, 0.1, 20)
    t = 0.1 * np.arange(21)
    bad = np.isnan(states).any(axis=-1)
    # x = x0/(1 - x0 t)
    assert bad.sum(axis=1).tolist() == pytest.approx([11, 0, 0, 16, 0], abs=1)
    for row in (1, 2, 4):
        x0, y0 = z[row]
        assert np.allclose(states[row, :, 0], x0 / (1 - x0 * t), rtol=1e-4)
        assert np.allclose(states[row, :, 1], y0 * np.exp(-t), rtol=1e-4)
    assert np.allclose(states[0, :9, 0], 1 / (1 - t[:9]), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "count", "largest"), [("rk45", 300, 1e-5), ("dop853-1e-12", 5, 1e-10)]
)
def test_tolerances_are_kept_also_in_a_large_batch(name, count, largest):
    s, z = system("pendulum"), initial("pendulum", count)
    exact = solve(s, z, np.array([0.0, 1.0, 2.0]), rtol=2.3e-14, atol=1e-14)
    assert np.abs(integrate(s, name, z, 1.0, 2) - exact).max() < largest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "RK46"}, "no solver 'RK46'"),
        ({"rtol": 1e-15}, "rtol must be at least"),
        ({"atol": 0.0}, "atol positive"),
    ],
)
def test_wrong_arguments(change, message):
    with pytest.raises(InputError, match=message):
        replace(METHODS["rk45"], **change)
