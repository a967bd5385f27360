"""Systems with explicit time: its period, and what files may say of them."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError

OSCILLATOR = """
state = ["q", "p"]
time = "t"
period = "2*pi/w"
hamiltonian = "p**2/2 + q**2/2 - a*q*cos(w*t)"
parameters = { a = 0.3, w = 2 }
reversing_symmetry = [{ p = "-p" }]
[invariants]
amplitude = "(q - a*cos(w*t)/(1 - w**2))**2 + (p + a*w*sin(w*t)/(1 - w**2))**2"
[initial_conditions]
distribution = "uniform"
low = -1
high = 1
"""
RAMP = """
state = ["q", "p"]
time = "t"
hamiltonian = "p**2/(2*(1 + r*t)**2) - (1 + r*t)*cos(q)"
periodic = { q = "2*pi" }
parameters = { r = 0.1 }
[initial_conditions]
distribution = "points"
points = [[1, 0], [0.5, 0.25]]
"""
FORCED = 'state = ["x"]\ntime = "t"\n[vector_field]\nx = "sin(t)"\n'
ROW = """
state = { q = "n", p = "n" }
time = "s"
hamiltonian = "sum(p[i]**2/2 + q[i]**4/4 for i in range(n)) - q[0]*sin(s)"
parameters = { n = 3 }
"""


def test_the_clock_is_the_last_component():
    system = vp.load_system(OSCILLATOR)
    assert system.components == ("q", "p", "t")
    assert (system.time, system.explicit_time, system.phase_dim, system.dim) == ("t", 2, 2, 3)
    assert system.period == system.periods[2] == pytest.approx(np.pi)
    assert system.is_hamiltonian and vp.load_system("pendulum").time is None
    assert list(system.invariants) == ["amplitude"]  # the energy is none
    np.testing.assert_array_equal(np.diag(system.reversing_symmetries[0]), [1, -1, -1])
    z = np.array([0.5, 0.2, 0.7])
    rates = [0.2, -0.5 + 0.3 * np.cos(1.4), 1.0]
    np.testing.assert_allclose(system.vector_field(z), rates, rtol=1e-15)
    assert system.hamiltonian(z) == pytest.approx(0.02 + 0.125 - 0.15 * np.cos(1.4))


def test_arrays():
    system = vp.load_system(ROW)
    assert system.components == ("q[0]", "q[1]", "q[2]", "p[0]", "p[1]", "p[2]", "s")
    z = np.arange(7) / 10
    expected = [*z[3:6], *(-(z[:3] ** 3) + [np.sin(0.6), 0, 0]), 1]
    np.testing.assert_allclose(system.vector_field(z), expected, rtol=1e-14)


def test_solutions_have_their_exact_times():
    system, times = vp.load_system(RAMP), np.linspace(0, 5, 11)
    for start in (0.0, 2.0):
        found = vp.solve(system, np.array([[1.0, 0.2, start]]), times)[0]
        np.testing.assert_array_equal(found[:, 2], start + times)


def test_chart_keeps_the_time():
    chart = vp.load_system(f"""{OSCILLATOR}
[chart]
state = ["u", "v"]
map = {{ u = "2*q", v = "p/2" }}
inverse = {{ q = "u/2", p = "2*v" }}
""").chart
    assert chart.components == ("u", "v", "t") and chart.system.explicit_time == 2
    z = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(chart(z), [0.2, 0.1, 0.3])
    np.testing.assert_allclose(chart.inverse(chart(z)), z)


@pytest.mark.parametrize(
    ("text", "before", "after", "message"),
    [
        (OSCILLATOR, 'time = "t"', "", "'period' goes with time"),
        (OSCILLATOR, 'time = "t"', 'time = "q"', "the name 'q' is used twice"),
        (OSCILLATOR, "2*pi/w", "-pi", "a period is a positive number, not -3.14"),
        (OSCILLATOR, 'amplitude = "', 'energy = "p**2/2 + q**2/2 - a*q*cos(w*t) + 0*', "energy: "),
        (FORCED, "[vector_field]", "[vector_field]\nt = 1", "t: this is the time, whose rate is 1"),
        (OSCILLATOR, "low = -1", "low = [-1, -1, 0]", "low: expected 2 numbers"),
    ],
)
def test_what_is_refused(text, before, after, message):
    assert before in text
    with pytest.raises(InputError, match=message):
        vp.load_system(text.replace(before, after, 1))


def draw(text, count=2000, seed=0):
    system = vp.load_system(text)
    return system.sample_initial(count, np.random.default_rng(seed))


def test_initial_times():
    t = draw(OSCILLATOR)[:, 2]
    assert 0 <= t.min() < 0.01 and np.pi - 0.01 < t.max() <= np.pi  # over a period
    np.testing.assert_array_equal(draw(RAMP, 2)[:, 2], 0)
    for time, low, high in (("2", 2, 2), ('["-pi", 1]', -np.pi, 1)):
        for text in (OSCILLATOR, RAMP):
            head, tail = text.split("[initial_conditions]")
            z = draw(f"{head}[initial_conditions]\nt = {time}{tail}", 2)
            assert z.shape[1] == 3 and (low <= z[:, 2]).all() and (z[:, 2] <= high).all()


@pytest.mark.parametrize(
    "table",
    [
        '"normal", std = [1, 2]',
        '"energy-shell", energy = [0.1, 0.2], low = -1, high = 1, invariant = "amplitude"',
        '"curves", parameter = "a", start = 0, stop = 10, step = 0.1, curves = [["cos(a)", "a"]]',
        '"formula", random = { u = [0, 1] }, state = { q = "u", p = "-u" }',
    ],
)
def test_every_distribution_has_times(table):
    text = OSCILLATOR.split("[initial_conditions]")[0]
    z = draw(f"initial_conditions = {{ distribution = {table} }}{text}", 50)
    assert z.shape == (50, 3) and np.ptp(z[:, 2]) > 2
    assert (z[:, 2] >= 0).all() and (z[:, 2] <= np.pi).all()
    if "energy-shell" in table:
        value = vp.load_system(OSCILLATOR).invariants["amplitude"](z)
        assert (value >= 0.1).all() and (value <= 0.2).all()
