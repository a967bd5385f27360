"""Explicit and splitting methods as machine code: what they do in NumPy, to rounding."""

import numpy as np
import pytest

from tests.rollout.systems import BLOW_UP, DOMAIN, FUNCTIONS, initial, system
from vpintegrator.compiled import CompiledMethod, compile_method, integrate, step_source
from vpintegrator.compiled import method as compiled_method
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS
from vpintegrator.native import NotCompilable

CASES = [
    ("explicit-euler", "rigid-body"),
    ("explicit-midpoint", "swept"),
    ("heun", "forced-self-dependent"),
    ("rk4", "kepler"),
    ("rk4", "forced"),
    ("rk4", "tokamak"),
    ("stoermer-verlet", "henon-heiles"),
    ("stoermer-verlet", "forced"),
    ("coordinate-splitting", "charged-particle"),
    ("strang-splitting", "coupled-oscillators"),
    ("strang-splitting", "particle-in-a-wave"),
    ("yoshida-8", "pendulum"),
    ("blanes-moan-6", "rigid-body"),
]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_the_numbers_of_numpy(name, which):
    s, z = system(which), initial(which, 37)
    for step in (0.02, -0.1):
        expected = integrate(s, name, z, step, 30)
        found = integrate(s, name, z, step, 30, compiled=True)
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_all_functions_and_powers():
    s = load_system(FUNCTIONS)
    z = 0.5 * np.random.default_rng(0).normal(size=(20, 2))
    found = integrate(s, "rk4", z, 0.1, 5, compiled=True)
    assert np.allclose(found, integrate(s, "rk4", z, 0.1, 5), rtol=0, atol=1e-13)


@pytest.mark.thorough
def test_rounding_does_not_add_up():
    # what a sum of a million terms would lose without the carry is a hundred times more
    s = load_system("harmonic-oscillator")
    first = np.array([[1.0, 0.0]])
    one, other = (
        integrate(s, "stoermer-verlet", first, 0.01, 200_000, compiled=compiled)[0, -1]
        for compiled in (False, True)
    )
    assert np.allclose(one, other, rtol=0, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("which", ["toda", "lennard-jones-chain"])
def test_long_formulas_are_divided(which, monkeypatch):
    s = load_system(which, n=40)
    z = s.sample_initial(21, np.random.default_rng(0))
    monkeypatch.setattr(step_source, "_SHORT", 100)
    for name in ("rk4", "stoermer-verlet"):
        found = integrate(s, name, z, 0.01, 10, compiled=True)
        assert np.allclose(found, integrate(s, name, z, 0.01, 10), rtol=1e-13, atol=1e-13)


def test_each_by_itself_whatever_the_batch_and_the_parts(monkeypatch):
    s, z = system("forced"), initial("forced", 83)
    method = METHODS["stoermer-verlet"]
    compiled = CompiledMethod(method, s, z, 0.02)
    whole = compiled.start(z, 0.02).advance(230)
    assert np.array_equal(compiled.start(z[12:14], 0.02).advance(230), whole[12:14])
    assert np.array_equal(compiled.start(z[::-1], 0.02).advance(230), whole[::-1])
    cursor = compiled.start(z, 0.02)
    parts = [cursor.advance(k) for k in (1, 120, 39, 40, 0, 30)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    monkeypatch.setattr(compiled_method, "usable_threads", lambda: 3)
    monkeypatch.setattr(compiled_method, "_THREAD", 1)
    assert np.array_equal(compiled.start(z, 0.02).advance(230), whole)


def test_a_breakdown_is_nan_and_leaves_the_others_alone():
    for text, z, step in (
        (BLOW_UP, [[1.0, 1.0], [-1.0, 1.0], [0.1, 0.5], [2.0, 0.5]], 0.1),
        (DOMAIN, [[0.0, 0.55], [0.0, 100.0]], 0.1),
    ):
        s = load_system(text)
        found, expected = (integrate(s, "rk4", z, step, 40, compiled=c) for c in (True, False))
        assert np.isnan(found[0, -1]).all()
        assert np.allclose(found[1], expected[1], rtol=1e-13)
        assert np.array_equal(np.isnan(found), np.isnan(expected))


def test_where_it_cannot_be_compiled(monkeypatch):
    s, z = system("pendulum"), initial("pendulum")
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.warns(UserWarning, match="heun runs in NumPy, not compiled: the compiler"):
        assert compile_method(METHODS["heun"], s, z, 0.1) is None
    with pytest.raises(InputError, match="heun cannot be compiled: the compiler /nowhere"):
        integrate(s, "heun", z, 0.1, 2, compiled=True)


def test_other_numbers_than_those_of_numpy_are_refused(monkeypatch):
    write = step_source.write_step_source

    def wrong(method, system):
        source = write(method, system)
        source.weights[-1] *= 1 + 1e-8
        return source

    monkeypatch.setattr(compiled_method, "write_step_source", wrong)
    with pytest.raises(NotCompilable, match="other numbers than NumPy"):
        CompiledMethod(METHODS["rk4"], system("rigid-body"), initial("rigid-body"), 0.1)
