"""Other coordinates of a system: read, checked, and the same system as before."""

import pickle

import numpy as np
import pytest
import torch

from vpintegrator import InputError, list_systems, load_system

DUFFING = """
state = ["q", "p"]
hamiltonian = "p**2/2 + c*q**4/4"
parameters = { c = 2.0 }
[chart]
state = { x = 2 }
{FIELD}
[chart.map]
x = ["q/c", "c*p + q**2"]
[chart.inverse]
q = "c*x[0]"
p = "(x[1] - (c*x[0])**2)/c"
"""
POLAR = """
state = ["x", "y"]
vector_field = { x = "-y - y**3", y = "x" }
[chart]
state = ["r", "phi"]
map = { r = "(x**2 + y**2)/2", phi = "atan2(y, x)" }
inverse = { x = "sqrt(2*r)*cos(phi)", y = "sqrt(2*r)*sin(phi)" }
periodic = { phi = "2*pi" }
"""
WITH_CHARTS = [name for name in list_systems() if load_system(name).chart]


def duffing(field=""):
    return DUFFING.replace("{FIELD}", field)


@pytest.mark.parametrize("name", WITH_CHARTS)
def test_charts_of_the_catalogue_say_the_same(name):
    system = load_system(name)
    chart = system.chart
    z = system.sample_initial(20, np.random.default_rng(0))
    Z = chart(z)
    np.testing.assert_allclose(chart.inverse(Z), z, rtol=1e-13, atol=1e-13)
    # the rate of change of Z along solutions, by complex steps
    h = 1e-30
    rates = np.imag(chart(z + 1j * h * system.vector_field(z))) / h
    np.testing.assert_allclose(chart.system.vector_field(Z), rates, rtol=1e-11, atol=1e-11)
    assert chart.system.divergence_free
    density = np.linalg.slogdet(
        np.stack([np.imag(chart(z + 1j * h * e)) / h for e in np.eye(system.dim)], -1)
    )[1]
    np.testing.assert_allclose(chart.log_density(z), density, atol=1e-12)
    assert chart.keeps_volume == (np.ptp(density) < 1e-9)
    tensors = torch.from_numpy(z)
    np.testing.assert_allclose(chart(tensors).numpy(), Z, rtol=1e-14, atol=1e-14)
    again = pickle.loads(pickle.dumps(chart.system))
    assert np.array_equal(again.vector_field(Z), chart.system.vector_field(Z))


def test_what_is_not_given_is_derived():
    derived = load_system(duffing()).chart.system
    field = '[chart.vector_field]\nx = ["(x[1] - (c*x[0])**2)/c**2", {}]'
    rate = '"-c**2*(c*x[0])**3 + 2*x[0]*(x[1] - (c*x[0])**2)"'
    given_ = load_system(duffing(field.format(rate))).chart.system
    Z = np.random.default_rng(0).normal(size=(5, 2))
    chart = load_system(duffing(), c=0.3).chart
    np.testing.assert_allclose(chart(chart.inverse(Z)), Z, atol=1e-12)
    np.testing.assert_allclose(derived.vector_field(Z), given_.vector_field(Z), rtol=1e-13)
    assert not derived.is_hamiltonian and derived.divergence_free
    with pytest.raises(InputError, match=r"unknown name 'p'"):
        load_system(duffing(field.format('"p"')))


def test_angles_of_a_chart():
    chart = load_system(POLAR).chart
    assert chart.jumps and chart.keeps_volume and chart.system.periods == {1: 2 * np.pi}
    assert chart.texts[1] == "atan2(z[1], z[0])"
    turned = chart.inverse(chart(np.array([-1.0, 1e-9])) + np.array([0, 2 * np.pi]))
    np.testing.assert_allclose(turned, [-1, 1e-9], atol=1e-14)


def test_cyclic_and_conserved_components():
    there = load_system("charged-particle").chart.system
    assert (there.cyclic, there.conserved) == ([1], [3])
    assert load_system("pendulum").cyclic == load_system("pendulum").conserved == []
    assert load_system('measured = true\nstate = ["u"]').cyclic == []


def test_measured_systems_have_charts_too():
    text = 'measured = true\nstate = ["u"]\n[chart]\nstate = ["U"]\n'
    maps = '[chart.map]\nU = "log(u)"\n[chart.inverse]\nu = "exp(U)"\n'
    system = load_system(text + maps)
    assert system.chart.system.is_measured and not system.chart.keeps_volume
    with pytest.raises(InputError, match="is measured, so it has no equations here"):
        load_system(text + 'hamiltonian = "U"\n' + maps)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (duffing().replace('q = "c*x[0]"', ""), "no expression for q"),
        (
            duffing().replace('q = "c*x[0]"', 'q = "x[0]"'),
            r"\[chart.inverse\]: this gives another state than \[chart.map\] was given, by 0\.",
        ),
        (POLAR.replace('"2*pi"', '"3*pi"'), "after a turn of an angle this gives another state"),
        (
            POLAR + '[[chart.reversing_symmetry]]\nr = "-r"',
            r"\[chart\], \[\[reversing_symmetry\]\] 1: this does not reverse the system",
        ),
    ],
)
def test_charts_that_are_none(text, message):
    with pytest.raises(InputError, match=message):
        load_system(text)
