"""Systems with parameters left open: as the system has it, for every value of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.dynamics.solve import ScaledFlow
from vpintegrator.overview import system_summaries

POWER = """
state = ["q", "p"]
hamiltonian = "p**2/2 + k*(1 + q**2)**a + sin(b*q)*cos(c)"
parameters = { k = 1.0, a = 1.5, b = "2*k", c = 0.3 }
"""
CASES = {
    "rigid-body": ("rigid-body", ["I1", "I2", "I3"]),
    "pendulum": ("pendulum", ["l", "g"]),
    "power": (POWER, ["c", "a", "k"]),
}
NUMBERS = st.floats(0.3, 3.0)
FLOWS = [each["name"] for each in system_summaries() if "map" not in each["kind"]]


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_is_the_system_with_these_parameters(case, data):
    source, names = CASES[case]
    values = {name: data.draw(NUMBERS, name) for name in names}
    system = vp.load_system(source, **values)
    varied = vp.load_system(source).with_open(names)
    states = np.random.default_rng(0).normal(size=(7, system.dim))
    parameters = np.array(list(values.values()))
    expected = system.vector_field(states)
    np.testing.assert_allclose(varied.vector_field(states, parameters), expected, rtol=1e-13)
    several = np.tile(parameters, (len(states), 1))
    steps = np.linspace(0.1, 0.7, 7)
    flow = ScaledFlow(varied, steps, several)
    scaled = flow.vector_field_by_component(np.ascontiguousarray(states.T))
    np.testing.assert_allclose(scaled.T, steps[:, None] * expected, rtol=1e-13)
    assert varied.invariants.keys() == system.invariants.keys()
    for name, invariant in system.invariants.items():
        found = varied.invariants[name](states, parameters)
        np.testing.assert_allclose(found, invariant(states), rtol=1e-13)
    found = varied.jacobian_by_component(np.ascontiguousarray(states.T), [*several.T])
    np.testing.assert_allclose(
        np.moveaxis(found, -1, 0), system.jacobian(states), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("name", FLOWS)
def test_every_system_of_the_catalogue_can_vary(name):
    system = vp.load_system(name)
    lengths = [key for key in system.parameters if key == "n" and system.equations.arrays]
    single = [key for key, value in system.parameters.items() if not isinstance(value, list)]
    names = [key for key in single if key not in lengths]
    varied = system.with_open(names)
    states = np.abs(np.random.default_rng(0).normal(size=(3, system.dim)))
    parameters = np.array([system.parameters[key] for key in names], float)
    expected = system.vector_field(states)
    found = varied.vector_field(states, parameters)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    for length in lengths:
        with pytest.raises(vp.InputError, match=f"parameter {length} of {name} cannot vary"):
            system.with_open([length])


def test_values_of_open_parameters_are_needed():
    pendulum, standard = vp.load_system("pendulum"), vp.load_system("standard-map")
    with pytest.raises(vp.InputError, match="left open"):
        vp.solve(pendulum.with_open(["l"]), np.array([[1.0, 0.0]]), np.array([0.0, 1.0]))
    with pytest.raises(vp.InputError, match="left open"):
        standard.with_open(["K"]).map([0.0, 1.0])
    for names in ("l", ["l", "l"], ["lengths"]):
        with pytest.raises(vp.InputError):
            pendulum.with_open(names)
