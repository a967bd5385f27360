"""Noise, missing times, stretches and splits: what they do, and that they can be repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpintegrator.data import Observation, Split, generate, load_recipe, open_dataset
from vpintegrator.errors import InputError

EXACT = {"count": 40, "steps": 30}


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    path = tmp_path_factory.mktemp("exact") / "a.h5"
    return generate("pendulum", path, **EXACT)


def test_noise_has_the_level_recorded(exact, tmp_path):
    noisy = generate("pendulum", tmp_path / "a.h5", **EXACT, observation={"noise": [0.1, 0.02]})
    np.testing.assert_array_equal(noisy.noise, [0.1, 0.02])
    difference = noisy.states("train") - exact.states("train")
    np.testing.assert_allclose(difference.std(axis=(0, 1)), [0.1, 0.02], rtol=0.1)
    assert abs(difference.mean()) < 0.01
    # what is tested is compared with the truth
    np.testing.assert_array_equal(noisy.states("test"), exact.states("test"))
    assert "noise = [0.1, 0.02]" in noisy.recipe
    # the accuracy is that of the integration
    assert noisy.accuracy["invariant_drift"]["energy"] < 1e-11


def test_relative_noise_is_a_part_of_the_spread(exact, tmp_path):
    options = {"relative_noise": 0.01, "groups": ["train", "test"]}
    noisy = generate("pendulum", tmp_path / "a.h5", **EXACT, observation=options)
    every = np.concatenate([exact.states(group) for group in exact.shapes])
    np.testing.assert_allclose(noisy.noise, 0.01 * every.std(axis=(0, 1)), rtol=1e-6)
    assert (noisy.states("test") != exact.states("test")).all()
    np.testing.assert_array_equal(noisy.states("validation"), exact.states("validation"))


def test_missing_times_are_nan(exact, tmp_path):
    seen = generate("pendulum", tmp_path / "a.h5", **EXACT, observation={"missing": 0.2})
    assert exact.is_complete
    assert not seen.is_complete
    states = seen.states("train")
    gone = np.isnan(states).any(axis=-1)
    np.testing.assert_array_equal(gone.sum(axis=1), round(0.2 * 31))
    np.testing.assert_array_equal(states[~gone], exact.states("train")[~gone])
    assert len({tuple(row) for row in gone}) > 20  # not the same times in every trajectory
    assert np.isfinite(seen.states("test")).all()


def test_stretches_are_consecutive(exact, tmp_path):
    seen = generate("pendulum", tmp_path / "a.h5", **EXACT, observation={"stretch": [5, 12]})
    known = np.isfinite(seen.states("train")).all(axis=-1)
    lengths = known.sum(axis=1)
    assert lengths.min() >= 6
    assert lengths.max() <= 13
    assert len(set(lengths)) > 3
    assert (np.abs(np.diff(known, axis=1)).sum(axis=1) <= 2).all()


@given(st.integers(0, 6), st.integers(1, 3))
def test_observing_in_parts_changes_nothing(first, step):
    """Each trajectory has its own random numbers, however the work is shared out."""
    states = np.random.default_rng(1).normal(size=(8, 12, 2))
    observation = Observation(noise=0.1, missing=0.3, stretch=(4, 9))
    deviation = observation.standard_deviation(2)
    whole = observation.observe(states, 0, 5, deviation)
    part = slice(first, first + step)
    np.testing.assert_array_equal(
        observation.observe(states[part], first, 5, deviation), whole[part]
    )
    assert not np.array_equal(observation.observe(states, 0, 6, deviation), whole)


def test_the_recipe_repeats_it(tmp_path):
    options = {"observation": {"noise": 0.1, "missing": 0.1}, "split": {"by": "time"}}
    first = generate("pendulum", tmp_path / "a.h5", count=6, steps=20, **options)
    again = generate(first.recipe, tmp_path / "b.h5")
    assert again.fingerprint == first.fingerprint
    assert again.recipe == first.recipe


def test_split_by_time(tmp_path):
    split = Split("time", (0.5, 0.25, 0.25))
    cut = generate("pendulum", tmp_path / "a.h5", count=4, steps=39, split=split)
    whole = generate("pendulum", tmp_path / "b.h5", count=4, steps=39)
    assert {name: shape[:2] for name, shape in cut.shapes.items()} == {
        "train": (4, 20),
        "validation": (4, 10),
        "test": (4, 10),
    }
    joined = np.concatenate([cut.states(group) for group in cut.shapes], axis=1)
    parts = [whole.states(group) for group in whole.shapes]
    np.testing.assert_array_equal(joined, np.concatenate(parts))
    times = np.concatenate([cut.times(group) for group in cut.shapes])
    np.testing.assert_allclose(times, 0.2 * np.arange(40))
    assert "cut in time: 20 train, 10 validation, 10 test" in open_dataset(cut.path).description


def test_fractions_of_trajectories():
    recipe = load_recipe(
        "pendulum", count=200, split={"train": 0.5, "validation": 0.1, "test": 0.4}
    )
    assert recipe.trajectories == {"train": 100, "validation": 20, "test": 80}


def test_entries_of_a_table_are_replaced_one_by_one():
    text = 'system = "pendulum"\n[observation]\nrelative_noise = 0.1\nmissing = 0.2\n'
    recipe = load_recipe(text, observation={"noise": 0.5})
    assert recipe.observation == Observation(noise=0.5, missing=0.2)
    assert load_recipe(recipe.text).observation == recipe.observation


@given(st.integers(6, 1000), st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_counts_add_up(total, weights):
    fractions = tuple(w / sum(weights) for w in weights)
    counts = Split("trajectory", fractions).counts(total)
    assert sum(counts) == total
    assert min(counts) >= 1
    for count, fraction in zip(counts[1:], fractions[1:], strict=True):
        assert abs(count - fraction * total) <= 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[observation]\nnoise = -1", "noise: expected a standard deviation"),
        ("[observation]\nnoise = [0.1, 0.1, 0.1]", "3 standard deviations are given for 2"),
        ("[observation]\nnoise = 'a'", "noise: expected a standard deviation"),
        ("[observation]\nnoise = 1\nrelative_noise = 1", "noise or relative_noise, not both"),
        ("[observation]\nmissing = 1.0", "below 1, found 1.0"),
        ("[observation]\nstretch = [9, 3]", "least and the largest number of steps"),
        ("[observation]\nstretch = 9", "stretch: expected a list"),
        ("[observation]\ngroups = ['tran']", "unknown group 'tran'.*'train'"),
        ("[observation]\nnose = 1", "unknown key 'nose'.*'noise'"),
        ("[split]\nby = 'tim'", "split by 'tim'.*'time'"),
        ("[split]\nby = 'time'\ntrain = 0.5", "add up to 1"),
        ("[split]\nby = 'time'\ntrain = 'a'", "add up to 1"),
        ("[split]\nby = 'trajectory'\ntrain = 1.0", r"numbers .* are given in \[trajectories\]"),
        ("[split]\nby = 'time'\n[observation]\nstretch = [2, 3]", "may miss a group"),
        ("[split]\nwhy = 1", "unknown key 'why'"),
        ("split = 1", "'split' must be a table"),
    ],
)
def test_mistakes(lines, message):
    with pytest.raises(InputError, match=message):
        load_recipe(f'system = "pendulum"\nsteps = 20\n{lines}\n')


def test_too_few_to_share_out():
    with pytest.raises(InputError, match="4 times are too few"):
        load_recipe("pendulum", steps=3, split={"by": "time"})
