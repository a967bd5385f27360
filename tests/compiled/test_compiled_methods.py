"""Classical methods as machine code: the numbers of NumPy, to rounding."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.systems import BLOW_UP, DOMAIN, FUNCTIONS, initial, system
from vpintegrator.compiled import CompiledMethod, integrate, machine_code, obstacle, step_source
from vpintegrator.compiled import method as compiled_method
from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.method import Machine
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ClassicalMap

SYSTEMS = {
    "explicit-euler": ["rigid-body"],
    "explicit-midpoint": ["swept"],
    "heun": ["forced-self-dependent"],
    "rk4": ["kepler", "forced", "tokamak"],
    "stoermer-verlet": ["henon-heiles", "forced"],
    "coordinate-splitting": ["charged-particle"],
    "strang-splitting": ["coupled-oscillators", "particle-in-a-wave"],
    "yoshida-8": ["pendulum"],
    "blanes-moan-6": ["rigid-body"],
    "boris": ["charged-particle", "particle-in-space", "particle-in-a-wave"],
    "implicit-midpoint": ["rigid-body", "swept"],
    "gauss-legendre-4": ["forced", "self-dependent"],
    "gauss-legendre-6": ["kepler", "forced-self-dependent"],
}
CASES = [(name, which) for name, systems in SYSTEMS.items() for which in systems]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_the_numbers_of_numpy(name, which):
    s, z = system(which), initial(which, 37)
    for step in (0.02, -0.1):
        expected = integrate(s, name, z, step, 30)
        found = integrate(s, name, z, step, 30, compiled=True)
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_all_functions_and_powers():
    z = 0.5 * np.random.default_rng(0).normal(size=(20, 2))
    found, expected = (
        integrate(load_system(FUNCTIONS), "rk4", z, 0.1, 5, compiled=c) for c in (True, False)
    )
    assert np.allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("which", ["toda", "lennard-jones-chain"])
def test_long_formulas_are_divided(which, monkeypatch):
    s = load_system(which, n=40)
    z = s.sample_initial(21, np.random.default_rng(0))
    monkeypatch.setattr(step_source, "_SHORT", 100)
    for name in ("rk4", "stoermer-verlet", "gauss-legendre-4"):
        found = integrate(s, name, z, 0.01, 10, compiled=True)
        assert np.allclose(found, integrate(s, name, z, 0.01, 10), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "which", "step"),
    [
        ("stoermer-verlet", "forced", 0.02),
        ("gauss-legendre-4", "forced", 0.02),
        ("implicit-midpoint", "pendulum", 2.5),  # some stages have no solution
    ],
)
def test_each_by_itself_whatever_the_batch_and_the_parts(name, which, step, monkeypatch):
    z = initial(which, 83)
    compiled = CompiledMethod(METHODS[name], system(which), z, step)

    def states(first, chunk=230):
        return np.concatenate([*compiled.advance(first[:, None], 230, chunk=chunk)], axis=1)

    whole = states(z)
    assert (np.isfinite(whole).all(axis=(1, 2)).sum() < 80) == (step == 2.5)
    np.testing.assert_array_equal(states(z[12:14]), whole[12:14])
    np.testing.assert_array_equal(states(z[::-1]), whole[::-1])
    np.testing.assert_array_equal(states(z, 39), whole)
    monkeypatch.setattr(compiled_method, "usable_threads", lambda: 3)
    monkeypatch.setattr(compiled_method, "_THREAD", 1)
    np.testing.assert_array_equal(states(z), whole)


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


STIFF = """
state = ["x", "y", "z"]
divergence_free = false
[vector_field]
x = "-1e4*(x - cos(y))"
y = "z"
z = "-sin(y) - z*x/10"
"""
# a harmonic oscillator of an electron in SI units beside its phase
TINY = """
state = ["x", "p", "a"]
divergence_free = false
[parameters]
m = 9.1e-31
k = 0.37
[vector_field]
x = "p/m"
p = "-k*x*(1 + (x/1e-10)**2)"
a = "x*1e26 - a**3"
"""


@pytest.mark.parametrize("name", ["implicit-midpoint", "gauss-legendre-4", "gauss-legendre-6"])
@given(step=st.floats(0.001, 1.2), seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_stages_are_those_of_numpy_at_any_step(name, step, seed):
    random = np.random.default_rng(seed)
    for text, scale, unit in ((STIFF, (1, 1, 1), 1.0), (TINY, (1e-10, 1e-25, 1.0), 1e-15)):
        z = random.uniform(-1, 1, size=(11, 3)) * scale
        machine = compiled_once(name, text, scale, unit).at_step(step * unit)
        maps = machine, machine.original
        found, expected = (next(map.advance(z[:, None], 2)) / scale for map in maps)
        both = np.isfinite(expected).all(axis=(1, 2)) & np.isfinite(found).all(axis=(1, 2))
        assert both.sum() >= 10 or step > 0.5
        assert np.allclose(found[both], expected[both], rtol=1e-11, atol=1e-11)


@cache
def compiled_once(name, text, scale, unit):
    z = np.array([[0.3, 0.2, 0.1]]) * scale
    return CompiledMethod(METHODS[name], load_system(text), z, 0.01 * unit)


def test_obstacles():
    pendulum = system("pendulum")
    assert obstacle(METHODS["boris"], system("charged-particle")) == ""
    radau = ClassicalMap(METHODS["radau"], pendulum, 0.1)
    assert machine_code(radau, np.ones((1, 2)), True) is radau
    own = vp.System.from_function(lambda z: np.array([z[1], -np.interp(z[0], [0, 1], [0, 1])]), 2)
    assert "formulas" in obstacle(METHODS["rk4"], own)
    large = load_system("toda", n=100)
    assert "400 unknowns" in obstacle(METHODS["gauss-legendre-4"], large)
    with pytest.raises(NotCompilable, match="more than 256"):
        CompiledMethod(METHODS["gauss-legendre-4"], large, np.ones((1, 200)), 0.1)


def test_where_it_cannot_be_compiled(monkeypatch):
    s, z = system("pendulum"), initial("pendulum")
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.warns(UserWarning, match="heun runs in NumPy, not compiled: the compiler"):
        assert not isinstance(machine_code(ClassicalMap(METHODS["heun"], s, 0.1), z), Machine)
    with pytest.raises(InputError, match="heun cannot be compiled: the compiler /nowhere"):
        integrate(s, "heun", z, 0.1, 2, compiled=True)


def test_other_numbers_than_those_of_numpy_are_refused(monkeypatch):
    write = step_source.write_step_source

    def wrong(method, system):
        source = write(method, system)
        return replace(source, coefficients=lambda step: source.coefficients(step * (1 + 1e-8)))

    monkeypatch.setattr(compiled_method, "write_step_source", wrong)
    with pytest.raises(NotCompilable, match="other numbers than NumPy"):
        CompiledMethod(METHODS["rk4"], system("rigid-body"), initial("rigid-body"), 0.1)
