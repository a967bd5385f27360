"""Poincare sections against closed forms and the events of solve_ivp."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.systems import system
from tests.rollout.test_compare import same
from vpintegrator.rollout.diagnostics.poincare import SectionObserver, poincare_section


def oscillations(step, count):
    """(cos t, -sin t) and the same shifted by a third of a period."""
    times = step * np.arange(count) + np.array([[0.0], [2 * np.pi / 3]])
    return np.stack([np.cos(times), -np.sin(times)], axis=-1)


@pytest.mark.parametrize(("step", "tolerance"), [(0.05, 1e-12), (0.1, 1e-12), (0.2, 5e-11)])
@pytest.mark.parametrize("direction", [-1, 0, 1])
def test_harmonic_oscillator(step, tolerance, direction):
    section = poincare_section(oscillations(step, 800), step, 0, 0.5, direction)
    # cos t = 1/2 downwards at pi/3, upwards at 5 pi/3
    wanted, points, numbers = [], [], []
    for number, shift in enumerate([0.0, 2 * np.pi / 3]):
        turns = 2 * np.pi * np.arange(-1, 800 * step / 6)
        times = np.concatenate(
            [sign * np.pi / 3 + turns for sign in (1, -1) if direction * sign <= 0]
        )
        times = np.sort(times - shift)
        times = times[(times > 1e-9) & (times < 799 * step)]
        wanted.append(times)
        points.append(np.stack([0 * times + 0.5, -np.sin(times + shift)], axis=1))
        numbers.append(np.full(len(times), number))
    assert np.array_equal(section.trajectory, np.concatenate(numbers))
    # the ends of a trajectory are less accurate
    assert np.allclose(section.time, np.concatenate(wanted), rtol=0, atol=50 * tolerance)
    inner = (section.time > 5 * step) & (section.time < 794 * step)
    assert np.abs(section.time - np.concatenate(wanted))[inner].max() < tolerance
    assert np.abs(section.points - np.concatenate(points))[inner].max() < tolerance
    assert (section.points[:, 0] == 0.5).all()


@pytest.mark.parametrize("step", [0.05, 0.2, 0.5])
def test_a_function_of_the_state_refined_to_rounding(step):
    # cos t - sin t = sqrt(2) cos(t + pi/4) falls through 1/2
    s = vp.load_system("harmonic-oscillator", k=1.0)
    states = oscillations(step, 300)[:1]
    section = poincare_section(states, step, lambda z: z[..., 0] + z[..., 1], 0.5, -1, system=s)
    turns = 2 * np.pi * np.arange(1 + 300 * step / (2 * np.pi))
    wanted = np.arccos(0.5 / np.sqrt(2)) - np.pi / 4 + turns
    wanted = wanted[wanted < 299 * step]
    np.testing.assert_allclose(section.time, wanted, rtol=0, atol=2e-13 if step < 0.5 else 1e-10)
    expected = np.stack([np.cos(wanted), -np.sin(wanted)], axis=1)
    np.testing.assert_allclose(
        section.points, expected, rtol=0, atol=2e-13 if step < 0.5 else 1e-10
    )


@pytest.mark.parametrize(
    ("surface", "message"),
    [
        (7, "there is no component 7 of 2"),
        (lambda z: z, r"map states \(\.\.\., dim\) to \(\.\.\.\)"),
    ],
)
def test_surfaces_that_are_none(surface, message):
    with pytest.raises(vp.InputError, match=message):
        poincare_section(oscillations(0.1, 50), 0.1, surface)


@given(st.lists(st.integers(1, 40), min_size=1), st.booleans())
def test_parts_give_the_same_section(parts, diverge):
    states = oscillations(0.3, 120)
    if diverge:
        states[1, 77:] = np.nan
    whole = poincare_section(states, 0.3, 1, 0.2, 0)
    observer, done, turn = SectionObserver(1, 0.2, 0, 0.3), 0, 0
    while done < 120:
        part = slice(done, done + parts[turn % len(parts)])
        observer.observe(done, states[:, part])
        done, turn = min(part.stop, 120), turn + 1
    section = observer.section
    assert same(section, whole)
    if diverge:  # nothing is lost of what came before the divergence
        full = poincare_section(oscillations(0.3, 120), 0.3, 1, 0.2, 0)
        assert len(whole.time) == ((full.trajectory == 0) | (full.time < 0.3 * 76)).sum()


def test_states_on_the_plane_and_no_crossings():
    # a start on the plane is no crossing; a state that falls on it is one, once
    heights = np.array([0, 1, 2, 1, 0, -1, -2, -1, 0, 1, 2, 3, 4, 5, 6.0])
    states = np.stack([heights, np.arange(15.0)], axis=-1)[None]
    down = poincare_section(states, 1.0, 0, 0.0, -1)
    up = poincare_section(states, 1.0, 0, 0.0, 1)
    assert np.allclose(down.time, [4], atol=1e-10)
    assert np.allclose(up.time, [8], atol=1e-10)
    assert np.allclose(up.points, [[0, 8]], atol=1e-10)
    none = poincare_section(states, 1.0, 0, 10.0, 0)
    assert none.points.shape == (0, 2)
    assert none.time.shape == none.trajectory.shape == (0,)


@pytest.mark.parametrize("way", ["up", "down"])
def test_sections_of_angles_are_those_of_the_return_map(way):
    pendula, sign = system("double-pendulum"), 1 if way == "up" else -1
    state = sign * np.array([[0.0, 0.3, 9.0, 3.0]])
    energy = float(pendula.invariants["energy"](state[0]))
    returns = vp.return_map(pendula, "q[0] = 0", direction=way, energy=energy)
    images = vp.solve(returns, state[:, [1, 3]], np.arange(6))[0]
    report = vp.compare(
        None,
        "gauss-legendre-6",
        system=pendula,
        initial=state,
        section=("q[0]", 0.0, sign),
        time=14,
        step=0.02,
    )
    found = report.runs["gauss-legendre-6"].section
    assert len(found.time) > 5
    assert np.abs(report.reference[0, -1, 0]) > 10  # it has turned over
    difference = found.points[:5][:, [1, 3]] - images[1:]
    difference[:, 0] -= 2 * np.pi * np.round(difference[:, 0] / (2 * np.pi))
    assert np.abs(difference).max() < 1e-5


def test_an_angle_put_back_into_its_period_does_not_cross_there():
    times = 0.1 * np.arange(300)
    angle = 1.1 * times
    wrapped = angle - 2 * np.pi * np.round(angle / (2 * np.pi))
    counts = [
        len(poincare_section(np.stack([each, angle], -1)[None], 0.1, 0, 1.0, way, 2 * np.pi).time)
        for each in (angle, wrapped)
        for way in (1, -1)
    ]
    assert counts == [6, 0, 6, 0]


@pytest.mark.parametrize("turns", [0.3, 0.51, 0.77, 0.999, 1.0, 1.6, 2.35])
@pytest.mark.parametrize("way", [1, -1])
def test_angles_that_turn_fast_cross_at_each_turn(turns, way):
    """A free rotor: crossings are at known times, and another component is linear in time."""
    steps, period = 40, 2.5
    times = 0.5 * np.arange(steps + 1)
    angle = 0.3 + way * turns * period * times / 0.5
    states = np.stack([times**2, angle], axis=-1)[None]
    fast = turns >= 0.5
    told = pytest.warns(UserWarning, match="turns by up to") if fast else nullcontext()
    with told:
        section = poincare_section(states, 0.5, 1, 1.0, way, period)
    planes = 1.0 + way * period * np.arange(-1, 3 * steps)
    expected = (planes - 0.3) / (way * turns * period) * 0.5
    expected = expected[(expected > 0) & (expected <= times[-1])]
    np.testing.assert_allclose(section.time, expected, atol=1e-10)
    np.testing.assert_allclose(section.points[:, 0], expected**2, atol=1e-8)


def test_parts_of_fast_angles_give_the_same_section():
    times = 0.1 * np.arange(60)
    angle = np.stack([31.0 * times + np.sin(times), 40 * np.sin(times)])
    wrapped = np.mod(5.0 * times, 2 * np.pi)[None]
    states = np.concatenate([angle, wrapped])[..., None]
    observers = [SectionObserver(0, 0.5, 0, 0.1, 2 * np.pi) for _ in range(2)]
    observers[0].observe(0, states)
    for first in range(0, 60, 4):
        observers[1].observe(first, states[:, first : first + 4])
    whole, parts = (each.section for each in observers)
    for key in ("points", "trajectory", "time"):
        np.testing.assert_array_equal(getattr(whole, key), getattr(parts, key))
    assert len(whole.time) > 40


@pytest.mark.parametrize("speed", [0.7, 1.9, -1.3])
@pytest.mark.parametrize("value", [0.0, 3.0, 2 * np.pi])
@pytest.mark.parametrize("by_function", [False, True])
def test_angles_put_back_into_a_period_cross_also_at_its_ends(speed, value, by_function):
    times = 0.2 * np.arange(400)
    angle = 0.1 + speed * times + 0.2 * np.sin(times)
    wrapped = np.mod(angle, 2 * np.pi)
    options = value, int(np.sign(speed)), 2 * np.pi
    states = np.stack([wrapped, np.cos(angle), np.sin(angle)], axis=-1)[None]
    exact = poincare_section(states[..., 1:] * 0 + angle[None, :, None], 0.2, 0, *options)
    surface = 0
    if by_function:
        states = states[..., 1:]

        def surface(z):
            return np.mod(np.arctan2(z[..., 1], z[..., 0]), 2 * np.pi)

    section = poincare_section(states, 0.2, surface, *options)
    assert len(section.time) == len(exact.time) > 5
    np.testing.assert_allclose(section.time, exact.time, atol=1e-6)


def test_a_turn_by_the_nearer_side_is_told():
    wrapped = np.mod(0.4 * np.arange(50), 1.0)
    with pytest.warns(UserWarning, match="nearer side"):
        section = poincare_section(wrapped[None, :, None], 1.0, 0, 0.5, 1, 1.0)
    assert len(section.time) == 20


def test_sections_of_a_fast_rotor_in_a_comparison():
    rotor = vp.load_system(
        'state = ["q", "p"]\nhamiltonian = "p**2/2 - 0.01*cos(q)"\nperiodic = {q = "2*pi"}'
    )
    with pytest.warns(UserWarning, match="turns by up to"):
        report = vp.compare(
            None,
            "gauss-legendre-6",
            system=rotor,
            initial=np.array([[0.0, 9.6]]),
            step=0.5,
            steps=200,
            section="q = 1",
        )
    found = report.runs["gauss-legendre-6"].section
    last = report.reference[0, -1, 0]
    assert len(found.time) == np.floor((last - 1) / (2 * np.pi)) + 1
    assert len(found.time) > 150
    # time of a turn, by the integral of 1/p at the energy
    q = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    energy = 9.6**2 / 2 - 0.01
    period = 2 * np.pi * np.mean(1 / np.sqrt(2 * (energy + 0.01 * np.cos(q))))
    np.testing.assert_allclose(np.diff(found.time).mean(), period, rtol=1e-5)
