"""Parameters that nobody wrote down, found with the map by variable projection."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models.hidden_parameter import HiddenParameterMap
from vpintegrator.training.hidden_parameter import find_hidden
from vpintegrator.training.training_data import TrainingData


def turning(count, steps=12, seed=0):
    """Orbits of rotations, each with a frequency of its own, and these frequencies."""
    generator = np.random.default_rng(seed)
    frequency = generator.uniform(0.5, 1.5, count)
    angle = generator.uniform(0, 2 * np.pi, count)[:, None]
    phase = angle + 0.2 * frequency[:, None] * np.arange(steps + 1)
    size = generator.uniform(0.5, 1.5, count)[:, None]
    return np.stack([size * np.cos(phase), size * np.sin(phase)], -1), frequency


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    states, _ = turning(60)
    path = tmp_path_factory.mktemp("hidden") / "turning.h5"
    return vp.import_dataset(states, path, step=0.2)


def test_the_parameters_are_those_of_the_orbits(data):
    """But for the units, which nobody can know, and what orbits conserve."""
    training = TrainingData(data)
    model = HiddenParameterMap(2, degree=2, order=5, window=6)
    training.normalise(model)
    found = find_hidden(model, training)
    states = data.states("train")
    phase = np.unwrap(np.arctan2(states[..., 1], states[..., 0]))
    frequency = phase[:, -1] - phase[:, 0]
    assert abs(spearmanr(found.values, frequency).statistic) > 0.99
    told = model.hidden_parameter(states[:, :6])
    np.testing.assert_allclose(told, found.values, atol=1e-4)
    assert found.fit.error < 1e-5 < 0.01 < found.without


def test_the_default_finds_them(data):
    """Linear maps of a parameter; two observations have no polynomial of as small an error."""
    fit = vp.fit(turning(60)[0], step=0.2, seconds=20)
    assert "hidden parameter" in fit.model.remark
    assert fit.windows[1] > 0.01 > 1e-6 > fit.error
    fresh, _ = turning(10, 60, seed=1)
    window = fit.model.window
    orbits = vp.rollout(fit.model, fresh[:, :window], 50)
    assert abs(orbits - fresh[:, : orbits.shape[1]]).max() < 1e-4


def test_a_model_of_given_size_is_solved_and_saved(data, tmp_path):
    model = vp.models.build(data.system, "hidden-parameter", {"degree": 3, "window": 4})
    history = vp.train(model, data)
    assert history.optimizer == "linear" and history.best_validation_error < 1e-2
    vp.save(model, tmp_path / "model.safetensors")
    again = vp.load(tmp_path / "model.safetensors")
    states = data.states("test")[:, :4]
    np.testing.assert_array_equal(again.map(states), model.map(states))
    np.testing.assert_array_equal(again.hidden_parameter(states), model.hidden_parameter(states))


def test_orbits_alike_have_no_parameter():
    """Noise is no parameter: the kind gives up, and another is taken."""
    states, _ = turning(60)
    same = np.stack([states[0]] * 60)
    same = same + 0.01 * np.random.default_rng(0).normal(size=same.shape)
    fit = vp.fit(same, step=0.2, seconds=10)
    assert "hidden parameter" not in fit.model.remark


def test_too_many_terms_are_refused_in_a_sentence():
    """The kind gives up: there is no map of so few coefficients."""
    kind = replace(vp.training.search("hidden-parameter"), coefficients=5)
    with pytest.raises(InputError, match="no model has learned anything"):
        vp.fit(turning(60)[0], [kind], step=0.2, seconds=10)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (turning(8)[0], "10 or more complete orbits"),
        (turning(40, 2)[0], "orbits of 4 states"),
        (turning(16, 4)[0], "too few for"),
    ],
)
def test_too_few_orbits(states, words, tmp_path):
    dataset = vp.import_dataset(states, tmp_path / "few.h5", step=0.2)
    training = TrainingData(dataset)
    model = HiddenParameterMap(2, degree=6)
    training.normalise(model)
    with pytest.raises(InputError, match=words):
        find_hidden(model, training)
