"""Equations judged by measured states, and parameters estimated from them."""

import tomllib

import numpy as np
import pytest
import scipy

import vpintegrator as vp
from vpintegrator.data.importing.identification import (
    check_equations,
    fit_parameters,
    noise_level,
)
from vpintegrator.errors import InputError

STEP = 0.05


def swing(noise, gravity=9.81, count=6, length=81, seed=0):
    """Pendulums by SciPy, seen through noise, (trajectory, time, 2)."""
    random = np.random.default_rng(seed)
    times = STEP * np.arange(length)
    orbits = [
        scipy.integrate.solve_ivp(
            lambda _, z: (z[1], -gravity * np.sin(z[0])),
            (0, times[-1]),
            random.uniform((0.3, -1), (1.5, 1)),
            t_eval=times,
            rtol=1e-10,
            atol=1e-10,
        ).y.T
        for _ in range(count)
    ]
    return np.stack(orbits) + noise * random.standard_normal((count, length, 2))


@pytest.mark.parametrize("noise", [1e-3, 0.02, 0.1])
def test_noise_is_estimated_from_states_alone(noise):
    np.testing.assert_allclose(noise_level(swing(noise), STEP), noise, rtol=0.15)


def test_noise_is_no_less_than_rounding():
    rounded = np.round(swing(0), 2)
    found = noise_level(rounded, STEP)
    assert (found > 0.5 * 0.01 / 12**0.5).all() and (found < 0.01).all()


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.05])
def test_residuals_tell_wrong_parameters_from_right_ones(noise):
    states = swing(noise)
    right = check_equations(vp.load_system("pendulum", g=9.81), states, STEP)
    wrong = check_equations(vp.load_system("pendulum", g=1.0), states, STEP)
    assert right.fits and not wrong.fits
    if noise:
        assert 0.6 < right.median < 1.3
        assert wrong.median_long > 5
        given = check_equations(
            vp.load_system("pendulum", g=9.81), states, STEP, np.array([noise, noise])
        )
        assert 0.6 < given.median < 1.3


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_a_parameter_is_found_within_its_standard_error(noise):
    system, found = fit_parameters(vp.load_system("pendulum"), ["g"], swing(noise), STEP)
    value, error = found["g"]
    assert system.parameters["g"] == value
    assert abs(value - 9.81) < 3 * error + 1e-6
    assert error < 0.02 + noise


@pytest.mark.thorough
def test_standard_errors_are_those_of_repeated_experiments():
    found = [
        fit_parameters(
            vp.load_system("pendulum", g=9.0), ["g"], swing(0.05, count=1, seed=seed), STEP
        )[1]["g"]
        for seed in range(6)
    ]
    deviations = [(value - 9.81) / error for value, error in found]
    assert 0.5 < np.sqrt(np.mean(np.square(deviations))) < 1.8


@pytest.mark.thorough
def test_several_parameters_and_missing_states():
    states = swing(0.01)
    states[np.random.default_rng(1).random(states.shape) < 0.05] = np.nan
    system = vp.load_system("pendulum", m=2.0)
    _, found = fit_parameters(system, ["g", "m"], states, STEP)
    assert abs(found["g"][0] - 9.81) < 4 * found["g"][1]
    assert abs(found["m"][0] - 1) < 4 * found["m"][1]
    with pytest.raises(InputError, match=r"do not determine g and m and l .* fit fewer"):
        fit_parameters(vp.load_system("pendulum", g=9.0), ["g", "m", "l"], states, STEP)


def test_parameters_of_a_map_and_of_a_driven_system():
    generator = np.random.default_rng(0)
    for name, values, step in (
        ("henon-map", {"a": 1.3}, 1.0),
        ("driven-pendulum", {"a": 0.3}, 0.1),
    ):
        system = vp.load_system(name, **values)
        states = vp.solve(system, system.sample_initial(6, generator), step * np.arange(21))
        states[..., : system.phase_dim] += 1e-3 * generator.normal(
            size=(*states.shape[:2], system.phase_dim)
        )
        _, found = fit_parameters(vp.load_system(name), list(values), states, step)
        assert abs(found["a"][0] - values["a"]) < 4 * found["a"][1] < 0.02


@pytest.mark.parametrize(
    ("names", "message"),
    [(["G"], "no parameter 'G'"), (["g", "g"], "once"), ([], "once")],
)
def test_mistakes_in_what_is_fitted(names, message):
    with pytest.raises(InputError, match=message):
        fit_parameters(vp.load_system("pendulum"), names, swing(0), STEP)


def test_importing_says_how_well_the_equations_fit(tmp_path):
    states = swing(0.01)
    with pytest.warns(UserWarning, match=r"do NOT describe the data.* g = 1 .*--fit g"):
        wrong = vp.import_dataset(states, tmp_path / "a.h5", step=STEP, system="pendulum")
    assert tomllib.loads(wrong.recipe)["equations"]["fits"] == "no"
    right = vp.import_dataset(states, tmp_path / "b.h5", step=STEP, system="pendulum", fit=["g"])
    equations = tomllib.loads(right.recipe)["equations"]
    value, error = equations["fitted"]["g"]
    assert abs(value - 9.81) < 4 * error < 0.1
    assert right.system.parameters["g"] == value
    assert equations["fits"] == "yes" and 0.6 < equations["residual_median"] < 1.3
    np.testing.assert_allclose(equations["noise"], 0.01, rtol=0.15)
    for options, message in (
        ({"fit": ["g"]}, "fit needs equations; give a system"),
        ({"noise": 0.1}, "noise needs equations; give a system"),
        ({"system": "pendulum", "noise": [0.1, 0]}, "a positive standard deviation"),
        ({"system": "pendulum", "fit": ["k"]}, "no parameter 'k'"),
    ):
        with pytest.raises(InputError, match=message):
            vp.import_dataset(states, tmp_path / "c.h5", step=STEP, **options)
    assert not (tmp_path / "c.h5").exists()
