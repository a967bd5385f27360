"""What training reads of a dataset: the same from memory and from the file, part by part."""

import json
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from vpintegrator import models
from vpintegrator.data import Dataset, generate, import_dataset
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.training import Budget, find_functions, orbits, train, training_data
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def on_disk(monkeypatch):
    """Nothing fits into memory, and parts are small."""
    monkeypatch.setattr(training_data, "IN_MEMORY", 1 << 11)
    monkeypatch.setattr("vpintegrator.data.sampled._PART", 1 << 10)
    monkeypatch.setattr("vpintegrator.data.loading._BLOCK_BYTES", 1 << 9)
    monkeypatch.setattr("vpintegrator.data.loading._BUFFER_BYTES", 1 << 12)
    return monkeypatch


def test_statistics_part_by_part(body, on_disk):
    dataset, model = body, models.ResidualNetwork(dim=3, width=4)
    data = TrainingData(dataset)
    states = np.concatenate(data._sampled("train").parts)
    assert 0 < len(states) < dataset.shapes["train"][0] / 2
    data.normalise(model)
    data.describe(model)
    np.testing.assert_allclose(model.shift, np.nanmean(states, (0, 1)), rtol=1e-12, atol=1e-15)
    powers = 2.0 ** np.round(np.log2(np.nanstd(states, (0, 1))))
    np.testing.assert_array_equal(model.scale, powers)
    assert model.metadata["region"] == Domain.of_states(states, dataset.system).text


def test_a_part_of_the_file_in_which_all_runs_have_ended(tmp_path, on_disk):
    states = np.random.default_rng(0).normal(size=(80, 9, 2))
    states[:40, 4:] = np.nan
    on_disk.setattr(training_data, "IN_MEMORY", 1 << 12)
    data = TrainingData(import_dataset(states, tmp_path / "a.h5", step=1.0))
    moments = data._statistics[0]
    seen = np.concatenate(data._sampled("train").parts)
    np.testing.assert_allclose(moments.mean, np.nanmean(seen, (0, 1)), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation, np.nanstd(seen, (0, 1)), rtol=1e-12)


@pytest.mark.parametrize("shape", [(400, 12, 3), (3, 4000, 3)])
def test_pairs_are_drawn_from_parts_until_most_are_wanted(tmp_path, on_disk, shape):
    states = np.arange(np.prod(shape), dtype=float).reshape(shape) / 1024  # each number once
    dataset = import_dataset(states, tmp_path / "a.h5", step=1.0)
    on_disk.setattr("vpintegrator.data.sampled._LONG", 32)
    data, model = TrainingData(dataset), models.ResidualNetwork(dim=3, width=4)
    pairs, parts = data.pairs(model), data._sampled("train").parts
    known = dataset.states("train").reshape(-1, 3)
    for count in (10, 1000, len(pairs) - 1, 2 * len(pairs)):
        inputs, targets = pairs.sample(count, torch.Generator().manual_seed(0))
        assert len(inputs) == min(count, len(pairs)) == len(inputs[:, 0, 0].unique())
        assert torch.equal(targets, inputs + 3 / 1024)  # the state after it
        assert np.isin(inputs[:, 0, 0].numpy(), known[:, 0]).all()
        if count <= 1000:
            read = sum(part.size for part in parts)
            assert 6 * count <= read < max(1 << 10, 24 * count)


class Counted:
    """States on disk that count how many numbers are read of them."""

    def __init__(self, state, group, read):
        self.state, self.group, self.read = state, group, read
        self.shape, self.chunks = state.shape, state.chunks

    def __getitem__(self, key):
        found = self.state[key]
        self.read[self.group] += found.size
        return found


@pytest.mark.parametrize("name", ["levenberg-marquardt", "l-bfgs"])
def test_training_reads_as_much_as_it_needs(tmp_path, one_step, on_disk, name):
    dataset = generate("rigid-body", tmp_path / "a.h5", count=3000, steps=20)
    read, original = dict.fromkeys(dataset.shapes, 0), Dataset.open_states

    @contextmanager
    def open_states(self, group):
        with original(self, group) as state:
            yield Counted(state, group, read)

    on_disk.setattr(Dataset, "open_states", open_states)
    options = {"optimizer": name, "epochs": 3, "batch": 100, "compiled": False}
    assert train(one_step(), dataset, **options).best_validation_error < 0.1
    for group, shape in dataset.shapes.items():
        assert 0 < read[group] < np.prod(shape) / 8


def test_an_epoch_of_a_first_order_method_is_bounded(body, one_step, on_disk):
    on_disk.setattr("vpintegrator.training.optimizers.torch_optimizers._EPOCH", 200)
    seen, original = [], type(one_step()).forward

    def forward(self, states):
        if self.training:
            seen.append(len(states))
        return original(self, states)

    on_disk.setattr(type(one_step()), "forward", forward)
    train(one_step(), body, optimizer="adam", epochs=2, batch=100, compiled=False)
    assert seen == [100] * 4


def test_fitting_orbits_reads_a_part_of_a_large_group(body, on_disk):
    on_disk.setattr("vpintegrator.training.orbits.IN_MEMORY", 1 << 12)
    rows = -(-(1 << 12) // (24 * body.shapes["train"][1]))
    found = orbits._segments(body, "train", 5, 3, 10**6)
    assert len(found) == rows * ((body.shapes["train"][1] - 1) // 5)


def test_batches_from_the_file_train_as_well(body, one_step, on_disk):
    options = {"optimizer": "adam", "epochs": 8, "batch": 100}
    assert train(one_step(), body, **options).best_validation_error < 0.05


@pytest.mark.thorough
def test_a_search_reads_once_and_is_tested_at_its_end(body, one_step, monkeypatch):
    reads, original = [], Dataset.states

    def states(self, group, *arguments):
        reads.append(group)
        return original(self, group, *arguments)

    monkeypatch.setattr(Dataset, "states", states)

    def make(arguments):
        return type(one_step())(dim=3, **arguments)

    options = {"progress": False, "compiled": False}
    found = find_functions(make, body, Budget(None, 100), **options)
    assert reads == ["train"]
    assert len(found.tried) > 1
    assert 0 < found.history.test_error < 1
    told = json.loads(found.model.metadata["training"])
    assert told["test_error"] == found.history.test_error
