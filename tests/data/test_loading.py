"""Windows straight from a file: the same as those of arrays, in every process."""

import pickle
from unittest import mock

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from vpintegrator.data import generate, import_dataset, loading, open_dataset, windows
from vpintegrator.data.pairs import HeldPairs
from vpintegrator.errors import InputError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.h5"
    return generate("rigid-body", path, count=60, steps=12)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.h5"
    states = generate("rigid-body", path, count=60, steps=40).states("train")
    lengths = np.random.default_rng(0).integers(4, 42, len(states))
    states[np.arange(41) >= lengths[:, None]] = np.nan
    return import_dataset(states, path, step=0.2, overwrite=True)


@given(st.integers(1, 3), st.integers(1, 2), st.data())
def test_the_same_windows_as_those_of_the_array(dataset, window, horizon, data):
    shift = data.draw(st.integers(1, window))
    pairs = dataset.windows(window, shift, horizon)
    expected = windows(dataset.states("train"), window, shift, horizon)
    for found, array in zip(pairs[np.arange(len(pairs))], expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), array)
    k = data.draw(st.integers(-len(pairs), len(pairs) - 1))
    for found, array in zip(pairs[k], expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), array[k])


def test_windows_end_where_shorter_runs_do(gaps):
    pairs = gaps.windows(3, 2)
    inputs, targets = windows(gaps.states("train"), 3, 2)
    found = pairs[np.arange(len(pairs))]
    np.testing.assert_array_equal(found[0].numpy(), inputs)
    np.testing.assert_array_equal(found[1].numpy(), targets)
    complete = gaps.shapes["train"][0] * (gaps.shapes["train"][1] - 4)
    assert 0.3 * complete < len(pairs) < 0.8 * complete


def as_rows(inputs, targets):
    """Sorted, one pair a row."""
    rows = np.concatenate([np.asarray(a).reshape(len(a), -1) for a in (inputs, targets)], axis=1)
    return rows[np.lexsort(rows.T)]


@given(st.integers(2, 9), st.integers(1, 4))
def test_blocks_of_any_shape(rows, columns):
    """Chunks that cut windows in time, and files without chunks."""
    states = np.random.default_rng(0).normal(size=(7, 30, 2))
    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        chunked = file.create_dataset("a", data=states, chunks=(min(rows, 7), 3 * columns, 2))
        plain = file.create_dataset("b", data=states)
        pairs = _bare(states)
        for state in (chunked, plain):
            pairs._states = lambda state=state: state
            order = np.random.default_rng(1).permutation(len(pairs))
            found = pairs[order]
            expected = windows(states, 4)
            np.testing.assert_array_equal(found[0].numpy(), expected[0][order])
            np.testing.assert_array_equal(found[1].numpy(), expected[1][order])
            with mock.patch.multiple(loading, _BLOCK_BYTES=16, _BUFFER_BYTES=400):
                parts = list(pairs.buffers(torch.Generator().manual_seed(0)))
            assert len(parts) >= 7
            inputs, targets = (torch.cat(part) for part in zip(*(p[:] for p in parts), strict=True))
            np.testing.assert_array_equal(as_rows(inputs, targets), as_rows(*expected))


def _bare(states):
    """A WindowDataset of states that are in no file."""
    from pathlib import Path
    from types import SimpleNamespace

    from vpintegrator.data.loading import WindowDataset

    like = SimpleNamespace(path=Path("none"), shapes={"train": states.shape}, is_complete=True)
    return WindowDataset(like, 4)


def test_samples_are_seeded_and_different(dataset):
    first = dataset.sample_windows(50, 2, seed=3)
    again = dataset.sample_windows(50, 2, seed=3)
    other = dataset.sample_windows(50, 2, seed=4)
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
    assert len(np.unique(first[0].numpy().reshape(50, -1), axis=0)) == 50
    known = {w.tobytes() for w in windows(dataset.states("train"), 2)[0]}
    assert all(w.numpy().tobytes() in known for w in first[0])
    generator = np.random.default_rng(5)
    one, two = (dataset.sample_windows(9, 2, seed=generator)[0] for _ in range(2))
    assert not torch.equal(one, two)
    # more than there are: some come twice
    assert len(dataset.sample_windows(3000, 2, group="test")[0]) == 3000
    inputs, targets = dataset.sample_windows(7, 4, 1, 3, device="cpu", dtype=torch.float32)
    assert (inputs.shape, targets.shape) == ((7, 4, 3), (7, 6, 3))
    assert inputs.dtype == torch.float32


def test_states_are_read_in_part(dataset):
    whole = dataset.states("train")
    np.testing.assert_array_equal(
        dataset.states("train", slice(3, 9), slice(2, 5)), whole[3:9, 2:5]
    )
    np.testing.assert_array_equal(dataset.states("train", 3), whole[3])
    np.testing.assert_array_equal(dataset.states("train", np.array([1, 4]), 0), whole[[1, 4], 0])


@pytest.mark.thorough
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_give_what_one_process_gives(dataset, context):
    """The file is open here before the workers start, who must not use this handle."""
    pairs = dataset.windows(3)
    _ = pairs[0]
    assert pickle.loads(pickle.dumps(pairs))[5][0].equal(pairs[5][0])
    here = list(dataset.loader(3, batch=40, seed=2))
    there = list(dataset.loader(3, batch=40, seed=2, workers=2, multiprocessing_context=context))
    assert len(here) == -(-len(pairs) // 40)
    for a, b in zip(here, there, strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[1], b[1])


def test_the_loader_shows_every_window_once(dataset):
    loader = dataset.loader(2, batch=64)
    first, second = (torch.cat([inputs for inputs, _ in loader]) for _ in range(2))
    expected = windows(dataset.states("train"), 2)[0]
    for epoch in (first, second):
        np.testing.assert_array_equal(
            np.sort(epoch.numpy().reshape(len(epoch), -1), axis=0),
            np.sort(expected.reshape(len(expected), -1), axis=0),
        )
    assert not torch.equal(first, second)  # another order
    plain = torch.cat([inputs for inputs, _ in dataset.loader(2, shuffle=False)])
    np.testing.assert_array_equal(plain.numpy(), expected)


@pytest.mark.parametrize("kilobytes", [1, 2, 8, 1000])
@pytest.mark.parametrize("file", ["dataset", "gaps"])
def test_buffers_hold_every_window_once(request, monkeypatch, file, kilobytes):
    """Some trajectories, one, or all at once."""
    monkeypatch.setattr(loading, "_BLOCK_BYTES", 128 * kilobytes)
    monkeypatch.setattr(loading, "_BUFFER_BYTES", 1024 * kilobytes)
    data = request.getfixturevalue(file)
    pairs = data.windows(3, 1, 2)
    expected = windows(data.states("train"), 3, 1, 2)
    generator = torch.Generator().manual_seed(0)
    buffers = list(pairs.buffers(generator))
    assert (len(buffers) == 1) == (kilobytes == 1000)
    for size in (7, 1000):
        found = list(pairs.batches(size, generator))
        assert [len(inputs) for inputs, _ in found[:-1]] == [size] * (len(found) - 1)
        inputs, targets = (torch.cat(part).numpy() for part in zip(*found, strict=True))
        np.testing.assert_array_equal(as_rows(inputs, targets), as_rows(*expected))
        assert not np.array_equal(inputs, expected[0])
    loader = data.loader(3, 1, 2, shuffle=False, batch=50)
    found = list(loader)
    assert len(loader) == len(found)
    np.testing.assert_array_equal(torch.cat([inputs for inputs, _ in found]), expected[0])


def test_a_random_subset(dataset, monkeypatch):
    """By a permutation of all, or of a great many without."""
    from vpintegrator.data import pairs as module

    pairs = dataset.windows(2)
    known = {w.tobytes() for w in windows(dataset.states("train"), 2)[0]}
    for largest in (10**6, 0):
        monkeypatch.setattr(module, "LARGEST_PERMUTATION", largest)
        inputs, _ = pairs.sample(60, torch.Generator().manual_seed(1))
        drawn = {w.numpy().tobytes() for w in inputs}
        assert len(drawn) == 60
        assert drawn <= known
        assert len(pairs.sample(10**6, torch.Generator())[0]) == len(pairs)


def test_pairs_of_tensors():
    inputs, targets = torch.randn(9, 2, 3), torch.randn(9, 1, 3)
    pairs = HeldPairs.of_tensors(inputs, targets)
    for found, expected in zip(pairs[torch.tensor([4, 0])], (inputs, targets), strict=True):
        assert torch.equal(found, expected[[4, 0]])


def test_a_batch_goes_through_a_function_of_ones_own(dataset):
    plain = list(dataset.loader(2, batch=30, seed=1))
    differences = list(
        dataset.loader(2, batch=30, seed=1, collate_fn=lambda pair: pair[1] - pair[0])
    )
    assert len(plain) == len(differences)
    for (inputs, targets), difference in zip(plain, differences, strict=True):
        assert torch.equal(difference, targets - inputs)


def test_a_data_loader_of_ones_own(dataset):
    loader = DataLoader(dataset.windows(2), batch_size=32)
    inputs = torch.cat([inputs for inputs, _ in loader])
    np.testing.assert_array_equal(inputs.numpy(), windows(dataset.states("train"), 2)[0])


def test_reading_is_bounded_by_a_block(tmp_path, monkeypatch):
    """Of a large file no more than a block is asked for at a time."""
    states = np.zeros((3000, 60, 4))
    dataset = import_dataset(states, tmp_path / "a.h5", step=1.0)
    sizes = []
    read = h5py.Dataset.__getitem__

    def counted(self, key, **options):
        result = read(self, key, **options)
        sizes.append(getattr(result, "nbytes", 0))
        return result

    monkeypatch.setattr(h5py.Dataset, "__getitem__", counted)
    open_dataset(dataset.path).sample_windows(500, 3)
    assert 0 < max(sizes) <= 1.1 * 2**20


def test_mistakes(dataset):
    with pytest.raises(InputError, match="no group 'tests'; it has train, validation, test"):
        dataset.windows(2, group="tests")
    with pytest.raises(InputError, match="need trajectories of 14 states, but these have 13"):
        dataset.windows(7)
    with pytest.raises(InputError, match="prediction_window = 3 must lie between"):
        dataset.windows(2, 3)
    with pytest.raises(InputError, match="count = 0"):
        dataset.sample_windows(0, 2)
    with pytest.raises(InputError, match="batch = 0"):
        dataset.loader(2, batch=0)
    with pytest.raises(InputError, match="workers = -1"):
        dataset.loader(2, workers=-1)
    with pytest.raises(InputError, match="dtype = 'float65'"):
        dataset.windows(2, dtype="float65")
    with pytest.raises(IndexError):
        dataset.windows(2)[10**6]
