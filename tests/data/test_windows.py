"""Windows against an obvious loop, and pairs of them to draw from."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from vpintegrator.data import generate, windows
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_against_a_loop(trajectories, window, data):
    shift = data.draw(st.integers(1, window))
    length = window + shift + data.draw(st.integers(0, 3))
    states = np.random.default_rng(0).normal(size=(trajectories, length, 2))
    inputs, targets = windows(states, window, shift)
    expected = [
        (path[t : t + window], path[t + shift : t + shift + window])
        for path in states
        for t in range(length - window - shift + 1)
    ]
    np.testing.assert_array_equal(inputs, [pair[0] for pair in expected])
    np.testing.assert_array_equal(targets, [pair[1] for pair in expected])


def test_mistakes():
    with pytest.raises(InputError, match="need trajectories of 6 states, but these have 5"):
        windows(np.zeros((1, 5, 2)), 3)
    with pytest.raises(InputError, match="prediction_window = 4 must lie between 1 and window"):
        windows(np.zeros((1, 9, 2)), 3, 4)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return generate("rigid-body", tmp_path_factory.mktemp("data") / "a.h5", count=60, steps=12)


@given(st.integers(1, 3), st.integers(1, 2), st.data())
def test_pairs_are_the_windows_of_the_states(dataset, window, horizon, data):
    shift = data.draw(st.integers(1, window))
    pairs = dataset.windows(window, shift, horizon)
    expected = windows(dataset.states("train"), window, shift, horizon)
    k = data.draw(st.integers(-len(pairs), len(pairs) - 1))
    for found, one, array in zip(pairs[:], pairs[k], expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), array)
        np.testing.assert_array_equal(one.numpy(), array[k])


def test_pairs_end_where_states_are_missing():
    states = np.random.default_rng(0).normal(size=(7, 20, 2))
    states[np.arange(20) >= np.arange(6, 20, 2)[:, None]] = np.nan
    pairs = Pairs.of_states(states, 3, 2)
    for found, array in zip(pairs[:], windows(states, 3, 2), strict=True):
        np.testing.assert_array_equal(found.numpy(), array)
    with pytest.raises(InputError, match="b, train: no 4 consecutive states are all observed"):
        Pairs.of_states(np.full((2, 9, 1), np.nan), 2, where="b, train")


def rows(inputs, targets):
    """Sorted, one pair a row."""
    both = torch.cat([part.flatten(1) for part in (inputs, targets)], 1).numpy()
    return both[np.lexsort(both.T)]


def test_batches_hold_every_pair_once(dataset):
    pairs, generator = dataset.windows(2), torch.Generator().manual_seed(0)
    expected = rows(*pairs[:])
    batches = list(pairs.batches(64, generator))
    assert [len(each.inputs) for each in batches[:-1]] == [64] * (len(batches) - 1)
    found = [torch.cat(part) for part in zip(*(each[:2] for each in batches), strict=True)]
    np.testing.assert_array_equal(rows(*found), expected)
    assert not torch.equal(found[0], pairs[:][0])
    loaded = [torch.cat(part) for part in zip(*DataLoader(pairs, batch_size=50), strict=True)]
    assert torch.equal(loaded[0], pairs[:][0])


def test_states_are_read_in_part(dataset):
    whole = dataset.states("train")
    np.testing.assert_array_equal(
        dataset.states("train", slice(3, 9), slice(2, 5)), whole[3:9, 2:5]
    )
    np.testing.assert_array_equal(dataset.states("train", 3), whole[3])
    np.testing.assert_array_equal(dataset.states("train", np.array([1, 4]), 0), whole[[1, 4], 0])
    with pytest.raises(InputError, match="no group 'tests'; it has train, validation, test"):
        dataset.windows(2, group="tests")
