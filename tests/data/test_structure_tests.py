"""Tests of structure: calibrated where a property holds, and with power where it does not."""

import numpy as np
import pytest
from scipy import stats

import vpintegrator as vp
from vpintegrator.data.polynomial_fit import Polynomials, fit_groups
from vpintegrator.data.structure_tests import structure_of_states

STEP = 0.2


def kicked(z, friction=0.0, force=0.0):
    """A step of a pendulum with friction: symplectic Euler, then a contraction of momenta."""
    p = np.exp(-friction * STEP) * (z[:, 1] - STEP * (np.sin(z[:, 0]) + force))
    return np.stack([z[:, 0] + STEP * p, p], 1)


def orbits(count, length, noise, seed=0, drive=0.0, **options):
    rng = np.random.default_rng(seed)
    states = [rng.uniform(-1, 1, (count, 2)) * [2, 1]]
    for k in range(length):
        states.append(kicked(states[-1], force=drive * np.cos(0.7 * k), **options))
    states = np.stack(states, 1)
    return states + noise * rng.normal(size=states.shape)


def found(states, **options):
    return {(t.name, t.what): t for t in structure_of_states(states, STEP, **options)}


def p_values(seeds):
    names = [("volume", ""), ("contraction", ""), ("autonomous", "")]
    tests = [found(orbits(40, 10, 1e-2, seed)) for seed in range(seeds)]
    return np.array([[test[name].p for name in names] for test in tests]).T


def test_p_values_are_uniform_where_properties_hold():
    volume, contraction, autonomous = p_values(14)
    assert stats.kstest(volume, "uniform").pvalue > 0.01
    assert stats.kstest(contraction, "uniform").pvalue > 0.01
    assert np.median(autonomous) > 0.3


@pytest.mark.thorough
def test_rejections_are_as_rare_as_the_level_says():
    for p in p_values(200):
        assert stats.binomtest(int((p < 0.05).sum()), 200, 0.05, "greater").pvalue > 0.01


def test_weak_friction_is_found_with_its_standard_error():
    tests = found(orbits(60, 20, 1e-3, friction=0.01), canonical=True)
    rate = tests["contraction", ""]
    assert tests["volume", ""].answer == "no" and rate.answer == "yes"
    assert abs(rate.value - 0.01) < 3 * rate.standard_error < 0.003
    assert tests["symplectic up to a factor", ""].answer == "yes"


def test_the_standard_error_is_that_of_repeated_experiments():
    rates = [found(orbits(40, 10, 1e-2, k))["contraction", ""] for k in range(14)]
    told = np.mean([each.standard_error for each in rates])
    assert told == pytest.approx(np.std([each.value for each in rates]), rel=0.5)


def test_a_drive_is_found_and_leaves_the_rest_undecided():
    tests = found(orbits(60, 20, 1e-3, drive=0.1))
    assert tests["autonomous", ""].answer == "no"
    assert tests["volume", ""].answer == "not decided"


def test_few_noisy_states_decide_nothing():
    tests = found(orbits(2, 12, 5e-2))
    for name in ("volume", "contraction", "autonomous"):
        assert tests[name, ""].answer == "not decided"
    assert all(test.reason for test in found(orbits(1, 4, 0.0)).values())


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    def make(name, **options):
        path = tmp_path_factory.mktemp("structure") / "a.h5"
        return vp.generate(name, path, count=60, steps=10, **options)

    return make


def answers(dataset):
    return {(t.name, t.what): t.answer for t in vp.data.inspect_structure(dataset)}


def test_rigid_body(generated):
    text = vp.load_system("rigid-body").text
    body = vp.System(text.replace('"sphere"\nradius = 1', '"uniform"\nlow = -1\nhigh = 1'), "body")
    found = answers(generated(body))
    assert found["volume", ""] == "yes" and found["contraction", ""] == "no"
    assert found["translation", "z1"] == "no"
    assert found["reversing symmetry", "-z1, z2, z3"] == "yes"
    assert found["reversing symmetry", "-z1, -z2, z3"] == "no"


def test_states_on_a_surface_do_not_decide_about_volume(generated):
    tests = vp.data.inspect_structure(generated("rigid-body"))
    volume = next(test for test in tests if test.name == "volume")
    assert volume.answer == "not decided" and "surface" in volume.reason


def test_lotka_volterra_and_henon_heiles(generated):
    assert answers(generated("lotka-volterra-2d"))["volume", ""] == "no"
    stars = answers(generated("henon-heiles"))
    assert stars["symplectic", ""] == stars["volume", ""] == "yes"


def test_volume_without_the_symplectic_form():
    rng = np.random.default_rng(0)
    states = [rng.normal(size=(80, 4))]
    A = np.diag([1.1, 1 / 1.1, 1.0, 1.0]) @ np.roll(np.eye(4), 2, 0)
    for _ in range(6):
        states.append(states[-1] @ A.T)
    states = np.stack(states, 1) + 1e-3 * rng.normal(size=(80, 7, 4))
    tests = found(states, canonical=True)
    assert tests["volume", ""].answer == "yes"
    assert tests["symplectic", ""].answer == "no"


def test_translations_and_angles():
    rng = np.random.default_rng(0)
    z = np.stack([rng.uniform(-4, 4, 400), rng.uniform(-1, 1, 400)], 1)
    free = np.stack([z, z + [0.3, 0] + 0.2 * z[:, 1:] * [1, 0]], 1)
    tests = found(free + 1e-3 * rng.normal(size=free.shape))
    assert tests["translation", "z1"].answer == "yes"
    assert tests["translation", "z2"].answer == "no"
    turned = np.stack([z, kicked(z)], 1)
    turned[..., 0] %= 2 * np.pi
    tests = found(turned + 1e-4 * rng.normal(size=turned.shape), periods={0: 2 * np.pi})
    assert tests["volume", ""].answer == "yes"
    assert tests["translation", "z1"].answer == "no"


def test_gradients_of_polynomials_are_those_of_differences():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(20, 2))
    basis = Polynomials(states, 3, {1: 2.0})
    for k, gradient in enumerate(np.moveaxis(basis.gradients(states), 1, 0)):
        shift = 1e-6 * np.eye(2)[k]
        expected = (basis.values(states + shift) - basis.values(states - shift)) / 2e-6
        np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_left_out_residuals_are_those_of_fits_without_the_group():
    rng = np.random.default_rng(0)
    states, moved, groups = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)), np.arange(40) % 5
    fit = fit_groups(states, moved, groups, 2, {}, 0.0)
    others, values = groups != 3, fit.basis.values(states)
    own = np.linalg.lstsq(values[others], moved[others], rcond=None)[0]
    np.testing.assert_allclose(fit.left_out[~others], (moved - values @ own)[~others], atol=1e-9)


def test_mistakes_are_told(generated):
    with pytest.raises(vp.InputError, match="even in number"):
        vp.data.inspect_structure(generated("rigid-body"), canonical=True)
