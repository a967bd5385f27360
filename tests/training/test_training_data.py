"""What training reads of a dataset: the same from memory and from the file, part by part."""

import numpy as np
import pytest

from vpintegrator import models
from vpintegrator.data import Dataset, import_dataset
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.training import TrainingOptions, fit, search, train, training_data
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def small(monkeypatch):
    """Little fits into memory."""
    monkeypatch.setattr(training_data, "IN_MEMORY", 1 << 12)


def test_a_part_of_a_large_group_is_read(body, small):
    data, model = TrainingData(body), models.ResidualNetwork(dim=3, width=4)
    states = data.held("train")
    assert 0 < states.nbytes <= 1 << 12
    every = -(-body.shapes["train"][0] // 24)
    np.testing.assert_array_equal(states, body.states("train")[::every])
    data.normalise(model)
    data.describe(model)
    np.testing.assert_allclose(model.shift, states.mean((0, 1)), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(model.scale, 2.0 ** np.round(np.log2(states.std((0, 1)))))
    assert model.domain == Domain.of_states(states, body.system)


def test_the_beginning_of_a_long_trajectory_is_read(tmp_path, small):
    states = np.random.default_rng(0).normal(size=(3, 4000, 3))
    data = TrainingData(import_dataset(states, tmp_path / "a.h5", step=1.0))
    whole = data.dataset.states("train")
    np.testing.assert_array_equal(data.held("train"), whole[:1, : (1 << 12) // 24])


def test_an_epoch_of_a_first_order_method_is_bounded(body, one_step, monkeypatch):
    monkeypatch.setattr("vpintegrator.training.optimizers.Adam.longest", 200)
    seen, original = [], type(one_step()).forward

    def forward(self, states):
        if self.training:
            seen.append(len(states))
        return original(self, states)

    monkeypatch.setattr(type(one_step()), "forward", forward)
    train(one_step(), body, optimizer="adam", epochs=2, batch=100, compiled=False)
    assert seen == [100] * 4


@pytest.mark.thorough
def test_a_fit_reads_once_and_is_tested_at_its_end(body, monkeypatch):
    reads, original = [], Dataset.states

    def states(self, group, *arguments):
        reads.append(group)
        return original(self, group, *arguments)

    monkeypatch.setattr(Dataset, "states", states)
    found = fit(body, [search("vpff", training=TrainingOptions(compiled=False))], epochs=100)
    assert reads == ["train", "train", "validation", "test"]  # a few states judge the structure
    assert len(found.tried) > 1
    assert 0 < found.history.test_error < 1
