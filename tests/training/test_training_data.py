"""What training reads of a dataset: the same from memory and from the file, part by part."""

import json

import numpy as np
import pytest
import torch

from vpintegrator import models
from vpintegrator.data import Dataset, generate, import_dataset
from vpintegrator.dynamics.region import Region
from vpintegrator.training import Budget, find_functions, train, training_data
from vpintegrator.training.training_data import TrainingData

from .conftest import weights


@pytest.fixture
def on_disk(monkeypatch):
    """Nothing fits into memory, and parts are small."""
    monkeypatch.setattr(training_data, "IN_MEMORY", 0)
    monkeypatch.setattr(training_data, "_PART", 1 << 11)
    monkeypatch.setattr("vpintegrator.data.loading._BLOCK_BYTES", 1 << 9)
    monkeypatch.setattr("vpintegrator.data.loading._BUFFER_BYTES", 1 << 12)
    return monkeypatch


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    path = tmp_path_factory.mktemp("gaps") / "a.h5"
    return generate("rigid-body", path, count=60, steps=12, observation={"missing": 0.1})


@pytest.mark.parametrize("missing", [False, True])
def test_statistics_part_by_part(body, gaps, on_disk, missing):
    dataset, model = (gaps if missing else body), models.ResidualNetwork(dim=3, width=4)
    data, states = TrainingData(dataset), dataset.states("train")
    data.normalise(model)
    data.describe(model)
    np.testing.assert_allclose(model.shift, np.nanmean(states, (0, 1)), rtol=1e-12, atol=1e-15)
    powers = 2.0 ** np.round(np.log2(np.nanstd(states, (0, 1))))
    np.testing.assert_array_equal(model.scale, powers)
    assert model.metadata["region"] == Region.of_states(states, dataset.system).text


def test_a_component_that_is_never_observed_in_a_part(tmp_path, on_disk):
    states = np.random.default_rng(0).normal(size=(80, 9, 2))
    states[:40, :, 1] = np.nan
    data = import_dataset(states, tmp_path / "a.h5", step=1.0, missing=True)
    moments, _ = TrainingData(data)._statistics
    train_states = data.states("train")
    np.testing.assert_allclose(moments.mean, np.nanmean(train_states, (0, 1)), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation, np.nanstd(train_states, (0, 1)), rtol=1e-12)


@pytest.mark.parametrize("name", ["levenberg-marquardt", "gauss-newton", "l-bfgs"])
def test_a_subset_is_the_same_from_the_file(body, one_step, on_disk, name):
    options = {"optimizer": name, "epochs": 3, "batch": 100, "normalise": False}
    found = one_step()
    error = train(found, body, **options).test_error
    on_disk.undo()
    expected = one_step()
    assert train(expected, body, **options).test_error == error
    assert torch.equal(weights(found), weights(expected))


def test_batches_from_the_file_train_and_resume_as_well(body, one_step, on_disk, tmp_path):
    options = {"optimizer": "adam", "epochs": 8, "batch": 100, "checkpoint": tmp_path / "c"}
    whole, cut = one_step(), one_step()
    assert train(whole, body, **options).best_validation_error < 0.05

    def interrupt(history):
        if history.epochs == 3:
            raise KeyboardInterrupt

    train(cut, body, **options, progress=interrupt)
    train(cut, body, **options, resume=True)
    assert torch.equal(weights(cut), weights(whole))


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
