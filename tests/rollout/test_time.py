"""Equations that depend on time: classical methods on exact solutions, sections, comparisons."""

import math

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.systems import system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system
from vpintegrator.maps import METHODS, OneStepMethod
from vpintegrator.rollout import applicable_methods
from vpintegrator.rollout.diagnostics import poincare_section

OSCILLATOR = """
title = "Forced oscillator"
state = ["q", "p"]
time = "t"
period = "2*pi/w"
hamiltonian = "p**2/2 + q**2/2 - a*q*cos(w*t)"
[parameters]
a = 0.3
w = 1.7
"""
ONE_STEP = [name for name, method in METHODS.items() if isinstance(method, OneStepMethod)]


def forced_oscillation(start, times, a=0.3, w=1.7):
    """The exact solution from (q, p, t), by the particular one a cos(w t)/(1 - w^2)."""
    q, p, t = start
    amplitude = a / (1 - w**2)
    u = q - amplitude * math.cos(w * t)
    v = p + amplitude * w * math.sin(w * t)
    c, s = np.cos(times), np.sin(times)
    return np.stack(
        [
            u * c + v * s + amplitude * np.cos(w * (t + times)),
            v * c - u * s - amplitude * w * np.sin(w * (t + times)),
            t + times,
        ],
        axis=-1,
    )


def names_for(s):
    return [name for name in applicable_methods(s)[0] if name in ONE_STEP]


def test_every_method_that_takes_the_oscillator_without_forcing_takes_it_with():
    without = load_system('state = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2"')
    assert names_for(load_system(OSCILLATOR)) == names_for(without)
    assert set(names_for(system("forced"))) >= set(names_for(system("coupled-oscillators")))


@pytest.mark.parametrize("name", names_for(load_system(OSCILLATOR)))
def test_order_on_the_exact_solution(name):
    method, s = METHODS[name], load_system(OSCILLATOR)
    start, end = [0.4, -0.2, 0.9], 2.0
    coarse = max(32, 256 >> method.order) if method.order < 6 else 8
    fine = 2 * coarse if method.order < 8 else 3 * coarse // 2

    def error(steps):
        states = integrate(s, method, [start], end / steps, steps)[0]
        exact = forced_oscillation(start, np.linspace(0, end, steps + 1))
        assert np.abs(states[:, 2] - exact[:, 2]).max() < 1e-14
        return np.sqrt(np.mean((states[-1] - exact[-1]) ** 2))

    measured = math.log(error(coarse) / error(fine)) / math.log(fine / coarse)
    assert measured == pytest.approx(method.order, abs=0.15)


@pytest.mark.parametrize("name", names_for(load_system(OSCILLATOR)))
def test_late_is_as_accurate_as_early(name):
    """The same orbit a million periods later, where times have ten digits behind the point."""
    s = load_system(OSCILLATOR, w=2)
    start, later = np.array([[0.4, -0.2, 0.3]]), 1e6 * s.period
    early = integrate(s, name, start, 0.1, 500)
    late = integrate(s, name, start + np.array([0, 0, later]), 0.1, 500)
    # phases are known to the rounding of the times: 5e-10
    np.testing.assert_allclose(late[..., :2], early[..., :2], atol=1e-8)


@pytest.mark.parametrize(("start", "step"), [(0.0, 0.1), (0.7, 0.1), (-3.0, 0.23), (1e4, 0.1)])
def test_a_section_once_in_a_period(start, step):
    period = 2 * np.pi / 1.7
    times = step * np.arange(200)
    states = forced_oscillation([0.4, -0.2, start], times)[None]
    found = poincare_section(states, step, 2, 0.3, period=period)
    turns = np.arange(-10, 10_000)
    expected = 0.3 + turns * period - start
    expected = expected[(expected > 0) & (expected < times[-1])]
    np.testing.assert_allclose(found.time, expected, atol=1e-9)
    exact = forced_oscillation([0.4, -0.2, start], expected)
    np.testing.assert_allclose(found.points[:, :2], exact[:, :2], atol=1e-8)
    np.testing.assert_array_equal(found.points[:, 2], 0.3)


def test_a_comparison_knows_its_system(tmp_path):
    options = {"system": system("forced"), "step": 0.1, "steps": 150, "trajectories": 3}
    report = vp.compare(None, ["rk4", "strang-splitting"], **options)
    assert report.section_plane == ("t", 0.0, 1)
    for run in report.runs.values():
        turns = np.bincount(run.section.trajectory)  # in 15 of time
        assert set(turns) <= {2, 3} and len(turns) == 3
        assert run.invariants == {}
    assert report.summary("strang-splitting").volume_preserved["step"]
    spread = report.reference[..., :4].std()
    assert report.threshold < spread  # of what moves, not of the time
    path = tmp_path / "rollout.h5"
    report.save(path)
    again = vp.open_rollout(path)
    assert again.section_plane == report.section_plane
