"""Maps that are far from the identity, by segments of the way."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import fits_of
from vpintegrator import models
from vpintegrator.dynamics.solve import states_between
from vpintegrator.models.growth import attention
from vpintegrator.training import Budget, Couplings, TrainingOptions
from vpintegrator.training.kinds.kind import count
from vpintegrator.training.kinds.shooting import shooting_start
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.results import best
from vpintegrator.training.train import optimise
from vpintegrator.training.training_data import TrainingData

RING = """
title = "Ring"
state = ["q", "p"]
iterations = 40
[[map]]
p = "p - (q + q**3)/20"
[[map]]
q = "q + p/10"
[initial_conditions]
distribution = "uniform"
low = [-0.6, -0.6]
high = [0.6, 0.6]
"""


def builder(data, name="auto", reversible=None, **options):
    """A function that returns the untrained model of a depth."""

    def build(depth):
        arguments = {"functions": "polynomial", "degree": 8, "depth": depth, **options}
        model = models.build(data.dataset.system, name, arguments, reversible=reversible, seed=0)
        data.normalise(model)
        return model

    return build


def learn(part, data):
    options = TrainingOptions(initial_scheme="none", normalise=False, compiled=False)
    return optimise(part, data, Budget(epochs=40), options, patience=10)


def dataset(tmp_path, text, step):
    return vp.generate(text, tmp_path / "a.h5", count=150, steps=1, step=step)


@pytest.mark.parametrize(
    "text, step, options",
    [
        ("pendulum", 4.0, {}),
        ("forced-duffing", None, {"degree": 4, "reversible": False}),
        (RING, 1.0, {}),
        ("rigid-body", 4.0, {}),
    ],
)
def test_segments_learned_one_by_one_are_near_the_whole_map(tmp_path, text, step, options):
    data = TrainingData(dataset(tmp_path, text, step), equations=True)
    model = shooting_start(builder(data, **options), data, learn)
    pairs = data.held_out(model)
    plain = builder(data, **(options | {"degree": 4}))(model.arguments["depth"])
    assert relative_error(model, *pairs) < min(0.2 * relative_error(plain, *pairs), 0.2)
    assert "segments" in model.choices[-1]


def test_layers_are_those_of_the_model_itself(tmp_path):
    data = TrainingData(dataset(tmp_path, "pendulum", 4.0), equations=True)
    seen = []

    def note(part, data):
        seen.append((part, count(part)))

    model = shooting_start(builder(data), data, note)
    assert sum(number for _, number in seen) == count(model)
    z = torch.rand(5, 1, 2, dtype=torch.float64)
    psi = z
    for part, _ in seen:
        psi = part(psi)
    expected = model.coordinates.inverse(model.core.psi(model.coordinates(z)))
    torch.testing.assert_close(psi, expected, rtol=1e-13, atol=1e-13)


def test_nothing_is_begun_of_measured_or_several_states_or_that_is_too_large(tmp_path):
    states = np.random.default_rng(0).normal(size=(20, 2, 2))
    measured = TrainingData(vp.import_dataset(states, tmp_path / "m.h5", step=1.0))
    assert shooting_start(builder(measured), measured, learn) is None
    short = vp.load_system(RING.replace("40", "2"))
    assert states_between(short, states[:, 0], 1.0, 8) is None
    body = vp.generate("rigid-body", tmp_path / "a.h5", count=9, steps=4, step=4.0)
    data = TrainingData(body, equations=True)
    assert shooting_start(lambda depth: None, data, learn) is None
    several = builder(data, "vpt", window=2, prediction_window=2, degree=2)
    assert shooting_start(several, data, learn) is None


@pytest.mark.thorough
def test_growth_begins_with_segments_where_nothing_else_leads_to_the_map(tmp_path):
    fits = fits_of(Couplings(), dataset(tmp_path, RING, 1.0), epochs=250)
    assert best(fits).error < 1e-3
    assert any("segments" in line for line in best(fits).model.choices)


@pytest.mark.parametrize("name", ["vpt", "vpmt"])
def test_attention_has_no_part_in_segments(tmp_path, name):
    body = vp.generate("rigid-body", tmp_path / "a.h5", count=60, steps=2, step=4.0)
    data = TrainingData(body, equations=True)

    def note(part, data):
        assert part.window == 1
        assert part(data.pairs(part).evenly(3)[0]).shape == (3, 1, 3)

    sizes = {"window": 2, "prediction_window": 1, "degree": 2}
    model = shooting_start(builder(data, name, **sizes), data, note)
    assert "segments" in model.choices[-1]
    drawn = builder(data, name, **sizes)(model.arguments["depth"])
    for layer, new in zip(attention(model), attention(drawn), strict=True):
        assert all(map(torch.equal, layer.parameters(), new.parameters()))
