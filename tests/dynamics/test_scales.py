"""Equal relative results for any size of each component: data, references, solvers, sections."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.dynamics.solve import component_sizes, solve_varied

# x moves, y moves, w is constant, and zero in some tests, u begins at zero
FIELD = """
title = "Components of different sizes"
state = ["x", "y", "w", "u"]
parameters = {{ a = {}, b = {}, c = {}, d = {} }}
defaults = {{ step = 2.0, steps = 20 }}
[vector_field]
x = "a*y/b"
y = "-b*(x/a + (x/a)**3)"
w = "0"
u = "d*(w/c - x*y/(a*b))"
[initial_conditions]
distribution = "uniform"
low = ["-a", "-b", "{}*c", "0"]
high = ["a", "b", "{}*c", "0"]
"""
FORCED = """
title = "Forced Duffing oscillator of size a"
state = ["q", "p"]
hamiltonian = "p**2/2 + q**2/2 + q**4/(4*a**2) - 0.3*a*q*cos(t)"
time = "t"
period = "2*pi"
initial_conditions = { distribution = "uniform", low = "-a", high = "a" }
[parameters]
"""
TIMES = 2.0 * np.arange(5)
UNIT = np.random.default_rng(0).uniform(-1, 1, (3, 4)) * [1, 1, 1, 0]
SIZES = st.lists(st.floats(-30, 30).map(lambda k: 10.0**k), min_size=4, max_size=4)
EXTREME = [1e-30, 1e30, 1e-12, 1e6]


def field(sizes, constant=1.0):
    return vp.System(FIELD.format(*sizes, constant, constant), "sizes")


@given(SIZES)
@example(EXTREME)
@settings(max_examples=5)
def test_solutions_are_those_of_unit_size(sizes):
    ones = np.ones(4)

    def states(solver, *options):
        """Return states over their sizes, of systems of these sizes and of unit sizes."""
        pairs = ((field(each), UNIT * each, each) for each in (np.array(sizes), ones))
        return [solver(system, start, *options) / each for system, start, each in pairs]

    for method in ("DOP853", "RK45"):
        found, unit = states(lambda s, z, name: vp.solve(s, z, TIMES, name, 1e-11, 1e-11), method)
        assert np.abs(found - unit).max() < 1e-10
    for method in ("rk45", "dop853"):
        found, unit = states(lambda s, z, name: vp.integrate(s, name, z, 2.0, 4), method)
        assert np.abs(found - unit).max() < 1e-10
    # their choice of orders turns with the rounding, so that they agree to their tolerance
    exact = vp.solve(field(ones), UNIT, TIMES)
    for method in ("radau", "lsoda"):
        found, unit = states(lambda s, z, name: vp.integrate(s, name, z, 2.0, 4), method)
        assert np.abs(found - exact).max() < 10 * np.abs(unit - exact).max() < 1e-2
    one, other = (vp.rollout.solve_reference(field(s), UNIT * s, TIMES) for s in (sizes, ones))
    assert np.abs(one.states / sizes - other.states).max() < 1e-10
    assert one.error == pytest.approx(other.error, rel=0.2, abs=1e-13)


@given(SIZES)
@example(EXTREME)
@settings(max_examples=4)
def test_varied_steps_and_parameters(sizes):
    steps, lengths = np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])

    def states(a, b, c, d):
        varied = field((1, b, c, d)).with_open(["a"])
        start = UNIT[:3] * np.stack([a * lengths, *np.outer([b, c, d], np.ones(3))], axis=1)
        parameters = (a * lengths)[:, None]
        found = solve_varied(varied, start, steps, parameters, np.arange(5))
        return found / (a, b, c, d)

    assert np.abs(states(*sizes) - states(1.0, 1.0, 1.0, 1.0)).max() < 1e-10


@given(st.floats(-30, 30))
@settings(max_examples=5)
def test_returns_to_a_section(exponent):
    def images(a):
        returns = vp.return_map(vp.System(f"{FORCED}a = {a!r}", "forced"), "t = 0")
        return vp.solve(returns, UNIT[:, :2] * a, np.arange(3)) / a

    assert np.abs(images(10.0**exponent) - images(1.0)).max() < 1e-10


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_components_that_stay_zero_or_constant(constant):
    start = UNIT * [1e-10, 1e5, constant, 0]
    system = field([1e-10, 1e5, 1.0, 1.0], constant)
    sizes = component_sizes(system, start, 20.0)
    assert sizes[2] == max(np.abs(start[:, 2]).max(), constant == 0)
    states = vp.solve(system, start, TIMES)
    assert (states[..., 2] == start[:, None, 2]).all()
    assert np.isfinite(states).all()
    at_rest = vp.solve(system, np.zeros((1, 4)), TIMES)
    assert (at_rest == 0).all()
    report = vp.compare(None, ["dop853"], system=system, initial=start, step=0.1, steps=20)
    assert report.reference_error.max() < 1e-11
    assert report.summary("dop853").error < 1e-6 * 1e5


def test_a_start_from_rest():
    """All is zero at first, and the sizes are those that the force gives."""
    pushed = vp.System(
        'time = "t"\nstate = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2 - 1e-9*q*sin(2*t)"\n'
    )
    exact = 1e-9 * (2 * np.sin(TIMES) - np.sin(2 * TIMES)) / 3
    states = vp.solve(pushed, np.zeros((1, 3)), TIMES)
    assert np.abs(states[0, :, 0] - exact).max() < 1e-20


def test_a_component_of_rounding_errors_keeps_no_solver_from_its_steps():
    """The difference of two equal oscillators is zero but for the rounding of its terms."""
    system = vp.System(
        'state = ["x", "y", "e"]\n[vector_field]\nx = "y"\ny = "-x"\n'
        'e = "(x + 0.1)**3 - x**3 - 0.3*x**2 - 0.03*x - 0.001"\n'
    )
    states = vp.solve(system, np.array([[1.0, 0.0, 0.0]]), TIMES)
    assert np.abs(states[0, :, 0] - np.cos(TIMES)).max() < 1e-10
