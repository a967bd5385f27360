"""Errors and drift of invariants against values known in closed form."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.systems import system
from vpintegrator.dynamics import load_system
from vpintegrator.rollout import integrate
from vpintegrator.rollout.diagnostics import invariant_errors


def test_invariants_relative_and_absolute():
    s = load_system(
        'state = ["x", "y"]\n[vector_field]\nx = "y"\ny = "-x"\n'
        '[invariants]\nenergy = "x**2 + y**2"\nshifted = "x**2 + y**2 - 1"'
    )
    states = np.array([[[1.0, 0.0], [2.0, 0.0]], [[3.0, 0.0], [0.0, 1.0]]])
    errors = invariant_errors(s, states)
    assert np.allclose(errors["energy"].error, [[0, 3 / 9], [0, -8 / 9]])
    assert errors["energy"].kind == "relative"
    assert np.isnan(errors["energy"].drift.slope).all()
    # the first trajectory starts where the shifted one vanishes
    assert np.allclose(errors["shifted"].error, [[0, 3 / 8], [0, -1]])
    assert errors["shifted"].kind == "relative"
    assert np.allclose(errors["shifted"].largest, [3 / 8, 1])
    assert invariant_errors(s, states[:1])["shifted"].kind == "absolute"


def test_a_momentum_that_is_zero_has_an_absolute_scale():
    """What is left of a sum that cancels is rounding, in all orbits alike."""
    s = system("toda")
    states = s.sample_initial(6, np.random.default_rng(0))
    states[:, 8:] -= states[:, 8:].mean(axis=1, keepdims=True)
    assert 0 < np.abs(s.invariants["momentum"](states)).max() < 1e-14
    error = invariant_errors(s, integrate(s, "stoermer-verlet", states, 0.1, 50))
    assert error["momentum"].kind == "absolute"
    assert error["momentum"].largest.max() < 1e-13
    assert error["energy"].kind == "relative"
    report = vp.compare(None, "rk4", system=s, step=0.1, steps=20, initial=states)
    assert report.summary("rk4").invariants["momentum"] < 1e-13
    assert report.table()[0]["momentum error kind"] == "absolute"
    assert report.diverged("rk4") == 0


@pytest.mark.parametrize("step", [0.1, 0.5, 1.1])
def test_modified_energy_of_stoermer_verlet_on_the_oscillator(step):
    # q^2 (1 - h^2/4) + p^2 is constant, so from (1, 0) the energy loses up to h^2/4 of itself,
    # where q = 0, and no more; it comes back every half period, so it does not drift
    s, times = system("harmonic-oscillator"), step * np.arange(20001)
    states = integrate(s, "stoermer-verlet", [[1.0, 0.0]], step, 20000)
    modified = states[..., 0] ** 2 * (1 - step**2 / 4) + states[..., 1] ** 2
    assert np.abs(modified - modified[0, 0]).max() < 1e-13
    error = invariant_errors(s, states, times)["energy"]
    assert error.error.max() < 1e-13
    assert error.largest[0] == pytest.approx(step**2 / 4, rel=3e-2)
    drift = error.drift
    assert np.abs(drift.slope[0]) < 3 * drift.standard_error[0]
    assert drift.standard_error[0] < step**2 / times[-1]


@pytest.mark.parametrize(
    ("name", "factor"),
    [("explicit-euler", lambda h: 1 + h**2), ("rk4", lambda h: 1 - h**6 / 72 + h**8 / 576)],
)
def test_drift_of_methods_known_to_drift(name, factor):
    # |R(ih)|^2 a step
    step, steps = (1e-4, 1000) if name == "explicit-euler" else (0.05, 2000)
    times = step * np.arange(steps + 1)
    initial = [[1.0, 0.0], [0.6, -0.8]]
    s = system("harmonic-oscillator")
    error = invariant_errors(s, integrate(s, name, initial, step, steps), times)["energy"]
    growth = factor(step) ** np.arange(steps + 1) - 1
    assert np.allclose(error.error, growth, rtol=1e-6, atol=1e-15)
    rate = np.log(factor(step)) / step
    assert np.allclose(error.drift.slope, rate, rtol=1e-4)
    assert (np.abs(error.drift.slope) > 100 * error.drift.standard_error).all()
