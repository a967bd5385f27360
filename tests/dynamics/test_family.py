"""Systems of which step and parameters vary: the extended system is the system, for each value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.dynamics.family import Family
from vpintegrator.errors import InputError

SINE = """
state = ["q", "p"]
hamiltonian = "p**2/2 + cos(b*q)"
parameters = { b = 2.0 }
"""
MIXED = """
state = ["x", "y"]
parameters = { a = 1.5, b = 0.5 }
vector_field = { x = "(a + y)**2*b + 2", y = "a*(b - x)" }
"""
# system, conditions, step where it does not vary, how many components stand for the conditions
CASES = {
    "rigid-body": ("rigid-body", ["step", "I1", "I2", "I3"], None, 2),
    "rigid-body, step": ("rigid-body", ["step"], None, 1),
    "rigid-body, moment": ("rigid-body", ["I1"], 0.2, 1),
    "pendulum": ("pendulum", ["g", "step"], None, 2),
    "henon-heiles": ("henon-heiles", ["step"], None, 1),
    "abc-flow": ("abc-flow", ["step", "A", "B"], None, 3),
    "not linear": (SINE, ["step", "b"], None, 2),
    "too many": (MIXED, ["step", "a"], None, 2),
}
VALUES = st.floats(0.2, 3.0)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_moves_as_the_system_does_in_a_step(case, data):
    source, names, step, count = CASES[case]
    values = {name: data.draw(VALUES, name) for name in names}
    given_step = values.pop("step", step)
    family = Family(vp.load_system(source), names, step)
    system, extended = vp.load_system(source, **values), family.extended
    assert extended.dim == system.dim + count and len(family.coefficients) == count
    k = family.components([given_step if name == "step" else values[name] for name in names])
    z = np.random.default_rng(0).normal(size=(9, system.dim))
    found = extended.vector_field(np.concatenate([z, np.tile(k, (9, 1))], 1))
    np.testing.assert_allclose(
        found[:, : system.dim], given_step * system.vector_field(z), rtol=1e-12, atol=1e-14
    )
    assert not found[:, system.dim :].any()
    assert bool(family.vanishing) == ("step" in names)
    k[family.vanishing] = 0
    still = extended.vector_field(np.concatenate([z, np.tile(k, (9, 1))], 1))
    assert family.vanishing == [] or not still.any()


def test_a_step_that_turns_round_is_a_reversing_symmetry():
    family = Family(vp.load_system("rigid-body"), ["step", "I1"])
    *own, turned = family.extended.reversing_symmetries
    np.testing.assert_array_equal(turned, np.diag([1, 1, 1, -1, -1]))
    assert len(own) == 3 and all((rho[3:, 3:] == np.eye(2)).all() for rho in own)


def test_hamiltonian_systems_stay_so():
    extended = Family(vp.load_system("double-pendulum"), ["step", "m1"]).extended
    assert extended.is_hamiltonian and extended.components[-2:] == ("step", "m1")
    *z, step, m1 = np.random.default_rng(0).uniform(0.5, 1, extended.dim)
    expected = step * vp.load_system("double-pendulum", m1=m1).hamiltonian(np.array(z))
    assert extended.hamiltonian(np.array([*z, step, m1])) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("names", "step"), [(["step", "I9"], None), (["step"] * 2, None), ([], 0.1), (["I1"], None)]
)
def test_what_cannot_vary_is_said(names, step):
    with pytest.raises(InputError):
        Family(vp.load_system("rigid-body"), names, step)
