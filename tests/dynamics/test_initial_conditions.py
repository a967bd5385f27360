"""Distributions of initial states."""

import numpy as np
import pytest

from vpintegrator.dynamics import InitialConditions, load_system
from vpintegrator.errors import InputError

BODY = load_system("rigid-body")
PENDULUM = load_system("pendulum")


def draw(table, count=50, system=BODY, seed=0):
    conditions = InitialConditions(system, table, "test")
    return conditions.sample(count, np.random.default_rng(seed))


def test_points_are_dealt_out_without_repetition():
    table = {"distribution": "points", "points": [[i, 0, 0] for i in range(20)]}
    assert sorted(draw(table, None)[:, 0]) == list(range(20))
    with pytest.raises(InputError, match="21 initial states are asked for"):
        draw(table, 21)


def test_the_great_circles_of_the_published_study():
    table = {"distribution": "curves", "parameter": "a", "start": 0.1, "stop": "2*pi"}
    table |= {"step": 0.01, "curves": [["sin(a)", "0", "cos(a)"], ["0", "sin(a)", "cos(a)"]]}
    found = draw(table, None)
    a = np.arange(0.1, 2 * np.pi, 0.01)
    s, c, zero = np.sin(a), np.cos(a), np.zeros_like(a)
    expected = np.concatenate([np.stack([s, zero, c], -1), np.stack([zero, s, c], -1)])
    assert len(found) == 1238
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(expected, axis=0), atol=1e-14)


def test_uniform_and_normal():
    found = draw({"distribution": "uniform", "low": -2, "high": [3, 4, 5]}, 20_000)
    np.testing.assert_allclose(found.min(0), -2, atol=0.01)
    np.testing.assert_allclose(found.max(0), [3, 4, 5], atol=0.01)
    found = draw({"distribution": "normal", "mean": [1, 2, 3], "std": 0.5}, 20_000)
    np.testing.assert_allclose(found.mean(0), [1, 2, 3], atol=0.02)
    np.testing.assert_allclose(found.std(0), 0.5, atol=0.02)


def test_sphere_is_uniform_on_its_surface():
    found = draw({"distribution": "sphere", "radius": 2, "centre": [1, 0, 0]}, 20_000)
    np.testing.assert_allclose(np.linalg.norm(found - [1, 0, 0], axis=1), 2, rtol=1e-14)
    # Archimedes: every coordinate of a uniform point on a sphere is uniform
    height = np.sort((found[:, 2] + 2) / 4)
    assert np.abs(height - np.linspace(0, 1, len(height))).max() < 0.02


def test_energy_shell():
    table = {"distribution": "energy-shell", "energy": [-0.5, "0.5*m"], "low": "-pi", "high": "pi"}
    energy = PENDULUM.hamiltonian(draw(table, 500, PENDULUM))
    assert len(energy) == 500 and energy.min() >= -0.5 and energy.max() <= 0.5
    with pytest.raises(InputError, match="only 0 of"):
        draw({**table, "energy": [100, 101]}, 5, PENDULUM)


CHAIN = load_system("toda", n=3)
FORMULA = {
    "distribution": "formula",
    "random": {
        "a": ["-pi", "pi"],
        "r": {"mean": 2, "std": 0.1},
        "u": {"low": 0, "high": "1/n", "length": "n"},
    },
    "state": {"q": "u[i] + i", "p": ["r*cos(a)", "r*sin(a)", 0]},
}


def test_formula():
    z = draw(FORMULA, 4000, CHAIN)
    fraction, radius = z[:, :3] - np.arange(3), np.hypot(z[:, 3], z[:, 4])
    assert fraction.min() >= 0 and fraction.max() <= 1 / 3
    # the entries of an array are independent
    np.testing.assert_allclose(np.corrcoef(fraction.T), np.eye(3), atol=0.06)
    np.testing.assert_allclose([radius.mean(), radius.std()], [2, 0.1], atol=0.01)
    assert (z[:, 5] == 0).all()


def test_bounds_by_array():
    table = {"distribution": "uniform", "low": {"q": "i", "p": -1}, "high": {"q": "i + 1", "p": 1}}
    z = draw(table, 500, CHAIN)
    assert (np.floor(z[:, :3]) == np.arange(3)).all()
    assert np.abs(z[:, 3:]).max() < 1


OUTSIDE = 'state = ["q", "p"]\nhamiltonian = "p**2/2 + q - {}"'
FUNCTIONS = {"log(q)": 0.0, "sqrt(q)": 0.0, "sqrt(q - 0.5)": 0.5, "(q + 0.5)**1.5": -0.5}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_states_outside_of_the_domain_are_drawn_again(function):
    system = load_system(OUTSIDE.format(function))
    table = {"distribution": "uniform", "low": -1, "high": 1}
    with pytest.warns(UserWarning, match="drawn again: q = .* is outside of the domain of"):
        found = draw(table, 40, system)
    assert (found[:, 0] > FUNCTIONS[function]).all()
    assert np.isfinite(system.hamiltonian(found)).all()


def test_open_parameters_are_part_of_the_domain():
    text = OUTSIDE.format("log(a - q)") + "\n[parameters]\na = 1"
    system = load_system(text).with_open(["a"])
    conditions = InitialConditions(system, {"distribution": "uniform", "low": -1, "high": 1}, "f")
    values = np.linspace(-0.5, 0.5, 40)[:, None]
    with pytest.warns(UserWarning, match=r"domain of log\(\(?a - q\)?\)|domain of log\(\(?-q \+ a"):
        found = conditions.sample(40, np.random.default_rng(0), values)
    assert (found[:, 0] < values[:, 0]).all()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"distribution": "uniform", "low": 0}, "needs high"),
        ({"distribution": "uniform", "low": 1, "high": 0}, "low is above high"),
        ({"distribution": "uniform", "low": "z1", "high": 1}, "unknown name 'z1'"),
        ({"distribution": "points", "points": [[1, 2]]}, "entry 0: expected 6 numbers"),
        (FORMULA | {"random": {"a": [0, 1, 2]}}, r"random a: expected \[low, high\]"),
        (FORMULA | {"random": {"n": [0, 1]}}, "the name 'n' has a meaning already"),
        (FORMULA | {"state": {"q": "b", "p": 0}}, r"state q, column 1: unknown name 'b'"),
        (FORMULA | {"state": {"q": "log(u[i] - 2)", "p": 0}}, "a formula has no finite value"),
    ],
)
def test_mistakes(table, message):
    with pytest.raises(InputError, match=message):
        draw(table, 5, CHAIN)
