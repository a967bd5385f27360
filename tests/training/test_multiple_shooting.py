"""Maps that are far from the identity, by segments of the way."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import fits_of
from vpintegrator import models
from vpintegrator.data.pairs import Pairs
from vpintegrator.dynamics.solve import states_between
from vpintegrator.models.growth import attention
from vpintegrator.training import Couplings
from vpintegrator.training.kinds.shooting import shooting_start
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.results import best
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
FORCED = """
title = "Forced"
state = ["q", "p"]
time = "t"
period = "2*pi"
hamiltonian = "p**2/2 + q**2/2 + q**4/8 - q*cos(t)/10"
[[reversing_symmetry]]
p = "-p"
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
    options = {"initial_scheme": "none", "normalise": False, "compiled": False, "progress": False}
    return vp.train(part, data, epochs=40, patience=10, judged=False, **options)


def dataset(tmp_path, text, step):
    return vp.generate(text, tmp_path / "a.h5", count=150, steps=1, step=step)


@pytest.mark.parametrize(
    "text, step, options",
    [
        ("pendulum", 4.0, {}),
        (FORCED, 4.0, {"degree": 4, "reversible": False}),
        (RING, 1.0, {}),
        ("rigid-body", 4.0, {}),
    ],
)
def test_segments_learned_one_by_one_are_near_the_whole_map(tmp_path, text, step, options):
    data = TrainingData(dataset(tmp_path, text, step))
    model = shooting_start(builder(data, **options), data, learn)
    pairs = data.held_out(model)
    plain = builder(data, **(options | {"degree": 4}))(model.arguments["depth"])
    assert relative_error(model, *pairs) < min(0.2 * relative_error(plain, *pairs), 0.2)
    assert "segments" in model.choices[-1]


def test_layers_are_those_of_the_model_itself(tmp_path):
    data = TrainingData(dataset(tmp_path, "pendulum", 4.0))
    seen = []

    def note(part, data):
        seen.append((part, data.pairs(part), sum(p.numel() for p in part.parameters())))

    model = shooting_start(builder(data), data, note)
    assert sum(count for _, _, count in seen) == sum(p.numel() for p in model.parameters())
    z = torch.rand(5, 1, 2, dtype=torch.float64)
    psi = z
    for part, pairs, _ in seen:
        assert isinstance(pairs, Pairs)
        psi = part(psi)
    expected = model.coordinates.inverse(model.core.psi(model.coordinates(z)))
    torch.testing.assert_close(psi, expected, rtol=1e-13, atol=1e-13)


def test_measured_states_have_no_segments(tmp_path):
    states = np.random.default_rng(0).normal(size=(20, 2, 2))
    measured = TrainingData(vp.data.import_dataset(states, tmp_path / "m.h5", step=1.0))
    assert shooting_start(builder(measured), measured, learn) is None
    assert states_between(measured.dataset.system, states[:, 0], 1.0, 4) is None
    short = vp.load_system(RING.replace("40", "2"))
    assert states_between(short, states[:, 0], 1.0, 8) is None


def test_nothing_is_begun_that_is_too_large_or_predicts_several_states(tmp_path):
    data = TrainingData(vp.generate("rigid-body", tmp_path / "a.h5", count=9, steps=4, step=4.0))
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
    data = TrainingData(vp.generate("rigid-body", tmp_path / "a.h5", count=60, steps=2, step=4.0))

    def note(part, data):
        assert part.window == 1
        assert part(data.pairs(part).evenly(3)[0]).shape == (3, 1, 3)

    model = shooting_start(builder(data, name, window=2, degree=2), data, note)
    assert "segments" in model.choices[-1]
    drawn = builder(data, name, window=2, degree=2)(model.arguments["depth"])
    for layer, new in zip(attention(model), attention(drawn), strict=True):
        assert all(map(torch.equal, layer.parameters(), new.parameters()))
