"""Families whose conditions change from step to step."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.data import ExtendedDataset
from vpintegrator.errors import InputError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("driven") / "family.h5"
    data = vp.generate("pendulum", path, count=24, steps=1, vary={"step": [0.01, 0.3], "g": [1, 2]})
    torch.manual_seed(0)
    sizes = {"functions": "polynomial", "degree": 3, "depth": 2}
    model = vp.models.build(ExtendedDataset(data).system, **sizes)
    vp.train(model, data, epochs=5, progress=False, compiled=False)
    return model


def test_each_step_is_that_of_its_conditions(model):
    generator = np.random.default_rng(0)
    z = generator.normal(size=(3, 2))
    steps, g = generator.uniform(0.05, 0.3, 6), generator.uniform(1, 2, (3, 6))
    states = vp.rollout.rollout_driven(model, z, {"step": steps, "g": g})
    assert states.shape == (3, 7, 2)
    for n in range(3):
        state = torch.from_numpy(z[n : n + 1])
        for i in range(6):
            with torch.no_grad():
                state = model.at(step=steps[i], g=g[n, i])(state)
            np.testing.assert_allclose(states[n, i + 1], state[0], atol=1e-13)


def test_machine_code_gives_the_same(model):
    z = np.random.default_rng(0).normal(size=(3, 2))
    conditions = {"step": np.linspace(0.05, 0.3, 9), "g": 1.5}
    eager = vp.rollout.rollout_driven(model, z, conditions, compiled=False)
    compiled = vp.rollout.rollout_driven(model, z, conditions, compiled=True)
    np.testing.assert_allclose(compiled, eager, atol=1e-13)


@pytest.mark.parametrize(
    "initial, conditions, message",
    [
        (np.zeros((2, 2)), {"step": 0.1}, "values for each step"),
        (np.zeros((2, 2)), {"step": [0.1, 0.2], "g": [1, 1, 1]}, "not for 2, 3"),
        (np.zeros((2, 2)), {"step": np.ones((3, 4))}, "must have the shape"),
        (np.zeros(2), {"step": [0.1]}, "initial states"),
        (np.zeros((2, 2)), {"g": [1.0]}, "needs a value of step"),
        (np.zeros((2, 2)), {"step": [0.1], "h": [1.0]}, "h is no condition"),
    ],
)
def test_what_is_wrong_is_said(model, initial, conditions, message):
    with pytest.raises(InputError, match=message):
        vp.rollout.rollout_driven(model, initial, conditions)
