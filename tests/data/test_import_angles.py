"""Angles of a source: jumps over their period, fast turns, and angles that nobody declared."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.data.test_importing import all_states, notes

PERIODS = {"2*pi": 2 * np.pi, "360": 360.0, "1": 1.0}


def angle_system(text="2*pi"):
    entry = f'periodic = {{ q = "{text}" }}\n' if text else ""
    return vp.load_system(f'measured = true\nstate = ["q", "w"]\n{entry}')


def turning(count=6, times=80, step=0.17):
    """Return angles in turns, (run, time), that rotate and swing."""
    t = step * np.arange(times)
    return np.stack([0.1 * k + (0.2 + 0.1 * k) * t + 0.1 * np.sin(t + k) for k in range(count)])


def imported(folder, angle, system, **options):
    states = np.stack([angle, np.gradient(angle, axis=1)], axis=-1)
    options = {"step": 0.17, "split": "trajectory", "axes": "trajectory"} | options
    return vp.import_dataset(states, folder / "a.h5", system=system, overwrite=True, **options)


def turns_between(found, true, period):
    """Return the difference in periods, without those of the start, (run, time)."""
    difference = (found[..., 0] - true) / period
    return difference - np.round(difference[:, :1])


@pytest.mark.parametrize("text", PERIODS)
@pytest.mark.parametrize("low", [0.0, -0.5, -0.2])
def test_one_doubtful_sample_leaves_no_jump_behind(text, low, tmp_path):
    period, true = PERIODS[text], turning()
    true[2, 40] += 0.33  # an outlier, by more than a quarter of a turn
    seen = (true - low) % 1 + low
    dataset = imported(tmp_path, period * seen, angle_system(text))
    difference = turns_between(all_states(dataset), period * true, period)
    np.testing.assert_allclose(difference, np.round(difference), atol=1e-9)
    # the outlier alone may be a turn away
    assert np.round(difference).any() == bool(np.round(difference[2, 40]))
    assert "continued over it: q" in notes(dataset)
    assert "q moves by more than a quarter of its period at 2 steps (first to time 40 of traj" in (
        notes(dataset)
    )


@pytest.mark.parametrize("speed", [0.26, 0.4, 0.49, -0.3])
def test_each_step_goes_by_the_nearer_side(speed, tmp_path):
    true = np.stack([speed * np.arange(30) + 0.1 * k for k in range(6)])
    dataset = imported(tmp_path, 360 * (true % 1), angle_system("360"))
    difference = turns_between(all_states(dataset), 360 * true, 360)
    np.testing.assert_allclose(difference, 0, atol=1e-9)
    assert "q moves by more than a quarter of its period at 174 steps" in notes(dataset)


def test_angles_are_continued_over_missing_states_and_noise(tmp_path):
    generator, true = np.random.default_rng(0), turning()
    seen = true % 1
    seen[:, 20:23] = np.nan
    seen[3, 60:] = np.nan
    dataset = imported(tmp_path, seen, angle_system("1"))
    difference = turns_between(all_states(dataset), true, 1)
    np.testing.assert_allclose(np.nan_to_num(difference), 0, atol=1e-9)
    noisy = turning() % 1 + 0.02 * generator.normal(size=true.shape)  # some beyond the period
    dataset = imported(tmp_path, noisy, angle_system("1"))
    assert np.abs(turns_between(all_states(dataset), true, 1)).max() < 0.2


def test_an_angle_that_is_continuous_is_left_as_it_is(tmp_path):
    fast = np.stack([0.7 * np.arange(30) + 0.1 * k for k in range(6)])
    for true in (turning(), fast):
        dataset = imported(tmp_path, true, angle_system("1"))
        np.testing.assert_array_equal(all_states(dataset)[..., 0], true)
        assert "jump" not in notes(dataset)
    broken = turning()
    broken[1, 30:] += 1
    broken[1, 50:] -= 1
    dataset = imported(tmp_path, broken, angle_system("1"))
    np.testing.assert_array_equal(all_states(dataset)[..., 0], broken)
    assert "q jumps by its period at 2 steps (first to time 30 of trajectory 1)" in notes(dataset)


@pytest.mark.parametrize("text", [*PERIODS, "pi", "180"])
@pytest.mark.parametrize("declared", [False, True])
def test_a_component_that_jumps_by_a_usual_period_is_noted(text, declared, tmp_path):
    period = {"pi": np.pi, "180": 180.0}.get(text) or PERIODS[text]
    seen = period * (turning() % 1)
    system = angle_system("") if declared else None
    found = notes(imported(tmp_path, seen, system))
    name = "q" if declared else "z1"
    assert f"{name} jumps by nearly {text} at" in found
    assert f"{name} = '{text}' below [periodic]" in found
    assert "below [periodic]" not in notes(imported(tmp_path, seen, angle_system(text)))


def test_other_components_are_not_taken_for_angles(tmp_path):
    t = 0.17 * np.arange(80)
    for values in (
        np.pi * np.cos(t + np.arange(6.0)[:, None]),
        np.pi * np.sign(np.cos(t + np.arange(6.0)[:, None])),
        np.random.default_rng(0).uniform(-np.pi, np.pi, (6, 80)),
        turning(),
        np.zeros((6, 80)),
    ):
        assert "[periodic]" not in notes(imported(tmp_path, values, None))


def test_a_fit_of_arrays_warns_of_what_the_import_noted():
    kinds = [vp.training.search("polynomial", {"degree": 1})]
    with pytest.warns(UserWarning, match=r"z1 jumps by nearly 360 .* below \[periodic\]"):
        vp.fit([run[:, None] for run in 360 * (turning() % 1)], kinds, step=0.17)
